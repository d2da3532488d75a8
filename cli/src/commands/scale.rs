//! `pgfleet scale`: another number of workers.
//!
//! It owns the words about it; whether the number fits is for the running fleet to say, which knows its limits and
//! cores. `commands` calls it.

use pgfleet_config::Workers;

use super::status::Health;
use super::{console, remarks};
use crate::args::{Global, Scale};
use crate::exit::Failure;
use crate::render::Outcome;
use crate::screen::Screen;

/// Asks the fleet for this number of workers; returns when connections go to them.
pub(super) fn run(scale: &Scale, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let workers = scale.workers.as_str();
    // A number that is out of range is for the fleet to refuse, which knows the way out.
    let is_number = workers.parse::<i64>().is_ok();
    if let (false, Err(reason)) = (is_number, workers.parse::<Workers>()) {
        return Err(Failure::Usage(format!("cannot scale to {workers:?}: {reason}")));
    }
    let mut console = console(global)?;
    let progress = screen.progress(&format!("scaling to {workers} workers"));
    let answer = console.ask(&format!("SCALE {workers}"))?;
    drop(progress);
    remarks(&answer, screen);
    let health = Health::ask(&mut console)?;
    let mut sentence = format!("{} of {} workers serve", health.serving, health.wanted);
    if health.draining > 0 {
        sentence.push_str(&format!("; {} leave when their clients have", health.draining));
    }
    screen.outcome(
        &Outcome::new(sentence)
            .with("wanted", health.wanted)
            .with("serving", health.serving)
            .with("draining", health.draining),
    )
}
