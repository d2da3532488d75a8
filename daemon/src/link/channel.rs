//! Records of any size over a seqpacket pair: one message, and at most four descriptors beside it.
//!
//! It owns the cutting of a record into packets, the queue of what the peer has not taken yet, and
//! the putting together at the other end. It never looks into a message and never waits for
//! a slow peer. The supervisor and its workers talk over it, and workers over the bus, whose
//! messages are one packet each.

mod sender;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::bus::Bus;
use super::descriptor::{self, Fit};
pub(crate) use sender::Sender;

/// The most bytes of one encoded message.
const LONGEST: usize = 64 << 20;
/// The most bytes of a message in one packet: well below the kernel's default send buffer.
const CHUNK: usize = 60 << 10;
/// A message of the bus is far smaller than this.
const BUS_PACKET: usize = 256;
/// The first byte of a packet: is it the last one of its record?
const LAST: u8 = 0;
const MORE: u8 = 1;

/// Why nothing more can be received from a peer.
#[derive(Debug, Error)]
pub(crate) enum ChannelError {
    #[error("cannot read a record")]
    Io(#[from] io::Error),
    #[error("a record of {0} bytes could not be read as a message")]
    Malformed(usize, #[source] postcard::Error),
    #[error("a record is longer than {LONGEST} bytes")]
    TooLong,
    #[error("a packet is longer than a packet may be, or has no known first byte")]
    NotAPacket,
    #[error("a record lost its descriptors: too many came at once, or too many files are open")]
    DescriptorsLost,
    #[error("the peer went away in the middle of a record")]
    Torn,
}

/// The two ends of a new channel: nonblocking, closed on exec.
pub(crate) fn pair() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
    )
}

/// One end of a channel, which is used as its two halves.
#[derive(Debug)]
pub(crate) struct Channel;

impl Channel {
    /// Takes over one end of a pair and makes it nonblocking.
    ///
    /// Must be called within a tokio runtime that has its I/O and its clock enabled; what a peer
    /// does not take at once is sent by a task of that runtime.
    #[expect(clippy::new_ret_no_self, reason = "a channel is used only as its two halves")]
    pub(crate) fn new(fd: OwnedFd) -> io::Result<(Sender, Receiver)> {
        let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
        fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        let socket = Arc::new(descriptor::watch(fd)?);
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let sender = Sender::new(Arc::clone(&socket), runtime);
        let receiver = Receiver {
            socket,
            packet: vec![0; CHUNK + 1].into_boxed_slice(),
            record: Vec::new(),
            descriptors: Vec::new(),
        };
        Ok((sender, receiver))
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    socket: Arc<AsyncFd<OwnedFd>>,
    packet: Box<[u8]>,
    /// The packets so far of the record that is arriving.
    record: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Receiver {
    /// The next message with its descriptors, or `None` when the peer has closed its end.
    ///
    /// After an error the channel is out of step and must be dropped.
    ///
    /// # Cancel safety
    /// Cancel-safe: a record that has arrived in part stays in `self`, and the only point at which
    /// the future can be dropped is before a packet is read.
    pub(crate) async fn recv<T: DeserializeOwned>(
        &mut self,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, ChannelError> {
        loop {
            let mut ready = self.socket.readable().await?;
            let packet = match descriptor::receive(ready.get_inner().as_fd(), &mut self.packet) {
                Ok(packet) => packet,
                Err(Errno::EAGAIN) => {
                    ready.clear_ready();
                    continue;
                }
                Err(errno) => return Err(ChannelError::Io(errno.into())),
            };
            match packet.fit {
                Fit::Whole => {}
                Fit::BytesLost => return Err(ChannelError::NotAPacket),
                Fit::DescriptorsLost => return Err(ChannelError::DescriptorsLost),
            }
            self.descriptors.extend(packet.descriptors);
            let last = match self.packet[..packet.length].split_first() {
                None if self.record.is_empty() => return Ok(None),
                None => return Err(ChannelError::Torn),
                Some((&flag @ (LAST | MORE), chunk)) => {
                    if self.record.len() + chunk.len() > LONGEST {
                        return Err(ChannelError::TooLong);
                    }
                    self.record.extend_from_slice(chunk);
                    flag == LAST
                }
                Some(_) => return Err(ChannelError::NotAPacket),
            };
            if last {
                let record = std::mem::take(&mut self.record);
                let message = decode(&record)
                    .map_err(|cause| ChannelError::Malformed(record.len(), cause))?;
                return Ok(Some((message, std::mem::take(&mut self.descriptors))));
            }
        }
    }
}

/// Sends one message of the bus, with the descriptor that it carries.
///
/// Never waits: a peer that is not keeping up is `WouldBlock`, one that is gone `BrokenPipe`.
pub(crate) fn bus_send(
    socket: BorrowedFd<'_>,
    message: &Bus,
    carried: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let numbers: Vec<RawFd> = carried.iter().map(AsRawFd::as_raw_fd).collect();
    Ok(descriptor::send(socket, &[IoSlice::new(&bytes)], &numbers)?)
}

/// Receives one message of the bus, or `None` when the peer has closed its end.
///
/// Never waits: nothing there is `WouldBlock`. A message that should carry a descriptor and
/// comes without lost it because this process may open no more files: its sender still has a
/// copy. `InvalidData` is a packet that is no message.
pub(crate) fn bus_recv(socket: BorrowedFd<'_>) -> io::Result<Option<(Bus, Option<OwnedFd>)>> {
    let mut buffer = [0; BUS_PACKET];
    let packet = descriptor::receive(socket, &mut buffer)?;
    let invalid = |cause| io::Error::new(io::ErrorKind::InvalidData, cause);
    match packet.fit {
        Fit::Whole | Fit::DescriptorsLost => {}
        Fit::BytesLost => return Err(invalid(postcard::Error::DeserializeUnexpectedEnd)),
    }
    if packet.length == 0 {
        return Ok(None);
    }
    let message = decode(&buffer[..packet.length]).map_err(invalid)?;
    Ok(Some((message, packet.descriptors.into_iter().next())))
}

/// Decodes a message and demands that nothing is left over.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> postcard::Result<T> {
    match postcard::take_from_bytes(bytes)? {
        (message, []) => Ok(message),
        (_, _) => Err(postcard::Error::DeserializeBadEncoding),
    }
}

#[cfg(test)]
mod tests;
