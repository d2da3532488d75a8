//! Telling a client why, and ending it.
//!
//! Every end of a client goes through here: its server is given back or retired, its permits are
//! returned, its place in line is left. The last words are kept readable: the socket is closed for
//! writing and read to its end before it is closed, or a reset could destroy them on the way.

use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::time::Duration;

use log::{info, warn};
use nix::sys::socket::{Shutdown, shutdown};
use pgfleet_wire::back;

use super::Stage;
use super::refusal::Refusal;
use crate::link::message::LimitKey;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Moved};
use crate::worker::outbox::Sent;
use crate::worker::state::Worker;

/// How long a client that has been told may take to close.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

impl Worker {
    /// Writes to a client; what the kernel does not take waits in its outbox.
    pub(crate) fn reply(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.client(id) else { return };
        match client.outbox.write(&client.fd, bytes) {
            Sent::All => {}
            Sent::Blocked => self.client_interest(id, None, Some(true)),
            Sent::Broken => self.drop_client(id, "client closed the connection"),
        }
    }

    /// Says why, and closes.
    pub(crate) fn refuse(&mut self, id: ClientId, refusal: &Refusal) {
        let log = self.settings.global.log_pooler_errors;
        let Some(client) = self.client(id) else { return };
        if matches!(client.stage, Stage::Closing) {
            return;
        }
        // What opens with garbage is a probe, and a flood of them would fill the log.
        if log && !matches!(client.stage, Stage::Opening) {
            warn!("{client} pooler error: {refusal}");
        }
        let mut out = Vec::new();
        back::error(&mut out, &refusal.fields());
        self.reply(id, &out);
        self.linger(id, &refusal.to_string());
    }

    /// Ends the session; the connection stays until the client has read the last words.
    pub(crate) fn linger(&mut self, id: ClientId, reason: &str) {
        self.leave(id, reason);
        let now = self.now;
        let Some(client) = self.client(id) else { return };
        client.stage = Stage::Closing;
        client.active = now;
        client.input = Vec::new();
        if client.outbox.is_empty() {
            // It fails if the peer is gone already, which the next read tells.
            let _gone = shutdown(client.fd.as_raw_fd(), Shutdown::Write);
        }
        self.client_interest(id, Some(true), None);
    }

    /// The last words of a closing client have left.
    pub(crate) fn last_words_sent(&mut self, id: ClientId) {
        if let Some(client) = self.client(id) {
            let _gone = shutdown(client.fd.as_raw_fd(), Shutdown::Write);
        }
    }

    /// Input of a client that is closing: dropped until its end.
    pub(crate) fn closing(&mut self, id: ClientId) {
        let mut waste = [0; 16 * 1024];
        let Some(client) = self.client(id) else { return };
        match io::read(&client.fd, &mut waste) {
            Moved::Bytes(count) => self.leftover |= count == waste.len(),
            Moved::Later => {}
            Moved::End | Moved::Broken(_) => self.remove_client(id),
        }
    }

    /// Closes at once.
    pub(crate) fn drop_client(&mut self, id: ClientId, reason: &str) {
        self.leave(id, reason);
        self.remove_client(id);
    }

    /// Returns all that a client has: line, lease, permits, key. Safe to call twice.
    fn leave(&mut self, id: ClientId, reason: &str) {
        let log = self.settings.global.log_disconnections;
        let Some(client) = self.client(id) else { return };
        if matches!(client.stage, Stage::Closing) {
            return;
        }
        if log && client.identity.is_some() && !matches!(client.stage, Stage::Canceling) {
            let age = client.connected.elapsed().as_secs();
            info!("{client} closing because: {reason} (age={age}s)");
        }
        let (key, pool, identity) =
            (client.key.take(), client.pool.take(), client.identity.clone());
        let console = matches!(client.stage, Stage::Console(_) | Stage::Canceling);
        if let Some(key) = key
            && !console
        {
            self.keys.remove(&key);
        }
        if console {
            self.asked.retain(|_, client| *client != id);
        }
        if let Some(pool) = pool {
            self.leave_line(id, pool);
            self.lease_is_left(id);
            let now = self.now;
            if let Some(pool) = self.pool(pool) {
                pool.used = now;
                pool.clients = pool.clients.saturating_sub(1);
            }
        }
        self.dismiss(id);
        if let Some(identity) = identity
            && identity.seated
        {
            self.permits.give_back(&[
                LimitKey::ClientsOfDatabase(identity.database.clone()),
                LimitKey::ClientsOfUser(identity.user.clone()),
            ]);
        }
        if let Some(client) = self.client(id) {
            client.statements.forget();
            client.stage = Stage::Closing;
        }
    }

    /// Closes the socket of a client that has left.
    pub(crate) fn remove_client(&mut self, id: ClientId) {
        if self.client(id).is_none() {
            return;
        }
        self.dismiss(id);
        let client = self.clients.remove(id.index as usize);
        self.io.remove(client.fd.as_fd());
        self.ledger.row(self.welcome.worker).drop_client();
    }
}
