//! Which worker accepts from which listeners.
//!
//! A seat is one listening socket of each TCP address, or the Unix socket that all workers share; this
//! owns who holds which, and computes the moves when workers come and go. It knows no descriptors and
//! never closes a seat. The fleet calls it after each event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::link::message::WorkerId;

/// A dead worker's seat is lent to a peer when its successor takes longer than this.
pub(crate) const COVER_AFTER: Duration = Duration::from_millis(200);

/// Something to accept from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Seat {
    /// The Unix socket; every worker holds it.
    Unix,
    /// The n-th socket, counted from 0, of each TCP address. Its home is slot n + 1.
    Tcp(u16),
}

/// A worker that may hold seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) worker: WorkerId,
    pub(crate) service: Service,
}

/// How far a holder can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Serving,
    /// It has its share and will say `Ready` in a moment.
    Coming,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Give(Seat, WorkerId),
    Take(Seat, WorkerId),
}

/// Who holds what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seats {
    held: BTreeMap<Seat, BTreeSet<WorkerId>>,
    uncovered: BTreeMap<Seat, Instant>,
}

impl Seats {
    /// Makes sure that there are `count` TCP seats. Seats are never removed.
    pub(crate) fn grow(&mut self, count: u16) {
        self.held.entry(Seat::Unix).or_default();
        for number in 0..count {
            self.held.entry(Seat::Tcp(number)).or_default();
        }
    }

    /// A worker is gone, and its copies with it.
    pub(crate) fn gone(&mut self, worker: WorkerId) {
        for holders in self.held.values_mut() {
            holders.remove(&worker);
        }
    }

    /// The TCP seats that a worker holds.
    pub(crate) fn held_by(&self, worker: WorkerId) -> usize {
        let tcp = self.held.iter().filter(|(seat, _)| **seat != Seat::Unix);
        tcp.filter(|(_, holders)| holders.contains(&worker)).count()
    }

    /// Brings every seat to the holders that it should have now, given that slots 1 to `wanted` are
    /// the ones to serve. What is given stands before what is taken. The seats of `relieved` slots
    /// are lent at once when they have no holder.
    pub(crate) fn settle(
        &mut self,
        wanted: u16,
        holders: &[Holder],
        relieved: &[u16],
        now: Instant,
    ) -> Vec<Move> {
        let seats: Vec<Seat> = self.held.keys().copied().collect();
        let (mut given, mut taken) = (Vec::new(), Vec::new());
        for seat in seats {
            let desired = match seat {
                Seat::Unix => holders.iter().map(|holder| holder.worker).collect(),
                Seat::Tcp(number) => {
                    let home = home(number, wanted);
                    let patience =
                        if relieved.contains(&home) { Duration::ZERO } else { COVER_AFTER };
                    self.desired(seat, home, holders, patience, now)
                }
            };
            let held = self.held.entry(seat).or_default();
            given.extend(desired.difference(held).map(|worker| Move::Give(seat, *worker)));
            taken.extend(held.difference(&desired).map(|worker| Move::Take(seat, *worker)));
            *held = desired;
        }
        given.extend(taken);
        given
    }

    fn desired(
        &mut self,
        seat: Seat,
        home: u16,
        holders: &[Holder],
        patience: Duration,
        now: Instant,
    ) -> BTreeSet<WorkerId> {
        let own = holders.iter().find(|holder| holder.worker.slot == home);
        let mut desired: BTreeSet<WorkerId> = own.map(|holder| holder.worker).into_iter().collect();
        if own.is_some_and(|holder| holder.service == Service::Serving) {
            self.uncovered.remove(&seat);
            return desired;
        }
        let serving = || holders.iter().filter(|holder| holder.service == Service::Serving);
        let held = self.held.get(&seat);
        let keeper =
            serving().find(|holder| held.is_some_and(|held| held.contains(&holder.worker)));
        if let Some(keeper) = keeper {
            desired.insert(keeper.worker);
            self.uncovered.remove(&seat);
            return desired;
        }
        let since = *self.uncovered.entry(seat).or_insert(now);
        if now.duration_since(since) >= patience
            && let Some(cover) = serving().min_by_key(|holder| self.held_by(holder.worker))
        {
            self.uncovered.remove(&seat);
            desired.insert(cover.worker);
        }
        desired
    }

    /// When a seat without anyone to accept from it must be lent, if someone could take it.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.uncovered.values().min().map(|since| *since + COVER_AFTER)
    }

    /// The seats that none of `serving` holds.
    #[cfg(test)]
    pub(crate) fn unheld(&self, serving: &BTreeSet<WorkerId>) -> Vec<Seat> {
        self.held
            .iter()
            .filter(|(_, held)| held.is_disjoint(serving))
            .map(|(seat, _)| *seat)
            .collect()
    }
}

/// The slot that a TCP seat belongs to; seats above the wanted slots go round evenly.
fn home(number: u16, wanted: u16) -> u16 {
    if number < wanted { number + 1 } else { (number - wanted) % wanted.max(1) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(slot: u16, generation: u32) -> WorkerId {
        WorkerId { slot, generation }
    }

    fn serving(slot: u16) -> Holder {
        Holder { worker: worker(slot, 1), service: Service::Serving }
    }

    #[test]
    fn each_slot_has_its_own_seat_and_all_share_the_unix_one() {
        let mut seats = Seats::default();
        seats.grow(2);
        let moves = seats.settle(2, &[serving(1), serving(2)], &[], Instant::now());
        assert_eq!(
            moves,
            [
                Move::Give(Seat::Unix, worker(1, 1)),
                Move::Give(Seat::Unix, worker(2, 1)),
                Move::Give(Seat::Tcp(0), worker(1, 1)),
                Move::Give(Seat::Tcp(1), worker(2, 1)),
            ]
        );
    }

    #[test]
    fn seats_of_removed_slots_go_evenly_to_survivors_before_they_are_taken() {
        let mut seats = Seats::default();
        seats.grow(8);
        let all: Vec<Holder> = (1..=8).map(serving).collect();
        seats.settle(8, &all, &[], Instant::now());
        let moves = seats.settle(3, &all[..3], &[], Instant::now());
        let first_take = moves.iter().position(|change| matches!(change, Move::Take(..)));
        let last_give = moves.iter().rposition(|change| matches!(change, Move::Give(..)));
        assert!(last_give < first_take);
        let counts: Vec<usize> = (1..=3).map(|slot| seats.held_by(worker(slot, 1))).collect();
        assert_eq!(counts, [3, 3, 2]);
    }

    #[test]
    fn a_relieved_slots_seat_is_lent_at_once() {
        let mut seats = Seats::default();
        seats.grow(2);
        let now = Instant::now();
        seats.settle(2, &[serving(1), serving(2)], &[], now);
        let moves = seats.settle(2, &[serving(1)], &[2], now);
        assert_eq!(moves.first(), Some(&Move::Give(Seat::Tcp(1), worker(1, 1))));
    }

    #[test]
    fn a_dead_workers_seat_is_lent_after_a_while_and_given_back_to_the_successor() {
        let mut seats = Seats::default();
        seats.grow(2);
        let start = Instant::now();
        seats.settle(2, &[serving(1), serving(2)], &[], start);
        seats.gone(worker(2, 1));
        assert_eq!(seats.settle(2, &[serving(1)], &[], start), []);
        assert_eq!(seats.due(), Some(start + COVER_AFTER));
        let later = start + COVER_AFTER;
        assert_eq!(
            seats.settle(2, &[serving(1)], &[], later),
            [Move::Give(Seat::Tcp(1), worker(1, 1))]
        );
        let successor = worker(2, 2);
        let coming = Holder { worker: successor, service: Service::Coming };
        let given = seats.settle(2, &[serving(1), coming], &[], later);
        assert_eq!(given, [Move::Give(Seat::Unix, successor), Move::Give(Seat::Tcp(1), successor)]);
        let ready = Holder { worker: successor, service: Service::Serving };
        assert_eq!(
            seats.settle(2, &[serving(1), ready], &[], later),
            [Move::Take(Seat::Tcp(1), worker(1, 1))]
        );
    }
}
