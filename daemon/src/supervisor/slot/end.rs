//! How workers of a slot end: by death, by a stop, by a deadline.
//!
//! It owns the half of the slot's steps that lose a worker, and says what follows. It does no I/O and asks no
//! clock. Only the slot's `step` calls it.

use std::time::{Duration, Instant};

use super::state::{DRAIN_GRACE, QUIT_DEADLINE};
use super::{Cause, Note, Order, Slot, Stage, State, Stop};
use crate::link::message::{Drain, WorkerId};
use crate::supervisor::restart::{LONGEST_PAUSE, Recovery, Verdict};

impl Slot {
    pub(super) fn gone(
        &mut self,
        who: WorkerId,
        cause: Cause,
        now: Instant,
        orders: &mut Vec<Order>,
    ) {
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
            State::Replacing { old, since, worker, deadline, progress, stage } => {
                if who == worker {
                    if stage != Stage::Preparing {
                        orders.push(Order::Undrain(old));
                    }
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

    pub(super) fn stop(&mut self, stop: Stop, now: Instant, orders: &mut Vec<Order>) {
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

    pub(super) fn time(&mut self, now: Instant, orders: &mut Vec<Order>) {
        if let Some(departing) = &mut self.departing
            && departing.kill_at <= now
        {
            orders.push(Order::Kill(departing.worker, "it did not end by its deadline"));
            departing.kill_at = now + QUIT_DEADLINE;
        }
        match &mut self.state {
            State::Starting { worker, deadline, .. }
            | State::Replacing { worker, deadline, .. }
                if *deadline <= now =>
            {
                orders.push(Order::Kill(*worker, "it was not ready by its deadline"));
                *deadline = now + QUIT_DEADLINE;
            }
            State::Leaving { worker, deadline: Some(deadline) } if *deadline <= now => {
                orders.push(Order::Kill(*worker, "it did not end by its deadline"));
                *deadline = now + QUIT_DEADLINE;
            }
            State::Replacing { stage: stage @ Stage::Relieving { .. }, .. } => {
                if matches!(stage, Stage::Relieving { until } if *until <= now) {
                    *stage = Stage::Switching;
                }
            }
            State::Serving { since, .. } => {
                if self.history.served(now.duration_since(*since)) == Recovery::LoopEnded {
                    orders.push(Order::Note(Note::LoopEnded { slot: self.number }));
                }
            }
            State::Backoff { until } if *until <= now => self.start(now, orders),
            State::Empty | State::Starting { .. } | State::Replacing { .. } => {}
            State::Draining { .. } | State::Backoff { .. } | State::Leaving { .. } => {}
        }
    }
}

fn drain_deadline(drain: Drain, now: Instant) -> Option<Instant> {
    match drain {
        Drain::WhenClientsLeave | Drain::WhenServersLeave => None,
        Drain::BetweenTransactions(time) => Some(now + time + DRAIN_GRACE),
    }
}
