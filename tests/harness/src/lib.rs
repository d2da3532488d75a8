//! What the black-box suites stand on: throwaway clusters, fleets, clients, and servers that lie.
//! It never links pgfleet's own crates, so that a fault in them cannot hide itself, and it never touches a service of the machine.
//! The suites in `tests/` call it; each of their tests starts what it needs, and what a test started ends with it.
//!
//! A test reads: [`cluster::Cluster`] gives a [`cluster::Database`], [`fleet::Fleet`] is started in front of it, and
//! [`client::Client`], [`raw::Raw`] or a [`program`] talks through it.
//! What goes wrong here fails the test at once, with a sentence; nothing is retried but by [`wait`], which has a deadline.

pub mod account;
pub mod address;
pub mod binaries;
pub mod client;
pub mod cluster;
pub mod crowd;
pub mod directory;
pub mod failure;
pub mod fake;
pub mod fleet;
pub mod nameserver;
pub mod port;
pub mod process;
pub mod program;
pub mod raw;
pub mod scratch;
pub mod table;
pub mod wait;
