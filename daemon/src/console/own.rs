//! What a session answers by itself: the small talk of drivers and health checks.
//!
//! It owns the list of statements that change nothing and mean nothing on a console, and their
//! answers. It never answers anything that is about the fleet: all else is asked. The session
//! calls it before it asks.

use crate::link::table::{Outcome, Reply, Type};

use super::PARAMETERS;
use super::script::words;

/// An answer from here.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) reply: Reply,
    pub(super) effect: Effect,
}

/// What it does to the transaction that the client believes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Begins,
    Ends,
}

/// Settings of the session that drivers set and read; setting one is ignored with a notice.
/// `SHOW` says `PARAMETERS`' value, or the one here.
const FAKED: [(&str, &str); 9] = [
    ("client_encoding", ""),
    ("datestyle", ""),
    ("timezone", ""),
    ("standard_conforming_strings", ""),
    ("application_name", ""),
    ("extra_float_digits", "1"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_isolation", "read committed"),
    ("server_version", ""),
];

/// The answer to a statement that is not asked.
pub(super) fn answer(statement: &str) -> Option<Own> {
    let words = words(statement, 6);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["begin", ..] => done("BEGIN", Effect::Begins),
        ["start", "transaction", ..] => done("START TRANSACTION", Effect::Begins),
        ["commit" | "end", ..] => done("COMMIT", Effect::Ends),
        ["rollback", "to", ..] | ["rollback", "transaction" | "work", "to", ..] => {
            done("ROLLBACK", Effect::None)
        }
        ["rollback" | "abort", ..] => done("ROLLBACK", Effect::Ends),
        ["savepoint", _] => done("SAVEPOINT", Effect::None),
        ["release", ..] => done("RELEASE", Effect::None),
        ["discard", "all"] => done("DISCARD ALL", Effect::None),
        ["reset", "all"] => done("RESET", Effect::None),
        ["set", "session", "characteristics", ..] => ignored(),
        ["set", "session" | "local", rest @ ..] | ["set", rest @ ..] => set(rest),
        ["show", "transaction", "isolation", "level"] => show("transaction_isolation"),
        ["show", "time", "zone"] => show("timezone"),
        ["show", name] => show(name),
        ["select", "1"] => table("?column?", Type::Int4, "1", "SELECT 1"),
        ["select", "version", "(", ")"] | ["select", "pg_catalog", ".", "version", "(", ")"] => {
            let text = concat!("pgfleet ", env!("CARGO_PKG_VERSION"), " console");
            table("version", Type::Text, text, "SELECT 1")
        }
        _ => None,
    }
}

fn set(rest: &[&str]) -> Option<Own> {
    match rest {
        ["names" | "transaction", ..] | ["time", "zone", ..] => ignored(),
        [name, "=" | "to", ..] if faked(name).is_some() => ignored(),
        _ => None,
    }
}

fn show(name: &str) -> Option<Own> {
    let (name, fixed) = faked(name)?;
    let known = PARAMETERS.iter().find(|(parameter, _)| parameter.eq_ignore_ascii_case(name));
    let value = known.map_or(*fixed, |(_, value)| value);
    table(name, Type::Text, value, "SHOW")
}

fn faked(name: &str) -> Option<&'static (&'static str, &'static str)> {
    let name = name.trim_matches('"');
    FAKED.iter().find(|(faked, _)| *faked == name)
}

fn ignored() -> Option<Own> {
    let mut own = done("SET", Effect::None)?;
    own.reply.notices.push("SET ignored".to_owned());
    Some(own)
}

fn done(tag: &str, effect: Effect) -> Option<Own> {
    let tag = tag.to_owned();
    Some(Own { reply: Reply { notices: Vec::new(), outcome: Outcome::Done { tag } }, effect })
}

fn table(name: &str, kind: Type, value: &str, tag: &str) -> Option<Own> {
    Some(Own {
        reply: Reply {
            notices: Vec::new(),
            outcome: Outcome::Table {
                columns: vec![(name.to_owned(), kind.oid())],
                rows: vec![vec![Some(value.to_owned())]],
                tag: tag.to_owned(),
            },
        },
        effect: Effect::None,
    })
}
