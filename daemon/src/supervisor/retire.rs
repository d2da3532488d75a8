//! Ends the servers of dead workers, so that their permissions can be used again.
//!
//! It owns a copy of the descriptor and the cancel key of every server of every worker. A closed socket does not
//! end a backend that runs a query, so a dead worker's servers are cancelled, shut down and read to
//! their end before they stop counting. `act` feeds it; each server is retired in a task of its own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use nix::libc::{AF_INET, AF_INET6, AF_UNIX};
use pgfleet_wire::startup;
use socket2::Socket;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::shares::Counts;
use crate::link::message::{LimitKey, ServerCopy, WorkerId};

/// How many cancel requests may be under way at once.
pub(crate) const CANCELS_AT_ONCE: usize = 16;
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// A backend that has not ended by then is given up.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// A server of which we have a copy.
#[derive(Debug)]
pub(crate) struct Kept {
    descriptor: OwnedFd,
    copy: ServerCopy,
    key: Option<(i32, Vec<u8>)>,
}

impl Kept {
    /// The limits that it counts in.
    pub(crate) fn limits(&self) -> Vec<LimitKey> {
        let (database, user) = (self.copy.database.clone(), self.copy.user.clone());
        vec![
            LimitKey::Database(database.clone()),
            LimitKey::User(user.clone()),
            LimitKey::Pool { database, user },
        ]
    }
}

/// The copies, and the count of those whose worker is dead.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    servers: BTreeMap<(WorkerId, u64), Kept>,
    ghosts: Counts,
}

impl Copies {
    pub(crate) fn opened(&mut self, worker: WorkerId, copy: ServerCopy, descriptor: OwnedFd) {
        self.servers.insert((worker, copy.server), Kept { descriptor, copy, key: None });
    }

    pub(crate) fn key_known(&mut self, worker: WorkerId, server: u64, pid: i32, secret: Vec<u8>) {
        if let Some(kept) = self.servers.get_mut(&(worker, server)) {
            kept.key = Some((pid, secret));
        }
    }

    pub(crate) fn closed(&mut self, worker: WorkerId, server: u64) {
        self.servers.remove(&(worker, server));
    }

    /// A worker is gone: its servers are ghosts from now on, and are to be retired.
    pub(crate) fn died(&mut self, worker: WorkerId) -> Vec<Kept> {
        let mine: Vec<(WorkerId, u64)> =
            self.servers.range((worker, 0)..=(worker, u64::MAX)).map(|(id, _)| *id).collect();
        let dead: Vec<Kept> = mine.iter().filter_map(|id| self.servers.remove(id)).collect();
        for key in dead.iter().flat_map(Kept::limits) {
            *self.ghosts.entry(key).or_default() += 1;
        }
        dead
    }

    /// A ghost is gone for good.
    pub(crate) fn retired(&mut self, limits: &[LimitKey]) {
        for key in limits {
            if let Some(count) = self.ghosts.get_mut(key) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.ghosts.remove(key);
                }
            }
        }
    }

    /// How many ghosts there are.
    pub(crate) fn count(&self) -> u32 {
        let pools = self.ghosts.iter().filter(|(key, _)| matches!(key, LimitKey::Pool { .. }));
        pools.map(|(_, count)| *count).sum()
    }

    /// How many ghosts there are for each limit.
    pub(crate) fn ghosts(&self) -> Counts {
        self.ghosts.clone()
    }
}

/// Where a server listens.
enum Peer {
    Tcp(std::net::SocketAddr),
    Unix(std::os::unix::net::SocketAddr),
}

/// Ends one server. Returns when its backend is gone, or has been given up.
pub(crate) async fn retire(kept: Kept, budget: Rc<Semaphore>) {
    let Kept { descriptor, copy, key } = kept;
    let socket = Socket::from(descriptor);
    let ServerCopy { server, database, user } = copy;
    if let Some((pid, secret)) = key
        && let Ok(_permit) = budget.acquire().await
    {
        match timeout(CANCEL_TIMEOUT, cancel(&socket, pid, &secret)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                log::debug!("cannot cancel server {server} of {database}/{user}: {error}")
            }
            Err(_) => {
                log::debug!("cancel of server {server} of {database}/{user} was not answered")
            }
        }
    }
    match timeout(END_TIMEOUT, read_to_end(socket)).await {
        Ok(Ok(())) => {}
        // A reset says as clearly as an end that the backend is gone.
        Ok(Err(error)) => log::debug!("server {server} of {database}/{user} ended: {error}"),
        Err(_) => log::warn!(
            "a server of {database}/{user} did not end within 60 s of its worker's death; its backend may still count in Postgres"
        ),
    }
}

fn peer(socket: &Socket) -> io::Result<Peer> {
    let address = socket.peer_addr()?;
    if let Some(address) = address.as_socket() {
        return Ok(Peer::Tcp(address));
    }
    let unix = address.as_unix().ok_or_else(|| io::Error::other("a peer without an address"))?;
    Ok(Peer::Unix(unix))
}

async fn cancel(socket: &Socket, pid: i32, secret: &[u8]) -> io::Result<()> {
    let request = startup::cancel_request(pid, secret);
    match peer(socket)? {
        Peer::Tcp(address) => deliver(TcpStream::connect(address).await?, &request).await,
        Peer::Unix(address) => {
            let stream = std::os::unix::net::UnixStream::connect_addr(&address)?;
            stream.set_nonblocking(true)?;
            deliver(UnixStream::from_std(stream)?, &request).await
        }
    }
}

/// Postgres closes the connection once the signal has been sent.
async fn deliver(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
) -> io::Result<()> {
    stream.write_all(request).await?;
    discard(stream).await
}

async fn read_to_end(socket: Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if let Err(error) = socket.shutdown(std::net::Shutdown::Write)
        && error.kind() != io::ErrorKind::NotConnected
    {
        return Err(error);
    }
    let family = i32::from(socket.local_addr()?.family());
    if family == AF_INET || family == AF_INET6 {
        discard(TcpStream::from_std(socket.into())?).await
    } else if family == AF_UNIX {
        discard(UnixStream::from_std(std::os::unix::net::UnixStream::from(OwnedFd::from(socket)))?)
            .await
    } else {
        Err(io::Error::other("a server that is no TCP and no Unix socket"))
    }
}

async fn discard(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: WorkerId = WorkerId { slot: 1, generation: 1 };

    fn copy(server: u64) -> ServerCopy {
        ServerCopy { server, database: "app".to_owned(), user: "joe".to_owned() }
    }

    #[test]
    fn ghosts_count_in_three_limits_until_they_are_retired() {
        let mut copies = Copies::default();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (two, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        copies.opened(WORKER, copy(1), one.into());
        copies.opened(WORKER, copy(2), two.into());
        copies.closed(WORKER, 2);
        let dead = copies.died(WORKER);
        assert_eq!(dead.len(), 1);
        assert_eq!(copies.ghosts().values().copied().collect::<Vec<_>>(), [1, 1, 1]);
        copies.retired(&dead[0].limits());
        assert!(copies.ghosts().is_empty());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_server_is_cancelled_with_its_key_and_read_to_its_end() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ours = std::net::TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let kept =
            Kept { descriptor: ours.into(), copy: copy(1), key: Some((7, vec![1, 2, 3, 4])) };
        let backend = async {
            let (mut cancel, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 16];
            cancel.read_exact(&mut request).await.unwrap();
            assert_eq!(request, startup::cancel_request(7, &[1, 2, 3, 4]));
            drop(cancel);
            // The end of our half comes after the cancel; what the backend still writes is discarded.
            assert_eq!(server.read(&mut request).await.unwrap(), 0);
            server.write_all(b"late rows").await.unwrap();
            drop(server);
        };
        let budget = Rc::new(Semaphore::new(1));
        tokio::join!(retire(kept, budget), backend);
    }
}
