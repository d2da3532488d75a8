//! The supervisor: the one parent process of a fleet.
//!
//! It reads the configuration, opens the listeners, keeps every slot filled with a worker and answers the
//! console. It reads nothing of database clients but the console statements of those whom a worker has
//! authenticated, and never blocks on a worker. `main` calls [`run`].
//!
//! Where to read on: `fleet` decides, `office` is the loop, `act` carries out, `shares` divides the limits.

mod act;
mod action;
mod command;
mod console;
mod credentials;
mod desk;
mod event;
mod fleet;
mod gather;
mod hear;
mod input;
mod listeners;
mod lock;
mod notify;
mod office;
mod privileges;
mod ready;
mod reload;
mod requests;
mod restart;
mod retire;
mod runtime_dir;
mod seats;
mod shares;
mod show;
mod signals;
#[cfg(test)]
mod simulation;
mod slot;
mod spawn;
mod start;
mod statement;
mod switchboard;
mod totals;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

/// How the supervisor is started.
#[derive(Debug)]
pub(crate) struct Start {
    /// The configuration; without it the usual places are looked at.
    pub(crate) config: Option<PathBuf>,
    /// The number of workers, as on the command line.
    pub(crate) workers: Option<String>,
    /// Where to say how the start went.
    pub(crate) ready_fd: Option<i32>,
    /// Do not log to standard error.
    pub(crate) quiet: bool,
}

/// Runs the supervisor to its end: 0 done, 1 failed, 78 configuration.
pub(crate) fn run(start: Start) -> ExitCode {
    start::run(start)
}
