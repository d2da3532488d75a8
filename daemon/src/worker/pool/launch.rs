//! Opening servers for a pool: when, how many, and what is given up for them.
//!
//! A server is opened only for somebody who waits (or to keep `min_pool_size`), only with a permit,
//! and while logins are known to fail only one at a time.

use std::net::IpAddr;

use log::{debug, info};

use crate::link::message::LimitKey;
use crate::worker::ids::{PoolId, ServerId};
use crate::worker::pool::permits::Permit;
use crate::worker::server::address::Host;
use crate::worker::state::Worker;

/// Where Postgres listens on Unix sockets if nothing is said.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

impl Worker {
    /// Opens as many servers as are waited for and permitted.
    pub(crate) fn launch(&mut self, id: PoolId) {
        let now = self.now;
        loop {
            let Some(pool) = self.pool(id) else { return };
            if pool.denied || pool.paused {
                return;
            }
            if pool.opening >= pool.wanted().min(pool.backoff.at_once())
                || !pool.backoff.may_try(now)
            {
                return;
            }
            if !self.launch_one(id) {
                return;
            }
        }
    }

    /// Tries one connect for a pool whose clients are refused since the last one failed: whoever comes
    /// next may be served.
    pub(crate) fn probe(&mut self, id: PoolId) {
        let now = self.now;
        let Some(pool) = self.pool(id) else { return };
        if pool.opening == 0 && !pool.paused && pool.backoff.may_try(now) {
            self.launch_one(id);
        }
    }

    /// Opens one server, if a permit can be had for it.
    pub(crate) fn launch_one(&mut self, id: PoolId) -> bool {
        let Some(pool) = self.pools.get(id) else { return false };
        let keys = pool.limit_keys();
        let from_reserve = self.reserve_is_needed(id, &keys[0]);
        if from_reserve && !self.reserve_is_due(id) {
            self.deny(id);
            return false;
        }
        match self.permits.take(&keys) {
            Permit::Granted if from_reserve => info!("taking connection from reserve_pool"),
            Permit::Granted => {}
            Permit::Denied(key) => {
                self.deny(id);
                self.evict(id, &key);
                return false;
            }
        }
        let now = self.now;
        let Some(pool) = self.pool(id) else { return false };
        pool.opening += 1;
        pool.servers += 1;
        let list = &pool.database.hosts;
        let place = pool.hosts.choose(list.len(), pool.database.load_balance_hosts, now);
        let port = pool.database.port;
        let host = list.get(place).cloned().unwrap_or_else(|| default_dir(port));
        match Host::new(&host, port) {
            Host::Ready(address) => self.open_server(id, host.into(), address),
            Host::Name(name, port) => self.connect_by_name(id, name.into(), port),
        }
        true
    }

    /// A host of the list failed, or one of its addresses. Returns whether another one is tried instead.
    pub(crate) fn try_next_host(&mut self, id: PoolId, host: &str, at: Option<IpAddr>) -> bool {
        let (now, retry) = (self.now, self.settings.global.server_login_retry);
        if let Some(ip) = at
            && self.names.failed(host, ip, retry, now)
        {
            self.hungry.insert(id);
            self.launch(id);
            return true;
        }
        let Some(pool) = self.pool(id) else { return false };
        let list = &pool.database.hosts;
        let Some(place) = list.iter().position(|known| known == host) else { return false };
        if !pool.hosts.failed(place, list.len(), retry, now) {
            return false;
        }
        self.hungry.insert(id);
        self.launch(id);
        true
    }

    /// A login at this host of the list succeeded.
    pub(crate) fn host_is_good(&mut self, id: PoolId, host: &str) {
        if let Some(pool) = self.pool(id)
            && let Some(place) = pool.database.hosts.iter().position(|known| known == host)
        {
            pool.hosts.succeeded(place);
        }
    }

    /// Not asked again before something has changed: the line is looked at for each request.
    fn deny(&mut self, id: PoolId) {
        if let Some(pool) = self.pool(id) {
            pool.denied = true;
        }
    }

    fn reserve_is_needed(&self, id: PoolId, key: &LimitKey) -> bool {
        let Some(pool) = self.pools.get(id) else { return false };
        self.permits
            .regular_part(&pool.name, &pool.user)
            .is_some_and(|regular| self.permits.held(key) >= regular)
    }

    /// Whether the first in line has waited for `reserve_pool_timeout`.
    fn reserve_is_due(&mut self, id: PoolId) -> bool {
        let (now, timeout) = (self.now, self.settings.global.reserve_pool_timeout);
        let first = self.pool(id).and_then(|pool| pool.queued().next());
        first
            .and_then(|client| self.client(client))
            .and_then(|client| client.waiting_since)
            .is_some_and(|since| now.saturating_duration_since(since) >= timeout)
    }

    /// Retires the least recently used idle server that stands in the way of `key`, of another pool; for a
    /// replication client also of its own, whose servers it cannot use.
    fn evict(&mut self, wanting: PoolId, key: &LimitKey) {
        let of_key = |pool: &super::Pool| match key {
            LimitKey::Database(name) => pool.name == *name,
            LimitKey::User(user) => pool.user == *user,
            LimitKey::Pool { database, user } => pool.name == *database && pool.user == *user,
            LimitKey::Clients | LimitKey::ClientsOfDatabase(_) | LimitKey::ClientsOfUser(_) => {
                false
            }
        };
        let candidates = self.pools.iter().filter(|pool| {
            of_key(pool) && (pool.wanted() == 0 || pool.id == wanting && !pool.dedicated.is_empty())
        });
        let oldest: Option<ServerId> = candidates
            .filter_map(|pool| pool.idle.front().copied())
            .filter_map(|id| Some((self.servers.get(id.index as usize)?.since, id)))
            .min_by_key(|(since, _)| *since)
            .map(|(_, id)| id);
        if let Some(id) = oldest {
            self.retire(id, "evicted");
        }
    }

    /// Tries again for every pool with somebody in line: a permit or a pause has come to its end.
    pub(crate) fn feed_the_hungry(&mut self) {
        if self.hungry.is_empty() {
            return;
        }
        for id in self.hungry.iter().copied().collect::<Vec<_>>() {
            if let Some(pool) = self.pool(id) {
                pool.denied = false;
            }
            if self.pool(id).is_none_or(|pool| pool.wanted() == 0) {
                self.hungry.remove(&id);
            } else {
                self.launch(id);
            }
        }
    }

    /// Whether one of `idle` servers of this pool is above this worker's part of a limit.
    pub(crate) fn is_surplus(&self, id: PoolId, idle: usize) -> bool {
        let Some(pool) = self.pools.get(id) else { return false };
        if !self.may_be_above || !pool.limit_keys().iter().any(|key| self.permits.is_over(key)) {
            return false;
        }
        // What a leaving worker holds, it may use for those whom it still serves.
        !self.is_leaving() || (pool.wanted() == 0 && (idle > 1 || pool.clients == 0))
    }

    /// Closes idle servers above the part, after the part has become smaller.
    pub(crate) fn shrink(&mut self) {
        if !self.may_be_above {
            return;
        }
        for id in self.pools.ids() {
            while let Some((idle, oldest)) =
                self.pools.get(id).and_then(|pool| Some((pool.idle.len(), *pool.idle.front()?)))
                && self.is_surplus(id, idle)
            {
                self.retire(oldest, "too many servers in the pool");
            }
        }
        self.may_be_above = !self.permits.excess().is_empty();
    }

    /// Keeps `min_pool_size` servers in pools that are in use, one at a time.
    pub(crate) fn keep_minimum(&mut self) {
        let Some(share) = self.share else { return };
        let now = self.now;
        for id in self.pools.ids() {
            let Some(pool) = self.pools.get(id) else { continue };
            let minimum = share.part(self.settings.min_pool_size(&pool.database));
            let in_use = pool.clients > 0 || pool.database.user.is_some();
            let enough = pool.servers >= minimum as usize;
            if minimum == 0
                || enough
                || !in_use
                || pool.paused
                || pool.opening > 0
                || !pool.backoff.may_try(now)
                || self.lacks_key(id)
            {
                continue;
            }
            if self.permits.held(&pool.limit_keys()[0]) < minimum {
                debug!("opening a server for min_pool_size");
                self.launch_one(id);
            }
        }
    }
}

fn default_dir(port: u16) -> String {
    let has_socket = |dir: &&&str| std::path::Path::new(&format!("{dir}/.s.PGSQL.{port}")).exists();
    SOCKET_DIRS.iter().find(has_socket).unwrap_or(&SOCKET_DIRS[0]).to_string()
}
