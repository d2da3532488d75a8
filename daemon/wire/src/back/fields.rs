//! The fields of errors and notices that pgfleet reads and writes.
//! It keeps five of them; a server's own error is relayed as bytes, never rebuilt from here.
//! Refusals, the console and the reading of login errors use it.

use crate::cursor::Cursor;
use crate::frame::{MalformedError, cstr};

/// An error or a notice (manual: "Error and Notice Message Fields").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// `V`, or `S` where there is no `V`: `ERROR`, `FATAL`, `PANIC`, or a notice's `WARNING`, `NOTICE` …
    pub severity: String,
    /// `C`: the SQLSTATE.
    pub code: String,
    /// `M`: the primary text.
    pub message: String,
    /// `D`: the second text.
    pub detail: Option<String>,
    /// `H`: the way out.
    pub hint: Option<String>,
}

impl ErrorFields {
    /// An error after which the connection closes.
    pub fn fatal(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of("FATAL", code.into(), message.into())
    }

    /// An error after which the connection lives on.
    pub fn error(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::of("ERROR", code.into(), message.into())
    }

    /// Something that is good to know.
    pub fn notice(message: impl Into<String>) -> Self {
        Self::of("NOTICE", "00000".into(), message.into())
    }

    fn of(severity: &str, code: String, message: String) -> Self {
        Self { severity: severity.to_owned(), code, message, detail: None, hint: None }
    }

    /// Whether the server closes the connection after it.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// Reads the body of an `ErrorResponse` or `NoticeResponse`; text that is not UTF-8 is read with losses.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedError> {
        let mut fields = Self::default();
        let mut at = Cursor::new(body, "ErrorResponse");
        let mut local = String::new();
        loop {
            let kind = at.u8()?;
            if kind == 0 {
                break;
            }
            let text = String::from_utf8_lossy(at.cstr()?).into_owned();
            match kind {
                b'S' => local = text,
                b'V' => fields.severity = text,
                b'C' => fields.code = text,
                b'M' => fields.message = text,
                b'D' => fields.detail = Some(text),
                b'H' => fields.hint = Some(text),
                _ => {}
            }
        }
        if fields.severity.is_empty() {
            fields.severity = local;
        }
        Ok(fields)
    }

    /// Appends the body: `S`, `V`, `C`, `M`, and `D` and `H` where there are any.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let fixed = [
            (b'S', &self.severity),
            (b'V', &self.severity),
            (b'C', &self.code),
            (b'M', &self.message),
        ];
        let free = [(b'D', &self.detail), (b'H', &self.hint)];
        for (kind, text) in fixed {
            out.push(kind);
            cstr(out, text);
        }
        for (kind, text) in free {
            if let Some(text) = text {
                out.push(kind);
                cstr(out, text);
            }
        }
        out.push(0);
    }
}

/// Whether an `ErrorResponse` body, or the front of one, says `FATAL` or `PANIC`; allocates nothing.
pub(crate) fn says_fatal(body: &[u8]) -> bool {
    let mut at = Cursor::new(body, "ErrorResponse");
    let mut local = false;
    while let Ok(kind) = at.u8() {
        let Ok(text) = at.cstr() else {
            break;
        };
        match kind {
            b'V' => return matches!(text, b"FATAL" | b"PANIC"),
            b'S' => local = matches!(text, b"FATAL" | b"PANIC"),
            _ => {}
        }
    }
    local
}
