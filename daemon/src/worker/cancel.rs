//! Cancel requests: from any connection to the one server that runs the query.
//!
//! A request is for the query that its client runs now, and for no other: the server is held until
//! the request has been delivered, and the key is not sent if the query has ended. A wrong or
//! stale key does nothing and is answered like a right one, by closing the connection.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use log::debug;
use pgfleet_wire::key::CancelKey;
use pgfleet_wire::startup::cancel_request;

use super::client::Stage;
use super::completion::{CancelOutcome, Completion, Requester};
use super::ids::{ClientId, ServerId};
use super::io::{Moved, read, write};
use super::server::address::Address;
use super::server::connect::dial;
use super::server::{Backend, Phase};
use super::state::Worker;
use crate::link::bus::Bus;
use crate::link::descriptor::watch;

/// The wait when `cancel_wait_timeout` is 0.
const LONGEST: Duration = Duration::from_secs(60);

impl Worker {
    /// A connection has sent a cancel request.
    pub(crate) fn cancel_requested(&mut self, id: ClientId, key: Option<CancelKey>) {
        self.tally.cancels += 1;
        self.dismiss(id);
        if let Some(client) = self.client(id) {
            client.stage = Stage::Canceling;
            client.key = key;
        }
        // A key of another length is as wrong as any other wrong key.
        let Some(key) = key else { return self.cancel_answered(id) };
        if self.keys.contains_key(&key) {
            return self.cancel_here(key, Requester::Client(id));
        }
        let Some(owner) = self.owner_of(&key) else {
            return self.cancel_answered(id);
        };
        let number = self.next_number();
        self.asked.insert(number, id);
        if !self.bus_say(owner, &Bus::Cancel { id: number, key: key.bytes() }) {
            self.asked.remove(&number);
            self.cancel_answered(id);
        }
    }

    /// Ends the query of the client that has this key, if it runs one.
    pub(crate) fn cancel_here(&mut self, key: CancelKey, requester: Requester) {
        let server =
            self.keys.get(&key).copied().and_then(|client| self.client(client)?.lease).filter(
                |&server| {
                    self.server(server).is_some_and(|server| {
                        matches!(server.phase, Phase::Leased) && server.tracker.busy()
                    })
                },
            );
        match server {
            Some(server) => self.cancel_server(server, requester),
            None => self.requester_is_done(requester),
        }
    }

    /// Sends the real key to Postgres.
    pub(crate) fn cancel_server(&mut self, id: ServerId, requester: Requester) {
        let timeout = match self.settings.global.cancel_wait_timeout {
            Duration::ZERO => LONGEST,
            timeout => timeout,
        };
        let Some(server) = self.server(id) else { return self.requester_is_done(requester) };
        let Some(backend) = server.backend.clone() else {
            return self.requester_is_done(requester);
        };
        server.cancels += 1;
        let address = Rc::clone(&server.address);
        let round = Rc::clone(&server.round);
        let meant = round.get();
        let (completions, budget) = (self.completions.clone(), Rc::clone(&self.cancel_budget));
        // Detached: bounded by its timeout, and the completion is told of either end.
        drop(tokio::task::spawn_local(async move {
            let delivery = async {
                let _permit = budget.acquire().await.ok();
                deliver(&address, &backend, &round, meant).await
            };
            let outcome = match tokio::time::timeout(timeout, delivery).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => {
                    debug!("cancel request to {address} failed: {error}");
                    CancelOutcome::Failed
                }
                Err(_) => CancelOutcome::Failed,
            };
            let sent = completions.send(Completion::Canceled { server: id, requester, outcome });
            drop(sent);
        }));
    }

    /// A request has been delivered, or was not needed, or could not be.
    pub(crate) fn canceled(&mut self, id: ServerId, requester: Requester, outcome: CancelOutcome) {
        if let Some(server) = self.server(id) {
            server.cancels = server.cancels.saturating_sub(1);
            if outcome == CancelOutcome::Failed {
                // It may still arrive, and must hit nobody.
                server.close_needed = true;
            }
            if server.cancels == 0 && matches!(server.phase, Phase::Held) {
                self.give_back(id);
            }
        }
        self.requester_is_done(requester);
    }

    pub(crate) fn requester_is_done(&mut self, requester: Requester) {
        match requester {
            Requester::Client(id) => self.cancel_answered(id),
            Requester::Peer { worker, request } => {
                // A peer that does not hear it is about to be gone, and answers by itself.
                self.bus_say(worker, &Bus::CancelDone { id: request });
            }
            Requester::Nobody => {}
        }
    }

    /// The requester's connection is closed: that is the answer.
    pub(crate) fn cancel_answered(&mut self, id: ClientId) {
        if self.client(id).is_some_and(|client| matches!(client.stage, Stage::Canceling)) {
            self.drop_client(id, "cancel request done");
        }
    }
}

/// One cancel request: connects, sends the key if it is still meant, waits for the end of file.
async fn deliver(
    address: &Address,
    backend: &Backend,
    round: &Cell<u64>,
    meant: u64,
) -> io::Result<CancelOutcome> {
    let stream = watch(dial(address)?.0)?;
    let packet = cancel_request(backend.pid, &backend.secret);
    let mut sent = 0;
    while sent < packet.len() {
        let mut ready = stream.writable().await?;
        if sent == 0 && round.get() != meant {
            return Ok(CancelOutcome::NotNeeded);
        }
        match write(stream.get_ref(), packet.get(sent..).unwrap_or_default()) {
            Moved::Bytes(count) => sent += count,
            Moved::Later => ready.clear_ready(),
            Moved::End => return Err(io::ErrorKind::WriteZero.into()),
            Moved::Broken(error) => return Err(error.into()),
        }
    }
    loop {
        let mut ready = stream.readable().await?;
        let mut waste = [0; 64];
        match read(stream.get_ref(), &mut waste) {
            Moved::Bytes(_) => {}
            Moved::Later => ready.clear_ready(),
            // Postgres closes when it has sent the signal; some versions reset.
            Moved::End | Moved::Broken(_) => return Ok(CancelOutcome::Delivered),
        }
    }
}
