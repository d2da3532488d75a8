//! The programs that people use with a pooler: psql, pgbench, and Python with psycopg.
//! It never lets one of them fail quietly: exit status and output are both looked at.
//! Suites run them through a fleet.

mod pgbench;

use std::{
    path::Path,
    process::{Command, Output},
};

pub use pgbench::{Pgbench, Report};

use crate::{address::Address, binaries};

/// What a program printed.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The exit status; none if a signal ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Printed {
    /// Fails the test unless the program ended well.
    #[must_use]
    pub fn well(self) -> Self {
        assert!(self.status == Some(0), "exit {:?}\n{}\n{}", self.status, self.out, self.err);
        self
    }

    /// Standard output without the closing newline.
    pub fn text(&self) -> &str {
        self.out.trim_end()
    }
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { status: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Runs the command to its end.
pub fn run(command: &mut Command) -> Printed {
    let output = command.output();
    output.unwrap_or_else(|error| missing(command, &error)).into()
}

/// Runs statements with psql, unaligned and without headers.
pub fn psql(address: &Address, sql: &str) -> Printed {
    let mut command = Command::new(binaries::postgres("psql"));
    run(command.args([
        "-X",
        "-q",
        "-A",
        "-t",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        &address.to_string(),
        "-c",
        sql,
    ]))
}

/// Runs a script of `tests/python`, with the connection string and more as its arguments, and expects it to end well.
pub fn python(script: &str, address: &Address, arguments: &[&str]) -> Printed {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python").join(script);
    run(Command::new(binaries::python()).arg(path).arg(address.to_string()).args(arguments)).well()
}

#[expect(clippy::panic, reason = "a program that cannot be started fails the test")]
fn missing(command: &Command, error: &std::io::Error) -> ! {
    panic!("cannot start {command:?}: {error}; run make setup")
}
