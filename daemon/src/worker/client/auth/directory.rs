//! Methods that try the password elsewhere: an LDAP server, PAM.
//!
//! Both run on a thread beside the data thread and end in a verdict. A password that was accepted is
//! remembered for the server logins of that user, since nothing else may be known of it.

use log::warn;
use pgfleet_config::hba::LdapOptions;
#[cfg(feature = "pam")]
use pgfleet_config::hba::Peer;

use super::ldap;
use super::password::Verdict;
#[cfg(feature = "pam")]
use super::peer;
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
        let host = match self.client(id).map(|client| peer(client)) {
            Some(Peer::Tcp(address) | Peer::Tls(address)) => address.to_string(),
            Some(Peer::Unix) | None => "localhost".to_owned(),
        };
        self.beside(id, move || match super::pam::accepts(&user, &password, &host) {
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
