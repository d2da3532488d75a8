//! One entry of `[databases]`: where its servers are and which settings it overrides.
//! It never resolves a name and never opens a connection.
//! The loaders fill it, pools and server connections read it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    LoadBalance, Password, PoolMode, conninfo,
    fault::Fault,
    form::{Form, Limit, List, Optional, Port, Seconds, Text},
    raw::Raw,
    units,
};

/// The port of a server whose entry has none.
pub const DEFAULT_SERVER_PORT: u16 = 5432;

/// Where the Unix socket of a server without `host` is looked for, in this order.
pub const SERVER_SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// One entry of `[databases]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// The name that clients ask for.
    pub name: String,
    /// The name on the server.
    pub dbname: String,
    /// IP addresses, DNS names, `/directories` or `@abstract` names; empty means [`SERVER_SOCKET_DIRS`].
    pub hosts: Vec<String>,
    /// The port of each host.
    pub port: u16,
    /// The one user that all server connections log in as.
    pub user: Option<String>,
    /// That user's password, if it is not in the auth file.
    pub password: Option<Password>,
    /// Server connections of each pool.
    pub pool_size: Option<u32>,
    /// Server connections to keep open in each pool.
    pub min_pool_size: Option<u32>,
    /// Reserve of each pool.
    pub reserve_pool_size: Option<u32>,
    /// Server connections of this database.
    pub max_db_connections: Option<u32>,
    /// Client connections of this database.
    pub max_db_client_connections: Option<u32>,
    /// When clients give their servers back.
    pub pool_mode: Option<PoolMode>,
    /// A query to run after each server login.
    pub connect_query: Option<String>,
    /// Age at which servers are closed.
    pub server_lifetime: Option<Duration>,
    /// How long a client may wait for a server.
    pub query_wait_timeout: Option<Duration>,
    /// Sent in the server's startup message.
    pub client_encoding: Option<String>,
    /// Sent in the server's startup message.
    pub datestyle: Option<String>,
    /// Sent in the server's startup message.
    pub timezone: Option<String>,
    /// Sent in the server's startup message.
    pub application_name: Option<String>,
    /// Overrides the global key.
    pub auth_user: Option<String>,
    /// Overrides the global key.
    pub auth_query: Option<String>,
    /// Overrides the global key.
    pub auth_dbname: Option<String>,
    /// Which of several hosts gets the next connection.
    pub load_balance_hosts: LoadBalance,
}

impl Database {
    /// An entry with nothing but its name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            dbname: name.to_owned(),
            hosts: Vec::new(),
            port: DEFAULT_SERVER_PORT,
            user: None,
            password: None,
            pool_size: None,
            min_pool_size: None,
            reserve_pool_size: None,
            max_db_connections: None,
            max_db_client_connections: None,
            pool_mode: None,
            connect_query: None,
            server_lifetime: None,
            query_wait_timeout: None,
            client_encoding: None,
            datestyle: None,
            timezone: None,
            application_name: None,
            auth_user: None,
            auth_query: None,
            auth_dbname: None,
            load_balance_hosts: LoadBalance::default(),
        }
    }

    /// Whether servers of the other entry are as good as those of this one.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.dbname == other.dbname
            && self.hosts == other.hosts
            && self.load_balance_hosts == other.load_balance_hosts
            && self.port == other.port
            && self.user == other.user
            && self.password == other.password
            && self.connect_query == other.connect_query
    }

    /// The keys of an entry.
    pub const KEYS: &'static [&'static str] = &[
        "dbname",
        "host",
        "port",
        "user",
        "password",
        "pool_size",
        "min_pool_size",
        "reserve_pool_size",
        "reserve_pool",
        "max_db_connections",
        "max_db_client_connections",
        "pool_mode",
        "connect_query",
        "server_lifetime",
        "query_wait_timeout",
        "client_encoding",
        "datestyle",
        "timezone",
        "application_name",
        "auth_user",
        "auth_query",
        "auth_dbname",
        "load_balance_hosts",
    ];

    /// What the entry sets, in the order of [`Self::KEYS`]. It holds the password.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let number = |limit: Option<u32>| limit.map(|limit| limit.to_string());
        let time = |time: &Option<Duration>| time.as_ref().map(units::show_seconds);
        let balance = self.load_balance_hosts;
        let all = [
            ("dbname", (self.dbname != self.name).then(|| self.dbname.clone())),
            ("host", (!self.hosts.is_empty()).then(|| self.hosts.join(","))),
            ("port", (self.port != DEFAULT_SERVER_PORT).then(|| self.port.to_string())),
            ("user", self.user.clone()),
            ("password", self.password.as_ref().map(|password| password.expose().to_owned())),
            ("pool_size", number(self.pool_size)),
            ("min_pool_size", number(self.min_pool_size)),
            ("reserve_pool_size", number(self.reserve_pool_size)),
            ("max_db_connections", number(self.max_db_connections)),
            ("max_db_client_connections", number(self.max_db_client_connections)),
            ("pool_mode", self.pool_mode.map(|mode| mode.to_string())),
            ("connect_query", self.connect_query.clone()),
            ("server_lifetime", time(&self.server_lifetime)),
            ("query_wait_timeout", time(&self.query_wait_timeout)),
            ("client_encoding", self.client_encoding.clone()),
            ("datestyle", self.datestyle.clone()),
            ("timezone", self.timezone.clone()),
            ("application_name", self.application_name.clone()),
            ("auth_user", self.auth_user.clone()),
            ("auth_query", self.auth_query.clone()),
            ("auth_dbname", self.auth_dbname.clone()),
            (
                "load_balance_hosts",
                (balance != LoadBalance::default()).then(|| balance.to_string()),
            ),
        ];
        conninfo::set(all)
    }

    /// The entry as a connection string, with stars for the password.
    pub fn shown(&self) -> String {
        conninfo::redacted(&conninfo::joined(&self.pairs()))
    }

    /// Sets one key of the entry.
    pub(crate) fn set(&mut self, key: &str, raw: &Raw) -> Result<(), Fault> {
        match key {
            "dbname" => self.dbname = Text::read(raw)?,
            "host" => self.hosts = List::read(raw)?,
            "port" => self.port = Port::read(raw)?,
            "user" => self.user = Optional::read(raw)?,
            "password" => self.password = Optional::read(raw)?.map(Password::new),
            "pool_size" => self.pool_size = Limit::read(raw)?,
            "min_pool_size" => self.min_pool_size = Limit::read(raw)?,
            "reserve_pool_size" | "reserve_pool" => self.reserve_pool_size = Limit::read(raw)?,
            "max_db_connections" => self.max_db_connections = Limit::read(raw)?,
            "max_db_client_connections" => self.max_db_client_connections = Limit::read(raw)?,
            "pool_mode" => self.pool_mode = Some(PoolMode::read(raw)?),
            "connect_query" => self.connect_query = Optional::read(raw)?,
            "server_lifetime" => self.server_lifetime = Some(Seconds::read(raw)?),
            "query_wait_timeout" => self.query_wait_timeout = Some(Seconds::read(raw)?),
            "client_encoding" => self.client_encoding = Optional::read(raw)?,
            "datestyle" => self.datestyle = Optional::read(raw)?,
            "timezone" => self.timezone = Optional::read(raw)?,
            "application_name" => self.application_name = Optional::read(raw)?,
            "auth_user" => self.auth_user = Optional::read(raw)?,
            "auth_query" => self.auth_query = Optional::read(raw)?,
            "auth_dbname" => self.auth_dbname = Optional::read(raw)?,
            "load_balance_hosts" => self.load_balance_hosts = LoadBalance::read(raw)?,
            _ => return Err(Fault::unknown("key", key, Self::KEYS.iter().copied())),
        }
        Ok(())
    }
}
