//! What a server stores of a password for SCRAM: salt, iterations and two keys (RFC 5802, section 3).
//! Deriving one takes long by design and is never done on the data thread.
//! `secret` reads and writes it; both sides of the exchange use it.

use std::borrow::Cow;
use std::fmt;

use pbkdf2::pbkdf2_hmac;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{ClientKey, MECHANISM, hmac, sha256, text};

/// The verifier of one password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Rounds of PBKDF2, at least 1.
    pub iterations: u32,
    /// Random bytes.
    pub salt: Vec<u8>,
    /// Hash of the client's key: proves the client.
    pub stored_key: [u8; 32],
    /// Proves the server.
    pub server_key: [u8; 32],
}

impl Verifier {
    /// Derives the verifier of a password. It takes milliseconds and more: call it on a thread that may block.
    pub fn derive(password: &str, salt: &[u8], iterations: u32) -> Self {
        let (client_key, server_key) = keys(password, salt, iterations);
        Self { iterations, salt: salt.to_vec(), stored_key: sha256(&client_key), server_key }
    }

    /// The client's key, if the password is right. It takes as long as [`Verifier::derive`].
    pub fn prove(&self, password: &str) -> Option<ClientKey> {
        let (client_key, _) = keys(password, &self.salt, self.iterations);
        bool::from(sha256(&client_key).ct_eq(&self.stored_key)).then_some(ClientKey(client_key))
    }

    /// A verifier for a user that does not exist: always the same for that user, and no password matches it.
    pub fn mock(user: &str, secret: &[u8]) -> Self {
        let part = |label: &[u8]| hmac(secret, &[label, user.as_bytes()]);
        Self {
            iterations: 4096,
            salt: part(b"").iter().copied().take(16).collect(),
            stored_key: part(b"stored key\0"),
            server_key: part(b"server key\0"),
        }
    }

    /// Reads `SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MECHANISM)?.strip_prefix('$')?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        Some(Self {
            iterations: iterations.parse().ok().filter(|&n| n > 0)?,
            salt: text::decode(salt).ok()?,
            stored_key: text::decode_key(stored).ok()?,
            server_key: text::decode_key(server).ok()?,
        })
    }

    /// The text form, as in `pg_authid.rolpassword`.
    pub fn to_text(&self) -> String {
        format!(
            "{MECHANISM}${}:{}${}:{}",
            self.iterations,
            text::encode(&self.salt),
            text::encode(&self.stored_key),
            text::encode(&self.server_key),
        )
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// Client key and server key of a password.
pub(super) fn keys(password: &str, salt: &[u8], iterations: u32) -> ([u8; 32], [u8; 32]) {
    let mut salted = [0; 32];
    pbkdf2_hmac::<Sha256>(prepared(password).as_bytes(), salt, iterations, &mut salted);
    (hmac(&salted, &[b"Client Key"]), hmac(&salted, &[b"Server Key"]))
}

/// SASLprep as Postgres does it: what cannot be prepared is used as it is.
fn prepared(password: &str) -> Cow<'_, str> {
    if password.is_ascii() {
        return Cow::Borrowed(password);
    }
    match stringprep::saslprep(password) {
        Ok(text) if !text.is_empty() => text,
        Ok(_) | Err(_) => Cow::Borrowed(password),
    }
}
