//! SUSPEND: no socket is read, and what is unsent is sent or dropped.
//!
//! It owns the time between SUSPEND and RESUME. The epoll set is left alone meanwhile, since what it has to
//! tell waits there; only console clients are listened to, for one of them may say RESUME. The turn and the
//! sweep come here instead of doing what they do.

use std::time::Instant;

use super::client::Stage;
use super::ids::{ClientId, ServerId};
use super::server::retire::Lost;
use super::state::Worker;

/// Why what cannot be sent is dropped, in PgBouncer's words.
const TIMEOUT: &str = "suspend_timeout";

impl Worker {
    /// From now on nothing is read.
    pub(crate) fn suspend(&mut self) {
        self.suspended = Some(Instant::now());
        self.leftover = false;
        self.flush_all();
    }

    /// Goes on.
    pub(crate) fn wake(&mut self) {
        self.suspended = None;
        // Whatever came meanwhile is looked at.
        self.leftover = true;
    }

    /// Sockets with something that has not been sent.
    pub(crate) fn unsent(&self) -> usize {
        self.full_clients().len() + self.full_servers().len()
    }

    /// Called by the sweep while everything stands still.
    pub(crate) fn sweep_suspended(&mut self, since: Instant) {
        self.flush_all();
        let timeout = self.settings.global.suspend_timeout;
        if !timeout.is_zero() && since.elapsed() > timeout {
            for id in self.full_servers() {
                self.server_lost(id, Lost::OutOfStep, TIMEOUT);
            }
            for id in self.full_clients() {
                self.drop_client(id, TIMEOUT);
            }
        }
        let consoles = self.clients.iter().map(|(_, client)| client);
        let consoles = consoles.filter(|client| matches!(client.stage, Stage::Console(_)));
        for id in consoles.map(|client| client.id).collect::<Vec<_>>() {
            if self.client(id).is_some_and(|client| client.interest.read) {
                self.console_read(id);
            }
        }
    }

    /// Of what could not be written, the turn after RESUME hears more.
    fn flush_all(&mut self) {
        for id in self.full_clients() {
            if let Some(client) = self.client(id) {
                let _told_later = client.outbox.flush(&client.fd);
            }
        }
        for id in self.full_servers() {
            if let Some(server) = self.server(id) {
                let _told_later = server.outbox.flush(&server.fd);
            }
        }
    }

    fn full_clients(&self) -> Vec<ClientId> {
        let full = self.clients.iter().filter(|(_, client)| !client.outbox.is_empty());
        full.map(|(_, client)| client.id).collect()
    }

    fn full_servers(&self) -> Vec<ServerId> {
        let full = self.servers.iter().filter(|(_, server)| !server.outbox.is_empty());
        full.map(|(_, server)| server.id).collect()
    }
}
