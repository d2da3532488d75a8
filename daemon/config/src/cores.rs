//! How many cores this process may use.
//! It only asks; it never changes an affinity.
//! The number of workers under `auto` and in percent comes from it.

use std::{num::NonZero, thread};

/// The cores that affinity and the CPU quota of the control group (v1 or v2) leave to this process; at least 1.
pub fn usable_cores() -> usize {
    // The standard library asks sched_getaffinity and walks up the control groups; a part of a core is rounded down.
    thread::available_parallelism().map_or(1, NonZero::get)
}
