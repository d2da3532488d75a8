//! `pgfleet restart`: the workers are replaced one by one.
//!
//! It owns the progress on the terminal; the fleet does the work and goes on with it if nobody watches.
//! `commands` calls it.

use std::time::Duration;

use super::status::Health;
use super::{console, remarks};
use crate::args::Global;
use crate::exit::Failure;
use crate::render::{Outcome, Table};
use crate::screen::Screen;

const LOOK: Duration = Duration::from_millis(300);

/// Asks for the rolling restart; returns when the last worker has been replaced.
pub(super) fn run(global: &Global, screen: &Screen) -> Result<(), Failure> {
    let mut console = console(global)?;
    let watcher = console.second()?;
    let progress = screen.progress("restarting");
    let show = |workers: &Table| progress.say(&stage(workers));
    let answer = console.ask_watching("RESTART", &watcher, "SHOW WORKERS", LOOK, show)?;
    drop(progress);
    remarks(&answer, screen);
    let health = Health::ask(&mut console)?;
    let sentence =
        format!("all workers were replaced, {} of {} serve", health.serving, health.wanted);
    screen.outcome(
        &Outcome::new(sentence)
            .with("state", "restarted")
            .with("wanted", health.wanted)
            .with("serving", health.serving),
    )
}

/// Where the restart is: the workers that do not simply serve.
fn stage(workers: &Table) -> String {
    let busy = workers.rows.iter().filter_map(|row| {
        let state = workers.value(row, "state").filter(|state| *state != "serving")?;
        let worker = workers.value(row, "worker").or(workers.value(row, "slot")).unwrap_or("?");
        let clients = workers.value(row, "clients").unwrap_or("0");
        Some(format!("worker {worker} is {state} ({clients} clients)"))
    });
    let busy: Vec<String> = busy.collect();
    format!("restarting: {}", if busy.is_empty() { "...".to_owned() } else { busy.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Kind;

    #[test]
    fn the_progress_names_who_comes_and_goes() {
        let mut workers =
            Table::of(&[("worker", Kind::Text), ("state", Kind::Text), ("clients", Kind::Number)]);
        workers.push(["1.2".to_owned(), "serving".to_owned(), "9".to_owned()]);
        workers.push(["2.1".to_owned(), "leaving".to_owned(), "3".to_owned()]);
        assert_eq!(stage(&workers), "restarting: worker 2.1 is leaving (3 clients)");
        assert_eq!(stage(&Table::default()), "restarting: ...");
    }
}
