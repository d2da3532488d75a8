//! Opening a connection to Postgres, without waiting.
//!
//! The permit has been taken; a copy of the descriptor goes to the supervisor at once, so that the
//! backend can be ended even if this worker is killed in the next instant.

use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

use log::{debug, warn};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, connect, getsockopt, socket,
    sockopt::SocketError,
};
use pgfleet_wire::startup::Replication;
use pgfleet_wire::tracker::Tracker;

use super::address::{Address, Sockaddr};
use super::retire::Lost;
use super::{Phase, Server};
use crate::link::message::{ServerCopy, ToSupervisor};
use crate::worker::ids::{PoolId, ServerId};
use crate::worker::io::Interest;
use crate::worker::outbox::Outbox;
use crate::worker::pool::backoff::Failed;
use crate::worker::state::Worker;

/// Whether a connect is done.
pub(crate) enum Connect {
    Done,
    UnderWay,
}

impl Worker {
    /// Connects to one address for a pool that has the permit.
    pub(crate) fn open_server(&mut self, pool: PoolId, host: Rc<str>, address: Address) {
        let address = Rc::new(address);
        match dial(&address) {
            Ok((fd, state)) => self.opened_server(pool, (host, address), fd, &state),
            Err(error) => {
                let reason = format!("cannot connect to {address}: {error}");
                self.never_opened(pool, (&host, address.ip()), "connect failed", &reason);
            }
        }
    }

    /// The permit goes back: there is no backend. Clients are told `text`, the log `reason`.
    pub(crate) fn never_opened(
        &mut self,
        id: PoolId,
        place: (&str, Option<IpAddr>),
        text: &str,
        reason: &str,
    ) {
        self.give_up_opening(id);
        warn!("{reason}");
        self.login_failed(id, place, Failed::Connect, text, None);
    }

    /// The permit goes back.
    pub(crate) fn give_up_opening(&mut self, id: PoolId) {
        if let Some(pool) = self.pools.get_mut(id) {
            pool.opening = pool.opening.saturating_sub(1);
            pool.servers = pool.servers.saturating_sub(1);
            let keys = pool.limit_keys();
            self.permits.give_back(&keys);
        }
    }

    fn opened_server(
        &mut self,
        pool: PoolId,
        (host, address): (Rc<str>, Rc<Address>),
        fd: OwnedFd,
        state: &Connect,
    ) {
        if matches!(*address, Address::Tcp(_)) {
            crate::worker::socket::tune(&fd, &self.settings.global);
        }
        let copy = fd.try_clone().ok();
        let nothing = self.vars.intern(vec![None; self.tracked.len()]);
        let serial = self.next_serial();
        let entry = self.servers.vacant_entry();
        let id = ServerId { index: u32::try_from(entry.key()).unwrap_or(u32::MAX), serial };
        let interest = Interest { read: false, write: true };
        let server = Server {
            id,
            fd,
            pool,
            phase: Phase::Connecting,
            interest,
            tracker: Tracker::new(),
            input: Vec::new(),
            body_left: 0,
            swallowing: false,
            outbox: Outbox::default(),
            client: None,
            replication: Replication::None,
            vars: Rc::clone(&nothing),
            defaults: nothing,
            unnamed_of: None,
            unnamed_in_batch: false,
            mid_message: false,
            host,
            address,
            backend: None,
            opened: self.now,
            since: self.now,
            cancels: 0,
            round: Rc::new(Cell::new(0)),
            close_needed: false,
            refused: false,
            check_failed: false,
            explained: false,
            unsettled: false,
            unwatched: false,
        };
        let watched = self.io.add(server.fd.as_fd(), server.token(), interest);
        entry.insert(server);
        if let Some(pool) = self.pools.get(pool) {
            let said = ServerCopy {
                server: id.number(),
                database: pool.name.clone(),
                user: pool.user.clone(),
            };
            self.say(&ToSupervisor::Opened(said), copy);
        }
        match (watched, state) {
            (Err(error), _) => self.server_lost(id, Lost::Ended, &error.to_string()),
            (Ok(()), Connect::Done) => self.connected(id),
            (Ok(()), Connect::UnderWay) => {}
        }
    }

    /// The kernel says that a connect has ended.
    pub(crate) fn connect_ended(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        match getsockopt(&server.fd, SocketError) {
            Ok(0) => self.connected(id),
            Ok(code) => {
                let reason = Errno::from_raw(code).desc().to_owned();
                self.server_lost(id, Lost::Ended, &reason);
            }
            Err(error) => self.server_lost(id, Lost::Ended, error.desc()),
        }
    }

    fn connected(&mut self, id: ServerId) {
        self.server_interest(id, Some(true), Some(false));
        if let Some(server) = self.server(id) {
            debug!("{server} connected");
        }
        self.begin_server_login(id);
    }
}

/// Begins to connect, without waiting; a cancel request uses it too.
///
/// # Errors
/// What the kernel refuses at once, and an address that does not fit.
pub(crate) fn dial(address: &Address) -> io::Result<(OwnedFd, Connect)> {
    let sockaddr = address.sockaddr()?;
    let (family, target): (_, &dyn AsSockaddr) = match &sockaddr {
        Sockaddr::V4(target) => (AddressFamily::Inet, target),
        Sockaddr::V6(target) => (AddressFamily::Inet6, target),
        Sockaddr::Unix(target) => (AddressFamily::Unix, target),
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None)?;
    match target.connect(&fd) {
        Ok(()) => Ok((fd, Connect::Done)),
        Err(Errno::EINPROGRESS) => Ok((fd, Connect::UnderWay)),
        Err(error) => Err(error.into()),
    }
}

/// The three kinds of address connect alike.
trait AsSockaddr {
    fn connect(&self, fd: &OwnedFd) -> nix::Result<()>;
}

impl<T: SockaddrLike> AsSockaddr for T {
    fn connect(&self, fd: &OwnedFd) -> nix::Result<()> {
        connect(fd.as_raw_fd(), self)
    }
}
