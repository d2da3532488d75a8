//! The tracker counts what was asked of one server and what it answered, and alone decides when a lease may end.
//! It holds no bytes, does no I/O and knows no client: one per server connection, fed with tags and a few bodies.
//! The relay calls it for every message of either side and does what the answers say.
//!
//! Its model is the main loop of Postgres (`tcop/postgres.c`): requests are answered in order, so there is one queue,
//! and what a server message means depends on the request at its head.
//!
//! | head of the queue | answers within | is done by | after `E` (error) |
//! |---|---|---|---|
//! | Parse | | `1` | dropped up to the next Sync, else *skip* |
//! | Bind | | `2` | same |
//! | Close | | `3` | same |
//! | Describe | `t` once | `T` `n` | same |
//! | Execute | `D` `H` `d` `c` `G` `W` | `C` `I` `s` | same |
//! | Query | `T` `D` `C` `I` `H` `d` `c` `G` `W` | `Z` | `Z` follows |
//! | FunctionCall | `V` | `Z` after `V` or `E` | `Z` follows |
//! | Sync | | `Z` | `Z` follows |
//! | none, batch open | | | *skip*: a Flush failed |
//! | none | | | only `FATAL` |
//!
//! `N`, `S` and `A` come at any time. Everything else is [`TrackError::Unexpected`].
//!
//! | state of the client's side | its requests | Sync | Flush | `d` | `c` `f` |
//! |---|---|---|---|---|---|
//! | nothing outstanding | queued | queued | no answer | discarded | discarded |
//! | something outstanding | queued | queued | no answer | passed | passed and queued: they end a COPY that may begin |
//! | *skip* | passed, no answer | queued, ends *skip* | no answer | as above | as above |
//! | COPY in | *doubtful* | passed, no answer | no answer | passed | ends the client's side |
//! | COPY both | *doubtful* | *doubtful* | no answer | passed | ends the client's side |
//! | COPY in or both, client's side ended | queued | queued | no answer | passed | passed and queued |
//!
//! *Doubtful* means that the number of answers to come is not known: the lease never ends well, and what the server
//! still says is passed on without being held against the queue. The worker closes such a server.

mod answer;
mod copy;
mod request;
mod server;

use std::collections::VecDeque;

pub use answer::{Copy, Done, Forward, Note, Seen, TrackError};
use request::{By, Entry, Kind};

/// How far the request at the head of the queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing that matters has come.
    #[default]
    Fresh,
    /// `t` of a Describe or `V` of a FunctionCall has come.
    Answered,
    /// `E` has come, and `Z` will.
    Failed,
}

/// The state of one server connection, as far as the protocol goes (manual: "Message Flow").
#[derive(Debug)]
pub struct Tracker {
    queue: VecDeque<Entry>,
    stage: Stage,
    /// Of the last ReadyForQuery.
    status: u8,
    copy: Copy,
    /// The client has sent CopyDone or CopyFail for the COPY in or both that is running.
    ended: bool,
    /// A Sync was swallowed by the COPY in that is running.
    eaten: bool,
    /// The server ignores everything up to the next Sync.
    skip: bool,
    /// An extended request went out after the last Sync, Query or FunctionCall.
    open: bool,
    doubtful: bool,
    own: usize,
    dropped: Vec<Note>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

impl Tracker {
    /// For a server that has just said ReadyForQuery `I` at the end of its login.
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            stage: Stage::Fresh,
            status: b'I',
            copy: Copy::None,
            ended: false,
            eaten: false,
            skip: false,
            open: false,
            doubtful: false,
            own: 0,
            dropped: Vec::new(),
        }
    }

    /// `I`, `T` or `E` of the last ReadyForQuery.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Whether any request waits for its answer. Also when it is false the lease may not be over: see [`Self::may_release`].
    pub fn busy(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many requests wait for their answers; above a bound of its own the worker stops reading its client.
    pub fn outstanding(&self) -> usize {
        self.queue.len()
    }

    /// How many of them the pooler itself has sent.
    pub fn own_pending(&self) -> usize {
        self.own
    }

    /// Whether the server can go to someone else: the last word was ReadyForQuery `I`, and nothing came after it.
    ///
    /// A message of which only a part has been forwarded is the worker's to know.
    pub fn may_release(&self) -> bool {
        self.queue.is_empty()
            && self.status == b'I'
            && !self.open
            && !self.skip
            && !self.doubtful
            && self.copy == Copy::None
    }

    /// Whether the connection is out of step, or is about to be closed by the server: never to be used by anyone else.
    pub fn doubtful(&self) -> bool {
        self.doubtful
    }

    /// Whether the server ignores everything up to the next Sync. Nothing of our own may be injected then.
    pub fn skipping(&self) -> bool {
        self.skip
    }

    /// Whether extended requests have been forwarded after the last Sync, Query or FunctionCall.
    pub fn in_batch(&self) -> bool {
        self.open || self.skip
    }

    /// The COPY that the server is in.
    pub fn copy(&self) -> Copy {
        self.copy
    }

    /// The notes, other than [`Note::None`], of the requests that the last `E` made the server ignore.
    pub fn dropped(&self) -> &[Note] {
        &self.dropped
    }

    fn push(&mut self, kind: Kind, by: By, note: Note) {
        self.own += usize::from(by == By::Pooler);
        self.queue.push_back(Entry { kind, by, note });
    }

    /// Takes the head, and the ends of copies that never were from behind it.
    fn pop(&mut self) {
        self.stage = Stage::Fresh;
        self.discard();
        while self.queue.front().is_some_and(|e| e.kind == Kind::CopyEnd) {
            self.discard();
        }
    }

    fn discard(&mut self) {
        if let Some(entry) = self.queue.pop_front() {
            self.own -= usize::from(entry.by == By::Pooler);
        }
    }
}
