//! Leaving: how a worker lets its clients go and comes to its end.
//!
//! A drain for scale-down waits for the clients; a drain for a restart lets each go between two
//! transactions, never inside one, and closes what is left at its deadline. A worker whose
//! supervisor is gone does the latter.

use std::time::{Duration, Instant};

use log::{info, warn};

use super::client::Stage;
use super::client::refusal::Refusal;
use super::ids::ClientId;
use super::server::Phase;
use super::state::Worker;
use crate::ledger::Accepting;
use crate::link::message::{Drain, ToSupervisor};
use crate::link::switches::Doors;

/// A client that has logged in and not asked for anything yet gets so long for its first request.
const GRACE: Duration = Duration::from_secs(1);

/// So long after its last answer a client is idle.
const IDLE: Duration = Duration::from_millis(100);

impl Worker {
    /// The supervisor says: leave.
    pub(crate) fn start_leaving(&mut self, drain: Drain) {
        match drain {
            Drain::WhenClientsLeave => info!("leaving when the last client has left"),
            Drain::WhenServersLeave => info!("leaving when the last server is free"),
            Drain::BetweenTransactions(timeout) => info!(
                "leaving: clients are let go between two transactions, all by {} s from now",
                timeout.as_secs()
            ),
        }
        self.drain = Some((drain, Instant::now()));
        self.ledger.row(self.welcome.worker).set_accepting(Accepting::No);
        match self.switches.doors {
            Doors::Open => {
                self.drop_listeners();
                self.hand_on_the_unread();
            }
            Doors::Closing => self.drop_tcp_listeners(),
        }
        self.go_on_leaving();
    }

    /// Whether this worker is to end: it is told so, or has lost its share.
    pub(crate) fn is_leaving(&self) -> bool {
        self.drain.is_some() || (self.ready && self.share.is_none())
    }

    /// Clients of which nothing has been read are served by others.
    fn hand_on_the_unread(&mut self) {
        let unread: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| {
                matches!(client.stage, Stage::Opening)
                    && client.input.is_empty()
                    && client.connected.elapsed() < GRACE
            })
            .map(|(_, client)| client.id)
            .collect();
        for id in unread {
            self.hand_on(id);
        }
    }

    /// The supervisor says: serve on.
    pub(crate) fn stop_leaving(&mut self) {
        self.drain = None;
        self.ledger.row(self.welcome.worker).set_accepting(Accepting::Yes);
    }

    /// The link has ended: the supervisor is gone, and nobody will tell us anything any more.
    pub(crate) fn orphan(&mut self) {
        warn!("the supervisor is gone; serving the clients until they are done, and no new ones");
        self.orphaned = true;
        self.start_leaving(Drain::BetweenTransactions(self.settings.global.drain_timeout));
    }

    /// Called by the sweep.
    pub(crate) fn go_on_leaving(&mut self) {
        let Some((drain, since)) = self.drain else { return };
        match drain {
            Drain::WhenClientsLeave => {}
            Drain::WhenServersLeave => self.turn_waiters_away(),
            Drain::BetweenTransactions(timeout) => {
                let is_late = since.elapsed() >= timeout;
                self.let_go(is_late);
            }
        }
        if self.clients.is_empty() && self.hands.is_empty() {
            self.end_servers();
        }
        if self.is_empty() && !self.quit {
            self.say(&ToSupervisor::Drained, None);
            self.quit = true;
        }
    }

    /// Everything is paused: who waits for a server will not get one, and without servers nobody needs to
    /// stay.
    fn turn_waiters_away(&mut self) {
        let is_over = self.servers.is_empty();
        let ids: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| is_over || client.waiting_since.is_some())
            .map(|(_, client)| client.id)
            .collect();
        for id in ids {
            let waits = self.client(id).is_some_and(|client| client.waiting_since.is_some());
            self.refuse(id, if waits { &Refusal::ServerShuttingDown } else { &Refusal::LetGo });
        }
    }

    fn let_go(&mut self, is_late: bool) {
        let ids: Vec<ClientId> = self.clients.iter().map(|(_, client)| client.id).collect();
        for id in ids {
            if is_late {
                self.refuse(id, &Refusal::LetGo);
            } else {
                self.let_go_if_idle(id);
            }
        }
    }

    /// A client that may be between two transactions, while the worker is leaving: it is let go if it
    /// has been idle for a moment. One that has just got an answer could take the last words for a
    /// part of that, as libpq does, and see nothing but the end; it hears them at its next request.
    fn let_go_if_idle(&mut self, id: ClientId) {
        let (now, is_between) = (self.now, self.is_between_transactions(id));
        let is_resumable = self.switches.doors == Doors::Open;
        let can_serve = |worker: &mut Self| {
            worker
                .pool_of_client(id)
                .and_then(|pool| worker.pool(pool))
                // A paused one is served by RESUME.
                .is_some_and(|pool| {
                    (pool.paused && is_resumable) || pool.connected + pool.opening > 0
                })
        };
        let Some(client) = self.client(id) else { return };
        let has_been_idle = match client.stage {
            Stage::Session => {
                let last = client.answered.unwrap_or(client.idle_since).max(client.active);
                now.saturating_duration_since(last) >= IDLE
            }
            Stage::Console(_) => true,
            Stage::AwaitingWelcome => false,
            Stage::Opening | Stage::Login(_) | Stage::Canceling | Stage::Closing => return,
        };
        let waits = client.waiting_since.is_some();
        if (is_between && has_been_idle) || (waits && !can_serve(self)) {
            self.refuse(id, &Refusal::LetGo);
        }
    }

    /// A request of a client has come: if the worker is leaving and nothing binds the client to it, it
    /// is let go, and what it asked has not been done. Returns whether it is gone.
    pub(crate) fn let_go_at_request(&mut self, id: ClientId) -> bool {
        let is_leaving = matches!(self.drain, Some((Drain::BetweenTransactions(_), _)));
        if !is_leaving || !self.is_between_transactions(id) {
            return false;
        }
        self.refuse(id, &Refusal::LetGo);
        true
    }

    fn is_between_transactions(&mut self, id: ClientId) -> bool {
        let Some(client) = self.client(id) else { return false };
        let is_free = match client.stage {
            Stage::Session => client.body_left == 0 && client.input.is_empty(),
            Stage::Console(_) => true,
            Stage::AwaitingWelcome
            | Stage::Opening
            | Stage::Login(_)
            | Stage::Canceling
            | Stage::Closing => false,
        };
        let is_new = client.query_count == 0 && client.connected.elapsed() < GRACE;
        let (lease, waits) = (client.lease, client.waiting_since.is_some());
        // A client that keeps its server is between two transactions when that says so.
        is_free
            && !is_new
            && !waits
            && lease.and_then(|lease| self.server(lease)).is_none_or(|server| {
                matches!(server.phase, Phase::Leased) && server.tracker.may_release()
            })
    }

    fn end_servers(&mut self) {
        let ids: Vec<_> = self.servers.iter().map(|(_, server)| server.id).collect();
        for id in ids {
            self.retire(id, "the worker is leaving");
        }
    }
}
