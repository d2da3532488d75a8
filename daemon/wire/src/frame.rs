//! Framing of typed messages: one tag byte, then a length that counts itself but not the tag.
//! It never looks into a body and never copies one.
//! The relay, the logins and the console call it on what they have read so far.

use thiserror::Error;

/// Bytes before the body of a typed message: tag and length.
pub const HEADER: usize = 5;

/// The first five bytes of a message (manual: "Message Formats").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message type.
    pub tag: u8,
    /// Bytes of the whole message, tag and length field included.
    pub len: usize,
}

impl Header {
    /// Bytes of the body alone.
    pub fn body(&self) -> usize {
        self.len.saturating_sub(HEADER)
    }
}

/// A whole message: its header, its body, and the bytes that it takes up.
pub type Message<'a> = (Header, &'a [u8], usize);

/// A header that no message can have: the stream is out of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length field is below 4 or does not fit a positive `Int32`.
    #[error("bad packet header: message type 0x{tag:02x} says its length is {len}")]
    Length {
        /// The message type.
        tag: u8,
        /// The length field as sent.
        len: u32,
    },
}

/// A whole message whose body does not have the fields that its type demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed {what} message")]
pub struct MalformedError {
    /// The name of the message in the Postgres manual.
    pub what: &'static str,
}

/// Reads the header at the front of `buf` (manual: "Messaging Overview").
///
/// `None` means that fewer than [`HEADER`] bytes are there.
pub fn header(buf: &[u8]) -> Result<Option<Header>, FrameError> {
    let &[tag, a, b, c, d, ..] = buf else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([a, b, c, d]);
    match i32::try_from(len) {
        Ok(4..) => Ok(Some(Header { tag, len: len as usize + 1 })),
        Ok(_) | Err(_) => Err(FrameError::Length { tag, len }),
    }
}

/// Takes the first whole message of `buf`: its header, its body and the bytes it takes up.
///
/// `None` means that the message is not complete yet.
pub fn split(buf: &[u8]) -> Result<Option<Message<'_>>, FrameError> {
    let Some(head) = header(buf)? else {
        return Ok(None);
    };
    Ok(buf.get(HEADER..head.len).map(|body| (head, body, head.len)))
}

/// Appends one typed message whose body is written by `body`.
pub(crate) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    untyped(out, body);
}

/// Appends one message without a tag: a length, then what `body` writes.
pub(crate) fn untyped(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(field) = out.get_mut(start..start + 4) {
        field.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends a string and its NUL; the string ends at its first NUL, if it has one.
pub(crate) fn cstr(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    out.extend_from_slice(text.get(..end).unwrap_or_default());
    out.push(0);
}

/// Appends an `Int16` count; a list of ours that is longer than that is cut by its writer.
pub(crate) fn count(out: &mut Vec<u8>, n: usize) {
    let n = u16::try_from(n).unwrap_or(u16::MAX);
    out.extend_from_slice(&n.to_be_bytes());
}

/// Appends a value with its `Int32` length, or -1 for null.
pub(crate) fn value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(bytes) => {
            let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}
