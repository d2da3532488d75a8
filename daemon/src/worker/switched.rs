//! What the operator has switched or ordered, carried out in this worker.
//!
//! It keeps pools to PAUSE, closes servers for RECONNECT and KILL, drops single clients, and counts what is
//! left of them for those who wait. It never decides what may be switched; that is the supervisor's, whose
//! messages `control` passes on.

use std::collections::BTreeMap;
use std::time::Duration;

use log::info;

use super::client::Stage;
use super::client::refusal::Refusal;
use super::ids::{ClientId, PoolId, ServerId};
use super::pool::backoff::Failed;
use super::server::Phase;
use super::server::retire::Lost;
use super::state::Worker;
use crate::link::switches::{Activity, Order, Scope, Switches};
use crate::link::table::{Row, Value};

/// Why servers of a paused pool are closed, in PgBouncer's words.
const PAUSED: &str = "pause mode";
/// Why KILL and KILL_CLIENT close.
const FORCED: &str = "admin forced disconnect";
/// Why RECONNECT closes.
const RECONNECT: &str = "RECONNECT command issued";

/// A backend that takes longer to end holds nobody up any more: its host may be gone.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Worker {
    /// Keeps to these switches from now on.
    pub(crate) fn switch(&mut self, switches: Switches) {
        let before = std::mem::replace(&mut self.switches, switches);
        for id in self.pools.ids() {
            self.pause_or_resume(id);
        }
        match (before.activity, self.switches.activity) {
            (Activity::Suspended, Activity::Suspended) => {}
            (_, Activity::Suspended) => self.suspend(),
            (Activity::Suspended, _) => self.wake(),
            (Activity::Running | Activity::Paused, Activity::Running | Activity::Paused) => {}
        }
    }

    fn pause_or_resume(&mut self, id: PoolId) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let paused = self.switches.pauses(&pool.name);
        let was_paused = std::mem::replace(&mut pool.paused, paused);
        if paused {
            self.close_free_servers(id, PAUSED);
        } else if was_paused {
            pool.denied = false;
            self.serve_line(id);
            self.launch(id);
        }
    }

    /// Closes the servers of a pool that nobody uses; those on their way up are not waited for.
    fn close_free_servers(&mut self, pool: PoolId, reason: &str) {
        for id in self.servers_of(pool) {
            let Some(server) = self.server(id) else { continue };
            match server.phase {
                Phase::Idle => self.retire(id, reason),
                Phase::Connecting | Phase::Login(_) => self.drop_opening(id, reason),
                Phase::Setup
                | Phase::Preparing
                | Phase::Leased
                | Phase::Lookup(_)
                | Phase::Resetting
                | Phase::Held
                | Phase::Retiring => {}
            }
        }
    }

    fn drop_opening(&mut self, id: ServerId, reason: &str) {
        let Some(server) = self.server(id) else { return };
        info!("{server} closing because: {reason} (age={}s)", server.opened.elapsed().as_secs());
        let pool = server.pool;
        // A replication client for which it was opened waits for another one.
        self.own_server_failed(id, Failed::Connect);
        if let Some(pool) = self.pool(pool) {
            pool.opening = pool.opening.saturating_sub(1);
        }
        self.retire_quietly(id);
    }

    fn servers_of(&self, pool: PoolId) -> Vec<ServerId> {
        let servers = self.servers.iter().filter(|(_, server)| server.pool == pool);
        servers.map(|(_, server)| server.id).collect()
    }

    /// Does what is to be done once; says to how many it was done.
    pub(crate) fn obey(&mut self, order: &Order) -> usize {
        match order {
            Order::Report => 0,
            Order::Reconnect(scope) => self.reconnect(scope),
            Order::Kill(scope) => self.kill(scope),
            Order::KillClient(number) => self.kill_client(*number),
        }
    }

    fn pools_in(&self, scope: &Scope) -> Vec<PoolId> {
        self.pools.iter().filter(|pool| scope.covers(&pool.name)).map(|pool| pool.id).collect()
    }

    fn reconnect(&mut self, scope: &Scope) -> usize {
        let pools = self.pools_in(scope);
        for id in &pools {
            if let Some(pool) = self.pool(*id) {
                pool.welcome = None;
                pool.backoff.succeed();
                pool.denied = false;
            }
            self.close_servers_of(*id, RECONNECT);
            self.launch(*id);
        }
        pools.len()
    }

    fn kill(&mut self, scope: &Scope) -> usize {
        let pools = self.pools_in(scope);
        let is_in =
            |client: &super::client::Client| client.pool.is_some_and(|pool| pools.contains(&pool));
        let clients: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|(_, client)| is_in(client))
            .map(|(_, client)| client.id)
            .collect();
        for id in &clients {
            self.refuse(*id, &Refusal::Forced);
        }
        for id in pools.iter().flat_map(|pool| self.servers_of(*pool)).collect::<Vec<_>>() {
            self.end_server(id);
        }
        clients.len()
    }

    fn end_server(&mut self, id: ServerId) {
        let Some(server) = self.server(id) else { return };
        if server.client.is_some() {
            return self.server_lost(id, Lost::OutOfStep, FORCED);
        }
        match server.phase {
            Phase::Connecting | Phase::Login(_) => self.drop_opening(id, FORCED),
            Phase::Setup
            | Phase::Idle
            | Phase::Preparing
            | Phase::Leased
            | Phase::Lookup(_)
            | Phase::Resetting
            | Phase::Held
            | Phase::Retiring => self.retire(id, FORCED),
        }
    }

    fn kill_client(&mut self, number: i64) -> usize {
        let named = |client: &&super::client::Client| {
            self.number(client.id.serial) == number && !matches!(client.stage, Stage::Closing)
        };
        let Some(id) =
            self.clients.iter().map(|(_, client)| client).find(named).map(|client| client.id)
        else {
            return 0;
        };
        self.refuse(id, &Refusal::Forced);
        1
    }

    /// What is left, for those who wait for it to be gone.
    pub(crate) fn busy_table(&self) -> Vec<Row> {
        let mut counts: BTreeMap<&str, [i64; 2]> = BTreeMap::new();
        for pool in self.pools.iter().filter(|pool| pool.servers > 0) {
            // Those whose address is still looked up are in no table yet.
            let looked_up = i64::try_from(pool.servers).unwrap_or(i64::MAX);
            counts.entry(&pool.name).or_default()[0] += looked_up;
        }
        for (_, server) in &self.servers {
            let Some(pool) = self.pools.get(server.pool) else { continue };
            let count = counts.entry(&pool.name).or_default();
            let is_stuck = server.is_retiring() && server.since.elapsed() > LAST_WORDS;
            if is_stuck {
                count[0] -= 1;
            } else if server.close_needed || server.is_retiring() {
                count[1] += 1;
            }
        }
        let row = |name: &str, servers, closing, unsent| {
            vec![
                Value::Text(name.to_owned()),
                Value::Int(servers),
                Value::Int(closing),
                Value::Int(unsent),
            ]
        };
        let unsent = i64::try_from(self.unsent()).unwrap_or(i64::MAX);
        let rows =
            counts.into_iter().map(|(name, [servers, closing])| row(name, servers, closing, 0));
        rows.chain([row("", 0, 0, unsent)]).collect()
    }
}
