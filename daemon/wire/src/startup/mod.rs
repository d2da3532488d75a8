//! The first packets of a connection, which have no tag: SSL, GSS, cancel, startup.
//! It bounds them by [`MAX_STARTUP`] before it waits for more, and looks at nothing behind the first packet.
//! `opening` in the worker calls it until there is a startup; direct TLS (first byte 0x16) is the caller's to see before.

mod options;
mod replication;

use thiserror::Error;

use crate::cursor::Cursor;
use crate::frame::{cstr, untyped};
use crate::key::CancelKey;

pub use replication::Replication;

/// The longest first packet that is accepted, as in Postgres (`MAX_STARTUP_PACKET_LENGTH`).
pub const MAX_STARTUP: usize = 10_000;

/// User names of this length or longer are refused, as in PgBouncer (`MAX_USERNAME`).
const MAX_USER: usize = 128;

/// The longest secret of a cancel key, as in Postgres.
const MAX_SECRET: usize = 256;

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// A first packet (manual: "Start-up", "SSL Session Encryption", "Canceling Requests in Progress").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// `SSLRequest`.
    Ssl,
    /// `GSSENCRequest`.
    Gss,
    /// `CancelRequest`; `None` for a key that is well formed but none of ours.
    Cancel(Option<CancelKey>),
    /// `StartupMessage`.
    Startup(Startup),
}

/// The versions of the protocol that pgfleet speaks (manual: "Protocol Versions").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Cancel keys have a secret of four bytes.
    #[default]
    V3_0,
    /// Since Postgres 18: the secret of a cancel key may have up to 256 bytes.
    V3_2,
}

impl Protocol {
    /// The minor version.
    pub fn minor(self) -> u16 {
        match self {
            Self::V3_0 => 0,
            Self::V3_2 => 2,
        }
    }

    /// The version as one number, as it is sent.
    pub fn number(self) -> u32 {
        3 << 16 | u32::from(self.minor())
    }
}

/// A `StartupMessage` of protocol 3 (manual: "Message Formats").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// The minor version asked for; see [`Startup::spoken`].
    pub minor: u16,
    /// Never empty.
    pub user: String,
    /// `None` if missing or empty: then it is the user's name.
    pub database: Option<String>,
    /// All other parameters in order: not user, database, options, replication and `_pq_.` ones.
    pub params: Vec<(String, String)>,
    /// The full names of the `_pq_.` parameters.
    pub unknown_options: Vec<String>,
    /// The settings in `options`, in order.
    pub options: Vec<(String, String)>,
    /// `options` as sent.
    pub options_text: Option<String>,
    /// What `replication` asks for.
    pub replication: Replication,
}

impl Startup {
    /// The version that is spoken: the newest of ours that is not newer than what was asked for. 3.1 does not exist.
    pub fn spoken(&self) -> Protocol {
        if self.minor >= Protocol::V3_2.minor() { Protocol::V3_2 } else { Protocol::V3_0 }
    }

    /// Whether `NegotiateProtocolVersion` must be sent.
    pub fn negotiates(&self) -> bool {
        self.minor != self.spoken().minor() || !self.unknown_options.is_empty()
    }
}

/// Why a first packet is refused; the texts are PgBouncer's, or Postgres' where PgBouncer has none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StartupError {
    /// The length is below 8 or above [`MAX_STARTUP`]: not a Postgres client.
    #[error("bad packet header: length of startup packet is {0}")]
    Length(u32),
    /// `SSLRequest` or `GSSENCRequest` with a body.
    #[error("bad packet header: encryption request with a body")]
    Request,
    /// A `CancelRequest` whose secret has less than 4 or more than 256 bytes.
    #[error("bad cancel request")]
    Cancel,
    /// Protocol 2.
    #[error("old V2 protocol not supported")]
    Version2,
    /// Another major version.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version {
        /// As sent.
        major: u16,
        /// As sent.
        minor: u16,
    },
    /// The list of parameters does not end where the packet ends.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    /// No `user`, or an empty one.
    #[error("no username supplied")]
    NoUser,
    /// A `user` of 128 bytes or more.
    #[error("username too long")]
    UserTooLong,
    /// A name or a value is not UTF-8.
    #[error("invalid byte sequence in startup packet: {0} is not valid UTF-8")]
    NotUtf8(String),
    /// `replication` is neither a boolean nor `database`.
    #[error("invalid value for parameter \"replication\": \"{0}\"")]
    Replication(String),
    /// `options` has something else than settings.
    #[error(
        "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed"
    )]
    Options,
}

/// Takes the first packet of `buf` and says how many bytes it takes up.
///
/// `None` means that more bytes are needed, never more than [`MAX_STARTUP`] in all.
pub fn first(buf: &[u8]) -> Result<Option<(First, usize)>, StartupError> {
    let Some((&length, _)) = buf.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(length);
    let len = match usize::try_from(length) {
        Ok(len @ 8..=MAX_STARTUP) => len,
        Ok(_) | Err(_) => return Err(StartupError::Length(length)),
    };
    let Some((&[a, b, c, d], body)) =
        buf.get(4..len).and_then(|packet| packet.split_first_chunk::<4>())
    else {
        return Ok(None);
    };
    let first = match u32::from_be_bytes([a, b, c, d]) {
        SSL => empty(body, First::Ssl)?,
        GSS => empty(body, First::Gss)?,
        CANCEL if (8..=4 + MAX_SECRET).contains(&body.len()) => {
            First::Cancel(CancelKey::read(body))
        }
        CANCEL => return Err(StartupError::Cancel),
        _ => {
            let (major, minor) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            match major {
                3 => First::Startup(startup(minor, body)?),
                2 => return Err(StartupError::Version2),
                _ => return Err(StartupError::Version { major, minor }),
            }
        }
    };
    Ok(Some((first, len)))
}

fn empty(body: &[u8], first: First) -> Result<First, StartupError> {
    if body.is_empty() { Ok(first) } else { Err(StartupError::Request) }
}

fn startup(minor: u16, body: &[u8]) -> Result<Startup, StartupError> {
    let mut at = Cursor::new(body, "StartupMessage");
    let mut startup = Startup { minor, ..Startup::default() };
    loop {
        let name = at.cstr().map_err(|_| StartupError::Layout)?;
        if name.is_empty() {
            break;
        }
        let value = at.cstr().map_err(|_| StartupError::Layout)?;
        let name = text(name, name)?;
        let value = text(name.as_bytes(), value)?;
        take(&mut startup, name, value)?;
    }
    at.end().map_err(|_| StartupError::Layout)?;
    match startup.user.len() {
        0 => Err(StartupError::NoUser),
        1..MAX_USER => Ok(startup),
        _ => Err(StartupError::UserTooLong),
    }
}

fn text<'a>(name: &[u8], value: &'a [u8]) -> Result<&'a str, StartupError> {
    str::from_utf8(value)
        .map_err(|_| StartupError::NotUtf8(String::from_utf8_lossy(name).into_owned()))
}

/// Puts one parameter where it belongs; a repeated one replaces the first, as in Postgres.
fn take(startup: &mut Startup, name: &str, value: &str) -> Result<(), StartupError> {
    match name {
        "user" => value.clone_into(&mut startup.user),
        "database" => startup.database = Some(value.to_owned()).filter(|name| !name.is_empty()),
        "replication" => {
            startup.replication = Replication::parse(value)
                .ok_or_else(|| StartupError::Replication(value.to_owned()))?;
        }
        "options" => {
            startup.options = options::parse(value).ok_or(StartupError::Options)?;
            startup.options_text = Some(value.to_owned());
        }
        _ if name.starts_with("_pq_.") => startup.unknown_options.push(name.to_owned()),
        _ => startup.params.push((name.to_owned(), value.to_owned())),
    }
    Ok(())
}

/// A `StartupMessage` for a login at a server.
pub fn startup_packet(protocol: Protocol, params: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    untyped(&mut out, |out| {
        out.extend_from_slice(&protocol.number().to_be_bytes());
        for (name, value) in params {
            cstr(out, name);
            cstr(out, value);
        }
        out.push(0);
    });
    out
}

/// An `SSLRequest` (manual: "SSL Session Encryption").
pub fn ssl_request() -> Vec<u8> {
    let mut out = Vec::new();
    untyped(&mut out, |out| out.extend_from_slice(&SSL.to_be_bytes()));
    out
}

/// A `CancelRequest` (manual: "Canceling Requests in Progress").
pub fn cancel_request(pid: i32, secret: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    untyped(&mut out, |out| {
        out.extend_from_slice(&CANCEL.to_be_bytes());
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(secret);
    });
    out
}
