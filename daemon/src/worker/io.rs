//! The narrow module behind which all socket I/O of the data path stands.
//!
//! It owns the worker's epoll set (level-triggered; its own descriptor is registered with tokio)
//! and the read and write calls. It knows tokens, not clients or servers; a second implementation
//! (io_uring) can take its place.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv, send};

/// What a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Listener,
    Bus,
    Client,
    Server,
}

/// Names one registration: kind, index in its table, and a serial number that tells a late
/// event for a closed descriptor from one for its successor at the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

const SERIAL_BITS: u64 = 0x3fff_ffff;

impl Token {
    fn pack(self) -> u64 {
        let kind = match self.kind {
            Kind::Listener => 0,
            Kind::Bus => 1,
            Kind::Client => 2,
            Kind::Server => 3,
        };
        (u64::from(self.index) << 32) | ((u64::from(self.serial) & SERIAL_BITS) << 2) | kind
    }

    fn unpack(data: u64) -> Self {
        let kind = match data & 3 {
            0 => Kind::Listener,
            1 => Kind::Bus,
            2 => Kind::Client,
            _ => Kind::Server,
        };
        Self { kind, index: (data >> 32) as u32, serial: ((data >> 2) & SERIAL_BITS) as u32 }
    }

    /// Whether this token's serial is that of `serial` (tokens carry 30 bits of it).
    pub(crate) fn is_of(self, serial: u32) -> bool {
        u64::from(self.serial) == u64::from(serial) & SERIAL_BITS
    }
}

/// Which events a descriptor is asked for. End of file and errors always come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const READ: Self = Self { read: true, write: false };

    fn flags(self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        if self.read {
            flags |= EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        }
        if self.write {
            flags |= EpollFlags::EPOLLOUT;
        }
        flags
    }
}

/// What happened to a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) token: Token,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer sends no more: behind what can be read is the end of file.
    pub(crate) ended: bool,
    /// The peer is gone for both directions, or the socket is in error.
    pub(crate) broken: bool,
}

/// One nonblocking read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes (never 0 for a read).
    Bytes(usize),
    /// The kernel has nothing, or takes nothing more.
    Later,
    /// The peer has closed its direction.
    End,
    Broken(Errno),
}

/// Events taken from the kernel at once.
pub(crate) const BATCH: usize = 128;

/// The epoll set of the worker.
pub(crate) struct Io {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Io {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); BATCH],
        })
    }

    /// A copy of the set's descriptor, to be registered with tokio.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.0.try_clone()
    }

    pub(crate) fn add(
        &self,
        fd: BorrowedFd<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(interest.flags(), token.pack()))?)
    }

    /// Registers a listener that several processes accept from: one of them is woken.
    pub(crate) fn add_shared(&self, fd: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLEXCLUSIVE;
        Ok(self.epoll.add(fd, EpollEvent::new(flags, token.pack()))?)
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, token: Token, interest: Interest) {
        let mut event = EpollEvent::new(interest.flags(), token.pack());
        // It fails only for a descriptor that is not registered, which a closed one may be.
        let _unregistered = self.epoll.modify(fd, &mut event);
    }

    /// Must come before the descriptor is closed or handed on: while another process has a
    /// copy of the socket, closing ours would leave the registration behind.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let _unregistered = self.epoll.delete(fd);
    }

    /// Takes the events that are there now, without waiting.
    pub(crate) fn poll(&mut self, into: &mut Vec<Event>) -> io::Result<()> {
        into.clear();
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        into.extend(self.events.iter().take(count).map(|event| {
            let flags = event.events();
            Event {
                token: Token::unpack(event.data()),
                readable: flags.intersects(
                    EpollFlags::EPOLLIN
                        | EpollFlags::EPOLLRDHUP
                        | EpollFlags::EPOLLHUP
                        | EpollFlags::EPOLLERR,
                ),
                writable: flags.intersects(EpollFlags::EPOLLOUT),
                ended: flags.intersects(
                    EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR,
                ),
                broken: flags.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
            }
        }));
        Ok(())
    }
}

/// Reads once.
pub(crate) fn read(fd: &impl AsFd, into: &mut [u8]) -> Moved {
    match recv(fd.as_fd().as_raw_fd(), into, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => Moved::End,
        Ok(count) => Moved::Bytes(count),
        Err(Errno::EAGAIN | Errno::EINTR) => Moved::Later,
        Err(error) => Moved::Broken(error),
    }
}

/// Writes once.
pub(crate) fn write(fd: &impl AsFd, bytes: &[u8]) -> Moved {
    match send(fd.as_fd().as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
        Ok(count) => Moved::Bytes(count),
        Err(Errno::EAGAIN | Errno::EINTR) => Moved::Later,
        Err(error) => Moved::Broken(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_kernel() {
        for kind in [Kind::Listener, Kind::Bus, Kind::Client, Kind::Server] {
            let token = Token { kind, index: u32::MAX, serial: 12_345 };
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }

    #[test]
    fn a_serial_is_compared_by_the_bits_that_travel() {
        let token = Token::unpack(Token { kind: Kind::Client, index: 1, serial: u32::MAX }.pack());
        assert!(token.is_of(u32::MAX));
        assert!(!token.is_of(u32::MAX - 1));
    }
}
