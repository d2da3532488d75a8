//! A password tried with PAM, under the service name that PgBouncer has.
//!
//! PAM may ask for a user and for a password, and gets these two; whatever else a module wants of a
//! person is refused. It blocks: `directory` calls it on a thread beside the data thread.

use std::ffi::{OsStr, OsString};

use nonstick::items::ItemsMut;
use nonstick::{
    AuthnFlags, ConversationAdapter, ErrorCode, PamShared, Result, Transaction, TransactionBuilder,
};

/// The file in `/etc/pam.d`.
const SERVICE: &str = "pgbouncer";

/// What PAM is answered.
struct Answers<'a> {
    user: &'a str,
    password: &'a str,
}

impl ConversationAdapter for Answers<'_> {
    fn prompt(&self, _request: impl AsRef<OsStr>) -> Result<OsString> {
        Ok(OsString::from(self.user))
    }

    fn masked_prompt(&self, _request: impl AsRef<OsStr>) -> Result<OsString> {
        Ok(OsString::from(self.password))
    }

    fn radio_prompt(&self, _request: impl AsRef<OsStr>) -> Result<OsString> {
        Err(ErrorCode::ConversationError)
    }

    fn error_msg(&self, message: impl AsRef<OsStr>) {
        log::debug!("PAM: {}", message.as_ref().to_string_lossy());
    }

    fn info_msg(&self, message: impl AsRef<OsStr>) {
        log::debug!("PAM: {}", message.as_ref().to_string_lossy());
    }
}

/// Whether the user gets in from this host with this password, and its account is in order.
///
/// # Errors
/// PAM's own: a wrong password and a missing service file look alike to it.
pub(super) fn accepts(user: &str, password: &str, host: &str) -> Result<()> {
    let answers = Answers { user, password };
    let mut transaction = TransactionBuilder::new_with_service(SERVICE)
        .username(user)
        .build(answers.into_conversation())?;
    transaction.items_mut().set_remote_host(Some(OsStr::new(host)))?;
    transaction.authenticate(AuthnFlags::empty())?;
    transaction.account_management(AuthnFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process::Command};

    use super::accepts;

    const WRAPPER: &str = "libpam_wrapper.so";
    const INSIDE: &str = "PGFLEET_PAM_TEST";

    /// PAM with a service directory and a password file of the test's own, which takes a process of its own.
    #[test]
    fn pam_says_who_gets_in() {
        if env::var_os(INSIDE).is_some() {
            assert!(accepts("alice", "al1ce", "127.0.0.1").is_ok());
            assert!(accepts("alice", "wrong", "127.0.0.1").is_err());
            assert!(accepts("alice", "", "127.0.0.1").is_err());
            assert!(accepts("nobody", "al1ce", "127.0.0.1").is_err());
            assert!(accepts("bob", "b0b", "127.0.0.1").is_err(), "he has another service");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let module = "/usr/lib/x86_64-linux-gnu/pam_wrapper/pam_matrix.so";
        let module = env::var("PGFLEET_PAM_MATRIX").unwrap_or_else(|_| module.to_owned());
        let people = dir.path().join("people");
        fs::write(&people, "alice:al1ce:pgbouncer\nbob:b0b:sshd\n").unwrap();
        let line = format!("required {module} passdb={}\n", people.display());
        let service = format!("auth {line}account {line}password {line}session {line}");
        fs::write(dir.path().join("pgbouncer"), service).unwrap();
        let status = Command::new(env::current_exe().unwrap())
            .args(["--exact", "worker::client::auth::pam::tests::pam_says_who_gets_in"])
            .env(INSIDE, "1")
            .env("LD_PRELOAD", WRAPPER)
            .env("PAM_WRAPPER", "1")
            .env("PAM_WRAPPER_SERVICE_DIR", dir.path())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.status.success() && out.contains("1 passed"), "{out}");
    }
}
