//! What the operator has switched in the whole fleet, and what is done once to all of it.
//!
//! It owns the state that every worker keeps to, whenever it was born: paused, suspended, disabled, on the
//! way out. It never says when something may be switched (the supervisor's `switchboard` does) and does
//! nothing by itself. The supervisor sends it whole at each change, a worker acts on the last one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What the fleet as a whole does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Activity {
    #[default]
    Running,
    /// Servers are closed as they become free, and no client gets one.
    Paused,
    /// No socket is read.
    Suspended,
}

/// Whether the fleet takes new clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Doors {
    #[default]
    Open,
    /// It is shutting down.
    Closing,
}

/// All that is switched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Switches {
    pub(crate) activity: Activity,
    pub(crate) doors: Doors,
    /// Databases that are paused by themselves.
    pub(crate) paused: BTreeSet<String>,
    /// Databases that take no new clients.
    pub(crate) disabled: BTreeSet<String>,
}

impl Switches {
    /// Whether clients of this database get no server.
    pub(crate) fn pauses(&self, database: &str) -> bool {
        self.activity == Activity::Paused || self.paused.contains(database)
    }
}

/// The databases that a command is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scope {
    All,
    Database(String),
}

impl Scope {
    /// Whether it takes in this database.
    pub(crate) fn covers(&self, database: &str) -> bool {
        match self {
            Self::All => true,
            Self::Database(name) => name == database,
        }
    }
}

/// How it stands after a command in the log.
impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => Ok(()),
            Self::Database(name) => write!(f, " '{name}'"),
        }
    }
}

/// What is done once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Nothing: the answer says that all before it has been done.
    Report,
    /// Close servers as they become free, and learn anew what servers say at login.
    Reconnect(Scope),
    /// Drop clients and servers.
    Kill(Scope),
    /// Drop the client of this number.
    KillClient(i64),
}
