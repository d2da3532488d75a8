//! What the fleet is told.
//!
//! Every fact that can change the fleet's decisions is one of these events; it carries values and never
//! descriptors or channels. `act` and the entry make them, `Fleet::decide` takes them.

use std::time::Duration;

use super::slot::{Cause, Stop};
use crate::link::message::WorkerId;

/// One fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing but time has passed.
    Tick,
    /// Keep this many slots filled.
    Scale(u16),
    /// Replace the workers one by one.
    Restart,
    Stop(Stop),
    /// Settings that the fleet itself goes by.
    Pace(Pace),
    /// The worker has said `Hello`.
    Greeted(WorkerId),
    /// The worker's first epoch of settings is in force, with whatever share.
    Introduced(WorkerId),
    /// The worker has a share of the limits in force.
    Granted(WorkerId),
    Ready(WorkerId),
    Pong(WorkerId),
    /// The process has been reaped and its link read to the end.
    Gone(WorkerId, Cause),
}

/// The durations that the settings give to the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// A worker that is silent for longer is killed; zero turns that off.
    pub(crate) heartbeat_timeout: Duration,
    /// How long an old worker may take in a rolling restart.
    pub(crate) drain_timeout: Duration,
}
