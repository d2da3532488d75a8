//! Which changes a reload cannot make.
//! It compares and nothing else.
//! The supervisor calls it on a reload and says what waits for a new start.

use crate::{KEYS, Settings, key::Reload};

/// The keys that differ and take effect only at the next start, in the order of the table.
pub fn changed_needing_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    KEYS.iter()
        .filter(|key| key.reload == Reload::Restart)
        .filter(|key| old.global.show(key.name) != new.global.show(key.name))
        .map(|key| key.name)
        .collect()
}
