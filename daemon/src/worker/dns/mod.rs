//! Host names of servers: asked for beside the data thread, remembered, and asked for again.
//!
//! `names` and `zones` are what is known, `conf` how to ask, `query` the asking. A lookup never holds
//! the loop up: it is a task that ends in a completion. `pool::launch` asks for addresses, the sweep for
//! what has run out. The system's resolver is not used, since it blocks a thread for as long as a
//! name server is silent, and knows neither a file of its own nor serial numbers of zones.

pub(crate) mod conf;
pub(crate) mod names;
pub(crate) mod query;
mod rows;
pub(crate) mod zones;

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use log::{debug, info, warn};

use self::conf::Conf;
use self::names::{Found, Lifetimes};
use self::query::LookupError;
use super::completion::Completion;
use super::ids::PoolId;
use super::server::address::Address;
use super::state::Worker;

/// Where the system says how to ask for names.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Names that need no asking.
const HOSTS: &str = "/etc/hosts";

/// What a client is told, as by PgBouncer.
const FAILED: &str = "server DNS lookup failed";

impl Worker {
    /// Connects to a host by its name, now or when its address is known.
    pub(crate) fn connect_by_name(&mut self, pool: PoolId, name: Rc<str>, port: u16) {
        match self.names.wanted(&name, self.now) {
            Found::Unasked => {
                self.names.wait(&name, pool, port);
                self.look_up(name);
            }
            Found::Asked => self.names.wait(&name, pool, port),
            found @ (Found::At(_) | Found::Failed(_)) => self.connect_to(pool, name, port, found),
        }
    }

    fn connect_to(&mut self, pool: PoolId, name: Rc<str>, port: u16, found: Found) {
        match found {
            Found::At(ip) => {
                self.open_server(pool, name, Address::Tcp(SocketAddr::new(ip, port)));
            }
            Found::Failed(reason) => {
                let reason = format!("cannot resolve {name}: {reason}");
                self.never_opened(pool, (&name, None), FAILED, &reason);
            }
            // It was answered in this instant.
            Found::Unasked | Found::Asked => {
                let reason = format!("cannot resolve {name}");
                self.never_opened(pool, (&name, None), FAILED, &reason);
            }
        }
    }

    fn look_up(&mut self, name: Rc<str>) {
        let (completions, file) = (self.completions.clone(), self.resolv_conf());
        let patience = self.settings.global.server_connect_timeout;
        debug!("looking up {name}");
        // Detached: bounded by `server_connect_timeout`, and the completion is told of either end.
        drop(tokio::task::spawn_local(async move {
            let result = find(file, &name, patience).await;
            drop(completions.send(Completion::Resolved { name: name.as_ref().into(), result }));
        }));
    }

    fn resolv_conf(&self) -> PathBuf {
        let own = self.settings.global.resolv_conf.clone();
        own.unwrap_or_else(|| PathBuf::from(RESOLV_CONF))
    }

    /// A name was looked up: those who waited go on, servers at addresses that are gone are to be closed.
    pub(crate) fn resolved(&mut self, name: &str, result: Result<Vec<IpAddr>, LookupError>) {
        match &result {
            Ok(addresses) => debug!("{name} is at {addresses:?}"),
            Err(error) => warn!("cannot resolve {name}: {error}"),
        }
        let global = &self.settings.global;
        let lifetimes = Lifetimes { found: global.dns_max_ttl, failed: global.dns_nxdomain_ttl };
        let change = self.names.answered(name, result, lifetimes, self.now);
        for (pool, port) in change.waiting {
            let still_wanted = self.pools.get(pool).is_some_and(|pool| {
                !pool.paused
                    && pool.database.port == port
                    && pool.database.hosts.iter().any(|host| host == name)
            });
            if still_wanted {
                let found = self.names.pick(name, self.now);
                self.connect_to(pool, name.into(), port, found);
            } else {
                // The database has moved meanwhile.
                self.give_up_opening(pool);
                self.hungry.insert(pool);
                self.launch(pool);
            }
        }
        if !change.gone.is_empty() {
            self.leave_addresses(name, &change.gone);
        }
    }

    fn leave_addresses(&mut self, name: &str, gone: &[IpAddr]) {
        info!("{name} is no longer at {gone:?}; its servers there are closed when they are free");
        let is_there =
            |address: &Address| matches!(address, Address::Tcp(at) if gone.contains(&at.ip()));
        let ids: Vec<_> = self
            .servers
            .iter()
            .filter(|(_, server)| &*server.host == name && is_there(&server.address))
            .map(|(_, server)| server.id)
            .collect();
        for id in ids {
            if let Some(server) = self.server(id) {
                server.close_needed = true;
                if server.is_idle() {
                    self.retire(id, "server DNS name changed");
                }
            }
        }
    }

    /// Called by the sweep: names and zones in use whose time is over are asked for again.
    pub(crate) fn refresh_names(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let used: HashSet<&str> = self.servers.iter().map(|(_, server)| &*server.host).collect();
        let due = self.names.due(|name| used.contains(name), self.now);
        let period = self.settings.global.dns_zone_check_period;
        let names = self.names.iter(self.now).map(|(name, ..)| name);
        let zones = self.zones.due(names, period, self.now);
        for name in due {
            self.look_up(name);
        }
        for zone in zones {
            self.look_at(zone);
        }
    }

    fn look_at(&mut self, zone: String) {
        let (completions, file) = (self.completions.clone(), self.resolv_conf());
        // Detached, as a lookup is.
        drop(tokio::task::spawn_local(async move {
            let (conf, _) = read(file, String::new()).await;
            match query::serial(&conf, &zone).await {
                Ok(serial) => drop(completions.send(Completion::Serial { zone, serial })),
                Err(error) => debug!("zone {zone} has no serial number: {error}"),
            }
        }));
    }

    /// The serial number of a zone.
    pub(crate) fn zone_serial(&mut self, zone: &str, serial: u32) {
        if self.zones.heard(zone, serial) {
            info!("zone {zone} has changed, its names are looked up again");
            self.names.expire_zone(zone, self.now);
            self.refresh_names();
        }
    }
}

/// The addresses of a name, from the hosts file or the name servers.
///
/// It takes no longer than `patience`, unless that is 0: then the resolver's timeouts bound it.
async fn find(file: PathBuf, name: &str, patience: Duration) -> Result<Vec<IpAddr>, LookupError> {
    let (conf, known) = read(file, name.to_owned()).await;
    if !known.is_empty() {
        return Ok(known);
    }
    let longest = query::longest(&conf, name);
    let bound = if patience.is_zero() { longest } else { longest.min(patience) };
    match tokio::time::timeout(bound, query::addresses(&conf, name)).await {
        Ok(result) => result,
        Err(_) => Err(LookupError::Failed("timeout".to_owned())),
    }
}

/// How to ask, and what the hosts file has for the name. Read anew each time, since both files change;
/// on another thread, since they may be long.
async fn read(file: PathBuf, name: String) -> (Conf, Vec<IpAddr>) {
    let reading = tokio::task::spawn_blocking(move || {
        let text = |file: PathBuf| fs::read_to_string(file).unwrap_or_default();
        (Conf::parse(&text(file)), conf::hosts(&text(PathBuf::from(HOSTS)), &name))
    });
    reading.await.unwrap_or_else(|_| (Conf::parse(""), Vec::new()))
}
