//! How the command ends: the failures, their texts and their exit codes.
//!
//! It owns the numbers 0, 1, 2, 3 and 78 and never ends the process itself; `main` returns what it gives.
//! The commands make the failures.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgfleet_config::Problem;

use crate::console;
use crate::fleet::LOOKED_AT;

/// Refused or failed.
const FAILED: u8 = 1;
/// The command line makes no sense.
const USAGE: u8 = 2;
/// No daemon answers.
const UNREACHABLE: u8 = 3;
/// The configuration has problems (`EX_CONFIG` of sysexits).
const CONFIGURATION: u8 = 78;

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It was refused, or went wrong; the text says what, on what, and the way out.
    #[error("{0}")]
    Refused(String),
    /// The command line is well formed, and still makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The system refused something.
    #[error("cannot {what}")]
    System {
        /// What was tried, on what.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// The console cannot be reached, or it refused.
    #[error(transparent)]
    Console(#[from] console::Error),
    /// The configuration has these problems.
    #[error("{}", listed(file, problems))]
    Configuration {
        /// The main file.
        file: PathBuf,
        /// All of them, at least one.
        problems: Vec<Problem>,
    },
    /// There is no configuration anywhere.
    #[error(
        "no configuration: looked for {LOOKED_AT}; make one with pgfleet init, or name one with --config"
    )]
    NoConfiguration,
    /// The results cannot be written.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// The command has said everything itself; this is its exit code.
    #[error("")]
    Said(u8),
}

impl Failure {
    /// A refusal of the system, on what was tried.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    /// The fleet is there, but not as it should be; everything has been shown.
    pub(crate) fn degraded() -> Self {
        Self::Said(FAILED)
    }

    /// The daemon has given its reasons; what it ended with is passed on where it is one of ours.
    pub(crate) fn of_daemon(code: Option<i32>, reason: String) -> Self {
        if code == Some(i32::from(CONFIGURATION)) {
            say(&reason);
            return Self::Said(CONFIGURATION);
        }
        Self::Refused(reason)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::System { .. } => FAILED,
            Self::Usage(_) => USAGE,
            Self::Console(error) if error.is_unreachable() => UNREACHABLE,
            Self::Console(console::Error::Misconfigured(_)) => CONFIGURATION,
            Self::Console(_) => FAILED,
            Self::Configuration { .. } | Self::NoConfiguration => CONFIGURATION,
            // Whoever reads the results has had enough of them: that is no failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => FAILED,
            Self::Said(code) => *code,
        }
    }
}

fn listed(file: &Path, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    format!("{count} in {}\n{}", file.display(), lines.join("\n"))
}

/// The exit code of an outcome, after its failure has been said on standard error.
pub(crate) fn of(outcome: Result<(), Failure>) -> ExitCode {
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    let silent = matches!(failure, Failure::Said(_)) || failure.code() == 0;
    if !silent {
        say(&chain(&failure));
    }
    ExitCode::from(failure.code())
}

/// Prints what clap has to say (help and version to standard output, complaints to standard error).
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(broken) if error.use_stderr() || broken.kind() != io::ErrorKind::BrokenPipe => {
            ExitCode::from(FAILED)
        }
        Ok(()) if error.use_stderr() => ExitCode::from(USAGE),
        Ok(()) | Err(_) => ExitCode::SUCCESS,
    }
}

/// The error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let reason = plain(&cause.to_string());
        if !text.ends_with(&reason) {
            text = format!("{text}: {reason}");
        }
        source = cause.source();
    }
    text
}

/// The reason of the system in the style of ours: lower case, and without its number.
pub(crate) fn plain(reason: &str) -> String {
    let bare = reason.split_once(" (os error").map_or(reason, |(bare, _number)| bare);
    let mut letters = bare.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

fn say(text: &str) {
    // Nothing is left to be told to anyone when standard error is gone.
    let _unheard = writeln!(io::stderr(), "pgfleet: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> io::Error {
        io::Error::from(io::ErrorKind::BrokenPipe)
    }

    #[test]
    fn each_failure_has_the_exit_code_of_the_manual() {
        let absent = console::Error::Absent {
            path: PathBuf::from("/run/pgfleet/console/.s.PGSQL.6432"),
            reason: io::Error::from(io::ErrorKind::NotFound),
        };
        assert_eq!(Failure::Refused(String::new()).code(), 1);
        assert_eq!(Failure::Usage(String::new()).code(), 2);
        assert_eq!(Failure::from(absent).code(), 3);
        assert_eq!(Failure::NoConfiguration.code(), 78);
        assert_eq!(
            Failure::Configuration { file: PathBuf::new(), problems: Vec::new() }.code(),
            78
        );
        assert_eq!(Failure::degraded().code(), 1);
        assert_eq!(Failure::of_daemon(Some(78), String::new()).code(), 78);
        assert_eq!(Failure::of_daemon(Some(1), String::new()).code(), 1);
        assert_eq!(Failure::of_daemon(None, String::new()).code(), 1);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        assert_eq!(Failure::Output(broken()).code(), 0);
        assert_eq!(Failure::System { what: String::new(), source: broken() }.code(), 1);
    }

    #[test]
    fn a_cause_is_said_once() {
        let failure = Failure::system("write ./pgfleet.toml")(io::Error::from(
            io::ErrorKind::PermissionDenied,
        ));
        assert_eq!(chain(&failure), "cannot write ./pgfleet.toml: permission denied");
        let failure = Failure::system("read x")(io::Error::from_raw_os_error(2));
        assert_eq!(chain(&failure), "cannot read x: no such file or directory");
    }
}
