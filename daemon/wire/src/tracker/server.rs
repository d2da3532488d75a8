//! The server's side of the tracker: what an answer belongs to, and what it finishes.
//! It reads the status of ReadyForQuery and the severity of an error, and no other body.
//! The relay calls it for every message of the server.

use super::request::{By, Entry, Kind};
use super::{Copy, Seen, Stage, TrackError, Tracker};
use crate::back::says_fatal;

/// What a message of the server is about.
enum Step {
    /// Belongs to the head and does not finish it.
    Within,
    /// Finishes the head.
    Finish,
    /// Answers nothing that was asked.
    Unexpected,
}

impl Tracker {
    /// A message of the server (manual: "Message Flow").
    ///
    /// `body` is needed of `Z` (its one byte) and of `E` (enough to see the severity). `Unexpected` means that the
    /// connection is out of step and must be closed.
    pub fn server(&mut self, tag: u8, body: &[u8]) -> Result<Seen, TrackError> {
        match tag {
            b'Z' => return self.ready(body),
            b'E' => return self.error(body),
            b'N' | b'S' => {
                return Ok(Seen {
                    swallow: self.queue.front().is_some_and(|e| e.by == By::Pooler),
                    done: None,
                });
            }
            b'A' => return Ok(Seen::PASS),
            _ => {}
        }
        let Some(&head) = self.queue.front() else {
            return self.unexpected(tag);
        };
        let swallow = head.by == By::Pooler;
        match self.step(head, tag) {
            Step::Within => Ok(Seen { swallow, done: None }),
            Step::Finish => {
                self.pop();
                Ok(Seen { swallow, done: head.done() })
            }
            Step::Unexpected => self.unexpected(tag),
        }
    }

    fn step(&mut self, head: Entry, tag: u8) -> Step {
        if self.stage == Stage::Failed {
            return Step::Unexpected;
        }
        match (head.kind, tag) {
            (Kind::Query | Kind::Execute, b'D') | (Kind::Query, b'I') => Step::Within,
            (Kind::Query, b'T') => {
                if self.copy == Copy::Both {
                    self.leave_copy();
                }
                Step::Within
            }
            (Kind::Query, b'C') => {
                self.complete_copy();
                Step::Within
            }
            (Kind::Execute, b'C' | b'I' | b's') => {
                self.complete_copy();
                Step::Finish
            }
            (Kind::Query | Kind::Execute, b'G' | b'H' | b'W' | b'd' | b'c') => {
                self.copy_step(head, tag)
            }
            (Kind::Parse, b'1')
            | (Kind::Bind, b'2')
            | (Kind::Close, b'3')
            | (Kind::Describe, b'T' | b'n') => Step::Finish,
            (Kind::Describe, b't') | (Kind::Function, b'V') if self.stage == Stage::Fresh => {
                self.stage = Stage::Answered;
                Step::Within
            }
            _ => Step::Unexpected,
        }
    }

    fn copy_step(&mut self, head: Entry, tag: u8) -> Step {
        match (self.copy, tag) {
            (Copy::None, b'G') if head.by == By::Client => self.begin_copy(Copy::In),
            (Copy::None, b'H') => self.copy = Copy::Out,
            (Copy::None, b'W') if head.by == By::Client => self.begin_copy(Copy::Both),
            (Copy::Out, b'c') => self.leave_copy(),
            (Copy::Out | Copy::Both, b'd') | (Copy::Both, b'c') => {}
            _ => return Step::Unexpected,
        }
        Step::Within
    }

    /// ReadyForQuery: ends a Query, a FunctionCall or a Sync.
    fn ready(&mut self, body: &[u8]) -> Result<Seen, TrackError> {
        let Some(&status @ (b'I' | b'T' | b'E')) = body.first() else {
            return Err(TrackError::Unexpected {
                tag: b'Z',
                expected: "ReadyForQuery with status I, T or E",
            });
        };
        let due = match self.queue.front() {
            Some(head) if head.kind == Kind::Function => self.stage != Stage::Fresh,
            Some(head) => head.kind.ends_batch() && matches!(self.copy, Copy::None | Copy::Both),
            None => false,
        };
        let Some(&head) = self.queue.front().filter(|_| due) else {
            let seen = self.unexpected(b'Z')?;
            self.status = status;
            return Ok(seen);
        };
        let failed = self.stage == Stage::Failed && head.kind != Kind::Sync;
        if self.copy == Copy::Both {
            self.leave_copy();
        }
        self.status = status;
        self.pop();
        Ok(Seen { swallow: head.by == By::Pooler, done: if failed { None } else { head.done() } })
    }

    /// ErrorResponse: fails the head; what the server then ignores leaves the queue.
    fn error(&mut self, body: &[u8]) -> Result<Seen, TrackError> {
        let fatal = says_fatal(body);
        self.doubtful |= fatal;
        let Some(&head) = self.queue.front() else {
            return self.error_without_request();
        };
        if self.stage == Stage::Failed {
            return self.unexpected(b'E');
        }
        self.dropped.clear();
        self.fail_copy();
        let swallow = if head.kind.ends_batch() {
            self.stage = Stage::Failed;
            head.by == By::Pooler
        } else {
            self.pop();
            self.drop_to_sync();
            // A request of ours in the client's batch: the client sees why its batch failed.
            head.by == By::Pooler && self.queue.front().is_some_and(|e| e.by == By::Pooler)
        };
        Ok(Seen { swallow, done: Some(head.failed()) })
    }

    /// A Flush fails if a timeout went off while the server waited for it; then it skips like the others.
    fn error_without_request(&mut self) -> Result<Seen, TrackError> {
        if self.open && !self.skip {
            self.dropped.clear();
            self.skip = true;
            return Ok(Seen::PASS);
        }
        self.unexpected(b'E')
    }

    fn drop_to_sync(&mut self) {
        while let Some(entry) = self.queue.front() {
            if entry.kind == Kind::Sync {
                return;
            }
            if entry.note != super::Note::None {
                self.dropped.push(entry.note);
            }
            self.discard();
        }
        self.skip = true;
    }

    /// Out of step; on a doubtful connection that was to be expected, and the client may see it.
    fn unexpected(&self, tag: u8) -> Result<Seen, TrackError> {
        let known = b"123CDEGHITVWZcdnst".contains(&tag);
        if self.doubtful && known {
            return Ok(Seen::PASS);
        }
        Err(TrackError::Unexpected { tag, expected: self.expected() })
    }

    fn expected(&self) -> &'static str {
        match (self.queue.front().map(|head| head.kind), self.stage) {
            (None, _) => "nothing: no request is outstanding",
            (Some(_), Stage::Failed) => "ReadyForQuery after an error",
            (Some(Kind::Parse), _) => "ParseComplete",
            (Some(Kind::Bind), _) => "BindComplete",
            (Some(Kind::Close), _) => "CloseComplete",
            (Some(Kind::Describe), _) => "RowDescription or NoData",
            (Some(Kind::Execute), _) => "the result of an Execute",
            (Some(Kind::Query), _) => "the results of a Query",
            (Some(Kind::Function), Stage::Fresh) => "FunctionCallResponse",
            (Some(Kind::Function | Kind::Sync), _) => "ReadyForQuery",
            (Some(Kind::CopyEnd), _) => "nothing",
        }
    }
}
