//! What was done beside the data thread and comes back to it.
//!
//! Blocking work (key derivation, name look-ups) and cancel requests run as tasks of their own,
//! and end in one of these. A completion names what it is for by identity, so that one that comes
//! too late is dropped.

use std::net::IpAddr;

use pgfleet_wire::scram::{ScramError, ScramVerify, Verifier};

use super::client::auth::password::Verdict;
use super::dns::query::LookupError;
use super::ids::{ClientId, ServerId};

/// How a cancel request to Postgres ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelOutcome {
    /// Postgres has closed the request's connection: the signal has been sent.
    Delivered,
    /// The query had ended before the key was sent.
    NotNeeded,
    /// No end within `cancel_wait_timeout`, or no connection.
    Failed,
}

/// Who wants to know that a cancel is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requester {
    /// A connection to this worker.
    Client(ClientId),
    /// A peer, by the bus: its worker and its number for the request.
    Peer { worker: crate::link::message::WorkerId, request: u64 },
    /// The worker itself, which ends a query that nobody waits for.
    Nobody,
}

/// See the module's page.
pub(crate) enum Completion {
    /// A verifier for SCRAM was derived from a plain password.
    Derived {
        client: ClientId,
        user: String,
        password: String,
        verifier: Verifier,
    },
    /// The password of a client was judged.
    Judged {
        client: ClientId,
        verdict: Verdict,
    },
    /// The user at the other end of a client's Unix socket was looked up.
    Named {
        client: ClientId,
        name: Option<String>,
    },
    /// The answer to a server's SCRAM challenge.
    Proved {
        server: ServerId,
        result: Result<(Vec<u8>, ScramVerify), ScramError>,
    },
    /// A host name was looked up.
    Resolved {
        name: String,
        result: Result<Vec<IpAddr>, LookupError>,
    },
    /// The serial number of a zone was looked at.
    Serial {
        zone: String,
        serial: u32,
    },
    Canceled {
        server: ServerId,
        requester: Requester,
        outcome: CancelOutcome,
    },
}
