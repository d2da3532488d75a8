//! This worker's rows for the console's questions.
//!
//! Each function makes the rows of one table, with a value for each column of its spec. They are read
//! from the tables of the worker as they are now; nothing is changed.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use log::debug;
use pgfleet_wire::startup::Replication;

use super::client::{Client, Origin, Stage};
use super::ids::PoolId;
use super::pool::Pool;
use super::server::address::Address;
use super::server::{Phase, Server};
use super::state::Worker;
use crate::link::table::{Question, Row, Value};

pub(super) fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

pub(super) fn count(value: usize) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Seconds and the microseconds beyond them.
fn split(time: Duration) -> (Value, Value) {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    (Value::Int(seconds), Value::Int(i64::from(time.subsec_micros())))
}

impl Worker {
    /// The rows of a question.
    pub(crate) fn table(&self, question: Question) -> Vec<Row> {
        let rows = match question {
            Question::Pools => self.pools_table(),
            Question::Clients => {
                self.clients.iter().filter_map(|(_, it)| self.client_row(it)).collect()
            }
            Question::Servers => self.servers.iter().map(|(_, it)| self.server_row(it)).collect(),
            Question::Stats => self.stats.table(),
            Question::Databases => self.count_by(|pool| &pool.name, |client| client.database()),
            Question::Users => self.count_by(|pool| &pool.user, |client| client.user()),
            Question::Lists => self.lists_table(),
            Question::Mem => self.mem_table(),
            Question::DnsHosts => self.dns_hosts_table(),
            Question::DnsZones => self.dns_zones_table(),
            Question::Workers => self.workers_table(),
            Question::Sockets => self.sockets_table(),
            Question::ActiveSockets => self.active_sockets_table(),
            Question::Fds => self.fds_table(),
            Question::Busy => self.busy_table(),
            // It comes with an order.
            Question::Done => Vec::new(),
        };
        debug!("{question:?}: {} rows", rows.len());
        rows
    }

    fn pools_table(&self) -> Vec<Row> {
        let mut counts: HashMap<PoolId, [usize; 11]> = HashMap::new();
        for (_, server) in &self.servers {
            let row = counts.entry(server.pool).or_default();
            row[5] += server.cancels as usize;
            let at = match server.phase {
                Phase::Leased | Phase::Preparing | Phase::Lookup(_) => 4,
                Phase::Held => 6,
                Phase::Idle => 7,
                Phase::Resetting | Phase::Setup => 9,
                Phase::Connecting | Phase::Login(_) => 10,
                Phase::Retiring => 0,
            };
            if at > 0 {
                row[at] += 1;
            } else {
                row[8] += 1;
            }
        }
        self.pools
            .iter()
            .filter(|pool| pool.clients > 0 || pool.servers > 0)
            .map(|pool| self.pool_row(pool, counts.get(&pool.id).unwrap_or(&[0; 11])))
            .collect()
    }

    fn pool_row(&self, pool: &Pool, servers: &[usize; 11]) -> Row {
        let waiting = pool.queued().count();
        let pinned = self.clients.iter().filter(|(_, client)| {
            client.pool == Some(pool.id) && client.lease.is_some() && client.statements.pin()
        });
        let longest = pool.queued().filter_map(|waiting| {
            self.clients.get(waiting.index as usize)?.waiting_since.map(|since| since.elapsed())
        });
        let (maxwait, maxwait_us) = split(longest.max().unwrap_or_default());
        vec![
            text(&pool.name),
            text(&pool.user),
            count(pool.clients.saturating_sub(waiting)),
            count(waiting),
            // Who asked for a cancel is known to no pool; for each one there is one on its way.
            count(servers[5]),
            Value::Int(0),
            count(servers[4]),
            count(servers[5]),
            count(servers[6]),
            count(servers[7]),
            Value::Int(0),
            count(servers[9]),
            count(servers[10]),
            maxwait,
            maxwait_us,
            text(pool.mode.to_string()),
            text(pool.database.load_balance_hosts.to_string()),
            count(servers[8]),
            count(pinned.count()),
        ]
    }

    pub(super) fn client_row(&self, client: &Client) -> Option<Row> {
        let identity = client.identity.as_ref()?;
        let state = match client.stage {
            Stage::Session if client.waiting_since.is_some() => "waiting",
            Stage::Session | Stage::Console(_) => "active",
            Stage::AwaitingWelcome => "waiting",
            Stage::Opening | Stage::Login(_) => "login",
            Stage::Canceling => "active_cancel_req",
            Stage::Closing => return None,
        };
        let (addr, port, local_addr, local_port) = origin(client);
        let waited = client.waiting_since.map(|since| since.elapsed()).unwrap_or_default();
        let (wait, wait_us) = split(waited);
        let server = client.lease.and_then(|lease| self.servers.get(lease.index as usize));
        let pid =
            server.and_then(|server| server.backend.as_ref()).map_or(0, |backend| backend.pid);
        let name = self.tracked.position("application_name").and_then(|at| client.value(at));
        Some(vec![
            text("C"),
            text(&identity.user),
            text(&identity.database),
            text(client.replication.as_ref().map_or(Replication::None, |own| own.kind).name()),
            text(state),
            addr,
            port,
            local_addr,
            local_port,
            self.stamp(client.connected),
            self.stamp(client.active),
            wait,
            wait_us,
            Value::Int(0),
            self.pointer(client.id.serial),
            server.map_or_else(|| text(""), |server| self.pointer(server.id.serial)),
            Value::Int(i64::from(pid)),
            text(""),
            text(name.unwrap_or("")),
            count(client.statements.count()),
            Value::Int(self.number(client.id.serial)),
            Value::Null,
        ])
    }

    pub(super) fn server_row(&self, server: &Server) -> Row {
        let state = match server.phase {
            Phase::Connecting | Phase::Login(_) => "login",
            Phase::Setup | Phase::Resetting => "tested",
            Phase::Idle => "idle",
            Phase::Preparing | Phase::Leased | Phase::Lookup(_) => "active",
            Phase::Held => "being_canceled",
            Phase::Retiring => "retiring",
        };
        let (addr, port) = match &*server.address {
            Address::Tcp(address) => (text(address.ip().to_string()), i64::from(address.port())),
            Address::Unix(_) | Address::Abstract(_) => (text("unix"), 0),
        };
        let pool = self.pools.get(server.pool);
        let pid = server.backend.as_ref().map_or(0, |backend| backend.pid);
        let at = self.tracked.position("application_name");
        let name = at.and_then(|at| server.vars.get(at)?.as_deref()).unwrap_or("");
        vec![
            text("S"),
            text(pool.map_or("", |pool| &pool.user)),
            text(pool.map_or("", |pool| &pool.name)),
            text(server.replication.name()),
            text(state),
            addr,
            Value::Int(port),
            text(""),
            Value::Int(0),
            self.stamp(server.opened),
            self.stamp(server.since),
            Value::Int(0),
            Value::Int(0),
            Value::Int(i64::from(server.close_needed)),
            self.pointer(server.id.serial),
            server.client.map_or_else(|| text(""), |client| self.pointer(client.serial)),
            Value::Int(i64::from(pid)),
            text(""),
            text(name),
            Value::Int(0),
            Value::Int(self.number(server.id.serial)),
            Value::Null,
        ]
    }

    /// The number of a client or server, which no other of the fleet has: the worker, and its own number.
    /// It has 53 bits, so that programs which know only floating point numbers keep it.
    pub(super) fn number(&self, serial: u32) -> i64 {
        let worker = self.welcome.worker;
        let generation = i64::from(worker.generation % (1 << 13));
        (i64::from(worker.slot) << 45) | (generation << 32) | i64::from(serial)
    }

    /// That number as PgBouncer shows its pointers.
    fn pointer(&self, serial: u32) -> Value {
        text(format!("{:#x}", self.number(serial)))
    }

    /// A time as PgBouncer prints it.
    fn stamp(&self, at: Instant) -> Value {
        use time::macros::format_description;
        let format = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
        let when = time::OffsetDateTime::now_utc() - at.elapsed();
        text(when.format(format).unwrap_or_default())
    }

    fn count_by<'a>(
        &'a self,
        of_pool: impl Fn(&'a Pool) -> &'a str,
        of_client: impl Fn(&'a Client) -> &'a str,
    ) -> Vec<Row> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for pool in self.pools.iter() {
            counts.entry(of_pool(pool)).or_default().0 += pool.servers;
        }
        for (_, client) in self.clients.iter().filter(|(_, client)| client.pool.is_some()) {
            counts.entry(of_client(client)).or_default().1 += 1;
        }
        counts
            .into_iter()
            .map(|(name, (servers, clients))| vec![text(name), count(servers), count(clients)])
            .collect()
    }

    fn lists_table(&self) -> Vec<Row> {
        let in_login = |stage: &Stage| matches!(stage, Stage::Opening | Stage::Login(_));
        let login = self.clients.iter().filter(|(_, client)| in_login(&client.stage)).count();
        let used_servers = self.servers.iter().filter(|(_, server)| !server.is_idle()).count();
        let rows = [
            ("pools", self.pools.iter().filter(|pool| pool.clients + pool.servers > 0).count()),
            ("free_clients", 0),
            ("used_clients", self.clients.len() - login),
            ("login_clients", login),
            ("free_servers", self.servers.len() - used_servers),
            ("used_servers", used_servers),
            ("dns_names", self.names.len()),
            ("dns_zones", self.zones.iter().count()),
            ("dns_queries", self.names.asked()),
            ("dns_pending", self.names.waiting()),
        ];
        rows.into_iter().map(|(name, items)| vec![text(name), count(items)]).collect()
    }

    fn mem_table(&self) -> Vec<Row> {
        let row = |name: &str, size: usize, used: usize, free: usize| {
            vec![text(name), count(size), count(used), count(free), count(size * (used + free))]
        };
        let buffered: usize = self
            .clients
            .iter()
            .map(|(_, client)| client.input.capacity() + client.outbox.capacity())
            .chain(self.servers.iter().map(|(_, it)| it.input.capacity() + it.outbox.capacity()))
            .sum();
        let spare = self.clients.capacity() - self.clients.len();
        let spare_servers = self.servers.capacity() - self.servers.len();
        vec![
            row("client_cache", size_of::<Client>(), self.clients.len(), spare),
            row("server_cache", size_of::<Server>(), self.servers.len(), spare_servers),
            row("pool_cache", size_of::<Pool>(), self.pools.len(), 0),
            row("iobuf_cache", 1, buffered, 0),
        ]
    }

    fn workers_table(&self) -> Vec<Row> {
        let waiting: usize = self.pools.iter().map(|pool| pool.queued().count()).sum();
        vec![vec![
            count(self.clients.len()),
            count(self.servers.len()),
            count(waiting),
            Value::Int(self.tally.handed_out),
            Value::Int(self.tally.handed_in),
            Value::Int(self.tally.cancels),
            Value::Int(self.tally.panics),
            Value::Int(i64::try_from(crate::log_line::dropped()).unwrap_or(i64::MAX)),
        ]]
    }
}

fn origin(client: &Client) -> (Value, Value, Value, Value) {
    match &*client.origin {
        Origin::Unix { .. } => (text("unix"), Value::Int(0), text("unix"), Value::Int(0)),
        Origin::Tcp { peer, local } => (
            text(peer.ip().to_string()),
            Value::Int(peer.port().into()),
            text(local.ip().to_string()),
            Value::Int(local.port().into()),
        ),
    }
}
