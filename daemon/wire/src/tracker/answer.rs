//! What the tracker says about a message.
//! Plain data: it decides nothing.
//! The relay matches on it.

use thiserror::Error;

/// What the caller wants to be told again when the request is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Note {
    /// Nothing.
    #[default]
    None,
    /// The number that the caller gave to a prepared statement.
    Statement(u64),
}

/// What to do with a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Send it to the server.
    Pass,
    /// Drop it: CopyData, CopyDone or CopyFail that Postgres would ignore.
    Discard,
}

/// What a server's message meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// It belongs to a request of the pooler: not for the client.
    pub swallow: bool,
    /// The request that it finished.
    pub done: Option<Done>,
}

impl Seen {
    /// For the client, and nothing is done.
    pub(super) const PASS: Self = Self { swallow: false, done: None };
}

/// A request that is finished. Each is reported once; those that an error made the server ignore are not reported.
///
/// Requests of the pooler are reported with `swallow`, and only if they failed or carry a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// By ParseComplete.
    Parse(Note),
    /// By BindComplete.
    Bind(Note),
    /// By RowDescription or NoData.
    Describe(Note),
    /// By CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute(Note),
    /// By CloseComplete.
    Close(Note),
    /// By ReadyForQuery, without an error before it.
    Query(Note),
    /// By ReadyForQuery, without an error before it.
    Function(Note),
    /// By ReadyForQuery, also if [`Done::Failed`] came before it.
    Sync(Note),
    /// By ErrorResponse: the tag of the client's request, and its note.
    Failed(u8, Note),
    /// By ErrorResponse: the tag of the pooler's request. If it was part of the client's batch, `swallow` is false.
    OwnFailed(u8),
}

/// The COPY that the server is in (manual: "COPY Operations").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copy {
    /// None.
    #[default]
    None,
    /// From the client, until CommandComplete or ErrorResponse.
    In,
    /// To the client, until CopyDone.
    Out,
    /// Both ways: replication.
    Both,
}

/// The connection is out of step, or speaks something else than protocol 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrackError {
    /// The server said something that answers nothing: close the server.
    #[error("unexpected message {:?} from server, expected {expected}", char::from(*.tag))]
    Unexpected {
        /// Of the message.
        tag: u8,
        /// What would have been right.
        expected: &'static str,
    },
    /// The client sent a message that the protocol does not have: close the client.
    #[error("unknown pkt {:?}", char::from(*.0))]
    Unknown(u8),
}
