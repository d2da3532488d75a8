//! What the supervisor says over the link, and what is said back.
//!
//! Settings and shares come as one numbered change: prepared, committed, granted. Everything else is
//! carried out as it comes. The worker never asks the supervisor for anything it must wait for.

use std::fs;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use log::{LevelFilter, debug, warn};
use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use super::ids::PoolId;
use super::listener::Listener;
use super::pool::hosts::Hosts;
use super::state::{Prepared, Worker};
use super::vars::Tracked;
use crate::ledger::Accepting;
use crate::link::message::{LimitKey, ToSupervisor, ToWorker};
use crate::link::snapshot::read_settings;
use crate::link::switches::Doors;
use crate::link::table::Value;
use crate::log_line;

impl Worker {
    /// One message of the supervisor.
    pub(crate) fn on_link(&mut self, message: ToWorker, mut fds: Vec<OwnedFd>) {
        let fd = fds.pop();
        match message {
            ToWorker::Welcome(_) => debug!("a second welcome is ignored"),
            ToWorker::Prepare { epoch, settings, share } => {
                let fd = if settings { fd } else { None };
                self.prepare_change(epoch, settings, fd, share);
            }
            ToWorker::Commit { epoch } => self.commit_change(epoch),
            ToWorker::Discard { epoch } => {
                if self.prepared.as_ref().is_some_and(|prepared| prepared.epoch == epoch) {
                    self.prepared = None;
                }
            }
            ToWorker::Grant { epoch, minus } => self.grant(epoch, minus),
            ToWorker::Listener { id, kind, address } => {
                if let Some(fd) = fd {
                    self.add_listener(id, Listener { fd, kind, address });
                }
            }
            ToWorker::DropListener { id } => {
                // Those who come to the Unix socket of a fleet that shuts down are told so.
                let keeps = self.switches.doors == Doors::Closing && self.is_unix_listener(id);
                if !keeps {
                    self.drop_listener(id);
                }
            }
            ToWorker::Peer { worker } => {
                if let Some(fd) = fd {
                    self.add_peer(worker, fd);
                }
            }
            ToWorker::PeerGone { worker } => self.remove_peer(worker),
            ToWorker::Drain(drain) => self.start_leaving(drain),
            ToWorker::Undrain => self.stop_leaving(),
            ToWorker::Quit => self.quit = true,
            ToWorker::Ask { id, question } => {
                let rows = self.table(question);
                self.say(&ToSupervisor::Rows { id, rows }, None);
            }
            ToWorker::Switches(switches) => self.switch(switches),
            ToWorker::Do { id, order } => {
                let done = i64::try_from(self.obey(&order)).unwrap_or(i64::MAX);
                let rows = vec![vec![Value::Int(done)]];
                self.say(&ToSupervisor::Rows { id, rows }, None);
            }
            ToWorker::Answer { id, reply } => self.console_answer(id, reply),
            ToWorker::Learned(lesson) => self.learn(lesson),
            ToWorker::Shown(credential) => self.learn_credential(credential),
            ToWorker::Ping { sequence } => {
                let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
                let stats = self.stats.table();
                self.say(&ToSupervisor::Pong { sequence, clients, stats }, None);
            }
        }
    }

    fn prepare_change(
        &mut self,
        epoch: u64,
        has_settings: bool,
        fd: Option<OwnedFd>,
        share: Option<Share>,
    ) {
        let settings = match (has_settings, fd) {
            (false, _) => Ok(None),
            (true, Some(fd)) => read_settings(fd).map(Some).map_err(|error| error.to_string()),
            (true, None) => Err("the settings did not come with their message".to_owned()),
        };
        let result = match settings {
            Ok(settings) => {
                let settings = settings.map(Rc::new);
                self.prepared = Some(Prepared { epoch, settings, share });
                Ok(())
            }
            Err(reason) => Err(reason),
        };
        self.say(&ToSupervisor::Prepared { epoch, result }, None);
    }

    fn commit_change(&mut self, epoch: u64) {
        let Some(prepared) = self.prepared.take().filter(|prepared| prepared.epoch == epoch) else {
            return warn!("commit of change {epoch}, which was not prepared");
        };
        if let Some(settings) = prepared.settings {
            self.apply(settings);
        }
        self.share = prepared.share;
        self.permits.commit(Rc::clone(&self.settings), prepared.share);
        self.epoch = epoch;
        self.say_most();
        self.told_excess = true;
        self.may_be_above = true;
        self.shrink();
        let excess = self.permits.excess();
        self.told_excess = !excess.is_empty();
        self.say(&ToSupervisor::Held { epoch, excess }, None);
        if !std::mem::replace(&mut self.ready, true) {
            self.raise_oom_score();
            self.say(&ToSupervisor::Ready, None);
        }
    }

    fn grant(&mut self, epoch: u64, minus: Vec<(LimitKey, u32)>) {
        if epoch != self.epoch {
            return;
        }
        self.permits.grant(minus);
        self.say_most();
        if self.drain.is_none() && self.share.is_some() && !self.listeners.is_empty() {
            // Only now can it admit those whom peers hand over.
            self.ledger.row(self.welcome.worker).set_accepting(Accepting::Yes);
        }
        self.may_be_above = true;
        self.shrink();
        self.tell_excess();
        self.feed_the_hungry();
    }

    /// Peers hand nothing to a worker that has all the clients it may have.
    fn say_most(&self) {
        let part = self.permits.part(&LimitKey::Clients).unwrap_or(u32::MAX);
        self.ledger.row(self.welcome.worker).set_most(part);
    }

    /// Says again what is held above the part, while that has been said before.
    pub(crate) fn tell_excess(&mut self) {
        if !self.told_excess {
            return;
        }
        let excess = self.permits.excess();
        self.told_excess = !excess.is_empty();
        self.say(&ToSupervisor::Held { epoch: self.epoch, excess }, None);
    }

    /// New settings are in force: pools follow their databases, servers that no longer fit are closed
    /// when they are given back.
    fn apply(&mut self, settings: Rc<Settings>) {
        let is_first = !self.ready;
        log_line::worker(match settings.global.verbose {
            0 => LevelFilter::Info,
            1 => LevelFilter::Debug,
            2.. => LevelFilter::Trace,
        });
        let old = std::mem::replace(&mut self.settings, settings);
        if is_first {
            self.tracked = Rc::new(Tracked::new(&self.settings.global.track_extra_parameters));
            return self.make_standing_pools();
        }
        let userlist = &self.settings.userlist;
        self.verifiers.retain(|user, (password, _)| userlist.get(user) == Some(password));
        self.keyring_follows(&old);
        for id in self.pools.ids() {
            self.apply_to_pool(id, &old);
        }
        self.make_standing_pools();
    }

    /// `min_pool_size` of a database with a forced user needs no client.
    fn make_standing_pools(&mut self) {
        let settings = Rc::clone(&self.settings);
        for (name, database) in &settings.databases {
            if let Some(user) = &database.user
                && settings.min_pool_size(database) > 0
            {
                self.find_pool(name, database.clone(), user);
            }
        }
    }

    fn apply_to_pool(&mut self, id: PoolId, old: &Settings) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        let Some(database) = self.settings.database(&pool.name) else {
            return self.remove_database(id);
        };
        let same_place = pool.database.is_same_place(&database);
        let same_secret = old.userlist.get(&pool.user) == self.settings.userlist.get(&pool.user);
        pool.mode = self.settings.pool_mode(&database, &pool.user);
        pool.database = Rc::new(database);
        if !same_place || !same_secret {
            pool.backoff.succeed();
        }
        if !same_place {
            pool.welcome = None;
            pool.hosts = Hosts::default();
            self.close_servers_of(id, "database configuration changed");
        }
    }

    /// Marks the servers of a pool to be closed; those that nobody uses are closed at once.
    pub(crate) fn close_servers_of(&mut self, pool: PoolId, reason: &str) {
        let ids: Vec<_> = self
            .servers
            .iter()
            .filter(|(_, server)| server.pool == pool)
            .map(|(_, server)| server.id)
            .collect();
        for id in ids {
            if let Some(server) = self.server(id) {
                server.close_needed = true;
                if server.is_idle() {
                    self.retire(id, reason);
                }
            }
        }
    }

    fn remove_database(&mut self, pool: PoolId) {
        let clients: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| client.pool == Some(pool))
            .map(|(_, client)| client.id)
            .collect();
        for id in clients {
            self.refuse(id, &super::client::refusal::Refusal::DatabaseRemoved);
        }
        self.close_servers_of(pool, "database removed");
    }

    /// The kernel should rather end a worker than the supervisor.
    fn raise_oom_score(&self) {
        if let Err(error) = fs::write("/proc/self/oom_score_adj", "500") {
            debug!("cannot raise oom_score_adj: {error}");
        }
    }
}
