//! Logging in to Postgres: trust, cleartext, md5 and SCRAM-SHA-256.
//!
//! It ends with what the server said of itself, which becomes the welcome of the pool's clients, or
//! with a failure that its pool remembers. A password is derived on another thread.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use log::{info, warn};
use pgfleet_wire::back::{self, Auth, ErrorFields};
use pgfleet_wire::scram::{ClientSecret, ScramClient, ScramError, ScramVerify};
use pgfleet_wire::secret::Secret;
use pgfleet_wire::startup::Replication;
use pgfleet_wire::{frame, front, md5};

use super::{Backend, Phase, startup};
use crate::link::message::ToSupervisor;
use crate::worker::client::login::random;
use crate::worker::completion::Completion;
use crate::worker::ids::ServerId;
use crate::worker::outbox::Sent;
use crate::worker::pool::Welcome;
use crate::worker::pool::backoff::Failed;
use crate::worker::state::Worker;

/// Messages of a login are small; more than this is no Postgres.
const LONGEST: usize = 64 * 1024;

/// So many parameters no server reports.
const MOST_PARAMETERS: usize = 256;

/// How far SCRAM is.
#[derive(Default)]
enum Scram {
    #[default]
    None,
    Asked(ScramClient),
    Proving,
    Proved(ScramVerify),
    Verified,
}

/// A login under way.
#[derive(Default)]
pub(crate) struct Login {
    scram: Scram,
    parameters: Vec<(String, String)>,
    /// Bytes of them.
    said: usize,
    authenticated: bool,
}

/// What one message of a login led to.
enum Turn {
    Go,
    Done,
    Failed(Failed, String, Option<ErrorFields>),
}

fn failed(reason: impl Into<String>) -> Turn {
    Turn::Failed(Failed::Login, reason.into(), None)
}

impl Worker {
    /// Writes to a server outside of the relay.
    pub(crate) fn server_say(&mut self, id: ServerId, bytes: &[u8]) {
        let Some(server) = self.server(id) else { return };
        match server.outbox.write(&server.fd, bytes) {
            Sent::All => {}
            Sent::Blocked => self.server_interest(id, None, Some(true)),
            // The read that follows tells, and may bring the server's last words.
            Sent::Broken => {}
        }
    }

    /// Bytes of a server in login. Returns how many were consumed, or `None` when it is no longer in
    /// login.
    pub(crate) fn server_login_input(&mut self, id: ServerId, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let server = self.server(id)?;
            if !matches!(server.phase, Phase::Login(_)) {
                return Some(at);
            }
            let rest = input.get(at..).unwrap_or_default();
            let (header, body, taken) = match frame::split(rest) {
                Ok(Some((header, body, taken))) => (header, body, taken),
                Ok(None) if rest.len() <= LONGEST => return Some(at),
                Ok(None) => {
                    self.login_ended_badly(
                        id,
                        Failed::Login,
                        "server login message too large",
                        None,
                    );
                    return None;
                }
                Err(error) => {
                    self.login_ended_badly(id, Failed::Login, &error.to_string(), None);
                    return None;
                }
            };
            at += taken;
            match self.login_message(id, header.tag, body) {
                Turn::Go => {}
                Turn::Done => {
                    self.logged_in(id);
                    return Some(at);
                }
                Turn::Failed(what, reason, fields) => {
                    self.login_ended_badly(id, what, &reason, fields);
                    return None;
                }
            }
        }
    }

    fn login_message(&mut self, id: ServerId, tag: u8, body: &[u8]) -> Turn {
        match tag {
            b'R' => self.login_auth(id, body),
            b'E' => match ErrorFields::parse(body) {
                Ok(fields) => {
                    let what = if fields.code == "57P03" { Failed::Connect } else { Failed::Login };
                    Turn::Failed(what, fields.message.clone(), Some(fields))
                }
                Err(_) => failed("malformed error in server login"),
            },
            b'S' => {
                let Ok((name, value)) = back::parse_parameter_status(body) else {
                    return failed("malformed ParameterStatus in server login");
                };
                let size = name.len() + value.len();
                let mut is_too_much = false;
                self.with_login(id, |login| {
                    login.said += size;
                    login.parameters.push((name.to_owned(), value.to_owned()));
                    is_too_much = login.said > LONGEST || login.parameters.len() > MOST_PARAMETERS;
                });
                if is_too_much { failed("too many parameters in server login") } else { Turn::Go }
            }
            b'K' => match back::parse_backend_key(body) {
                Ok((pid, secret)) => {
                    self.say(
                        &ToSupervisor::KeyKnown {
                            server: id.number(),
                            pid,
                            secret: secret.clone(),
                        },
                        None,
                    );
                    if let Some(server) = self.server(id) {
                        server.backend = Some(Backend { pid, secret });
                    }
                    Turn::Go
                }
                Err(_) => failed("malformed BackendKeyData in server login"),
            },
            b'Z' => {
                let ready = self.server(id).is_some_and(
                    |server| matches!(&server.phase, Phase::Login(login) if login.authenticated),
                );
                if ready { Turn::Done } else { failed("server is ready without authentication") }
            }
            b'v' => match startup::check_negotiation(body) {
                Ok(()) => Turn::Go,
                Err(reason) => failed(reason),
            },
            b'N' => Turn::Go,
            _ => failed(format!(
                "unexpected message '{}' in server login",
                char::from(tag).escape_default()
            )),
        }
    }

    fn with_login(&mut self, id: ServerId, act: impl FnOnce(&mut Login)) -> Turn {
        if let Some(server) = self.server(id)
            && let Phase::Login(login) = &mut server.phase
        {
            act(login);
        }
        Turn::Go
    }

    fn login_auth(&mut self, id: ServerId, body: &[u8]) -> Turn {
        let pool = self.server(id).map(|server| server.pool);
        let known = pool.and_then(|pool| self.server_secret(pool));
        let (secret, key) = match known {
            Some(known) => (Some(known.secret), known.key),
            None => (None, None),
        };
        let secret = secret.filter(|secret| *secret != Secret::Plain(String::new()));
        let user = self.server_user(id);
        let mut out = Vec::new();
        match back::parse_auth(body) {
            Ok(Auth::Ok) => return self.auth_ok(id),
            Ok(Auth::Cleartext) => match secret {
                Some(Secret::Plain(password)) => front::password(&mut out, password),
                Some(Secret::Md5(_) | Secret::Scram(_)) | None => return wrong_type(),
            },
            Ok(Auth::Md5(salt)) => match secret {
                Some(Secret::Plain(password)) => {
                    let stored = md5::md5_stored(&user, &password);
                    let stored = stored.strip_prefix("md5").unwrap_or(&stored);
                    front::password(&mut out, md5::md5_response(stored, salt));
                }
                Some(Secret::Md5(stored)) => {
                    front::password(&mut out, md5::md5_response(stored, salt))
                }
                Some(Secret::Scram(_)) | None => return wrong_type(),
            },
            Ok(Auth::Sasl(mechanisms)) => {
                if !mechanisms.iter().any(|name| name == "SCRAM-SHA-256") {
                    return failed("server offers no SASL mechanism that is known here");
                }
                let Ok(nonce) = random::<18>() else { return failed("no random bytes") };
                let (first, scram) = ScramClient::new(&STANDARD.encode(nonce));
                front::sasl_initial(&mut out, "SCRAM-SHA-256", &first);
                self.with_login(id, |login| login.scram = Scram::Asked(scram));
            }
            Ok(Auth::SaslContinue(first)) => return self.prove(id, first, secret, key),
            Ok(Auth::SaslFinal(last)) => return self.verify_server(id, last),
            Ok(Auth::Other(kind)) => {
                return failed(format!("unknown authentication request {kind}"));
            }
            Err(_) => return failed("malformed authentication request"),
        }
        self.server_say(id, &out);
        Turn::Go
    }

    fn auth_ok(&mut self, id: ServerId) -> Turn {
        let mut unproved = false;
        self.with_login(id, |login| {
            unproved = !matches!(login.scram, Scram::None | Scram::Verified);
            login.authenticated = !unproved;
        });
        if unproved { failed("server did not finish SCRAM") } else { Turn::Go }
    }

    fn verify_server(&mut self, id: ServerId, last: &[u8]) -> Turn {
        let mut verified = false;
        self.with_login(id, |login| {
            if let Scram::Proved(verify) = std::mem::take(&mut login.scram) {
                verified = verify.check(last).is_ok();
                login.scram = Scram::Verified;
            }
        });
        if verified {
            Turn::Go
        } else {
            failed("server could not prove that it knows the password")
        }
    }

    fn prove(
        &mut self,
        id: ServerId,
        first: &[u8],
        secret: Option<Secret>,
        key: Option<[u8; 32]>,
    ) -> Turn {
        let mut asked = None;
        self.with_login(id, |login| {
            if let Scram::Asked(scram) = std::mem::replace(&mut login.scram, Scram::Proving) {
                asked = Some(scram);
            }
        });
        let Some(scram) = asked else { return failed("unexpected SASL message in server login") };
        let password = match (secret, key) {
            (Some(Secret::Plain(password)), _) => password,
            (Some(Secret::Scram(verifier)), Some(client_key)) => {
                let keys = ClientSecret::Keys { client_key, server_key: verifier.server_key };
                self.proved(id, scram.answer(first, keys));
                return Turn::Go;
            }
            (Some(Secret::Scram(_) | Secret::Md5(_)) | None, _) => return wrong_type(),
        };
        let (first, completions) = (first.to_vec(), self.completions.clone());
        // Detached: it ends by itself, and a completion for a server that is gone is dropped.
        drop(tokio::task::spawn_blocking(move || {
            let result = scram.answer(&first, ClientSecret::Password(&password));
            let sent = completions.send(Completion::Proved { server: id, result });
            drop(sent);
        }));
        Turn::Go
    }

    /// The proof was computed on another thread.
    pub(crate) fn proved(
        &mut self,
        id: ServerId,
        result: Result<(Vec<u8>, ScramVerify), ScramError>,
    ) {
        match result {
            Ok((message, verify)) => {
                let mut out = Vec::new();
                front::sasl_response(&mut out, &message);
                self.with_login(id, |login| login.scram = Scram::Proved(verify));
                self.server_say(id, &out);
            }
            Err(error) => {
                self.login_ended_badly(id, Failed::Login, &format!("SCRAM: {error}"), None);
            }
        }
    }

    fn server_user(&mut self, id: ServerId) -> String {
        let pool = self.server(id).map(|server| server.pool);
        pool.and_then(|pool| self.pools.get(pool))
            .map_or_else(String::new, |pool| pool.user.clone())
    }

    fn logged_in(&mut self, id: ServerId) {
        let now = self.now;
        let tracked = Rc::clone(&self.tracked);
        let Some(server) = self.servers.get_mut(id.index as usize).filter(|server| server.id == id)
        else {
            return;
        };
        let Phase::Login(login) = std::mem::replace(&mut server.phase, Phase::Idle) else { return };
        let mut values = vec![None; tracked.len()];
        let mut fixed = Vec::new();
        for (name, value) in login.parameters {
            match tracked.position(&name) {
                Some(position) => values[position] = Some(Rc::from(value)),
                None => fixed.push((name, value)),
            }
        }
        server.vars = self.vars.intern(values);
        server.defaults = Rc::clone(&server.vars);
        server.since = now;
        let is_own = server.replication != Replication::None;
        info!("{server} new connection to server");
        let (pool_id, values, host) =
            (server.pool, Rc::clone(&server.vars), Rc::clone(&server.host));
        self.host_is_good(pool_id, &host);
        let Some(pool) = self.pools.get_mut(pool_id) else { return };
        pool.opening = pool.opening.saturating_sub(1);
        pool.connected += 1;
        let was_failing = pool.backoff.reason().is_some();
        pool.backoff.succeed();
        let welcome = Rc::new(Welcome { fixed, values });
        let setup = pool.database.connect_query.clone();
        if !is_own {
            pool.welcome = Some(Rc::clone(&welcome));
        }
        if was_failing {
            self.teach(pool_id, None);
        }
        if is_own {
            self.own_server_ready(id, &welcome);
            return self.launch(pool_id);
        }
        self.greet_all(pool_id);
        match setup.filter(|query| !query.is_empty()) {
            Some(query) => self.run_own(id, Phase::Setup, &query),
            None => self.give_back(id),
        }
        self.launch(pool_id);
    }

    /// The server is not to be had: its pool remembers, and those who wait are told.
    pub(crate) fn login_ended_badly(
        &mut self,
        id: ServerId,
        what: Failed,
        reason: &str,
        fields: Option<ErrorFields>,
    ) {
        let Some(server) = self.server(id) else { return };
        warn!("{server} server login failed: {reason}");
        let (pool, host, at) = (server.pool, Rc::clone(&server.host), server.address.ip());
        if let Some(pool) = self.pool(pool) {
            pool.opening = pool.opening.saturating_sub(1);
        }
        if self.own_server_failed(id, what) {
            return self.retire_quietly(id);
        }
        // First remembered, then gone: its end lets others try again.
        self.login_failed(pool, (&host, at), what, reason, fields);
        self.retire_quietly(id);
    }
}

fn wrong_type() -> Turn {
    failed("server login failed: wrong password type")
}
