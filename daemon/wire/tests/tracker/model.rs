//! A small Postgres that follows the main loop of `tcop/postgres.c` and the COPY loop of `copyfromparse.c`.
//! It reads one message at a time and knows the truth: what is answered, to whom, and what it finishes.
//! `random` talks to it and holds the tracker against it.

use std::collections::VecDeque;

use pgfleet_wire::tracker::{Done, Note};

use crate::{FATAL, body};

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Client,
    OwnBatch,
    OwnInClientsBatch,
}

/// A message on its way to the server; `plan` decides what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) tag: u8,
    pub(crate) plan: u8,
    pub(crate) who: Who,
    pub(crate) note: Note,
}

/// A message on its way back, and what the tracker must say about it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) tag: u8,
    pub(crate) body: &'static [u8],
    pub(crate) swallow: bool,
    pub(crate) done: Option<Done>,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) input: VecDeque<Request>,
    pub(crate) output: VecDeque<Answer>,
    /// What runs: its request, and the answers still to give.
    running: Option<(Request, VecDeque<u8>)>,
    copy: u8,
    ignore: bool,
    batch: bool,
    status: u8,
    pub(crate) closed: bool,
    pub(crate) copy_failed: bool,
}

const QUERIES: [&str; 16] = [
    "TDDC", "I", "CTDC", "!", "TD!", "HddcC", "GC", "CGCTDC", "GCGC", "+C", "-C", "G!", "WdcC",
    "NGC", "NTDC", "TDC",
];
const EXECUTES: [&str; 12] =
    ["DDC", "s", "I", "!", "DD!", "HdcC", "GC", "G!", "+C", "-C", "NC", "C"];

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            input: VecDeque::new(),
            output: VecDeque::new(),
            running: None,
            copy: 0,
            ignore: false,
            batch: false,
            status: b'I',
            closed: false,
            copy_failed: false,
        }
    }

    /// Nothing to read that it would not ignore, nothing under way, no transaction, no batch: someone else could have it.
    pub(crate) fn idle(&self) -> bool {
        let ignored = |request: &Request| b"Hdcf".contains(&request.tag);
        self.input.iter().all(ignored)
            && self.output.is_empty()
            && self.running.is_none()
            && !(self.ignore || self.batch || self.closed)
            && self.status == b'I'
    }

    /// Whether CopyData that comes now could mean anything.
    pub(crate) fn may_copy(&self) -> bool {
        let starts = self.input.iter().any(|r| matches!(r.tag, b'Q' | b'E'));
        self.running.is_some() || (starts && !self.ignore)
    }

    /// Reads and does one message.
    pub(crate) fn step(&mut self) {
        let Some(request) = self.input.pop_front().filter(|_| !self.closed) else {
            return;
        };
        if self.copy != 0 {
            return self.copying(request);
        }
        if request.tag == b'S' {
            self.ignore = false;
        }
        if self.ignore || b"dcfH".contains(&request.tag) {
            return;
        }
        self.batch = !b"SQF".contains(&request.tag);
        let plan = usize::from(request.plan);
        let own = request.who != Who::Client;
        let script = match request.tag {
            b'Q' if self.status == b'E' && !own => ["!", "-C"][plan % 2],
            b'Q' if own => ["C", "TDC", "!"][plan % 3],
            b'Q' => QUERIES[plan % QUERIES.len()],
            b'F' => ["V", "!"][plan % 2],
            b'S' => ["", "", "", "!"][plan % 4],
            b'P' | b'B' | b'D' | b'E' if self.status == b'E' => "!",
            b'E' if own => ["DC", "!"][plan % 2],
            b'E' => EXECUTES[plan % EXECUTES.len()],
            b'P' => ["1", "1", "N1", "!"][plan % 4],
            b'B' => ["2", "2", "2", "!"][plan % 4],
            b'D' => ["T", "n", "tT", "tn", "!", "t!"][plan % 6],
            _ => "3",
        };
        self.running = Some((request, script.bytes().collect()));
        self.go_on();
    }

    /// Answers until the end of the script, or until it is the client's turn.
    fn go_on(&mut self) {
        while let Some((request, script)) = &mut self.running {
            let request = *request;
            match script.pop_front() {
                Some(b'!') => return self.fail(request),
                Some(b'+') => self.status = b'T',
                Some(b'-') => self.status = b'I',
                Some(tag @ (b'G' | b'W')) => {
                    self.copy = tag;
                    self.say(tag, request, None);
                    if script_fails(&self.running) {
                        continue;
                    }
                    return;
                }
                Some(tag) => {
                    let last = script.is_empty() && !b"QFS".contains(&request.tag);
                    self.say(tag, request, done(request).filter(|_| last));
                }
                None => {
                    self.running = None;
                    if b"QFS".contains(&request.tag) {
                        self.say_ready(request, done(request));
                    }
                }
            }
        }
    }

    fn copying(&mut self, request: Request) {
        let Some((copier, _)) = self.running else {
            return;
        };
        match (self.copy, request.tag) {
            (b'G', b'd') if request.plan.is_multiple_of(4) => self.fail(copier),
            (b'G', b'f') => self.fail(copier),
            (_, b'd') | (b'G', b'S' | b'H') | (b'W', b'H') => {}
            (_, b'c') => {
                self.copy = 0;
                self.go_on();
            }
            _ => {
                self.closed = true;
                self.push(b'E', FATAL, false, None);
            }
        }
    }

    fn fail(&mut self, request: Request) {
        self.copy_failed |= self.copy != 0;
        self.copy = 0;
        self.running = None;
        if self.status == b'T' {
            self.status = b'E';
        }
        let done = match request.who {
            Who::Client => Done::Failed(request.tag, request.note),
            Who::OwnBatch | Who::OwnInClientsBatch => Done::OwnFailed(request.tag),
        };
        let swallow = request.who == Who::OwnBatch;
        self.push(b'E', body(b'E'), swallow, Some(done));
        if b"QFS".contains(&request.tag) {
            let done = self::done(request).filter(|_| request.tag == b'S');
            self.say_ready(request, done);
        } else {
            self.ignore = true;
        }
    }

    fn say_ready(&mut self, request: Request, done: Option<Done>) {
        let status: &[u8] = match self.status {
            b'I' => b"I",
            b'T' => b"T",
            _ => b"E",
        };
        self.push(b'Z', status, request.who != Who::Client, done);
    }

    fn say(&mut self, tag: u8, request: Request, done: Option<Done>) {
        self.push(tag, b"", request.who != Who::Client, done);
    }

    fn push(&mut self, tag: u8, body: &'static [u8], swallow: bool, done: Option<Done>) {
        self.output.push_back(Answer { tag, body, swallow, done });
    }
}

/// Whether the COPY that has just begun fails before it reads anything.
fn script_fails(running: &Option<(Request, VecDeque<u8>)>) -> bool {
    running.as_ref().is_some_and(|(_, script)| script.front() == Some(&b'!'))
}

fn done(request: Request) -> Option<Done> {
    if request.who != Who::Client {
        return None;
    }
    let note = request.note;
    Some(match request.tag {
        b'P' => Done::Parse(note),
        b'B' => Done::Bind(note),
        b'D' => Done::Describe(note),
        b'E' => Done::Execute(note),
        b'C' => Done::Close(note),
        b'Q' => Done::Query(note),
        b'F' => Done::Function(note),
        _ => Done::Sync(note),
    })
}
