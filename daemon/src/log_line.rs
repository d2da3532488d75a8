//! The lines of the log, behind the `log` crate: the worker's half and the supervisor's half.
//!
//! It owns the packet that carries a worker's record to the supervisor, and the escaping that
//! keeps one record on one line, whatever a peer put into it. It never decides what is worth
//! logging and never waits for anyone in a worker. `main` of either process sets up one half.

mod supervisor;
#[cfg(test)]
mod tests;
mod worker;

use std::fmt::{self, Write};

use log::{Level, Metadata};

pub(crate) use supervisor::{Errors, Sink, from_worker, reopen, supervisor};
pub(crate) use worker::{dropped, worker};

/// The most bytes of text of one record; what is longer is cut.
pub(crate) const LONGEST: usize = 8 << 10;
/// `log::error!(target: FATAL, ..)` says that the process ends because of it.
pub(crate) const FATAL: &str = "fatal";

/// How bad it is, in PgBouncer's words. The numbers are the first bytes of packets: no text
/// begins with them, so a panic that std writes to the same descriptor is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Weight {
    Fatal = 1,
    Error,
    Warning,
    Log,
    Debug,
    Noise,
}

impl Weight {
    const ALL: [Self; 6] =
        [Self::Fatal, Self::Error, Self::Warning, Self::Log, Self::Debug, Self::Noise];

    fn of(record: &Metadata<'_>) -> Self {
        match record.level() {
            Level::Error if record.target() == FATAL => Self::Fatal,
            Level::Error => Self::Error,
            Level::Warn => Self::Warning,
            Level::Info => Self::Log,
            Level::Debug => Self::Debug,
            Level::Trace => Self::Noise,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&weight| weight as u8 == byte)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Log => "LOG",
            Self::Debug => "DEBUG",
            Self::Noise => "NOISE",
        }
    }
}

/// Text of one line: control characters are escaped, and what is too long is cut.
#[derive(Debug, Default)]
struct Line {
    text: String,
    cut: bool,
}

impl Line {
    fn of(message: impl fmt::Display) -> Self {
        let mut line = Self::default();
        // An error here is a message that says it cannot be formatted, or a cut: the line stands.
        let _ = write!(line, "{message}");
        if line.cut {
            line.text.push_str("...");
        }
        line
    }

    fn push(&mut self, piece: &str) -> fmt::Result {
        if self.text.len() + piece.len() > LONGEST {
            self.cut = true;
            return Err(fmt::Error);
        }
        self.text.push_str(piece);
        Ok(())
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\n' => self.push("\\n")?,
                '\r' => self.push("\\r")?,
                '\t' => self.push("\\t")?,
                // The separators of lines that are no control characters, too.
                other if other.is_control() || matches!(other, '\u{2028}' | '\u{2029}') => {
                    self.push(&other.escape_unicode().to_string())?;
                }
                other => self.push(other.encode_utf8(&mut [0; 4]))?,
            }
        }
        Ok(())
    }
}
