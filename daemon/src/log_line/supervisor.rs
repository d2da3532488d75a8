//! The supervisor's log: PgBouncer's lines to standard error, to a file, or both.
//!
//! It owns the log file and the shape of a line. It never loses a record without a reason: where
//! the file cannot be written, standard error gets the line. The supervisor sets it up, hands
//! it the packets of its workers, and has the file opened anew after a rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::{Line, Weight};

const STAMP: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3] UTC");

/// Whether standard error gets the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errors {
    Written,
    Quiet,
}

/// Where the lines go.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    pub(crate) errors: Errors,
    /// Appended to, and created with mode 0640.
    pub(crate) file: Option<PathBuf>,
    /// Records below it are not even formatted. It does not filter what workers sent.
    pub(crate) level: LevelFilter,
}

#[derive(Debug)]
struct Place {
    errors: Errors,
    file: Option<(PathBuf, File)>,
}

// The `log` crate knows one logger for a process, so its place is one for the process as well.
static PLACE: Mutex<Place> = Mutex::new(Place { errors: Errors::Written, file: None });

/// Writes this process's records to `sink` from now on; called again, it moves them.
///
/// When the file cannot be opened nothing is moved, and what was in force stays.
pub(crate) fn supervisor(sink: Sink) -> io::Result<()> {
    let file = match sink.file {
        Some(path) => {
            let file = open(&path)?;
            Some((path, file))
        }
        None => None,
    };
    *place() = Place { errors: sink.errors, file };
    // A second attempt finds the logger in place.
    let _ = log::set_logger(&Lines);
    log::set_max_level(sink.level);
    Ok(())
}

/// Opens the log file anew by its name, after a rotation. On an error the old one stays.
pub(crate) fn reopen() -> io::Result<()> {
    let mut place = place();
    if let Some((path, file)) = &mut place.file {
        *file = open(path)?;
    }
    Ok(())
}

/// Writes a worker's packet under that worker's pid.
///
/// A packet without a known first byte is what std writes when a worker panics: an error.
pub(crate) fn from_worker(pid: u32, packet: &[u8]) {
    let (weight, text) = read(packet);
    place().write(&shape(OffsetDateTime::now_utc(), pid, weight, &text));
}

/// What a packet says. A worker escapes its text, but what is escaped here once more stays as it
/// is: so no packet can begin a line.
pub(super) fn read(packet: &[u8]) -> (Weight, Line) {
    let known =
        packet.split_first().and_then(|(&first, text)| Some((Weight::from_byte(first)?, text)));
    let (weight, text) = known.unwrap_or((Weight::Error, packet));
    let text = String::from_utf8_lossy(text);
    (weight, Line::of(text.trim_matches('\n')))
}

/// `2026-12-01 03:00:00.123 UTC [PID] LEVEL MSG`, as PgBouncer writes it.
pub(super) fn shape(now: OffsetDateTime, pid: u32, weight: Weight, line: &Line) -> String {
    // Formatting fails only for years that no clock shows; the line is worth more than its stamp.
    let stamp = now.format(STAMP).unwrap_or_default();
    format!("{stamp} [{pid}] {} {}\n", weight.word(), line.text)
}

fn place() -> MutexGuard<'static, Place> {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    // The directory may belong to the user that the daemon drops to: no link is followed as root.
    let flags = if nix::unistd::geteuid().is_root() { nix::libc::O_NOFOLLOW } else { 0 };
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o640).custom_flags(flags);
    options.open(path).map_err(|cause| {
        let text = format!("cannot open the log file {}: {cause}", path.display());
        io::Error::new(cause.kind(), text)
    })
}

impl Place {
    /// One write for each line, so that lines of a shared file do not mix.
    fn write(&mut self, line: &str) {
        let in_file = match &mut self.file {
            Some((_, file)) => file.write_all(line.as_bytes()).is_ok(),
            None => false,
        };
        let wanted = match self.errors {
            Errors::Written => true,
            // A full disk must not make a daemon mute.
            Errors::Quiet => self.file.is_some() && !in_file,
        };
        if wanted {
            // Where standard error is gone, too, nobody is left to tell.
            drop(io::stderr().write_all(line.as_bytes()));
        }
    }
}

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = Line::of(record.args());
            let weight = Weight::of(record.metadata());
            let line = shape(OffsetDateTime::now_utc(), std::process::id(), weight, &line);
            place().write(&line);
        }
    }

    fn flush(&self) {}
}
