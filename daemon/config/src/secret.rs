//! The newtype for what must never be printed.
//! It shows itself only through `expose`, never through `Debug` or `Display`.
//! The database entries hold it, and whoever logs in to a server opens it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret as it stands in a file; its `Debug` form is `***`.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Password(String);

impl Password {
    /// Wraps the secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for a login and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
