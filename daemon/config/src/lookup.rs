//! Where the secret of a user is looked up who is not in the auth file: as whom, in which database, with which query.
//! It runs nothing.
//! The worker's logins ask it for each such client.

use crate::{Database, Global, Settings};

/// How secrets are looked up for the clients of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The user who looks them up.
    pub user: String,
    /// The database in which, as clients name it; none: the client's own.
    pub database: Option<String>,
    /// The query, with `$1` for the user's name; it gives two columns.
    pub query: String,
}

impl Lookup {
    /// Whether the query is the one that there is without any setting.
    pub fn is_default(&self) -> bool {
        self.query == Global::default().auth_query
    }
}

impl Settings {
    /// How secrets are looked up for clients of this database; of one that does not exist if there is none.
    pub fn lookup(&self, database: Option<&Database>) -> Option<Lookup> {
        let global = &self.global;
        let own =
            |value: fn(&Database) -> &Option<String>| database.and_then(|db| value(db).clone());
        Some(Lookup {
            user: own(|db| &db.auth_user).or_else(|| global.auth_user.clone())?,
            database: own(|db| &db.auth_dbname).or_else(|| global.auth_dbname.clone()),
            query: own(|db| &db.auth_query).unwrap_or_else(|| global.auth_query.clone()),
        })
    }
}
