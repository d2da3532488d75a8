//! The command line: every command, option and help text.
//!
//! It owns the words that operators type and never acts on them. `main` parses with it, and the completions come from it.

pub(crate) mod switch;
pub(crate) mod values;

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Options, Parser, Subcommand, ValueEnum};
use pgfleet_config::Workers;

use switch::{
    DISABLE_HELP, ENABLE_HELP, KILL_HELP, Named, PAUSE_HELP, RECONNECT_HELP, RESUME_HELP, Scoped,
};
use values::{Database, Listen, duration, seconds};

/// A Postgres connection pooler that uses every core and behaves like one pooler
#[derive(Debug, Parser)]
#[command(name = "pgfleet", version, max_term_width = 100, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  pgfleet demo                                     see it work, on a throwaway Postgres
  pgfleet init --database 'app=host=10.0.0.5'      write ./pgfleet.toml and ./userlist.txt
  pgfleet start                                    start the fleet; returns when it serves
  pgfleet status                                   is all well?
  pgfleet show pools --format json                 any SHOW command of the console

Without --config the configuration is ./pgfleet.toml, else pgfleet/pgfleet.toml in the user's
configuration directory, else /etc/pgfleet/pgfleet.toml.

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 daemon not reachable, 78 configuration.";

/// Options of every command.
#[derive(Debug, Options)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The configuration: TOML, or a pgbouncer.ini as it is
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "PGFLEET_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,
    /// The form of results
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = Format::Table, hide_possible_values = true, help = "The form of results: table, json or csv")]
    pub(crate) format: Format,
    /// Say nothing but errors, tables and what is asked for as JSON or CSV
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Use no colour, as with the environment variable NO_COLOR
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

/// The form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// Objects.
    Json,
    /// A header line and rows.
    Csv,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a commented configuration that starts as it is
    #[command(after_help = INIT_HELP)]
    Init(Init),
    /// Start the fleet, and return when it serves
    #[command(after_help = START_HELP)]
    Start(Start),
    /// Stop the fleet
    #[command(after_help = STOP_HELP)]
    Stop(Stop),
    /// Say whether all is well
    #[command(after_help = STATUS_HELP)]
    Status,
    /// Run a SHOW command of the console
    #[command(after_help = SHOW_HELP)]
    Show(Show),
    /// Change the number of workers of the running fleet
    #[command(after_help = SCALE_HELP)]
    Scale(Scale),
    /// Make the running fleet read its configuration again
    #[command(after_help = RELOAD_HELP)]
    Reload,
    /// Replace the workers one by one, without refusing anyone
    #[command(after_help = RESTART_HELP)]
    Restart,
    /// Hold clients back, and close server connections as they become free
    #[command(after_help = PAUSE_HELP)]
    Pause(Scoped),
    /// Let clients go on after pause or kill
    #[command(after_help = RESUME_HELP)]
    Resume(Scoped),
    /// Take new clients of a database again
    #[command(after_help = ENABLE_HELP)]
    Enable(Named),
    /// Take no new clients of a database
    #[command(after_help = DISABLE_HELP)]
    Disable(Named),
    /// Replace server connections by new ones
    #[command(after_help = RECONNECT_HELP)]
    Reconnect(Scoped),
    /// Drop clients and server connections
    #[command(after_help = KILL_HELP)]
    Kill(Scoped),
    /// Check or show the configuration
    #[command(subcommand, arg_required_else_help = true)]
    Config(Config),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(Completions),
    /// Show it all on a throwaway Postgres, and leave nothing behind
    #[command(after_help = DEMO_HELP)]
    Demo(Demo),
    /// Leave the terminal's session and become this program
    #[command(hide = true)]
    Detach(Detach),
}

/// `pgfleet init`.
#[derive(Debug, Options)]
pub(crate) struct Init {
    /// A database for clients, and where it is; may be given several times
    #[arg(long, value_name = "NAME=CONNINFO")]
    pub(crate) database: Vec<Database>,
    /// Where to listen for clients
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6432")]
    pub(crate) listen: Listen,
    /// Number of workers: auto, a number, or a share of the cores (50%)
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub(crate) workers: Workers,
    /// Replace a configuration that is there; a userlist.txt is always kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Write the settings of this pgbouncer.ini instead, and say what changes
    #[arg(long, value_name = "INI", conflicts_with_all = ["database", "listen", "workers"])]
    pub(crate) from: Option<PathBuf>,
    /// Over so many processes the limits of the ini were divided: multiply them back
    #[arg(long, value_name = "N", requires = "from", default_value = "1")]
    pub(crate) from_processes: NonZeroU16,
    /// Where to write it, instead of ./pgfleet.toml or what --config says
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const INIT_HELP: &str = "\
The file is ./pgfleet.toml, or what --config says. Beside it comes userlist.txt with an admin user and a
random password. Only their owner can read them.

Examples:
  pgfleet init
  pgfleet init --database 'app=host=10.0.0.5 port=5432 pool_size=50' --listen 0.0.0.0:6432
  pgfleet init --database '*=host=/var/run/postgresql' --workers 4
  pgfleet init --from /etc/pgbouncer/pgbouncer.ini --output /etc/pgfleet/pgfleet.toml
  pgfleet init --from 1.ini --from-processes 4     one of four, whose limits are a quarter of the whole";

/// `pgfleet start`.
#[derive(Debug, Options)]
pub(crate) struct Start {
    /// Become the daemon instead of leaving it in the background
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Number of workers, whatever the configuration says: auto, a number, or a share of the cores (50%)
    #[arg(long, value_name = "N|auto")]
    pub(crate) workers: Option<Workers>,
}

const START_HELP: &str = "\
The configuration is checked first. The command returns when every worker serves, or says why not.
With --foreground, pid, signals and exit status are the daemon's own: for systemd and containers.

Examples:
  pgfleet start
  pgfleet start --config /etc/pgbouncer/pgbouncer.ini --workers 8
  exec pgfleet start --foreground";

/// `pgfleet stop`.
#[derive(Debug, Options)]
pub(crate) struct Stop {
    /// How clients are treated: smart, fast or immediate
    #[arg(long, value_enum, default_value_t = StopMode::Fast, hide_possible_values = true)]
    pub(crate) mode: StopMode,
    /// How long to wait for the end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// How clients are treated at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopMode {
    /// Wait until they leave.
    Smart,
    /// Wait for the end of their transactions.
    Fast,
    /// Wait for nothing.
    Immediate,
}

const STOP_HELP: &str = "\
Modes:
  smart      accept no one, and wait until the clients leave by themselves
  fast       accept no one, and let each client go at the end of its transaction
  immediate  wait for nothing

When the time is up, the command says what still runs and ends with 1; the fleet goes on stopping.

Examples:
  pgfleet stop
  pgfleet stop --mode smart --timeout 10min";

const STATUS_HELP: &str = "\
Ends with 0 if every wanted worker serves, with 1 if not, and with 3 if no fleet runs.

Examples:
  pgfleet status
  pgfleet status --format json";

/// `pgfleet show`.
#[derive(Debug, Options)]
pub(crate) struct Show {
    /// What to show, in any case: pools, clients, servers, stats, workers, fleet, ...
    #[arg(value_name = "WHAT", default_value = "help", hide_default_value = true)]
    pub(crate) what: String,
}

const SHOW_HELP: &str = "\
WHAT is one of version, fleet, workers, databases, pools, clients, servers, sockets, active_sockets, fds,
stats, stats_totals, stats_averages, totals, lists, config, users, mem, state, dns_hosts, dns_zones, peers,
peer_pools; help says what the running fleet offers.
The columns are PgBouncer's, then pgfleet's own. The numbers are those of the whole fleet.

Examples:
  pgfleet show pools
  pgfleet show clients --format csv
  pgfleet show stats_totals --format json";

/// `pgfleet scale`.
#[derive(Debug, Options)]
pub(crate) struct Scale {
    /// Number of workers: auto, a number, or a share of the cores (50%)
    #[arg(value_name = "N|auto")]
    pub(crate) workers: String,
}

const SCALE_HELP: &str = "\
No client is dropped: new workers take their part of the connections that come, and a worker that goes
away serves its clients until they leave. The number holds until the file's workers changes.

Examples:
  pgfleet scale 8
  pgfleet scale auto";

const RELOAD_HELP: &str = "\
A configuration with problems changes nothing; all of them are said.

Examples:
  pgfleet config check && pgfleet reload";

const RESTART_HELP: &str = "\
Each worker's successor serves before the worker goes. A client of the old worker is let go between two
transactions, never inside one; what is left after drain_timeout is closed. If this command is interrupted,
the restart goes on. To start a new pgfleetd after an upgrade, stop and start.

Examples:
  pgfleet restart
  pgfleet restart --quiet && pgfleet status";

/// `pgfleet config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check the configuration and say all problems
    #[command(
        after_help = "Examples:\n  pgfleet config check\n  pgfleet config check --config /etc/pgbouncer/pgbouncer.ini"
    )]
    Check,
    /// Show every setting as it is after file and environment
    #[command(
        after_help = "Passwords are not shown.\n\nExamples:\n  pgfleet config show\n  pgfleet config show --format json"
    )]
    Show,
}

/// `pgfleet completions`.
#[derive(Debug, Options)]
pub(crate) struct Completions {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// A shell that completions can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// GNU bash.
    Bash,
    /// Zsh.
    Zsh,
    /// Fish.
    Fish,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  pgfleet completions bash > ~/.local/share/bash-completion/completions/pgfleet
  pgfleet completions fish > ~/.config/fish/completions/pgfleet.fish";

/// `pgfleet demo`.
#[derive(Debug, Options)]
pub(crate) struct Demo {
    /// How long the load lasts
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) seconds: u32,
    /// Number of workers to begin with: auto, or a number
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub(crate) workers: Workers,
    /// The directory made for it by the command that dropped its privileges
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) stage: Option<PathBuf>,
}

const DEMO_HELP: &str = "\
Starts a Postgres of its own in a temporary directory, a fleet in front of it, and runs pgbench. It uses free
ports of the loopback interface, touches no other Postgres, and removes everything at the end, also when it is
interrupted. It needs the server programs of PostgreSQL; as root it works as the user postgres or nobody.

Examples:
  pgfleet demo
  pgfleet demo --seconds 30 --workers 2";

/// The hidden step between `start` and the daemon.
#[derive(Debug, Options)]
pub(crate) struct Detach {
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<std::ffi::OsString>,
}

#[cfg(test)]
mod tests;
