//! The commands, one file each.
//!
//! It owns the way from a parsed command line to the command and never does a command's work. `main` calls it.

mod completions;
mod config;
mod demo;
mod init;
mod reload;
mod restart;
mod scale;
mod show;
mod start;
mod status;
mod stop;
mod switch;

use crate::args::{Args, Command, Global};
use crate::console::{Answer, Console};
use crate::daemon;
use crate::exit::Failure;
use crate::fleet;
use crate::screen::Screen;
use switch::Switch;

/// Runs what the command line says.
pub(crate) fn run(args: Args, screen: &Screen) -> Result<(), Failure> {
    let Args { global, command } = args;
    match command {
        Command::Init(init) => init::run(&init, &global, screen),
        Command::Start(start) => start::run(&start, &global, screen),
        Command::Stop(stop) => stop::run(&stop, &global, screen),
        Command::Status => status::run(&global, screen),
        Command::Show(show) => show::run(&show, &global, screen),
        Command::Scale(scale) => scale::run(&scale, &global, screen),
        Command::Reload => reload::run(&global, screen),
        Command::Restart => restart::run(&global, screen),
        Command::Pause(on) => switch::run(Switch::Pause, on.database.as_deref(), &global, screen),
        Command::Resume(on) => switch::run(Switch::Resume, on.database.as_deref(), &global, screen),
        Command::Enable(on) => switch::run(Switch::Enable, Some(&on.database), &global, screen),
        Command::Disable(on) => switch::run(Switch::Disable, Some(&on.database), &global, screen),
        Command::Reconnect(on) => {
            switch::run(Switch::Reconnect, on.database.as_deref(), &global, screen)
        }
        Command::Kill(on) => switch::run(Switch::Kill, on.database.as_deref(), &global, screen),
        Command::Config(config) => config::run(&config, &global, screen),
        Command::Completions(completions) => completions::run(&completions, screen),
        Command::Demo(demo) => demo::run(&demo, &global, screen),
        Command::Detach(detach) => Err(daemon::detach(&detach.program)),
    }
}

/// A connection to the console of the fleet that the options name.
fn console(global: &Global) -> Result<Console, Failure> {
    Ok(Console::open(&fleet::console(global)?)?)
}

/// Passes on what the console said besides its answer.
fn remarks(answer: &Answer, screen: &Screen) {
    for notice in &answer.notices {
        screen.remark(notice);
    }
}
