//! The console's protocol face: bytes of one authenticated client in, statements and bytes out.
//!
//! It owns the framing, both query protocols, and the small talk that drivers make when they
//! connect. It never runs a statement, never asks who the client is, and does no I/O. The
//! supervisor uses it for direct connections, a worker for clients of the database `pgbouncer`.

mod binary;
mod extended;
mod own;
mod request;
mod script;
mod write;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use pgfleet_wire::back::{self, ErrorFields};
use pgfleet_wire::frame;
use pgfleet_wire::key::CancelKey;

use crate::link::table::{Outcome, Reply};
use extended::{Extended, Wanted};
use own::Own;
use request::Request;

/// The most bytes of one statement; a message may be a little longer.
const LONGEST_TEXT: usize = 64 << 10;
const LONGEST_MESSAGE: usize = LONGEST_TEXT + 1024;
/// The most bytes that a client may send ahead while a statement is being answered.
const LONGEST_QUEUE: usize = 4 * LONGEST_MESSAGE;
/// PgBouncer's SQLSTATE for whatever its console refuses.
const PROTOCOL: &str = "08P01";

/// What the client is told about its server when it is let in, besides `AuthenticationOk`.
pub(crate) const PARAMETERS: [(&str, &str); 8] = [
    ("server_version", "1.25.2/pgfleet"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("TimeZone", "GMT"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "off"),
    ("integer_datetimes", "on"),
];

/// Appends what follows `AuthenticationOk`, up to the first `ReadyForQuery`.
pub(crate) fn greeting(out: &mut Vec<u8>, key: &CancelKey) {
    for (name, value) in PARAMETERS {
        back::parameter_status(out, name, value);
    }
    back::backend_key(out, key);
    back::ready(out, b'I');
}

/// What the caller does next, after it has written what was appended to `out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read more of the client's bytes.
    NeedMore,
    /// Run this statement and call [`Session::answer`]. Bytes that arrive until then are kept.
    Ask(String),
    /// Close the connection.
    Close,
}

/// One console session after its login.
#[derive(Debug, Default)]
pub(crate) struct Session {
    buffer: Vec<u8>,
    mode: Mode,
    transaction: Transaction,
    extended: Extended,
}

/// What the next message, or the next answer, means.
///
/// | mode | a message | an answer |
/// |---|---|---|
/// | `Idle` | is handled | is dropped: nothing was asked |
/// | `Skipping` | is dropped, until `Sync` or `Terminate` | is dropped |
/// | `Simple` | waits | ends a statement of the script |
/// | `Extended` | waits | is for a `Describe` or an `Execute` |
/// | `Closed` | is dropped | is dropped |
#[derive(Debug, Default)]
enum Mode {
    #[default]
    Idle,
    /// An extended request failed.
    Skipping,
    /// A statement of a `Query` was asked; these come after it.
    Simple(VecDeque<String>),
    /// A statement was asked for this.
    Extended(Wanted),
    Closed,
}

/// What `BEGIN` and its end would have changed. The console has no transactions, but drivers look
/// at the status to learn whether their own `BEGIN` has been heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transaction {
    #[default]
    None,
    Open,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of the client, cut anywhere, and appends what it gets to `out`.
    pub(crate) fn input(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !matches!(self.mode, Mode::Closed) {
            self.buffer.extend_from_slice(bytes);
        }
        self.run(out)
    }

    /// Takes the reply to the statement of the last [`Step::Ask`], and goes on with what the client
    /// has sent since.
    pub(crate) fn answer(&mut self, reply: Reply, out: &mut Vec<u8>) -> Step {
        match std::mem::take(&mut self.mode) {
            Mode::Idle => {}
            Mode::Skipping => self.mode = Mode::Skipping,
            Mode::Closed => self.mode = Mode::Closed,
            Mode::Simple(mut rest) => {
                if matches!(reply.outcome, Outcome::Refused { .. }) {
                    rest.clear();
                }
                write::simple(out, &reply);
                if let Some(text) = self.script(rest, out) {
                    return Step::Ask(text);
                }
            }
            Mode::Extended(wanted) => {
                let done = self.extended.answered(wanted, reply, out);
                self.settle(done, out);
            }
        }
        self.run(out)
    }

    /// Handles whole messages until one must be asked, the client leaves, or no more are there.
    fn run(&mut self, out: &mut Vec<u8>) -> Step {
        let mut used = 0;
        let step = loop {
            match self.mode {
                Mode::Idle | Mode::Skipping => {}
                Mode::Simple(_) | Mode::Extended(_) => break Step::NeedMore,
                Mode::Closed => break Step::Close,
            }
            let request = match request_at(self.buffer.get(used..).unwrap_or_default()) {
                Ok(Some((request, length))) => {
                    used += length;
                    request
                }
                Ok(None) => break Step::NeedMore,
                Err(error) => break self.fail(&error, out),
            };
            if let Some(step) = self.handle(request, out) {
                break step;
            }
        };
        self.buffer.drain(..used.min(self.buffer.len()));
        match step {
            Step::NeedMore if self.buffer.len() > LONGEST_QUEUE => {
                let error = ErrorFields::fatal(PROTOCOL, "too much was sent ahead of an answer");
                self.fail(&error, out)
            }
            Step::NeedMore | Step::Ask(_) | Step::Close => step,
        }
    }

    fn fail(&mut self, error: &ErrorFields, out: &mut Vec<u8>) -> Step {
        back::error(out, error);
        self.close()
    }

    fn close(&mut self) -> Step {
        *self = Self { mode: Mode::Closed, ..Self::default() };
        Step::Close
    }

    /// `None` means: on to the next message.
    fn handle(&mut self, request: Request, out: &mut Vec<u8>) -> Option<Step> {
        if matches!(self.mode, Mode::Skipping)
            && !matches!(request, Request::Sync | Request::Terminate)
        {
            return None;
        }
        let done = match request {
            Request::Terminate => return Some(self.close()),
            Request::Query(text) => {
                self.extended.forget_unnamed();
                let statements = script::statements(&text);
                if statements.is_empty() {
                    back::empty_query(out);
                }
                return self.script(statements, out).map(Step::Ask);
            }
            Request::NotText => {
                back::error(out, &ErrorFields::error(PROTOCOL, "statement is not valid UTF-8"));
                self.ready(out);
                return None;
            }
            Request::Sync => {
                self.mode = Mode::Idle;
                if self.transaction == Transaction::None {
                    self.extended.forget_portals();
                }
                self.ready(out);
                return None;
            }
            // All that there is has been appended already.
            Request::Flush => Ok(()),
            Request::Parse { name, text } => self.extended.parse(name, text, out),
            Request::Bind(bind) => self.extended.bind(bind, out),
            Request::Close(target) => {
                self.extended.close(&target, out);
                Ok(())
            }
            Request::Describe(target) => match self.extended.describe(target, out) {
                Ok(wanted) => return self.want(wanted, out),
                Err(error) => Err(error),
            },
            Request::Execute { portal, most } => match self.extended.execute(portal, most, out) {
                Ok(wanted) => return self.want(wanted, out),
                Err(error) => Err(error),
            },
        };
        self.settle(done, out);
        None
    }

    /// Asks for what a `Describe` or `Execute` wants, or answers it from here.
    fn want(&mut self, wanted: Option<Wanted>, out: &mut Vec<u8>) -> Option<Step> {
        let wanted = wanted?;
        match own::answer(wanted.text()) {
            Some(own) => {
                // A description is no run: it opens and ends nothing.
                if wanted.runs() {
                    self.note(&own);
                }
                let done = self.extended.answered(wanted, own.reply, out);
                self.settle(done, out);
                None
            }
            None => {
                let text = wanted.text().to_owned();
                self.mode = Mode::Extended(wanted);
                Some(Step::Ask(text))
            }
        }
    }

    fn settle(&mut self, done: Result<(), ErrorFields>, out: &mut Vec<u8>) {
        if let Err(error) = done {
            back::error(out, &error);
            self.mode = Mode::Skipping;
        }
    }

    /// Goes through a script up to the statement that must be asked, or to its end.
    fn script(&mut self, mut rest: VecDeque<String>, out: &mut Vec<u8>) -> Option<String> {
        while let Some(text) = rest.pop_front() {
            match own::answer(&text) {
                Some(own) => {
                    self.note(&own);
                    write::simple(out, &own.reply);
                }
                None => {
                    self.mode = Mode::Simple(rest);
                    return Some(text);
                }
            }
        }
        self.mode = Mode::Idle;
        self.ready(out);
        None
    }

    fn note(&mut self, own: &Own) {
        self.transaction = match own.effect {
            own::Effect::Begins => Transaction::Open,
            own::Effect::Ends => Transaction::None,
            own::Effect::None => self.transaction,
        };
    }

    fn ready(&self, out: &mut Vec<u8>) {
        let status = match self.transaction {
            Transaction::None => b'I',
            Transaction::Open => b'T',
        };
        back::ready(out, status);
    }
}

/// The first message of `buffer` and its length, if it is whole.
fn request_at(buffer: &[u8]) -> Result<Option<(Request, usize)>, ErrorFields> {
    let bad = |text: &str| ErrorFields::fatal(PROTOCOL, text);
    let Some(header) = frame::header(buffer).map_err(|_| bad("bad packet header"))? else {
        return Ok(None);
    };
    if header.len > LONGEST_MESSAGE {
        let text = "message is too long for the console: a statement may have 64 kB";
        return Err(bad(text));
    }
    match buffer.get(frame::HEADER..header.len) {
        Some(body) => {
            let request = Request::read(header.tag, body).ok_or_else(|| bad("bad packet"))?;
            Ok(Some((request, header.len)))
        }
        None => Ok(None),
    }
}
