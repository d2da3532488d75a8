//! The commands that hold back or let go databases of the running fleet.
//!
//! It owns their arguments and help texts and never acts on them. `args` lists them.

use clap::Args as Options;

/// A command about one database, or about all.
#[derive(Debug, Options)]
pub(crate) struct Scoped {
    /// The database; without it all of them
    #[arg(value_name = "DATABASE")]
    pub(crate) database: Option<String>,
}

/// A command about one database.
#[derive(Debug, Options)]
pub(crate) struct Named {
    /// The database
    #[arg(value_name = "DATABASE")]
    pub(crate) database: String,
}

pub(super) const PAUSE_HELP: &str = "\
Returns when no server connection is left: running transactions (in session mode: sessions) are waited for, new
ones wait until resume. If this command is interrupted, the fleet stays paused.

Examples:
  pgfleet pause && pgfleet reload && pgfleet resume     after a change of the database's host
  pgfleet pause app";

pub(super) const RESUME_HELP: &str = "\
Examples:
  pgfleet resume
  pgfleet resume app";

pub(super) const ENABLE_HELP: &str = "\
Examples:
  pgfleet enable app";

pub(super) const DISABLE_HELP: &str = "\
Clients that are there stay.

Examples:
  pgfleet disable app";

pub(super) const RECONNECT_HELP: &str = "\
Each server connection is closed when its client gives it back, and new ones are opened as they are needed.

Examples:
  pgfleet reconnect
  pgfleet reconnect app";

pub(super) const KILL_HELP: &str = "\
Clients and server connections are dropped at once. Then the database is paused until resume.

Examples:
  pgfleet kill app && pgfleet resume app";
