//! MD5 passwords as Postgres stores and asks for them (manual: "AuthenticationMD5Password").
//! It compares in constant time and keeps nothing.
//! Logins of either side call it.

use ::md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

/// What `pg_authid` holds for the password: `md5` and 32 hex digits.
pub fn md5_stored(user: &str, password: &str) -> String {
    format!("md5{}", text(&hash(password.as_bytes(), user.as_bytes())))
}

/// The answer to `AuthenticationMD5Password`: `md5` and 32 hex digits.
///
/// `stored` is what [`md5_stored`] gives, without the `md5` in front.
pub fn md5_response(stored: impl AsRef<[u8]>, salt: [u8; 4]) -> String {
    format!("md5{}", text(&hash(stored.as_ref(), &salt)))
}

/// Whether `answer` is right for this secret and salt; never for a SCRAM secret.
pub fn md5_check(secret: &Secret, user: &str, salt: [u8; 4], answer: impl AsRef<[u8]>) -> bool {
    let stored = match secret {
        Secret::Plain(password) => hash(password.as_bytes(), user.as_bytes()),
        Secret::Md5(stored) => *stored,
        Secret::Scram(_) => return false,
    };
    md5_response(stored, salt).as_bytes().ct_eq(answer.as_ref()).into()
}

/// The hex digits of the MD5 of `a` and then `b`.
pub(crate) fn hash(a: &[u8], b: &[u8]) -> [u8; 32] {
    let digest = Md5::new().chain_update(a).chain_update(b).finalize();
    let mut out = [0; 32];
    for (pair, byte) in out.chunks_exact_mut(2).zip(digest) {
        for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = b"0123456789abcdef"[usize::from(nibble)];
        }
    }
    out
}

/// Hex digits as text.
pub(crate) fn text(hex: &[u8; 32]) -> String {
    hex.iter().copied().map(char::from).collect()
}
