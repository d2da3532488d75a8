//! Names of the things a worker keeps in its tables.
//!
//! An index alone may be that of a successor; with its serial number it names one client,
//! server or pool for as long as the worker lives. Nothing here looks anything up.

/// One client of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// One connection to Postgres of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServerId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl ServerId {
    /// The number that the supervisor knows it by.
    pub(crate) fn number(self) -> u64 {
        (u64::from(self.serial) << 32) | u64::from(self.index)
    }
}

/// One pool of this worker. Pools are never removed while they have a client or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}
