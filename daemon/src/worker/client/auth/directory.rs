//! Methods that try the password elsewhere: an LDAP server, PAM.
//!
//! Both run on a thread beside the data thread and end in a verdict. A password that was accepted is
//! remembered for the server logins of that user, since nothing else may be known of it.

use log::warn;
use pgfleet_config::hba::LdapOptions;

use super::ldap;
use super::password::Verdict;
use crate::worker::client::refusal::Refusal;
use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

impl Worker {
    pub(super) fn ask_ldap(
        &self,
        id: ClientId,
        options: LdapOptions,
        user: String,
        password: String,
    ) {
        self.beside(id, move || match ldap::accepts(&options, &user, &password) {
            Ok(true) => Verdict::Accepted(password),
            Ok(false) => Verdict::Wrong(Refusal::LdapFailed),
            Err(failure) => {
                warn!("user \"{user}\" cannot be checked: {failure}");
                Verdict::Wrong(Refusal::LdapFailed)
            }
        });
    }

    #[cfg(feature = "pam")]
    pub(super) fn ask_pam(&mut self, id: ClientId, user: String, password: String) {
        self.beside(id, move || match super::pam::accepts(&user, &password) {
            Ok(()) => Verdict::Accepted(password),
            Err(failure) => {
                warn!("user \"{user}\" is not accepted: {failure}");
                Verdict::Wrong(Refusal::PamFailed)
            }
        });
    }

    /// A build without PAM refuses the configuration already.
    #[cfg(not(feature = "pam"))]
    pub(super) fn ask_pam(&mut self, id: ClientId, user: String, _password: String) {
        warn!("user \"{user}\" cannot be checked: this build has no PAM");
        self.refuse(id, &Refusal::PamFailed);
    }
}
