//! The supervisor at work: what it holds, and the loop that takes one input after the other.
//!
//! It owns the fleet's state and everything that belongs to it: processes, listeners, copies of servers,
//! requests under way. It decides nothing by itself (`fleet` and `shares` do) and never waits for a worker.
//! The entry makes it and runs it to its end; `act`, `hear` and `requests` are its other hands.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use pgfleet_config::share::Share;
use pgfleet_config::{Settings, Workers};
use tokio::sync::{Semaphore, mpsc};

use super::credentials::Credentials;
use super::desk::Desk;
use super::event::{Event, Pace};
use super::fleet::Fleet;
use super::gather::Gatherings;
use super::input::{Done, Input};
use super::listeners::Listeners;
use super::lock::Lock;
use super::notify::Notify;
use super::ready::Ready;
use super::reload::{Reloading, Setting};
use super::retire::{CANCELS_AT_ONCE, Copies};
use super::shares::Shares;
use super::spawn::Process;
use super::totals::Totals;
use crate::ledger::Ledger;
use crate::link::message::WorkerId;
use crate::link::switches::Switches;
use crate::log_line;

/// The least time between two looks at the clock alone.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// Turns that console statements get to answer when the fleet has ended.
const LAST_TURNS: usize = 32;

/// What the entry has prepared.
pub(crate) struct Prepared {
    pub(crate) settings: Settings,
    pub(crate) config: PathBuf,
    pub(crate) workers: Option<Workers>,
    pub(crate) count: u16,
    pub(crate) listeners: Listeners,
    pub(crate) lock: Lock,
    pub(crate) ledger: Ledger,
    pub(crate) ledger_descriptor: OwnedFd,
    pub(crate) secret: [u8; 32],
    pub(crate) ready: Ready,
    pub(crate) errors: log_line::Errors,
}

/// A worker's process, and how far it is known.
#[derive(Debug)]
pub(crate) struct Hand {
    pub(crate) process: Process,
    pub(crate) since: Instant,
    pub(crate) standing: Standing,
    /// What it counts, readable also when it is gone.
    pub(crate) tallies: Option<OwnedFd>,
}

/// How far a worker is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not said `Hello`.
    Silent,
    /// It is of this build and has been welcomed.
    Welcomed,
    /// Its peers know it: it has a share.
    Known,
    /// It is of another build, or cannot use the settings, and is being ended.
    Refused,
}

/// The supervisor.
pub(crate) struct Office {
    pub(super) fleet: Fleet,
    pub(super) shares: Shares,
    pub(super) listeners: Listeners,
    pub(super) lock: Lock,
    pub(super) ledger: Ledger,
    pub(super) ledger_descriptor: OwnedFd,
    pub(super) secret: [u8; 32],
    pub(super) started: SystemTime,
    pub(super) born: Instant,
    pub(super) hands: BTreeMap<WorkerId, Hand>,
    pub(super) copies: Copies,
    pub(super) credentials: Credentials,
    pub(super) cancels: Rc<Semaphore>,
    pub(super) gatherings: Gatherings,
    pub(super) totals: Totals,
    pub(super) settings: Rc<Settings>,
    /// The settings that the fleet was started with: some keys stay as they were there.
    pub(super) booted: Rc<Settings>,
    pub(super) config: PathBuf,
    /// The number of workers that was asked for on the command line or by SCALE.
    pub(super) asked: Option<Workers>,
    pub(super) reloading: Option<Reloading>,
    pub(super) reloads: u64,
    /// SET commands that wait for their turn.
    pub(super) settings_to_come: VecDeque<Setting>,
    pub(super) switches: Switches,
    desk: Desk,
    pub(super) scalings: Vec<Done>,
    pub(super) restarting: Option<Done>,
    pub(super) notify: Notify,
    pub(super) ready: Ready,
    pub(super) pings: u64,
    pub(super) inputs: mpsc::UnboundedSender<Input>,
    pub(super) events: VecDeque<Event>,
    /// The start failed: the fleet is being stopped, and the exit status will say so.
    pub(super) failed: bool,
    pub(super) errors: log_line::Errors,
    pub(super) end: Option<End>,
}

/// How the supervisor ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As it was told.
    Stopped,
    /// The fleet could not be started.
    Failed,
}

impl Office {
    pub(crate) fn new(prepared: Prepared, inputs: mpsc::UnboundedSender<Input>) -> Self {
        let now = Instant::now();
        let settings = Rc::new(prepared.settings);
        Self {
            fleet: Fleet::new(pace(&settings), now),
            shares: Shares::new(Rc::clone(&settings)),
            listeners: prepared.listeners,
            lock: prepared.lock,
            ledger: prepared.ledger,
            ledger_descriptor: prepared.ledger_descriptor,
            secret: prepared.secret,
            started: SystemTime::now(),
            born: now,
            hands: BTreeMap::new(),
            copies: Copies::default(),
            credentials: Credentials::default(),
            cancels: Rc::new(Semaphore::new(CANCELS_AT_ONCE)),
            gatherings: Gatherings::default(),
            totals: Totals::new(now),
            booted: Rc::clone(&settings),
            settings,
            config: prepared.config,
            asked: prepared.workers,
            reloading: None,
            reloads: 0,
            settings_to_come: VecDeque::new(),
            switches: Switches::default(),
            desk: Desk::new(inputs.clone()),
            scalings: Vec::new(),
            restarting: None,
            notify: Notify::from_environment(),
            ready: prepared.ready,
            pings: 0,
            inputs,
            events: VecDeque::from([Event::Scale(prepared.count)]),
            failed: false,
            errors: prepared.errors,
            end: None,
        }
    }

    /// Runs the fleet to its end.
    pub(crate) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Input>) -> ExitCode {
        self.begin_periods();
        self.decide();
        while self.end.is_none() {
            // The loop never spins, even if a deadline of the fleet should stay in the past.
            let due = self.fleet.due().map(|due| due.max(Instant::now() + SHORTEST_SLEEP));
            // Both are cancel-safe: an input that is not taken stays in the queue.
            tokio::select! {
                input = queue.recv() => match input {
                    Some(input) => self.take(input),
                    None => break,
                },
                () = until(due) => self.events.push_back(Event::Tick),
            }
            self.decide();
        }
        self.listeners.close();
        // Whoever waits for an answer hears of the end, and passes it on.
        drop((queue, std::mem::take(&mut self.gatherings)));
        for _ in 0..LAST_TURNS {
            tokio::task::yield_now().await;
        }
        if self.ready.is_open() {
            self.ready.fail("the fleet was stopped before it served");
        }
        self.lock.release();
        log::info!("fleet ends");
        match self.end {
            Some(End::Stopped) => ExitCode::SUCCESS,
            Some(End::Failed) | None => ExitCode::FAILURE,
        }
    }

    /// Where console statements come to.
    pub(super) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Link(worker, message, descriptors) => self.hear(worker, message, descriptors),
            Input::Exited(worker, status) => self.exited(worker, &status),
            Input::Signal(signal) => self.signal(signal),
            Input::Request(request) => self.request(request),
            Input::Answer(worker, id, reply) => self.answer(worker, id, reply),
            Input::GatherDue(id) => self.gatherings.due(id),
            Input::Loaded(loaded) => self.loaded(loaded.map(|settings| *settings)),
            Input::ReloadDue(serial) => self.reload_due(serial),
            Input::Retired(limits) => {
                self.copies.retired(&limits);
                let steps = self.shares.haunt(self.copies.ghosts());
                self.carry_out(steps);
            }
            Input::StatsDue => self.stats_due(),
        }
    }

    /// Lets the fleet decide on all that has happened, and does what comes out.
    fn decide(&mut self) {
        while let Some(event) = self.events.pop_front() {
            for action in self.fleet.decide(event, Instant::now()) {
                self.act(action);
            }
        }
    }

    /// Starts the tasks that come round: statistics, and the word to a watchdog.
    fn begin_periods(&self) {
        self.send_later(
            self.settings.global.stats_period.max(Duration::from_secs(1)),
            Input::StatsDue,
        );
        if let Some(period) = self.notify.watchdog() {
            let notify = Notify::from_environment();
            drop(tokio::task::spawn_local(async move {
                loop {
                    notify.alive();
                    tokio::time::sleep(period).await;
                }
            }));
        }
    }

    fn stats_due(&mut self) {
        let now = Instant::now();
        self.totals.sample(now);
        let databases = &self.settings.databases;
        let patience = self.settings.global.autodb_idle_timeout;
        self.totals.forget(now, patience, |name| databases.contains_key(name));
        if self.settings.global.log_stats {
            log::info!("{}", super::totals::line(&self.totals.summary()));
        }
        self.send_later(
            self.settings.global.stats_period.max(Duration::from_secs(1)),
            Input::StatsDue,
        );
    }

    /// Puts an input into the queue after a while.
    pub(super) fn send_later(&self, delay: Duration, input: Input) {
        let inputs = self.inputs.clone();
        drop(tokio::task::spawn_local(async move {
            tokio::time::sleep(delay).await;
            // Without a receiver the supervisor is ending.
            drop(inputs.send(input));
        }));
    }

    /// The workers that can be sent messages.
    pub(super) fn welcomed(&self) -> impl Iterator<Item = (WorkerId, &Hand)> {
        let hands = self.hands.iter().map(|(worker, hand)| (*worker, hand));
        hands.filter(|(_, hand)| matches!(hand.standing, Standing::Welcomed | Standing::Known))
    }

    /// How the fleet is, in a few words.
    pub(super) fn status_line(&self) -> String {
        format!("{} of {} workers serving", self.fleet.serving(), self.fleet.wanted())
    }
}

/// The durations that the fleet goes by.
pub(super) fn pace(settings: &Settings) -> Pace {
    Pace {
        heartbeat_timeout: settings.global.heartbeat_timeout,
        drain_timeout: settings.global.drain_timeout,
    }
}

/// How a share is shown: its place and the number of parts.
pub(crate) fn show_share(share: Option<Share>) -> Option<String> {
    share.map(|share| format!("{}/{}", share.index + 1, share.of))
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
