//! The options of the method `ldap`: where the directory is, and how a user's entry is found in it.
//! It reads and checks them; it never connects, and never shows the password.
//! Rules and `auth_ldap_options` are read with it; the worker's LDAP logins use the result.

use serde::{Deserialize, Serialize};

use crate::{Password, fault::Fault};

const NAMES: &str = "use ldapserver, ldapport, ldapscheme, ldaptls, ldapprefix, ldapsuffix, ldapbasedn, ldapbinddn, ldapbindpasswd, ldapsearchattribute, ldapsearchfilter or ldapurl";

/// How far below the base an entry may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LdapScope {
    /// The base itself.
    Base,
    /// Right below it.
    One,
    /// Anywhere below it.
    #[default]
    Subtree,
}

/// How a user's entry is found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LdapFind {
    /// Its name is made of the user's.
    Simple {
        /// Before the user's name.
        prefix: String,
        /// After it.
        suffix: String,
    },
    /// It is searched.
    Search {
        /// Below this entry.
        base: String,
        /// How far.
        scope: LdapScope,
        /// Log in as this entry for the search, else anonymously.
        bind: Option<(String, Password)>,
        /// A filter with `$username` where the user's name belongs.
        filter: String,
    },
}

/// Where and how to bind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LdapOptions {
    /// `ldap://host:port`, one for each server, tried in order.
    pub urls: Vec<String>,
    /// StartTLS on an `ldap` connection.
    pub start_tls: bool,
    /// How a user's entry is found.
    pub find: LdapFind,
}

impl LdapOptions {
    /// Whether there is a password in them.
    pub(crate) fn has_secret(&self) -> bool {
        match &self.find {
            LdapFind::Search { bind: Some((_, password)), .. } => !password.is_empty(),
            LdapFind::Search { bind: None, .. } | LdapFind::Simple { .. } => false,
        }
    }
}

/// Options in the making.
#[derive(Default)]
pub(super) struct Draft {
    servers: Vec<String>,
    port: Option<u16>,
    scheme: Option<String>,
    start_tls: bool,
    prefix: Option<String>,
    suffix: Option<String>,
    base: Option<String>,
    scope: Option<LdapScope>,
    bind: Option<String>,
    password: Option<Password>,
    attribute: Option<String>,
    filter: Option<String>,
}

impl Draft {
    /// Sets one option.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let text = || Some(value.to_owned());
        match name {
            "ldapserver" => self.servers = value.split_whitespace().map(str::to_owned).collect(),
            "ldapport" => self.port = Some(port(value)?),
            "ldapscheme" if matches!(value, "ldap" | "ldaps") => self.scheme = text(),
            "ldapscheme" => {
                return Err(Fault::new(
                    "ldapscheme must be ldap or ldaps",
                    "write ldapscheme=ldap",
                ));
            }
            "ldaptls" if matches!(value, "0" | "1") => self.start_tls = value == "1",
            "ldaptls" => return Err(Fault::new("ldaptls must be 0 or 1", "write ldaptls=1")),
            "ldapprefix" => self.prefix = text(),
            "ldapsuffix" => self.suffix = text(),
            "ldapbasedn" => self.base = text(),
            "ldapbinddn" => self.bind = text(),
            "ldapbindpasswd" => self.password = Some(Password::new(value)),
            "ldapsearchattribute" => self.attribute = text(),
            "ldapsearchfilter" => self.filter = text(),
            "ldapurl" => self.url(value)?,
            other => return Err(Fault::new(format!("unknown LDAP option \"{other}\""), NAMES)),
        }
        Ok(())
    }

    /// `ldap://host:port/base?attribute?scope?filter`.
    fn url(&mut self, url: &str) -> Result<(), Fault> {
        let fault = |reason: &str| {
            Fault::new(
                reason,
                "write, for example, ldapurl=\"ldap://127.0.0.1/dc=example,dc=com?uid?sub\"",
            )
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| fault("ldapurl has no scheme"))?;
        if !matches!(scheme, "ldap" | "ldaps") {
            return Err(fault("the scheme of ldapurl must be ldap or ldaps"));
        }
        self.scheme = Some(scheme.to_owned());
        let (place, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, number) = match place.rsplit_once(':') {
            Some((host, number)) if !number.contains(']') => (host, Some(port(number)?)),
            Some(_) | None => (place, None),
        };
        self.port = number;
        self.servers = vec![if host.is_empty() { "127.0.0.1".to_owned() } else { host.to_owned() }];
        let mut parts =
            rest.splitn(4, '?').map(str::to_owned).map(|part| (!part.is_empty()).then_some(part));
        self.base = parts.next().flatten();
        self.attribute = parts.next().flatten();
        self.scope = match parts.next().flatten().as_deref() {
            None => Some(LdapScope::Base),
            Some("base") => Some(LdapScope::Base),
            Some("one") => Some(LdapScope::One),
            Some("sub") => Some(LdapScope::Subtree),
            Some(_) => return Err(fault("the scope of ldapurl must be base, one or sub")),
        };
        self.filter = parts.next().flatten();
        Ok(())
    }

    /// The options, if they fit together.
    pub(super) fn finish(self) -> Result<LdapOptions, Fault> {
        if self.servers.is_empty() {
            return Err(Fault::new(
                "the method ldap needs a server",
                "write ldapserver=HOST or ldapurl=\"ldap://HOST/...\"",
            ));
        }
        let scheme = self.scheme.unwrap_or_else(|| "ldap".to_owned());
        if self.start_tls && scheme == "ldaps" {
            return Err(Fault::new("ldaptls=1 on an ldaps connection", "remove one of the two"));
        }
        let port = self.port.unwrap_or(if scheme == "ldaps" { 636 } else { 389 });
        let url = |host: &String| match host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("{scheme}://[{address}]:{port}"),
            Err(_) => format!("{scheme}://{host}:{port}"),
        };
        let urls = self.servers.iter().map(url).collect();
        let searches = self.base.is_some() || self.attribute.is_some() || self.filter.is_some();
        let simple = self.prefix.is_some() || self.suffix.is_some();
        if searches && simple {
            return Err(Fault::new(
                "ldapprefix and ldapsuffix cannot be combined with the options of a search",
                "keep either those, or ldapbasedn and what belongs to it",
            ));
        }
        if self.attribute.is_some() && self.filter.is_some() {
            return Err(Fault::new(
                "ldapsearchattribute and ldapsearchfilter say the same",
                "remove one of the two",
            ));
        }
        let find = match self.base {
            Some(base) => LdapFind::Search {
                base,
                scope: self.scope.unwrap_or_default(),
                bind: self.bind.map(|bind| (bind, self.password.unwrap_or_default())),
                filter: self.filter.unwrap_or_else(|| {
                    format!("({}=$username)", self.attribute.as_deref().unwrap_or("uid"))
                }),
            },
            None if simple => LdapFind::Simple {
                prefix: self.prefix.unwrap_or_default(),
                suffix: self.suffix.unwrap_or_default(),
            },
            None => {
                return Err(Fault::new(
                    "the method ldap does not say how a user's entry is named",
                    "write ldapprefix= and ldapsuffix=, or ldapbasedn=",
                ));
            }
        };
        Ok(LdapOptions { urls, start_tls: self.start_tls, find })
    }
}

fn port(text: &str) -> Result<u16, Fault> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| {
        Fault::new("the LDAP port is no number from 1 to 65535", "write, for example, ldapport=389")
    })
}
