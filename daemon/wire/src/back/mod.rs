//! Messages that a server sends: builders that append to a buffer.
//! Strings that we send end at their first NUL, so that no text of a peer can shift the frames.
//! The worker answers clients with them, the supervisor the console; `parse` reads the same from Postgres.

mod fields;
mod parse;

use crate::frame::{count, cstr, message, value};
use crate::key::CancelKey;
use crate::startup::Protocol;

pub use crate::frame::MalformedError;
pub use fields::ErrorFields;
pub(crate) use fields::says_fatal;
pub use parse::{
    Auth, Negotiated, parse_auth, parse_backend_key, parse_command_tag, parse_negotiation,
    parse_parameter_status,
};

/// `AuthenticationOk` (manual: "Start-up").
pub fn auth_ok(out: &mut Vec<u8>) {
    auth(out, 0, &[]);
}

/// `AuthenticationCleartextPassword` (manual: "Start-up").
pub fn auth_cleartext(out: &mut Vec<u8>) {
    auth(out, 3, &[]);
}

/// `AuthenticationMD5Password` (manual: "Start-up").
pub fn auth_md5(out: &mut Vec<u8>, salt: [u8; 4]) {
    auth(out, 5, &salt);
}

/// `AuthenticationSASL` with the mechanisms in order of preference (manual: "SASL Authentication").
pub fn auth_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&10_u32.to_be_bytes());
        for mechanism in mechanisms {
            cstr(out, mechanism);
        }
        out.push(0);
    });
}

/// `AuthenticationSASLContinue` (manual: "SASL Authentication").
pub fn auth_sasl_continue(out: &mut Vec<u8>, data: &[u8]) {
    auth(out, 11, data);
}

/// `AuthenticationSASLFinal` (manual: "SASL Authentication").
pub fn auth_sasl_final(out: &mut Vec<u8>, data: &[u8]) {
    auth(out, 12, data);
}

fn auth(out: &mut Vec<u8>, kind: u32, data: &[u8]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(data);
    });
}

/// `ParameterStatus` (manual: "Asynchronous Operations").
pub fn parameter_status(out: &mut Vec<u8>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    message(out, b'S', |out| {
        cstr(out, name);
        cstr(out, value);
    });
}

/// `BackendKeyData` (manual: "Start-up").
pub fn backend_key(out: &mut Vec<u8>, key: &CancelKey) {
    message(out, b'K', |out| out.extend_from_slice(&key.bytes()));
}

/// `ReadyForQuery` with `I`, `T` or `E` (manual: "Message Formats").
pub fn ready(out: &mut Vec<u8>, status: u8) {
    message(out, b'Z', |out| out.push(status));
}

/// `ErrorResponse` (manual: "Error and Notice Message Fields").
pub fn error(out: &mut Vec<u8>, fields: &ErrorFields) {
    message(out, b'E', |out| fields.write(out));
}

/// `NoticeResponse` (manual: "Error and Notice Message Fields").
pub fn notice(out: &mut Vec<u8>, fields: &ErrorFields) {
    message(out, b'N', |out| fields.write(out));
}

/// `NegotiateProtocolVersion`: the version that is spoken from now on, and the `_pq_.` options that we do not know.
///
/// The manual says "minor version", but Postgres sends, and libpq expects, the whole number `3 << 16 | minor`.
pub fn negotiate(out: &mut Vec<u8>, protocol: Protocol, unknown: &[String]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&protocol.number().to_be_bytes());
        let n = u32::try_from(unknown.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&n.to_be_bytes());
        for option in unknown {
            cstr(out, option);
        }
    });
}

/// `RowDescription` of text columns: name and type, no table (manual: "Message Formats").
pub fn row_description(out: &mut Vec<u8>, columns: &[(&str, u32)]) {
    message(out, b'T', |out| {
        count(out, columns.len());
        for (name, oid) in columns.iter().take(usize::from(u16::MAX)) {
            cstr(out, name);
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(&type_size(*oid).to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&[0; 2]);
        }
    });
}

/// `pg_type.typlen` of the types that a console answers with; -1 is variable.
fn type_size(oid: u32) -> i16 {
    match oid {
        16 => 1,
        21 => 2,
        23 | 26 | 700 => 4,
        20 | 701 | 1114 | 1184 => 8,
        _ => -1,
    }
}

/// `DataRow` of text values (manual: "Message Formats").
pub fn data_row<'a>(out: &mut Vec<u8>, values: impl IntoIterator<Item = Option<&'a [u8]>>) {
    message(out, b'D', |out| {
        let at = out.len();
        let mut n = 0;
        count(out, n);
        for one in values.into_iter().take(usize::from(u16::MAX)) {
            value(out, one);
            n += 1;
        }
        let n = u16::try_from(n).unwrap_or(u16::MAX);
        if let Some(field) = out.get_mut(at..at + 2) {
            field.copy_from_slice(&n.to_be_bytes());
        }
    });
}

/// `CommandComplete` (manual: "Message Formats").
pub fn command_complete(out: &mut Vec<u8>, tag: impl AsRef<[u8]>) {
    message(out, b'C', |out| cstr(out, tag));
}

/// `EmptyQueryResponse` (manual: "Message Formats").
pub fn empty_query(out: &mut Vec<u8>) {
    message(out, b'I', |_| ());
}

/// `ParseComplete` (manual: "Message Formats").
pub fn parse_complete(out: &mut Vec<u8>) {
    message(out, b'1', |_| ());
}

/// `BindComplete` (manual: "Message Formats").
pub fn bind_complete(out: &mut Vec<u8>) {
    message(out, b'2', |_| ());
}

/// `CloseComplete` (manual: "Message Formats").
pub fn close_complete(out: &mut Vec<u8>) {
    message(out, b'3', |_| ());
}

/// `NoData` (manual: "Message Formats").
pub fn no_data(out: &mut Vec<u8>) {
    message(out, b'n', |_| ());
}

/// `ParameterDescription` (manual: "Message Formats").
pub fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, b't', |out| {
        count(out, types.len());
        for oid in types.iter().take(usize::from(u16::MAX)) {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// `PortalSuspended` (manual: "Message Formats").
pub fn portal_suspended(out: &mut Vec<u8>) {
    message(out, b's', |_| ());
}
