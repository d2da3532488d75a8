//! Passwords in clear text and their MD5 hashes, held against the user's secret.
//!
//! A cleartext password always costs one key derivation, beside the data thread, whatever the secret
//! is and whether the user exists: the time says nothing. What a directory says is judged the same way.

use pgfleet_wire::scram::ClientKey;
use pgfleet_wire::secret::{Secret, password_check};
use pgfleet_wire::{front, md5};

use super::Way;
use crate::worker::client::Stage;
use crate::worker::client::login::Asked;
use crate::worker::client::refusal::Refusal;
use crate::worker::completion::Completion;
use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

/// What became of a password that was judged beside the data thread.
pub(crate) enum Verdict {
    /// It is right; the key of a SCRAM secret that it has shown.
    Right(Option<ClientKey>),
    /// A directory has accepted it: it may be the one of Postgres too.
    Accepted(String),
    Wrong(Refusal),
}

impl Worker {
    pub(in crate::worker::client) fn on_password(&mut self, id: ClientId, body: &[u8]) {
        let answer = match front::parse_password(body) {
            Ok(b"") => return self.refuse(id, &Refusal::EmptyPassword),
            Ok(answer) => answer,
            Err(_) => return self.refuse(id, &Refusal::WrongPassword),
        };
        let Ok(password) = std::str::from_utf8(answer).map(str::to_owned) else {
            return self.refuse(id, &Refusal::WrongPassword);
        };
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        login.asked = Asked::Judgement;
        let (user, secret) = (login.startup.user.clone(), login.secret.clone());
        match login.way.clone() {
            Way::Ldap(options) => self.ask_ldap(id, *options, user, password),
            Way::Pam => self.ask_pam(id, user, password),
            Way::Any
            | Way::Trust
            | Way::Md5
            | Way::ScramSha256
            | Way::Plain
            | Way::Peer(_)
            | Way::Cert(_) => self.judge(id, user, secret, password),
        }
    }

    fn judge(&mut self, id: ClientId, user: String, secret: Option<Secret>, password: String) {
        let stranger = self.strange(&user);
        self.beside(id, move || {
            let verifier = match &secret {
                Some(Secret::Scram(verifier)) => verifier,
                Some(Secret::Plain(_) | Secret::Md5(_)) | None => &stranger,
            };
            let shown = verifier.prove(&password);
            let right = match &secret {
                Some(Secret::Scram(_)) => shown.is_some(),
                Some(other @ (Secret::Plain(_) | Secret::Md5(_))) => {
                    password_check(other, &user, &password)
                }
                None => false,
            };
            if right { Verdict::Right(shown) } else { Verdict::Wrong(Refusal::WrongPassword) }
        });
    }

    /// Judges on another thread.
    pub(super) fn beside(&self, id: ClientId, judge: impl FnOnce() -> Verdict + Send + 'static) {
        let completions = self.completions.clone();
        // Detached: it ends by itself, and a completion for a client that is gone is dropped.
        drop(tokio::task::spawn_blocking(move || {
            drop(completions.send(Completion::Judged { client: id, verdict: judge() }));
        }));
    }

    /// A password was judged.
    pub(crate) fn judged(&mut self, id: ClientId, verdict: Verdict) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        if !matches!(login.asked, Asked::Judgement) {
            return;
        }
        match verdict {
            Verdict::Right(key) => {
                if let Some(key) = key {
                    self.key_shown(id, key);
                }
                self.authenticated(id);
            }
            Verdict::Accepted(password) => {
                self.password_accepted(id, password);
                self.authenticated(id);
            }
            Verdict::Wrong(refusal) => self.refuse(id, &refusal),
        }
    }

    pub(in crate::worker::client) fn on_md5(&mut self, id: ClientId, body: &[u8], salt: [u8; 4]) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let answer = match front::parse_password(body) {
            Ok(b"") => return self.refuse(id, &Refusal::EmptyPassword),
            Ok(answer) => answer,
            Err(_) => return self.refuse(id, &Refusal::WrongPassword),
        };
        // An unknown user is compared with something too, and never matches.
        let unknown = Secret::Plain(String::new());
        let against = login.secret.as_ref().unwrap_or(&unknown);
        let matches = md5::md5_check(against, &login.startup.user, salt, answer);
        if matches && *against != unknown {
            self.authenticated(id);
        } else {
            self.refuse(id, &Refusal::WrongPassword);
        }
    }
}
