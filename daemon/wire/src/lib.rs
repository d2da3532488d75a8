//! The Postgres protocol, version 3, as pgfleet needs it: frames, startup packets, messages,
//! cancel keys, password exchange and the tracker that decides when a lease may end.
//! It does no I/O, reads no clock and makes no random numbers: bytes, nonces and salts are arguments.
//! The worker and the console call it; nothing that a peer sends makes it panic or grow without bound.

pub mod back;
mod cursor;
pub mod frame;
pub mod front;
pub mod key;
pub mod md5;
pub mod scram;
pub mod secret;
pub mod startup;
pub mod tracker;
