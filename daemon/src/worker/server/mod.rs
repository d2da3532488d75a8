//! One connection to Postgres: what is known of it and where it stands.
//!
//! `connect` opens it, `login` authenticates to Postgres, `prepare` makes it fit a client,
//! `retire` ends its backend. A server is in exactly one phase, and a permit counts it until its
//! backend is gone.

pub(crate) mod address;
pub(crate) mod connect;
pub(crate) mod login;
pub(crate) mod lookup;
pub(crate) mod prepare;
pub(crate) mod retire;
mod startup;

use std::cell::Cell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use pgfleet_wire::startup::Replication;
use pgfleet_wire::tracker::Tracker;

use self::address::Address;
use super::ids::{ClientId, PoolId, ServerId};
use super::io::{Interest, Kind, Token};
use super::outbox::Outbox;
use super::vars::Values;

/// Where a server stands.
///
/// ```text
/// Connecting ─► Login ─► Setup ─► Idle ◄─► Preparing ─► Leased ─► Resetting ─► Idle
///                                   ▲                      │
///                                   └──── Held ◄───────────┤
///                                  Idle ◄─► Lookup
/// any of them ─► Retiring ─► (gone)  ◄─────────────────────┘
/// ```
pub(crate) enum Phase {
    /// The connect is under way.
    Connecting,
    Login(Box<login::Login>),
    /// Runs the database's `connect_query`.
    Setup,
    Idle,
    /// Lent, and being told the client's settings, or checked after a long idle time.
    Preparing,
    Leased,
    /// Looks a client's user up.
    Lookup(Box<lookup::Reading>),
    /// Runs `server_reset_query`.
    Resetting,
    /// Given back, but a cancel request for it is under way: nobody gets it until that is done.
    Held,
    /// Its backend is being ended; what it still sends is dropped.
    Retiring,
}

pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) fd: OwnedFd,
    pub(crate) pool: PoolId,
    pub(crate) phase: Phase,
    pub(crate) interest: Interest,
    pub(crate) tracker: Tracker,
    /// The head of a message that is needed whole.
    pub(crate) input: Vec<u8>,
    /// Bytes of the current message's body that are still to come.
    pub(crate) body_left: usize,
    /// The rest of that body is swallowed.
    pub(crate) swallowing: bool,
    pub(crate) outbox: Outbox,
    pub(crate) client: Option<ClientId>,
    /// Not `None`: it belongs to a replication client.
    pub(crate) replication: Replication,
    pub(crate) vars: Values,
    /// The values at login, which RESET returns to.
    pub(crate) defaults: Values,
    /// The serial of the client whose unnamed statement is on this server, and which one of its.
    pub(crate) unnamed_of: Option<(u32, u64)>,
    /// The unnamed statement was parsed or closed for the client in the batch that is open: it holds
    /// up to the next Sync, since whatever makes the server skip it skips the rest too.
    pub(crate) unnamed_in_batch: bool,
    /// The client's last message was forwarded in part: nothing of ours may follow it.
    pub(crate) mid_message: bool,
    /// The host as the configuration names it, which a certificate must be for.
    pub(crate) host: Rc<str>,
    pub(crate) address: Rc<Address>,
    pub(crate) backend: Option<Backend>,
    pub(crate) opened: Instant,
    /// In this phase since then.
    pub(crate) since: Instant,
    /// Cancel requests under way.
    pub(crate) cancels: u32,
    /// Counts the leases and answered queries: a cancel is for one of them only.
    pub(crate) round: Rc<Cell<u64>>,
    /// To be retired when it is given back.
    pub(crate) close_needed: bool,
    /// Something that the pooler sent to prepare it was refused.
    pub(crate) refused: bool,
    /// `server_check_query` was refused.
    pub(crate) check_failed: bool,
    /// More has been read from it than was looked at: nobody gets it before that has been.
    pub(crate) unsettled: bool,
    /// Taken out of the epoll set, because its end cannot be masked there.
    pub(crate) unwatched: bool,
    /// An error with severity FATAL has been passed on: the end that follows is explained.
    pub(crate) explained: bool,
}

/// What a cancel request for a server needs.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) pid: i32,
    pub(crate) secret: Vec<u8>,
}

impl Server {
    pub(crate) fn token(&self) -> Token {
        Token { kind: Kind::Server, index: self.id.index, serial: self.id.serial }
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    /// Whether any client has had it yet.
    pub(crate) fn was_lent(&self) -> bool {
        self.round.get() > 0
    }

    /// Whatever it was doing for a client is over.
    pub(crate) fn next_round(&self) {
        self.round.set(self.round.get() + 1);
    }

    pub(crate) fn is_retiring(&self) -> bool {
        matches!(self.phase, Phase::Retiring)
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }
}

/// How log lines name a server: `S-9: 127.0.0.1:5432`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-{}: {}", self.id.serial, self.address)
    }
}
