//! One slot: a stable place of the fleet, the worker in it, and what happens to it next.
//!
//! It owns the state machine below and the generations of its workers; it never does I/O and asks
//! no clock. Only the fleet calls it, and turns the orders into actions.
//!
//! | state      | Want     | Unwant   | Roll      | Introduced | Granted, Ready | Gone             | time           |
//! |------------|----------|----------|-----------|------------|----------------|------------------|----------------|
//! | Empty      | Starting | –        | –         | –          | –              | –                | –              |
//! | Starting   | –        | Leaving  | –         | –          | both: Serving  | Starting/Backoff | killed if late |
//! | Serving    | –        | Draining | Preparing | –          | –              | Starting/Backoff | –              |
//! | Preparing  | –        | Draining | –         | Relieving  | –              | old: Starting, new: Serving | killed if late |
//! | Relieving  | –        | Draining | –         | –          | –              | old: Starting, new: Serving | Switching |
//! | Switching  | –        | Draining | –         | –          | both: Serving  | old: Starting, new: Serving | killed if late |
//! | Draining   | Serving  | –        | –         | –          | –              | Empty            | –              |
//! | Backoff    | –        | Empty    | –         | –          | –              | –                | Starting       |
//! | Leaving    | (noted)  | (noted)  | –         | –          | –              | Empty/Starting   | killed if late |
//!
//! Preparing, Relieving and Switching are the stages of Replacing.//!
//! `Stop` turns every state with a worker into Leaving and the others into Empty.
//! Beside its worker a slot may have one that *departs*: the old one after a switch, or a successor that
//! is no longer needed.

mod end;
mod state;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::restart::History;
use crate::link::message::{Drain, WorkerId};

pub(crate) use state::{Cause, Departing, Input, Note, Order, Progress, Stage, State, Stop};
use state::{DRAIN_GRACE, QUIT_DEADLINE, RELIEF, START_DEADLINE};

/// One slot.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) number: u16,
    pub(crate) state: State,
    pub(crate) departing: Option<Departing>,
    pub(crate) history: History,
    generation: u32,
    wanted: bool,
}

impl Slot {
    /// An empty slot.
    pub(crate) fn new(number: u16) -> Self {
        Self {
            number,
            state: State::Empty,
            departing: None,
            history: History::default(),
            generation: 0,
            wanted: false,
        }
    }

    /// Takes one input; what is to be done is appended to `orders`.
    ///
    /// `drain` is the time that an old worker has in a rolling restart.
    pub(crate) fn step(
        &mut self,
        input: Input,
        now: Instant,
        drain: Duration,
        orders: &mut Vec<Order>,
    ) {
        match input {
            Input::Want => self.want(now, orders),
            Input::Unwant => self.unwant(now, orders),
            Input::Roll => self.roll(now, orders),
            Input::Introduced(worker) => self.introduced(worker, now, orders),
            Input::Granted(worker) => {
                self.advance(worker, |progress| progress.granted = true, now, drain, orders)
            }
            Input::Ready(worker) => {
                self.advance(worker, |progress| progress.ready = true, now, drain, orders)
            }
            Input::Gone(worker, cause) => self.gone(worker, cause, now, orders),
            Input::Stop(stop) => self.stop(stop, now, orders),
            Input::Time => self.time(now, orders),
        }
    }

    fn start(&mut self, now: Instant, orders: &mut Vec<Order>) {
        let worker = self.next_worker(orders);
        self.state = State::Starting {
            worker,
            deadline: now + START_DEADLINE,
            progress: Progress::default(),
        };
    }

    /// The next generation. Rows of the ledger are told apart by its parity, so it must differ from
    /// that of any worker that still lives here.
    fn next_worker(&mut self, orders: &mut Vec<Order>) -> WorkerId {
        self.generation += 1;
        if self.departing.is_some_and(|old| old.worker.generation % 2 == self.generation % 2) {
            self.generation += 1;
        }
        let worker = WorkerId { slot: self.number, generation: self.generation };
        orders.push(Order::Start(worker));
        worker
    }

    fn want(&mut self, now: Instant, orders: &mut Vec<Order>) {
        self.wanted = true;
        match self.state {
            State::Empty => self.start(now, orders),
            State::Draining { worker, since } => {
                orders.push(Order::Undrain(worker));
                self.state = State::Serving { worker, since };
            }
            State::Starting { .. } | State::Serving { .. } | State::Replacing { .. } => {}
            State::Backoff { .. } | State::Leaving { .. } => {}
        }
    }

    fn unwant(&mut self, now: Instant, orders: &mut Vec<Order>) {
        self.wanted = false;
        match self.state {
            State::Starting { worker, .. } => {
                orders.push(Order::Quit(worker));
                self.state = State::Leaving { worker, deadline: Some(now + QUIT_DEADLINE) };
            }
            State::Serving { worker, since } => {
                orders.push(Order::Drain(worker, Drain::WhenClientsLeave));
                self.state = State::Draining { worker, since };
            }
            State::Replacing { old, since, worker, .. } => {
                orders.push(Order::Quit(worker));
                self.depart(worker, now + QUIT_DEADLINE, orders);
                orders.push(Order::Drain(old, Drain::WhenClientsLeave));
                self.state = State::Draining { worker: old, since };
            }
            State::Backoff { .. } => self.state = State::Empty,
            State::Empty | State::Draining { .. } | State::Leaving { .. } => {}
        }
    }

    /// There is room for one that departs; another one that still does is ended.
    fn depart(&mut self, worker: WorkerId, kill_at: Instant, orders: &mut Vec<Order>) {
        if let Some(before) = self.departing.replace(Departing { worker, kill_at }) {
            orders.push(Order::Kill(before.worker, "another worker of its slot departs as well"));
        }
    }

    fn roll(&mut self, now: Instant, orders: &mut Vec<Order>) {
        if let State::Serving { worker: old, since } = self.state {
            let worker = self.next_worker(orders);
            self.state = State::Replacing {
                old,
                since,
                worker,
                deadline: now + START_DEADLINE,
                progress: Progress::default(),
                stage: Stage::Preparing,
            };
        }
    }

    fn introduced(&mut self, successor: WorkerId, now: Instant, orders: &mut Vec<Order>) {
        if let State::Replacing { old, worker, stage: stage @ Stage::Preparing, .. } =
            &mut self.state
            && *worker == successor
        {
            *stage = Stage::Relieving { until: now + RELIEF };
            orders.push(Order::Relieve(*old));
        }
    }

    fn advance(
        &mut self,
        who: WorkerId,
        mark: fn(&mut Progress),
        now: Instant,
        drain: Duration,
        orders: &mut Vec<Order>,
    ) {
        match &mut self.state {
            State::Starting { worker, progress, .. } if *worker == who => {
                mark(progress);
                if progress.is_complete() {
                    self.state = State::Serving { worker: who, since: now };
                }
            }
            State::Replacing { old, worker, progress, stage, .. } if *worker == who => {
                let old = *old;
                mark(progress);
                if *stage == Stage::Switching && progress.is_complete() {
                    self.state = State::Serving { worker: who, since: now };
                    orders.push(Order::Drain(old, Drain::BetweenTransactions(drain)));
                    self.depart(old, now + drain + DRAIN_GRACE, orders);
                }
            }
            State::Empty | State::Starting { .. } | State::Serving { .. } => {}
            State::Replacing { .. } | State::Draining { .. } => {}
            State::Backoff { .. } | State::Leaving { .. } => {}
        }
    }

    /// The earliest moment at which [`Input::Time`] would change something.
    pub(crate) fn due(&self) -> Option<Instant> {
        let own = match &self.state {
            State::Replacing { stage: Stage::Relieving { until }, .. } => Some(*until),
            State::Starting { deadline, .. } | State::Replacing { deadline, .. } => Some(*deadline),
            State::Leaving { deadline, .. } => *deadline,
            State::Backoff { until } => Some(*until),
            State::Serving { since, .. } => self.history.recovers_at(*since),
            State::Empty | State::Draining { .. } => None,
        };
        own.into_iter().chain(self.departing.map(|departing| departing.kill_at)).min()
    }

    /// The worker that counts as the slot's, and the successor that is to take its place.
    pub(crate) fn workers(&self) -> (Option<WorkerId>, Option<WorkerId>) {
        match self.state {
            State::Starting { worker, .. } | State::Serving { worker, .. } => (Some(worker), None),
            State::Draining { worker, .. } | State::Leaving { worker, .. } => (Some(worker), None),
            State::Replacing { old, worker, .. } => (Some(old), Some(worker)),
            State::Empty | State::Backoff { .. } => (None, None),
        }
    }
}
