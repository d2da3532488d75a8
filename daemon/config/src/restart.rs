//! Which changes a reload cannot make.
//! It compares and nothing else.
//! The supervisor calls it on a reload and says what waits for a new start.

use std::fmt;

use crate::{KEYS, Settings, key::Reload};

/// A key that the file has changed and that only a new start can change. Secrets show as stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The name of the key.
    pub key: &'static str,
    /// What is in force.
    pub old: String,
    /// What the next start will find.
    pub new: String,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, old, new } = self;
        write!(
            f,
            "{key} has changed from \"{old}\" to \"{new}\"; it takes effect when the fleet is started anew"
        )
    }
}

/// The keys that differ and take effect only at the next start, in the order of the table.
pub fn changed_needing_restart(old: &Settings, new: &Settings) -> Vec<Waiting> {
    let shown = |settings: &Settings, key| settings.global.show(key).unwrap_or_default();
    KEYS.iter()
        .filter(|key| key.reload == Reload::Restart)
        .map(|key| Waiting { key: key.name, old: shown(old, key.name), new: shown(new, key.name) })
        .filter(|waiting| waiting.old != waiting.new)
        .collect()
}
