//! A snapshot of the settings in a sealed memfd.
//!
//! It owns how settings travel from the supervisor to its workers: written once, then unchangeable
//! for everyone. It never reads a configuration file and never judges a setting. The
//! supervisor writes a snapshot for each `Prepare`, a worker reads it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use pgfleet_config::Settings;
use thiserror::Error;

/// More than any configuration needs; a reader does not allocate for less reason.
const LONGEST: u64 = 256 << 20;

/// Why a snapshot cannot be used.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    #[error("cannot read the settings snapshot")]
    Io(#[from] io::Error),
    #[error("the settings snapshot is not sealed: it could change while it is read")]
    NotSealed,
    #[error("the settings snapshot has {0} bytes, which is too long")]
    TooLong(u64),
    #[error("the settings snapshot cannot be decoded")]
    Malformed(#[source] postcard::Error),
}

/// Writes the settings to a new memfd that no one can change any more.
pub(crate) fn settings_memfd(settings: &Settings) -> io::Result<OwnedFd> {
    let bytes = postcard::to_stdvec(settings).map_err(io::Error::other)?;
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create("pgfleet-settings", flags)?);
    file.write_all(&bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals()))?;
    Ok(file.into())
}

/// Reads a snapshot after checking that no one can change it.
pub(crate) fn read_settings(fd: OwnedFd) -> Result<Settings, SnapshotError> {
    // What is no memfd has no seals, and fails here.
    let found = fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(io::Error::from)?;
    if !SealFlag::from_bits_retain(found).contains(seals()) {
        return Err(SnapshotError::NotSealed);
    }
    let file = File::from(fd);
    let length = file.metadata()?.len();
    let room = usize::try_from(length.min(LONGEST + 1)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(SnapshotError::TooLong(length));
    }
    let mut bytes = vec![0; room];
    // Not `read`: all processes share one offset in this file.
    file.read_exact_at(&mut bytes, 0)?;
    postcard::from_bytes(&bytes).map_err(SnapshotError::Malformed)
}

fn seals() -> SealFlag {
    SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL
}

#[cfg(test)]
mod tests;
