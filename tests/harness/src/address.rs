//! Where to connect, and as whom.
//! It never connects.
//! Clusters and fleets make it; clients and programs take it.

use std::fmt;

/// One connection's parameters, in libpq's words.
#[derive(Clone, Debug)]
pub struct Address {
    /// An address, a name, or the directory of a Unix socket.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The database to ask for.
    pub database: String,
    /// The user to be.
    pub user: String,
    /// The password, if one is to be sent.
    pub password: Option<String>,
    /// Anything else, as `key=value`.
    pub extra: String,
}

impl Address {
    /// The same place for another user.
    #[must_use]
    pub fn as_user(&self, user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: Some(password.to_owned()), ..self.clone() }
    }

    /// The same place and user, another database.
    #[must_use]
    pub fn in_database(&self, database: &str) -> Self {
        Self { database: database.to_owned(), ..self.clone() }
    }

    /// Another way to the same place.
    #[must_use]
    pub fn at(&self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self.clone() }
    }

    /// With more libpq keywords: `application_name=x`.
    #[must_use]
    pub fn with(&self, extra: &str) -> Self {
        Self { extra: format!("{} {extra}", self.extra), ..self.clone() }
    }
}

impl fmt::Display for Address {
    /// The connection string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, database, user, password, extra } = self;
        write!(f, "host={host} port={port} dbname={database} user='{user}'")?;
        if let Some(password) = password {
            write!(f, " password='{password}'")?;
        }
        write!(f, " {extra}")
    }
}
