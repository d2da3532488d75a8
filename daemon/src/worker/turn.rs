//! One turn of the event loop: the sockets that are ready, and what became possible by them.
//!
//! A panic costs the session in which it happened and its server, never the worker; a worker that
//! panics again and again is left to its successor. Nothing here waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use log::error;

use super::client::refusal::Refusal;
use super::completion::Completion;
use super::ids::{ClientId, ServerId};
use super::io::{self, Event, Kind, Moved, Token};
use super::outbox::Sent;
use super::relay::PIPELINE;
use super::relay::answer::Answered;
use super::server::retire::Lost;
use super::server::{Phase, Server};
use super::state::{SCRATCH, Worker};
use crate::link::message::Drain;

/// Batches in a row before the link and the others have their turn.
const ROUNDS: usize = 8;

/// So many panics in [`PANIC_TIME`] end the worker.
const PANICS: usize = 3;
const PANIC_TIME: Duration = Duration::from_secs(60);

impl Worker {
    /// Handles the sockets that are ready. Returns whether all that was there has been taken: the
    /// kernel will tell of news.
    pub(crate) fn turn(&mut self) -> bool {
        if self.suspended.is_some() {
            self.leftover = false;
            return true;
        }
        for _ in 0..ROUNDS {
            self.now = Instant::now();
            self.leftover = false;
            let mut events = std::mem::take(&mut self.events);
            if let Err(error) = self.io.poll(&mut events) {
                error!("cannot take events: {error}");
            }
            let count = events.len();
            for &event in &events {
                self.guarded(event.token, |worker| worker.on_event(event));
            }
            self.events = events;
            self.go_on();
            self.stats.publish();
            if count < 2 && !self.leftover {
                return true;
            }
        }
        false
    }

    fn on_event(&mut self, event: Event) {
        let Token { kind, index, .. } = event.token;
        // A short read does not take the end of file, of which the kernel tells only once.
        self.leftover |= event.ended;
        match kind {
            Kind::Listener => self.accept(index),
            Kind::Bus => self.on_bus(index),
            Kind::Client => {
                if let Some(id) = self
                    .clients
                    .get(index as usize)
                    .map(|client| client.id)
                    .filter(|id| event.token.is_of(id.serial))
                {
                    self.on_client(id, event);
                }
            }
            Kind::Server => {
                if let Some(id) = self
                    .servers
                    .get(index as usize)
                    .map(|server| server.id)
                    .filter(|id| event.token.is_of(id.serial))
                {
                    self.on_server(id, event);
                }
            }
        }
    }

    /// Lets clients go on whose server or answer has come.
    pub(crate) fn go_on(&mut self) {
        if self.suspended.is_some() {
            return;
        }
        while let Some(id) = self.resumed.pop_front() {
            let token = Token { kind: Kind::Client, index: id.index, serial: id.serial };
            self.guarded(token, |worker| worker.resume(id));
        }
    }

    /// Runs one step; if it panics, what it was about is closed.
    fn guarded(&mut self, token: Token, step: impl FnOnce(&mut Self)) {
        // The tables may be half changed for this session only: both of its ends are closed.
        if catch_unwind(AssertUnwindSafe(|| step(self))).is_ok() {
            return;
        }
        self.tally.panics += 1;
        error!("a session was closed because of a fault in the pooler");
        if self.scratch.len() != SCRATCH {
            self.scratch = vec![0; SCRATCH];
        }
        match token.kind {
            Kind::Client => {
                self.refuse(
                    ClientId { index: token.index, serial: token.serial },
                    &Refusal::Internal,
                );
            }
            Kind::Server => {
                let id = ServerId { index: token.index, serial: token.serial };
                self.server_lost(id, Lost::OutOfStep, "fault in the pooler");
            }
            Kind::Listener | Kind::Bus => {}
        }
        let now = Instant::now();
        self.panics.push_back(now);
        while self.panics.front().is_some_and(|at| now.duration_since(*at) > PANIC_TIME) {
            self.panics.pop_front();
        }
        if self.panics.len() >= PANICS && self.drain.is_none() {
            error!("{PANICS} faults in a minute: the worker leaves");
            self.start_leaving(Drain::BetweenTransactions(self.settings.global.drain_timeout));
        }
    }

    /// Something that was done beside the data thread.
    pub(crate) fn completed(&mut self, completion: Completion) {
        self.now = Instant::now();
        match completion {
            Completion::Derived { client, user, password, verifier } => {
                self.derived(client, user, password, verifier);
            }
            Completion::Judged { client, verdict } => self.judged(client, verdict),
            Completion::Named { client, name } => self.named(client, name.as_deref()),
            Completion::Proved { server, result } => self.proved(server, result),
            Completion::Resolved { name, result } => self.resolved(&name, result),
            Completion::Serial { zone, serial } => self.zone_serial(&zone, serial),
            Completion::Canceled { server, requester, outcome } => {
                self.canceled(server, requester, outcome);
            }
        }
    }

    fn on_server(&mut self, id: ServerId, event: Event) {
        let connecting =
            self.server(id).is_some_and(|server| matches!(server.phase, Phase::Connecting));
        if connecting {
            return self.connect_ended(id);
        }
        if event.writable {
            self.server_writable(id);
        }
        if event.readable {
            self.server_read(id, event.broken);
        }
    }

    fn server_writable(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        let sent = server.outbox.flush(&server.fd);
        let client = server.client;
        match sent {
            Sent::Blocked => {}
            // The read tells why.
            Sent::Broken => self.server_interest(id, None, Some(false)),
            Sent::All => {
                self.server_interest(id, None, Some(false));
                if let Some(client) = client {
                    self.resumed.push_back(client);
                }
            }
        }
    }

    fn server_read(&mut self, id: ServerId, broken: bool) {
        let Some(server) = self.server(id) else { return };
        if server.is_retiring() {
            return self.retiring_read(id);
        }
        if self.client_is_blocked(id) {
            if broken {
                // Its end is told again and again, and must wait for the client.
                return self.unwatch(id);
            }
            return self.server_interest(id, Some(false), None);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let Some(server) = self.server(id) else { return self.scratch = scratch };
        let held = server.input.len();
        if let Some(head) = scratch.get_mut(..held) {
            head.copy_from_slice(&server.input);
        }
        server.input.clear();
        let room = scratch.len().saturating_sub(held);
        match io::read(&server.fd, scratch.get_mut(held..).unwrap_or_default()) {
            Moved::Bytes(count) => {
                self.leftover |= count == room;
                self.server_bytes(id, scratch.get(..held + count).unwrap_or_default());
            }
            Moved::Later => keep(server, scratch.get(..held).unwrap_or_default()),
            Moved::End => self.server_lost(id, Lost::Ended, "server conn crashed?"),
            Moved::Broken(error) => self.server_lost(id, Lost::Ended, error.desc()),
        }
        self.scratch = scratch;
    }

    /// A client that was stopped because too much was outstanding goes on when half is answered.
    fn resume_pipeline(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        if server.tracker.outstanding() > PIPELINE / 2 {
            return;
        }
        if let Some(client) = server.client
            && self.client(client).is_some_and(|client| !client.input.is_empty() && !client.stalled)
        {
            self.resumed.push_back(client);
        }
    }

    fn client_is_blocked(&mut self, id: ServerId) -> bool {
        let client = self.server(id).and_then(|server| server.client);
        client
            .and_then(|client| self.client(client))
            .is_some_and(|client| !client.outbox.is_empty())
    }

    fn server_bytes(&mut self, id: ServerId, input: &[u8]) {
        let mut at = 0;
        while at < input.len() {
            let rest = input.get(at..).unwrap_or_default();
            match self.server_part(id, rest) {
                Part::Taken(count) => at += count,
                Part::Last(count) => {
                    at += count;
                    break;
                }
                Part::Gone => return,
            }
        }
        let Some(server) = self.server(id) else { return };
        keep(server, input.get(at..).unwrap_or_default());
        if std::mem::replace(&mut server.unsettled, false)
            && matches!(server.phase, Phase::Held)
            && server.cancels == 0
        {
            self.give_back(id);
        }
    }

    fn server_part(&mut self, id: ServerId, rest: &[u8]) -> Part {
        let Some(server) = self.server(id) else { return Part::Gone };
        let leased = matches!(server.phase, Phase::Leased);
        match server.phase {
            Phase::Retiring | Phase::Connecting => return Part::Gone,
            Phase::Login(_) => {
                return match self.server_login_input(id, rest) {
                    Some(0) => Part::Last(0),
                    Some(count) => Part::Taken(count),
                    None => Part::Gone,
                };
            }
            Phase::Lookup(_) => {
                return match self.lookup_input(id, rest) {
                    Some(0) => Part::Last(0),
                    Some(count) => Part::Taken(count),
                    None => Part::Gone,
                };
            }
            Phase::Setup
            | Phase::Idle
            | Phase::Preparing
            | Phase::Leased
            | Phase::Resetting
            | Phase::Held => {}
        }
        match self.answer(id, rest) {
            Answered::Partly(count) => {
                if leased {
                    self.resume_pipeline(id);
                }
                Part::Last(count)
            }
            Answered::Over(count) => {
                if let Some(server) = self.server(id) {
                    server.unsettled = count < rest.len();
                }
                if leased {
                    self.after_answer(id);
                } else {
                    self.own_done(id);
                }
                Part::Taken(count)
            }
            Answered::Broken(why) => {
                self.server_lost(id, Lost::OutOfStep, why);
                Part::Gone
            }
        }
    }
}

/// What became of a server's bytes.
enum Part {
    Taken(usize),
    /// The rest is the head of a message that is needed whole.
    Last(usize),
    Gone,
}

/// The head of a message that is needed whole stays with its server.
fn keep(server: &mut Server, rest: &[u8]) {
    server.input.clear();
    server.input.extend_from_slice(rest);
    if rest.is_empty() && server.input.capacity() > 4096 {
        server.input = Vec::new();
    }
}
