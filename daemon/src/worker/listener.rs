//! Accepting: from the listeners that the supervisor gave, one socket after the other.
//!
//! An accepted socket of which nothing has been read yet goes to the worker with the fewest clients,
//! over the bus. Running out of descriptors pauses accepting; nothing here ever ends the worker.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use log::{debug, warn};
use nix::errno::Errno;
use nix::sys::socket::{SockFlag, accept4};

use super::io::{Kind, Token};
use super::state::Worker;
use crate::ledger::Accepting;
use crate::link::message::ListenerKind;

/// Sockets accepted in a row before others have their turn.
const IN_A_ROW: usize = 16;

/// The pause after running out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(250);

/// A listening socket that this worker accepts from.
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    pub(crate) kind: ListenerKind,
    pub(crate) address: String,
}

impl Worker {
    /// Accepts from a listener from now on.
    pub(crate) fn add_listener(&mut self, id: u32, listener: Listener) {
        debug!("accepting from {}", listener.address);
        let token = Token { kind: Kind::Listener, index: id, serial: 0 };
        if let Err(error) = self.io.add_shared(listener.fd.as_fd(), token) {
            warn!("cannot accept from {}: {error}", listener.address);
            return;
        }
        self.listeners.insert(id, listener);
        if self.permits.is_granted() && self.share.is_some() && self.drain.is_none() {
            self.ledger.row(self.welcome.worker).set_accepting(Accepting::Yes);
        }
    }

    /// Stops accepting from it; the supervisor and others keep their copies.
    pub(crate) fn drop_listener(&mut self, id: u32) {
        if let Some(listener) = self.listeners.remove(&id) {
            self.io.remove(listener.fd.as_fd());
        }
        if self.listeners.is_empty() {
            self.ledger.row(self.welcome.worker).set_accepting(Accepting::No);
        }
    }

    /// Whether this is the Unix socket.
    pub(crate) fn is_unix_listener(&self, id: u32) -> bool {
        self.listeners.get(&id).is_some_and(|listener| listener.kind == ListenerKind::Unix)
    }

    /// Of a fleet that shuts down only the Unix socket is heard, so that those who come are told.
    pub(crate) fn drop_tcp_listeners(&mut self) {
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            if !self.is_unix_listener(id) {
                self.drop_listener(id);
            }
        }
    }

    /// No listener any more: a drain, or the supervisor is gone.
    pub(crate) fn drop_listeners(&mut self) {
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.drop_listener(id);
        }
    }

    /// A listener has connections.
    pub(crate) fn accept(&mut self, id: u32) {
        for _ in 0..IN_A_ROW {
            let Some(listener) = self.listeners.get(&id) else { return };
            let kind = listener.kind;
            match accept_one(listener) {
                Ok(fd) => self.deal(fd, kind),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => {
                    self.pause_accepting();
                    return;
                }
                // The client was gone before it was served: the next one.
                Err(_) => {}
            }
        }
        self.leftover = true;
    }

    fn pause_accepting(&mut self) {
        warn!(
            "out of descriptors, accepting pauses; raise the limit (LimitNOFILE) or lower max_client_conn"
        );
        for listener in self.listeners.values() {
            self.io.remove(listener.fd.as_fd());
        }
        self.accept_again = Some(self.now + PAUSE);
    }

    /// Called by the sweep.
    pub(crate) fn resume_accepting(&mut self) {
        if self.accept_again.is_some_and(|again| self.now >= again) {
            self.accept_again = None;
            for (&id, listener) in &self.listeners {
                let token = Token { kind: Kind::Listener, index: id, serial: 0 };
                if let Err(error) = self.io.add_shared(listener.fd.as_fd(), token) {
                    warn!("cannot accept from {} again: {error}", listener.address);
                }
            }
        }
    }
}

fn accept_one(listener: &Listener) -> Result<OwnedFd, Errno> {
    let raw = accept4(listener.fd.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
    Ok(owned(raw))
}

#[expect(unsafe_code, reason = "accept4 returned this descriptor to us and to nobody else")]
fn owned(raw: i32) -> OwnedFd {
    // SAFETY: a fresh descriptor of our own.
    unsafe { OwnedFd::from_raw_fd(raw) }
}
