//! What is known of users for the logins to Postgres, beyond the configuration: keys that clients have shown,
//! secrets that were looked up, passwords that a directory has accepted.
//!
//! What one worker learns all workers know, and what is changed or gone is forgotten by all. A key is
//! never used without the verifier that it is of. Logins of clients put in, logins to servers read.

use std::collections::HashMap;

use log::debug;
use pgfleet_config::{Password, Settings};
use pgfleet_wire::scram::ClientKey;
use pgfleet_wire::secret::Secret;

use crate::link::message::{Credential, Key, ToSupervisor};
use crate::worker::client::Stage;
use crate::worker::ids::{ClientId, PoolId};
use crate::worker::state::Worker;

/// Of a user: in the auth file, or as clients of one database know it.
type Owner = (Option<String>, String);

/// So many users at most; what was looked up is forgotten when there are more.
const MOST: usize = 10_000;

/// See the module's page.
#[derive(Default)]
pub(crate) struct Keyring {
    known: HashMap<Owner, Known>,
}

/// A secret, and the key that logs in where it is the verifier.
#[derive(Clone, PartialEq, Eq)]
struct Known {
    secret: Password,
    key: Option<[u8; 32]>,
}

/// With what a server of a pool is logged in to.
pub(crate) struct ServerSecret {
    pub(crate) secret: Secret,
    /// The client's key of a SCRAM secret.
    pub(crate) key: Option<[u8; 32]>,
}

impl Keyring {
    /// Puts a credential in, or takes one out. Returns whether that was news.
    fn put(&mut self, credential: Credential) -> bool {
        let owner = (credential.database, credential.user);
        let Some(secret) = credential.secret else { return self.known.remove(&owner).is_some() };
        let new = Known { secret, key: credential.key.map(|key| key.0) };
        match self.known.get(&owner) {
            Some(old) if *old == new => false,
            // A key that is known already is not lost to a look-up that found the same secret.
            Some(old) if old.secret == new.secret && new.key.is_none() => false,
            Some(_) | None => {
                if self.known.len() >= MOST {
                    // Each login looks its user up again; keys of the auth file's users would be missed.
                    self.known.retain(|(database, _), _| database.is_none());
                }
                self.known.insert(owner, new);
                true
            }
        }
    }

    /// Forgets what the settings no longer bear out.
    fn follow(&mut self, old: &Settings, new: &Settings) {
        self.known.retain(|(database, user), known| match database {
            None => new.userlist.get(user).is_some_and(|text| text == known.secret.expose()),
            Some(name) => {
                let source = |settings: &Settings| {
                    (
                        settings.database(name).and_then(|db| settings.lookup(Some(&db))),
                        settings.global.auth_type,
                    )
                };
                let same_place = match (old.database(name), new.database(name)) {
                    (Some(old), Some(new)) => old.is_same_place(&new),
                    (Some(_) | None, _) => false,
                };
                same_place && source(old) == source(new) && !lists(new, user)
            }
        });
    }

    /// Forgets what was learnt for a pool that is dropped.
    pub(crate) fn forget(&mut self, database: &str, user: &str) {
        self.known.remove(&(Some(database.to_owned()), user.to_owned()));
    }

    fn of(&self, owner: &Owner) -> Option<&Known> {
        self.known.get(owner)
    }
}

/// Whether the auth file has a secret for the user.
fn lists(settings: &Settings, user: &str) -> bool {
    settings.userlist.get(user).is_some_and(|text| !text.is_empty())
}

impl Worker {
    /// A client has proved itself by SCRAM, or by the password of a SCRAM secret.
    pub(crate) fn key_shown(&mut self, id: ClientId, key: ClientKey) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let (user, database) = (login.startup.user.clone(), login.found_in.clone());
        let Some(secret @ Secret::Scram(_)) = &login.secret else { return };
        let text = match database {
            Some(_) => secret.to_text(),
            None => self.settings.userlist.get(&user).cloned().unwrap_or_default(),
        };
        let (secret, key) = (Some(Password::new(text)), Some(Key(key.0)));
        self.teach_credential(Credential { database, user, secret, key });
    }

    /// A client whose secret was looked up is in: the secret may serve for the server too.
    pub(crate) fn secret_proved(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let Some(secret) = login.secret.as_ref().filter(|_| login.found_in.is_some()) else {
            return;
        };
        if *secret == Secret::Plain(String::new()) {
            return;
        }
        let credential = Credential {
            database: login.found_in.clone(),
            user: login.startup.user.clone(),
            secret: Some(Password::new(secret.to_text())),
            key: None,
        };
        self.teach_credential(credential);
    }

    /// A user was looked up for clients of this database: what was known is forgotten if it was another secret.
    pub(crate) fn secret_found(&mut self, database: &str, user: &str, secret: Option<&Secret>) {
        let owner = (Some(database.to_owned()), user.to_owned());
        let text = secret.map(Secret::to_text);
        let known = self.keyring.of(&owner).map(|known| known.secret.expose());
        if known.is_some() && known != text.as_deref() {
            let (database, user) = owner;
            self.teach_credential(Credential { database, user, secret: None, key: None });
        }
    }

    /// An LDAP server or PAM has accepted this password.
    pub(crate) fn password_accepted(&mut self, id: ClientId, password: String) {
        let Some(client) = self.client(id) else { return };
        let credential = Credential {
            database: Some(client.database().to_owned()),
            user: client.user().to_owned(),
            secret: Some(Password::new(password)),
            key: None,
        };
        self.teach_credential(credential);
    }

    fn teach_credential(&mut self, credential: Credential) {
        let of_no_database =
            credential.database.as_ref().is_some_and(|name| self.settings.database(name).is_none());
        if of_no_database {
            return;
        }
        if self.take_credential(credential.clone()) {
            self.say(&ToSupervisor::Shown(credential), None);
        }
    }

    /// Another worker knows a user better.
    pub(crate) fn learn_credential(&mut self, credential: Credential) {
        let bears_out = match (&credential.database, &credential.secret) {
            (_, None) => true,
            (None, Some(secret)) => {
                let listed = self.settings.userlist.get(&credential.user);
                listed.is_some_and(|text| text == secret.expose())
            }
            (Some(_), Some(_)) => !lists(&self.settings, &credential.user),
        };
        if bears_out {
            self.take_credential(credential);
        } else {
            debug!("a credential of user \"{}\" is out of date", credential.user);
        }
    }

    /// Keeps it; pools whose logins failed for want of it may try again.
    fn take_credential(&mut self, credential: Credential) -> bool {
        let (database, user) = (credential.database.clone(), credential.user.clone());
        let helps = credential.secret.is_some();
        if !self.keyring.put(credential) {
            return false;
        }
        if helps {
            let is_its = |name: &str| database.as_deref().is_none_or(|own| own == name);
            let pools: Vec<PoolId> = self
                .pools
                .iter()
                .filter(|pool| pool.user == user && is_its(&pool.name))
                .map(|pool| pool.id)
                .collect();
            for id in pools {
                if let Some(pool) = self.pool(id) {
                    pool.backoff.succeed();
                }
            }
        }
        true
    }

    /// The settings have changed.
    pub(crate) fn keyring_follows(&mut self, old: &Settings) {
        let settings = std::rc::Rc::clone(&self.settings);
        self.keyring.follow(old, &settings);
    }

    /// With what a server of this pool is logged in to: the forced user's own password, else what the
    /// auth file has for the user, else what was learnt of it.
    pub(crate) fn server_secret(&self, id: PoolId) -> Option<ServerSecret> {
        let pool = self.pools.get(id)?;
        let database = &pool.database;
        let is_forced = database.user.as_ref().is_none_or(|forced| *forced == pool.user);
        if let Some(password) = database.password.as_ref().filter(|_| is_forced)
            && !password.is_empty()
        {
            return Some(ServerSecret {
                secret: Secret::parse(password.expose()).ok()?,
                key: None,
            });
        }
        let (owner, text) = match self.settings.userlist.get(&pool.user) {
            Some(text) if !text.is_empty() => ((None, pool.user.clone()), Some(text.as_str())),
            Some(_) | None => ((Some(pool.name.clone()), pool.user.clone()), None),
        };
        let known = self.keyring.of(&owner);
        let text = text.or(known.map(|known| known.secret.expose()))?;
        let key = known.filter(|known| known.secret.expose() == text).and_then(|known| known.key);
        Some(ServerSecret { secret: Secret::parse(text).ok()?, key })
    }

    /// Whether a server of this pool could only be logged in to with a key that nobody has shown yet.
    pub(crate) fn lacks_key(&self, id: PoolId) -> bool {
        matches!(self.server_secret(id), Some(ServerSecret { secret: Secret::Scram(_), key: None }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgfleet_config::Database;

    fn shown(database: Option<&str>, secret: Option<&str>, key: Option<u8>) -> Credential {
        Credential {
            database: database.map(str::to_owned),
            user: "u".to_owned(),
            secret: secret.map(Password::new),
            key: key.map(|byte| Key([byte; 32])),
        }
    }

    #[test]
    fn a_key_is_kept_while_its_secret_stands() {
        let mut ring = Keyring::default();
        let owner = (Some("d".to_owned()), "u".to_owned());
        assert!(ring.put(shown(Some("d"), Some("s"), Some(7))));
        assert!(!ring.put(shown(Some("d"), Some("s"), None)), "a look-up says nothing new");
        assert_eq!(ring.of(&owner).unwrap().key, Some([7; 32]));
        assert!(ring.put(shown(Some("d"), Some("t"), None)));
        assert_eq!(ring.of(&owner).unwrap().key, None, "it was the key of another secret");
        assert!(ring.put(shown(Some("d"), None, None)));
        assert!(ring.of(&owner).is_none() && !ring.put(shown(Some("d"), None, None)));
    }

    #[test]
    fn a_reload_forgets_what_the_settings_no_longer_bear_out() {
        let mut old = Settings::default();
        old.databases.insert("d".to_owned(), Database::new("d"));
        old.userlist.insert("u".to_owned(), "s".to_owned());
        let kept = |change: fn(&mut Settings)| {
            let mut ring = Keyring::default();
            ring.put(shown(None, Some("s"), Some(1)));
            ring.put(Credential { user: "v".to_owned(), ..shown(Some("d"), Some("s"), None) });
            let mut new = old.clone();
            change(&mut new);
            ring.follow(&old, &new);
            let has = |database: Option<&str>, user: &str| {
                ring.of(&(database.map(str::to_owned), user.to_owned())).is_some()
            };
            (has(None, "u"), has(Some("d"), "v"))
        };
        assert_eq!(kept(|_| {}), (true, true));
        assert_eq!(kept(|new| new.userlist.clear()), (false, true));
        assert_eq!(
            kept(|new| drop(new.userlist.insert("u".to_owned(), "t".to_owned()))),
            (false, true)
        );
        assert_eq!(
            kept(|new| drop(new.userlist.insert("v".to_owned(), "t".to_owned()))),
            (true, false)
        );
        assert_eq!(kept(|new| new.global.auth_user = Some("x".to_owned())), (true, false));
        assert_eq!(kept(|new| new.databases.clear()), (true, false));
        assert_eq!(kept(|new| new.databases.get_mut("d").unwrap().port = 1), (true, false));
    }
}
