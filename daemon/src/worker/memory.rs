//! Returning memory after a crowd has left.
//!
//! Tables grow with their entries and keep what they have; the sweep asks here whether that is far too
//! much. It owns nothing.

use super::state::Worker;

/// Tables up to here are left alone.
const SMALL: usize = 1024;

/// Whether a table of this capacity has far more room than its entries need.
pub(crate) fn is_oversized(capacity: usize, entries: usize) -> bool {
    capacity > SMALL && capacity / 4 > entries
}

impl Worker {
    /// Called by the sweep. What is at the end of a table can be returned, entries do not move.
    pub(crate) fn release_memory(&mut self) {
        if is_oversized(self.clients.capacity(), self.clients.len()) {
            self.clients.shrink_to_fit();
            self.keys.shrink_to_fit();
        }
        if is_oversized(self.servers.capacity(), self.servers.len()) {
            self.servers.shrink_to_fit();
        }
        self.pools.release_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_room_for_some_growth() {
        assert!(!is_oversized(1024, 0));
        assert!(is_oversized(1025, 0));
        assert!(!is_oversized(40_000, 10_000));
        assert!(is_oversized(40_000, 9_999));
    }
}
