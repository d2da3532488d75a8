//! All that one worker has, in one place that only its event loop touches.
//!
//! Its methods are spread over the files named after what they do; here are the tables, the
//! look-ups and the run queue. There are no locks: one thread, one loop.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

use pgfleet_config::Settings;
use pgfleet_config::share::Share;
use pgfleet_wire::key::CancelKey;
use pgfleet_wire::scram::Verifier;
use slab::Slab;
use tokio::sync::{Semaphore, mpsc};

use super::client::Client;
use super::completion::Completion;
use super::dns::names::Names;
use super::dns::zones::Zones;
use super::ids::{ClientId, PoolId, ServerId};
use super::io::{Event, Io};
use super::listener::Listener;
use super::peers::Peer;
use super::pool::Pool;
use super::pool::keyring::Keyring;
use super::pool::permits::Permits;
use super::pool::table::Pools;
use super::server::Server;
use super::stats::{Stats, Totals};
use super::vars::{Interner, Tracked};
use crate::ledger::Ledger;
use crate::link::channel::Sender;
use crate::link::message::{Drain, ToSupervisor, Welcome, WorkerId};
use crate::link::switches::Switches;

/// Bytes read from a socket at once.
pub(crate) const SCRATCH: usize = 64 * 1024;

/// Cancel requests to Postgres under way at once.
const CANCELS: usize = 64;

/// What is prepared and waits for its commit.
pub(crate) struct Prepared {
    pub(crate) epoch: u64,
    pub(crate) settings: Option<Rc<Settings>>,
    pub(crate) share: Option<Share>,
}

/// Counts of what a worker has done.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) handed_out: i64,
    pub(crate) handed_in: i64,
    pub(crate) cancels: i64,
    pub(crate) panics: i64,
}

pub(crate) struct Worker {
    pub(crate) welcome: Welcome,
    pub(crate) link: Sender,
    pub(crate) ledger: Ledger,
    pub(crate) io: Io,
    pub(crate) now: Instant,
    pub(crate) settings: Rc<Settings>,
    pub(crate) tracked: Rc<Tracked>,
    pub(crate) prepared: Option<Prepared>,
    /// The committed epoch, while its excess has still to be told.
    pub(crate) epoch: u64,
    pub(crate) told_excess: bool,
    pub(crate) share: Option<Share>,
    pub(crate) ready: bool,
    pub(crate) drain: Option<(Drain, Instant)>,
    pub(crate) switches: Switches,
    /// No socket is read, since then.
    pub(crate) suspended: Option<Instant>,
    pub(crate) orphaned: bool,
    pub(crate) quit: bool,
    pub(crate) clients: Slab<Client>,
    pub(crate) servers: Slab<Server>,
    pub(crate) pools: Pools,
    /// Pools with someone in line.
    pub(crate) hungry: HashSet<PoolId>,
    pub(crate) serial: u32,
    pub(crate) permits: Permits,
    /// A part may have become smaller than what is held.
    pub(crate) may_be_above: bool,
    pub(crate) keys: HashMap<CancelKey, ClientId>,
    pub(crate) listeners: BTreeMap<u32, Listener>,
    /// Accepting pauses until then: no descriptors are left.
    pub(crate) accept_again: Option<Instant>,
    pub(crate) peers: HashMap<WorkerId, Peer>,
    pub(crate) peer_tokens: Slab<WorkerId>,
    pub(crate) hands: HashMap<u64, super::peers::Hand>,
    pub(crate) asked: HashMap<u64, ClientId>,
    pub(crate) next_number: u64,
    pub(crate) vars: Interner,
    pub(crate) stats: Stats,
    pub(crate) tally: Tally,
    pub(crate) panics: VecDeque<Instant>,
    /// SCRAM verifiers derived from plain passwords, with the password that they are of.
    pub(crate) verifiers: HashMap<String, (String, Verifier)>,
    pub(crate) names: Names,
    pub(crate) zones: Zones,
    /// What is known of users for the logins to Postgres.
    pub(crate) keyring: Keyring,
    pub(crate) completions: mpsc::UnboundedSender<Completion>,
    pub(crate) cancel_budget: Rc<Semaphore>,
    /// Clients whose input can go on: they were given a server, or what they waited for came.
    pub(crate) resumed: VecDeque<ClientId>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) assembly: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// Buffers that were given back, for clients that have to wait.
    pub(crate) spares: Vec<Vec<u8>>,
    /// Some socket may have more to read than was read, or has become of interest again: the kernel
    /// does not tell of it once more while it stands in its list from the last look.
    pub(crate) leftover: bool,
}

impl Worker {
    pub(crate) fn new(
        welcome: Welcome,
        link: Sender,
        ledger: Ledger,
        io: Io,
        completions: mpsc::UnboundedSender<Completion>,
    ) -> Self {
        let settings = Rc::new(Settings::default());
        Self {
            welcome,
            link,
            ledger,
            io,
            now: Instant::now(),
            tracked: Rc::new(Tracked::new(&settings.global.track_extra_parameters)),
            settings,
            prepared: None,
            epoch: 0,
            told_excess: false,
            share: None,
            ready: false,
            drain: None,
            switches: Switches::default(),
            suspended: None,
            orphaned: false,
            quit: false,
            clients: Slab::new(),
            servers: Slab::new(),
            pools: Pools::default(),
            hungry: HashSet::new(),
            serial: 0,
            permits: Permits::default(),
            may_be_above: false,
            keys: HashMap::new(),
            listeners: BTreeMap::new(),
            accept_again: None,
            peers: HashMap::new(),
            peer_tokens: Slab::new(),
            hands: HashMap::new(),
            asked: HashMap::new(),
            next_number: 0,
            vars: Interner::default(),
            stats: Stats::default(),
            tally: Tally::default(),
            panics: VecDeque::new(),
            verifiers: HashMap::new(),
            names: Names::default(),
            zones: Zones::default(),
            keyring: Keyring::default(),
            completions,
            cancel_budget: Rc::new(Semaphore::new(CANCELS)),
            resumed: VecDeque::new(),
            scratch: vec![0; SCRATCH],
            assembly: Vec::new(),
            events: Vec::new(),
            spares: Vec::new(),
            leftover: false,
        }
    }

    pub(crate) fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.index as usize).filter(|client| client.id == id)
    }

    pub(crate) fn server(&mut self, id: ServerId) -> Option<&mut Server> {
        self.servers.get_mut(id.index as usize).filter(|server| server.id == id)
    }

    pub(crate) fn pool(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.pools.get_mut(id)
    }

    /// The pool of a client that has one.
    pub(crate) fn pool_of_client(&mut self, id: ClientId) -> Option<PoolId> {
        self.client(id)?.pool
    }

    pub(crate) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The statistics of a client's database.
    pub(crate) fn totals_of(&mut self, id: ClientId) -> Option<&mut Totals> {
        let pool = self.client(id)?.pool?;
        let row = self.pools.get(pool)?.stats;
        self.stats.at(row)
    }

    /// Tells the supervisor.
    pub(crate) fn say(&self, message: &ToSupervisor, descriptor: Option<OwnedFd>) {
        self.link.send(message, descriptor.into_iter().collect());
    }

    /// Asks the kernel for other events of a client, if that is a change.
    pub(crate) fn client_interest(
        &mut self,
        id: ClientId,
        read: Option<bool>,
        write: Option<bool>,
    ) {
        let Some(client) = self.clients.get_mut(id.index as usize).filter(|client| client.id == id)
        else {
            return;
        };
        let mut wanted = client.interest;
        wanted.read = read.unwrap_or(wanted.read);
        wanted.write = write.unwrap_or(wanted.write);
        if wanted != client.interest {
            client.interest = wanted;
            self.io.change(std::os::fd::AsFd::as_fd(&client.fd), client.token(), wanted);
            self.leftover = true;
        }
    }

    /// Asks the kernel for other events of a server, if that is a change.
    pub(crate) fn server_interest(
        &mut self,
        id: ServerId,
        read: Option<bool>,
        write: Option<bool>,
    ) {
        let Some(server) = self.servers.get_mut(id.index as usize).filter(|server| server.id == id)
        else {
            return;
        };
        let mut wanted = server.interest;
        wanted.read = read.unwrap_or(wanted.read);
        wanted.write = write.unwrap_or(wanted.write);
        if server.unwatched && wanted.read {
            server.unwatched = false;
            server.interest = wanted;
            // A descriptor that cannot be watched any more is noticed by the sweep's timeouts.
            let _unwatchable =
                self.io.add(std::os::fd::AsFd::as_fd(&server.fd), server.token(), wanted);
        } else if wanted != server.interest {
            server.interest = wanted;
            self.io.change(std::os::fd::AsFd::as_fd(&server.fd), server.token(), wanted);
            self.leftover = true;
        }
    }

    /// Takes a server out of the epoll set until it is to be read again.
    pub(crate) fn unwatch(&mut self, id: ServerId) {
        let Some(server) = self.servers.get_mut(id.index as usize).filter(|server| server.id == id)
        else {
            return;
        };
        self.io.remove(std::os::fd::AsFd::as_fd(&server.fd));
        server.unwatched = true;
        server.interest.read = false;
    }

    /// The worker has nothing left to stay for.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.servers.is_empty() && self.hands.is_empty()
    }
}
