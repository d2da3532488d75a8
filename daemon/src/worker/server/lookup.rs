//! Asking a server for the secret of a user: `auth_query`, with the name as a bound parameter.
//!
//! It goes as one batch of the extended protocol, in which `search_path` is set for that transaction
//! alone, so that nothing which a session left behind decides what the query means. Whole messages
//! are read here and bounded; the tracker does not see them, and the server is as it was afterwards.

use pgfleet_config::Lookup;
use pgfleet_wire::back::ErrorFields;
use pgfleet_wire::{frame, front};
use thiserror::Error;

use super::{Phase, retire::Lost};
use crate::worker::ids::{ClientId, ServerId};
use crate::worker::state::Worker;
use crate::worker::stats::micros;

/// A secret is short; more than this is none.
const LONGEST: usize = 32 * 1024;

/// For the query that is ours, which means nothing but the catalog.
const CATALOG: &str = "SELECT pg_catalog.set_config('client_encoding', 'UTF8', true), \
     pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)";

/// For the operator's: what the role and the database are set to, whatever a session has set since.
const AS_CONFIGURED: &str = "SELECT pg_catalog.set_config('client_encoding', 'UTF8', true), \
     pg_catalog.set_config('search_path', reset_val, true) \
     FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'search_path'";

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no such user.
    Nobody,
    /// Its secret; empty if there is none that could match.
    Secret(String),
    /// The query is of no use.
    Failed(Failure),
}

/// Why a query is of no use; the texts are PgBouncer's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Failure {
    /// What Postgres says is for the log alone.
    #[error("error response from auth_query")]
    Error(String),
    #[error("expected 2 columns from auth_query, not {0}")]
    Columns(u16),
    #[error("auth_query response contained null user name")]
    NoName,
    #[error("unexpected response from auth_query")]
    Unexpected(&'static str),
    /// A reload has come between.
    #[error("bouncer config error")]
    Removed,
}

impl Failure {
    /// More of it, for the operator.
    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::Error(reason) => reason,
            Self::Unexpected(what) => what,
            Self::Columns(_) => "it must give the name and the secret",
            Self::NoName => "the first column must be the name",
            Self::Removed => "auth_user was removed",
        }
    }
}

/// An answer in the making.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Statements that have been parsed: the second one is the query.
    parsed: u8,
    columns: Option<u16>,
    found: Option<Found>,
}

/// What one message led to.
enum Turn {
    Go,
    Done(u8),
    OutOfStep,
}

impl Reading {
    fn message(&mut self, tag: u8, body: &[u8]) -> Turn {
        match tag {
            b'1' => self.parsed = self.parsed.saturating_add(1),
            b'T' => self.columns = body.first_chunk().map(|count| u16::from_be_bytes(*count)),
            b'n' => self.columns = Some(0),
            b'D' if self.parsed == 2 && self.found.is_none() => self.found = Some(self.row(body)),
            b'E' => {
                let reason = match ErrorFields::parse(body) {
                    Ok(fields) => format!("{} ({})", fields.message, fields.code),
                    Err(_) => "malformed error".to_owned(),
                };
                self.found = Some(Found::Failed(Failure::Error(reason)));
            }
            b'Z' => return body.first().map_or(Turn::OutOfStep, |status| Turn::Done(*status)),
            b'2' | b'C' | b'D' | b'I' | b'N' | b'S' | b'A' | b's' => {}
            _ => return Turn::OutOfStep,
        }
        Turn::Go
    }

    fn row(&self, body: &[u8]) -> Found {
        if self.columns != Some(2) {
            return self.wrong_columns();
        }
        match values(body).as_deref() {
            Some([Some(_), None]) => Found::Secret(String::new()),
            Some([Some(_), Some(secret)]) => match String::from_utf8(secret.clone()) {
                Ok(secret) => Found::Secret(secret),
                Err(_) => Found::Failed(Failure::Unexpected("the secret is not valid UTF-8")),
            },
            Some([None, _]) => Found::Failed(Failure::NoName),
            Some(_) | None => Found::Failed(Failure::Unexpected("malformed row")),
        }
    }

    fn wrong_columns(&self) -> Found {
        Found::Failed(Failure::Columns(self.columns.unwrap_or_default()))
    }

    fn finish(self) -> Found {
        match self.found {
            Some(found) => found,
            None if self.columns != Some(2) => self.wrong_columns(),
            None => Found::Nobody,
        }
    }
}

/// The values of a `DataRow`.
fn values(body: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let (count, mut rest) = body.split_first_chunk()?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count).min(16) {
        let (length, after) = rest.split_first_chunk()?;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                values.push(Some(after.get(..length)?.to_vec()));
                rest = after.get(length..)?;
            }
            Err(_) => {
                values.push(None);
                rest = after;
            }
        }
    }
    Some(values)
}

/// The batch that looks a user up.
fn batch(lookup: &Lookup, user: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let path = if lookup.is_default() { CATALOG } else { AS_CONFIGURED };
    front::parse(&mut out, "", path, &[]);
    front::bind(&mut out, "", "", &[]);
    front::execute(&mut out, "", 0);
    front::parse(&mut out, "", &lookup.query, &[]);
    front::bind(&mut out, "", "", &[Some(user.as_bytes())]);
    front::describe(&mut out, b'P', "");
    front::execute(&mut out, "", 1);
    front::sync(&mut out);
    out
}

impl Worker {
    /// The client at the head of a line wants its user looked up on this idle server.
    pub(crate) fn begin_lookup(&mut self, client_id: ClientId, server_id: ServerId) {
        let now = self.now;
        let Some(client) = self.client(client_id) else { return };
        let (user, name) = (client.user().to_owned(), client.database().to_owned());
        let waited = client.waiting_since.take();
        let database = self.settings.database(&name);
        let Some(lookup) = self.settings.lookup(database.as_ref()) else {
            self.give_back(server_id);
            return self.looked_up(client_id, Found::Failed(Failure::Removed));
        };
        if let Some(totals) = self.totals_of(client_id) {
            totals.server_assignments += 1;
            totals.wait_time +=
                waited.map_or(0, |since| micros(now.saturating_duration_since(since)));
        }
        let Some(server) = self.server(server_id) else { return };
        server.client = Some(client_id);
        server.unnamed_of = None;
        server.unnamed_in_batch = false;
        server.next_round();
        server.enter(Phase::Lookup(Box::default()), now);
        self.server_say(server_id, &batch(&lookup, &user));
    }

    /// Bytes of a server that looks a user up. Returns how many were consumed, or `None` when the
    /// server is gone.
    pub(crate) fn lookup_input(&mut self, id: ServerId, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let server = self.server(id)?;
            let Phase::Lookup(reading) = &mut server.phase else { return Some(at) };
            let rest = input.get(at..).unwrap_or_default();
            let turn = match frame::split(rest) {
                Ok(Some((header, body, taken))) => {
                    at += taken;
                    reading.message(header.tag, body)
                }
                Ok(None) if rest.len() <= LONGEST => return Some(at),
                Ok(None) | Err(_) => Turn::OutOfStep,
            };
            match turn {
                Turn::Go => {}
                Turn::Done(status) => {
                    if let Some(server) = self.server(id) {
                        server.unsettled = at < input.len();
                    }
                    self.lookup_done(id, status);
                    return self.server(id).is_some().then_some(at);
                }
                Turn::OutOfStep => {
                    self.server_lost(id, Lost::OutOfStep, "broken answer to auth_query");
                    return None;
                }
            }
        }
    }

    fn lookup_done(&mut self, id: ServerId, status: u8) {
        let now = self.now;
        let Some(server) = self.server(id) else { return };
        let client = server.client.take();
        let Phase::Lookup(reading) = std::mem::replace(&mut server.phase, Phase::Held) else {
            return;
        };
        server.enter(Phase::Held, now);
        server.next_round();
        if status == b'I' {
            self.give_back(id);
        } else {
            self.retire(id, "auth_query left a transaction open");
        }
        if let Some(client) = client {
            self.looked_up(client, reading.finish());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgfleet_wire::back;

    /// What a reading makes of an answer with these rows of the query.
    fn read(columns: &[(&str, u32)], rows: &[&[Option<&[u8]>]]) -> Found {
        let mut out = Vec::new();
        back::parse_complete(&mut out);
        back::data_row(&mut out, [Some(&b"pg_catalog"[..])]);
        back::command_complete(&mut out, "SELECT 1");
        back::parse_complete(&mut out);
        back::row_description(&mut out, columns);
        for row in rows {
            back::data_row(&mut out, row.iter().copied());
        }
        back::ready(&mut out, b'I');
        let (mut reading, mut at) = (Reading::default(), 0);
        loop {
            let (header, body, taken) = frame::split(&out[at..]).unwrap().unwrap();
            at += taken;
            match reading.message(header.tag, body) {
                Turn::Go => {}
                Turn::Done(status) => {
                    assert_eq!(status, b'I');
                    return reading.finish();
                }
                Turn::OutOfStep => return Found::Failed(Failure::Unexpected("out of step")),
            }
        }
    }

    const TWO: [(&str, u32); 2] = [("rolname", 19), ("rolpassword", 25)];

    #[test]
    fn the_first_row_of_two_columns_is_the_secret() {
        let row: &[Option<&[u8]>] = &[Some(b"u"), Some(b"s")];
        let second: &[Option<&[u8]>] = &[Some(b"u"), Some(b"t")];
        assert_eq!(read(&TWO, &[row, second]), Found::Secret("s".into()));
        assert_eq!(read(&TWO, &[&[Some(b"u"), None]]), Found::Secret(String::new()));
        assert_eq!(read(&TWO, &[]), Found::Nobody);
    }

    #[test]
    fn other_answers_are_of_no_use() {
        let three = [TWO[0], TWO[1], TWO[1]];
        let wrong = Found::Failed(Failure::Columns(3));
        assert_eq!(read(&three, &[&[Some(b"u"), Some(b"s"), None]]), wrong);
        assert_eq!(read(&three, &[]), wrong);
        assert_eq!(read(&TWO, &[&[None, Some(b"s")]]), Found::Failed(Failure::NoName));
        assert_eq!(
            read(&TWO, &[&[Some(b"u"), Some(b"\xff")]]),
            Found::Failed(Failure::Unexpected("the secret is not valid UTF-8"))
        );
        assert_eq!(values(&[0, 1, 0, 0, 0, 9, 1]), None);
    }
}
