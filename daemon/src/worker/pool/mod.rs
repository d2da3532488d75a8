//! The servers for one (database, user), as far as this worker has them, and who waits for one.
//!
//! It decides who gets what: the most recently used idle server, the first client in line. It opens
//! no socket and asks the permits for every server; `lend` and `launch` act on it.

pub(crate) mod backoff;
mod expire;
pub(crate) mod hosts;
pub(crate) mod keyring;
pub(crate) mod launch;
pub(crate) mod lend;
pub(crate) mod lessons;
pub(crate) mod permits;
pub(crate) mod table;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use pgfleet_config::{Database, PoolMode};

use self::backoff::Backoff;
use self::hosts::Hosts;
use super::ids::{ClientId, PoolId, ServerId};
use super::vars::Values;
use crate::link::message::LimitKey;

/// What a server said at login, and what each client of the pool is told in turn.
pub(crate) struct Welcome {
    /// Reported parameters that are not tracked, in the server's order.
    pub(crate) fixed: Vec<(String, String)>,
    pub(crate) values: Values,
}

pub(crate) struct Pool {
    pub(crate) id: PoolId,
    /// The name that clients use.
    pub(crate) name: String,
    pub(crate) database: Rc<Database>,
    /// The user that servers log in as.
    pub(crate) user: String,
    pub(crate) mode: PoolMode,
    /// The least recently used first.
    pub(crate) idle: VecDeque<ServerId>,
    pub(crate) waiting: VecDeque<ClientId>,
    /// Clients that are authenticated and wait for the first server's login.
    pub(crate) greeting: Vec<ClientId>,
    /// Replication clients that wait for servers of their own.
    pub(crate) dedicated: VecDeque<ClientId>,
    /// Servers that are connecting or logging in.
    pub(crate) opening: usize,
    /// Servers that are not gone, whatever their phase.
    pub(crate) servers: usize,
    /// Servers that are logged in and not retiring.
    pub(crate) connected: usize,
    /// Clients that belong to it.
    pub(crate) clients: usize,
    pub(crate) welcome: Option<Rc<Welcome>>,
    pub(crate) backoff: Backoff,
    /// The last wish for a server was denied, and nothing has changed since.
    pub(crate) denied: bool,
    /// No client gets a server: PAUSE.
    pub(crate) paused: bool,
    /// Which of several hosts comes next.
    pub(crate) hosts: Hosts,
    /// The row of the statistics.
    pub(crate) stats: usize,
    /// A server was closed for its age then.
    pub(crate) aged: Option<Instant>,
    /// It had a client or a server then.
    pub(crate) used: Instant,
}

impl Pool {
    /// The keys of the limits that a server of this pool falls under.
    pub(crate) fn limit_keys(&self) -> [LimitKey; 3] {
        [
            LimitKey::Pool { database: self.name.clone(), user: self.user.clone() },
            LimitKey::Database(self.name.clone()),
            LimitKey::User(self.user.clone()),
        ]
    }

    /// A pool without clients and servers.
    pub(crate) fn new(
        id: PoolId,
        user: &str,
        database: Database,
        mode: PoolMode,
        stats: usize,
        now: Instant,
    ) -> Self {
        Self {
            id,
            name: database.name.clone(),
            database: Rc::new(database),
            user: user.to_owned(),
            mode,
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            greeting: Vec::new(),
            dedicated: VecDeque::new(),
            opening: 0,
            servers: 0,
            connected: 0,
            clients: 0,
            welcome: None,
            backoff: Backoff::default(),
            denied: false,
            paused: false,
            hosts: Hosts::default(),
            stats,
            aged: None,
            used: now,
        }
    }

    /// Nobody has anything to do with it.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients == 0
            && self.servers == 0
            && self.opening == 0
            && self.waiting.is_empty()
            && self.greeting.is_empty()
            && self.dedicated.is_empty()
    }

    /// All clients that wait for a server in one way or another.
    pub(crate) fn queued(&self) -> impl Iterator<Item = ClientId> {
        self.waiting.iter().chain(&self.greeting).chain(&self.dedicated).copied()
    }

    /// Clients that want a server, now.
    pub(crate) fn wanted(&self) -> usize {
        let greeting = usize::from(self.welcome.is_none() && !self.greeting.is_empty());
        self.waiting.len() + self.dedicated.len() + greeting
    }
}
