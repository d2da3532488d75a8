//! The client's side of SCRAM: we log in at a server (RFC 5802, section 5).
//! It bounds what a server may ask for, and demands that the server prove itself too.
//! The login at a server calls it.

use std::fmt;

use subtle::ConstantTimeEq;

use super::text::{self, Attributes};
use super::verifier::keys;
use super::{MAX_ITERATIONS, ScramError, hmac, sha256, xor};

/// What we know to log in with.
pub enum ClientSecret<'a> {
    /// The password; it runs PBKDF2, so [`ScramClient::answer`] takes long.
    Password(&'a str),
    /// The keys that a client's own login has shown; the server must have the same verifier.
    Keys {
        /// Of that client's proof.
        client_key: [u8; 32],
        /// Of the verifier.
        server_key: [u8; 32],
    },
}

impl fmt::Debug for ClientSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "ClientSecret::Password(..)",
            Self::Keys { .. } => "ClientSecret::Keys(..)",
        })
    }
}

/// After our first message, waiting for the server's.
#[derive(Debug)]
pub struct ScramClient {
    nonce: String,
}

impl ScramClient {
    /// Makes our first message. `nonce` is fresh: printable, without commas. The user is in the startup packet.
    pub fn new(nonce: &str) -> (Vec<u8>, Self) {
        let client = Self { nonce: nonce.to_owned() };
        (format!("n,,{}", client.bare()).into_bytes(), client)
    }

    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// Reads the server's first message and makes our last, with the proof.
    pub fn answer(
        self,
        server_first: &[u8],
        how: ClientSecret<'_>,
    ) -> Result<(Vec<u8>, ScramVerify), ScramError> {
        let first = text::message(server_first)?;
        let mut at = Attributes::new(first);
        let nonce = at.nonce()?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let salt = text::decode(at.take('s')?)?;
        let iterations = iterations(at.take('i')?)?;
        let (client_key, server_key) = match how {
            ClientSecret::Password(password) => keys(password, &salt, iterations),
            ClientSecret::Keys { client_key, server_key } => (client_key, server_key),
        };
        let unproved = format!("c=biws,r={nonce}");
        let said = format!("{},{first},{unproved}", self.bare());
        let proof = xor(client_key, hmac(&sha256(&client_key), &[said.as_bytes()]));
        let last = format!("{unproved},p={}", text::encode(&proof));
        let verify = ScramVerify { signature: hmac(&server_key, &[said.as_bytes()]) };
        Ok((last.into_bytes(), verify))
    }
}

fn iterations(text: &str) -> Result<u32, ScramError> {
    let asked: u64 = text.parse().map_err(|_| ScramError::Malformed("bad iteration count"))?;
    match u32::try_from(asked) {
        Ok(n @ 1..=MAX_ITERATIONS) => Ok(n),
        Ok(_) | Err(_) => Err(ScramError::Iterations(asked)),
    }
}

/// After our last message, waiting for the server's.
pub struct ScramVerify {
    signature: [u8; 32],
}

impl ScramVerify {
    /// Checks the server's last message. Only then is the server known to have the verifier.
    pub fn check(self, server_final: &[u8]) -> Result<(), ScramError> {
        let message = text::message(server_final)?;
        if let Some(error) = message.strip_prefix("e=") {
            return Err(ScramError::Reported(error.to_owned()));
        }
        let signature = text::decode_key(Attributes::new(message).take('v')?)?;
        if bool::from(signature.ct_eq(&self.signature)) {
            Ok(())
        } else {
            Err(ScramError::Signature)
        }
    }
}

impl fmt::Debug for ScramVerify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramVerify(..)")
    }
}
