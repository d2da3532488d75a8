//! The words of a slot: its states, what it can be told, and what it orders.
//!
//! They carry data and decide nothing. The slot's steps and the fleet use them.

use std::time::{Duration, Instant};

use crate::link::message::{Drain, WorkerId};

/// How long a worker may take from its start to `Ready`.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long a worker may take to end after `Quit`.
pub(crate) const QUIT_DEADLINE: Duration = Duration::from_secs(5);
/// How long those who are logging in at an old worker have to finish before it loses its share.
/// Who has not finished by then may be refused; the queue of new connections waits so long only in a fleet of one.
pub(super) const RELIEF: Duration = Duration::from_millis(300);
/// How long past its own drain deadline a worker is waited for.
pub(super) const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// What is in the slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody, and nobody is wanted.
    Empty,
    /// A worker that does not serve yet.
    Starting { worker: WorkerId, deadline: Instant, progress: Progress },
    /// A worker that serves.
    Serving { worker: WorkerId, since: Instant },
    /// Rolling restart: `worker` is to take the place of `old`.
    Replacing {
        old: WorkerId,
        since: Instant,
        worker: WorkerId,
        deadline: Instant,
        progress: Progress,
        stage: Stage,
    },
    /// Scale-down: the worker serves the clients that it has until they leave.
    Draining { worker: WorkerId, since: Instant },
    /// The worker died; the next one starts at `until`.
    Backoff { until: Instant },
    /// The worker has been told to end.
    Leaving { worker: WorkerId, deadline: Option<Instant> },
}

/// How far a replacement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The old worker serves, the new one is being prepared.
    Preparing,
    /// The old worker accepts no more; those who are logging in there get until then to finish.
    Relieving { until: Instant },
    /// The old worker's share goes to the new one.
    Switching,
}

/// What a new worker has reached; it serves when it has both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Its share is in force.
    pub(crate) granted: bool,
    /// It has said `Ready`.
    pub(crate) ready: bool,
}

impl Progress {
    pub(super) fn is_complete(self) -> bool {
        self.granted && self.ready
    }
}

/// What a slot can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Want,
    Unwant,
    /// Replace the worker by a fresh one, without a gap.
    Roll,
    /// Its first epoch of settings is in force.
    Introduced(WorkerId),
    /// It has a share of the limits.
    Granted(WorkerId),
    Ready(WorkerId),
    Gone(WorkerId, Cause),
    Stop(Stop),
    /// Look at the deadlines.
    Time,
}

/// Why a worker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It ended or was killed.
    Died,
    /// It was of another build, or could not be spawned: no crash of the worker.
    Refused,
}

/// How the fleet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Drain(Drain),
    Now,
}

/// What must be done for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Start(WorkerId),
    Drain(WorkerId, Drain),
    Undrain(WorkerId),
    /// No peer may hand it a client any more.
    Relieve(WorkerId),
    Quit(WorkerId),
    Kill(WorkerId, &'static str),
    Note(Note),
}

/// What the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// It died without having been told to; the next one starts after the pause.
    Died {
        worker: WorkerId,
        served: Duration,
        pause: Duration,
    },
    /// The slot is in a crash loop.
    LoopBegins {
        slot: u16,
    },
    LoopEnded {
        slot: u16,
    },
    /// The successor of a rolling restart did not come up; the old worker serves on.
    RollFailed {
        worker: WorkerId,
    },
}

/// A second process of a slot, on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departing {
    pub(crate) worker: WorkerId,
    pub(crate) kill_at: Instant,
}
