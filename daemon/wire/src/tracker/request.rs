//! The client's side of the tracker: what is asked of the server, by the client or by the pooler.
//! It never looks into a body.
//! The relay calls it when it forwards, or injects, the header of a message.

use super::{Copy, Done, Forward, Note, TrackError, Tracker};

/// What waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Query,
    Function,
    Sync,
    /// CopyDone or CopyFail that went out before the server began a COPY; it has no answer.
    CopyEnd,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Client,
    Pooler,
}

/// One request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) by: By,
    pub(super) note: Note,
}

impl Kind {
    /// The request with this tag, if it is one that has an answer.
    fn of(tag: u8) -> Option<Self> {
        match tag {
            b'Q' => Some(Self::Query),
            b'P' => Some(Self::Parse),
            b'B' => Some(Self::Bind),
            b'D' => Some(Self::Describe),
            b'E' => Some(Self::Execute),
            b'C' => Some(Self::Close),
            b'S' => Some(Self::Sync),
            b'F' => Some(Self::Function),
            _ => None,
        }
    }

    /// The tag of the request.
    pub(super) fn tag(self) -> u8 {
        match self {
            Self::Parse => b'P',
            Self::Bind => b'B',
            Self::Describe => b'D',
            Self::Execute => b'E',
            Self::Close => b'C',
            Self::Query => b'Q',
            Self::Function => b'F',
            Self::Sync => b'S',
            Self::CopyEnd => b'c',
        }
    }

    /// Whether ReadyForQuery answers it; then no batch is open after it.
    pub(super) fn ends_batch(self) -> bool {
        match self {
            Self::Query | Self::Function | Self::Sync => true,
            Self::Parse
            | Self::Bind
            | Self::Describe
            | Self::Execute
            | Self::Close
            | Self::CopyEnd => false,
        }
    }
}

impl Entry {
    /// What to report when the request has succeeded.
    pub(super) fn done(self) -> Option<Done> {
        if self.by == By::Pooler && self.note == Note::None {
            return None;
        }
        let note = self.note;
        match self.kind {
            Kind::Parse => Some(Done::Parse(note)),
            Kind::Bind => Some(Done::Bind(note)),
            Kind::Describe => Some(Done::Describe(note)),
            Kind::Execute => Some(Done::Execute(note)),
            Kind::Close => Some(Done::Close(note)),
            Kind::Query => Some(Done::Query(note)),
            Kind::Function => Some(Done::Function(note)),
            Kind::Sync => Some(Done::Sync(note)),
            Kind::CopyEnd => None,
        }
    }

    /// What to report when it has failed.
    pub(super) fn failed(self) -> Done {
        match self.by {
            By::Client => Done::Failed(self.kind.tag(), self.note),
            By::Pooler => Done::OwnFailed(self.kind.tag()),
        }
    }
}

impl Tracker {
    /// A message of the client, when its header is about to be forwarded (manual: "Message Flow").
    ///
    /// `note` comes back with the [`Done`] of the request. While [`Tracker::skipping`] it does not: the server ignores
    /// the message. `Unknown` means a tag that a client may not send after its login.
    pub fn client(&mut self, tag: u8, note: Note) -> Result<Forward, TrackError> {
        match Kind::of(tag) {
            Some(kind) => self.request(kind, By::Client, note),
            None => match tag {
                b'd' => return Ok(self.copy_data()),
                b'c' | b'f' => return Ok(self.copy_end()),
                b'H' => {}
                b'X' => self.doubtful = true,
                _ => return Err(TrackError::Unknown(tag)),
            },
        }
        Ok(Forward::Pass)
    }

    /// A message that the pooler itself sends; its answers are swallowed (manual: "Extended Query").
    ///
    /// Either a Query or a whole batch that ends with a Sync, with no batch of the client open; or Parse and Close inside
    /// the client's batch. It must not be called while [`Tracker::skipping`], in COPY or [`Tracker::doubtful`].
    pub fn own(&mut self, tag: u8) {
        self.own_noted(tag, Note::None);
    }

    /// Like [`Tracker::own`], and its success is reported with `note`.
    pub fn own_noted(&mut self, tag: u8, note: Note) {
        match Kind::of(tag) {
            Some(kind) => self.request(kind, By::Pooler, note),
            None if tag == b'H' => {}
            None => self.doubtful = true,
        }
    }

    fn request(&mut self, kind: Kind, by: By, note: Note) {
        if (self.skip || self.copy != Copy::None) && self.unanswered(kind) {
            return;
        }
        self.open = !kind.ends_batch();
        self.push(kind, by, note);
    }

    /// Whether the server will not answer this, because it skips or is in COPY.
    fn unanswered(&mut self, kind: Kind) -> bool {
        match self.copy {
            Copy::In | Copy::Both if self.ended => {}
            Copy::In if kind == Kind::Sync => {
                self.eaten = true;
                return true;
            }
            Copy::In | Copy::Both => {
                self.doubtful = true;
                return true;
            }
            Copy::None | Copy::Out => {}
        }
        if self.skip && kind == Kind::Sync {
            self.skip = false;
        }
        self.skip
    }
}
