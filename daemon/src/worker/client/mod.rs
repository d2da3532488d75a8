//! One connection from an application: what is known of it and where it stands.
//!
//! `opening` reads its first packet, `login` authenticates it, `session` lets its requests into
//! the relay, `close` ends it. A client never touches a server except through its lease.

pub(crate) mod auth;
pub(crate) mod close;
pub(crate) mod console;
pub(crate) mod login;
pub(crate) mod opening;
pub(crate) mod refusal;
pub(crate) mod session;
pub(crate) mod statements;
pub(crate) mod welcome;

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use pgfleet_wire::key::CancelKey;
use pgfleet_wire::startup::Protocol;

use super::ids::{ClientId, PoolId, ServerId};
use super::io::{Interest, Kind, Token};
use super::outbox::Outbox;
use super::replication::Replicating;
use super::vars::{Own, Values};

/// Where a client stands. Each state has one file that handles its input.
///
/// ```text
/// Opening ─► Login ─► AwaitingWelcome ─► Session ─► Closing
///    │         └────► Console ───────────────────────┘
///    └─► Canceling ──────────────────────────────────┘
/// ```
pub(crate) enum Stage {
    /// No startup packet yet.
    Opening,
    /// Authenticating.
    Login(Box<login::Login>),
    /// Authenticated; the pool has not learnt yet what a server says at login.
    AwaitingWelcome,
    /// Sends requests.
    Session,
    /// Talks to the console.
    Console(Box<console::Console>),
    /// Has sent a cancel request, and waits for its delivery.
    Canceling,
    /// Has been told why; what it still sends is read and dropped until it closes or time is up.
    Closing,
}

/// Where a client comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Tcp { peer: SocketAddr, local: SocketAddr },
    Unix { uid: Option<u32> },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { peer, .. } => write!(f, "{peer}"),
            Self::Unix { .. } => f.write_str("unix"),
        }
    }
}

/// What is known of a client that has sent its startup packet.
pub(crate) struct Identity {
    pub(crate) user: String,
    pub(crate) database: String,
    /// Whether the database's and the user's client limits count it too.
    pub(crate) seated: bool,
}

pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) fd: OwnedFd,
    pub(crate) stage: Stage,
    pub(crate) interest: Interest,
    /// Read, not yet consumed. Empty for an idle client.
    pub(crate) input: Vec<u8>,
    pub(crate) outbox: Outbox,
    /// Bytes of the current message's body that are still to come.
    pub(crate) body_left: usize,
    /// The current message's body is dropped, not forwarded.
    pub(crate) dropping: bool,
    /// Its next message needs an answer that is still outstanding.
    pub(crate) stalled: bool,
    pub(crate) pool: Option<PoolId>,
    pub(crate) lease: Option<ServerId>,
    /// In the pool's line since then.
    pub(crate) waiting_since: Option<Instant>,
    pub(crate) told_to_wait: bool,
    pub(crate) vars: Option<Values>,
    pub(crate) own: Own,
    pub(crate) protocol: Protocol,
    /// It has a server of its own, for replication.
    pub(crate) replication: Option<Box<Replicating>>,
    pub(crate) key: Option<CancelKey>,
    pub(crate) statements: statements::Statements,
    pub(crate) identity: Option<Rc<Identity>>,
    /// Whether the permits count it, which they do from its accept on.
    pub(crate) admitted: bool,
    pub(crate) origin: Box<Origin>,
    pub(crate) connected: Instant,
    /// The last request, or the connect.
    pub(crate) active: Instant,
    /// The end of its last lease, or the connect.
    pub(crate) idle_since: Instant,
    /// Leases so far.
    pub(crate) query_count: u64,
    /// When the query that runs now was sent on.
    pub(crate) query_started: Option<Instant>,
    /// When the transaction that runs now got its server.
    pub(crate) xact_started: Option<Instant>,
    /// When the last answer came, in a transaction: since then the server waits for the client.
    pub(crate) answered: Option<Instant>,
}

impl Client {
    pub(crate) fn token(&self) -> Token {
        Token { kind: Kind::Client, index: self.id.index, serial: self.id.serial }
    }

    pub(crate) fn is_session(&self) -> bool {
        matches!(self.stage, Stage::Session)
    }

    pub(crate) fn user(&self) -> &str {
        self.identity.as_ref().map_or("(nouser)", |identity| &identity.user)
    }

    pub(crate) fn database(&self) -> &str {
        self.identity.as_ref().map_or("(nodb)", |identity| &identity.database)
    }
}

/// How log lines name a client: `C-7: bench/app@127.0.0.1:5555`.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C-{}: {}/{}@{}", self.id.serial, self.database(), self.user(), self.origin)
    }
}
