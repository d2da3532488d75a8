//! Replication: a client that has a server of its own from its login to its end.
//!
//! Such a server is logged in to with what the client asked for at its startup, is lent to nobody else
//! and ends with its client. It counts in all limits; where they are reached, idle servers make room.
//! Welcome, login and leaving call it; what is sent and answered goes through the relay like all else.

use std::rc::Rc;

use pgfleet_wire::startup::{Replication, Startup};

use super::client::refusal::Refusal;
use super::ids::{ClientId, PoolId, ServerId};
use super::pool::Welcome;
use super::pool::backoff::Failed;
use super::server::Phase;
use super::state::Worker;

/// What a replication client asked for.
pub(crate) struct Replicating {
    pub(crate) kind: Replication,
    /// For the startup packet of its server, besides user and database.
    pub(crate) parameters: Vec<(String, String)>,
}

impl Replicating {
    /// `None` for a client that wants no replication. Parameters are passed on as they are, but for those
    /// that `is_ignored`.
    pub(crate) fn of(startup: &Startup, is_ignored: impl Fn(&str) -> bool) -> Option<Self> {
        let word = startup.replication.word()?;
        let mut parameters = vec![("replication".to_owned(), word.to_owned())];
        if let Some(options) = &startup.options_text {
            parameters.push(("options".to_owned(), options.clone()));
        }
        let others = startup.params.iter().filter(|(name, _)| !is_ignored(name));
        parameters.extend(others.cloned());
        Some(Self { kind: startup.replication, parameters })
    }

    /// The value of a parameter; the last one counts.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.parameters.iter().rev();
        pairs.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Worker {
    /// A client has logged in that needs a server of its own.
    pub(crate) fn wait_for_own_server(&mut self, id: ClientId, pool_id: PoolId) {
        let now = self.now;
        let Some(pool) = self.pool(pool_id) else { return };
        pool.dedicated.push_back(id);
        self.hungry.insert(pool_id);
        if let Some(client) = self.client(id) {
            client.waiting_since = Some(now);
        }
        self.launch(pool_id);
    }

    /// A connection to Postgres is there: it is for the replication client that has waited longest, if
    /// there is one.
    pub(crate) fn dedicate(&mut self, id: ServerId) {
        let Some(pool) = self.server(id).map(|server| server.pool) else { return };
        let Some(client_id) = self.pool(pool).and_then(|pool| pool.dedicated.pop_front()) else {
            return;
        };
        let Some(client) = self.client(client_id) else { return };
        let Some(kind) = client.replication.as_ref().map(|wanted| wanted.kind) else { return };
        client.lease = Some(id);
        if let Some(server) = self.server(id) {
            server.client = Some(client_id);
            server.replication = kind;
        }
    }

    /// Its server has logged in: the client is greeted with what that said.
    pub(crate) fn own_server_ready(&mut self, id: ServerId, welcome: &Rc<Welcome>) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        server.enter(Phase::Leased, now);
        let client_id = server.client.take();
        let Some(client) = client_id.and_then(|client| self.client(client)) else {
            return self.retire(id, "replication client left");
        };
        let client_id = client.id;
        client.vars = Some(Rc::clone(&welcome.values));
        let waited = client.waiting_since.take();
        if let Some(server) = self.server(id) {
            server.client = Some(client_id);
        }
        if let Some(totals) = self.totals_of(client_id) {
            totals.server_assignments += 1;
            totals.wait_time += waited
                .map_or(0, |since| super::stats::micros(now.saturating_duration_since(since)));
        }
        self.greet(client_id, welcome);
    }

    /// Its server could not be connected to, or not be logged in to. The former may change: the client
    /// goes on waiting. Returns whether the server was for a replication client, and the pool has
    /// nothing to learn from its login.
    pub(crate) fn own_server_failed(&mut self, id: ServerId, what: Failed) -> bool {
        let Some(server) = self.server(id) else { return false };
        let pool = server.pool;
        let Some(client_id) = server.client.take() else { return false };
        let Some(client) = self.client(client_id) else { return false };
        client.lease = None;
        match what {
            Failed::Connect => {
                if let Some(pool) = self.pool(pool) {
                    pool.dedicated.push_front(client_id);
                }
                self.hungry.insert(pool);
                false
            }
            Failed::Login => {
                self.refuse(client_id, &Refusal::LoginFailed);
                true
            }
        }
    }

    /// Its client has left: the server goes too. Returns whether it was such a server.
    pub(crate) fn own_server_left(&mut self, id: ServerId) -> bool {
        let Some(server) = self.server(id) else { return false };
        if server.replication == Replication::None {
            return false;
        }
        let is_in_login = matches!(server.phase, Phase::Login(_));
        let pool = server.pool;
        if is_in_login && let Some(pool) = self.pool(pool) {
            pool.opening = pool.opening.saturating_sub(1);
        }
        self.retire(id, "replication client left");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(replication: Replication) -> Startup {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Startup {
            replication,
            options_text: Some("-c geqo=off".into()),
            params: vec![pair("DateStyle", "ISO"), pair("extra", "1")],
            ..Startup::default()
        }
    }

    #[test]
    fn what_a_replication_client_asked_for_is_passed_on() {
        let asked = Replicating::of(&startup(Replication::Logical), |name| name == "extra");
        let asked = asked.expect("it wants replication");
        let names: Vec<&str> = asked.parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["replication", "options", "DateStyle"]);
        assert_eq!(asked.value("replication"), Some("database"));
        assert_eq!(asked.value("datestyle"), Some("ISO"));
        assert_eq!(asked.value("extra"), None);
        assert!(Replicating::of(&startup(Replication::None), |_| false).is_none());
    }
}
