//! With which settings a fleet is started.
//! It never starts anything before `start`, so that a test reads as a list of what is special about its fleet.
//! Suites get it from `Fleet::of`.

use std::fmt::Display;

use super::{Fleet, control};
use crate::{
    cluster::{Cluster, Database, PASSWORD},
    port,
    program::Printed,
};

/// In which form the configuration is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pgfleet's own.
    Toml,
    /// PgBouncer's.
    Ini,
}

/// How the fleet is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// By `pgfleet start`, which leaves a daemon behind.
    Detached,
    /// By `pgfleet start --foreground`, which becomes the supervisor.
    Foreground,
}

/// A configuration in the making.
#[derive(Clone, Debug)]
pub struct Setup {
    port: u16,
    database: String,
    pub(super) keys: Vec<(String, String)>,
    pub(super) databases: Vec<(String, String)>,
    pub(super) users: Vec<(String, String)>,
    pub(super) secrets: Vec<(String, String)>,
    pub(super) files: Vec<(String, String)>,
    pub(super) format: Format,
    pub(super) start: Start,
}

impl Setup {
    /// Two workers in transaction mode that trust every user they know, in front of the database by its Unix socket.
    pub fn of(database: &Database<'_>) -> Self {
        let setup = Self::bare(database.cluster(), database.name());
        setup.database(database.name(), &entry(database.cluster(), database.name()))
    }

    /// The same without any entry for the database.
    pub fn bare(_cluster: &Cluster, database: &str) -> Self {
        let port = port::free();
        let users = ["app", "md5user", "plain"].map(|user| (user.to_owned(), PASSWORD.to_owned()));
        let mut setup = Self {
            port,
            database: database.to_owned(),
            keys: Vec::new(),
            databases: Vec::new(),
            users: Vec::new(),
            secrets: users.to_vec(),
            files: Vec::new(),
            format: Format::Toml,
            start: Start::Detached,
        };
        for (user, secret) in [("raw", ""), ("admin", "adm1n"), ("stats", "st4ts")] {
            setup = setup.secret(user, secret);
        }
        let defaults = [
            ("workers", "2"),
            ("pool_mode", "transaction"),
            ("listen_addr", "127.0.0.1"),
            ("auth_type", "trust"),
            ("admin_users", "admin"),
            ("stats_users", "stats"),
            ("max_client_conn", "400"),
            ("server_login_retry", "1"),
            ("query_wait_timeout", "30"),
        ];
        let setup = setup.set("listen_port", port);
        defaults.into_iter().fold(setup, |setup, (key, value)| setup.set(key, value))
    }

    /// So many workers.
    #[must_use]
    pub fn workers(self, count: u32) -> Self {
        self.set("workers", count)
    }

    /// One key of the fleet; the last value counts.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Display) -> Self {
        self.keys.retain(|(name, _)| name != key);
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// Without this key.
    #[must_use]
    pub fn unset(mut self, key: &str) -> Self {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    /// One entry of `[databases]`, as a connection string; the last one counts.
    #[must_use]
    pub fn database(mut self, name: &str, connection: &str) -> Self {
        self.databases.retain(|(known, _)| known != name);
        self.databases.push((name.to_owned(), connection.to_owned()));
        self
    }

    /// More keys in the entry of the database that the fleet is for.
    #[must_use]
    pub fn database_keys(mut self, keys: &str) -> Self {
        let entry = self.databases.iter_mut().find(|(name, _)| *name == self.database);
        entry.expect("the fleet has an entry for its database").1.push_str(&format!(" {keys}"));
        self
    }

    /// One entry of `[users]`.
    #[must_use]
    pub fn user(mut self, name: &str, keys: &str) -> Self {
        self.users.push((name.to_owned(), keys.to_owned()));
        self
    }

    /// One line of the auth file; the last one of a user counts.
    #[must_use]
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        self.secrets.retain(|(known, _)| known != user);
        self.secrets.push((user.to_owned(), secret.to_owned()));
        self
    }

    /// Without this user in the auth file.
    #[must_use]
    pub fn stranger(mut self, user: &str) -> Self {
        self.secrets.retain(|(known, _)| known != user);
        self
    }

    /// A file of its own, which this key is set to.
    #[must_use]
    pub fn file(mut self, key: &str, text: &str) -> Self {
        self.files.retain(|(known, _)| known != key);
        self.files.push((key.to_owned(), text.to_owned()));
        self.unset(key)
    }

    /// Written in this form.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Started in the foreground, as a service is.
    #[must_use]
    pub fn foreground(mut self) -> Self {
        self.start = Start::Foreground;
        self
    }

    /// The port that it will listen on.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn database_name(&self) -> &str {
        &self.database
    }

    pub(super) fn config_name(&self) -> &'static str {
        match self.format {
            Format::Toml => "pgfleet.toml",
            Format::Ini => "pgbouncer.ini",
        }
    }

    /// Starts it, and returns when it serves.
    pub fn start(self) -> Fleet {
        control::start(self).unwrap_or_else(|(fleet, printed)| not_started(&fleet, &printed))
    }

    /// Starts it where that should fail, and gives back what was printed.
    pub fn refused(self) -> Printed {
        control::start(self).map(drop).expect_err("the fleet should not have started").1
    }

    /// Writes its files and starts nothing.
    pub fn unstarted(self) -> Fleet {
        control::unstarted(self)
    }
}

/// The connection string of a database by the cluster's Unix socket.
pub fn entry(cluster: &Cluster, name: &str) -> String {
    format!("host={} port={} dbname={name}", cluster.socket_dir(), cluster.port())
}

#[expect(clippy::panic, reason = "a fleet that does not start fails the test")]
fn not_started(fleet: &Fleet, printed: &Printed) -> ! {
    panic!("the fleet did not start: {printed:?}\n{}", fleet.log())
}
