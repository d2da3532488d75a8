//! A client that asked for the database `pgbouncer` or `pgfleet`.
//!
//! The worker ends its protocol; only the text of a statement goes to the supervisor, and the reply
//! comes back by number. Who may log in here is said by `admin_users` and `stats_users`.

use pgfleet_wire::back;
use pgfleet_wire::key::CancelKey;
use pgfleet_wire::startup::Startup;

use super::refusal::Refusal;
use super::{Origin, Stage, login, opening};
use crate::console::{self, Session, Step};
use crate::link::message::{Role, ToSupervisor};
use crate::link::table::Reply;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Moved};
use crate::worker::state::Worker;

/// A console session.
pub(crate) struct Console {
    session: Session,
    role: Role,
    user: String,
}

impl Worker {
    /// Greets an authenticated console client.
    pub(crate) fn open_console(&mut self, id: ClientId, startup: &Startup) {
        let Some(role) = self.role(id, &startup.user) else {
            return self.refuse(id, &Refusal::NotAllowed);
        };
        let Ok(random) = login::random::<6>() else { return self.refuse(id, &Refusal::Internal) };
        let key = CancelKey::new(self.welcome.worker.slot, self.welcome.worker.generation, random);
        let mut out = Vec::new();
        back::auth_ok(&mut out);
        console::greeting(&mut out, &key);
        let session = Session::new();
        let now = self.now;
        let Some(client) = self.client(id) else { return };
        client.stage =
            Stage::Console(Box::new(Console { session, role, user: startup.user.clone() }));
        client.active = now;
        let input = std::mem::take(&mut client.input);
        self.reply(id, &out);
        if !input.is_empty() {
            self.console_bytes(id, &input);
        }
    }

    fn role(&self, id: ClientId, user: &str) -> Option<Role> {
        let global = &self.settings.global;
        let own = self.clients.get(id.index as usize).is_some_and(|client| {
            matches!(*client.origin, Origin::Unix { uid: Some(uid) } if uid == self.welcome.uid)
        });
        if global.admin_users.iter().any(|admin| admin == user)
            || (own && opening::is_console(user))
        {
            return Some(Role::Admin);
        }
        global.stats_users.iter().any(|stats| stats == user).then_some(Role::Stats)
    }

    /// Bytes of a console client.
    pub(crate) fn console_read(&mut self, id: ClientId) {
        let mut chunk = [0; 4096];
        let Some(client) = self.client(id) else { return };
        match io::read(&client.fd, &mut chunk) {
            Moved::Bytes(count) => {
                self.leftover |= count == chunk.len();
                self.console_bytes(id, chunk.get(..count).unwrap_or_default());
            }
            Moved::Later => {}
            Moved::End | Moved::Broken(_) => self.drop_client(id, "client unexpected eof"),
        }
    }

    fn console_bytes(&mut self, id: ClientId, bytes: &[u8]) {
        let now = self.now;
        let Some(client) = self.client(id) else { return };
        client.active = now;
        let Stage::Console(console) = &mut client.stage else { return };
        let mut out = Vec::new();
        let step = console.session.input(bytes, &mut out);
        self.console_step(id, step, &out);
    }

    /// The supervisor has answered.
    pub(crate) fn console_answer(&mut self, number: u64, reply: Reply) {
        let Some(id) = self.asked.remove(&number) else { return };
        let Some(client) = self.client(id) else { return };
        let Stage::Console(console) = &mut client.stage else { return };
        let mut out = Vec::new();
        let step = console.session.answer(reply, &mut out);
        self.console_step(id, step, &out);
    }

    fn console_step(&mut self, id: ClientId, step: Step, out: &[u8]) {
        self.reply(id, out);
        match step {
            Step::NeedMore => {
                let waiting = self.client(id).is_some_and(|client| !client.outbox.is_empty());
                self.client_interest(id, Some(!waiting), None);
            }
            Step::Ask(text) => {
                let number = self.next_number();
                let Some(client) = self.client(id) else { return };
                let Stage::Console(console) = &client.stage else { return };
                let (user, role) = (console.user.clone(), console.role);
                self.asked.insert(number, id);
                self.client_interest(id, Some(false), None);
                self.say(&ToSupervisor::Statement { id: number, user, role, text }, None);
            }
            Step::Close => self.linger(id, "client close request"),
        }
    }
}
