//! A password tried with PAM, under the service name that PgBouncer has.
//!
//! PAM may ask for a user and for a password, and gets these two; whatever else a module wants of a
//! person is refused. It blocks: `directory` calls it on a thread beside the data thread.

use std::ffi::{OsStr, OsString};

use nonstick::{
    AuthnFlags, ConversationAdapter, ErrorCode, Result, Transaction, TransactionBuilder,
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

/// Whether the user gets in with this password, and its account is in order.
///
/// # Errors
/// PAM's own: a wrong password and a missing service file look alike to it.
pub(super) fn accepts(user: &str, password: &str) -> Result<()> {
    let answers = Answers { user, password };
    let mut transaction = TransactionBuilder::new_with_service(SERVICE)
        .username(user)
        .build(answers.into_conversation())?;
    transaction.authenticate(AuthnFlags::empty())?;
    transaction.account_management(AuthnFlags::empty())
}
