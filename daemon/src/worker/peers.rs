//! The other workers: fresh sockets go to the one with the fewest clients, cancel requests to the
//! owner of their key.
//!
//! A handed socket is kept here until the peer says that it has it; if the peer goes away before,
//! it is served here. The bus is asked without waiting: if it is full, the worker serves itself.

use std::os::fd::{AsFd, OwnedFd};

use log::debug;
use pgfleet_wire::key::CancelKey;

use super::client::Origin;
use super::completion::Requester;
use super::ids::ClientId;
use super::io::{Interest, Kind, Token};
use super::state::Worker;
use crate::link::bus::Bus;
use crate::link::channel::{bus_recv, bus_send};
use crate::link::message::{ListenerKind, WorkerId};

/// Messages read from one peer in a row.
const IN_A_ROW: usize = 64;

/// A peer and this worker's end of the pair.
pub(crate) struct Peer {
    pub(crate) fd: OwnedFd,
    index: usize,
}

/// A socket on its way to a peer.
pub(crate) struct Hand {
    to: WorkerId,
    fd: OwnedFd,
    kind: ListenerKind,
}

impl Worker {
    pub(crate) fn add_peer(&mut self, worker: WorkerId, fd: OwnedFd) {
        self.remove_peer(worker);
        let index = self.peer_tokens.insert(worker);
        let token =
            Token { kind: Kind::Bus, index: u32::try_from(index).unwrap_or(u32::MAX), serial: 0 };
        if let Err(error) = self.io.add(fd.as_fd(), token, Interest::READ) {
            debug!("cannot watch the bus to worker {worker}: {error}");
        }
        self.peers.insert(worker, Peer { fd, index });
    }

    /// A peer is gone: what it had not taken is served here, what it was asked is answered.
    pub(crate) fn remove_peer(&mut self, worker: WorkerId) {
        let Some(peer) = self.peers.remove(&worker) else { return };
        self.io.remove(peer.fd.as_fd());
        self.peer_tokens.try_remove(peer.index);
        let lost: Vec<u64> =
            self.hands.iter().filter(|(_, hand)| hand.to == worker).map(|(&id, _)| id).collect();
        for id in lost {
            if let Some(hand) = self.hands.remove(&id) {
                self.adopt(hand.fd, hand.kind, Counted::Not);
            }
        }
        self.cancels_of_peer_are_over(worker);
    }

    /// Serves an accepted socket here, or hands it to the peer with the fewest clients.
    pub(crate) fn deal(&mut self, fd: OwnedFd, kind: ListenerKind) {
        let row = self.ledger.row(self.welcome.worker);
        let (mine, full) = (row.clients(), row.is_full());
        if (mine > 0 || full)
            && let Some((peer, load)) = self.ledger.least_loaded(self.peers.keys().copied())
            && (load < mine || full)
            && self.hand(peer, &fd, kind)
        {
            let id = self.next_number;
            self.hands.insert(id, Hand { to: peer, fd, kind });
            self.tally.handed_out += 1;
            return;
        }
        self.adopt(fd, kind, Counted::Not);
    }

    /// Hands a client on of which nothing has been read, if there is a peer that takes it.
    pub(crate) fn hand_on(&mut self, id: ClientId) {
        let Some((peer, _)) = self.ledger.least_loaded(self.peers.keys().copied()) else { return };
        let Some(client) = self.client(id) else { return };
        let Ok(fd) = client.fd.try_clone() else { return };
        let kind = match *client.origin {
            Origin::Tcp { .. } => ListenerKind::Tcp,
            Origin::Unix { .. } => ListenerKind::Unix,
        };
        if self.hand(peer, &fd, kind) {
            let number = self.next_number;
            self.hands.insert(number, Hand { to: peer, fd, kind });
            self.tally.handed_out += 1;
            self.remove_client(id);
        }
    }

    fn hand(&mut self, peer: WorkerId, fd: &OwnedFd, kind: ListenerKind) -> bool {
        let id = self.next_number();
        let Some(bus) = self.peers.get(&peer) else { return false };
        // Counted before it is sent: the receiver may be done with it before we look again.
        self.ledger.row(peer).add_client();
        let sent = bus_send(bus.fd.as_fd(), &Bus::Hand { id, kind }, Some(fd.as_fd()));
        if sent.is_err() {
            self.ledger.row(peer).drop_client();
        }
        sent.is_ok()
    }

    /// A peer has said something.
    pub(crate) fn on_bus(&mut self, index: u32) {
        for _ in 0..IN_A_ROW {
            let Some(&worker) = self.peer_tokens.get(index as usize) else { return };
            let Some(peer) = self.peers.get(&worker) else { return };
            match bus_recv(peer.fd.as_fd()) {
                Ok(Some((message, fd))) => self.on_bus_message(worker, message, fd),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => {
                    self.remove_peer(worker);
                    return;
                }
            }
        }
        self.leftover = true;
    }

    fn on_bus_message(&mut self, from: WorkerId, message: Bus, fd: Option<OwnedFd>) {
        match message {
            Bus::Hand { id, kind } => {
                let Some(fd) = fd else {
                    self.ledger.row(self.welcome.worker).drop_client();
                    self.bus_say(from, &Bus::Refused { id });
                    return;
                };
                self.bus_say(from, &Bus::Taken { id });
                self.tally.handed_in += 1;
                self.adopt(fd, kind, Counted::Already);
            }
            Bus::Taken { id } => {
                // The peer's copy lives on; ours was never read from.
                drop(self.hands.remove(&id));
            }
            Bus::Refused { id } => {
                if let Some(hand) = self.hands.remove(&id) {
                    self.adopt(hand.fd, hand.kind, Counted::Not);
                }
            }
            Bus::Cancel { id, key } => {
                let requester = Requester::Peer { worker: from, request: id };
                match CancelKey::read(&key) {
                    Some(key) => self.cancel_here(key, requester),
                    None => self.requester_is_done(requester),
                }
            }
            Bus::CancelDone { id } => {
                if let Some(client) = self.asked.remove(&id) {
                    self.cancel_answered(client);
                }
            }
        }
    }

    /// Sends without a descriptor; a peer that cannot be told is about to be gone.
    pub(crate) fn bus_say(&self, to: WorkerId, message: &Bus) -> bool {
        self.peers.get(&to).is_some_and(|peer| bus_send(peer.fd.as_fd(), message, None).is_ok())
    }

    /// The live worker that made this key, if it is a peer.
    pub(crate) fn owner_of(&self, key: &CancelKey) -> Option<WorkerId> {
        self.peers.keys().copied().find(|peer| {
            peer.slot == key.slot() && peer.generation.to_le_bytes()[0] == key.generation()
        })
    }

    fn cancels_of_peer_are_over(&mut self, worker: WorkerId) {
        let over: Vec<ClientId> = self
            .asked
            .values()
            .copied()
            .filter(|id| {
                self.clients.get(id.index as usize).and_then(|client| client.key).is_some_and(
                    |key| {
                        key.slot() == worker.slot
                            && key.generation() == worker.generation.to_le_bytes()[0]
                    },
                )
            })
            .collect();
        self.asked.retain(|_, client| !over.contains(client));
        for client in over {
            self.cancel_answered(client);
        }
    }
}

/// Whether the ledger counts a socket for this worker already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Already,
    Not,
}
