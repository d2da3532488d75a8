//! The prepared statements of one client, as far as a lease depends on them.
//!
//! The unnamed statement is remembered as the client sent it and is parsed again on the server
//! where it is used; named ones keep their server until they are rewritten (a later version). It
//! decides what may run, and sends nothing itself.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

/// An unnamed Parse larger than this is not remembered: its client keeps the server instead.
const REMEMBERED: usize = 16 * 1024;

/// So many names are remembered for one client.
const NAMES: usize = 10_000;

/// The ticket of what the pooler itself sends for the unnamed statement.
pub(crate) const REPLAYED: u64 = 0;

/// Longer names are not remembered: their client keeps the server.
const LONGEST_NAME: usize = 256;

/// The unnamed statement that the client believes to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Unnamed {
    #[default]
    None,
    /// The whole Parse message.
    Remembered(Rc<[u8]>),
    /// Too large to be remembered: it lives on the leased server only.
    OnServer,
}

/// A Parse or Close that has been forwarded and not answered yet.
#[derive(Debug)]
struct Pending {
    ticket: u64,
    /// Syncs that the client had sent before it.
    batch: u64,
    name: Box<[u8]>,
    what: What,
}

#[derive(Debug)]
enum What {
    Parse(Unnamed),
    Close,
}

#[derive(Debug, Default)]
struct Book {
    unnamed: Unnamed,
    /// Counts the changes of `unnamed`: a server that has an older one does not have it.
    version: u64,
    named: HashSet<Box<[u8]>>,
    /// More names than are remembered: the server is this client's for good, whatever it is asked.
    countless: bool,
    pending: VecDeque<Pending>,
    tickets: u64,
    batch: u64,
}

/// What is to be done before a message that uses a statement is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// It may run as it is.
    Nothing,
    /// This Parse goes in front, its answer is swallowed.
    Parse(Rc<[u8]>),
    /// The client has no such statement: a Close goes in front, so that no statement of anyone
    /// else can answer, and Postgres itself says that it does not exist.
    Close,
    /// It depends on a Parse of an earlier batch that has not been answered: wait for that.
    Wait,
}

/// The statements of one client. Holds no memory until the first Parse.
#[derive(Debug, Default)]
pub(crate) struct Statements(Option<Box<Book>>);

impl Statements {
    fn book(&mut self) -> &mut Book {
        self.0.get_or_insert_with(Box::default)
    }

    /// A Parse is forwarded. `message` is the whole message if it was at hand.
    /// Returns the ticket by which its answer is told.
    pub(crate) fn parse(&mut self, name: &[u8], message: Option<&[u8]>) -> u64 {
        let book = self.book();
        let unnamed = match message {
            Some(message) if name.is_empty() && message.len() <= REMEMBERED => {
                match &book.unnamed {
                    Unnamed::Remembered(known) if &**known == message => {
                        Unnamed::Remembered(Rc::clone(known))
                    }
                    Unnamed::Remembered(_) | Unnamed::None | Unnamed::OnServer => {
                        Unnamed::Remembered(message.into())
                    }
                }
            }
            Some(_) | None => Unnamed::OnServer,
        };
        book.push(name, What::Parse(unnamed))
    }

    /// A Close of a statement is forwarded.
    pub(crate) fn close(&mut self, name: &[u8]) -> u64 {
        self.book().push(name, What::Close)
    }

    /// A Sync is forwarded: what comes after it is a new batch.
    pub(crate) fn sync(&mut self) {
        if let Some(book) = &mut self.0 {
            book.batch += 1;
        }
    }

    /// What must come before a Bind or Describe of `name`. `on_server` says whether the server's
    /// unnamed statement is this client's last one.
    pub(crate) fn before_use(&self, name: &[u8], on_server: OnServer) -> Before {
        let Some(book) = &self.0 else { return Before::Close };
        let mut waits = false;
        for pending in book.pending.iter().rev().filter(|pending| &*pending.name == name) {
            if pending.batch == book.batch {
                // In the same batch: if it fails, what follows is skipped by the server.
                return Before::Nothing;
            }
            waits = true;
        }
        if waits {
            return Before::Wait;
        }
        if !name.is_empty() {
            let known = book.countless || book.named.contains(name);
            return if known { Before::Nothing } else { Before::Close };
        }
        match (&book.unnamed, on_server) {
            (Unnamed::None, OnServer::Another) => Before::Close,
            (Unnamed::Remembered(parse), OnServer::Another) => Before::Parse(Rc::clone(parse)),
            (Unnamed::None | Unnamed::Remembered(_) | Unnamed::OnServer, OnServer::Own)
            | (Unnamed::OnServer, OnServer::Another) => Before::Nothing,
        }
    }

    /// A Parse or Close was carried out.
    /// Returns whether it was an unnamed Parse: that statement is on the server now.
    pub(crate) fn done(&mut self, ticket: u64) -> bool {
        let Some(book) = &mut self.0 else { return false };
        let Some(pending) = book.take(ticket) else { return false };
        match pending.what {
            What::Parse(unnamed) if pending.name.is_empty() => {
                book.set_unnamed(unnamed);
                return true;
            }
            What::Parse(_) if book.named.len() >= NAMES || pending.name.len() > LONGEST_NAME => {
                book.countless = true;
            }
            What::Parse(_) => {
                book.named.insert(pending.name);
            }
            What::Close if pending.name.is_empty() => book.set_unnamed(Unnamed::None),
            What::Close => {
                book.named.remove(&pending.name);
            }
        }
        false
    }

    /// A Parse or Close failed. Postgres drops the unnamed statement before it parses the next.
    pub(crate) fn failed(&mut self, ticket: u64) {
        if let Some(book) = &mut self.0
            && let Some(pending) = book.take(ticket)
            && pending.name.is_empty()
        {
            book.set_unnamed(Unnamed::None);
        }
    }

    /// A simple query ran: it drops the unnamed statement.
    pub(crate) fn query_ran(&mut self) {
        if let Some(book) = &mut self.0 {
            book.set_unnamed(Unnamed::None);
        }
    }

    /// `DEALLOCATE ALL` or `DISCARD ALL` ran.
    pub(crate) fn deallocated(&mut self) {
        if let Some(book) = &mut self.0 {
            book.named.clear();
        }
    }

    /// Nothing is outstanding any more: what was never answered was skipped.
    pub(crate) fn settled(&mut self) {
        if let Some(book) = &mut self.0 {
            book.pending.clear();
        }
    }

    /// Whether the client has a statement that lives only on its server.
    pub(crate) fn pin(&self) -> bool {
        self.0.as_ref().is_some_and(|book| {
            book.countless || !book.named.is_empty() || book.unnamed == Unnamed::OnServer
        })
    }

    /// Which of its unnamed statements the client believes to have.
    pub(crate) fn version(&self) -> u64 {
        self.0.as_ref().map_or(0, |book| book.version)
    }

    /// Named statements.
    pub(crate) fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |book| book.named.len())
    }

    /// The server is gone or was reset.
    pub(crate) fn forget(&mut self) {
        if let Some(book) = &mut self.0 {
            **book = Book { version: book.version + 1, ..Book::default() };
        }
    }
}

/// Whose unnamed statement a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnServer {
    Own,
    Another,
}

impl Book {
    fn set_unnamed(&mut self, unnamed: Unnamed) {
        self.unnamed = unnamed;
        self.version += 1;
    }

    fn push(&mut self, name: &[u8], what: What) -> u64 {
        self.tickets += 1;
        let (ticket, batch) = (self.tickets, self.batch);
        self.pending.push_back(Pending { ticket, batch, name: name.into(), what });
        ticket
    }

    /// Answers come in order: what stands before it was skipped.
    fn take(&mut self, ticket: u64) -> Option<Pending> {
        while let Some(pending) = self.pending.pop_front() {
            if pending.ticket == ticket {
                return Some(pending);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARSE: &[u8] = b"P\0\0\0\x10\0select 1\0\0\0";

    #[test]
    fn an_unnamed_statement_is_replayed_on_another_server_and_only_there() {
        let mut statements = Statements::default();
        let ticket = statements.parse(b"", Some(PARSE));
        assert_eq!(statements.before_use(b"", OnServer::Another), Before::Nothing);
        assert!(statements.done(ticket));
        statements.sync();
        assert_eq!(statements.before_use(b"", OnServer::Own), Before::Nothing);
        assert_eq!(statements.before_use(b"", OnServer::Another), Before::Parse(PARSE.into()));
        assert!(!statements.pin());
    }

    #[test]
    fn what_a_client_never_parsed_is_nobody_s() {
        let mut statements = Statements::default();
        assert_eq!(statements.before_use(b"", OnServer::Another), Before::Close);
        assert_eq!(statements.before_use(b"s1", OnServer::Own), Before::Close);
        let ticket = statements.parse(b"s1", Some(PARSE));
        statements.done(ticket);
        assert_eq!(statements.before_use(b"s1", OnServer::Another), Before::Nothing);
        assert_eq!(statements.before_use(b"s2", OnServer::Another), Before::Close);
        assert!(statements.pin());
    }

    #[test]
    fn a_parse_of_an_earlier_batch_is_waited_for() {
        let mut statements = Statements::default();
        statements.parse(b"", Some(PARSE));
        statements.sync();
        assert_eq!(statements.before_use(b"", OnServer::Another), Before::Wait);
        statements.settled();
        assert_eq!(statements.before_use(b"", OnServer::Another), Before::Close);
    }

    #[test]
    fn a_failed_parse_a_query_and_a_close_drop_the_unnamed_statement() {
        for drop in [
            |statements: &mut Statements| statements.query_ran(),
            |statements: &mut Statements| {
                let ticket = statements.parse(b"", Some(b"P bad"));
                statements.failed(ticket);
            },
            |statements: &mut Statements| {
                let ticket = statements.close(b"");
                statements.done(ticket);
            },
        ] {
            let mut statements = Statements::default();
            let ticket = statements.parse(b"", Some(PARSE));
            statements.done(ticket);
            drop(&mut statements);
            assert_eq!(statements.before_use(b"", OnServer::Another), Before::Close);
        }
    }

    #[test]
    fn a_statement_too_large_to_remember_keeps_the_server() {
        let mut statements = Statements::default();
        let ticket = statements.parse(b"", Some(&vec![0; REMEMBERED + 1]));
        statements.done(ticket);
        assert!(statements.pin());
        statements.query_ran();
        assert!(!statements.pin());
    }

    #[test]
    fn names_are_bounded_and_beyond_them_the_server_is_the_client_s_for_good() {
        let mut statements = Statements::default();
        for number in 0..=NAMES {
            let ticket = statements.parse(number.to_string().as_bytes(), None);
            statements.done(ticket);
        }
        assert_eq!(statements.count(), NAMES);
        let last = NAMES.to_string();
        assert_eq!(statements.before_use(last.as_bytes(), OnServer::Own), Before::Nothing);
        statements.deallocated();
        assert!(statements.pin());
    }

    #[test]
    fn deallocate_all_forgets_only_what_came_before_it() {
        let mut statements = Statements::default();
        let early = statements.parse(b"early", Some(PARSE));
        let late = statements.parse(b"late", Some(PARSE));
        statements.done(early);
        statements.deallocated();
        statements.done(late);
        assert_eq!(statements.count(), 1);
        assert_eq!(statements.before_use(b"late", OnServer::Own), Before::Nothing);
    }
}
