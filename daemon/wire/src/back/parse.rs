//! Parsers for the few server messages that a pooler must understand.
//! They borrow where they can and never trust a length.
//! The server's login and the relay call them.

use crate::cursor::Cursor;
use crate::frame::MalformedError;

/// What an `Authentication…` message asks for (manual: "Start-up", "SASL Authentication").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth<'a> {
    /// Nothing more: the login is accepted.
    Ok,
    /// The password as it is.
    Cleartext,
    /// The MD5 answer for this salt.
    Md5([u8; 4]),
    /// One of these mechanisms.
    Sasl(Vec<String>),
    /// The next step of the mechanism.
    SaslContinue(&'a [u8]),
    /// The last step of the mechanism.
    SaslFinal(&'a [u8]),
    /// A method that pgfleet does not speak.
    Other(u32),
}

/// Reads the body of an `Authentication…` message (manual: "Message Formats").
pub fn parse_auth(body: &[u8]) -> Result<Auth<'_>, MalformedError> {
    let mut at = Cursor::new(body, "Authentication");
    let auth = match at.u32()? {
        0 => Auth::Ok,
        3 => Auth::Cleartext,
        5 => Auth::Md5(at.array()?),
        10 => Auth::Sasl(mechanisms(&mut at)?),
        11 => return Ok(Auth::SaslContinue(at.rest())),
        12 => return Ok(Auth::SaslFinal(at.rest())),
        other => return Ok(Auth::Other(other)),
    };
    at.end()?;
    Ok(auth)
}

fn mechanisms(at: &mut Cursor<'_>) -> Result<Vec<String>, MalformedError> {
    let mut names = Vec::new();
    loop {
        let name = at.text()?;
        if name.is_empty() {
            return Ok(names);
        }
        names.push(name.to_owned());
    }
}

/// Name and value of a `ParameterStatus` body (manual: "Message Formats"); both must be UTF-8.
pub fn parse_parameter_status(body: &[u8]) -> Result<(&str, &str), MalformedError> {
    let mut at = Cursor::new(body, "ParameterStatus");
    let pair = (at.text()?, at.text()?);
    at.end()?;
    Ok(pair)
}

/// Process id and secret (4 to 256 bytes: protocol 3.2) of a `BackendKeyData` body (manual: "Message Formats").
pub fn parse_backend_key(body: &[u8]) -> Result<(i32, Vec<u8>), MalformedError> {
    let mut at = Cursor::new(body, "BackendKeyData");
    let pid = i32::from_be_bytes(at.array()?);
    match at.rest().len() {
        4..=256 => Ok((pid, at.rest().to_vec())),
        _ => Err(at.malformed()),
    }
}

/// The tag of a `CommandComplete` body, as in `INSERT 0 5` (manual: "Message Formats").
pub fn parse_command_tag(body: &[u8]) -> Result<&str, MalformedError> {
    let mut at = Cursor::new(body, "CommandComplete");
    let tag = at.text()?;
    at.end()?;
    Ok(tag)
}

/// What a server answers to a version or an option that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The version that it speaks, as one number.
    pub version: u32,
    /// How many of our options it does not know.
    pub unknown: u32,
}

/// Reads the body of a `NegotiateProtocolVersion` (manual: "Message Formats").
pub fn parse_negotiation(body: &[u8]) -> Result<Negotiated, MalformedError> {
    let mut at = Cursor::new(body, "NegotiateProtocolVersion");
    let negotiated = Negotiated { version: at.u32()?, unknown: at.u32()? };
    for _ in 0..negotiated.unknown {
        at.cstr()?;
    }
    at.end()?;
    Ok(negotiated)
}
