//! Waiting for a state, with a deadline.
//! Nothing else here sleeps: a test that waits for time instead of a state is slow on good days and wrong on bad ones.
//! Suites and harness call it.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long a state may take to come, where the test does not say otherwise.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How often to look.
const STEP: Duration = Duration::from_millis(15);

/// Looks until there is something, and gives it back; fails the test with `what` after [`PATIENCE`].
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(PATIENCE, what, look)
}

/// Looks until there is something, for so long.
pub fn until_within<T>(patience: Duration, what: &str, look: impl FnMut() -> Option<T>) -> T {
    let found = before(Instant::now() + patience, look);
    found.unwrap_or_else(|| fail(&format!("waited {patience:?} in vain until {what}")))
}

/// Looks until the condition holds.
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}

/// Watches for a while that the condition keeps holding.
pub fn holds_for(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let broken = before(Instant::now() + time, || (!holds()).then_some(()));
    assert!(broken.is_none(), "for {time:?} it should have held that {what}");
}

/// Looks until there is something or the deadline has passed.
pub fn before<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(STEP);
    }
}

/// Lets time pass where time itself is what is tested: a timeout that must not have fired yet, a load that must last.
pub fn let_pass(time: Duration) {
    thread::sleep(time);
}

#[expect(clippy::panic, reason = "a failed wait fails the test")]
fn fail(text: &str) -> ! {
    panic!("{text}")
}
