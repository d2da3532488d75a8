//! Messages that a client sends: builders that append, and parsers for what a pooler must understand.
//! Strings that we send end at their first NUL; parsers borrow and never copy.
//! The pool's logins and resets build; the relay parses what its client sent.

use crate::cursor::Cursor;
use crate::frame::{count, cstr, message, value};

pub use crate::frame::MalformedError;

/// `Query` (manual: "Simple Query").
pub fn query(out: &mut Vec<u8>, sql: impl AsRef<[u8]>) {
    message(out, b'Q', |out| cstr(out, sql));
}

/// `Parse` with the types of the parameters, 0 for those that the server shall guess (manual: "Extended Query").
pub fn parse(out: &mut Vec<u8>, name: impl AsRef<[u8]>, sql: impl AsRef<[u8]>, types: &[u32]) {
    message(out, b'P', |out| {
        cstr(out, name);
        cstr(out, sql);
        count(out, types.len());
        for oid in types.iter().take(usize::from(u16::MAX)) {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// `Bind` with parameters and results in text format (manual: "Extended Query").
pub fn bind(
    out: &mut Vec<u8>,
    portal: impl AsRef<[u8]>,
    statement: impl AsRef<[u8]>,
    params: &[Option<&[u8]>],
) {
    message(out, b'B', |out| {
        cstr(out, portal);
        cstr(out, statement);
        count(out, 0);
        count(out, params.len());
        for param in params.iter().take(usize::from(u16::MAX)) {
            value(out, *param);
        }
        count(out, 0);
    });
}

/// `Describe` of a statement (`S`) or a portal (`P`) (manual: "Extended Query").
pub fn describe(out: &mut Vec<u8>, kind: u8, name: impl AsRef<[u8]>) {
    target(out, b'D', kind, name);
}

/// `Close` of a statement (`S`) or a portal (`P`) (manual: "Extended Query").
pub fn close(out: &mut Vec<u8>, kind: u8, name: impl AsRef<[u8]>) {
    target(out, b'C', kind, name);
}

fn target(out: &mut Vec<u8>, tag: u8, kind: u8, name: impl AsRef<[u8]>) {
    message(out, tag, |out| {
        out.push(kind);
        cstr(out, name);
    });
}

/// `Execute`; `max` rows, 0 for all (manual: "Extended Query").
pub fn execute(out: &mut Vec<u8>, portal: impl AsRef<[u8]>, max: i32) {
    message(out, b'E', |out| {
        cstr(out, portal);
        out.extend_from_slice(&max.to_be_bytes());
    });
}

/// `Sync` (manual: "Extended Query").
pub fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| ());
}

/// `Flush` (manual: "Extended Query").
pub fn flush(out: &mut Vec<u8>) {
    message(out, b'H', |_| ());
}

/// `Terminate` (manual: "Termination").
pub fn terminate(out: &mut Vec<u8>) {
    message(out, b'X', |_| ());
}

/// `PasswordMessage`: a cleartext password or an MD5 answer; the NUL is added (manual: "Start-up").
pub fn password(out: &mut Vec<u8>, password: impl AsRef<[u8]>) {
    message(out, b'p', |out| cstr(out, password));
}

/// `SASLInitialResponse` (manual: "SASL Authentication").
pub fn sasl_initial(out: &mut Vec<u8>, mechanism: impl AsRef<[u8]>, data: &[u8]) {
    message(out, b'p', |out| {
        cstr(out, mechanism);
        value(out, Some(data));
    });
}

/// `SASLResponse` (manual: "SASL Authentication").
pub fn sasl_response(out: &mut Vec<u8>, data: &[u8]) {
    message(out, b'p', |out| out.extend_from_slice(data));
}

/// The statement name of a `Parse` body (manual: "Message Formats").
///
/// The body may be cut off after the name.
pub fn parse_message_name(body: &[u8]) -> Result<&[u8], MalformedError> {
    Cursor::new(body, "Parse").cstr()
}

/// The statement name of a `Bind` body; the portal stands before it (manual: "Message Formats").
///
/// The body may be cut off after the name.
pub fn parse_bind_statement(body: &[u8]) -> Result<&[u8], MalformedError> {
    let mut at = Cursor::new(body, "Bind");
    at.cstr()?;
    at.cstr()
}

/// Kind (`S` or `P`) and name of a `Describe` or `Close` body (manual: "Message Formats").
pub fn parse_target(body: &[u8]) -> Result<(u8, &[u8]), MalformedError> {
    let mut at = Cursor::new(body, "Describe or Close");
    let kind = at.u8()?;
    let name = at.cstr()?;
    at.end()?;
    match kind {
        b'S' | b'P' => Ok((kind, name)),
        _ => Err(at.malformed()),
    }
}

/// The text of a `Query` body (manual: "Message Formats").
pub fn parse_query_text(body: &[u8]) -> Result<&[u8], MalformedError> {
    let mut at = Cursor::new(body, "Query");
    let text = at.cstr()?;
    at.end()?;
    Ok(text)
}

/// The text of a `PasswordMessage` body (manual: "Message Formats").
pub fn parse_password(body: &[u8]) -> Result<&[u8], MalformedError> {
    let mut at = Cursor::new(body, "PasswordMessage");
    let text = at.cstr()?;
    at.end()?;
    Ok(text)
}

/// Mechanism and first data of a `SASLInitialResponse` body; no data is `None` (manual: "Message Formats").
pub fn parse_sasl_initial(body: &[u8]) -> Result<(&[u8], Option<&[u8]>), MalformedError> {
    let mut at = Cursor::new(body, "SASLInitialResponse");
    let mechanism = at.cstr()?;
    let len = at.u32()?;
    let data = at.rest();
    if len == u32::MAX && data.is_empty() {
        return Ok((mechanism, None));
    }
    if u32::try_from(data.len()) == Ok(len) {
        return Ok((mechanism, Some(data)));
    }
    Err(at.malformed())
}
