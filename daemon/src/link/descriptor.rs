//! One packet with the descriptors that travel beside it.
//!
//! It owns the two system calls that pass descriptors between processes, and the only places where
//! Rust must be promised something about a descriptor: that a received one has one owner, and that
//! a watched one stays open. It never waits and never looks into a packet. The record channel and
//! the bus call it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use tokio::io::unix::AsyncFd;

/// The most descriptors that one packet may carry.
pub(super) const MOST: usize = 4;

/// What came with one packet.
#[derive(Debug)]
pub(super) struct Packet {
    /// Bytes written to the buffer; 0 is the end of the stream.
    pub(super) length: usize,
    /// In the order in which they were sent, closed on exec.
    pub(super) descriptors: Vec<OwnedFd>,
    /// Whether all of it arrived.
    pub(super) fit: Fit,
}

/// Whether a packet arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Whole,
    /// The packet was longer than the buffer.
    BytesLost,
    /// More descriptors than [`MOST`], or this process may open no more of them.
    DescriptorsLost,
}

/// Sends one packet without waiting; a full queue is `EAGAIN`, a peer that is gone `EPIPE`.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    descriptors: &[RawFd],
) -> nix::Result<()> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() { &rights[..0] } else { &rights[..] };
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), parts, control, flags, None) {
            // A packet is sent whole or not at all.
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Receives one packet without waiting; an empty queue is `EAGAIN`.
///
/// A peer that closes while it has unread packets leaves one `ECONNRESET` behind; what it
/// had sent before is still there, and comes out after it. So that error is not the end.
pub(super) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> nix::Result<Packet> {
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    loop {
        let mut control = nix::cmsg_space!([RawFd; MOST]);
        let mut parts = [IoSliceMut::new(buffer)];
        let socket = socket.as_raw_fd();
        let message = match recvmsg::<()>(socket, &mut parts, Some(&mut control), flags) {
            Ok(message) => message,
            Err(Errno::EINTR | Errno::ECONNRESET) => continue,
            Err(errno) => return Err(errno),
        };
        let mut descriptors = Vec::new();
        let mut fit = Fit::Whole;
        // An error here says that control data was cut. What did arrive of it stays open and
        // unowned: at most three files, of a sender that broke its promise or a process that is
        // out of files, and the channel ends with it.
        match message.cmsgs() {
            Ok(control) => control.for_each(|message| own(&message, &mut descriptors)),
            Err(_) => fit = Fit::DescriptorsLost,
        }
        if message.flags.contains(MsgFlags::MSG_TRUNC) {
            fit = Fit::BytesLost;
        }
        return Ok(Packet { length: message.bytes, descriptors, fit });
    }
}

#[expect(
    unsafe_code,
    reason = "descriptors arrive as bare numbers: this is where they get their owner"
)]
fn own(message: &ControlMessageOwned, descriptors: &mut Vec<OwnedFd>) {
    if let ControlMessageOwned::ScmRights(numbers) = message {
        for &number in numbers {
            // SAFETY: the kernel has just opened this number in this process for this very
            // message, which is looked at once; nothing else knows the number.
            descriptors.push(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// Lets tokio say when a descriptor is ready. Must be called within a runtime.
#[expect(
    unsafe_code,
    reason = "tokio wants the promise that the number stays open, and an owned descriptor keeps it"
)]
pub(crate) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and has the same number until it is dropped, and `AsyncFd`
    // drops it after it has stopped watching.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
