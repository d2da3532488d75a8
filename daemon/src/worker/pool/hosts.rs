//! Which host of a list gets the next connection of a pool.
//!
//! A host that could not be connected to is passed over for `server_login_retry` as long as another
//! one is left; when all have failed, they are tried in turn. It opens nothing and knows no address.

use std::time::{Duration, Instant};

use pgfleet_config::LoadBalance;

/// No host is passed over for less: one that has just failed is not the next one.
const LEAST: Duration = Duration::from_millis(10);

/// The memory of one pool's list of hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    turn: usize,
    /// Until when each is passed over.
    down: Vec<Option<Instant>>,
}

impl Hosts {
    /// The place of the host for the next connection, in a list of `count`.
    pub(crate) fn choose(&mut self, count: usize, balance: LoadBalance, now: Instant) -> usize {
        let count = count.max(1);
        let first = self.turn % count;
        let places = (0..count).map(|step| (first + step) % count);
        let place = places.into_iter().find(|&place| !self.is_down(place, now)).unwrap_or(first);
        self.turn = match balance {
            LoadBalance::RoundRobin => place + 1,
            LoadBalance::Disable => place,
        };
        place
    }

    /// A connection to this one failed. Returns whether another host of the list may be better.
    pub(crate) fn failed(
        &mut self,
        place: usize,
        count: usize,
        retry: Duration,
        now: Instant,
    ) -> bool {
        self.down.resize(count.max(place + 1), None);
        if let Some(down) = self.down.get_mut(place) {
            *down = Some(now + retry.max(LEAST));
        }
        if self.turn % count.max(1) == place {
            self.turn = place + 1;
        }
        (0..count).any(|place| !self.is_down(place, now))
    }

    /// A login at this one succeeded.
    pub(crate) fn succeeded(&mut self, place: usize) {
        if let Some(down) = self.down.get_mut(place) {
            *down = None;
        }
    }

    fn is_down(&self, place: usize, now: Instant) -> bool {
        self.down.get(place).copied().flatten().is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_secs(15);

    fn chosen(hosts: &mut Hosts, balance: LoadBalance, now: Instant) -> Vec<usize> {
        (0..6).map(|_| hosts.choose(3, balance, now)).collect()
    }

    #[test]
    fn round_robin_takes_each_in_turn() {
        let mut hosts = Hosts::default();
        assert_eq!(chosen(&mut hosts, LoadBalance::RoundRobin, Instant::now()), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn disable_stays_until_a_connect_fails() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        assert_eq!(chosen(&mut hosts, LoadBalance::Disable, now), [0; 6]);
        assert!(hosts.failed(0, 3, RETRY, now));
        assert_eq!(chosen(&mut hosts, LoadBalance::Disable, now), [1; 6]);
        // It does not go back when the first one could be tried again.
        assert_eq!(chosen(&mut hosts, LoadBalance::Disable, now + RETRY), [1; 6]);
    }

    #[test]
    fn a_failed_host_is_passed_over_until_it_may_be_tried_again() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        assert!(hosts.failed(1, 3, RETRY, now));
        assert_eq!(chosen(&mut hosts, LoadBalance::RoundRobin, now), [0, 2, 0, 2, 0, 2]);
        assert_eq!(chosen(&mut hosts, LoadBalance::RoundRobin, now + RETRY), [0, 1, 2, 0, 1, 2]);
        hosts.failed(2, 3, RETRY, now + RETRY);
        hosts.succeeded(2);
        assert_eq!(chosen(&mut hosts, LoadBalance::RoundRobin, now + RETRY), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn when_all_have_failed_each_is_tried_in_turn() {
        let (mut hosts, now) = (Hosts::default(), Instant::now());
        assert!(hosts.failed(0, 2, RETRY, now));
        assert!(!hosts.failed(1, 2, RETRY, now));
        let mut tried = Vec::new();
        for _ in 0..4 {
            let place = hosts.choose(2, LoadBalance::Disable, now);
            assert!(!hosts.failed(place, 2, Duration::ZERO, now));
            tried.push(place);
        }
        assert_eq!(tried, [0, 1, 0, 1]);
    }
}
