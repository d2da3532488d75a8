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
