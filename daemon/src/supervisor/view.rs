//! What the fleet looks like at one moment, for the console.
//!
//! It is a copy: whoever reads it holds up no one. It never changes and asks nothing. The loop makes it,
//! the tables of the console read it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use super::fleet::Fleet;
use super::seats::Seats;
use super::slot::{Slot, State};
use super::totals::Summary;
use crate::link::message::{LimitKey, WorkerId};
use crate::link::switches::Switches;

/// The fleet.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) settings: Rc<Settings>,
    pub(crate) config: PathBuf,
    pub(crate) wanted: u16,
    pub(crate) lines: Vec<Line>,
    pub(crate) uptime: Duration,
    pub(crate) epoch: u64,
    pub(crate) stopping: Stopping,
    pub(crate) totals: Summary,
    /// Servers of dead workers whose backends are not gone yet.
    pub(crate) ghosts: u32,
    /// The same, by the limits that they still count in.
    pub(crate) haunted: BTreeMap<LimitKey, u32>,
    pub(crate) switches: Switches,
}

/// Whether the fleet is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    No,
    Yes,
}

/// One process of the fleet, or a slot that has none.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) slot: u16,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) pid: Option<u32>,
    pub(crate) state: &'static str,
    pub(crate) share: Option<Share>,
    pub(crate) restarts: u64,
    pub(crate) uptime: Option<Duration>,
    pub(crate) listeners: usize,
}

impl View {
    /// How many processes are in this state.
    pub(crate) fn count(&self, state: &str) -> usize {
        self.lines.iter().filter(|line| line.state == state).count()
    }

    /// How many workers take new clients.
    pub(crate) fn serving(&self) -> usize {
        self.count(SERVING) + self.count(SUCCEEDED)
    }
}

/// The states as the console names them.
pub(crate) const STARTING: &str = "starting";
pub(crate) const SERVING: &str = "serving";
pub(crate) const SUCCEEDED: &str = "being replaced";
pub(crate) const DRAINING: &str = "draining";
pub(crate) const LEAVING: &str = "leaving";
pub(crate) const BACKOFF: &str = "backoff";
pub(crate) const CRASH_LOOP: &str = "crash loop";

/// The processes of the fleet; what only the process table knows is asked of `about`.
pub(crate) fn lines(
    fleet: &Fleet,
    about: impl Fn(WorkerId) -> Option<(u32, Instant)>,
    now: Instant,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for slot in fleet.slots.values() {
        for (worker, state) in processes(slot) {
            let known = worker.and_then(&about);
            lines.push(Line {
                slot: slot.number,
                worker,
                pid: known.map(|(pid, _)| pid),
                state,
                share: worker.and_then(|worker| fleet.share(worker)),
                restarts: slot.history.deaths(),
                uptime: known.map(|(_, since)| now.duration_since(since)),
                listeners: worker.map_or(0, |worker| Seats::held_by(&fleet.seats, worker)),
            });
        }
    }
    lines
}

fn processes(slot: &Slot) -> Vec<(Option<WorkerId>, &'static str)> {
    let looping = slot.history.is_looping();
    let mut processes = match slot.state {
        State::Empty => Vec::new(),
        State::Starting { worker, .. } => {
            vec![(Some(worker), if looping { CRASH_LOOP } else { STARTING })]
        }
        State::Serving { worker, .. } => vec![(Some(worker), SERVING)],
        State::Replacing { old, worker, .. } => {
            vec![(Some(old), SUCCEEDED), (Some(worker), STARTING)]
        }
        State::Draining { worker, .. } => vec![(Some(worker), DRAINING)],
        State::Backoff { .. } => vec![(None, if looping { CRASH_LOOP } else { BACKOFF })],
        State::Leaving { worker, .. } => vec![(Some(worker), LEAVING)],
    };
    processes.extend(slot.departing.map(|departing| (Some(departing.worker), LEAVING)));
    processes
}
