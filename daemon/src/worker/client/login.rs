//! Authenticating a client: its messages, and the step that each of them is for.
//!
//! `auth` says what is asked for and judges the answers; here they are read, bounded and passed on.
//! It ends in `welcome`, in the console, or in a refusal; unknown users go the same way as known ones.

use std::rc::Rc;

use pgfleet_wire::frame;
use pgfleet_wire::scram::ScramServer;
use pgfleet_wire::secret::Secret;
use pgfleet_wire::startup::Startup;

use super::Stage;
use super::auth::Way;
use super::opening::is_console;
use super::refusal::Refusal;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Moved};
use crate::worker::state::Worker;

/// Password messages are small; more than this is no login.
const LONGEST: usize = 64 * 1024;

/// What the client was asked for, or what it waits for.
pub(crate) enum Asked {
    Nothing,
    /// A server looks its user up; once more if that server is lost.
    Lookup {
        again: bool,
    },
    /// The user at the other end of its socket is looked up; with the map for it.
    Name(Option<String>),
    Cleartext,
    /// Its password is judged beside the data thread.
    Judgement,
    Md5([u8; 4]),
    /// Its first SCRAM message.
    Scram,
    /// Its first message is here, the verifier is being derived.
    Deriving(Vec<u8>),
    /// Its proof.
    Proof(Box<ScramServer>),
}

/// A client in authentication.
pub(crate) struct Login {
    pub(crate) startup: Startup,
    pub(super) way: Way,
    pub(super) asked: Asked,
    /// The secret of a known user.
    pub(in crate::worker) secret: Option<Secret>,
    /// The secret was looked up in Postgres, with or without success.
    pub(super) looked_up: bool,
    /// The database for whose clients the secret was found; none: it is in the auth file.
    pub(in crate::worker) found_in: Option<String>,
}

impl Worker {
    /// The startup packet is read: ask for a proof of identity.
    pub(crate) fn login(&mut self, id: ClientId, startup: Startup) {
        let way = match self.way(id, &startup) {
            Ok(way) => way,
            Err(refusal) => return self.refuse(id, &refusal),
        };
        let login = Login {
            startup,
            way,
            asked: Asked::Nothing,
            secret: None,
            looked_up: false,
            found_in: None,
        };
        let Some(client) = self.client(id) else { return };
        client.stage = Stage::Login(Box::new(login));
        self.find_secret(id);
    }

    /// Bytes of a client in authentication.
    pub(crate) fn login_read(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let mut chunk = [0; 4096];
        match io::read(&client.fd, &mut chunk) {
            Moved::Bytes(count) => {
                client.input.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.leftover |= count == chunk.len();
            }
            Moved::Later => return,
            Moved::End | Moved::Broken(_) => return self.drop_client(id, "client unexpected eof"),
        }
        if self.client(id).is_some_and(|client| client.input.len() > LONGEST) {
            return self.refuse(id, &Refusal::TooLarge);
        }
        self.login_input(id);
    }

    pub(super) fn login_input(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        match login.asked {
            // Nothing was asked yet, or the answer is being looked at.
            Asked::Lookup { .. } | Asked::Name(_) | Asked::Judgement | Asked::Deriving(_) => return,
            Asked::Nothing | Asked::Cleartext | Asked::Md5(_) | Asked::Scram | Asked::Proof(_) => {}
        }
        let (header, body, taken) = match frame::split(&client.input) {
            Ok(Some((header, body, taken))) => (header, body.to_vec(), taken),
            Ok(None) => return,
            Err(_) => {
                let refusal = Refusal::bad_header(&client.input);
                return self.refuse(id, &refusal);
            }
        };
        client.input.drain(..taken);
        if header.tag == b'X' {
            return self.drop_client(id, "client close request");
        }
        if header.tag != b'p' {
            return self.refuse(id, &Refusal::UnknownMessage);
        }
        let asked = std::mem::replace(&mut login.asked, Asked::Nothing);
        match asked {
            Asked::Cleartext => self.on_password(id, &body),
            Asked::Md5(salt) => self.on_md5(id, &body, salt),
            Asked::Scram => self.on_scram_first(id, &body),
            Asked::Proof(scram) => self.on_proof(id, *scram, &body),
            Asked::Nothing
            | Asked::Lookup { .. }
            | Asked::Name(_)
            | Asked::Judgement
            | Asked::Deriving(_) => self.refuse(id, &Refusal::UnknownMessage),
        }
    }

    pub(super) fn authenticated(&mut self, id: ClientId) {
        self.secret_proved(id);
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = std::mem::replace(&mut client.stage, Stage::Opening) else {
            return;
        };
        let startup = Rc::new(login.startup);
        if is_console(client.database()) {
            self.open_console(id, &startup);
        } else {
            self.seat(id, &startup);
        }
    }
}

/// Fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Refusal::Internal)?;
    Ok(bytes)
}
