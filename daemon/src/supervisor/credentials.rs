//! What clients have shown of their users, kept for workers that are started later.
//!
//! It is passed on and never used or printed here; a reload forgets what the new settings do not bear
//! out. Only `hear` and `reload` call it.

use std::collections::BTreeMap;

use pgfleet_config::Settings;

use super::office::Office;
use crate::link::message::{Credential, ToWorker, WorkerId};

/// More users than this are shown to each worker by their own clients alone.
const MOST: usize = 10_000;

/// See the module's page.
#[derive(Default)]
pub(crate) struct Credentials {
    known: BTreeMap<(Option<String>, String), Credential>,
}

impl Credentials {
    fn put(&mut self, credential: &Credential) {
        let owner = (credential.database.clone(), credential.user.clone());
        if credential.secret.is_none() {
            self.known.remove(&owner);
        } else if self.known.len() < MOST || self.known.contains_key(&owner) {
            self.known.insert(owner, credential.clone());
        }
    }

    /// The settings have changed.
    pub(super) fn follow(&mut self, settings: &Settings) {
        self.known.retain(|(database, user), credential| {
            let listed = settings.userlist.get(user).map(String::as_str);
            let known = credential.secret.as_ref().map(|secret| secret.expose());
            database.is_none() && listed == known
        });
    }
}

impl Office {
    /// A worker has learnt it: the others know it too.
    pub(super) fn shown(&mut self, worker: WorkerId, credential: &Credential) {
        self.credentials.put(credential);
        let others: Vec<WorkerId> = self.welcomed().map(|(other, _)| other).collect();
        for other in others.into_iter().filter(|other| *other != worker) {
            self.tell(other, &ToWorker::Shown(credential.clone()));
        }
    }

    /// A worker has its settings: it is told what the others know.
    pub(super) fn tell_credentials(&self, worker: WorkerId) {
        for credential in self.credentials.known.values() {
            self.tell(worker, &ToWorker::Shown(credential.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgfleet_config::Password;

    fn shown(database: Option<&str>, user: &str, secret: Option<&str>) -> Credential {
        Credential {
            database: database.map(str::to_owned),
            user: user.to_owned(),
            secret: secret.map(Password::new),
            key: None,
        }
    }

    #[test]
    fn a_reload_forgets_removed_and_changed_users_and_all_that_was_looked_up() {
        let mut credentials = Credentials::default();
        for user in ["same", "changed", "removed"] {
            credentials.put(&shown(None, user, Some("old")));
        }
        credentials.put(&shown(Some("d"), "looked_up", Some("old")));
        let mut settings = Settings::default();
        for (user, secret) in [("same", "old"), ("changed", "new")] {
            settings.userlist.insert(user.to_owned(), secret.to_owned());
        }
        credentials.follow(&settings);
        let left: Vec<_> = credentials.known.keys().map(|(_, user)| user.as_str()).collect();
        assert_eq!(left, ["same"]);
        credentials.put(&shown(None, "same", None));
        assert!(credentials.known.is_empty());
    }
}
