//! The sending half of a channel: packets at once, and the rest when the peer takes it.
//!
//! It owns the cutting of a record and the queue of those that wait. It never waits itself: a task
//! of the runtime does, for as long as something is queued. The channel makes it, and whoever has
//! something to say to the peer holds a clone.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use serde::Serialize;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

use super::{CHUNK, LAST, LONGEST, MORE};
use crate::link::descriptor;

/// How long a sender rests when the kernel is short of memory or has too many descriptors in
/// flight: neither ends with a readiness event.
const REST: Duration = Duration::from_millis(5);

/// The sending half. Clones send over the same channel, in the order of their calls.
#[derive(Clone, Debug)]
pub(crate) struct Sender(Arc<Outbox>);

/// The lock is never contended on a runtime of one thread; it is here because only tasks that may
/// move between threads can be started from anywhere, and a sender must not depend on who calls it.
#[derive(Debug)]
struct Outbox {
    socket: Arc<AsyncFd<OwnedFd>>,
    runtime: Handle,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<Record>,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing is queued.
    #[default]
    Clear,
    /// A task waits to send what is queued.
    Draining,
    /// The peer is gone; what is sent is dropped.
    Closed,
}

/// A message on its way.
#[derive(Debug)]
struct Record {
    bytes: Vec<u8>,
    sent: usize,
    /// They leave with the first packet.
    descriptors: Vec<OwnedFd>,
}

/// How far the queue got.
enum Progress {
    Done,
    Full,
    Short,
}

impl Sender {
    pub(super) fn new(socket: Arc<AsyncFd<OwnedFd>>, runtime: Handle) -> Self {
        Self(Arc::new(Outbox { socket, runtime, queue: Mutex::default() }))
    }

    /// Sends a message with at most four descriptors, at once or as soon as the peer takes it.
    ///
    /// Never waits. On a closed channel the message is dropped, and so is one that is longer than
    /// 64 MiB or has too many descriptors, with a line in the log: the peer must live without it.
    pub(crate) fn send<T: Serialize>(&self, message: &T, fds: Vec<OwnedFd>) {
        let mut queue = self.0.lock();
        if queue.state == State::Closed {
            return;
        }
        let bytes = match postcard::to_stdvec(message) {
            Ok(bytes) if bytes.len() <= LONGEST && fds.len() <= descriptor::MOST => bytes,
            Ok(bytes) => {
                let (length, count) = (bytes.len(), fds.len());
                log::error!("record of {length} bytes and {count} descriptors is too big: dropped");
                return;
            }
            Err(error) => {
                log::error!("cannot encode a record: {error}: dropped");
                return;
            }
        };
        queue.bytes += bytes.len();
        queue.records.push_back(Record { bytes, sent: 0, descriptors: fds });
        if queue.state == State::Draining {
            return;
        }
        match queue.advance(self.0.socket.get_ref().as_fd()) {
            Progress::Done => {}
            Progress::Full | Progress::Short => {
                queue.state = State::Draining;
                let outbox = Arc::clone(&self.0);
                drop(self.0.runtime.spawn(async move { outbox.drain().await }));
            }
        }
    }

    /// Returns when all that was sent before has been taken by the kernel, or the peer is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost: the queue stays, and its own task goes on with it.
    pub(crate) async fn flush(&self) {
        self.0.drain().await;
    }

    /// Bytes of messages that the kernel has not taken yet.
    pub(crate) fn queued(&self) -> usize {
        self.0.lock().bytes
    }

    /// Whether the peer was found to be gone by an attempt to send.
    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().state == State::Closed
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing under the lock leaves the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn drain(&self) {
        loop {
            let Ok(mut ready) = self.socket.writable().await else {
                // The runtime is shutting down.
                self.lock().close();
                return;
            };
            let progress = self.lock().advance(ready.get_inner().as_fd());
            match progress {
                Progress::Done => return,
                Progress::Full => ready.clear_ready(),
                Progress::Short => tokio::time::sleep(REST).await,
            }
        }
    }
}

impl Queue {
    /// Sends packets until the queue is empty or the kernel takes no more.
    fn advance(&mut self, socket: BorrowedFd<'_>) -> Progress {
        while let Some(record) = self.records.front_mut() {
            match record.send_packet(socket) {
                Ok(sent) => {
                    self.bytes -= sent;
                    if record.sent == record.bytes.len() {
                        self.records.pop_front();
                    }
                }
                Err(Errno::EAGAIN) => return Progress::Full,
                Err(Errno::ETOOMANYREFS | Errno::ENOBUFS | Errno::ENOMEM) => {
                    return Progress::Short;
                }
                Err(errno) => {
                    log::debug!("link: cannot send: {errno}");
                    self.close();
                    return Progress::Done;
                }
            }
        }
        if self.state == State::Draining {
            self.state = State::Clear;
        }
        Progress::Done
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.records.clear();
        self.bytes = 0;
    }
}

impl Record {
    /// Sends the next packet; returns how many bytes of the message were in it.
    fn send_packet(&mut self, socket: BorrowedFd<'_>) -> nix::Result<usize> {
        let end = self.bytes.len().min(self.sent + CHUNK);
        let first = [if end == self.bytes.len() { LAST } else { MORE }];
        let chunk = &self.bytes[self.sent..end];
        let numbers: Vec<RawFd> = self.descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        descriptor::send(socket, &[IoSlice::new(&first), IoSlice::new(chunk)], &numbers)?;
        // The kernel holds its own copies now.
        self.descriptors.clear();
        let sent = end - self.sent;
        self.sent = end;
        Ok(sent)
    }
}
