//! Every reason for which a client is told off, with the text and SQLSTATE that it sees.
//!
//! Where PgBouncer has the error, both are PgBouncer's. Nothing else in the worker writes error
//! texts to clients; what Postgres said is passed on as it was.

use pgfleet_wire::back::ErrorFields;
use thiserror::Error;

/// Why a client is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("no more connections allowed (max_client_conn)")]
    TooManyClients,
    #[error("client connections exceeded (max_db_client_connections)")]
    TooManyForDatabase,
    #[error("client connections exceeded (max_user_client_connections)")]
    TooManyForUser,
    #[error("{0}")]
    BadStartup(String),
    #[error("unsupported startup parameter: {0}")]
    UnsupportedParameter(String),
    #[error("unsupported startup parameter in options: {0}")]
    UnsupportedOption(String),
    #[error("password authentication failed")]
    WrongPassword,
    #[error("SASL authentication failed")]
    SaslFailed,
    #[error("\"trust\" authentication failed")]
    TrustFailed,
    #[error("unix socket login rejected")]
    PeerFailed,
    #[error("certificate authentication failed")]
    CertificateFailed,
    #[error("LDAP authentication failed")]
    LdapFailed,
    #[error("PAM authentication failed")]
    PamFailed,
    /// The look-up of its user is of no use.
    #[error("{0}")]
    AuthQuery(String),
    #[error("login rejected")]
    Rejected,
    #[error("no authentication method is found")]
    NoMethod,
    #[error("empty password returned by client")]
    EmptyPassword,
    #[error("no such database: {0}")]
    NoDatabase(String),
    #[error("database \"{0}\" is disabled")]
    Disabled(String),
    #[error("authentication database \"{0}\" is disabled")]
    LookupDisabled(String),
    #[error("pooler is shutting down")]
    ShuttingDown,
    #[error("server shutting down")]
    ServerShuttingDown,
    #[error("admin forced disconnect")]
    Forced,
    #[error("bouncer config error")]
    Configuration,
    #[error("not allowed")]
    NotAllowed,
    #[error("login failed")]
    LoginFailed,
    #[error("bad packet header: '{0}'")]
    BadHeader(String),
    #[error("PQexec disallowed")]
    SimpleQuery,
    #[error("unknown pkt")]
    UnknownMessage,
    /// The server said what it should not.
    #[error("{0}")]
    OutOfStep(String),
    #[error("{0}")]
    BadMessage(&'static str),
    #[error("packet too large (max_packet_size)")]
    TooLarge,
    #[error("query_wait_timeout")]
    QueryWaitTimeout,
    #[error("query_timeout")]
    QueryTimeoutWaiting,
    #[error("query timeout")]
    QueryTimeout,
    #[error("client_idle_timeout")]
    IdleTimeout,
    #[error("idle transaction timeout")]
    IdleTransactionTimeout,
    #[error("transaction timeout")]
    TransactionTimeout,
    #[error("client_login_timeout")]
    LoginTimeout,
    #[error("client_login_timeout (server down)")]
    LoginTimeoutServerDown,
    #[error("server login has been failing, cached error: {0} (server_login_retry)")]
    ServerFailing(String),
    #[error("server conn crashed?")]
    ServerCrashed,
    #[error("invalid server parameter")]
    BadParameter,
    #[error("database configuration changed")]
    ConfigurationChanged,
    #[error("database removed")]
    DatabaseRemoved,
    #[error("terminating connection due to administrator command")]
    LetGo,
    #[error("internal error of the pooler; the connection is closed")]
    Internal,
    /// What Postgres said, passed on.
    #[error("{message}")]
    FromServer { sqlstate: String, message: String },
}

impl Refusal {
    /// PgBouncer has one SQLSTATE for all that it says itself.
    pub(crate) fn sqlstate(&self) -> &str {
        match self {
            Self::LetGo => "57P01",
            Self::Internal => "XX000",
            Self::FromServer { sqlstate, .. } => sqlstate,
            Self::TooManyClients
            | Self::TooManyForDatabase
            | Self::TooManyForUser
            | Self::BadStartup(_)
            | Self::UnsupportedParameter(_)
            | Self::UnsupportedOption(_)
            | Self::WrongPassword
            | Self::SaslFailed
            | Self::TrustFailed
            | Self::PeerFailed
            | Self::CertificateFailed
            | Self::LdapFailed
            | Self::PamFailed
            | Self::AuthQuery(_)
            | Self::Rejected
            | Self::NoMethod
            | Self::EmptyPassword
            | Self::NoDatabase(_)
            | Self::Disabled(_)
            | Self::LookupDisabled(_)
            | Self::ShuttingDown
            | Self::ServerShuttingDown
            | Self::Forced
            | Self::Configuration
            | Self::NotAllowed
            | Self::LoginFailed
            | Self::BadHeader(_)
            | Self::SimpleQuery
            | Self::UnknownMessage
            | Self::OutOfStep(_)
            | Self::BadMessage(_)
            | Self::TooLarge
            | Self::QueryWaitTimeout
            | Self::QueryTimeoutWaiting
            | Self::QueryTimeout
            | Self::IdleTimeout
            | Self::IdleTransactionTimeout
            | Self::TransactionTimeout
            | Self::LoginTimeout
            | Self::LoginTimeoutServerDown
            | Self::ServerFailing(_)
            | Self::ServerCrashed
            | Self::BadParameter
            | Self::ConfigurationChanged
            | Self::DatabaseRemoved => "08P01",
        }
    }

    /// A header that cannot be one; its bytes are shown as hex digits, as by PgBouncer.
    pub(crate) fn bad_header(bytes: &[u8]) -> Self {
        let shown = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self::BadHeader(shown)
    }

    /// The message that the client gets.
    pub(crate) fn fields(&self) -> ErrorFields {
        ErrorFields::fatal(self.sqlstate(), self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_states_are_pgbouncer_s() {
        let refused = Refusal::ServerFailing("connect failed".into());
        assert_eq!(
            refused.to_string(),
            "server login has been failing, cached error: connect failed (server_login_retry)"
        );
        assert_eq!(refused.sqlstate(), "08P01");
        assert_eq!(Refusal::LetGo.sqlstate(), "57P01");
    }
}
