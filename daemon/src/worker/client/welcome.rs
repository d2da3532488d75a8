//! From authenticated to serving: the pool, the client's own settings, the welcome.
//!
//! It checks the startup parameters, takes the permits of the database and the user, and sends what
//! a server of the pool said at its login. The first client of a pool waits for that login.

use std::rc::Rc;

use log::{debug, info};
use pgfleet_config::Database;
use pgfleet_wire::back::{self, ErrorFields};
use pgfleet_wire::key::CancelKey;
use pgfleet_wire::startup::{Protocol, Startup};

use super::refusal::Refusal;
use super::{Client, Identity, Origin, Stage, login};
use crate::link::message::LimitKey;
use crate::worker::ids::{ClientId, PoolId};
use crate::worker::pool::Welcome;
use crate::worker::pool::permits::Permit;
use crate::worker::replication::Replicating;
use crate::worker::state::Worker;
use crate::worker::vars::{Own, Values};

/// What a client asked for at its startup, of the tracked settings.
type Wishes = Vec<(usize, String)>;

impl Worker {
    /// Gives an authenticated client its pool.
    pub(crate) fn seat(&mut self, id: ClientId, startup: &Startup) {
        match self.try_seat(id, startup) {
            Ok(()) => self.greet_or_wait(id),
            Err(refusal) => self.refuse(id, &refusal),
        }
    }

    fn try_seat(&mut self, id: ClientId, startup: &Startup) -> Result<(), Refusal> {
        let name = startup.database.as_deref().unwrap_or(&startup.user).to_owned();
        let Some(database) = self.settings.database(&name) else {
            return Err(Refusal::NoDatabase(name));
        };
        if self.switches.disabled.contains(&name) {
            return Err(Refusal::Disabled(name));
        }
        let replication = Replicating::of(startup, |name| self.is_ignored(name));
        let wishes = if replication.is_some() { Wishes::new() } else { self.wishes(id, startup)? };
        let pool = self.pool_for(&name, database, &startup.user)?;
        self.take_seat(id, &name, &startup.user)?;
        let mut out = Vec::new();
        back::auth_ok(&mut out);
        self.reply(id, &out);
        let values: Values =
            vec![None; self.tracked.len()].into_iter().collect::<Vec<Option<Rc<str>>>>().into();
        let mut own = Own::default();
        let mut wanted = values.to_vec();
        for (position, value) in wishes {
            own.set(position);
            wanted[position] = Some(value.into());
        }
        let wanted = self.vars.intern(wanted);
        if let Some(client) = self.client(id) {
            client.pool = Some(pool);
            client.replication = replication.map(Box::new);
            client.vars = Some(wanted);
            client.own = own;
            client.stage = Stage::AwaitingWelcome;
        }
        let now = self.now;
        let is_here = self.client(id).is_some_and(|client| client.pool == Some(pool));
        if is_here && let Some(pool) = self.pool(pool) {
            pool.clients += 1;
            pool.used = now;
        }
        Ok(())
    }

    fn take_seat(&mut self, id: ClientId, database: &str, user: &str) -> Result<(), Refusal> {
        let keys = [
            LimitKey::ClientsOfDatabase(database.to_owned()),
            LimitKey::ClientsOfUser(user.to_owned()),
        ];
        match self.permits.take(&keys) {
            Permit::Granted => {}
            Permit::Denied(_) if self.is_leaving() => self.permits.take_anyway(&keys),
            Permit::Denied(LimitKey::ClientsOfUser(_)) => return Err(Refusal::TooManyForUser),
            Permit::Denied(_) => return Err(Refusal::TooManyForDatabase),
        }
        if let Some(client) = self.client(id)
            && let Some(identity) = &client.identity
        {
            client.identity = Some(Rc::new(Identity {
                user: identity.user.clone(),
                database: identity.database.clone(),
                seated: true,
            }));
        }
        Ok(())
    }

    fn pool_for(&mut self, name: &str, database: Database, user: &str) -> Result<PoolId, Refusal> {
        let server_user = match (&database.user, self.settings.global.auth_type) {
            (Some(forced), _) => forced.clone(),
            (None, pgfleet_config::AuthType::Any) => return Err(Refusal::Configuration),
            (None, _) => user.to_owned(),
        };
        Ok(self.find_pool(name, database, &server_user))
    }

    fn is_ignored(&self, name: &str) -> bool {
        let list = &self.settings.global.ignore_startup_parameters;
        list.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The tracked settings among the startup parameters; others are refused or ignored, as set.
    fn wishes(&mut self, id: ClientId, startup: &Startup) -> Result<Wishes, Refusal> {
        let ignored = |name: &str| self.is_ignored(name);
        let mut wishes = Wishes::new();
        for (name, value) in &startup.params {
            match self.tracked.position(name) {
                Some(position) => wishes.push((position, value.clone())),
                None if ignored(name) => debug!("startup parameter {name} ignored"),
                None => return Err(Refusal::UnsupportedParameter(name.clone())),
            }
        }
        for (name, value) in &startup.options {
            match self.tracked.position(name) {
                Some(position) => wishes.push((position, value.clone())),
                None if ignored(name) || ignored("options") => debug!("option {name} ignored"),
                None => return Err(Refusal::UnsupportedOption(name.clone())),
            }
        }
        if self.settings.global.application_name_add_host {
            self.add_host(id, &mut wishes);
        }
        Ok(wishes)
    }

    fn add_host(&mut self, id: ClientId, wishes: &mut Wishes) {
        let Some(position) = self.tracked.position("application_name") else { return };
        let Some(client) = self.client(id) else { return };
        let host = match &*client.origin {
            Origin::Tcp { peer, .. } => format!("{}:{}", peer.ip(), peer.port()),
            Origin::Unix { .. } => "unix".to_owned(),
        };
        let name =
            wishes.iter().rev().find(|(at, _)| *at == position).map_or("app", |(_, name)| name);
        wishes.push((position, format!("{name} - {host}")));
    }

    fn greet_or_wait(&mut self, id: ClientId) {
        let Some(pool_id) = self.pool_of_client(id) else { return };
        let wants_its_own = self.client(id).is_some_and(|client| client.replication.is_some());
        let Some(pool) = self.pool(pool_id) else { return };
        if let Some(welcome) = pool.welcome.clone().filter(|_| !wants_its_own) {
            return self.greet(id, &welcome);
        }
        if let Some(refusal) = fast_failure(pool) {
            self.probe(pool_id);
            return self.refuse(id, &refusal);
        }
        if wants_its_own {
            return self.wait_for_own_server(id, pool_id);
        }
        pool.greeting.push(id);
        self.hungry.insert(pool_id);
        let now = self.now;
        if let Some(client) = self.client(id) {
            client.waiting_since = Some(now);
        }
        self.launch(pool_id);
    }

    /// A server of the pool has logged in: all who waited for that are greeted.
    pub(crate) fn greet_all(&mut self, pool: PoolId) {
        let Some(entry) = self.pool(pool) else { return };
        let Some(welcome) = entry.welcome.clone() else { return };
        for id in std::mem::take(&mut entry.greeting) {
            self.greet(id, &welcome);
        }
    }

    /// Sends the welcome, and lets the client begin.
    pub(crate) fn greet(&mut self, id: ClientId, welcome: &Rc<Welcome>) {
        if let Err(refusal) = self.drop_unreported(id, welcome) {
            return self.refuse(id, &refusal);
        }
        let Ok(key) = self.new_key(id) else { return self.refuse(id, &Refusal::Internal) };
        let Some(client) = self.clients.get_mut(id.index as usize).filter(|client| client.id == id)
        else {
            return;
        };
        let (wanted, own) = (client.vars.clone(), client.own);
        let mut told = welcome.values.to_vec();
        for (position, value) in told.iter_mut().enumerate() {
            if own.has(position)
                && let Some(wish) = wanted.as_ref().and_then(|wanted| wanted[position].clone())
            {
                *value = Some(wish);
            }
        }
        let told = self.vars.intern(told);
        let mut out = Vec::with_capacity(512);
        for (name, value) in &welcome.fixed {
            back::parameter_status(&mut out, name, value);
        }
        for (position, value) in told.iter().enumerate() {
            if let Some(value) = value {
                back::parameter_status(&mut out, self.tracked.name(position), &**value);
            }
        }
        back::backend_key(&mut out, &key);
        let notice = &self.settings.global.login_notify_message;
        if !notice.is_empty() {
            back::notice(&mut out, &ErrorFields::notice(notice.as_str()));
        }
        back::ready(&mut out, b'I');
        client.vars = Some(told);
        client.key = Some(key);
        client.stage = Stage::Session;
        client.waiting_since = None;
        client.active = self.now;
        client.input.shrink_to_fit();
        let (name, pool) = (client.database().to_owned(), client.pool);
        self.keys.insert(key, id);
        let row = self.stats.row_of(&name);
        if let Some(totals) = self.stats.at(row) {
            totals.logins += 1;
        }
        self.reply(id, &out);
        if pool.is_some() {
            self.greeted(id);
        }
    }

    /// A wish that the server does not report could neither be followed nor undone for the next client.
    fn drop_unreported(&mut self, id: ClientId, welcome: &Welcome) -> Result<(), Refusal> {
        let Some(own) = self.client(id).map(|client| client.own) else { return Ok(()) };
        for position in (0..self.tracked.len()).filter(|&position| own.has(position)) {
            if welcome.values[position].is_some() {
                continue;
            }
            let name = self.tracked.name(position).to_owned();
            if !self.is_ignored(&name) {
                return Err(Refusal::UnsupportedParameter(name));
            }
            if let Some(client) = self.client(id) {
                client.own.clear(position);
            }
        }
        Ok(())
    }

    /// A key for a client, as long as its version of the protocol has it.
    fn new_key(&mut self, id: ClientId) -> Result<CancelKey, Refusal> {
        let worker = self.welcome.worker;
        let key = CancelKey::new(worker.slot, worker.generation, login::random()?);
        match self.client(id).map(|client| client.protocol) {
            Some(Protocol::V3_2) => Ok(key.lengthened(login::random()?)),
            Some(Protocol::V3_0) | None => Ok(key),
        }
    }

    fn greeted(&mut self, id: ClientId) {
        let log = self.settings.global.log_connections;
        let Some(client) = self.client(id) else { return };
        if log {
            info!("{client} login successful");
        }
        if !client.input.is_empty() {
            // It did not wait for the welcome before its first request.
            self.resumed.push_back(id);
        }
    }
}

/// Whether a client of a pool without servers fails at once, since logins are known to fail.
pub(crate) fn fast_failure(pool: &crate::worker::pool::Pool) -> Option<Refusal> {
    let reason = pool.backoff.reason()?;
    // Those who come while it is paused wait for what is there afterwards.
    (pool.connected == 0 && !pool.paused).then(|| Refusal::ServerFailing(reason.to_owned()))
}

impl Client {
    /// The value of a tracked setting, as the client knows it.
    pub(crate) fn value(&self, position: usize) -> Option<&str> {
        self.vars.as_ref()?.get(position)?.as_deref()
    }
}
