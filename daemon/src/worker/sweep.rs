//! Time: what has waited, idled or run for too long.
//!
//! No timer is armed for a request. A few times a second the servers and those who wait are looked
//! at, once a second all clients; so a timeout may come a third of a second late, as in PgBouncer.

use std::time::{Duration, Instant};

use pgfleet_wire::back::{self, ErrorFields};
use pgfleet_wire::startup::Replication;

use super::client::close::LINGER;
use super::client::refusal::Refusal;
use super::client::welcome::fast_failure;
use super::client::{Client, Stage};
use super::ids::{ClientId, ServerId};
use super::pool::Pool;
use super::server::Phase;
use super::server::retire::{CONNECT_TIMEOUT, Lost};
use super::state::Worker;

/// How often servers and those who wait are looked at.
pub(crate) const EVERY: Duration = Duration::from_millis(300);

/// Every so many sweeps all clients are looked at.
const CLIENTS_EVERY: u32 = 3;

/// The notice of `query_wait_notify`.
const QUEUED: &str = "No server connection available in postgres backend, client being queued";

impl Worker {
    /// One round.
    pub(crate) fn sweep(&mut self, round: u32) {
        self.now = Instant::now();
        if let Some(since) = self.suspended {
            return self.sweep_suspended(since);
        }
        self.resume_accepting();
        self.sweep_servers();
        self.sweep_waiting();
        if round.is_multiple_of(CLIENTS_EVERY) {
            self.sweep_clients();
            self.keep_minimum();
            self.expire_pools();
            self.release_memory();
            self.refresh_names();
        }
        self.shrink();
        self.tell_excess();
        self.feed_the_hungry();
        self.go_on_leaving();
    }

    fn sweep_servers(&mut self) {
        let ids: Vec<ServerId> = self.servers.iter().map(|(_, server)| server.id).collect();
        for id in ids {
            let Some(server) = self.server(id) else { continue };
            let age = server.since.elapsed();
            match server.phase {
                Phase::Retiring => self.give_up_retiring(id),
                Phase::Connecting | Phase::Login(_) => self.sweep_login(id),
                Phase::Idle => self.sweep_idle(id, age),
                Phase::Leased => self.sweep_lease(id),
                Phase::Preparing | Phase::Setup | Phase::Resetting | Phase::Lookup(_) => {
                    self.sweep_own(id, age);
                }
                Phase::Held => {}
            }
        }
    }

    fn sweep_login(&mut self, id: ServerId) {
        let timeout = self.settings.global.server_connect_timeout;
        if let Some(server) = self.server(id)
            && is_over(server.opened.elapsed(), timeout)
        {
            self.server_lost(id, Lost::OutOfStep, CONNECT_TIMEOUT);
        }
    }

    /// A query of the pooler's own that does not come back.
    fn sweep_own(&mut self, id: ServerId, age: Duration) {
        let timeout = self.settings.global.server_connect_timeout;
        if is_over(age, timeout.max(Duration::from_secs(15))) {
            self.server_lost(id, Lost::OutOfStep, "the pooler's own query timed out");
        }
    }

    fn sweep_idle(&mut self, id: ServerId, idle: Duration) {
        let timeout = self.settings.global.server_idle_timeout;
        let Some(server) = self.server(id) else { return };
        let close_needed = server.close_needed;
        let pool = server.pool;
        let minimum = self.pools.get(pool).map_or(0, |pool| {
            let least = self.settings.min_pool_size(&pool.database);
            self.share.map_or(0, |share| share.part(least))
        });
        let spare = self.pools.get(pool).is_some_and(|pool| pool.connected > minimum as usize);
        if close_needed {
            self.retire(id, "server is to be closed");
        } else if is_over(idle, timeout) && spare {
            self.retire(id, "server idle timeout");
        } else if self.has_had_its_time(id) {
            self.retire_for_age(id);
        }
    }

    /// Whether a server is older than `server_lifetime`, with up to a tenth more, and it is its turn.
    pub(crate) fn has_had_its_time(&mut self, id: ServerId) -> bool {
        let Some(server) = self.servers.get(id.index as usize) else { return false };
        let age = self.now.saturating_duration_since(server.opened);
        let Some(pool) = self.pools.get(server.pool) else { return false };
        let lifetime = self.settings.server_lifetime(&pool.database);
        if lifetime.is_zero() {
            // As in PgBouncer: each server is for one lease.
            return server.was_lent();
        }
        let spread = lifetime / 10 * (id.serial % 8) / 8;
        age > lifetime + spread && self.may_age(pool, lifetime)
    }

    /// As in PgBouncer: a full pool is renewed over a whole lifetime, not at once.
    fn may_age(&self, pool: &Pool, lifetime: Duration) -> bool {
        let size = self.permits.regular_part(&pool.name, &pool.user).unwrap_or(0);
        let gap = lifetime.checked_div(size).unwrap_or_default();
        pool.aged.is_none_or(|last| self.now.saturating_duration_since(last) >= gap)
    }

    /// Closes a server that has had its time.
    pub(crate) fn retire_for_age(&mut self, id: ServerId) {
        let now = self.now;
        let pool = self.server(id).map(|server| server.pool);
        if let Some(pool) = pool.and_then(|pool| self.pool(pool)) {
            pool.aged = Some(now);
        }
        self.retire(id, "server lifetime over");
    }

    fn sweep_lease(&mut self, id: ServerId) {
        let shared = self.server(id).filter(|server| server.replication == Replication::None);
        // Replication has no end: no timeout is for it.
        let Some(client_id) = shared.and_then(|server| server.client) else { return };
        if self.settings.global.server_fast_close
            && !self.shares_servers(client_id)
            && self
                .server(id)
                .is_some_and(|server| server.close_needed && server.tracker.may_release())
            && self.client(client_id).is_some_and(|client| client.body_left == 0)
        {
            return self.refuse(client_id, &Refusal::ConfigurationChanged);
        }
        let busy = self.server(id).is_some_and(|server| server.tracker.busy());
        let status = self.server(id).map_or(b'I', |server| server.tracker.status());
        let in_batch = self.server(id).is_some_and(|server| server.tracker.in_batch());
        let Some(client) = self.client(client_id) else { return };
        let user = client.user().to_owned();
        let (query, xact, answered) = (client.query_started, client.xact_started, client.answered);
        let waits_for_client = !busy && (status != b'I' || in_batch || client.body_left > 0);
        let open = busy || waits_for_client;
        let refusal = if busy && has_run(query, self.settings.query_timeout(&user)) {
            Refusal::QueryTimeout
        } else if open && has_run(xact, self.settings.transaction_timeout(&user)) {
            Refusal::TransactionTimeout
        } else if waits_for_client
            && has_run(answered.or(query), self.settings.idle_transaction_timeout(&user))
        {
            Refusal::IdleTransactionTimeout
        } else {
            return;
        };
        self.refuse(client_id, &refusal);
    }

    fn sweep_waiting(&mut self) {
        let pools: Vec<_> = self.hungry.iter().copied().collect();
        for pool in pools {
            let Some(entry) = self.pool(pool) else { continue };
            let waiting: Vec<ClientId> = entry.queued().collect();
            let database = std::rc::Rc::clone(&entry.database);
            let failing = fast_failure(entry);
            for id in waiting {
                let Some(client) = self.client(id) else { continue };
                let Some(since) = client.waiting_since else { continue };
                let user = client.user().to_owned();
                let waited = since.elapsed();
                if let Some(refusal) = &failing
                    && waited > self.settings.global.server_login_retry
                    && self.client(id).is_some_and(|client| client.looks_up())
                {
                    // Whoever comes later is told so at once: a look-up waits no longer than for one retry.
                    self.refuse(id, refusal);
                } else if is_over(waited, self.settings.query_wait_timeout(&database, &user)) {
                    self.refuse(id, &Refusal::QueryWaitTimeout);
                } else if is_over(waited, self.settings.query_timeout(&user)) {
                    self.refuse(id, &Refusal::QueryTimeoutWaiting);
                } else if is_over(waited, self.settings.global.query_wait_notify) {
                    self.notify_waiting(id);
                }
            }
        }
    }

    fn notify_waiting(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        if std::mem::replace(&mut client.told_to_wait, true) || !client.is_session() {
            return;
        }
        let mut out = Vec::new();
        back::notice(&mut out, &ErrorFields::notice(QUEUED));
        self.reply(id, &out);
    }

    fn sweep_clients(&mut self) {
        let login = self.settings.global.client_login_timeout;
        let cancel = self.settings.global.cancel_wait_timeout;
        let mut due: Vec<(ClientId, Option<Refusal>)> = Vec::new();
        for (_, client) in &self.clients {
            let age = self.now.saturating_duration_since(client.connected);
            match client.stage {
                Stage::Login(_) if is_over(age, login) && client.looks_up() => {
                    due.push((client.id, Some(Refusal::LoginTimeoutServerDown)));
                }
                Stage::Opening | Stage::Login(_) if is_over(age, login) => {
                    due.push((client.id, Some(Refusal::LoginTimeout)));
                }
                Stage::AwaitingWelcome if is_over(age, login) => {
                    due.push((client.id, Some(Refusal::LoginTimeoutServerDown)));
                }
                Stage::Session if self.has_idled(client) => {
                    due.push((client.id, Some(Refusal::IdleTimeout)));
                }
                Stage::Closing if client.active.elapsed() > LINGER => due.push((client.id, None)),
                Stage::Canceling if is_over(age, cancel * 2) => due.push((client.id, None)),
                Stage::Opening
                | Stage::Login(_)
                | Stage::AwaitingWelcome
                | Stage::Session
                | Stage::Console(_)
                | Stage::Canceling
                | Stage::Closing => {}
            }
        }
        for (id, refusal) in due {
            match refusal {
                Some(refusal) => self.refuse(id, &refusal),
                None => self.drop_client(id, "time is up"),
            }
        }
    }

    fn has_idled(&self, client: &Client) -> bool {
        let global = self.settings.global.client_idle_timeout;
        if global.is_zero() && self.settings.users.is_empty() {
            return false;
        }
        client.lease.is_none() && client.waiting_since.is_none() && {
            let last = client.active.max(client.idle_since);
            let idle = self.now.saturating_duration_since(last);
            is_over(idle, self.settings.client_idle_timeout(client.user()))
        }
    }
}

/// A timeout of 0 is none.
fn is_over(time: Duration, timeout: Duration) -> bool {
    !timeout.is_zero() && time > timeout
}

fn has_run(since: Option<Instant>, timeout: Duration) -> bool {
    since.is_some_and(|since| is_over(since.elapsed(), timeout))
}
