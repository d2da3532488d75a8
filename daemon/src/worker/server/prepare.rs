//! What a server is asked by the pooler itself: the client's settings before a lease, a check after
//! a long idle time, the reset after one.
//!
//! Values are bound parameters, never part of a statement. The client waits until the answer is
//! there; a value that Postgres refuses ends that client and nobody else.

use std::rc::Rc;
use std::time::Duration;

use pgfleet_wire::{back, front};

use super::Phase;
use crate::worker::client::refusal::Refusal;
use crate::worker::ids::{ClientId, ServerId};
use crate::worker::state::Worker;
use crate::worker::vars;

/// Whether a server fits its client.
pub(crate) enum Prepared {
    Already,
    /// It has been asked; the client is resumed when it has answered.
    Asked,
}

impl Worker {
    /// Makes a server fit the client that it was just lent to.
    pub(crate) fn prepare(
        &mut self,
        client_id: ClientId,
        id: ServerId,
        idle: Duration,
    ) -> Prepared {
        let delay = self.settings.global.server_check_delay;
        let Some(client) = self.client(client_id) else { return Prepared::Already };
        let (own, wanted) = (client.own, client.vars.clone());
        let Some(server) = self.server(id) else { return Prepared::Already };
        let same = wanted.as_ref().is_some_and(|wanted| Rc::ptr_eq(wanted, &server.vars));
        // A delay of 0 checks always, also where there was no idle time.
        let is_due = delay.is_zero() || idle > delay;
        let check = is_due && !self.settings.global.server_check_query.is_empty();
        if same && !check {
            return Prepared::Already;
        }
        let Some(server) = self.server(id) else { return Prepared::Already };
        let differences = match &wanted {
            Some(wanted) => vars::differences(wanted, own, &server.defaults, &server.vars),
            None => Vec::new(),
        };
        if differences.is_empty() && !check {
            self.tell_changes(client_id, id);
            return Prepared::Already;
        }
        self.ask(id, &differences, check);
        Prepared::Asked
    }

    fn ask(&mut self, id: ServerId, differences: &[(usize, Rc<str>)], check: bool) {
        let mut out = Vec::new();
        let mut tags = Vec::new();
        if check {
            let query = match self.settings.global.server_check_query.as_str() {
                "<empty>" => "",
                query => query,
            };
            front::query(&mut out, query);
            tags.push(b'Q');
        }
        // `client_encoding` says how the other values are read: it goes alone and first.
        let first = differences.iter().take_while(|(position, _)| *position == 0).count();
        let (encoding, others) = differences.split_at(first);
        for group in [encoding, others] {
            if !group.is_empty() {
                self.set_config(&mut out, group);
                tags.extend_from_slice(b"PBE");
            }
        }
        if !differences.is_empty() {
            front::sync(&mut out);
            tags.push(b'S');
        }
        self.send_own(id, Phase::Preparing, &out, &tags);
    }

    fn set_config(&self, out: &mut Vec<u8>, group: &[(usize, Rc<str>)]) {
        let calls: Vec<String> = (0..group.len())
            .map(|at| format!("pg_catalog.set_config(${}, ${}, false)", 2 * at + 1, 2 * at + 2))
            .collect();
        let mut parameters: Vec<Option<&[u8]>> = Vec::with_capacity(2 * group.len());
        for (position, value) in group {
            parameters.push(Some(self.tracked.name(*position).as_bytes()));
            parameters.push(Some(value.as_bytes()));
        }
        front::parse(out, "", format!("SELECT {}", calls.join(", ")), &[]);
        front::bind(out, "", "", &parameters);
        front::execute(out, "", 0);
    }

    /// Runs one query of the pooler's own.
    pub(crate) fn run_own(&mut self, id: ServerId, phase: Phase, query: &str) {
        let mut out = Vec::new();
        front::query(&mut out, query);
        self.send_own(id, phase, &out, b"Q");
    }

    fn send_own(&mut self, id: ServerId, phase: Phase, out: &[u8], tags: &[u8]) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        server.enter(phase, now);
        server.refused = false;
        server.check_failed = false;
        server.unnamed_of = None;
        server.unnamed_in_batch = false;
        for &tag in tags {
            server.tracker.own(tag);
        }
        self.server_say(id, out);
    }

    /// Cleans a server of what its client has left.
    pub(crate) fn reset(&mut self, id: ServerId) {
        let query = self.settings.global.server_reset_query.clone();
        let Some(server) = self.server(id) else { return };
        if server.close_needed {
            return self.retire(id, "server is to be closed");
        }
        if query.is_empty() {
            return self.give_back(id);
        }
        self.run_own(id, Phase::Resetting, &query);
    }

    /// The server has answered the pooler's own request.
    pub(crate) fn own_done(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        let refused = server.refused || server.check_failed;
        let clean = server.tracker.may_release();
        match server.phase {
            Phase::Preparing => self.prepared(id),
            // Errors of connect_query are only logged, as in PgBouncer.
            Phase::Setup if clean => self.give_back(id),
            Phase::Resetting if clean && !refused => self.give_back(id),
            Phase::Setup | Phase::Resetting => self.retire(id, "reset query failed"),
            Phase::Connecting
            | Phase::Login(_)
            | Phase::Lookup(_)
            | Phase::Idle
            | Phase::Leased
            | Phase::Held
            | Phase::Retiring => {}
        }
    }

    fn prepared(&mut self, id: ServerId) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        let Some(client_id) = server.client else { return self.give_back(id) };
        if !server.tracker.may_release() {
            self.refuse(client_id, &Refusal::ServerCrashed);
            return self.retire(id, "check query left a transaction open");
        }
        if server.check_failed {
            let pool = server.pool;
            self.wait_again(client_id, pool);
            self.retire(id, "server_check_query failed");
            return self.serve_line(pool);
        }
        server.enter(Phase::Leased, now);
        if server.refused {
            // The client leaves, and its server goes back clean: nothing was set.
            return self.refuse(client_id, &Refusal::BadParameter);
        }
        self.tell_changes(client_id, id);
        self.resumed.push_back(client_id);
    }

    /// The client is told what differs from what it knew: Postgres' own spelling of a value, or a
    /// default that has changed since it logged in.
    fn tell_changes(&mut self, client_id: ClientId, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        let now = Rc::clone(&server.vars);
        let tracked = Rc::clone(&self.tracked);
        let Some(client) = self.client(client_id) else { return };
        let before = client.vars.replace(Rc::clone(&now));
        let Some(before) = before.filter(|before| !Rc::ptr_eq(before, &now)) else { return };
        let mut out = Vec::new();
        for (position, (old, new)) in before.iter().zip(now.iter()).enumerate() {
            if let Some(new) = new
                && Some(new) != old.as_ref()
            {
                back::parameter_status(&mut out, tracked.name(position), &**new);
            }
        }
        if !out.is_empty() {
            self.reply(client_id, &out);
        }
    }
}
