//! `pgfleet reload`: the running fleet reads its configuration again.
//!
//! It owns the words about it and reads no file: the file that counts is the daemon's. `commands` calls it.

use super::{console, remarks};
use crate::args::Global;
use crate::exit::Failure;
use crate::render::Outcome;
use crate::screen::Screen;

/// Asks for the reload; returns when every worker has the new settings.
pub(super) fn run(global: &Global, screen: &Screen) -> Result<(), Failure> {
    let mut console = console(global)?;
    let progress = screen.progress("reloading");
    let answer = console.ask("RELOAD")?;
    drop(progress);
    remarks(&answer, screen);
    screen.outcome(&Outcome::new("the configuration was reloaded").with("state", "reloaded"))
}
