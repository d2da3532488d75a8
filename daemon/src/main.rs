//! `pgfleetd`: the supervisor and the workers of a fleet, in one executable.
//!
//! Without a subcommand it is the supervisor; `pgfleetd worker` is what the supervisor starts
//! for each slot, with the link as its standard input. Operators use `pgfleet`, which starts this.

mod console;
mod ledger;
mod link;
mod log_line;
mod supervisor;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The daemon of pgfleet. It is started by `pgfleet start`.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// The configuration: TOML, or a pgbouncer.ini as it is.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Number of workers: a count, "auto", or a share of the usable cores ("50%").
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Write "ready" or the reason of a failed start to this descriptor.
    #[arg(long, value_name = "FD", hide = true)]
    ready_fd: Option<i32>,
    /// Do not log to standard error.
    #[arg(long)]
    quiet: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// What the supervisor starts for each slot.
    #[command(hide = true)]
    Worker,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match args.role {
        Some(Role::Worker) => worker::run(),
        None => supervisor::run(supervisor::Start {
            config: args.config,
            workers: args.workers,
            ready_fd: args.ready_fd,
            quiet: args.quiet,
        }),
    }
}
