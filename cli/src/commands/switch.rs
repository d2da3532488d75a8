//! `pgfleet pause`, `resume`, `enable`, `disable`, `reconnect` and `kill`: what clients of a database may do.
//!
//! It owns the words about it; what can be switched is for the running fleet to say. `commands` calls it.

use super::{console, remarks};
use crate::args::Global;
use crate::exit::Failure;
use crate::render::Outcome;
use crate::screen::Screen;

/// One of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    Pause,
    Resume,
    Enable,
    Disable,
    Reconnect,
    Kill,
}

impl Switch {
    fn statement(self) -> &'static str {
        match self {
            Self::Pause => "PAUSE",
            Self::Resume => "RESUME",
            Self::Enable => "ENABLE",
            Self::Disable => "DISABLE",
            Self::Reconnect => "RECONNECT",
            Self::Kill => "KILL",
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Pause => "pausing, waiting for transactions to end",
            Self::Resume => "resuming",
            Self::Enable => "enabling",
            Self::Disable => "disabling",
            Self::Reconnect => "reconnecting",
            Self::Kill => "killing",
        }
    }

    /// What is then true of the database, or of all.
    fn done(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Enable => "enabled",
            Self::Disable => "disabled",
            Self::Reconnect => "getting new server connections",
            Self::Kill => "killed, and paused until resume",
        }
    }
}

/// Says so to the fleet; returns when all workers have done it.
pub(super) fn run(
    switch: Switch,
    database: Option<&str>,
    global: &Global,
    screen: &Screen,
) -> Result<(), Failure> {
    let statement = match database {
        Some(name) => format!("{} {}", switch.statement(), quoted(name)),
        None => switch.statement().to_owned(),
    };
    let mut console = console(global)?;
    let progress = screen.progress(switch.doing());
    let answer = console.ask(&statement)?;
    drop(progress);
    remarks(&answer, screen);
    let whom =
        database.map_or_else(|| "all databases".to_owned(), |name| format!("database {name}"));
    let verb = if database.is_some() { "is" } else { "are" };
    screen.outcome(
        &Outcome::new(format!("{whom} {verb} {}", switch.done()))
            .with("command", switch.statement().to_ascii_lowercase())
            .with("database", database),
    )
}

/// A name as the console reads it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_whatever_is_in_it() {
        assert_eq!(quoted("app"), "\"app\"");
        assert_eq!(quoted("a \"b\"; c"), "\"a \"\"b\"\"; c\"");
    }
}
