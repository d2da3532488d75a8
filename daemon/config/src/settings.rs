//! The snapshot of all settings that is passed down.
//! It never changes after loading; a reload makes another one.
//! The supervisor loads it and sends it to the workers as it is.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    Database, Global, Problem, User,
    draft::Draft,
    hba::{IdentMap, LdapOptions, Rule},
};

/// Everything that the files and the environment say.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The settings of the whole fleet.
    pub global: Global,
    /// The entries of `[databases]`, by name.
    pub databases: BTreeMap<String, Database>,
    /// The entry `*`, for databases that have none.
    pub fallback: Option<Database>,
    /// The entries of `[users]`, by name.
    pub users: BTreeMap<String, User>,
    /// The secrets of the auth file as they stand there, by user name.
    pub userlist: BTreeMap<String, String>,
    /// The rules of `auth_hba_file`, in their order; read for `auth_type = hba`.
    pub hba: Vec<Rule>,
    /// The lines of `auth_ident_file`.
    pub ident: Vec<IdentMap>,
    /// What `auth_ldap_options` says; read for `auth_type = ldap`.
    pub ldap: Option<LdapOptions>,
    /// What the operator should know, one log line each: keys without effect, limits that cap the workers.
    pub notes: Vec<String>,
    /// The files that were read, the main one first.
    pub files: Vec<PathBuf>,
}

impl Settings {
    /// These settings with another value of one key of the fleet, checked as a whole.
    ///
    /// # Errors
    /// Whatever is wrong with the key, the value, or what comes of it.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, Vec<Problem>> {
        Draft::of(self).change(key, value)
    }

    /// Why hardly anybody could use a fleet with these settings, one line each; such a fleet starts all the same.
    pub fn vacancies(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.databases.is_empty() && self.fallback.is_none() {
            lines.push("there is no database: every client but one of the console will be refused; add entries to [databases]".to_owned());
        }
        if self.global.listen_addr.is_empty()
            && let Some(dir) = &self.global.unix_socket_dir
        {
            lines.push(format!(
                "listen_addr is empty: clients can only come by the Unix socket in {}",
                dir.display()
            ));
        }
        lines
    }

    /// The entry for the database that a client asks for: its own, else `*` with this name.
    pub fn database(&self, name: &str) -> Option<Database> {
        if let Some(database) = self.databases.get(name) {
            return Some(database.clone());
        }
        let template = self.fallback.as_ref()?;
        let dbname = if template.dbname == template.name { name } else { &template.dbname };
        Some(Database { name: name.to_owned(), dbname: dbname.to_owned(), ..template.clone() })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("global", &self.global)
            .field("databases", &self.databases)
            .field("fallback", &self.fallback)
            .field("users", &self.users)
            .field("userlist", &format_args!("{} users", self.userlist.len()))
            .field("hba", &self.hba)
            .field("ident", &self.ident)
            .field("ldap", &self.ldap)
            .field("notes", &self.notes)
            .field("files", &self.files)
            .finish()
    }
}
