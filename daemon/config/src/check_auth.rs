//! What must fit together for logins: the method, and what it needs.
//! It reads the settings alone; what stands in the files of rules has been checked when they were read.
//! `check` calls it with the other checks.

use crate::{
    AuthType, Global, Problem, SslMode,
    check::{Check, open_to_others},
    fault::Fault,
    hba::{Method, Rule},
};

/// Whether this build can ask PAM.
const HAS_PAM: bool = cfg!(feature = "pam");

const NO_PAM: &str = "this build has no PAM";
const BUILD_PAM: &str = "choose another method, or build with cargo build --features pam";

impl Check<'_> {
    /// The method of `auth_type`, and what it needs.
    pub(crate) fn auth(&mut self) {
        let global = &self.settings.global;
        match global.auth_type {
            AuthType::Any => self.forced_users(),
            AuthType::Trust | AuthType::Plain | AuthType::Md5 | AuthType::ScramSha256 => {
                self.users();
            }
            AuthType::Cert => {
                self.users();
                self.certificates();
            }
            AuthType::Hba if global.auth_hba_file.is_none() => {
                let remedy = "set auth_hba_file to a file with lines such as: host all all 127.0.0.1/32 scram-sha-256";
                self.add(
                    "auth_hba_file",
                    "auth_type hba needs a file with the rules, and there is none",
                    remedy,
                );
            }
            AuthType::Hba => self.methods(),
            AuthType::Ldap if global.auth_ldap_options.is_none() => {
                let remedy = "set auth_ldap_options, for example to ldapserver=127.0.0.1 ldapprefix=\"uid=\" ldapsuffix=\",dc=example,dc=com\"";
                self.add(
                    "auth_ldap_options",
                    "auth_type ldap needs to know the LDAP server",
                    remedy,
                );
            }
            AuthType::Ldap => {}
            AuthType::Pam if HAS_PAM => {}
            AuthType::Pam => self.add("auth_type", NO_PAM, BUILD_PAM),
        }
        self.lookups();
        self.rules_with_secrets();
    }

    /// A file of rules that holds the password of a directory must not be readable by others.
    fn rules_with_secrets(&mut self) {
        let Some(file) = self.settings.global.auth_hba_file.clone() else { return };
        let has_secret = self.settings.hba.iter().any(|rule| match &rule.method {
            Method::Ldap(options) => options.has_secret(),
            Method::Trust
            | Method::Reject
            | Method::Md5
            | Method::Password
            | Method::ScramSha256
            | Method::Peer
            | Method::Cert
            | Method::Pam => false,
        });
        if has_secret && open_to_others(&file) {
            let remedy = format!("run chmod 640 {}", file.display());
            let fault = Fault::new("others can read this file, and it holds a password", remedy);
            self.problems.push(Problem::in_file(&file, None, fault));
        }
    }

    fn forced_users(&mut self) {
        let free: Vec<_> =
            self.databases().filter(|db| db.user.is_none()).map(|db| db.name.clone()).collect();
        for name in free {
            self.add(
                &format!("databases.{name}"),
                "with auth_type any the database must say as whom to log in",
                "give this database a user=, or choose another auth_type",
            );
        }
    }

    /// Somebody must know the users: the auth file, or a user who looks them up.
    fn users(&mut self) {
        let global = &self.settings.global;
        let looks_up =
            global.auth_user.is_some() || self.databases().all(|db| db.auth_user.is_some());
        if global.auth_file.is_some() || self.databases().next().is_none() || looks_up {
            return;
        }
        let reason = format!(
            "auth_type {} needs a file with the users, and there is none",
            global.auth_type
        );
        self.add(
            "auth_file",
            reason,
            "set auth_file to a file with lines \"user\" \"secret\", or set auth_user to look them up",
        );
    }

    fn certificates(&mut self) {
        let mode = self.settings.global.client_tls_sslmode;
        match mode {
            SslMode::VerifyCa | SslMode::VerifyFull => {}
            SslMode::Disable | SslMode::Allow | SslMode::Prefer | SslMode::Require => self.add(
                "client_tls_sslmode",
                format!("is {mode}, and auth_type cert needs certificates of the clients"),
                "set it to verify-full, and client_tls_ca_file to the certificates of those who sign theirs",
            ),
        }
    }

    /// What the rules need that the settings must give.
    fn methods(&mut self) {
        if HAS_PAM {
            return;
        }
        let is_pam = |rule: &&Rule| rule.method == Method::Pam;
        let lines: Vec<_> = self.settings.hba.iter().filter(is_pam).map(|rule| rule.line).collect();
        for line in lines {
            self.add("auth_hba_file", format!("line {line} uses pam, and {NO_PAM}"), BUILD_PAM);
        }
    }

    fn lookups(&mut self) {
        let global: &Global = &self.settings.global;
        let mut keys = vec![("auth_dbname".to_owned(), global.auth_dbname.clone())];
        keys.extend(
            self.databases()
                .map(|db| (format!("databases.{}.auth_dbname", db.name), db.auth_dbname.clone())),
        );
        for (key, name) in keys {
            if let Some(name) = name.filter(|name| matches!(name.as_str(), "pgbouncer" | "pgfleet"))
            {
                self.add(
                    &key,
                    format!("\"{name}\" is the console, and no secrets are in it"),
                    "name a database of Postgres",
                );
            }
        }
    }
}
