//! One slot: a stable place of the fleet, the worker in it, and what happens to it next.
//!
//! It owns the state machine below and the generations of its workers; it never does I/O and asks
//! no clock. Only the fleet calls it, and turns the orders into actions.
//!
//! | state      | Want     | Unwant   | Roll       | Introduced | Granted, Ready | Gone             | time            |
//! |------------|----------|----------|------------|------------|----------------|------------------|-----------------|
//! | Empty      | Starting | –        | –          | –          | –              | –                | –               |
//! | Starting   | –        | Leaving  | –          | –          | both: Serving  | Starting/Backoff | killed if late  |
//! | Serving    | –        | Draining | Succeeding | –          | –              | Starting/Backoff | –               |
//! | Succeeding | –        | Draining | –          | Switching  | –              | old: Starting, new: Serving (old) | killed if late |
//! | Switching  | –        | Draining | –          | –          | both: Serving  | old: Starting, new: Serving (old) | killed if late |
//! | Draining   | Serving  | –        | –          | –          | –              | Empty            | –               |
//! | Backoff    | –        | Empty    | –          | –          | –              | –                | Starting        |
//! | Leaving    | (noted)  | (noted)  | –          | –          | –              | Empty/Starting   | killed if late  |
//!
//! `Stop` turns every state with a worker into Leaving and the others into Empty.
//! Beside its worker a slot may have one that *departs*: the old one after a switch, or a successor that
//! is no longer needed.

mod state;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use super::restart::{History, LONGEST_PAUSE, Recovery, Verdict};
use crate::link::message::{Drain, WorkerId};

pub(crate) use state::{Cause, Departing, Input, Note, Order, State, Stop};
use state::{DRAIN_GRACE, Progress, QUIT_DEADLINE, START_DEADLINE};

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
            Input::Introduced(worker) => self.introduced(worker),
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
            State::Starting { .. }
            | State::Serving { .. }
            | State::Succeeding { .. }
            | State::Switching { .. } => {}
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
            State::Succeeding { old, since, worker, .. }
            | State::Switching { old, since, worker, .. } => {
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
            let deadline = now + START_DEADLINE;
            self.state =
                State::Succeeding { old, since, worker, deadline, progress: Progress::default() };
        }
    }

    fn introduced(&mut self, successor: WorkerId) {
        if let State::Succeeding { old, since, worker, deadline, progress } = self.state
            && worker == successor
        {
            self.state = State::Switching { old, since, worker, deadline, progress };
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
            State::Succeeding { worker, progress, .. } if *worker == who => {
                // A successor has no share yet; that it is ready is remembered.
                mark(progress);
                progress.granted = false;
            }
            State::Switching { old, worker, progress, .. } if *worker == who => {
                mark(progress);
                let old = *old;
                if progress.is_complete() {
                    self.state = State::Serving { worker: who, since: now };
                    orders.push(Order::Drain(old, Drain::BetweenTransactions(drain)));
                    self.depart(old, now + drain + DRAIN_GRACE, orders);
                }
            }
            State::Empty
            | State::Starting { .. }
            | State::Serving { .. }
            | State::Succeeding { .. } => {}
            State::Switching { .. }
            | State::Draining { .. }
            | State::Backoff { .. }
            | State::Leaving { .. } => {}
        }
    }

    fn gone(&mut self, who: WorkerId, cause: Cause, now: Instant, orders: &mut Vec<Order>) {
        if self.departing.is_some_and(|departing| departing.worker == who) {
            self.departing = None;
            return;
        }
        match self.state {
            State::Starting { worker, .. } if worker == who => {
                self.lost(who, cause, Duration::ZERO, now, orders)
            }
            State::Serving { worker, since } if worker == who => {
                self.lost(who, cause, now.duration_since(since), now, orders);
            }
            State::Succeeding { old, since, worker, deadline, progress }
            | State::Switching { old, since, worker, deadline, progress } => {
                if who == worker {
                    orders.push(Order::Note(Note::RollFailed { worker }));
                    self.state = State::Serving { worker: old, since };
                } else if who == old {
                    let served = now.duration_since(since);
                    let verdict = self.history.died(now, served);
                    self.note_death(who, served, verdict, orders);
                    self.state = State::Starting { worker, deadline, progress };
                }
            }
            State::Draining { worker, .. } if worker == who => self.state = State::Empty,
            State::Leaving { worker, .. } if worker == who => {
                self.state = State::Empty;
                if self.wanted {
                    self.start(now, orders);
                }
            }
            State::Empty
            | State::Starting { .. }
            | State::Serving { .. }
            | State::Draining { .. } => {}
            State::Backoff { .. } | State::Leaving { .. } => {}
        }
    }

    fn lost(
        &mut self,
        who: WorkerId,
        cause: Cause,
        served: Duration,
        now: Instant,
        orders: &mut Vec<Order>,
    ) {
        let pause = match cause {
            Cause::Died => {
                let verdict = self.history.died(now, served);
                self.note_death(who, served, verdict, orders)
            }
            Cause::Refused => LONGEST_PAUSE,
        };
        if pause.is_zero() {
            self.start(now, orders);
        } else {
            self.state = State::Backoff { until: now + pause };
        }
    }

    fn note_death(
        &self,
        worker: WorkerId,
        served: Duration,
        verdict: Verdict,
        orders: &mut Vec<Order>,
    ) -> Duration {
        let (Verdict::Again(pause) | Verdict::LoopBegins(pause)) = verdict;
        orders.push(Order::Note(Note::Died { worker, served, pause }));
        if matches!(verdict, Verdict::LoopBegins(_)) {
            orders.push(Order::Note(Note::LoopBegins { slot: self.number }));
        }
        pause
    }

    fn stop(&mut self, stop: Stop, now: Instant, orders: &mut Vec<Order>) {
        self.wanted = false;
        let (first, second) = self.workers();
        // A successor that does not serve yet is not needed any more.
        if let (Some(main), Some(successor)) = (first, second) {
            orders.push(Order::Quit(successor));
            self.depart(successor, now + QUIT_DEADLINE, orders);
            self.state = State::Leaving { worker: main, deadline: None };
        }
        let starting = matches!(self.state, State::Starting { .. });
        self.state = match first {
            None => State::Empty,
            Some(worker) => {
                let deadline = match stop {
                    Stop::Drain(drain) if !starting => {
                        orders.push(Order::Drain(worker, drain));
                        drain_deadline(drain, now)
                    }
                    Stop::Drain(_) | Stop::Now => {
                        orders.push(Order::Quit(worker));
                        Some(now + QUIT_DEADLINE)
                    }
                };
                State::Leaving { worker, deadline }
            }
        };
        if let (Stop::Now, Some(departing)) = (stop, &mut self.departing) {
            orders.push(Order::Quit(departing.worker));
            departing.kill_at = departing.kill_at.min(now + QUIT_DEADLINE);
        }
    }

    fn time(&mut self, now: Instant, orders: &mut Vec<Order>) {
        if let Some(departing) = &mut self.departing
            && departing.kill_at <= now
        {
            orders.push(Order::Kill(departing.worker, "it did not end by its deadline"));
            departing.kill_at = now + QUIT_DEADLINE;
        }
        match &mut self.state {
            State::Starting { worker, deadline, .. }
            | State::Succeeding { worker, deadline, .. }
            | State::Switching { worker, deadline, .. }
                if *deadline <= now =>
            {
                orders.push(Order::Kill(*worker, "it was not ready by its deadline"));
                *deadline = now + QUIT_DEADLINE;
            }
            State::Leaving { worker, deadline: Some(deadline) } if *deadline <= now => {
                orders.push(Order::Kill(*worker, "it did not end by its deadline"));
                *deadline = now + QUIT_DEADLINE;
            }
            State::Serving { since, .. } => {
                if self.history.served(now.duration_since(*since)) == Recovery::LoopEnded {
                    orders.push(Order::Note(Note::LoopEnded { slot: self.number }));
                }
            }
            State::Backoff { until } if *until <= now => self.start(now, orders),
            State::Empty
            | State::Starting { .. }
            | State::Succeeding { .. }
            | State::Switching { .. } => {}
            State::Draining { .. } | State::Backoff { .. } | State::Leaving { .. } => {}
        }
    }

    /// The earliest moment at which [`Input::Time`] would change something.
    pub(crate) fn due(&self) -> Option<Instant> {
        let own = match &self.state {
            State::Starting { deadline, .. }
            | State::Succeeding { deadline, .. }
            | State::Switching { deadline, .. } => Some(*deadline),
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
            State::Succeeding { old, worker, .. } | State::Switching { old, worker, .. } => {
                (Some(old), Some(worker))
            }
            State::Empty | State::Backoff { .. } => (None, None),
        }
    }
}

fn drain_deadline(drain: Drain, now: Instant) -> Option<Instant> {
    match drain {
        Drain::WhenClientsLeave => None,
        Drain::BetweenTransactions(time) => Some(now + time + DRAIN_GRACE),
    }
}
