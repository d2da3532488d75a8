//! What the fleet wants done.
//!
//! Every effect of a decision is one of these actions, in the order in which they are to be carried out.
//! They never fail by themselves: a failure comes back as an event. `Fleet::decide` makes them, `act` executes them.

use pgfleet_config::share::Share;

use super::seats::Seat;
use super::slot::Note;
use crate::link::message::{Drain, WorkerId};

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start(WorkerId),
    Undrain(WorkerId),
    /// No peer may hand it a client any more.
    Relieve(WorkerId),
    Give(Seat, WorkerId),
    Take(Seat, WorkerId),
    Drain(WorkerId, Drain),
    Quit(WorkerId),
    Kill(WorkerId, &'static str),
    Ping(WorkerId),
    /// These are the shares that the workers should have now.
    Divide(Vec<(WorkerId, Option<Share>)>),
    /// No new connection is to be accepted by anyone from now on.
    CloseListeners,
    Note(Note),
    /// The wanted number of workers has been reached, or as much of it as can be.
    Scaled,
    /// The rolling restart is over.
    Restarted(Result<(), RollEnd>),
    /// No worker is left after a stop.
    Stopped,
}

/// Why a rolling restart ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RollEnd {
    #[error(
        "the successor of slot {0} did not come up, its old worker serves on; see the log, then repeat RESTART"
    )]
    SuccessorFailed(u16),
    #[error("the fleet is shutting down")]
    Stopping,
}

impl Action {
    /// Order within one decision: whatever lets a worker serve comes first, whatever ends one comes last.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Start(_) | Self::Undrain(_) | Self::Relieve(_) => 0,
            Self::Give(..) => 1,
            Self::Take(..) => 2,
            Self::CloseListeners | Self::Divide(_) | Self::Ping(_) | Self::Note(_) => 3,
            Self::Drain(..) | Self::Quit(_) | Self::Kill(..) => 4,
            Self::Scaled | Self::Restarted(_) | Self::Stopped => 5,
        }
    }
}
