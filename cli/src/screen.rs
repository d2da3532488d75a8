//! Where results and remarks go, and in which form.
//!
//! It owns standard output and the choice of format, colour and width; it never decides what is said.
//! Every command writes through it: results to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use crate::args::{Format, Global};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::render::table::Look;
use crate::render::{self, Outcome, Table};

/// What may be shown, and how.
#[derive(Debug)]
pub(crate) struct Screen {
    format: Format,
    look: Look,
    remarks: Remarks,
}

/// Whether anything but results and errors is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remarks {
    Silent,
    Plain,
    /// On a terminal, which can also show progress.
    Live,
}

impl Screen {
    /// The screen that the global options and the environment describe.
    pub(crate) fn new(global: &Global) -> Self {
        let remarks = match (global.quiet, io::stderr().is_terminal()) {
            (true, _) => Remarks::Silent,
            (false, true) => Remarks::Live,
            (false, false) => Remarks::Plain,
        };
        Self { format: global.format, look: Look::of_terminal(global), remarks }
    }

    /// The format of results.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// How tables look.
    pub(crate) fn look(&self) -> Look {
        self.look
    }

    /// Says something that is no result.
    pub(crate) fn remark(&self, text: &str) {
        if self.remarks != Remarks::Silent {
            // A remark that nobody can read is not worth a failure.
            let _unheard = writeln!(io::stderr(), "{text}");
        }
    }

    /// Shows a table of results.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        self.text(&render::table(table, self.format, self.look)?)
    }

    /// Shows what a command has done: a sentence, which is left out with `--quiet`, or its facts.
    pub(crate) fn outcome(&self, outcome: &Outcome) -> Result<(), Failure> {
        if self.remarks == Remarks::Silent && self.format == Format::Table {
            return Ok(());
        }
        self.text(&render::outcome(outcome, self.format)?)
    }

    /// Writes a result as it is.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
    }

    /// Shows that something takes its time; nothing on a pipe or with `--quiet`.
    pub(crate) fn progress(&self, text: &str) -> Progress {
        match self.remarks {
            Remarks::Live => Progress::spinner(text),
            Remarks::Silent | Remarks::Plain => Progress::hidden(),
        }
    }

    /// The same with a known number of steps.
    pub(crate) fn progress_of(&self, steps: u64, text: &str) -> Progress {
        match self.remarks {
            Remarks::Live => Progress::bar(steps, text),
            Remarks::Silent | Remarks::Plain => Progress::hidden(),
        }
    }
}
