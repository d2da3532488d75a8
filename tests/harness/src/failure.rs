//! An error as a client sees it: severity, SQLSTATE and text.
//! It never keeps what tests do not compare.
//! Both kinds of clients give it back.

use std::fmt;

/// The error that a pooler or a server answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `ERROR`, `FATAL` or `PANIC`; empty if the connection was lost without a word.
    pub severity: String,
    /// The SQLSTATE; empty if the connection was lost without a word.
    pub code: String,
    /// The text.
    pub message: String,
}

impl Failure {
    /// An error with these three parts.
    pub fn new(severity: &str, code: &str, message: &str) -> Self {
        Self { severity: severity.to_owned(), code: code.to_owned(), message: message.to_owned() }
    }

    /// Whether the connection was lost without an error message.
    pub fn is_silent(&self) -> bool {
        self.code.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.severity, self.code, self.message)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) => Self::new(db.severity(), db.code().code(), db.message()),
            None => Self::new("", "", &describe(&error)),
        }
    }
}

/// The error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
