//! Lending a server to a client, and taking it back.
//!
//! First come, first served: a client that comes while others wait goes to the end of the line. A
//! server goes back only if the tracker says that it is clean; everything else ends its backend.

use std::time::Duration;

use crate::worker::client::welcome::fast_failure;
use crate::worker::ids::PoolId;
use crate::worker::ids::{ClientId, ServerId};
use crate::worker::pool::Pool;
use crate::worker::server::prepare::Prepared;
use crate::worker::server::{Phase, Server};
use crate::worker::state::Worker;
use crate::worker::stats::micros;
use pgfleet_config::PoolMode;
use pgfleet_wire::tracker::Copy;

/// What became of a wish for a server.
pub(crate) enum Lent {
    Now(ServerId),
    /// It stands in line, or the server is being prepared; it will be resumed.
    Later,
    /// It was told off.
    Gone,
}

impl Worker {
    /// Lends a server to a client that has a request.
    pub(crate) fn lend(&mut self, id: ClientId) -> Lent {
        let Some(client) = self.client(id) else { return Lent::Gone };
        if client.waiting_since.is_some() {
            return Lent::Later;
        }
        let Some(pool_id) = client.pool else { return Lent::Gone };
        let Some(pool) = self.pool(pool_id) else { return Lent::Gone };
        let paused = pool.paused;
        if !paused
            && pool.waiting.is_empty()
            && let Some(server) = self.take_idle(pool_id)
        {
            return self.attach(id, server);
        }
        let Some(pool) = self.pool(pool_id) else { return Lent::Gone };
        if let Some(refusal) = fast_failure(pool) {
            self.probe(pool_id);
            self.refuse(id, &refusal);
            return Lent::Gone;
        }
        pool.waiting.push_back(id);
        self.hungry.insert(pool_id);
        let now = self.now;
        if let Some(client) = self.client(id) {
            client.waiting_since = Some(now);
            client.told_to_wait = false;
        }
        self.launch(pool_id);
        Lent::Later
    }

    /// The idle server to be lent next; those that have had their time are retired on the way.
    fn take_idle(&mut self, pool_id: PoolId) -> Option<ServerId> {
        let round_robin = self.settings.global.server_round_robin;
        loop {
            let pool = self.pool(pool_id)?;
            let id = if round_robin { pool.idle.pop_front() } else { pool.idle.pop_back() }?;
            let Some(server) = self.server(id) else { continue };
            if server.close_needed || server.tracker.doubtful() {
                self.retire(id, "server is to be closed");
                continue;
            }
            if self.has_had_its_time(id) {
                self.retire_for_age(id);
                continue;
            }
            return Some(id);
        }
    }

    /// Binds client and server to each other.
    fn attach(&mut self, client_id: ClientId, server_id: ServerId) -> Lent {
        let now = self.now;
        let Some(server) = self.server(server_id) else { return Lent::Later };
        server.client = Some(client_id);
        server.refused = false;
        server.check_failed = false;
        server.explained = false;
        server.unnamed_in_batch = false;
        server.mid_message = false;
        server.next_round();
        let idle = if server.is_idle() {
            now.saturating_duration_since(server.since)
        } else {
            Duration::ZERO
        };
        server.enter(Phase::Leased, now);
        let Some(client) = self.client(client_id) else { return Lent::Gone };
        client.lease = Some(server_id);
        client.query_count += 1;
        client.xact_started = Some(now);
        client.answered = Some(now);
        let waited = client.waiting_since.take();
        client.told_to_wait = false;
        if let Some(totals) = self.totals_of(client_id) {
            totals.server_assignments += 1;
            totals.wait_time +=
                waited.map_or(0, |since| micros(now.saturating_duration_since(since)));
        }
        let prepared = self.prepare(client_id, server_id, idle);
        if self.client(client_id).is_none_or(|client| client.lease != Some(server_id)) {
            return Lent::Gone;
        }
        match prepared {
            Prepared::Already => Lent::Now(server_id),
            Prepared::Asked => Lent::Later,
        }
    }

    /// A request of a leased server is answered, and nothing is outstanding.
    pub(crate) fn after_answer(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        let Some(client_id) = server.client else {
            return self.retire(id, "server without client");
        };
        let clean = server.tracker.may_release();
        let doubtful = server.tracker.doubtful() && server.tracker.status() == b'I';
        if (clean || doubtful) && self.may_end_lease(client_id) {
            self.end_lease(id, client_id);
        }
        if self.client(client_id).is_some_and(|client| !client.input.is_empty()) {
            self.resumed.push_back(client_id);
        }
    }

    fn may_end_lease(&mut self, id: ClientId) -> bool {
        self.shares_servers(id)
            && self
                .client(id)
                .is_some_and(|client| client.body_left == 0 && !client.statements.pin())
    }

    /// Whether this client gives its server back between transactions.
    pub(crate) fn shares_servers(&mut self, id: ClientId) -> bool {
        let pool = self
            .client(id)
            .and_then(|client| if client.replication.is_some() { None } else { client.pool });
        pool.and_then(|pool| self.pool(pool)).is_some_and(|pool| pool.mode != PoolMode::Session)
    }

    fn end_lease(&mut self, id: ServerId, client: ClientId) {
        self.unlink(id, client);
        if self.settings.global.server_reset_query_always {
            self.reset(id);
        } else {
            self.give_back(id);
        }
    }

    fn unlink(&mut self, id: ServerId, client_id: ClientId) {
        let now = self.now;
        if let Some(client) = self.client(client_id) {
            client.lease = None;
            client.idle_since = now;
            client.xact_started = None;
            client.answered = None;
            client.query_started = None;
            client.stalled = false;
        }
        if let Some(server) = self.server(id) {
            server.client = None;
            server.next_round();
        }
        // Either may have been paused for the other's sake.
        self.server_interest(id, Some(true), None);
        self.client_interest(client_id, Some(true), None);
    }

    /// A client goes away: its server is cleaned, given back or retired.
    pub(crate) fn lease_is_left(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Some(server_id) = client.lease else { return };
        let half_sent = client.body_left > 0;
        let dirty = client.statements.count() > 0 || client.statements.pin();
        let shares = self.shares_servers(id);
        self.unlink(server_id, id);
        let now = self.now;
        let Some(server) = self.server(server_id) else { return };
        if matches!(server.phase, Phase::Preparing) {
            // Our own batch is under way; the server is clean when it is answered.
            return server.enter(Phase::Resetting, now);
        }
        server.mid_message = half_sent;
        if self.own_server_left(server_id) {
            return;
        }
        let Some(server) = self.server(server_id) else { return };
        let in_step = !half_sent && server.outbox.is_empty();
        let clean = server.tracker.may_release() && in_step;
        if in_step && !clean && shares && !dirty && is_idle_in_transaction(server) {
            self.server_interest(server_id, Some(true), None);
            return self.run_own(server_id, Phase::Resetting, "ROLLBACK");
        }
        if !clean {
            return self.retire(server_id, "client disconnect while server was not ready");
        }
        self.server_interest(server_id, Some(true), None);
        if !shares || dirty || self.settings.global.server_reset_query_always {
            self.reset(server_id);
        } else {
            self.give_back(server_id);
        }
    }

    /// A clean server that nobody has: to be retired, held, lent again, or idle.
    pub(crate) fn give_back(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        if server.close_needed || server.tracker.doubtful() {
            return self.retire(id, "server is to be closed");
        }
        if server.cancels > 0 || server.unsettled {
            let now = self.now;
            if let Some(server) = self.server(id) {
                server.enter(Phase::Held, now);
            }
            return;
        }
        if self.has_had_its_time(id) {
            return self.retire_for_age(id);
        }
        let Some(server) = self.server(id) else { return };
        let pool_id = server.pool;
        if self.pools.get(pool_id).is_some_and(|pool| pool.paused) {
            return self.retire(id, "pause mode");
        }
        let idle = self.pools.get(pool_id).map_or(0, |pool| pool.idle.len());
        if self.is_surplus(pool_id, idle + 1) {
            return self.retire(id, "too many servers in the pool");
        }
        self.offer(id, pool_id);
    }

    /// To the first client in line, or to the idle ones.
    fn offer(&mut self, id: ServerId, pool_id: PoolId) {
        let now = self.now;
        while let Some(client_id) = self.pool(pool_id).and_then(|pool| pool.waiting.pop_front()) {
            if self.client(client_id).is_some_and(|client| client.waiting_since.is_some()) {
                if self.client(client_id).is_some_and(|client| client.looks_up()) {
                    return self.begin_lookup(client_id, id);
                }
                if let Lent::Now(_) = self.attach(client_id, id) {
                    self.resumed.push_back(client_id);
                }
                return;
            }
        }
        let Some(server) = self.server(id) else { return };
        server.enter(Phase::Idle, now);
        if let Some(pool) = self.pool(pool_id) {
            pool.idle.push_back(id);
        }
    }

    /// A client whose server was lost before anything was asked of it stands first in line again.
    pub(crate) fn wait_again(&mut self, id: ClientId, pool_id: PoolId) {
        let now = self.now;
        if let Some(client) = self.client(id) {
            client.lease = None;
            client.waiting_since = Some(now);
        }
        if let Some(pool) = self.pool(pool_id) {
            pool.waiting.push_front(id);
        }
        self.hungry.insert(pool_id);
    }

    /// Lends idle servers to those in line.
    pub(crate) fn serve_line(&mut self, pool_id: PoolId) {
        while self.pool(pool_id).is_some_and(|pool| !pool.paused && !pool.waiting.is_empty()) {
            let Some(server) = self.take_idle(pool_id) else { break };
            self.offer(server, pool_id);
        }
    }

    /// A client no longer waits.
    pub(crate) fn leave_line(&mut self, id: ClientId, pool: PoolId) {
        let Some(client) = self.client(id) else { return };
        if client.waiting_since.take().is_some()
            && let Some(pool) = self.pool(pool)
        {
            pool.waiting.retain(|waiting| *waiting != id);
            pool.greeting.retain(|waiting| *waiting != id);
            pool.dedicated.retain(|waiting| *waiting != id);
        }
    }

    /// The pool for a database and a server user, made if it is not there.
    pub(crate) fn find_pool(
        &mut self,
        name: &str,
        database: pgfleet_config::Database,
        user: &str,
    ) -> PoolId {
        if let Some(id) = self.pools.find(name, user) {
            return id;
        }
        let mode = self.settings.pool_mode(&database, user);
        let stats = self.stats.row_of(name);
        let now = self.now;
        let paused = self.switches.pauses(name);
        self.pools.add(|id| {
            let pool = Pool::new(id, user, database, mode, stats, now);
            Pool { paused, ..pool }
        })
    }
}

/// In a transaction, with nothing asked that is not answered: a ROLLBACK makes it clean.
fn is_idle_in_transaction(server: &Server) -> bool {
    let tracker = &server.tracker;
    matches!(server.phase, Phase::Leased)
        && !server.close_needed
        && matches!(tracker.status(), b'T' | b'E')
        && !tracker.busy()
        && !tracker.in_batch()
        && !tracker.doubtful()
        && tracker.copy() == Copy::None
}
