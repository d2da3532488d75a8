//! A password tried at an LDAP server, as the entry of the user that logs in.
//!
//! The name is escaped wherever it becomes part of a DN or a filter, so that it can only ever name
//! itself. It runs on a thread of its own with a deadline; `directory` starts it and gets the verdict.

use std::time::Duration;

use ldap3::{
    Ldap, LdapConnAsync, LdapConnSettings, LdapError, Scope, SearchEntry, dn_escape, ldap_escape,
};
use pgfleet_config::hba::{LdapFind, LdapOptions, LdapScope};
use thiserror::Error;

/// How long one server may take, with all that is asked of it.
const DEADLINE: Duration = Duration::from_secs(10);

/// `LDAP_INVALID_CREDENTIALS` (RFC 4511, appendix A).
const INVALID_CREDENTIALS: u32 = 49;

/// Why it could not be tried.
#[derive(Debug, Error)]
pub(super) enum LdapFailure {
    #[error("cannot start the LDAP client: {0}")]
    Start(std::io::Error),
    #[error("LDAP server {url}: {error}")]
    Server { url: String, error: Box<LdapError> },
    #[error("LDAP server {url}: no answer within {} s", DEADLINE.as_secs())]
    Silent { url: String },
}

/// Whether the server lets the user in with this password. Blocks.
pub(super) fn accepts(
    options: &LdapOptions,
    user: &str,
    password: &str,
) -> Result<bool, LdapFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LdapFailure::Start)?;
    runtime.block_on(async {
        let mut last = Ok(false);
        for url in &options.urls {
            let tried = tokio::time::timeout(DEADLINE, try_server(options, url, user, password));
            last = match tried.await {
                Ok(Ok(accepted)) => return Ok(accepted),
                Ok(Err(error)) => {
                    Err(LdapFailure::Server { url: url.clone(), error: Box::new(error) })
                }
                Err(_) => Err(LdapFailure::Silent { url: url.clone() }),
            };
        }
        last
    })
}

async fn try_server(
    options: &LdapOptions,
    url: &str,
    user: &str,
    password: &str,
) -> Result<bool, LdapError> {
    let name = match &options.find {
        LdapFind::Simple { prefix, suffix } => format!("{prefix}{}{suffix}", dn_escape(user)),
        LdapFind::Search { base, scope, bind, filter } => {
            let mut ldap = connect(options, url).await?;
            if let Some((name, password)) = bind {
                ldap.simple_bind(name, password.expose()).await?.success()?;
            }
            let filter = filter.replace("$username", &ldap_escape(user));
            let found = ldap.search(base, scope_of(*scope), &filter, vec!["1.1"]).await?;
            let (entries, _) = found.success()?;
            ldap.unbind().await?;
            let mut names = entries
                .into_iter()
                .filter(|entry| !entry.is_ref() && !entry.is_intermediate())
                .map(|entry| SearchEntry::construct(entry).dn);
            // Nobody, or nobody knows which of them.
            let (Some(name), None) = (names.next(), names.next()) else { return Ok(false) };
            name
        }
    };
    let mut ldap = connect(options, url).await?;
    let answer = ldap.simple_bind(&name, password).await?;
    let accepted = match answer.rc {
        INVALID_CREDENTIALS => false,
        _ => answer.success().map(|_| true)?,
    };
    ldap.unbind().await?;
    Ok(accepted)
}

async fn connect(options: &LdapOptions, url: &str) -> Result<Ldap, LdapError> {
    let settings =
        LdapConnSettings::new().set_conn_timeout(DEADLINE).set_starttls(options.start_tls);
    let (connection, ldap) = LdapConnAsync::with_settings(settings, url).await?;
    // It ends with the last handle, or with the runtime.
    drop(tokio::spawn(async move {
        if let Err(error) = connection.drive().await {
            log::debug!("LDAP connection: {error}");
        }
    }));
    Ok(ldap)
}

fn scope_of(scope: LdapScope) -> Scope {
    match scope {
        LdapScope::Base => Scope::Base,
        LdapScope::One => Scope::OneLevel,
        LdapScope::Subtree => Scope::Subtree,
    }
}
