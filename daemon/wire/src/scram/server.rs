//! The server's side of SCRAM: we authenticate a client (RFC 5802, section 5).
//! It does not say why a proof is wrong, and takes the same time for a fabricated verifier.
//! The login of a client calls it.

use std::fmt;

use subtle::ConstantTimeEq;

use super::text::{self, Attributes};
use super::{ClientKey, ScramError, Verifier, hmac, sha256, xor};

/// After the server's first message, waiting for the client's last.
pub struct ScramServer {
    verifier: Verifier,
    /// The channel binding flag that the client sent: its `c=` must repeat it.
    header: &'static str,
    nonce: String,
    /// The client's bare first message, a comma, and the server's first message.
    messages: String,
}

impl ScramServer {
    /// Reads the client's first message and makes the server's first. `nonce` is fresh: printable, without commas.
    pub fn first(
        client_first: &[u8],
        nonce: &str,
        verifier: Verifier,
    ) -> Result<(Vec<u8>, Self), ScramError> {
        let message = text::message(client_first)?;
        let (header, bare) = gs2(message)?;
        let mut at = Attributes::new(bare);
        // The startup packet has named the user already.
        at.take('n')?;
        let nonce = format!("{}{nonce}", at.nonce()?);
        let first =
            format!("r={nonce},s={},i={}", text::encode(&verifier.salt), verifier.iterations);
        let server = Self { verifier, header, nonce, messages: format!("{bare},{first}") };
        Ok((first.into_bytes(), server))
    }

    /// Checks the client's last message and makes the server's last. `Proof` means a wrong password.
    ///
    /// The key that comes with it logs in at any server that has the same verifier.
    pub fn finish(self, client_final: &[u8]) -> Result<(Vec<u8>, ClientKey), ScramError> {
        let message = text::message(client_final)?;
        let (unproved, proof) =
            message.rsplit_once(",p=").ok_or(ScramError::Malformed("proof missing"))?;
        let mut at = Attributes::new(unproved);
        if text::decode(at.take('c')?)? != self.header.as_bytes() {
            return Err(ScramError::ChannelBinding);
        }
        if at.nonce()? != self.nonce {
            return Err(ScramError::Nonce);
        }
        let proof = text::decode_key(proof)?;
        let said: [&[u8]; 3] = [self.messages.as_bytes(), b",", unproved.as_bytes()];
        let key = xor(proof, hmac(&self.verifier.stored_key, &said));
        if !bool::from(sha256(&key).ct_eq(&self.verifier.stored_key)) {
            return Err(ScramError::Proof);
        }
        let signature = hmac(&self.verifier.server_key, &said);
        let last = format!("v={}", text::encode(&signature));
        Ok((last.into_bytes(), ClientKey(key)))
    }
}

impl fmt::Debug for ScramServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramServer(..)")
    }
}

/// The GS2 header and what follows it. `y` is fine: we offer no channel binding, as the client thought.
fn gs2(message: &str) -> Result<(&'static str, &str), ScramError> {
    for header in ["n,,", "y,,"] {
        if let Some(bare) = message.strip_prefix(header) {
            return Ok((header, bare));
        }
    }
    if message.starts_with("n,a=") || message.starts_with("y,a=") {
        return Err(ScramError::AuthorizationIdentity);
    }
    if message.starts_with("p=") {
        return Err(ScramError::ChannelBinding);
    }
    Err(ScramError::Malformed("bad channel binding flag"))
}
