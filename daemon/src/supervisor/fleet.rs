//! The decisions of the supervisor, as one pure function: `decide(event, now) -> actions`.
//!
//! It owns the slots, the seats, the heartbeats and the progress of scaling, rolling restart and
//! shutdown. It never does I/O and asks no clock, so that a seeded simulation can run years of it.
//! `act` calls it and executes what comes out.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use pgfleet_config::share::Share;

use super::action::{Action, RollEnd};
use super::event::{Event, Pace};
use super::seats::{Holder, Move, Seats, Service};
use super::slot::{Cause, Input, Note, Order, Slot, Stage, State, Stop};
use crate::link::message::WorkerId;

/// How often workers are asked whether they are there.
const PING_EVERY: Duration = Duration::from_secs(1);
/// A supervisor that itself was away for longer than this holds no silence against its workers.
const OWN_SILENCE: Duration = Duration::from_secs(3);

/// The fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(super) slots: BTreeMap<u16, Slot>,
    pub(super) seats: Seats,
    wanted: u16,
    pace: Pace,
    pulses: BTreeMap<WorkerId, Pulse>,
    next_ping: Instant,
    looked: Instant,
    scaling: bool,
    roll: Option<Roll>,
    phase: Phase,
    division: Vec<(WorkerId, Option<Share>)>,
}

/// Whether a worker is alive.
#[derive(Clone, Copy, Debug)]
enum Pulse {
    Heard(Instant),
    /// It was silent for too long and has been killed.
    Killed,
}

/// A rolling restart under way.
#[derive(Debug)]
struct Roll {
    waiting: VecDeque<u16>,
    current: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Stopping,
    Stopped,
}

impl Fleet {
    /// A fleet without slots; the first [`Event::Scale`] fills it.
    pub(crate) fn new(pace: Pace, now: Instant) -> Self {
        Self {
            slots: BTreeMap::new(),
            seats: Seats::default(),
            wanted: 0,
            pace,
            pulses: BTreeMap::new(),
            next_ping: now,
            looked: now,
            scaling: false,
            roll: None,
            phase: Phase::Running,
            division: Vec::new(),
        }
    }

    /// How many slots are to be filled.
    pub(crate) fn wanted(&self) -> u16 {
        self.wanted
    }

    /// Whether a shutdown has begun.
    pub(crate) fn is_stopping(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Whether a rolling restart is under way.
    pub(crate) fn is_rolling(&self) -> bool {
        self.roll.is_some()
    }

    /// The share that a worker should have.
    pub(crate) fn share(&self, worker: WorkerId) -> Option<Share> {
        self.division.iter().find(|(member, _)| *member == worker).and_then(|(_, share)| *share)
    }

    /// Whether this worker is being replaced and takes no clients any more.
    pub(crate) fn is_relieved(&self, worker: WorkerId) -> bool {
        let slot = self.slots.get(&worker.slot).filter(|slot| is_relieved(slot));
        slot.is_some_and(|slot| slot.workers().0 == Some(worker))
    }

    /// How many slots have a worker that takes new clients.
    pub(crate) fn serving(&self) -> usize {
        self.slots.values().filter(|slot| is_serving(slot)).count()
    }

    /// How many slots are in a crash loop.
    pub(crate) fn looping(&self) -> usize {
        self.slots.values().filter(|slot| slot.history.is_looping()).count()
    }

    /// Takes one fact and says what is to be done about it.
    pub(crate) fn decide(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        self.take(event, now, &mut actions);
        self.beat(now, &mut actions);
        let numbers: Vec<u16> = self.slots.keys().copied().collect();
        for number in numbers {
            self.input(number, Input::Time, now, &mut actions);
        }
        self.advance_roll(now, &mut actions);
        self.settle_seats(now, &mut actions);
        self.divide(&mut actions);
        self.conclude(&mut actions);
        actions.sort_by_key(Action::rank);
        actions
    }

    fn take(&mut self, event: Event, now: Instant, actions: &mut Vec<Action>) {
        match event {
            Event::Tick => {}
            Event::Scale(count) => self.scale(count, now, actions),
            Event::Restart => self.begin_roll(),
            Event::Stop(stop) => self.stop(stop, now, actions),
            Event::Pace(pace) => self.pace = pace,
            Event::Greeted(worker) => {
                self.pulses.insert(worker, Pulse::Heard(now));
            }
            Event::Pong(worker) => {
                if let Some(pulse @ Pulse::Heard(_)) = self.pulses.get_mut(&worker) {
                    *pulse = Pulse::Heard(now);
                }
            }
            Event::Introduced(worker) => {
                self.input(worker.slot, Input::Introduced(worker), now, actions)
            }
            Event::Granted(worker) => self.input(worker.slot, Input::Granted(worker), now, actions),
            Event::Ready(worker) => self.input(worker.slot, Input::Ready(worker), now, actions),
            Event::Gone(worker, cause) => self.gone(worker, cause, now, actions),
        }
    }

    fn gone(&mut self, worker: WorkerId, cause: Cause, now: Instant, actions: &mut Vec<Action>) {
        self.pulses.remove(&worker);
        self.seats.gone(worker);
        self.input(worker.slot, Input::Gone(worker, cause), now, actions);
    }

    /// Hands one input to one slot and turns its orders into actions.
    fn input(&mut self, number: u16, input: Input, now: Instant, actions: &mut Vec<Action>) {
        let Some(slot) = self.slots.get_mut(&number) else { return };
        let mut orders = Vec::new();
        slot.step(input, now, self.pace.drain_timeout, &mut orders);
        for order in orders {
            let action = match order {
                Order::Start(worker) => Action::Start(worker),
                Order::Drain(worker, drain) => Action::Drain(worker, drain),
                Order::Undrain(worker) => Action::Undrain(worker),
                Order::Relieve(worker) => Action::Relieve(worker),
                Order::Quit(worker) => Action::Quit(worker),
                Order::Kill(worker, why) => Action::Kill(worker, why),
                Order::Note(note) => {
                    if let Note::RollFailed { worker } = note {
                        self.end_roll(Err(RollEnd::SuccessorFailed(worker.slot)), actions);
                    }
                    Action::Note(note)
                }
            };
            actions.push(action);
        }
    }

    fn scale(&mut self, count: u16, now: Instant, actions: &mut Vec<Action>) {
        if self.is_stopping() {
            return;
        }
        self.wanted = count;
        self.scaling = true;
        self.seats.grow(count);
        for number in 1..=count {
            self.slots.entry(number).or_insert_with(|| Slot::new(number));
        }
        let numbers: Vec<u16> = self.slots.keys().copied().collect();
        for number in numbers {
            let input = if number <= count { Input::Want } else { Input::Unwant };
            self.input(number, input, now, actions);
        }
    }

    fn stop(&mut self, stop: Stop, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Running {
            self.phase = Phase::Stopping;
            actions.push(Action::CloseListeners);
        }
        self.end_roll(Err(RollEnd::Stopping), actions);
        let numbers: Vec<u16> = self.slots.keys().copied().collect();
        for number in numbers {
            self.input(number, Input::Stop(stop), now, actions);
        }
    }

    /// Pings, and ends those that have been silent for too long.
    fn beat(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let was_away = now.duration_since(self.looked) > OWN_SILENCE;
        self.looked = now;
        let timeout = self.pace.heartbeat_timeout;
        for (worker, pulse) in &mut self.pulses {
            let Pulse::Heard(heard) = pulse else { continue };
            if was_away {
                *heard = now;
            } else if !timeout.is_zero() && now.duration_since(*heard) > timeout {
                *pulse = Pulse::Killed;
                actions.push(Action::Kill(*worker, "it did not answer for heartbeat_timeout"));
            }
        }
        if now >= self.next_ping {
            self.next_ping = now + PING_EVERY;
            actions.extend(self.pulses.keys().map(|worker| Action::Ping(*worker)));
        }
    }

    fn begin_roll(&mut self) {
        if self.roll.is_none() && !self.is_stopping() {
            let waiting =
                self.slots.keys().copied().filter(|number| *number <= self.wanted).collect();
            self.roll = Some(Roll { waiting, current: None });
        }
    }

    fn end_roll(&mut self, result: Result<(), RollEnd>, actions: &mut Vec<Action>) {
        if self.roll.take().is_some() {
            actions.push(Action::Restarted(result));
        }
    }

    fn advance_roll(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(roll) = &mut self.roll {
            let current = roll.current.and_then(|number| self.slots.get(&number));
            if current.is_some_and(is_being_replaced) {
                return;
            }
            let Some(next) = roll.waiting.pop_front() else {
                return self.end_roll(Ok(()), actions);
            };
            roll.current = Some(next);
            self.input(next, Input::Roll, now, actions);
        }
    }

    fn settle_seats(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let holders: Vec<Holder> = match self.phase {
            Phase::Running => self.slots.values().filter_map(holder).collect(),
            Phase::Stopping | Phase::Stopped => Vec::new(),
        };
        let relieved: Vec<u16> =
            self.slots.values().filter(|slot| is_relieved(slot)).map(|slot| slot.number).collect();
        for change in self.seats.settle(self.wanted, &holders, &relieved, now) {
            actions.push(match change {
                Move::Give(seat, worker) => Action::Give(seat, worker),
                Move::Take(seat, worker) => Action::Take(seat, worker),
            });
        }
    }

    /// The limits belong to the wanted slots and to those that still drain; a slot whose worker is down
    /// keeps its part for the next one. In a shutdown the parts stay as they are.
    fn divide(&mut self, actions: &mut Vec<Action>) {
        // A grant would make a relieved worker take clients again: parts rest for that moment.
        if self.is_stopping() || self.slots.values().any(is_relieving) {
            return;
        }
        let sharing: Vec<&Slot> = self.slots.values().filter(|slot| self.has_part(slot)).collect();
        let of = u16::try_from(sharing.len()).unwrap_or(u16::MAX);
        let mut division = Vec::new();
        for (index, slot) in (0..).zip(sharing) {
            let share = Some(Share { index, of });
            match slot.state {
                State::Starting { worker, .. }
                | State::Serving { worker, .. }
                | State::Draining { worker, .. } => {
                    division.push((worker, share));
                }
                State::Replacing { old, worker, stage, .. } => match stage {
                    Stage::Preparing | Stage::Relieving { .. } => {
                        division.extend([(old, share), (worker, None)]);
                    }
                    Stage::Switching => division.extend([(old, None), (worker, share)]),
                },
                State::Leaving { worker, .. } => division.push((worker, None)),
                State::Empty | State::Backoff { .. } => {}
            }
        }
        division
            .extend(self.slots.values().filter_map(|slot| Some((slot.departing?.worker, None))));
        if division != self.division {
            self.division.clone_from(&division);
            actions.push(Action::Divide(division));
        }
    }

    fn has_part(&self, slot: &Slot) -> bool {
        slot.number <= self.wanted || matches!(slot.state, State::Draining { .. })
    }

    fn conclude(&mut self, actions: &mut Vec<Action>) {
        if self.scaling && self.slots.range(1..=self.wanted).all(|(_, slot)| is_settled(slot)) {
            self.scaling = false;
            actions.push(Action::Scaled);
        }
        let is_empty = |slot: &Slot| slot.state == State::Empty && slot.departing.is_none();
        if self.phase == Phase::Stopping && self.slots.values().all(is_empty) {
            self.phase = Phase::Stopped;
            actions.push(Action::Stopped);
        }
    }

    /// When [`Event::Tick`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let beat = (!self.pulses.is_empty()).then_some(self.next_ping);
        let seats = self.slots.values().any(is_serving).then(|| self.seats.due()).flatten();
        let slots = self.slots.values().filter_map(Slot::due);
        slots.chain(beat).chain(seats).min()
    }
}

/// Who may hold seats in a slot: the worker that serves, or the new one once it has its share.
fn holder(slot: &Slot) -> Option<Holder> {
    match slot.state {
        State::Serving { worker, .. }
        | State::Replacing { old: worker, stage: Stage::Preparing, .. } => {
            Some(Holder { worker, service: Service::Serving })
        }
        State::Starting { worker, progress, .. }
        | State::Replacing { worker, progress, stage: Stage::Switching, .. }
            if progress.granted =>
        {
            Some(Holder { worker, service: Service::Coming })
        }
        State::Empty | State::Starting { .. } | State::Replacing { .. } => None,
        State::Draining { .. } | State::Backoff { .. } | State::Leaving { .. } => None,
    }
}

fn is_serving(slot: &Slot) -> bool {
    matches!(slot.state, State::Serving { .. } | State::Replacing { stage: Stage::Preparing, .. })
}

/// Whether its seats are free only for a moment, and by our own doing: then a peer gets them at once.
fn is_relieved(slot: &Slot) -> bool {
    matches!(slot.state, State::Replacing { stage: Stage::Relieving { .. } | Stage::Switching, .. })
}

/// Whether those who are logging in at its old worker are being waited for.
fn is_relieving(slot: &Slot) -> bool {
    matches!(slot.state, State::Replacing { stage: Stage::Relieving { .. }, .. })
}

fn is_being_replaced(slot: &Slot) -> bool {
    matches!(slot.state, State::Starting { .. } | State::Replacing { .. })
        || slot.departing.is_some()
}

/// Whether a scale need not wait for this slot any longer. One in a crash loop is not waited for.
fn is_settled(slot: &Slot) -> bool {
    matches!(slot.state, State::Serving { .. } | State::Replacing { .. })
        || slot.history.is_looping()
}
