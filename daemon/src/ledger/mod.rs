//! The ledger: the memory that all processes of a fleet share.
//!
//! It owns the layout, the checks of a mapping that comes from elsewhere, and the row of loads of
//! each worker. It never decides who gets a client and never waits: every word is an atomic.
//! The supervisor creates it and sends it to its workers, which open it. The token arrays of
//! shared limits will have their place behind the rows.

mod mapping;
mod row;
pub(crate) mod tallies;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::link::message::WorkerId;
use mapping::{Layout, Mapping};
pub(crate) use row::{Accepting, Row};

/// The highest slot that has rows here.
pub(crate) const SLOTS: u16 = 128;
/// Two rows for each slot, so that a worker and its successor never share one.
const ROWS: usize = SLOTS as usize * 2;

/// This process's view of the ledger.
#[derive(Debug)]
pub(crate) struct Ledger(Mapping);

impl Ledger {
    /// A new, empty ledger, and its descriptor for the workers. Its size can never change.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let fd = memfd_create("pgfleet-ledger", flags)?;
        nix::unistd::ftruncate(&fd, Layout::LENGTH)?;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals()))?;
        let ledger = Self(Mapping::new(fd.as_fd())?);
        ledger.0.layout().sign();
        Ok((ledger, fd))
    }

    /// The ledger behind a descriptor; refused unless its size, mark and version are this build's.
    pub(crate) fn open(fd: OwnedFd) -> io::Result<Self> {
        // Whoever could shrink the file could end every process that touches it.
        let found = fcntl(&fd, FcntlArg::F_GET_SEALS)?;
        if !SealFlag::from_bits_retain(found).contains(seals()) {
            return Err(refused("its size is not sealed"));
        }
        let ledger = Self(Mapping::new(fd.as_fd())?);
        if ledger.0.layout().is_ours() {
            Ok(ledger)
        } else {
            Err(refused("its mark or version is another build's"))
        }
    }

    /// The row of a worker. Its generations take turns on two rows.
    ///
    /// Slots outside `1..=SLOTS` share one spare row, which never gets a client.
    pub(crate) fn row(&self, worker: WorkerId) -> &Row {
        let layout = self.0.layout();
        index(worker).and_then(|index| layout.rows.get(index)).unwrap_or(&layout.spare)
    }

    /// The accepting worker with the fewest clients, and how many it has; the first of equals. One
    /// that has as many as it may have is passed over.
    ///
    /// A worker whose row belongs to another generation by now is passed over.
    pub(crate) fn least_loaded(
        &self,
        among: impl Iterator<Item = WorkerId>,
    ) -> Option<(WorkerId, u32)> {
        let layout = self.0.layout();
        among
            .filter_map(|worker| {
                let row = layout.rows.get(index(worker)?)?;
                row.takes_clients_for(worker.generation).then(|| (worker, row.clients()))
            })
            .min_by_key(|&(_, clients)| clients)
    }
}

fn index(worker: WorkerId) -> Option<usize> {
    let slot = usize::from(worker.slot.checked_sub(1)?);
    let turn = usize::from(worker.generation % 2 == 1);
    Some(slot * 2 + turn)
}

fn seals() -> SealFlag {
    SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL
}

fn refused(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the shared memory is not this fleet's ledger: {why}"),
    )
}

#[cfg(test)]
mod tests;
