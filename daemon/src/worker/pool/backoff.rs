//! When a pool may try to connect again after it could not.
//!
//! A refused login waits for `server_login_retry`, as in PgBouncer. A failed connect is cheap for
//! Postgres, so it is tried again sooner, with growing pauses, one connect at a time: clients are
//! served soon after Postgres is back, and not all at once.

use std::time::{Duration, Instant};

/// The first pause after a failed connect; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(200);

/// The longest pause after a failed connect.
const LONGEST: Duration = Duration::from_secs(1);

/// No pause is shorter.
const LEAST: Duration = Duration::from_millis(10);

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Connect,
    Login,
}

/// The memory of one pool's failures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    until: Option<Instant>,
    pause: Duration,
    reason: Option<String>,
}

impl Backoff {
    /// A connect or login failed for `reason`.
    pub(crate) fn fail(&mut self, failed: Failed, reason: String, retry: Duration, now: Instant) {
        self.pause = match failed {
            Failed::Login => retry,
            Failed::Connect => (self.pause * 2).clamp(FIRST, LONGEST).min(retry),
        };
        // Also with a retry of 0 it is not tried again in the same turn.
        self.pause = self.pause.max(LEAST);
        self.until = Some(now + self.pause);
        self.reason = Some(reason);
    }

    /// A login succeeded.
    pub(crate) fn succeed(&mut self) {
        *self = Self::default();
    }

    /// Whether a connect may be tried now.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// Why the last try failed, if none has succeeded since.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// How many connects may be under way at once: one as long as it is not known to work.
    pub(crate) fn at_once(&self) -> usize {
        if self.reason.is_some() { 1 } else { 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_secs(15);

    #[test]
    fn a_refused_login_waits_for_server_login_retry() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.may_try(now));
        backoff.fail(Failed::Login, "no".into(), RETRY, now);
        assert!(!backoff.may_try(now + Duration::from_secs(14)));
        assert!(backoff.may_try(now + RETRY));
    }

    #[test]
    fn failed_connects_are_tried_again_within_a_second_one_at_a_time() {
        let mut now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.at_once(), 4);
        for _ in 0..10 {
            backoff.fail(Failed::Connect, "refused".into(), RETRY, now);
            assert!(!backoff.may_try(now));
            now += LONGEST;
            assert!(backoff.may_try(now));
            assert_eq!(backoff.at_once(), 1);
        }
        backoff.succeed();
        assert_eq!(backoff.reason(), None);
        assert_eq!(backoff.at_once(), 4);
    }

    #[test]
    fn a_retry_of_zero_still_pauses() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.fail(Failed::Connect, "refused".into(), Duration::ZERO, now);
        assert!(!backoff.may_try(now));
        assert!(backoff.may_try(now + LEAST));
    }

    #[test]
    fn a_short_server_login_retry_is_kept() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        backoff.fail(Failed::Connect, "refused".into(), Duration::from_millis(50), now);
        assert!(backoff.may_try(now + Duration::from_millis(50)));
    }
}
