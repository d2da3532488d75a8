//! What holds for a pool or a user after all overrides: user before database before global, as in PgBouncer.
//! It never divides: all limits here are those of the fleet.
//! Workers call it with a database from [`Settings::database`] and the client's user name.

use std::time::Duration;

use crate::{Database, PoolMode, Settings, User};

impl Settings {
    /// The user entry that counts for a pool: that of the forced user, if the database has one.
    fn pool_user(&self, db: &Database, user: &str) -> Option<&User> {
        self.users.get(db.user.as_deref().unwrap_or(user))
    }

    /// When a client of this pool gives its server back.
    pub fn pool_mode(&self, db: &Database, user: &str) -> PoolMode {
        let own = self.pool_user(db, user).and_then(|user| user.pool_mode);
        own.or(db.pool_mode).unwrap_or(self.global.pool_mode)
    }

    /// Server connections of this pool; 0 means no limit.
    pub fn pool_size(&self, db: &Database, user: &str) -> u32 {
        let own = self.pool_user(db, user).and_then(|user| user.pool_size);
        own.or(db.pool_size).unwrap_or(self.global.default_pool_size)
    }

    /// Server connections that each pool of this database keeps open.
    pub fn min_pool_size(&self, db: &Database) -> u32 {
        db.min_pool_size.unwrap_or(self.global.min_pool_size)
    }

    /// The reserve of this pool; 0 means none.
    pub fn reserve_pool_size(&self, db: &Database, user: &str) -> u32 {
        let own = self.pool_user(db, user).and_then(|user| user.reserve_pool_size);
        own.or(db.reserve_pool_size).unwrap_or(self.global.reserve_pool_size)
    }

    /// Server connections of this database; 0 means no limit.
    pub fn max_db_connections(&self, db: &Database) -> u32 {
        db.max_db_connections.unwrap_or(self.global.max_db_connections)
    }

    /// Client connections of this database; 0 means no limit. As in PgBouncer, an entry of 0 means the global one.
    pub fn max_db_client_connections(&self, db: &Database) -> u32 {
        positive(db.max_db_client_connections).unwrap_or(self.global.max_db_client_connections)
    }

    /// Server connections of this user; 0 means no limit.
    pub fn max_user_connections(&self, user: &str) -> u32 {
        let own = self.users.get(user).and_then(|user| user.max_user_connections);
        own.unwrap_or(self.global.max_user_connections)
    }

    /// Client connections of this user; 0 means no limit. As in PgBouncer, an entry of 0 means the global one.
    pub fn max_user_client_connections(&self, user: &str) -> u32 {
        let own = self.users.get(user).and_then(|user| user.max_user_client_connections);
        positive(own).unwrap_or(self.global.max_user_client_connections)
    }

    /// How long a client of this pool may wait for a server; zero means for ever.
    pub fn query_wait_timeout(&self, db: &Database, user: &str) -> Duration {
        let own = self.pool_user(db, user).and_then(|user| user.query_wait_timeout);
        own.or(db.query_wait_timeout).unwrap_or(self.global.query_wait_timeout)
    }

    /// How long a query of this user may run; zero means for ever.
    pub fn query_timeout(&self, user: &str) -> Duration {
        self.timeout(user, |user| user.query_timeout, self.global.query_timeout)
    }

    /// How long this user may be idle inside a transaction; zero means for ever.
    pub fn idle_transaction_timeout(&self, user: &str) -> Duration {
        self.timeout(
            user,
            |user| user.idle_transaction_timeout,
            self.global.idle_transaction_timeout,
        )
    }

    /// How long a transaction of this user may take; zero means for ever.
    pub fn transaction_timeout(&self, user: &str) -> Duration {
        self.timeout(user, |user| user.transaction_timeout, self.global.transaction_timeout)
    }

    /// How long a client of this user may be idle; zero means for ever.
    pub fn client_idle_timeout(&self, user: &str) -> Duration {
        self.timeout(user, |user| user.client_idle_timeout, self.global.client_idle_timeout)
    }

    /// The age at which servers of this database are closed.
    pub fn server_lifetime(&self, db: &Database) -> Duration {
        db.server_lifetime.unwrap_or(self.global.server_lifetime)
    }

    /// A timeout of a user, where zero means the global one.
    fn timeout(
        &self,
        user: &str,
        own: fn(&User) -> Option<Duration>,
        global: Duration,
    ) -> Duration {
        self.users.get(user).and_then(own).filter(|timeout| !timeout.is_zero()).unwrap_or(global)
    }
}

fn positive(limit: Option<u32>) -> Option<u32> {
    limit.filter(|limit| *limit > 0)
}
