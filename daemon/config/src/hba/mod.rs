//! Who may log in, and how: the rules of `auth_hba_file` and the user maps of `auth_ident_file`.
//! Evaluating them is a pure function of the connection; it reads no file and asks nobody.
//! The draft reads both files into the settings; the worker's logins evaluate them.

mod address;
mod ident;
mod ldap;
mod line;
mod tokens;

#[cfg(test)]
mod tests;

use std::{fs, net::IpAddr, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Problem, fault::Fault};

pub use address::Network;
pub use ident::IdentMap;
pub use ldap::{LdapFind, LdapOptions, LdapScope};

/// How a client that a rule is for proves who it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Method {
    /// No proof.
    Trust,
    /// It does not get in.
    Reject,
    /// MD5, or SCRAM for users whose secret is a SCRAM one.
    Md5,
    /// The password in clear text.
    Password,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// The user of the process at the other end of a Unix socket.
    Peer,
    /// A client certificate.
    Cert,
    /// A bind at an LDAP server with the client's password.
    Ldap(Box<LdapOptions>),
    /// PAM, with the client's password.
    Pam,
}

/// What kind of connection a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Transport {
    /// `local`: Unix sockets.
    Unix,
    /// `host`: TCP, encrypted or not.
    Tcp,
    /// `hostssl`.
    Encrypted,
    /// `hostnossl`.
    Unencrypted,
}

/// One name in a list of databases or users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Name {
    All,
    /// The database that is named like the user.
    SameUser,
    /// Physical replication, which has no database.
    Replication,
    Is(String),
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Where it stands in the file.
    pub line: usize,
    pub(crate) transport: Transport,
    pub(crate) databases: Vec<Name>,
    pub(crate) users: Vec<Name>,
    /// Of a rule for TCP: the peer must be in one of them.
    pub(crate) networks: Vec<Network>,
    /// How such a client proves who it is.
    pub method: Method,
    /// The map of user names, for `peer` and `cert`.
    pub map: Option<String>,
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A Unix socket.
    Unix,
    /// TCP without TLS.
    Tcp(IpAddr),
    /// TCP with TLS.
    Tls(IpAddr),
}

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Where it comes from.
    pub peer: Peer,
    /// The database, or none for physical replication.
    pub database: Option<&'a str>,
    /// The user.
    pub user: &'a str,
}

/// The first rule that is for such a client.
pub fn rule_for<'a>(rules: &'a [Rule], request: &Request<'_>) -> Option<&'a Rule> {
    rules.iter().find(|rule| rule.is_for(request))
}

impl Rule {
    fn is_for(&self, request: &Request<'_>) -> bool {
        let in_networks = |address| self.networks.iter().any(|network| network.contains(address));
        let transport = match (self.transport, request.peer) {
            (Transport::Unix, Peer::Unix) => true,
            (Transport::Tcp | Transport::Encrypted, Peer::Tls(address)) => in_networks(address),
            (Transport::Tcp | Transport::Unencrypted, Peer::Tcp(address)) => in_networks(address),
            (Transport::Unix, Peer::Tcp(_) | Peer::Tls(_))
            | (Transport::Tcp | Transport::Encrypted | Transport::Unencrypted, Peer::Unix)
            | (Transport::Encrypted, Peer::Tcp(_))
            | (Transport::Unencrypted, Peer::Tls(_)) => false,
        };
        transport
            && self.databases.iter().any(|name| name.is_database(request))
            && self.users.iter().any(|name| name.is_user(request.user))
    }
}

impl Name {
    fn is_database(&self, request: &Request<'_>) -> bool {
        match (self, request.database) {
            (Self::Replication, database) => database.is_none(),
            (Self::All | Self::SameUser | Self::Is(_), None) => false,
            (Self::All, Some(_)) => true,
            (Self::SameUser, Some(database)) => database == request.user,
            (Self::Is(name), Some(database)) => database == name,
        }
    }

    fn is_user(&self, user: &str) -> bool {
        match self {
            Self::All => true,
            Self::Is(name) => name == user,
            Self::SameUser | Self::Replication => false,
        }
    }
}

/// Reads the rules of a file.
pub(crate) fn read_rules(file: &Path, problems: &mut Vec<Problem>) -> Vec<Rule> {
    let Some(text) = text_of(file, "auth_hba_file", problems) else { return Vec::new() };
    let lines = tokens::lines(file, &text, problems);
    lines.into_iter().filter_map(|line| line::rule(file, line, problems)).collect()
}

/// Reads the user maps of a file.
pub(crate) fn read_maps(file: &Path, problems: &mut Vec<Problem>) -> Vec<IdentMap> {
    let Some(text) = text_of(file, "auth_ident_file", problems) else { return Vec::new() };
    let lines = tokens::lines(file, &text, problems);
    lines.into_iter().filter_map(|line| ident::map(file, line, problems)).collect()
}

/// Reads `auth_ldap_options`, which are written like the options of a rule.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn read_ldap_options(text: &str) -> Result<LdapOptions, Fault> {
    let mut problems = Vec::new();
    let file = Path::new("auth_ldap_options");
    let fields = tokens::lines(file, text, &mut problems).into_iter().flat_map(|line| line.fields);
    let options: Vec<_> = fields.collect();
    if let Some(problem) = problems.into_iter().next() {
        return Err(Fault::new(problem.reason, problem.remedy));
    }
    let mut draft = ldap::Draft::default();
    for field in &options {
        let (name, value) = line::option(field)?;
        draft.set(&name, &value)?;
    }
    draft.finish()
}

fn text_of(file: &Path, key: &str, problems: &mut Vec<Problem>) -> Option<String> {
    match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) => {
            let fault = Fault::new(
                format!("cannot read the file: {error}"),
                format!("make it, let the user that runs pgfleet read it, or change {key}"),
            );
            problems.push(Problem::in_file(file, None, fault));
            None
        }
    }
}
