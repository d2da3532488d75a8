//! The extended protocol of the console: prepared statements and portals.
//!
//! It owns both by their names, within bounds, and the replies that portals keep. It never skips
//! messages after an error and never asks: it says what it wants asked. The session calls it for
//! each message, and with each answer.

use std::collections::HashMap;

use pgfleet_wire::back::{self, ErrorFields};

use crate::link::table::{Outcome, Reply};

use super::request::{Bind, Format, Target};
use super::{PROTOCOL, script, write};

/// More than the statement caches of drivers hold.
const MOST_STATEMENTS: usize = 256;
const MOST_TEXT: usize = 1 << 20;
/// Each may keep a whole reply.
const MOST_PORTALS: usize = 16;

/// The statements and portals of one session.
#[derive(Debug, Default)]
pub(super) struct Extended {
    /// Texts by name; an empty text is the empty statement.
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, Portal>,
}

#[derive(Debug)]
struct Portal {
    text: String,
    formats: Vec<Format>,
    progress: Progress,
}

/// How far a portal is.
#[derive(Debug)]
enum Progress {
    /// Not asked yet, and not described.
    Fresh,
    /// Described as one that returns no rows: only `Execute` asks.
    NoRows,
    /// Answered: what is to be sent, and how many rows have been.
    Answered { reply: Reply, sent: usize },
    /// All sent.
    Finished { tag: String },
}

/// A statement that must be answered before the session can go on, and what for.
#[derive(Debug)]
pub(super) struct Wanted {
    text: String,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    DescribeStatement,
    DescribePortal { name: Vec<u8> },
    Execute { name: Vec<u8>, most: usize },
}

impl Wanted {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the client meant it to run, and not only to be described.
    pub(super) fn runs(&self) -> bool {
        match self.purpose {
            Purpose::DescribeStatement | Purpose::DescribePortal { .. } => false,
            Purpose::Execute { .. } => true,
        }
    }
}

impl Extended {
    pub(super) fn parse(
        &mut self,
        name: Vec<u8>,
        text: Option<String>,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorFields> {
        let text = text.ok_or_else(|| refusal(PROTOCOL, "statement is not valid UTF-8"))?;
        let mut statements = script::statements(&text);
        let text = statements.pop_front().unwrap_or_default();
        if !statements.is_empty() {
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(refusal("42601", text));
        }
        if name.is_empty() {
            self.statements.remove(&name);
        } else if self.statements.contains_key(&name) {
            let name = String::from_utf8_lossy(&name);
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(refusal("42P05", text));
        }
        let held: usize = self.statements.iter().map(|(k, v)| k.len() + v.len()).sum();
        let full = held + name.len() + text.len() > MOST_TEXT;
        if full || self.statements.len() >= MOST_STATEMENTS {
            return Err(refusal(PROTOCOL, "too many prepared statements: close some"));
        }
        self.statements.insert(name, text);
        back::parse_complete(out);
        Ok(())
    }

    pub(super) fn bind(&mut self, bind: Bind, out: &mut Vec<u8>) -> Result<(), ErrorFields> {
        let text = self.statement(&bind.statement)?.to_owned();
        if bind.parameters > 0 {
            let text = "parameters are not supported by the admin console: write the values into the statement";
            return Err(refusal("0A000", text));
        }
        if bind.portal.is_empty() {
            self.portals.remove(&bind.portal);
        } else if self.portals.contains_key(&bind.portal) {
            let name = String::from_utf8_lossy(&bind.portal);
            return Err(refusal("42P03", format!("cursor \"{name}\" already exists")));
        }
        if self.portals.len() >= MOST_PORTALS {
            return Err(refusal(PROTOCOL, "too many open portals: close some"));
        }
        let portal = Portal { text, formats: bind.formats, progress: Progress::Fresh };
        self.portals.insert(bind.portal, portal);
        back::bind_complete(out);
        Ok(())
    }

    /// Closing what is not there is no error (manual: "Extended Query").
    pub(super) fn close(&mut self, target: &Target, out: &mut Vec<u8>) {
        match target {
            Target::Statement(name) => drop(self.statements.remove(name)),
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        back::close_complete(out);
    }

    /// Describes at once what returns no rows; else the statement must be answered first.
    pub(super) fn describe(
        &mut self,
        target: Target,
        out: &mut Vec<u8>,
    ) -> Result<Option<Wanted>, ErrorFields> {
        match target {
            Target::Statement(name) => {
                let text = self.statement(&name)?.to_owned();
                back::parameter_description(out, &[]);
                if may_return_rows(&text) {
                    let purpose = Purpose::DescribeStatement;
                    return Ok(Some(Wanted { text, purpose }));
                }
                back::no_data(out);
            }
            Target::Portal(name) => {
                let portal = self.portal(&name)?;
                match &portal.progress {
                    Progress::Fresh if may_return_rows(&portal.text) => {
                        let text = portal.text.clone();
                        let purpose = Purpose::DescribePortal { name };
                        return Ok(Some(Wanted { text, purpose }));
                    }
                    Progress::Fresh => {
                        portal.progress = Progress::NoRows;
                        back::no_data(out);
                    }
                    Progress::Answered { reply, .. } => {
                        describe_reply(reply, &portal.formats, out)?;
                    }
                    Progress::NoRows | Progress::Finished { .. } => back::no_data(out),
                }
            }
        }
        Ok(None)
    }

    /// Sends what a portal has; else its statement must be answered first.
    pub(super) fn execute(
        &mut self,
        name: Vec<u8>,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Wanted>, ErrorFields> {
        let portal = self.portal(&name)?;
        if portal.text.is_empty() {
            back::empty_query(out);
            return Ok(None);
        }
        match &portal.progress {
            Progress::Fresh | Progress::NoRows => {
                let text = portal.text.clone();
                let purpose = Purpose::Execute { name, most };
                Ok(Some(Wanted { text, purpose }))
            }
            Progress::Answered { .. } | Progress::Finished { .. } => {
                portal.send(most, out)?;
                Ok(None)
            }
        }
    }

    /// Takes the reply to what was wanted, and finishes the message that wanted it.
    pub(super) fn answered(
        &mut self,
        wanted: Wanted,
        mut reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<(), ErrorFields> {
        match wanted.purpose {
            // Its rows are not kept: whenever the statement is executed, it is asked anew.
            Purpose::DescribeStatement => describe_reply(&reply, &[], out),
            Purpose::DescribePortal { name } => {
                let portal = self.portal(&name)?;
                describe_reply(&reply, &portal.formats, out)?;
                portal.progress = Progress::Answered { reply, sent: 0 };
                Ok(())
            }
            Purpose::Execute { name, most } => {
                let portal = self.portal(&name)?;
                if let (Progress::NoRows, Outcome::Table { rows, .. }) =
                    (&portal.progress, &mut reply.outcome)
                {
                    // The client was told that there are none, and could not read them.
                    rows.clear();
                }
                portal.progress = Progress::Answered { reply, sent: 0 };
                portal.send(most, out)
            }
        }
    }

    /// A simple query does away with what has no name (manual: "Extended Query").
    pub(super) fn forget_unnamed(&mut self) {
        self.statements.remove(&b""[..]);
        self.portals.remove(&b""[..]);
    }

    /// Portals end with their transaction.
    pub(super) fn forget_portals(&mut self) {
        self.portals.clear();
    }

    fn statement(&self, name: &[u8]) -> Result<&str, ErrorFields> {
        self.statements
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| missing("26000", "prepared statement", name))
    }

    fn portal(&mut self, name: &[u8]) -> Result<&mut Portal, ErrorFields> {
        self.portals.get_mut(name).ok_or_else(|| missing("34000", "portal", name))
    }
}

impl Portal {
    /// Sends at most `most` rows, 0 for all, and the end when there are no more.
    fn send(&mut self, most: usize, out: &mut Vec<u8>) -> Result<(), ErrorFields> {
        let (reply, sent) = match &mut self.progress {
            Progress::Answered { reply, sent } => (reply, sent),
            Progress::Finished { tag } => {
                back::command_complete(out, tag);
                return Ok(());
            }
            Progress::Fresh | Progress::NoRows => return Ok(()),
        };
        write::notices(out, &std::mem::take(&mut reply.notices));
        let tag = match &mut reply.outcome {
            Outcome::Table { columns, rows, tag } => {
                let left = rows.get(*sent..).unwrap_or_default();
                let count = if most == 0 { left.len() } else { most.min(left.len()) };
                write::rows(out, columns, &self.formats, &left[..count])?;
                *sent += count;
                if most != 0 && count == most {
                    // As Postgres does it: whether more would come is not looked at.
                    back::portal_suspended(out);
                    return Ok(());
                }
                std::mem::take(tag)
            }
            Outcome::Done { tag } => std::mem::take(tag),
            Outcome::Refused { sqlstate, message } => {
                return Err(refusal(sqlstate, message.as_str()));
            }
        };
        back::command_complete(out, &tag);
        self.progress = Progress::Finished { tag };
        Ok(())
    }
}

/// `SHOW` and `SELECT` answer with rows and change nothing, so they may be asked only to describe
/// them. Everything else is a command, which must not run before `Execute`.
fn may_return_rows(text: &str) -> bool {
    let first = script::words(text, 1);
    first.first().is_some_and(|word| word == "show" || word == "select")
}

fn describe_reply(reply: &Reply, formats: &[Format], out: &mut Vec<u8>) -> Result<(), ErrorFields> {
    match &reply.outcome {
        Outcome::Table { columns, .. } => write::description(out, columns, formats)?,
        Outcome::Done { .. } => back::no_data(out),
        Outcome::Refused { sqlstate, message } => {
            return Err(refusal(sqlstate, message.as_str()));
        }
    }
    Ok(())
}

fn refusal(sqlstate: &str, message: impl Into<String>) -> ErrorFields {
    ErrorFields::error(sqlstate, message)
}

fn missing(sqlstate: &str, what: &str, name: &[u8]) -> ErrorFields {
    let name = String::from_utf8_lossy(name);
    refusal(sqlstate, format!("{what} \"{name}\" does not exist"))
}
