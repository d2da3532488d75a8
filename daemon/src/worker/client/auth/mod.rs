//! By which method a client authenticates, and the first step of it.
//!
//! `auth_type` or the rules of `auth_hba_file` say the method; then the user's secret is found, in
//! `auth_file` or by `lookup`; then the method asks. Each method has a file, and all of them end in
//! `authenticated` or in a refusal. Only `login` calls it.

mod directory;
mod ldap;
mod lookup;
mod names;
#[cfg(feature = "pam")]
mod pam;
pub(crate) mod password;
mod scram;

use log::info;
use pgfleet_config::hba::{self, LdapOptions, Method, Peer, Request};
use pgfleet_config::{AuthType, Settings};
use pgfleet_wire::back;
use pgfleet_wire::secret::Secret;
use pgfleet_wire::startup::{Replication, Startup};

use super::login::{Asked, random};
use super::refusal::Refusal;
use super::{Client, Origin, Stage, opening};
use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

/// How a client proves who it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Way {
    /// Nothing is asked, and the user need not be known.
    Any,
    /// Nothing is asked of a known user.
    Trust,
    Md5,
    ScramSha256,
    /// The password in clear text, held against the secret.
    Plain,
    /// The user at the other end of a Unix socket.
    Peer(Option<String>),
    /// The names in the client's certificate.
    Cert(Option<String>),
    /// The password in clear text, tried at an LDAP server.
    Ldap(Box<LdapOptions>),
    /// The password in clear text, tried with PAM.
    Pam,
}

impl Way {
    /// What the settings say for such a client.
    pub(crate) fn of(settings: &Settings, request: &Request<'_>) -> Result<Self, Refusal> {
        Ok(match settings.global.auth_type {
            AuthType::Any => Self::Any,
            AuthType::Trust => Self::Trust,
            AuthType::Plain => Self::Plain,
            AuthType::Md5 => Self::Md5,
            AuthType::ScramSha256 => Self::ScramSha256,
            AuthType::Cert => Self::Cert(None),
            AuthType::Pam => Self::Pam,
            AuthType::Ldap => match &settings.ldap {
                Some(options) => Self::Ldap(Box::new(options.clone())),
                None => return Err(Refusal::Configuration),
            },
            AuthType::Hba => {
                let rule = hba::rule_for(&settings.hba, request).ok_or(Refusal::NoMethod)?;
                match &rule.method {
                    Method::Trust => Self::Trust,
                    Method::Reject => return Err(Refusal::Rejected),
                    Method::Md5 => Self::Md5,
                    Method::Password => Self::Plain,
                    Method::ScramSha256 => Self::ScramSha256,
                    Method::Peer => Self::Peer(rule.map.clone()),
                    Method::Cert => Self::Cert(rule.map.clone()),
                    Method::Ldap(options) => Self::Ldap(options.clone()),
                    Method::Pam => Self::Pam,
                }
            }
        })
    }

    /// Whether the user must be known to us; an LDAP server or PAM knows its users itself.
    fn needs_user(&self) -> bool {
        match self {
            Self::Any | Self::Ldap(_) | Self::Pam => false,
            Self::Trust
            | Self::Md5
            | Self::ScramSha256
            | Self::Plain
            | Self::Peer(_)
            | Self::Cert(_) => true,
        }
    }

    /// Whether a user without a secret cannot get in.
    fn needs_secret(&self) -> bool {
        match self {
            Self::Md5 | Self::ScramSha256 | Self::Plain => true,
            Self::Any | Self::Trust | Self::Peer(_) | Self::Cert(_) | Self::Ldap(_) | Self::Pam => {
                false
            }
        }
    }
}

/// Where a client comes from, as rules see it.
fn peer(client: &Client) -> Peer {
    match &*client.origin {
        Origin::Unix { .. } => Peer::Unix,
        Origin::Tcp { peer, .. } => Peer::Tcp(peer.ip()),
    }
}

impl Worker {
    /// By which method this client must prove who it is.
    pub(super) fn way(&mut self, id: ClientId, startup: &Startup) -> Result<Way, Refusal> {
        if self.is_own_console(id, startup) {
            return Ok(Way::Any);
        }
        let Some(client) = self.client(id) else { return Err(Refusal::Internal) };
        let peer = peer(client);
        let is_physical = startup.replication == Replication::Physical;
        let database =
            (!is_physical).then(|| startup.database.as_deref().unwrap_or(startup.user.as_str()));
        let way = Way::of(&self.settings, &Request { peer, database, user: &startup.user });
        if way == Err(Refusal::NoMethod)
            && let Some(client) = self.client(id)
        {
            info!("{client} login rejected: no rule of auth_hba_file is for it");
        }
        way
    }

    /// The daemon's own user reaches the console over the Unix socket without a password.
    fn is_own_console(&self, id: ClientId, startup: &Startup) -> bool {
        let database = startup.database.as_deref().unwrap_or(&startup.user);
        let own = self.clients.get(id.index as usize).is_some_and(|client| {
            matches!(*client.origin, Origin::Unix { uid: Some(uid) } if uid == self.welcome.uid)
        });
        own && opening::is_console(database) && opening::is_console(&startup.user)
    }

    /// Finds the user's secret, and then asks for the proof.
    pub(super) fn find_secret(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &client.stage else { return };
        let (way, user) = (login.way.clone(), login.startup.user.clone());
        let name = client.database().to_owned();
        let listed = self.settings.userlist.get(&user);
        let is_enough = listed.is_some_and(|text| !way.needs_secret() || !text.is_empty());
        if way.needs_user() && !is_enough {
            let database = self.settings.database(&name);
            if let Some(lookup) = self.settings.lookup(database.as_ref())
                && (database.is_some() || lookup.database.is_some())
            {
                return self.look_up_secret(id, &lookup);
            }
        }
        let nothing = || Secret::Plain(String::new());
        let secret = listed.map(|text| Secret::parse(text).unwrap_or_else(|_| nothing()));
        self.ask_client(id, secret, None);
    }

    /// Asks for the proof. `found_in` is the database for which the secret was looked up.
    pub(super) fn ask_client(
        &mut self,
        id: ClientId,
        secret: Option<Secret>,
        found_in: Option<String>,
    ) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        let way = login.way.clone();
        let is_known = secret.is_some();
        let (user, looked_up) = (login.startup.user.clone(), login.looked_up);
        login.secret = secret;
        login.found_in = found_in;
        let is_scram = match &login.secret {
            Some(Secret::Scram(_)) => true,
            Some(Secret::Plain(_) | Secret::Md5(_)) => false,
            None => looked_up || self.stranger_has_scram(&user),
        };
        let mut out = Vec::new();
        let asked = match way {
            Way::Any => return self.authenticated(id),
            Way::Trust if is_known => return self.authenticated(id),
            Way::Trust => return self.refuse(id, &Refusal::TrustFailed),
            Way::Peer(map) => return self.ask_peer(id, map),
            Way::Cert(map) => return self.judge_certificate(id, map.as_deref()),
            Way::Plain | Way::Ldap(_) | Way::Pam => {
                back::auth_cleartext(&mut out);
                Asked::Cleartext
            }
            Way::Md5 if !is_scram => match random::<4>() {
                Ok(salt) => {
                    back::auth_md5(&mut out, salt);
                    Asked::Md5(salt)
                }
                Err(refusal) => return self.refuse(id, &refusal),
            },
            Way::Md5 | Way::ScramSha256 => {
                back::auth_sasl(&mut out, &["SCRAM-SHA-256"]);
                Asked::Scram
            }
        };
        if let Some(client) = self.client(id)
            && let Stage::Login(login) = &mut client.stage
        {
            login.asked = asked;
        }
        self.reply(id, &out);
        self.login_input(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(auth_type: AuthType) -> Result<Way, Refusal> {
        let mut settings = Settings::default();
        settings.global.auth_type = auth_type;
        let request = Request { peer: Peer::Unix, database: Some("d"), user: "u" };
        Way::of(&settings, &request)
    }

    #[test]
    fn each_auth_type_is_a_way_and_what_is_not_configured_lets_nobody_in() {
        let table = [
            (AuthType::Any, Ok(Way::Any)),
            (AuthType::Trust, Ok(Way::Trust)),
            (AuthType::Plain, Ok(Way::Plain)),
            (AuthType::Md5, Ok(Way::Md5)),
            (AuthType::ScramSha256, Ok(Way::ScramSha256)),
            (AuthType::Cert, Ok(Way::Cert(None))),
            (AuthType::Pam, Ok(Way::Pam)),
            (AuthType::Ldap, Err(Refusal::Configuration)),
            (AuthType::Hba, Err(Refusal::NoMethod)),
        ];
        for (auth_type, expected) in table {
            assert_eq!(way(auth_type), expected, "{auth_type}");
        }
    }

    #[test]
    fn only_methods_that_know_their_users_do_without_ours() {
        let ways = [
            (Way::Any, false, false),
            (Way::Pam, false, false),
            (Way::Trust, true, false),
            (Way::Peer(None), true, false),
            (Way::Cert(None), true, false),
            (Way::Md5, true, true),
            (Way::Plain, true, true),
            (Way::ScramSha256, true, true),
        ];
        for (way, user, secret) in ways {
            assert_eq!((way.needs_user(), way.needs_secret()), (user, secret), "{way:?}");
        }
    }
}
