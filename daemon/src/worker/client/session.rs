//! A logged-in client's input on its way into the relay.
//!
//! It reads into the worker's scratch buffer, and keeps in the client only what cannot go on yet.
//! A client whose input cannot be taken is not read from: the kernel holds it back.

use super::Stage;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Event, Moved};
use crate::worker::outbox::Sent;
use crate::worker::state::{SCRATCH, Worker};

/// A client that cannot go on is read up to here.
const HELD: usize = SCRATCH / 2;

/// The kind of the message that ends a session.
const TERMINATE: u8 = b'X';

impl Worker {
    /// The kernel has news of a client.
    pub(crate) fn on_client(&mut self, id: ClientId, event: Event) {
        if event.writable {
            self.client_writable(id);
        }
        if !event.readable {
            return;
        }
        let Some(client) = self.client(id) else { return };
        match client.stage {
            Stage::Opening => self.opening(id),
            Stage::Login(_) => self.login_read(id),
            Stage::Session => self.session_read(id, event.broken),
            Stage::Console(_) => self.console_read(id),
            Stage::AwaitingWelcome => self.hold(id, event.broken),
            Stage::Canceling | Stage::Closing => self.closing(id),
        }
    }

    fn client_writable(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        match client.outbox.flush(&client.fd) {
            Sent::Blocked => return,
            Sent::Broken => return self.drop_client(id, "client closed the connection"),
            Sent::All => {}
        }
        let (lease, closing) = (client.lease, matches!(client.stage, Stage::Closing));
        self.client_interest(id, None, Some(false));
        if closing {
            return self.last_words_sent(id);
        }
        if let Some(server) = lease {
            self.server_interest(server, Some(true), None);
        } else if self.client(id).is_some_and(|client| matches!(client.stage, Stage::Console(_))) {
            self.client_interest(id, Some(true), None);
        }
    }

    fn session_read(&mut self, id: ClientId, broken: bool) {
        let Some(client) = self.client(id) else { return };
        let held = client.input.len();
        let waits = client.waiting_since.is_some() || client.stalled;
        let blocked = match client.lease {
            Some(server) => self.server(server).is_some_and(|server| !server.outbox.is_empty()),
            None => false,
        };
        if (blocked || (waits && held >= HELD) || held + 1024 > SCRATCH) && !broken {
            return self.client_interest(id, Some(false), None);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let room = SCRATCH - held.min(SCRATCH);
        let Some(client) = self.client(id) else { return self.scratch = scratch };
        if let Some(head) = scratch.get_mut(..held) {
            head.copy_from_slice(&client.input);
        }
        let moved = io::read(&client.fd, scratch.get_mut(held..).unwrap_or_default());
        match moved {
            Moved::Bytes(count) => {
                self.leftover |= count == room;
                self.feed(id, &scratch, held + count);
            }
            Moved::Later => {}
            Moved::End | Moved::Broken(_) => self.drop_client(id, "client unexpected eof"),
        }
        self.scratch = scratch;
    }

    fn feed(&mut self, id: ClientId, scratch: &[u8], length: usize) {
        let now = self.now;
        let input = scratch.get(..length).unwrap_or_default();
        let waits = {
            let Some(client) = self.client(id) else { return };
            client.active = now;
            client.waiting_since.is_some() || client.stalled
        };
        if !waits && input.first() != Some(&TERMINATE) && self.let_go_at_request(id) {
            return;
        }
        let consumed = if waits { Some(0) } else { self.request(id, input) };
        let Some(consumed) = consumed else { return };
        let rest = input.get(consumed..).unwrap_or_default();
        let spare = if rest.is_empty() { None } else { Some(self.spare()) };
        let Some(client) = self.client(id) else { return };
        if let Some(spare) = spare {
            if client.input.capacity() == 0 {
                client.input = spare;
            }
            client.input.clear();
            client.input.extend_from_slice(rest);
        } else if client.input.capacity() > 0 {
            let used = std::mem::take(&mut client.input);
            self.recycle(used);
        }
    }

    /// Its input can go on: it was lent a server, or an answer that it waited for has come.
    pub(crate) fn resume(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        if !client.is_session() {
            return;
        }
        let input = std::mem::take(&mut client.input);
        if input.is_empty() {
            self.recycle(input);
        } else {
            let consumed = self.request(id, &input);
            self.keep_rest(id, input, consumed);
        }
        let blocked = self
            .client(id)
            .and_then(|client| client.lease)
            .and_then(|server| self.server(server))
            .is_some_and(|server| !server.outbox.is_empty());
        if !blocked && self.client(id).is_some_and(|client| client.input.len() < HELD) {
            self.client_interest(id, Some(true), None);
        }
    }

    fn keep_rest(&mut self, id: ClientId, mut input: Vec<u8>, consumed: Option<usize>) {
        let Some(consumed) = consumed else { return };
        input.drain(..consumed.min(input.len()));
        if input.is_empty() {
            return self.recycle(input);
        }
        if let Some(client) = self.client(id) {
            client.input = input;
        }
    }

    /// Reads what a client sends before it may, so that its end is noticed.
    fn hold(&mut self, id: ClientId, broken: bool) {
        let mut chunk = [0; 4096];
        let Some(client) = self.client(id) else { return };
        if broken {
            return self.drop_client(id, "client unexpected eof");
        }
        if client.input.len() >= HELD {
            return self.client_interest(id, Some(false), None);
        }
        match io::read(&client.fd, &mut chunk) {
            Moved::Bytes(count) => {
                client.input.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.leftover |= count == chunk.len();
            }
            Moved::Later => {}
            Moved::End | Moved::Broken(_) => self.drop_client(id, "client unexpected eof"),
        }
    }

    /// An empty buffer for a client that has to wait.
    fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    fn recycle(&mut self, mut buffer: Vec<u8>) {
        const KEPT: usize = 64;
        const LARGEST: usize = 4096;
        if buffer.capacity() > 0 && buffer.capacity() <= LARGEST && self.spares.len() < KEPT {
            buffer.clear();
            self.spares.push(buffer);
        }
    }
}
