//! `pgfleet`: the operator's command.
//!
//! It owns the command line and what is shown of its results; it never keeps a fleet running (that is `pgfleetd`)
//! and never changes one otherwise than over the console. Operators, scripts and `make demo` call it.

mod args;
mod commands;
mod console;
mod daemon;
mod exit;
mod fleet;
mod progress;
mod render;
mod screen;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let screen = screen::Screen::new(&args.global);
    let outcome = commands::run(args, &screen);
    exit::of(outcome)
}
