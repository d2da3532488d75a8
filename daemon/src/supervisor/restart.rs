//! When a slot whose worker died gets the next one.
//!
//! It owns the memory of one slot's deaths: the first successor comes at once, later ones after a
//! pause that doubles, and a slot that keeps dying is recognised as a crash loop. It never starts
//! anything and asks no clock; the slot calls it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The first pause; each further death in a row doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, and the pace at which a crash loop is retried.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Service of this length makes earlier deaths forgotten.
const GOOD_SERVICE: Duration = Duration::from_secs(60);
/// A death before this much service counts towards a crash loop, and this much service ends one.
const SHORT_SERVICE: Duration = Duration::from_secs(10);
/// So many short lives within [`LOOP_WINDOW`] are a crash loop.
const LOOP_DEATHS: usize = 5;
const LOOP_WINDOW: Duration = Duration::from_secs(60);

/// What is known of the deaths in one slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    streak: u32,
    short_lives: VecDeque<Instant>,
    looping: Option<Instant>,
    deaths: u64,
}

/// What a death means for the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Start the next worker after this pause.
    Again(Duration),
    /// The same, and this death made it a crash loop.
    LoopBegins(Duration),
}

impl History {
    /// A worker died after `served` (zero if it never served): when may the next one start?
    pub(crate) fn died(&mut self, now: Instant, served: Duration) -> Verdict {
        self.deaths += 1;
        if served >= GOOD_SERVICE {
            self.streak = 0;
            self.short_lives.clear();
        }
        if served >= SHORT_SERVICE {
            self.looping = None;
        } else {
            self.short_lives.push_back(now);
        }
        while self.short_lives.front().is_some_and(|at| now.duration_since(*at) > LOOP_WINDOW) {
            self.short_lives.pop_front();
        }
        let pause = self.pause();
        self.streak = self.streak.saturating_add(1);
        if self.looping.is_some() {
            return Verdict::Again(LONGEST_PAUSE);
        }
        if self.short_lives.len() >= LOOP_DEATHS {
            self.looping = Some(now);
            self.short_lives.clear();
            return Verdict::LoopBegins(LONGEST_PAUSE);
        }
        Verdict::Again(pause)
    }

    fn pause(&self) -> Duration {
        match self.streak {
            0 => Duration::ZERO,
            n => FIRST_PAUSE.saturating_mul(1 << (n - 1).min(10)).min(LONGEST_PAUSE),
        }
    }

    /// The worker has served for this long; whether that ended a crash loop.
    pub(crate) fn served(&mut self, served: Duration) -> Recovery {
        if self.looping.is_some() && served >= SHORT_SERVICE {
            self.looping = None;
            self.streak = 0;
            return Recovery::LoopEnded;
        }
        Recovery::Unchanged
    }

    /// When [`History::served`] must be asked about a worker that serves since `since`.
    pub(crate) fn recovers_at(&self, since: Instant) -> Option<Instant> {
        self.looping.map(|_| since + SHORT_SERVICE)
    }

    /// Whether the slot is in a crash loop.
    pub(crate) fn is_looping(&self) -> bool {
        self.looping.is_some()
    }

    /// How many workers died in this slot.
    pub(crate) fn deaths(&self) -> u64 {
        self.deaths
    }
}

/// What a stretch of service changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    Unchanged,
    LoopEnded,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_first_successor_comes_at_once_and_later_ones_wait_longer() {
        let mut history = History::default();
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            now += seconds(20);
            let Verdict::Again(pause) = history.died(now, seconds(11)) else { panic!("a loop") };
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000]);
    }

    #[test]
    fn good_service_is_a_fresh_start() {
        let mut history = History::default();
        let now = Instant::now();
        history.died(now, seconds(0));
        history.died(now + seconds(1), seconds(0));
        assert_eq!(history.died(now + seconds(90), seconds(61)), Verdict::Again(Duration::ZERO));
    }

    #[test]
    fn five_short_lives_in_a_minute_are_a_crash_loop_until_one_serves_ten_seconds() {
        let mut history = History::default();
        let mut now = Instant::now();
        for n in 1..=5 {
            now += seconds(2);
            let verdict = history.died(now, seconds(1));
            assert_eq!(verdict == Verdict::LoopBegins(LONGEST_PAUSE), n == 5);
        }
        assert!(history.is_looping());
        assert_eq!(history.died(now + seconds(10), seconds(0)), Verdict::Again(LONGEST_PAUSE));
        assert_eq!(history.served(seconds(9)), Recovery::Unchanged);
        assert_eq!(history.served(seconds(10)), Recovery::LoopEnded);
        assert!(!history.is_looping());
    }

    #[test]
    fn five_short_lives_spread_over_minutes_are_no_crash_loop() {
        let mut history = History::default();
        let now = Instant::now();
        for n in 0..20 {
            assert!(matches!(history.died(now + seconds(n * 16), seconds(5)), Verdict::Again(_)));
        }
    }
}
