//! The only place that holds a client and a server at once.
//!
//! `request` takes a client's bytes to its server, `answer` takes a server's bytes to its client; the
//! tracker says what they mean. A blocked direction pauses its own source and never the other.

pub(crate) mod answer;
mod count;
pub(crate) mod request;

/// A request is lent a server when its first message is whole, or when so much of it is here.
pub(crate) const LEND_AT: usize = 16 * 1024;

/// So much of a message is waited for when its beginning must be read; longer names do not exist.
pub(crate) const HEAD: usize = 16 * 1024;

/// So much is put together for a server before it is sent.
pub(crate) const ASSEMBLED: usize = 64 * 1024;

/// A client with so many unanswered requests is not read from.
pub(crate) const PIPELINE: usize = 16 * 1024;
