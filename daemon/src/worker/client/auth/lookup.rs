//! `auth_query`: a user who is not in `auth_file` is looked up in Postgres, before anything is asked of the client.
//!
//! The client stands in the line of the pool of `auth_user` like anyone who wants a server, and no
//! setting of its own reaches that server. What was found is used for this login, and remembered only
//! for the logins to Postgres; every login looks anew. `server::lookup` speaks with the server.

use log::warn;
use pgfleet_config::Lookup;
use pgfleet_wire::secret::Secret;

use crate::worker::client::login::Asked;
use crate::worker::client::opening::is_console;
use crate::worker::client::refusal::Refusal;
use crate::worker::client::welcome::fast_failure;
use crate::worker::client::{Client, Stage};
use crate::worker::ids::{ClientId, PoolId};
use crate::worker::server::lookup::Found;
use crate::worker::state::Worker;

impl Client {
    /// It waits for a server on which its user is looked up.
    pub(crate) fn looks_up(&self) -> bool {
        matches!(&self.stage, Stage::Login(login) if matches!(login.asked, Asked::Lookup { .. }))
    }
}

impl Worker {
    pub(super) fn look_up_secret(&mut self, id: ClientId, lookup: &Lookup) {
        let Some(client) = self.client(id) else { return };
        let name = lookup.database.clone().unwrap_or_else(|| client.database().to_owned());
        if is_console(&name) {
            warn!("cannot use the reserved \"{name}\" database as an auth_dbname");
            return self.refuse(id, &Refusal::Configuration);
        }
        let Some(database) = self.settings.database(&name) else {
            warn!("authentication database \"{name}\" is not configured");
            return self.refuse(id, &Refusal::Configuration);
        };
        if self.switches.disabled.contains(&name) {
            return self.refuse(id, &Refusal::LookupDisabled(name));
        }
        let pool = self.find_pool(&name, database, &lookup.user);
        let now = self.now;
        if let Some(pool) = self.pool(pool) {
            pool.clients += 1;
            pool.used = now;
        }
        if let Some(client) = self.client(id)
            && let Stage::Login(login) = &mut client.stage
        {
            login.asked = Asked::Lookup { again: true };
            login.looked_up = true;
            client.pool = Some(pool);
        }
        self.wait_for_lookup(id, pool);
    }

    fn wait_for_lookup(&mut self, id: ClientId, pool_id: PoolId) {
        let now = self.now;
        let Some(pool) = self.pool(pool_id) else { return };
        if let Some(refusal) = fast_failure(pool) {
            self.probe(pool_id);
            return self.refuse(id, &refusal);
        }
        pool.waiting.push_back(id);
        self.hungry.insert(pool_id);
        if let Some(client) = self.client(id) {
            client.waiting_since = Some(now);
        }
        self.serve_line(pool_id);
        self.launch(pool_id);
    }

    /// The server on which a user was looked up was lost; once, it may have been an old connection.
    pub(crate) fn lookup_lost(&mut self, id: ClientId, pool: PoolId) {
        let Some(client) = self.client(id) else { return };
        let Stage::Login(login) = &mut client.stage else { return };
        let Asked::Lookup { again } = &mut login.asked else { return };
        if std::mem::replace(again, false) {
            self.wait_again(id, pool);
        } else {
            self.refuse(id, &Refusal::ServerCrashed);
        }
    }

    /// The server has answered.
    pub(crate) fn looked_up(&mut self, id: ClientId, found: Found) {
        let Some(client) = self.client(id) else { return };
        if !client.looks_up() {
            return;
        }
        let (user, name) = (client.user().to_owned(), client.database().to_owned());
        if let Some(pool) = client.pool.take()
            && let Some(pool) = self.pool(pool)
        {
            pool.clients = pool.clients.saturating_sub(1);
        }
        let text = match found {
            Found::Secret(text) => Some(text),
            Found::Nobody => None,
            Found::Failed(failure) => {
                warn!("auth_query for user \"{user}\" failed: {failure}: {}", failure.detail());
                return self.refuse(id, &Refusal::AuthQuery(failure.to_string()));
            }
        };
        let secret = text.map(|text| {
            Secret::parse(&text).unwrap_or_else(|error| {
                warn!("the secret that auth_query gives for user \"{user}\" is of no use: {error}");
                Secret::Plain(String::new())
            })
        });
        self.secret_found(&name, &user, secret.as_ref());
        let found_in = secret.is_some().then_some(name);
        self.ask_client(id, secret, found_in);
    }
}
