//! Everything that reaches the supervisor's loop.
//!
//! It owns the one queue's item: messages of workers, ends of workers, signals, requests of the
//! console, results of work done aside. It decides nothing. Tasks send inputs, the loop in `office`
//! takes them one after the other.

use std::os::fd::OwnedFd;

use pgfleet_config::{Problem, Settings};
use tokio::sync::oneshot;

use super::gather::Gathered;
use super::slot::Stop;
use super::switchboard::Turn;
use super::view::View;
use crate::link::message::{LimitKey, ToSupervisor, WorkerId};
use crate::link::switches::Order;
use crate::link::table::{Question, Reply};

/// The number of one gathering.
pub(crate) type GatherId = u64;

/// One input.
#[derive(Debug)]
pub(crate) enum Input {
    /// A worker's message, with its descriptors.
    Link(WorkerId, ToSupervisor, Vec<OwnedFd>),
    /// A worker's process is gone, with its exit status in words.
    Exited(WorkerId, String),
    Signal(Signal),
    Request(Request),
    /// A worker's console client is answered.
    Answer(WorkerId, u64, Reply),
    /// The time for an answer to a gathering is over.
    GatherDue(GatherId),
    /// The configuration has been read.
    Loaded(Result<Box<Settings>, Vec<Problem>>),
    /// The time for preparing a reload is over.
    ReloadDue(u64),
    /// A dead worker's server is gone for good.
    Retired(Vec<LimitKey>),
    /// A period of the statistics is over.
    StatsDue,
}

/// A signal to the supervisor, in PgBouncer's sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// HUP
    Reload,
    /// TERM
    WaitForClients,
    /// INT
    WaitForServers,
    /// QUIT
    Now,
    /// USR1
    Pause,
    /// USR2
    Resume,
}

/// What a console statement needs of the loop.
#[derive(Debug)]
pub(crate) enum Request {
    Gather(Question, oneshot::Sender<Gathered>),
    View(oneshot::Sender<View>),
    /// Has the workers do something, and counts to how many it was done.
    Order(Order, oneshot::Sender<Gathered>),
    Turn(Turn, Done),
    Set {
        key: String,
        value: String,
        done: Done,
    },
    Reload(Done),
    Scale(pgfleet_config::Workers, Done),
    Restart(Done),
    Shutdown(Stop, Done),
}

/// Where the end of a request goes: notices, or the refusal.
pub(crate) type Done = oneshot::Sender<Result<Vec<String>, Refusal>>;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) sqlstate: &'static str,
    pub(crate) message: String,
    /// NOTICE texts that go before it.
    pub(crate) notices: Vec<String>,
}

impl Refusal {
    /// PgBouncer's code for whatever its console refuses.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", message: message.into(), notices: Vec::new() }
    }

    /// PgBouncer's code for a failed RELOAD.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { sqlstate: "F0000", message: message.into(), notices: Vec::new() }
    }
}
