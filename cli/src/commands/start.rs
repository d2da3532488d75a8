//! `pgfleet start`: the daemon in the background, or in place of this command.
//!
//! It owns the checks before and the report after; the daemon itself checks everything again and binds. It never
//! leaves a daemon behind that does not serve. `commands` calls it.

use std::ffi::OsString;

use pgfleet_config::worker_count;

use crate::args::{Global, Start};
use crate::console::{Console, Error, named};
use crate::daemon;
use crate::exit::Failure;
use crate::fleet::Configuration;
use crate::render::{Outcome, counted};
use crate::screen::Screen;

/// Checks the configuration, and starts the fleet with it.
pub(super) fn run(start: &Start, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let configuration = Configuration::load(global)?;
    let (workers, _logged_by_the_daemon) =
        worker_count(&configuration.settings, start.workers).map_err(|problems| {
            Failure::Configuration { file: configuration.file.clone(), problems }
        })?;
    let program = daemon::executable()?;
    let mut arguments: Vec<OsString> = vec!["--config".into(), configuration.file.clone().into()];
    if let Some(workers) = start.workers {
        arguments.extend(["--workers".into(), workers.to_string().into()]);
    }
    refuse_a_second(&configuration)?;
    if start.foreground {
        if global.quiet {
            arguments.push("--quiet".into());
        }
        return Err(daemon::become_it(&program, &arguments));
    }
    // Its standard error is nobody's any more.
    arguments.push("--quiet".into());
    let progress = screen.progress(&format!("starting {workers} workers"));
    let started = daemon::start(&program, &arguments).and_then(daemon::Starting::wait);
    drop(progress);
    started?;
    report(&configuration, workers, screen)
}

/// Says that a fleet runs here already, with its pid.
fn refuse_a_second(configuration: &Configuration) -> Result<(), Failure> {
    let path = configuration.console();
    match Console::open(&path) {
        Ok(console) => {
            let pid = named(console.pid());
            Err(Failure::Refused(format!(
                "a fleet already runs here, pid {pid} ({}); see pgfleet status, or stop it with pgfleet stop",
                path.display()
            )))
        }
        // A socket that nobody listens on is left from before; whatever else is wrong, the daemon will say it.
        Err(
            Error::Absent { .. }
            | Error::Silent { .. }
            | Error::Lost(..)
            | Error::Refused(_)
            | Error::Misconfigured(_)
            | Error::Prepare(_),
        ) => Ok(()),
    }
}

fn report(configuration: &Configuration, workers: u16, screen: &Screen) -> Result<(), Failure> {
    let console = Console::open(&configuration.console())?;
    let pid = console.pid().map(nix::unistd::Pid::as_raw);
    let listening = configuration.listening();
    let global = &configuration.settings.global;
    if global.logfile.is_none() {
        screen.remark("note: no logfile is set, so nobody keeps the log of this fleet; set logfile and start again");
    }
    let log = global.logfile.as_ref().map(|path| path.display().to_string());
    let count = counted(workers.into(), "worker");
    let pid_text = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let sentence = format!("started{pid_text}: {count}, listening on {}", listening.join(" and "));
    screen.outcome(
        &Outcome::new(sentence)
            .with("state", "started")
            .with("pid", pid)
            .with("workers", workers)
            .with("listening", listening.join(" "))
            .with("log", log),
    )
}
