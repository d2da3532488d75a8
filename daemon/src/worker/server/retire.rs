//! Ending a backend: a permit returns only when Postgres has really let it go.
//!
//! Closing a socket does not end a running query. So a busy server is canceled, told to terminate,
//! and read to its end; only then it is gone, for the permits and for the supervisor's copy.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::time::Duration;

use log::{info, warn};
use nix::sys::socket::{Shutdown, shutdown};
use pgfleet_wire::back::ErrorFields;
use pgfleet_wire::front;

use super::Phase;
use crate::link::message::{Failure, ToSupervisor};
use crate::worker::client::refusal::Refusal;
use crate::worker::completion::Requester;
use crate::worker::ids::{PoolId, ServerId};
use crate::worker::io::{self, Moved};
use crate::worker::pool::backoff::Failed;
use crate::worker::state::Worker;

/// The reason that PgBouncer gives for it.
pub(crate) const CONNECT_TIMEOUT: &str = "connect timeout";

/// How a server was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its connection has ended: there is no backend any more.
    Ended,
    /// It says what it should not, or nothing: its backend must be ended.
    OutOfStep,
}

/// A backend that has not ended after this long is given up: the host is gone, or Postgres hangs.
const GIVE_UP: Duration = Duration::from_secs(60);

impl Worker {
    /// Ends a server's backend. Whoever had it must be unlinked already.
    pub(crate) fn retire(&mut self, id: ServerId, reason: &str) {
        let Some(server) = self.server(id) else { return };
        if server.is_retiring() {
            return;
        }
        info!("{server} closing because: {reason} (age={}s)", server.opened.elapsed().as_secs());
        let pool = server.pool;
        let was_connected = !matches!(server.phase, Phase::Connecting | Phase::Login(_));
        if let Some(pool) = self.pool(pool) {
            pool.idle.retain(|idle| *idle != id);
            if was_connected {
                pool.connected = pool.connected.saturating_sub(1);
            }
        }
        self.retire_quietly(id);
    }

    /// The same, for a server that its pool does not count as connected.
    pub(crate) fn retire_quietly(&mut self, id: ServerId) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        if server.is_retiring() {
            return;
        }
        let connecting = matches!(server.phase, Phase::Connecting);
        let busy = server.tracker.busy() || matches!(server.phase, Phase::Lookup(_));
        let in_step = server.outbox.is_empty() && !server.tracker.doubtful() && !server.mid_message;
        server.enter(Phase::Retiring, now);
        server.next_round();
        server.client = None;
        server.input = Vec::new();
        let pool = server.pool;
        if let Some(pool) = self.pools.get(pool) {
            let keys = pool.limit_keys();
            self.permits.start_leaving(&keys);
        }
        if connecting {
            return self.server_gone(id);
        }
        if in_step {
            let mut out = Vec::new();
            front::terminate(&mut out);
            self.server_say(id, &out);
        }
        let Some(server) = self.server(id) else { return };
        // Also what is out of step hears of the end this way; it fails only if the peer has gone.
        let _gone = shutdown(server.fd.as_raw_fd(), Shutdown::Write);
        self.server_interest(id, Some(true), Some(false));
        if busy {
            self.cancel_server(id, Requester::Nobody);
        }
    }

    /// Reads a retiring server to its end.
    pub(crate) fn retiring_read(&mut self, id: ServerId) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let moved = self.server(id).map(|server| io::read(&server.fd, &mut scratch));
        self.scratch = scratch;
        match moved {
            Some(Moved::Bytes(_)) => self.leftover = true,
            Some(Moved::Later) | None => {}
            Some(Moved::End | Moved::Broken(_)) => self.server_gone(id),
        }
    }

    /// Called by the sweep: a backend that does not end is given up.
    pub(crate) fn give_up_retiring(&mut self, id: ServerId) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        if now.saturating_duration_since(server.since) > GIVE_UP {
            warn!(
                "{server} did not end its backend in {} s; its connection is given up",
                GIVE_UP.as_secs()
            );
            self.server_gone(id);
        }
    }

    /// The backend is gone: its permits return.
    fn server_gone(&mut self, id: ServerId) {
        if self.server(id).is_none() {
            return;
        }
        let server = self.servers.remove(id.index as usize);
        self.io.remove(server.fd.as_fd());
        self.say(&ToSupervisor::Closed { server: id.number() }, None);
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.servers = pool.servers.saturating_sub(1);
            pool.used = self.now;
            let keys = pool.limit_keys();
            if server.is_retiring() {
                self.permits.leave(&keys);
            } else {
                self.permits.give_back(&keys);
            }
        }
        self.tell_excess();
        self.feed_the_hungry();
    }

    /// A server's connection has ended, or is out of step, by the server's doing.
    pub(crate) fn server_lost(&mut self, id: ServerId, lost: Lost, reason: &str) {
        let Some(server) = self.server(id) else { return };
        let (pool, client, explained) = (server.pool, server.client, server.explained);
        let (host, at) = (Rc::clone(&server.host), server.address.ip());
        match server.phase {
            Phase::Retiring => return self.server_gone(id),
            Phase::Connecting | Phase::Login(_) => {
                let text = if reason == CONNECT_TIMEOUT {
                    reason
                } else if matches!(server.phase, Phase::Connecting) {
                    "connect failed"
                } else {
                    "server conn crashed?"
                };
                warn!("{server} {text}: {reason}");
                if let Some(pool) = self.pool(pool) {
                    pool.opening = pool.opening.saturating_sub(1);
                }
                self.own_server_failed(id, Failed::Connect);
                // First remembered, then gone: its end lets others try again.
                self.login_failed(pool, (&host, at), Failed::Connect, text, None);
                return self.retire_quietly(id);
            }
            Phase::Lookup(_)
            | Phase::Setup
            | Phase::Idle
            | Phase::Preparing
            | Phase::Leased
            | Phase::Resetting
            | Phase::Held => {}
        }
        let unused = matches!(server.phase, Phase::Preparing) && lost == Lost::Ended;
        if let Some(client_id) = client
            && matches!(server.phase, Phase::Lookup(_))
        {
            self.lookup_lost(client_id, pool);
        } else if let Some(client_id) = client
            && unused
        {
            self.wait_again(client_id, pool);
        } else if let Some(client_id) = client {
            let half_sent = self
                .client(client_id)
                .is_some_and(|client| client.lease.take().is_some() && client.body_left > 0);
            if let Some(server) = self.server(id) {
                server.mid_message = half_sent;
            }
            if explained {
                self.linger(client_id, reason);
            } else {
                let refusal = match lost {
                    Lost::Ended => Refusal::ServerCrashed,
                    Lost::OutOfStep => Refusal::OutOfStep(reason.to_owned()),
                };
                self.refuse(client_id, &refusal);
            }
        }
        match lost {
            Lost::OutOfStep => self.retire(id, reason),
            Lost::Ended => self.end_without_farewell(id, reason),
        }
        self.serve_line(pool);
    }

    fn end_without_farewell(&mut self, id: ServerId, reason: &str) {
        let Some(server) = self.server(id) else { return };
        info!("{server} closing because: {reason} (age={}s)", server.opened.elapsed().as_secs());
        let pool = server.pool;
        if let Some(pool) = self.pool(pool) {
            pool.idle.retain(|idle| *idle != id);
            pool.connected = pool.connected.saturating_sub(1);
        }
        self.server_gone(id);
    }

    /// Nobody can be served by a new server of this pool, for now.
    pub(crate) fn login_failed(
        &mut self,
        id: PoolId,
        (host, at): (&str, Option<IpAddr>),
        what: Failed,
        reason: &str,
        fields: Option<ErrorFields>,
    ) {
        if self.try_next_host(id, host, at) {
            return;
        }
        let (now, retry) = (self.now, self.settings.global.server_login_retry);
        let Some(pool) = self.pool(id) else { return };
        pool.backoff.fail(what, reason.to_owned(), retry, now);
        let failure = match what {
            Failed::Connect => Failure::Connect(reason.to_owned()),
            Failed::Login => Failure::Login(reason.to_owned()),
        };
        self.teach(id, Some(failure));
        self.hungry.insert(id);
        let Some(pool) = self.pool(id) else { return };
        if pool.connected > 0 || what == Failed::Connect {
            return;
        }
        // What is wrong with a login concerns all who wait for one.
        let refusal = match fields {
            Some(fields) => Refusal::FromServer { sqlstate: fields.code, message: fields.message },
            None => Refusal::FromServer { sqlstate: "08P01".into(), message: reason.to_owned() },
        };
        let mut waiting: Vec<_> = pool.waiting.drain(..).collect();
        waiting.append(&mut pool.greeting);
        waiting.extend(pool.dedicated.drain(..));
        for client in waiting {
            self.refuse(client, &refusal);
        }
    }
}
