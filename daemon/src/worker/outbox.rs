//! Bytes on their way to one peer that the kernel has not taken yet.
//!
//! It owns nothing while there is no back-pressure: the usual write goes straight from the
//! worker's scratch buffer to the socket. It never reads and never waits.

use std::os::fd::AsFd;

use super::io::{self, Moved};

/// The unsent rest of what was written to one socket.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// Some bytes wait here; the socket is to be asked for writability.
    Blocked,
    /// The peer takes nothing any more.
    Broken,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Writes `bytes` after what waits already; keeps what the kernel does not take.
    pub(crate) fn write(&mut self, fd: &impl AsFd, bytes: &[u8]) -> Sent {
        if bytes.is_empty() {
            return if self.is_empty() { Sent::All } else { Sent::Blocked };
        }
        if !self.is_empty() {
            self.bytes.extend_from_slice(bytes);
            return Sent::Blocked;
        }
        match io::write(fd, bytes) {
            Moved::Bytes(count) if count == bytes.len() => Sent::All,
            Moved::Bytes(count) => self.keep(bytes.get(count..).unwrap_or_default()),
            Moved::Later => self.keep(bytes),
            Moved::End | Moved::Broken(_) => Sent::Broken,
        }
    }

    fn keep(&mut self, rest: &[u8]) -> Sent {
        self.bytes.clear();
        self.sent = 0;
        self.bytes.extend_from_slice(rest);
        Sent::Blocked
    }

    /// Writes what waits. Its memory is given back when nothing is left.
    pub(crate) fn flush(&mut self, fd: &impl AsFd) -> Sent {
        while !self.is_empty() {
            match io::write(fd, self.bytes.get(self.sent..).unwrap_or_default()) {
                Moved::Bytes(count) => self.sent += count,
                Moved::Later => return Sent::Blocked,
                Moved::End | Moved::Broken(_) => return Sent::Broken,
            }
        }
        self.bytes = Vec::new();
        self.sent = 0;
        Sent::All
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_keep_their_order_under_back_pressure() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let chunk: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
        let mut blocked = false;
        for _ in 0..8 {
            blocked |= outbox.write(&near, &chunk) == Sent::Blocked;
        }
        assert!(blocked, "400 KB eight times over fit into a socket buffer");
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 8 * 400_000];
            far.read_exact(&mut all).unwrap();
            all
        });
        while outbox.flush(&near) == Sent::Blocked {
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), chunk.repeat(8));
        assert_eq!(outbox.capacity(), 0);
    }

    #[test]
    fn a_gone_peer_is_broken_and_no_signal() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(Outbox::default().write(&near, b"x"), Sent::Broken);
    }
}
