//! `pgfleet completions`: scripts that complete this command in a shell.
//!
//! It owns nothing: the scripts come from the definition of the command line, so that they cannot drift apart.
//! Packages call it when they are built, operators when they like.

use clap::CommandFactory;
use clap_complete::{Shell as Target, generate};

use crate::args::{Args, Completions, Shell};
use crate::exit::Failure;
use crate::screen::Screen;

/// Prints the script.
pub(super) fn run(completions: &Completions, screen: &Screen) -> Result<(), Failure> {
    screen.text(&script(completions.shell))
}

fn script(shell: Shell) -> String {
    let target = match shell {
        Shell::Bash => Target::Bash,
        Shell::Zsh => Target::Zsh,
        Shell::Fish => Target::Fish,
    };
    let mut script = Vec::new();
    generate(target, &mut Args::command(), "pgfleet", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_that_knows_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            for command in ["init", "start", "restart", "completions"] {
                assert!(script.contains(command), "{shell:?} lacks {command}");
            }
        }
    }
}
