//! The settings in the environment, `PGFLEET_<KEY>`.
//! Variables that are no key are left alone, for other tools use the prefix too; one that is nearly a key is noted.
//! `load` puts them above the file.

use std::{env, ffi::OsString};

use config::{Environment, Map};

use crate::{KEYS, nearest::nearest};

/// What every variable starts with.
const PREFIX: &str = "PGFLEET";

/// The variables of this process.
pub(crate) fn variables() -> Vec<(OsString, OsString)> {
    env::vars_os().collect()
}

/// The source for the keys among the variables, and notes on what looks like one.
pub(crate) fn source(variables: &[(OsString, OsString)]) -> (Environment, Vec<String>) {
    let (mut known, mut notes) = (Map::new(), Vec::new());
    for (variable, value) in variables {
        let variable = variable.to_string_lossy();
        let Some(name) = variable.strip_prefix(PREFIX).and_then(|name| name.strip_prefix('_'))
        else {
            continue;
        };
        let name = name.to_lowercase();
        if KEYS.iter().any(|key| key.name == name) {
            known.insert(variable.into_owned(), value.to_string_lossy().into_owned());
        } else if let Some(key) = nearest(&name, KEYS.iter().map(|key| key.name)) {
            notes.push(format!(
                "{variable}: no such key, ignored; did you mean {PREFIX}_{}?",
                key.to_uppercase()
            ));
        }
    }
    (Environment::with_prefix(PREFIX).source(Some(known)), notes)
}
