//! SCRAM-SHA-256: against a verifier of Postgres, one that is derived from a password, or one that nothing matches.
//!
//! A client that proves itself against a real verifier shows the key with which the fleet can log in
//! to a Postgres that has the same one. Verifiers of passwords are derived on another thread and kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use log::warn;
use pgfleet_wire::back;
use pgfleet_wire::front;
use pgfleet_wire::scram::{ScramServer, Verifier};
use pgfleet_wire::secret::Secret;

use crate::worker::client::Stage;
use crate::worker::client::login::{Asked, random};
use crate::worker::client::refusal::Refusal;
use crate::worker::completion::Completion;
use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

impl Worker {
    pub(in crate::worker::client) fn on_scram_first(&mut self, id: ClientId, body: &[u8]) {
        let first = match front::parse_sasl_initial(body) {
            Ok((b"SCRAM-SHA-256", Some(first))) => first.to_vec(),
            Ok(_) | Err(_) => return self.refuse(id, &Refusal::SaslFailed),
        };
        let (user, secret) = {
            let Some(client) = self.client(id) else { return };
            let Stage::Login(login) = &client.stage else { return };
            (login.startup.user.clone(), login.secret.clone())
        };
        match secret {
            Some(Secret::Scram(verifier)) => self.on_verifier(id, &first, verifier),
            Some(Secret::Plain(password)) if !password.is_empty() => {
                match self.verifiers.get(&user) {
                    Some((of, verifier)) if *of == password => {
                        let verifier = verifier.clone();
                        self.on_verifier(id, &first, verifier);
                    }
                    Some(_) | None => self.derive(id, user, password, first),
                }
            }
            Some(Secret::Plain(_) | Secret::Md5(_)) | None => {
                if matches!(secret, Some(Secret::Md5(_))) {
                    warn!(
                        "user \"{user}\" has an md5 secret, which scram-sha-256 cannot use; give it a SCRAM secret or the password"
                    );
                }
                let verifier = self.strange(&user);
                self.on_verifier(id, &first, verifier);
            }
        }
    }

    /// A verifier that nothing matches, with the salt and iterations that the user would have.
    pub(super) fn strange(&self, user: &str) -> Verifier {
        Verifier {
            iterations: self.settings.global.scram_iterations,
            ..Verifier::mock(user, &self.welcome.fleet_secret)
        }
    }

    /// Whether a stranger's secret would be one for SCRAM: as likely as those of the users that there
    /// are, and always the same for one name.
    pub(super) fn stranger_has_scram(&self, user: &str) -> bool {
        let users = &self.settings.userlist;
        let drawn = Verifier::mock(user, &self.welcome.fleet_secret).stored_key;
        let drawn = drawn.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let Some(turn) = drawn.checked_rem(users.len() as u64) else { return false };
        let like = users.values().nth(usize::try_from(turn).unwrap_or(0));
        like.is_some_and(|text| text.starts_with("SCRAM-SHA-256$"))
    }

    fn derive(&mut self, id: ClientId, user: String, password: String, first: Vec<u8>) {
        // The salt that a stranger of this name would see: the same on every worker.
        let Verifier { salt, iterations, .. } = self.strange(&user);
        let completions = self.completions.clone();
        if let Some(client) = self.client(id)
            && let Stage::Login(login) = &mut client.stage
        {
            login.asked = Asked::Deriving(first);
        }
        // Detached: it ends by itself, and a completion for a client that is gone is dropped.
        drop(tokio::task::spawn_blocking(move || {
            let verifier = Verifier::derive(&password, &salt, iterations);
            let sent =
                completions.send(Completion::Derived { client: id, user, password, verifier });
            drop(sent);
        }));
    }

    /// The verifier that was derived on another thread is here.
    pub(crate) fn derived(
        &mut self,
        id: ClientId,
        user: String,
        password: String,
        verifier: Verifier,
    ) {
        // Kept only while the file still has that password.
        if self.settings.userlist.get(&user).is_some_and(|text| *text == password) {
            self.verifiers.insert(user, (password, verifier.clone()));
        }
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        if let Asked::Deriving(first) = std::mem::replace(&mut login.asked, Asked::Nothing) {
            self.on_verifier(id, &first, verifier);
        }
    }

    fn on_verifier(&mut self, id: ClientId, first: &[u8], verifier: Verifier) {
        let nonce = match random::<18>() {
            Ok(nonce) => STANDARD.encode(nonce),
            Err(refusal) => return self.refuse(id, &refusal),
        };
        match ScramServer::first(first, &nonce, verifier) {
            Ok((message, scram)) => {
                let mut out = Vec::new();
                back::auth_sasl_continue(&mut out, &message);
                if let Some(client) = self.client(id)
                    && let Stage::Login(login) = &mut client.stage
                {
                    login.asked = Asked::Proof(Box::new(scram));
                }
                self.reply(id, &out);
                self.login_input(id);
            }
            Err(_) => self.refuse(id, &Refusal::SaslFailed),
        }
    }

    pub(in crate::worker::client) fn on_proof(
        &mut self,
        id: ClientId,
        scram: ScramServer,
        body: &[u8],
    ) {
        match scram.finish(body) {
            Ok((message, key)) => {
                let mut out = Vec::new();
                back::auth_sasl_final(&mut out, &message);
                self.reply(id, &out);
                self.key_shown(id, key);
                self.authenticated(id);
            }
            Err(_) => self.refuse(id, &Refusal::SaslFailed),
        }
    }
}
