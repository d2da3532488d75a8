//! Authenticating a client, by the method of `auth_type`.
//!
//! It consumes password messages and ends in `welcome`, in the console, or in a refusal; unknown
//! users go through the same exchange as known ones. Keys are derived on another thread.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use log::warn;
use pgfleet_config::AuthType;
use pgfleet_wire::scram::{ScramServer, Verifier};
use pgfleet_wire::secret::{Secret, password_check};
use pgfleet_wire::startup::Startup;
use pgfleet_wire::{back, frame, front, md5};

use super::opening::is_console;
use super::refusal::Refusal;
use super::{Origin, Stage};
use crate::worker::completion::Completion;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Moved};
use crate::worker::state::Worker;

/// Password messages are small; more than this is no login.
const LONGEST: usize = 64 * 1024;

/// What the client was asked for.
enum Asked {
    Nothing,
    Cleartext,
    Md5([u8; 4]),
    /// Its first SCRAM message.
    Scram,
    /// Its first message is here, the verifier is being derived.
    Deriving(Vec<u8>),
    /// Its proof.
    Proof(Box<ScramServer>),
}

/// A client in authentication.
pub(crate) struct Login {
    pub(crate) startup: Startup,
    asked: Asked,
    /// The secret of a known user.
    secret: Option<Secret>,
}

impl Worker {
    /// The startup packet is read: ask for a proof of identity.
    pub(crate) fn login(&mut self, id: ClientId, startup: Startup) {
        if startup.replication.as_deref().is_some_and(is_on) {
            return self.refuse(id, &Refusal::Replication);
        }
        let secret =
            self.settings.userlist.get(&startup.user).and_then(|text| Secret::parse(text).ok());
        let asked = match self.challenge(id, &startup, secret.as_ref()) {
            Ok(asked) => asked,
            Err(refusal) => return self.refuse(id, &refusal),
        };
        let done = matches!(asked, Asked::Nothing);
        let Some(client) = self.client(id) else { return };
        client.stage = Stage::Login(Box::new(Login { startup, asked, secret }));
        if done {
            self.authenticated(id);
        } else {
            self.login_input(id);
        }
    }

    fn challenge(
        &mut self,
        id: ClientId,
        startup: &Startup,
        secret: Option<&Secret>,
    ) -> Result<Asked, Refusal> {
        if self.is_own_console(id, startup) {
            return Ok(Asked::Nothing);
        }
        let mut out = Vec::new();
        let asked = match self.settings.global.auth_type {
            AuthType::Any => Asked::Nothing,
            AuthType::Trust if self.settings.userlist.contains_key(&startup.user) => Asked::Nothing,
            AuthType::Trust => return Err(Refusal::TrustFailed),
            AuthType::Plain => {
                back::auth_cleartext(&mut out);
                Asked::Cleartext
            }
            AuthType::Md5 if !matches!(secret, Some(Secret::Scram(_))) => {
                let salt = random::<4>()?;
                back::auth_md5(&mut out, salt);
                Asked::Md5(salt)
            }
            AuthType::Md5 | AuthType::ScramSha256 => {
                back::auth_sasl(&mut out, &["SCRAM-SHA-256"]);
                Asked::Scram
            }
            AuthType::Cert | AuthType::Hba | AuthType::Ldap | AuthType::Pam => {
                return Err(Refusal::Configuration);
            }
        };
        self.reply(id, &out);
        Ok(asked)
    }

    /// The daemon's own user reaches the console over the Unix socket without a password.
    fn is_own_console(&self, id: ClientId, startup: &Startup) -> bool {
        let database = startup.database.as_deref().unwrap_or(&startup.user);
        let own = self.clients.get(id.index as usize).is_some_and(|client| {
            matches!(*client.origin, Origin::Unix { uid: Some(uid) } if uid == self.welcome.uid)
        });
        own && is_console(database) && is_console(&startup.user)
    }

    /// Bytes of a client in authentication.
    pub(crate) fn login_read(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let mut chunk = [0; 4096];
        match io::read(&client.fd, &mut chunk) {
            Moved::Bytes(count) => {
                client.input.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.leftover |= count == chunk.len();
            }
            Moved::Later => return,
            Moved::End | Moved::Broken(_) => return self.drop_client(id, "client unexpected eof"),
        }
        if self.client(id).is_some_and(|client| client.input.len() > LONGEST) {
            return self.refuse(id, &Refusal::TooLarge);
        }
        self.login_input(id);
    }

    fn login_input(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        if matches!(login.asked, Asked::Deriving(_)) {
            return;
        }
        let (header, body, taken) = match frame::split(&client.input) {
            Ok(Some((header, body, taken))) => (header, body.to_vec(), taken),
            Ok(None) => return,
            Err(_) => {
                let refusal = Refusal::bad_header(&client.input);
                return self.refuse(id, &refusal);
            }
        };
        client.input.drain(..taken);
        if header.tag == b'X' {
            return self.drop_client(id, "client close request");
        }
        if header.tag != b'p' {
            return self.refuse(id, &Refusal::UnknownMessage);
        }
        let asked = std::mem::replace(&mut login.asked, Asked::Nothing);
        match asked {
            Asked::Cleartext => self.on_password(id, &body, None),
            Asked::Md5(salt) => self.on_password(id, &body, Some(salt)),
            Asked::Scram => self.on_scram_first(id, &body),
            Asked::Proof(scram) => self.on_proof(id, *scram, &body),
            Asked::Nothing | Asked::Deriving(_) => {
                self.refuse(id, &Refusal::UnknownMessage);
            }
        }
    }

    fn on_password(&mut self, id: ClientId, body: &[u8], salt: Option<[u8; 4]>) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let answer = match front::parse_password(body) {
            Ok(b"") => return self.refuse(id, &Refusal::EmptyPassword),
            Ok(answer) => answer,
            Err(_) => return self.refuse(id, &Refusal::WrongPassword),
        };
        // An unknown user is compared with something too, and never matches.
        let unknown = Secret::Plain(String::new());
        let secret = login.secret.as_ref();
        let against = secret.unwrap_or(&unknown);
        let matches = match salt {
            Some(salt) => md5::md5_check(against, &login.startup.user, salt, answer),
            None => std::str::from_utf8(answer)
                .is_ok_and(|answer| password_check(against, &login.startup.user, answer)),
        };
        let usable = !matches!(secret, None | Some(Secret::Plain(_))) || is_set(secret);
        if matches && secret.is_some() && usable {
            self.authenticated(id);
        } else {
            self.refuse(id, &Refusal::WrongPassword);
        }
    }

    fn on_scram_first(&mut self, id: ClientId, body: &[u8]) {
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
                        "user \"{user}\" has an md5 secret, which scram-sha-256 cannot use; put a SCRAM secret or the password into auth_file"
                    );
                }
                let verifier = self.strange(&user);
                self.on_verifier(id, &first, verifier);
            }
        }
    }

    /// A verifier that nothing matches, with the salt and iterations that the user would have.
    fn strange(&self, user: &str) -> Verifier {
        Verifier {
            iterations: self.settings.global.scram_iterations,
            ..Verifier::mock(user, &self.welcome.fleet_secret)
        }
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

    fn on_proof(&mut self, id: ClientId, scram: ScramServer, body: &[u8]) {
        match scram.finish(body) {
            Ok((message, _client_key)) => {
                let mut out = Vec::new();
                back::auth_sasl_final(&mut out, &message);
                self.reply(id, &out);
                self.authenticated(id);
            }
            Err(_) => self.refuse(id, &Refusal::SaslFailed),
        }
    }

    fn authenticated(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = std::mem::replace(&mut client.stage, Stage::Opening) else {
            return;
        };
        let startup = Rc::new(login.startup);
        if is_console(client.database()) {
            self.open_console(id, &startup);
        } else {
            self.seat(id, &startup);
        }
    }
}

fn is_set(secret: Option<&Secret>) -> bool {
    matches!(secret, Some(Secret::Plain(password)) if !password.is_empty())
}

fn is_on(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "off" | "no" | "0" | "f" | "n")
}

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::Internal)?;
    Ok(bytes)
}
