//! A worker: one thread that accepts, authenticates, pools, relays, cancels and counts.
//!
//! It never binds, forks or reads the configuration: the link is its standard input, and listeners,
//! ledger and bus arrive over it. Events of sockets come from the worker's own epoll set, everything
//! else from tokio; whatever it is, it ends in a method of [`state::Worker`].

mod cancel;
mod client;
mod completion;
mod control;
mod dns;
mod ids;
mod io;
mod leaving;
mod listener;
mod memory;
mod outbox;
mod peers;
mod pool;
mod relay;
mod replication;
mod server;
mod socket;
mod sockets;
mod start;
mod state;
mod stats;
mod suspended;
mod sweep;
mod switched;
mod tables;
mod turn;
mod vars;

pub(crate) use start::run;
