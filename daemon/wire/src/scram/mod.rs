//! SCRAM-SHA-256 (RFC 5802, RFC 7677; manual: "SCRAM-SHA-256 Authentication") without channel binding.
//! Nonces and salts are arguments, states are consumed, and no key is ever printed.
//! Logins call it: `ScramServer` for our clients, `ScramClient` for our servers.

mod client;
mod server;
mod text;
mod verifier;

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use thiserror::Error;

pub use client::{ClientSecret, ScramClient, ScramVerify};
pub use server::ScramServer;
pub use verifier::Verifier;

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The longest message that is read; Postgres has the same bound.
pub const MAX_MESSAGE: usize = 1024;

/// The longest nonce that is read.
pub const MAX_NONCE: usize = 512;

/// The most iterations that a server may ask of us.
pub const MAX_ITERATIONS: u32 = 10_000_000;

/// The key with which a user logs in at a server that has the same verifier (RFC 5802, section 3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientKey(pub [u8; 32]);

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(..)")
    }
}

/// Why an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScramError {
    /// The message is not one of RFC 5802.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The client demands channel binding, which we do not offer.
    #[error("SCRAM channel binding is not supported")]
    ChannelBinding,
    /// The client names an authorization identity.
    #[error("client uses authorization identity, but it is not supported")]
    AuthorizationIdentity,
    /// The message carries an extension that must be understood (`m=`).
    #[error("client requires an unsupported SCRAM extension")]
    Extension,
    /// The nonce is not a continuation of ours.
    #[error("SCRAM nonce mismatch")]
    Nonce,
    /// A server asks for 0 iterations or for more than [`MAX_ITERATIONS`].
    #[error("server asks for {0} SCRAM iterations, at most {MAX_ITERATIONS} are accepted")]
    Iterations(u64),
    /// The client does not know the password.
    #[error("SASL authentication failed")]
    Proof,
    /// The server reports an error (`e=`).
    #[error("server reports SCRAM error {0:?}")]
    Reported(String),
    /// The server does not know the verifier: it is not the server it claims to be.
    #[error("incorrect SCRAM server signature")]
    Signature,
}

/// HMAC-SHA-256 over the parts, one after the other.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // SHA-256's HMAC takes keys of any length; were it not so, the empty MAC would match nothing.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn sha256(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

fn xor(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    let mut out = a;
    for (x, y) in out.iter_mut().zip(b) {
        *x ^= y;
    }
    out
}
