//! The exact part of a fleet-wide limit that one worker has.
//! It knows nothing of what the limit is for, and never rounds: the parts of all workers add up to the whole.
//! Every worker calls it for its own limits, and the console to explain them.

use serde::{Deserialize, Serialize};

/// Which part of the whole: the worker `index` (from 0) of `of` workers.
#[derive(Serialize, Deserialize, Copy, Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The place of this worker, from 0.
    pub index: u16,
    /// The number of workers.
    pub of: u16,
}

impl Share {
    /// The part of `limit`; the remainder goes to the first workers. No limit (0) stays no limit.
    pub fn part(self, limit: u32) -> u32 {
        let of = u32::from(self.of.max(1));
        limit / of + u32::from(u32::from(self.index) < limit % of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_add_up_and_differ_by_at_most_one(limit: u32, of in 1..=2048_u16) {
            let parts: Vec<u32> = (0..of).map(|index| Share { index, of }.part(limit)).collect();
            prop_assert_eq!(parts.iter().map(|part| u64::from(*part)).sum::<u64>(), u64::from(limit));
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            prop_assert!(most - least <= 1);
            prop_assert!(parts.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn no_workers_do_not_divide_by_zero() {
        assert_eq!(Share { index: 0, of: 0 }.part(7), 7);
    }
}
