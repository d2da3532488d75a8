//! Reads the fields of one message body from front to back.
//! It never copies, never panics and never reads past the body.
//! The parsers of `front`, `back` and `startup` call it.

use crate::frame::MalformedError;

/// What is left of a body.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Starts at the front of `body`; `what` names the message in errors.
    pub(crate) fn new(body: &'a [u8], what: &'static str) -> Self {
        Self { rest: body, what }
    }

    /// The error for this message.
    pub(crate) fn malformed(&self) -> MalformedError {
        MalformedError { what: self.what }
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Result<u8, MalformedError> {
        Ok(self.array::<1>()?[0])
    }

    /// A big-endian `Int32`, unsigned.
    pub(crate) fn u32(&mut self) -> Result<u32, MalformedError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A fixed number of bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(self.malformed())?;
        self.rest = tail;
        Ok(*head)
    }

    /// A NUL-terminated string, without its NUL.
    pub(crate) fn cstr(&mut self) -> Result<&'a [u8], MalformedError> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(self.malformed())?;
        let (head, tail) = self.rest.split_at(end);
        self.rest = tail.get(1..).unwrap_or_default();
        Ok(head)
    }

    /// A NUL-terminated string that must be UTF-8.
    pub(crate) fn text(&mut self) -> Result<&'a str, MalformedError> {
        let bytes = self.cstr()?;
        str::from_utf8(bytes).map_err(|_| self.malformed())
    }

    /// Everything that is left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), MalformedError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.malformed()) }
    }
}
