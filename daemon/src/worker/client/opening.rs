//! The first packets of a connection: encryption requests, a cancel request, the startup packet.
//!
//! It reads no more than a startup packet may have, and refuses bytes that were sent behind an
//! encryption request before its answer. What comes after the startup packet is `login`'s.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

use log::{debug, info};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{SockaddrStorage, getpeername, getsockname, getsockopt};
use pgfleet_wire::back;
use pgfleet_wire::startup::{First, MAX_STARTUP, Protocol, Startup, first};

use super::refusal::Refusal;
use super::{Client, Identity, Origin, Stage, statements::Statements};
use crate::link::message::{LimitKey, ListenerKind};
use crate::link::switches::Doors;
use crate::worker::ids::ClientId;
use crate::worker::io::{self, Interest, Moved};
use crate::worker::outbox::Outbox;
use crate::worker::peers::Counted;
use crate::worker::pool::permits::Permit;
use crate::worker::state::Worker;

impl Worker {
    /// Serves an accepted socket.
    pub(crate) fn adopt(&mut self, fd: OwnedFd, kind: ListenerKind, counted: Counted) {
        if counted == Counted::Not {
            self.ledger.row(self.welcome.worker).add_client();
        }
        if kind == ListenerKind::Tcp {
            super::super::socket::tune(&fd, &self.settings.global);
        }
        let serial = self.next_serial();
        let entry = self.clients.vacant_entry();
        let id = ClientId { index: u32::try_from(entry.key()).unwrap_or(u32::MAX), serial };
        let client = Client {
            id,
            origin: Box::new(origin(&fd, kind)),
            fd,
            stage: Stage::Opening,
            interest: Interest::READ,
            input: Vec::new(),
            outbox: Outbox::default(),
            body_left: 0,
            dropping: false,
            stalled: false,
            pool: None,
            lease: None,
            waiting_since: None,
            told_to_wait: false,
            vars: None,
            own: crate::worker::vars::Own::default(),
            protocol: Protocol::default(),
            replication: None,
            key: None,
            statements: Statements::default(),
            identity: None,
            admitted: false,
            connected: self.now,
            active: self.now,
            idle_since: self.now,
            query_count: 0,
            query_started: None,
            xact_started: None,
            answered: None,
        };
        let added = self.io.add(client.fd.as_fd(), client.token(), Interest::READ);
        entry.insert(client);
        self.admit(id);
        if added.is_err() {
            self.drop_client(id, "cannot be watched");
        }
    }

    /// Takes the permit of a client. It is tried at its accept, so that a worker which is about to
    /// leave still serves whom it has accepted, and again when its startup packet is there.
    fn admit(&mut self, id: ClientId) {
        if self.client(id).is_none_or(|client| client.admitted) {
            return;
        }
        let mut admitted = self.permits.take(&[LimitKey::Clients]) == Permit::Granted;
        if !admitted && self.is_leaving() {
            self.permits.take_anyway(&[LimitKey::Clients]);
            admitted = true;
        }
        if let Some(client) = self.client(id) {
            client.admitted = admitted;
        }
    }

    /// Returns the permit: the client is gone, or is of those who are not counted.
    pub(crate) fn dismiss(&mut self, id: ClientId) {
        if let Some(client) = self.client(id)
            && std::mem::replace(&mut client.admitted, false)
        {
            self.permits.give_back(&[LimitKey::Clients]);
        }
    }

    /// Bytes of a client that has not sent its startup packet.
    pub(crate) fn opening(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        let mut chunk = [0; 1024];
        match io::read(&client.fd, &mut chunk) {
            Moved::Bytes(count) => {
                client.input.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.leftover |= count == chunk.len();
            }
            Moved::Later => return,
            Moved::End | Moved::Broken(_) => {
                // A port probe: nobody wants a line for each of them.
                self.drop_client(id, "closed before login");
                return;
            }
        }
        self.opened(id);
    }

    fn opened(&mut self, id: ClientId) {
        loop {
            let Some(client) = self.client(id) else { return };
            if !matches!(client.stage, Stage::Opening) {
                return;
            }
            match first(&client.input) {
                Ok(None) if client.input.len() > MAX_STARTUP => {
                    return self
                        .refuse(id, &Refusal::BadStartup("startup packet too large".into()));
                }
                Ok(None) => return,
                Ok(Some((First::Ssl | First::Gss, taken))) => {
                    if client.input.len() > taken {
                        // Nothing read in plaintext may survive into an encrypted session.
                        let why = "received unencrypted data after an encryption request";
                        return self.refuse(id, &Refusal::BadStartup(why.into()));
                    }
                    client.input.clear();
                    self.reply(id, b"N");
                }
                Ok(Some((First::Cancel(key), _))) => {
                    client.input = Vec::new();
                    return self.cancel_requested(id, key);
                }
                Ok(Some((First::Startup(startup), taken))) => {
                    client.input.drain(..taken);
                    return self.started(id, startup);
                }
                Err(error) => return self.refuse(id, &Refusal::BadStartup(error.to_string())),
            }
        }
    }

    fn started(&mut self, id: ClientId, startup: Startup) {
        let database = startup.database.clone().unwrap_or_else(|| startup.user.clone());
        let console = is_console(&database);
        if console {
            self.dismiss(id);
        } else {
            self.admit(id);
        }
        let identity = Identity { user: startup.user.clone(), database, seated: false };
        let Some(client) = self.client(id) else { return };
        client.identity = Some(Rc::new(identity));
        client.protocol = startup.spoken();
        if !console && !client.admitted {
            return self.refuse(id, &Refusal::TooManyClients);
        }
        if !console && self.switches.doors == Doors::Closing {
            return self.refuse(id, &Refusal::ShuttingDown);
        }
        if self.settings.global.log_connections
            && let Some(client) = self.client(id)
        {
            info!("{client} login attempt");
        }
        debug!("startup packet with {} parameters", startup.params.len());
        if startup.negotiates() {
            let mut out = Vec::new();
            back::negotiate(&mut out, startup.spoken(), &startup.unknown_options);
            self.reply(id, &out);
        }
        self.login(id, startup);
    }
}

/// The databases that are the console.
pub(crate) fn is_console(database: &str) -> bool {
    database == "pgbouncer" || database == "pgfleet"
}

fn origin(fd: &OwnedFd, kind: ListenerKind) -> Origin {
    match kind {
        ListenerKind::Unix => {
            let uid = getsockopt(fd, PeerCredentials).ok().map(|peer| peer.uid());
            Origin::Unix { uid }
        }
        ListenerKind::Tcp => {
            let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
            let peer = getpeername::<SockaddrStorage>(fd.as_raw_fd()).ok();
            let local = getsockname::<SockaddrStorage>(fd.as_raw_fd()).ok();
            Origin::Tcp {
                peer: peer.as_ref().and_then(socket_addr).unwrap_or(nowhere),
                local: local.as_ref().and_then(socket_addr).unwrap_or(nowhere),
            }
        }
    }
}

fn socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port())))
}
