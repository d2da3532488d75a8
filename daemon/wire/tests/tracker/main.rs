//! The tracker: the table of its states, the rules of the protocol one by one, and random conversations.
//! No server is needed: `model` is a small Postgres that knows the truth.
//! A lease must end exactly when the server is idle, and never earlier.

mod copies;
mod model;
mod random;
mod rules;
mod table;

use pgfleet_wire::tracker::{Done, Forward, Note, Seen, TrackError, Tracker};

/// A conversation, written as the tags of the messages.
pub(crate) struct Talk(pub(crate) Tracker);

impl Talk {
    pub(crate) fn new() -> Self {
        Self(Tracker::new())
    }

    /// The client sends these; all are passed.
    pub(crate) fn client(&mut self, tags: &str) -> &mut Self {
        for tag in tags.bytes() {
            let got = self.0.client(tag, Note::None);
            assert_eq!(got, Ok(Forward::Pass), "{}", char::from(tag));
        }
        self
    }

    /// The client sends these; none may reach the server.
    pub(crate) fn discarded(&mut self, tags: &str) -> &mut Self {
        for tag in tags.bytes() {
            assert_eq!(self.0.client(tag, Note::None), Ok(Forward::Discard));
        }
        self
    }

    /// The pooler sends these.
    pub(crate) fn own(&mut self, tags: &str) -> &mut Self {
        tags.bytes().for_each(|tag| self.0.own(tag));
        self
    }

    pub(crate) fn say(&mut self, tag: u8) -> Result<Seen, TrackError> {
        self.0.server(tag, body(tag))
    }

    /// The server answers these, all for the client; the last finishes this.
    pub(crate) fn server(&mut self, tags: &str) -> Option<Done> {
        self.heard(tags, false)
    }

    /// The server answers these, none for the client.
    pub(crate) fn swallowed(&mut self, tags: &str) -> Option<Done> {
        self.heard(tags, true)
    }

    fn heard(&mut self, tags: &str, swallow: bool) -> Option<Done> {
        let mut done = None;
        for tag in tags.bytes() {
            let seen = self.say(tag).expect("in step");
            assert_eq!(seen.swallow, swallow, "{}", char::from(tag));
            done = seen.done;
        }
        done
    }

    pub(crate) fn held(&self) -> &Self {
        assert!(!self.0.may_release(), "{:?}", self.0);
        self
    }

    pub(crate) fn free(&self) -> &Self {
        assert!(self.0.may_release(), "{:?}", self.0);
        self
    }
}

/// A body that does for a message with this tag.
pub(crate) fn body(tag: u8) -> &'static [u8] {
    match tag {
        b'Z' => b"I",
        b'E' => b"SERROR\0VERROR\0C42601\0Mno\0\0",
        _ => b"",
    }
}

pub(crate) const FATAL: &[u8] = b"SFATAL\0VFATAL\0C57P01\0Mgone\0\0";
