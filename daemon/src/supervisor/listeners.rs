//! The listening sockets of the fleet.
//!
//! It owns one `SO_REUSEPORT` socket for each TCP address and seat, and the Unix socket that all workers
//! share. They are opened once and never closed while the fleet runs, since a queued connection is lost with its
//! socket. `act` hands out copies of them by seat.

mod address;
mod defer;
mod unix;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use pgfleet_config::{Settings, Workers};
use socket2::{Domain, Protocol, Socket, Type};

use self::defer::Deferral;
use self::unix::UnixSocket;
use super::runtime_dir::RuntimeDirError;
use super::seats::Seat;
use crate::link::message::ListenerKind;

pub(crate) use unix::{Access, Place, bind as bind_unix, remove as remove_unix};

/// Why the fleet cannot listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error(
        "cannot find address {name} of listen_addr: {source}; write an IP address, or a name that resolves"
    )]
    Resolve { name: String, source: io::Error },
    #[error(
        "cannot bind {address}: address already in use; stop what listens there, or set another listen_port or listen_addr"
    )]
    InUse { address: String },
    #[error("cannot bind {address}: {source}; check listen_addr and listen_port")]
    Bind { address: String, source: io::Error },
    #[error(
        "cannot bind {path}: a process listens there already; stop it, or set another listen_port or unix_socket_dir"
    )]
    SocketInUse { path: PathBuf },
    #[error(
        "cannot bind {path}: there is a file that is no socket; remove it, or set another unix_socket_dir"
    )]
    NotASocket { path: PathBuf },
    #[error(
        "cannot bind {path}: {source}; check its directory, unix_socket_mode and unix_socket_group"
    )]
    Socket { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Path(#[from] RuntimeDirError),
}

/// One socket for a worker.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) id: u32,
    pub(crate) kind: ListenerKind,
    pub(crate) address: String,
    pub(crate) socket: OwnedFd,
}

/// Whether sockets for all possible workers are bound at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// The kernel lets only the user that bound a port bind it again, so root binds for all later workers.
    All,
    /// More are bound when they are needed.
    None,
}

/// All sockets of one address.
#[derive(Debug)]
struct Group {
    address: SocketAddr,
    /// One for each seat; only the first `listening` take connections.
    sockets: Vec<Socket>,
    listening: usize,
}

/// The listening sockets.
#[derive(Debug)]
pub(crate) struct Listeners {
    groups: Vec<Group>,
    unix: Option<UnixSocket>,
    backlog: i32,
    deferral: Deferral,
}

impl Listeners {
    /// Binds everything that the settings ask for; nothing listens yet but the Unix socket.
    pub(crate) fn bind(
        settings: &Settings,
        runtime: &Path,
        spare: Spare,
    ) -> Result<Self, ListenError> {
        let backlog = i32::try_from(settings.global.listen_backlog).unwrap_or(i32::MAX);
        let mut groups = Vec::new();
        for address in address::all(&settings.global.listen_addr, settings.global.listen_port)? {
            match probe(address.socket) {
                Ok(()) => groups.push(Group {
                    address: address.socket,
                    sockets: Vec::new(),
                    listening: 0,
                }),
                Err(ListenError::Bind { source, .. }) if address.optional && is_absent(&source) => {
                    log::info!("not listening on {}: the system has no IPv6", address.socket);
                }
                Err(error) => return Err(error),
            }
        }
        if spare == Spare::All {
            for group in &mut groups {
                for _ in 0..Workers::MOST {
                    group.sockets.push(tcp(group.address, Reuse::Port)?);
                }
            }
        }
        let unix =
            unix::of(settings, runtime)?.map(|place| unix::bind(place, backlog)).transpose()?;
        let deferral = Deferral::of(settings.global.tcp_defer_accept);
        Ok(Self { groups, unix, backlog, deferral })
    }

    /// Follows `tcp_defer_accept`, also on the sockets that listen already.
    pub(crate) fn defer(&mut self, tcp_defer_accept: bool) {
        let deferral = Deferral::of(tcp_defer_accept);
        if std::mem::replace(&mut self.deferral, deferral) == deferral {
            return;
        }
        for group in &self.groups {
            for socket in group.sockets.iter().take(group.listening) {
                defer(socket, deferral);
            }
        }
    }

    /// Copies of the sockets of a seat, which listen from now on.
    pub(crate) fn copies(&mut self, seat: Seat) -> Result<Vec<Copy>, ListenError> {
        match seat {
            Seat::Unix => self.unix.iter().map(UnixSocket::copy).collect(),
            Seat::Tcp(number) => self.tcp_copies(usize::from(number)),
        }
    }

    fn tcp_copies(&mut self, number: usize) -> Result<Vec<Copy>, ListenError> {
        let width = self.groups.len();
        let (backlog, deferral) = (self.backlog, self.deferral);
        let mut copies = Vec::new();
        for (column, group) in self.groups.iter_mut().enumerate() {
            let socket = group.listen(number, backlog, deferral)?;
            copies.push(Copy {
                id: id(number, column, width),
                kind: ListenerKind::Tcp,
                address: group.address.to_string(),
                socket,
            });
        }
        Ok(copies)
    }

    /// The numbers under which workers know the sockets of a seat.
    pub(crate) fn ids(&self, seat: Seat) -> Vec<u32> {
        match seat {
            Seat::Unix => self.unix.iter().map(|_| unix::ID).collect(),
            Seat::Tcp(number) => {
                let width = self.groups.len();
                (0..width).map(|column| id(usize::from(number), column, width)).collect()
            }
        }
    }

    /// Where clients can connect, for the log and for `ready`.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let tcp = self.groups.iter().map(|group| group.address.to_string());
        tcp.chain(self.unix.iter().map(|unix| unix.address().to_owned())).collect()
    }

    /// The fleet ends: closes everything, so that new connections are refused.
    pub(crate) fn close(&mut self) {
        self.close_tcp();
        if let Some(unix) = self.unix.take() {
            unix.close();
        }
    }

    /// The Unix socket stays open while the fleet shuts down: who comes there is told so.
    pub(crate) fn close_tcp(&mut self) {
        // A worker may hold a copy for a moment longer; only this stops the queue at once.
        for socket in
            self.groups.iter().flat_map(|group| group.sockets.iter().take(group.listening))
        {
            if let Err(error) = socket.shutdown(std::net::Shutdown::Both) {
                log::debug!("cannot stop a listener: {error}");
            }
        }
        self.groups.clear();
    }
}

impl Group {
    /// A copy of the socket of this seat, which listens from now on.
    fn listen(
        &mut self,
        number: usize,
        backlog: i32,
        deferral: Deferral,
    ) -> Result<OwnedFd, ListenError> {
        let failed = |source| ListenError::Bind { address: self.address.to_string(), source };
        while self.sockets.len() <= number {
            self.sockets.push(tcp(self.address, Reuse::Port)?);
        }
        while self.listening <= number {
            if let Some(socket) = self.sockets.get(self.listening) {
                defer(socket, deferral);
                socket.listen(backlog).map_err(failed)?;
            }
            self.listening += 1;
        }
        let socket =
            self.sockets.get(number).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        socket.as_fd().try_clone_to_owned().map_err(failed)
    }
}

/// A kernel that refuses it hands over at once, which is no reason not to listen.
fn defer(socket: &Socket, deferral: Deferral) {
    if let Err(error) = deferral.apply(socket) {
        log::warn!("tcp_defer_accept has no effect: {error}");
    }
}

/// Numbers count from 1 across addresses; 0 is the Unix socket.
fn id(number: usize, column: usize, width: usize) -> u32 {
    u32::try_from(number * width + column + 1).unwrap_or(u32::MAX)
}

/// With `SO_REUSEPORT` a port that another fleet of the same user has is shared in silence, so it is
/// tried once without.
fn probe(address: SocketAddr) -> Result<(), ListenError> {
    let socket = tcp(address, Reuse::Nothing)?;
    socket.listen(1).map_err(|source| bind_error(address, source))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Nothing,
    Port,
}

fn tcp(address: SocketAddr, reuse: Reuse) -> Result<Socket, ListenError> {
    let open = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if reuse == Reuse::Port {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    open().map_err(|source| bind_error(address, source))
}

fn bind_error(address: SocketAddr, source: io::Error) -> ListenError {
    let address = address.to_string();
    if source.kind() == io::ErrorKind::AddrInUse {
        ListenError::InUse { address }
    } else {
        ListenError::Bind { address, source }
    }
}

fn is_absent(error: &io::Error) -> bool {
    let absent = [nix::libc::EAFNOSUPPORT, nix::libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|errno| absent.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn settings(port: u16) -> Settings {
        let mut settings = Settings::default();
        settings.global.listen_addr = vec!["127.0.0.1".to_owned()];
        settings.global.listen_port = port;
        settings.global.unix_socket_dir = Some(PathBuf::from("auto"));
        settings
    }

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_port_in_use_is_named_with_the_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let runtime = tempfile::tempdir().unwrap();
        let error =
            Listeners::bind(&settings(port), runtime.path(), Spare::None).unwrap_err().to_string();
        assert!(
            error.contains(&format!("127.0.0.1:{port}: address already in use; stop")),
            "{error}"
        );
    }

    #[test]
    fn every_seat_has_its_own_socket_and_a_queue() {
        let runtime = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut listeners = Listeners::bind(&settings(port), runtime.path(), Spare::None).unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        let first = listeners.copies(Seat::Tcp(0)).unwrap();
        let second = listeners.copies(Seat::Tcp(1)).unwrap();
        assert_ne!(first[0].id, second[0].id);
        assert_eq!(listeners.ids(Seat::Tcp(1)), [second[0].id]);
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
        listeners.close();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }

    #[test]
    fn a_live_unix_socket_is_refused_and_a_stale_one_replaced() {
        let runtime = tempfile::tempdir().unwrap();
        let settings = settings(free_port());
        let mut first = Listeners::bind(&settings, runtime.path(), Spare::None).unwrap();
        assert!(matches!(
            Listeners::bind(&settings, runtime.path(), Spare::None),
            Err(ListenError::SocketInUse { .. })
        ));
        first.unix = None;
        assert!(Listeners::bind(&settings, runtime.path(), Spare::None).is_ok());
    }
}
