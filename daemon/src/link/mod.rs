//! The whole border between the supervisor and a worker, and between two workers.
//!
//! It owns the message enums, the typed tables that the console merges, and the record
//! channel that carries both with descriptors. It never decides anything: supervisor and
//! worker both depend on it, and never name each other.

pub(crate) mod bus;
pub(crate) mod channel;
pub(crate) mod descriptor;
pub(crate) mod limit;
pub(crate) mod message;
pub(crate) mod snapshot;
pub(crate) mod switches;
pub(crate) mod table;
