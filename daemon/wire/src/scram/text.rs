//! The attributes of SCRAM messages: `a=value`, separated by commas (RFC 5802, section 7).
//! It never copies and never accepts what is not printable where the RFC says so.
//! Both sides of the exchange read with it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{MAX_MESSAGE, MAX_NONCE, ScramError};

/// A message as text, if it is not too long.
pub(super) fn message(bytes: &[u8]) -> Result<&str, ScramError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(ScramError::Malformed("too long"));
    }
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) | Err(_) => Err(ScramError::Malformed("not text")),
    }
}

/// What is left of a list of attributes.
pub(super) struct Attributes<'a>(Option<&'a str>);

impl<'a> Attributes<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(Some(text))
    }

    /// The value of the next attribute, which must be `name`.
    pub(super) fn take(&mut self, name: char) -> Result<&'a str, ScramError> {
        let text = self.0.ok_or(ScramError::Malformed("attribute missing"))?;
        let (first, rest) = match text.split_once(',') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        if first.starts_with("m=") {
            return Err(ScramError::Extension);
        }
        let value = first
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
            .ok_or(ScramError::Malformed("unexpected attribute"))?;
        self.0 = rest;
        Ok(value)
    }

    /// The nonce (`r=`): printable ASCII without a comma, bounded.
    pub(super) fn nonce(&mut self) -> Result<&'a str, ScramError> {
        let nonce = self.take('r')?;
        let printable = nonce.bytes().all(|b| b.is_ascii_graphic());
        if nonce.is_empty() || nonce.len() > MAX_NONCE || !printable {
            return Err(ScramError::Malformed("bad nonce"));
        }
        Ok(nonce)
    }
}

/// Writes base64.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads base64.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, ScramError> {
    STANDARD.decode(text).map_err(|_| ScramError::Malformed("bad base64"))
}

/// Reads the base64 of a key.
pub(super) fn decode_key(text: &str) -> Result<[u8; 32], ScramError> {
    decode(text)?.try_into().map_err(|_| ScramError::Malformed("bad key length"))
}
