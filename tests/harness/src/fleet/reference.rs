//! PgBouncer in the place of the fleet, when `PGFLEET_REFERENCE` names its executable.
//! It never knows of workers: only the suites of what a pooler does for one client make sense with it.
//! Whoever writes a test of PgBouncer's texts can so hold it against PgBouncer itself.

use std::{env, path::Path, process::Command};

use super::setup::{Format, Setup};
use crate::account;

/// Keys that PgBouncer does not have.
const OUR_KEYS: [&str; 6] =
    ["workers", "runtime_dir", "limit_mode", "drain_timeout", "heartbeat_timeout", "cpu_affinity"];

/// Whether the suites run against PgBouncer.
pub(super) fn is_set() -> bool {
    env::var_os("PGFLEET_REFERENCE").is_some()
}

/// The same setup as PgBouncer takes it.
pub(super) fn fitting(setup: Setup) -> Setup {
    let setup = setup.format(Format::Ini);
    OUR_KEYS.iter().fold(setup, |setup, key| setup.unset(key))
}

/// Starts it as a daemon.
pub(super) fn command(config: &Path, dir: &Path) -> Command {
    let executable = env::var_os("PGFLEET_REFERENCE").unwrap_or_default();
    let mut command = Command::new(executable);
    account::unprivileged(&mut command).args(["-q", "-d"]).arg(config).current_dir(dir);
    command
}
