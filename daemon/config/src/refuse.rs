//! What this version cannot do and must not pretend to do: accepting it would weaken security or change behaviour badly.
//! Keys that merely have no effect are not here but noted.
//! The draft calls it after the checks.

use crate::{
    AuthType, Database, Global, LimitMode, PoolMode, Problem, Settings, SslMode, fault::Fault,
    problem::Places,
};

const TLS: &str = "and keep the connections on a private network or a Unix socket";

/// A problem for each setting that is not supported in this version.
pub(crate) fn refuse(settings: &Settings, places: &Places) -> Vec<Problem> {
    let mut refused = of_global(&settings.global);
    refused.extend(settings.databases.values().chain(&settings.fallback).flat_map(of_database));
    let users = settings.users.values();
    refused.extend(users.filter_map(|user| {
        statement_mode(&format!("users.{}.pool_mode", user.name), user.pool_mode)
    }));
    let problem = |refused: Refused| {
        let reason = format!("{} is not supported in this version", refused.what);
        places.problem(&refused.key, Fault::new(reason, refused.remedy))
    };
    refused.into_iter().map(problem).collect()
}

/// One setting that is not supported.
struct Refused {
    key: String,
    what: String,
    remedy: String,
}

impl Refused {
    fn new(key: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { key: key.to_owned(), what: what.into(), remedy: remedy.into() }
    }
}

fn of_global(global: &Global) -> Vec<Refused> {
    let client = Some(global.client_tls_sslmode).filter(|mode| *mode != SslMode::Disable);
    let server = match global.server_tls_sslmode {
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
            Some(global.server_tls_sslmode)
        }
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => None,
    };
    let shared = global.limit_mode == LimitMode::Shared;
    let cert = global.auth_type == AuthType::Cert;
    let found = [
        cert.then(|| {
            Refused::new(
                "auth_type",
                "cert",
                "use scram-sha-256, md5, plain, hba, ldap, trust or any",
            )
        }),
        client.map(|mode| {
            Refused::new("client_tls_sslmode", mode.word(), format!("set it to disable, {TLS}"))
        }),
        server.map(|mode| {
            Refused::new("server_tls_sslmode", mode.word(), format!("set it to prefer, {TLS}"))
        }),
        statement_mode("pool_mode", Some(global.pool_mode)),
        shared.then(|| Refused::new("limit_mode", "shared", "set it to divided")),
    ];
    found.into_iter().flatten().collect()
}

fn of_database(db: &Database) -> Vec<Refused> {
    let mode = statement_mode(&format!("databases.{}.pool_mode", db.name), db.pool_mode);
    mode.into_iter().collect()
}

/// It would have to refuse transactions, which this version does not.
fn statement_mode(key: &str, mode: Option<PoolMode>) -> Option<Refused> {
    let is_it = mode == Some(PoolMode::Statement);
    is_it.then(|| Refused::new(key, "pool_mode statement", "set it to transaction or session"))
}
