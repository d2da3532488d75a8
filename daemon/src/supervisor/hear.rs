//! What workers say, and what becomes of it.
//!
//! It turns the messages and the ends of workers into events, steps and answers. A message that does not fit
//! ends the worker that sent it, and nothing else. Only the loop in `office` calls it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use super::command;
use super::event::Event;
use super::input::Input;
use super::office::{Office, Standing};
use super::retire;
use super::slot::Cause;
use crate::ledger::Accepting;
use crate::link::message::{BUILD, Role, ToSupervisor, ToWorker, WorkerId};
use crate::link::table::Reply;

impl Office {
    /// One message of one worker.
    pub(super) fn hear(
        &mut self,
        worker: WorkerId,
        message: ToSupervisor,
        descriptors: Vec<OwnedFd>,
    ) {
        let Some(hand) = self.hands.get(&worker) else { return };
        match (hand.standing, message) {
            (Standing::Silent, ToSupervisor::Hello { build, .. }) => self.hello(worker, &build),
            (Standing::Silent, _) => {
                log::error!("worker {worker} said something before Hello: it is ended");
                self.refuse(worker);
            }
            (Standing::Refused, _) => {}
            (Standing::Welcomed | Standing::Known, message) => {
                self.listen(worker, message, descriptors)
            }
        }
    }

    fn hello(&mut self, worker: WorkerId, build: &str) {
        if build != BUILD {
            log::error!(
                "worker {worker} is of build {build}, this supervisor of {BUILD}: it is ended; restart the daemon"
            );
            return self.refuse(worker);
        }
        if let Some(hand) = self.hands.get_mut(&worker) {
            hand.standing = Standing::Welcomed;
        }
        self.welcome(worker);
        self.events.push_back(Event::Greeted(worker));
        let steps = self.shares.join(worker);
        self.carry_out(steps);
    }

    fn refuse(&mut self, worker: WorkerId) {
        if let Some(hand) = self.hands.get_mut(&worker) {
            hand.standing = Standing::Refused;
        }
        self.kill(worker);
    }

    fn listen(&mut self, worker: WorkerId, message: ToSupervisor, descriptors: Vec<OwnedFd>) {
        match message {
            ToSupervisor::Hello { .. } => log::debug!("worker {worker} said Hello twice"),
            ToSupervisor::Prepared { epoch, result } => {
                let steps = self.shares.prepared(worker, epoch, result);
                self.carry_out(steps);
            }
            ToSupervisor::Held { epoch, excess } => {
                let steps = self.shares.held(worker, epoch, excess);
                self.carry_out(steps);
            }
            ToSupervisor::Learned(lesson) => {
                let others =
                    self.welcomed().map(|(other, _)| other).filter(|other| *other != worker);
                for other in others.collect::<Vec<_>>() {
                    self.tell(other, &ToWorker::Learned(lesson.clone()));
                }
            }
            ToSupervisor::Tallies => {
                if let Some(hand) = self.hands.get_mut(&worker) {
                    hand.tallies = descriptors.into_iter().next();
                }
            }
            ToSupervisor::Shown(credential) => self.shown(worker, &credential),
            ToSupervisor::Ready => {
                self.tell_credentials(worker);
                self.events.push_back(Event::Ready(worker));
            }
            ToSupervisor::Opened(copy) => match descriptors.into_iter().next() {
                Some(descriptor) => self.copies.opened(worker, copy, descriptor),
                None => log::error!(
                    "worker {worker} opened a server whose descriptor did not arrive; see the limit of open files"
                ),
            },
            ToSupervisor::KeyKnown { server, pid, secret } => {
                self.copies.key_known(worker, server, pid, secret)
            }
            ToSupervisor::Closed { server } => self.copies.closed(worker, server),
            ToSupervisor::Rows { id, rows } => self.rows(worker, id, rows),
            ToSupervisor::Statement { id, role, text, .. } => {
                self.statement(worker, id, role, text)
            }
            ToSupervisor::Pong { stats, .. } => {
                self.totals.heard(worker, &stats);
                if self.fleet.is_relieved(worker) {
                    self.ledger.row(worker).set_accepting(Accepting::No);
                }
                self.events.push_back(Event::Pong(worker));
            }
            ToSupervisor::Drained => log::info!("worker {worker} has drained"),
        }
    }

    /// A statement of a client that a worker has authenticated; it is answered when it is done.
    fn statement(&self, worker: WorkerId, id: u64, role: Role, text: String) {
        let (desk, inputs) = (self.desk(), self.inputs.clone());
        drop(tokio::task::spawn_local(async move {
            let reply = command::run(&desk, role, &text).await;
            drop(inputs.send(Input::Answer(worker, id, reply)));
        }));
    }

    pub(super) fn answer(&self, worker: WorkerId, id: u64, reply: Reply) {
        self.tell(worker, &ToWorker::Answer { id, reply });
    }

    /// A worker's process is gone: its servers are retired, everyone who waited for it goes on.
    pub(super) fn exited(&mut self, worker: WorkerId, status: &str) {
        let Some(mut hand) = self.hands.remove(&worker) else { return };
        log::info!("worker {worker} (pid {}) is gone: {status}", hand.process.pid);
        self.name_pids();
        // No peer may hand a client to it from now on.
        let row = self.ledger.row(worker);
        if row.generation() == worker.generation {
            row.set_accepting(Accepting::No);
        }
        if let Some(tallies) = hand.tallies.take() {
            self.totals.last_heard(worker, tallies);
        }
        self.totals.gone(worker);
        self.gatherings.gone(worker);
        for server in self.copies.died(worker) {
            let (limits, budget) = (server.limits(), Rc::clone(&self.cancels));
            let inputs = self.inputs.clone();
            drop(tokio::task::spawn_local(async move {
                retire::retire(server, budget).await;
                drop(inputs.send(Input::Retired(limits)));
            }));
        }
        let others: Vec<WorkerId> = self.welcomed().map(|(other, _)| other).collect();
        for other in others {
            self.tell(other, &ToWorker::PeerGone { worker });
        }
        let steps = self.shares.leave(worker, self.copies.ghosts());
        self.carry_out(steps);
        let cause = if hand.standing == Standing::Refused { Cause::Refused } else { Cause::Died };
        self.events.push_back(Event::Gone(worker, cause));
        self.notify.status(&self.status_line());
    }
}
