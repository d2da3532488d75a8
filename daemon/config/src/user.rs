//! One entry of `[users]`: the settings that one user overrides.
//! It holds no secret; those are in the userlist.
//! The loaders fill it, the effective lookups of `Settings` read it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    PoolMode, conninfo,
    fault::Fault,
    form::{Form, Limit, Seconds},
    raw::Raw,
    units,
};

/// One entry of `[users]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// The name of the user.
    pub name: String,
    /// When this user's clients give their servers back.
    pub pool_mode: Option<PoolMode>,
    /// Server connections of each pool of this user.
    pub pool_size: Option<u32>,
    /// Reserve of each pool of this user.
    pub reserve_pool_size: Option<u32>,
    /// Server connections of this user.
    pub max_user_connections: Option<u32>,
    /// Client connections of this user.
    pub max_user_client_connections: Option<u32>,
    /// How long a query may run.
    pub query_timeout: Option<Duration>,
    /// How long a client may be idle inside a transaction.
    pub idle_transaction_timeout: Option<Duration>,
    /// How long a transaction may take.
    pub transaction_timeout: Option<Duration>,
    /// How long a client may be idle outside of a transaction.
    pub client_idle_timeout: Option<Duration>,
    /// How long a client may wait for a server.
    pub query_wait_timeout: Option<Duration>,
}

impl User {
    /// The keys of an entry.
    pub const KEYS: &'static [&'static str] = &[
        "pool_mode",
        "pool_size",
        "reserve_pool_size",
        "max_user_connections",
        "max_user_client_connections",
        "query_timeout",
        "idle_transaction_timeout",
        "transaction_timeout",
        "client_idle_timeout",
        "query_wait_timeout",
    ];

    /// An entry with nothing but its name.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// What the entry sets, in the order of [`Self::KEYS`].
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let number = |limit: Option<u32>| limit.map(|limit| limit.to_string());
        let time = |time: &Option<Duration>| time.as_ref().map(units::show_seconds);
        let all = [
            ("pool_mode", self.pool_mode.map(|mode| mode.to_string())),
            ("pool_size", number(self.pool_size)),
            ("reserve_pool_size", number(self.reserve_pool_size)),
            ("max_user_connections", number(self.max_user_connections)),
            ("max_user_client_connections", number(self.max_user_client_connections)),
            ("query_timeout", time(&self.query_timeout)),
            ("idle_transaction_timeout", time(&self.idle_transaction_timeout)),
            ("transaction_timeout", time(&self.transaction_timeout)),
            ("client_idle_timeout", time(&self.client_idle_timeout)),
            ("query_wait_timeout", time(&self.query_wait_timeout)),
        ];
        conninfo::set(all)
    }

    /// The entry as a connection string.
    pub fn shown(&self) -> String {
        conninfo::joined(&self.pairs())
    }

    /// Sets one key of the entry.
    pub(crate) fn set(&mut self, key: &str, raw: &Raw) -> Result<(), Fault> {
        match key {
            "pool_mode" => self.pool_mode = Some(PoolMode::read(raw)?),
            "pool_size" => self.pool_size = Limit::read(raw)?,
            "reserve_pool_size" => self.reserve_pool_size = Limit::read(raw)?,
            "max_user_connections" => self.max_user_connections = Limit::read(raw)?,
            "max_user_client_connections" => self.max_user_client_connections = Limit::read(raw)?,
            "query_timeout" => self.query_timeout = Some(Seconds::read(raw)?),
            "idle_transaction_timeout" => self.idle_transaction_timeout = Some(Seconds::read(raw)?),
            "transaction_timeout" => self.transaction_timeout = Some(Seconds::read(raw)?),
            "client_idle_timeout" => self.client_idle_timeout = Some(Seconds::read(raw)?),
            "query_wait_timeout" => self.query_wait_timeout = Some(Seconds::read(raw)?),
            _ => return Err(Fault::unknown("key", key, Self::KEYS.iter().copied())),
        }
        Ok(())
    }
}
