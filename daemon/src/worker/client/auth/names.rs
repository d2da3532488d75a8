//! Methods that ask the client nothing: who runs it (`peer`), and what its certificate says (`cert`).
//!
//! The name that they find is held against the database user, directly or by a map of
//! `auth_ident_file`. Names of users are looked up on another thread: they may come from a network.

use log::warn;
use nix::unistd::{Uid, User};
use pgfleet_config::hba::IdentMap;

use crate::worker::client::login::Asked;
use crate::worker::client::refusal::Refusal;
use crate::worker::client::{Origin, Stage};
use crate::worker::completion::Completion;
use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

impl Worker {
    pub(super) fn ask_peer(&mut self, id: ClientId, map: Option<String>) {
        let Some(client) = self.client(id) else { return };
        let Origin::Unix { uid: Some(uid) } = *client.origin else {
            return self.refuse(id, &Refusal::PeerFailed);
        };
        let Stage::Login(login) = &mut client.stage else { return };
        login.asked = Asked::Name(map);
        let completions = self.completions.clone();
        // Detached: it ends by itself, and a completion for a client that is gone is dropped.
        drop(tokio::task::spawn_blocking(move || {
            let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
            drop(completions.send(Completion::Named { client: id, name }));
        }));
    }

    /// The user at the other end of a Unix socket was looked up.
    pub(crate) fn named(&mut self, id: ClientId, name: Option<&str>) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        let known = login.secret.is_some();
        let user = login.startup.user.clone();
        let Asked::Name(map) = std::mem::replace(&mut login.asked, Asked::Nothing) else { return };
        let allowed = name.is_some_and(|name| {
            IdentMap::allows(&self.settings.ident, map.as_deref(), name, &user)
        });
        if allowed && known {
            return self.authenticated(id);
        }
        let name = name.unwrap_or("(unknown)");
        warn!("peer \"{name}\" may not log in as \"{user}\"");
        self.refuse(id, &Refusal::PeerFailed);
    }

    pub(super) fn judge_certificate(&mut self, id: ClientId, map: Option<&str>) {
        let names = self.certificate_names(id);
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let (known, user) = (login.secret.is_some(), login.startup.user.clone());
        let ident = &self.settings.ident;
        let allowed = names.iter().any(|name| IdentMap::allows(ident, map, name, &user));
        if allowed && known {
            return self.authenticated(id);
        }
        warn!("a certificate for {names:?} may not log in as \"{user}\"");
        self.refuse(id, &Refusal::CertificateFailed);
    }

    /// The names in a verified certificate of the client; none without TLS.
    fn certificate_names(&mut self, _id: ClientId) -> Vec<String> {
        Vec::new()
    }
}
