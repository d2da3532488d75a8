//! The statistics of one worker, in memory that outlives it.
//!
//! It owns the layout of that memory and the one way to write it. The worker writes its totals after
//! each turn; the supervisor holds the descriptor and reads them when the worker is gone, so that
//! nothing that was counted is lost with it. It never adds anything up.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use memmap2::MmapMut;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Numbers of one row.
pub(crate) const NUMBERS: usize = 12;
/// Rows that are kept; databases beyond them are heard of by the heartbeat alone.
pub(crate) const ROWS: usize = 1024;
/// The longest name of a row.
pub(crate) const NAME: usize = 120;
/// The length of the name, the name, the numbers.
const ROW: usize = 8 + NAME + 8 * NUMBERS;
const LENGTH: usize = ROWS * ROW;

/// The worker's side.
#[derive(Debug)]
pub(crate) struct Tallies(MmapMut);

impl Tallies {
    /// New memory without a row, and its descriptor for the supervisor.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd = memfd_create("pgfleet-tallies", flags)?;
        nix::unistd::ftruncate(&fd, i64::try_from(LENGTH).unwrap_or(i64::MAX))?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        Ok((Self(map(&fd)?), fd))
    }

    /// Takes one row out.
    pub(crate) fn clear(&mut self, row: usize) {
        if let Some(bytes) = self.0.get_mut(row * ROW..(row + 1) * ROW) {
            bytes.fill(0);
        }
    }

    /// Writes one row; what has no place is left out.
    pub(crate) fn write(&mut self, row: usize, name: &str, numbers: &[u64; NUMBERS]) {
        let Some(bytes) = self.0.get_mut(row * ROW..(row + 1) * ROW) else { return };
        if name.len() > NAME || bytes.len() != ROW {
            return;
        }
        let (length, rest) = bytes.split_at_mut(8);
        let (text, values) = rest.split_at_mut(NAME);
        for (place, number) in values.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        text[..name.len()].copy_from_slice(name.as_bytes());
        length.copy_from_slice(&(name.len() as u64).to_ne_bytes());
    }
}

#[expect(unsafe_code, reason = "mapping a file is unsafe because others could shrink or change it")]
fn map(fd: &OwnedFd) -> io::Result<MmapMut> {
    // SAFETY: the file is new, of this process, and sealed against shrinking; only this mapping
    // writes to it, and the supervisor reads it by system calls.
    unsafe { MmapMut::map_mut(fd) }
}

/// The rows that a worker has written, by name. What does not look like a row is passed over.
pub(crate) fn read(fd: OwnedFd) -> io::Result<Vec<(String, [u64; NUMBERS])>> {
    let file = std::fs::File::from(fd);
    let mut bytes = vec![0; LENGTH];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes.chunks_exact(ROW).filter_map(row).collect())
}

fn row(bytes: &[u8]) -> Option<(String, [u64; NUMBERS])> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let length = usize::try_from(word(0)?).ok().filter(|length| (1..=NAME).contains(length))?;
    let name = std::str::from_utf8(bytes.get(8..8 + length)?).ok()?;
    let mut numbers = [0; NUMBERS];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = word(8 + NAME + 8 * index)?;
    }
    Some((name.to_owned(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_after_the_writer_is_gone() {
        let (mut tallies, fd) = Tallies::create().unwrap();
        tallies.write(0, "one", &[1; NUMBERS]);
        tallies.write(1, "two", &[2; NUMBERS]);
        tallies.write(0, "one", &[u64::MAX; NUMBERS]);
        drop(tallies);
        let rows = read(fd).unwrap();
        assert_eq!(
            rows,
            [("one".to_owned(), [u64::MAX; NUMBERS]), ("two".to_owned(), [2; NUMBERS])]
        );
    }

    #[test]
    fn a_row_that_was_cleared_hides_none_behind_it() {
        let (mut tallies, fd) = Tallies::create().unwrap();
        tallies.write(0, "one", &[1; NUMBERS]);
        tallies.write(1, "two", &[2; NUMBERS]);
        tallies.clear(0);
        tallies.clear(ROWS);
        assert_eq!(read(fd).unwrap(), [("two".to_owned(), [2; NUMBERS])]);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        let (mut tallies, fd) = Tallies::create().unwrap();
        tallies.write(ROWS, "beyond", &[1; NUMBERS]);
        tallies.write(0, &"n".repeat(NAME + 1), &[1; NUMBERS]);
        assert_eq!(read(fd).unwrap(), []);
    }
}
