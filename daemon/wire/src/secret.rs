//! What is known of a user's password: the password, its MD5 hash or its SCRAM verifier.
//! It is never printed, and compared in constant time.
//! Configuration and auth_query give the text; logins of either side use the secret.

use std::fmt;

use subtle::ConstantTimeEq;
use thiserror::Error;

use crate::md5;
use crate::scram::Verifier;

/// The password of a user, in one of the forms of `pg_authid.rolpassword` or a userlist.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password itself.
    Plain(String),
    /// 32 lower-case hex digits: MD5 of password and user.
    Md5([u8; 32]),
    /// A verifier for SCRAM-SHA-256.
    Scram(Verifier),
}

/// A text that cannot be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// It begins like a SCRAM verifier and is none.
    #[error(
        "malformed SCRAM secret, expected SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>"
    )]
    Scram,
    /// It holds a NUL, which no password message can carry.
    #[error("the password contains a NUL byte")]
    Nul,
}

impl Secret {
    /// Reads the text form: `SCRAM-SHA-256$…`, `md5` and 32 lower-case hex digits, or else a password.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        if text.contains('\0') {
            return Err(SecretError::Nul);
        }
        if text.starts_with("SCRAM-SHA-256$") {
            return Verifier::parse(text).map(Self::Scram).ok_or(SecretError::Scram);
        }
        let hex = text
            .strip_prefix("md5")
            .and_then(|hex| <[u8; 32]>::try_from(hex.as_bytes()).ok())
            .filter(|hex| hex.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
        Ok(match hex {
            Some(hex) => Self::Md5(hex),
            None => Self::Plain(text.to_owned()),
        })
    }

    /// The text form, which [`Secret::parse`] reads.
    pub fn to_text(&self) -> String {
        match self {
            Self::Plain(password) => password.clone(),
            Self::Md5(hex) => format!("md5{}", md5::text(hex)),
            Self::Scram(verifier) => verifier.to_text(),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Secret::Plain(..)",
            Self::Md5(_) => "Secret::Md5(..)",
            Self::Scram(_) => "Secret::Scram(..)",
        })
    }
}

/// Whether a password that came in cleartext is right.
///
/// For a SCRAM secret it runs PBKDF2: then call it on a thread that may block.
pub fn password_check(secret: &Secret, user: &str, password: &str) -> bool {
    match secret {
        Secret::Plain(right) => right.as_bytes().ct_eq(password.as_bytes()).into(),
        Secret::Md5(stored) => md5::hash(password.as_bytes(), user.as_bytes()).ct_eq(stored).into(),
        Secret::Scram(verifier) => {
            let theirs = Verifier::derive(password, &verifier.salt, verifier.iterations);
            theirs.stored_key.ct_eq(&verifier.stored_key).into()
        }
    }
}
