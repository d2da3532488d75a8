//! `pgfleet stop`: ends the running fleet, and waits for its end.
//!
//! It owns the waiting and never kills: the way in which clients are treated is the fleet's, and signals are the
//! operator's. `commands` calls it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{console, remarks};
use crate::args::{Global, Stop, StopMode};
use crate::console::{Console, Error};
use crate::daemon::Watched;
use crate::exit::Failure;
use crate::fleet;
use crate::render::{Outcome, counted};
use crate::screen::Screen;

const LOOK: Duration = Duration::from_millis(50);

/// How often the number of clients is asked for while one waits for them.
const ASK: Duration = Duration::from_secs(1);

/// Says so to the fleet, and waits until the supervisor is gone.
pub(super) fn run(stop: &Stop, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let statement = match stop.mode {
        StopMode::Smart => "SHUTDOWN WAIT_FOR_CLIENTS",
        StopMode::Fast => "SHUTDOWN WAIT_FOR_TRANSACTIONS",
        StopMode::Immediate => "SHUTDOWN",
    };
    let mut console = console(global)?;
    let pid = console.pid().ok_or_else(|| {
        Failure::Refused("cannot tell which process listens on the console; see private/pid in the runtime directory".to_owned())
    })?;
    let supervisor = Watched::new(pid);
    let begin = Instant::now();
    match console.ask_within(statement, stop.timeout) {
        Ok(answer) => remarks(&answer, screen),
        // It may be gone before it has answered, or be stuck: whether it ends is what counts.
        Err(Error::Lost(..) | Error::Silent { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    drop(console);
    wait(&supervisor, begin, stop, global, screen)?;
    screen.outcome(
        &Outcome::new(format!("stopped (pid {pid})"))
            .with("state", "stopped")
            .with("pid", pid.as_raw()),
    )
}

fn wait(
    supervisor: &Watched,
    begin: Instant,
    stop: &Stop,
    global: &Global,
    screen: &Screen,
) -> Result<(), Failure> {
    let progress = screen.progress(&format!("stopping (pid {})", supervisor.pid()));
    let mut asked = begin;
    while supervisor.is_alive() {
        if begin.elapsed() >= stop.timeout {
            drop(progress);
            return Err(Failure::Refused(late(supervisor, stop, global)));
        }
        if asked.elapsed() >= ASK {
            asked = Instant::now();
            progress.say(&format!("stopping: {}", left(global)));
        }
        sleep(LOOK);
    }
    Ok(())
}

/// What is said when the time is up.
fn late(supervisor: &Watched, stop: &Stop, global: &Global) -> String {
    format!(
        "still running after {:?}: pid {}, {}; wait longer with --timeout, or use --mode immediate",
        stop.timeout,
        supervisor.pid(),
        left(global)
    )
}

/// Who is still there, as far as the fleet says so.
fn left(global: &Global) -> String {
    let asked = fleet::console(global).and_then(|path| {
        let mut console = Console::open(&path)?;
        let workers = console.show("WORKERS")?.table;
        let clients: u64 = workers
            .rows
            .iter()
            .filter_map(|row| workers.value(row, "clients")?.parse::<u64>().ok())
            .sum();
        let processes = workers.rows.iter().map(|_| 1).sum();
        Ok(format!("{} with {}", counted(processes, "worker"), counted(clients, "client")))
    });
    asked.unwrap_or_else(|_| "its console is closed already".to_owned())
}
