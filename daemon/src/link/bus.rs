//! What two workers say to each other over the bus, a seqpacket pair made by the supervisor.
//!
//! The bus hands fresh sockets to the worker with the fewest clients and carries cancel
//! requests to the owner of their key. A message is one packet; nothing here blocks.

use serde::{Deserialize, Serialize};

use super::message::ListenerKind;

/// From one worker to another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bus {
    /// An accepted socket of which no byte has been read. Carries its descriptor. The sender keeps
    /// its copy until `Taken`, and serves the client itself if the peer goes away before.
    /// The sender has already counted it in the receiver's row of the ledger.
    Hand { id: u64, kind: ListenerKind },
    /// That socket is now mine. Sent before its first byte is read or written.
    Taken { id: u64 },
    /// That socket did not arrive (the receiver is out of descriptors): serve it yourself.
    Refused { id: u64 },
    /// End the query of the client that has this key. Answered by `CancelDone` of the same id when
    /// the request has been delivered to Postgres, or when there is nothing to cancel: the
    /// answer does not tell which.
    Cancel { id: u64, key: Vec<u8> },
    /// The requester's connection may be closed.
    CancelDone { id: u64 },
}
