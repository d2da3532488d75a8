//! `pgfleet show`: a SHOW command of the console.
//!
//! It owns nothing but the check that WHAT is one word, so that no other statement slips in; the running fleet
//! decides what there is to show. `commands` calls it.

use super::{console, remarks};
use crate::args::{Global, Show};
use crate::exit::Failure;
use crate::screen::Screen;

/// Shows what was asked for.
pub(super) fn run(show: &Show, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let what = show.what.as_str();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if what.is_empty() || !what.chars().all(is_word) {
        return Err(Failure::Usage(format!(
            "cannot show {what:?}; write one word, for example: pgfleet show pools"
        )));
    }
    let mut console = console(global)?;
    let answer = console.show_typed(what)?;
    if answer.table.columns.is_empty() {
        // SHOW HELP answers with a notice, which is what was asked for.
        let text = answer.notices.join("\n");
        return screen.text(&format!("{text}\n"));
    }
    remarks(&answer, screen);
    screen.table(&answer.table)
}
