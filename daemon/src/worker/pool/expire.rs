//! Pools that nobody needs any more go away, with what was remembered of them.
//!
//! A pool is dropped only when it has no client and no server, so nothing can be on its way to it but a
//! completion, whose id then names nothing. The sweep calls this once a second.

use std::collections::HashSet;
use std::time::Duration;

use log::info;

use super::Pool;
use crate::worker::ids::PoolId;
use crate::worker::state::Worker;

/// A pool that never had a server is remembered for so long at least, for the failure that it had.
const NAMED: Duration = Duration::from_secs(1);

impl Worker {
    /// Drops empty pools: of databases that are gone, of `*` databases that nobody has used for
    /// `autodb_idle_timeout`, and any other after `pool_idle_timeout`.
    pub(crate) fn expire_pools(&mut self) {
        let due: Vec<PoolId> = {
            // A database made from `*` goes as a whole.
            let used: HashSet<&str> = self
                .pools
                .iter()
                .filter(|pool| {
                    !self.has_rested(pool, self.settings.global.autodb_idle_timeout)
                        && self.is_automatic(&pool.name)
                })
                .map(|pool| pool.name.as_str())
                .collect();
            self.pools.iter().filter(|pool| self.is_due(pool, &used)).map(|pool| pool.id).collect()
        };
        for id in due {
            self.drop_pool(id);
        }
    }

    fn is_due(&self, pool: &Pool, used: &HashSet<&str>) -> bool {
        if !pool.is_empty() || self.is_standing(pool) {
            return false;
        }
        let settings = &self.settings;
        let is_gone = settings.fallback.is_none() && !settings.databases.contains_key(&pool.name);
        let is_unused = self.is_automatic(&pool.name)
            && !self.settings.global.autodb_idle_timeout.is_zero()
            && !used.contains(pool.name.as_str());
        // Anyone can name a database, and be looked up in it, before it is known who that is.
        let never_served = self.is_automatic(&pool.name)
            && pool.welcome.is_none()
            && self.has_rested(pool, settings.global.server_login_retry.max(NAMED));
        is_gone
            || is_unused
            || never_served
            || self.has_rested(pool, self.settings.global.pool_idle_timeout)
    }

    /// Empty for so long; 0 is for ever.
    fn has_rested(&self, pool: &Pool, time: Duration) -> bool {
        pool.is_empty() && !time.is_zero() && self.now.saturating_duration_since(pool.used) > time
    }

    /// Made from `*`.
    fn is_automatic(&self, database: &str) -> bool {
        self.settings.fallback.is_some() && !self.settings.databases.contains_key(database)
    }

    /// Kept filled for `min_pool_size`, which needs no client.
    fn is_standing(&self, pool: &Pool) -> bool {
        self.settings
            .databases
            .get(&pool.name)
            .is_some_and(|entry| entry.user.is_some() && self.settings.min_pool_size(entry) > 0)
    }

    fn drop_pool(&mut self, id: PoolId) {
        let Some(pool) = self.pools.remove(id) else { return };
        self.hungry.remove(&id);
        self.keyring.forget(&pool.name, &pool.user);
        if self.pools.iter().any(|other| other.name == pool.name) {
            return;
        }
        if !self.settings.databases.contains_key(&pool.name) {
            info!(
                "dropping database '{}' as it does not exist anymore or inactive auto-database",
                pool.name
            );
            self.stats.fold(&pool.name);
        }
    }
}
