//! COPY in the tracker (manual: "COPY Operations"): who may send data, and what COPY swallows.
//! It never sees the data.
//! The two sides of the tracker call it.

use super::request::{By, Kind};
use super::{Copy, Forward, Note, Tracker};

impl Tracker {
    /// CopyData of the client: it is for a COPY that runs, or one that an outstanding request may begin.
    pub(super) fn copy_data(&self) -> Forward {
        if self.queue.is_empty() { Forward::Discard } else { Forward::Pass }
    }

    /// CopyDone or CopyFail of the client.
    pub(super) fn copy_end(&mut self) -> Forward {
        if self.queue.is_empty() {
            return Forward::Discard;
        }
        match self.copy {
            Copy::In | Copy::Both if !self.ended => self.ended = true,
            Copy::None | Copy::In | Copy::Out | Copy::Both => {
                self.push(Kind::CopyEnd, By::Client, Note::None);
            }
        }
        Forward::Pass
    }

    /// CopyInResponse or CopyBothResponse: what is queued behind the head, up to an end of the copy, went into COPY
    /// and has no answer.
    pub(super) fn begin_copy(&mut self, copy: Copy) {
        self.copy = copy;
        self.ended = false;
        self.eaten = false;
        while let Some(entry) = self.queue.remove(1) {
            self.own -= usize::from(entry.by == By::Pooler);
            match entry.kind {
                Kind::CopyEnd => {
                    self.ended = true;
                    break;
                }
                Kind::Sync if copy == Copy::In => self.eaten = true,
                Kind::Parse
                | Kind::Bind
                | Kind::Describe
                | Kind::Execute
                | Kind::Close
                | Kind::Query
                | Kind::Function
                | Kind::Sync => self.doubtful = true,
            }
        }
        // A swallowed Sync ends no batch.
        if self.eaten && !self.queue.iter().any(|entry| entry.kind.ends_batch()) {
            self.open = true;
        }
    }

    /// CommandComplete: the server has read CopyDone, so it has read what came before it too.
    pub(super) fn complete_copy(&mut self) {
        self.doubtful |= self.copy == Copy::In && !self.ended;
        self.leave_copy();
    }

    /// ErrorResponse: whether the server read a swallowed Sync before or after it left COPY is not known.
    pub(super) fn fail_copy(&mut self) {
        self.doubtful |= self.copy == Copy::In && self.eaten;
        self.leave_copy();
    }

    pub(super) fn leave_copy(&mut self) {
        self.copy = Copy::None;
        self.ended = false;
        self.eaten = false;
    }
}
