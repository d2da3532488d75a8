//! What the supervisor and one worker say to each other over the link.
//!
//! Both enums are closed: a worker and its supervisor come from the same executable, which
//! `Hello` proves. A message that carries a descriptor says so in its documentation; the
//! descriptor travels beside it in the same record (see [`super::channel`]).

use std::time::Duration;

use pgfleet_config::Password;
use pgfleet_config::share::Share;
use serde::{Deserialize, Serialize};

use super::switches::{Order, Switches};
use super::table::{Question, Reply, Row};

/// Which build this executable is: a supervisor and its workers must be of the same.
///
/// The number counts changes of this border.
pub(crate) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "+3");

/// The process now in a slot: a slot and the generation of its worker.
///
/// Slots count from 1; generations count from 1 in each slot and never repeat while the
/// fleet runs. Cancel keys, owners of servers and peers are named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct WorkerId {
    pub(crate) slot: u16,
    pub(crate) generation: u32,
}

impl std::fmt::Display for WorkerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.slot, self.generation)
    }
}

/// What a limit counts. `Clients…` keys count clients, the others count servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum LimitKey {
    /// `max_client_conn`.
    Clients,
    /// `max_db_client_connections` of this database.
    ClientsOfDatabase(String),
    /// `max_user_client_connections` of this user.
    ClientsOfUser(String),
    /// `pool_size` plus `reserve_pool_size` of one pool.
    Pool { database: String, user: String },
    /// `max_db_connections` of this database.
    Database(String),
    /// `max_user_connections` of this (server) user.
    User(String),
}

/// How a worker leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Drain {
    /// Scale-down, SHUTDOWN WAIT_FOR_CLIENTS: its listeners are gone; it serves its clients until
    /// they leave by themselves.
    WhenClientsLeave,
    /// Rolling restart, SHUTDOWN WAIT_FOR_TRANSACTIONS: each client is let go (57P01) between two
    /// transactions; what is left at the deadline is closed.
    BetweenTransactions(Duration),
    /// SHUTDOWN WAIT_FOR_SERVERS: everything is paused, whoever waits for a server is told off, and the
    /// rest goes when the last server is free.
    WhenServersLeave,
}

/// Which kind of socket a listener is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ListenerKind {
    Tcp,
    Unix,
}

/// What a worker must know before it can serve; never changes while it lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) worker: WorkerId,
    /// The key for everything that all workers must derive alike (mock salts).
    pub(crate) fleet_secret: [u8; 32],
    /// When the fleet started, microseconds of the Unix epoch.
    pub(crate) fleet_started: u64,
    /// The core to run on, when `cpu_affinity` is set.
    pub(crate) core: Option<u16>,
    /// The uid of the daemon; console clients over the Unix socket are compared with it.
    pub(crate) uid: u32,
}

/// From the supervisor to one worker.
///
/// Every change of settings or of shares is one flow with one number:
/// `Prepare → Prepared → Commit → Held → Grant`. Between `Commit` and `Grant` a worker's
/// part of each limit is the smaller of its old and its new one, so that the sum of all parts
/// never exceeds a limit. A new worker goes through the same flow with an old part of 0.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToWorker {
    /// The first message, after `Hello`. Carries the ledger's descriptor.
    Welcome(Welcome),
    /// Carries a sealed memfd with a postcard-encoded `Settings` if `settings` is set;
    /// otherwise the settings stay and only the share changes.
    Prepare { epoch: u64, settings: bool, share: Option<Share> },
    /// Act on what was prepared.
    Commit { epoch: u64 },
    /// Forget what was prepared.
    Discard { epoch: u64 },
    /// From now on the whole new part counts, less `minus` (what others still hold of it).
    /// May come again with the same epoch and a smaller `minus`.
    Grant { epoch: u64, minus: Vec<(LimitKey, u32)> },
    /// Accept from this socket as well. Carries the listening descriptor.
    Listener {
        id: u32,
        kind: ListenerKind,
        /// `127.0.0.1:6432`, `[::1]:6432` or the socket's path.
        address: String,
    },
    /// Stop accepting from this socket and close the copy.
    DropListener { id: u32 },
    /// A peer to talk to. Carries this worker's end of a seqpacket pair.
    Peer { worker: WorkerId },
    /// That peer is gone.
    PeerGone { worker: WorkerId },
    /// Leave.
    Drain(Drain),
    /// Scale-up before the drain was done: serve on.
    Undrain,
    /// End at once, without waiting for anyone.
    Quit,
    /// Gather: answer with `Rows` of the same id.
    Ask { id: u64, question: Question },
    /// Keep to this from now on, instead of to what was said before.
    Switches(Switches),
    /// Do this, and answer with `Rows` of the same id: to how many it was done.
    Do { id: u64, order: Order },
    /// The answer to a `Statement`.
    Answer { id: u64, reply: Reply },
    /// What another worker has learnt of a server.
    Learned(Lesson),
    /// What another worker has learnt of a user.
    Shown(Credential),
    /// Are you there? Answer with `Pong`.
    Ping { sequence: u64 },
}

/// From a worker to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToSupervisor {
    /// The first message of all.
    Hello { build: String, pid: u32 },
    /// Or why the settings cannot be used here.
    Prepared { epoch: u64, result: Result<(), String> },
    /// The committed parts of this epoch are in force; `excess` is what is held above the smaller
    /// of the old and new parts. Said once after each `Commit`, and again whenever it has become
    /// less, until it is empty.
    Held { epoch: u64, excess: Vec<(LimitKey, u32)> },
    /// Carries the memory with this worker's statistics (see `ledger::tallies`). Said once, first.
    Tallies,
    /// Serving: listeners that were given are being accepted from. Said once.
    Ready,
    /// A connection to Postgres was opened. Carries a copy of its descriptor.
    Opened(ServerCopy),
    /// The cancel key of an opened server became known (after its login).
    KeyKnown { server: u64, pid: i32, secret: Vec<u8> },
    /// That server's backend is gone (end of file seen): drop the copy.
    Closed { server: u64 },
    /// Answer to `Ask` and `Do`.
    Rows { id: u64, rows: Vec<Row> },
    /// Whether servers of a pool can be logged in to; for all other workers.
    Learned(Lesson),
    /// What a client has shown of its user; for all other workers, and for those to come.
    Shown(Credential),
    /// A console statement of an authenticated client.
    Statement { id: u64, user: String, role: Role, text: String },
    /// Answer to `Ping`: clients now, and the statistics so far, so that totals survive a crash.
    Pong { sequence: u64, clients: u32, stats: Vec<Row> },
    /// The drain is done: no client and no server is left. The worker exits after this.
    Drained,
}

/// Whether servers of one pool can be logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lesson {
    pub(crate) database: String,
    pub(crate) user: String,
    /// Why not, in the words that clients get; `None`: they can again.
    pub(crate) failure: Option<Failure>,
}

/// Why a server could not be logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    Connect(String),
    Login(String),
}

/// What is known of a user for the logins to Postgres, beyond the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credential {
    /// For clients of this database; none: the secret is the one in the auth file.
    pub(crate) database: Option<String>,
    pub(crate) user: String,
    /// As text; none: what was known is to be forgotten.
    pub(crate) secret: Option<Password>,
    /// The key that logs in wherever that secret is the verifier.
    pub(crate) key: Option<Key>,
}

/// A client's SCRAM key; its `Debug` form is `Key(..)`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key(pub(crate) [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a console client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// `admin_users`: every command.
    Admin,
    /// `stats_users`: SHOW only.
    Stats,
}

/// What the supervisor must know to retire a dead worker's server: end its query, end its backend,
/// and give its permission back only when the backend is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerCopy {
    /// The worker's own number for it.
    pub(crate) server: u64,
    pub(crate) database: String,
    pub(crate) user: String,
}
