//! Carries out what the fleet and the shares have decided.
//!
//! It sends messages over links, starts and kills processes, hands out descriptors. It decides nothing, and
//! what fails here goes back to the fleet as an event. Only the loop in `office` calls it.

use std::time::{Duration, Instant, UNIX_EPOCH};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::action::{Action, RollEnd};
use super::event::Event;
use super::input::Refusal;
use super::office::{End, Hand, Office, Standing};
use super::seats::Seat;
use super::shares::Step;
use super::slot::{Cause, Note, Stop};
use super::spawn;
use crate::ledger::Accepting;
use crate::link::channel;
use crate::link::message::{ToWorker, Welcome, WorkerId};
use crate::link::snapshot;

/// Bytes that may wait for a worker. One that hangs is found by its heartbeat long before.
const LONGEST_QUEUE: usize = 256 << 20;

impl Office {
    /// Does one thing.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Start(worker) => self.start(worker),
            Action::Undrain(worker) => self.tell(worker, &ToWorker::Undrain),
            Action::Relieve(worker) => self.relieve(worker),
            Action::Give(seat, worker) => self.give(seat, worker),
            Action::Take(seat, worker) => {
                for id in self.listeners.ids(seat) {
                    self.tell(worker, &ToWorker::DropListener { id });
                }
            }
            Action::Drain(worker, drain) => {
                log::info!("worker {worker} drains");
                self.tell(worker, &ToWorker::Drain(drain));
            }
            Action::Quit(worker) => self.tell(worker, &ToWorker::Quit),
            Action::Kill(worker, why) => {
                log::warn!("worker {worker} is killed: {why}");
                self.kill(worker);
            }
            Action::Ping(worker) => {
                self.pings += 1;
                self.tell(worker, &ToWorker::Ping { sequence: self.pings });
            }
            Action::Divide(division) => {
                let steps = self.shares.aim(division);
                self.carry_out(steps);
            }
            Action::CloseListeners => {
                self.notify.stopping();
                self.listeners.close_tcp();
            }
            Action::Note(note) => say(&note),
            Action::Scaled => self.scaled(),
            Action::Restarted(result) => self.restarted(result),
            Action::Stopped => {
                self.end = Some(if self.failed { End::Failed } else { End::Stopped })
            }
        }
    }

    /// Does what the shares ask for.
    pub(super) fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Prepare { worker, epoch, settings, share } => {
                    let has_settings = settings.is_some();
                    // Each worker gets a memfd of its own, since a shared one has one read position.
                    let descriptor = settings.map(|settings| snapshot::settings_memfd(&settings));
                    match descriptor.transpose() {
                        Ok(descriptor) => {
                            let message =
                                ToWorker::Prepare { epoch, settings: has_settings, share };
                            self.tell_with(worker, &message, descriptor);
                        }
                        Err(error) => {
                            log::error!("cannot give the settings to worker {worker}: {error}");
                            self.kill(worker);
                        }
                    }
                }
                Step::Commit { worker, epoch } => self.tell(worker, &ToWorker::Commit { epoch }),
                Step::Discard { worker, epoch } => self.tell(worker, &ToWorker::Discard { epoch }),
                Step::Grant { worker, epoch, minus } => {
                    self.tell(worker, &ToWorker::Grant { epoch, minus });
                    if self.fleet.is_relieved(worker) {
                        self.relieve(worker);
                    }
                }
                Step::Introduced(worker) => self.events.push_back(Event::Introduced(worker)),
                Step::Granted(worker) => {
                    self.introduce(worker);
                    self.events.push_back(Event::Granted(worker));
                }
                Step::Unfit(worker, why) => {
                    log::error!("worker {worker} cannot use the settings: {why}");
                    self.kill(worker);
                }
                Step::Reloaded(result) => self.reloaded(result),
            }
        }
    }

    fn start(&mut self, worker: WorkerId) {
        // The row may still show the clients of a worker that was killed.
        self.ledger.row(worker).claim(worker);
        match spawn::start(worker, &self.lock, self.inputs.clone()) {
            Ok(process) => {
                log::info!("worker {worker} starts, pid {}", process.pid);
                let hand = Hand {
                    process,
                    since: Instant::now(),
                    standing: Standing::Silent,
                    tallies: None,
                };
                self.hands.insert(worker, hand);
                self.name_pids();
            }
            Err(error) => {
                log::error!("slot {}: {error}", worker.slot);
                self.events.push_back(Event::Gone(worker, Cause::Refused));
            }
        }
    }

    /// Keeps the pids in the lock file right, for a later start that finds orphans.
    pub(super) fn name_pids(&mut self) {
        if let Err(error) = self.lock.name(self.hands.values().map(|hand| hand.process.pid)) {
            log::warn!("cannot write the pids to the lock file: {error}");
        }
    }

    pub(super) fn kill(&self, worker: WorkerId) {
        if let Some(hand) = self.hands.get(&worker) {
            hand.process.kill();
        }
    }

    /// Peers hand nothing to this worker from now on. A grant that it has yet to read would undo that,
    /// so it is said again when the worker answers.
    fn relieve(&mut self, worker: WorkerId) {
        self.ledger.row(worker).set_accepting(Accepting::No);
        self.pings += 1;
        self.tell(worker, &ToWorker::Ping { sequence: self.pings });
    }

    fn give(&mut self, seat: Seat, worker: WorkerId) {
        match self.listeners.copies(seat) {
            Ok(copies) => {
                for copy in copies {
                    let message =
                        ToWorker::Listener { id: copy.id, kind: copy.kind, address: copy.address };
                    self.tell_with(worker, &message, Some(copy.socket));
                }
            }
            Err(error) => log::error!("worker {worker} has no listener: {error}"),
        }
    }

    /// Greets a worker of this build.
    pub(super) fn welcome(&mut self, worker: WorkerId) {
        let welcome = Welcome {
            worker,
            fleet_secret: self.secret,
            fleet_started: self
                .started
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX)),
            core: self.settings.global.cpu_affinity.then(|| core(worker.slot)).flatten(),
            uid: nix::unistd::geteuid().as_raw(),
        };
        match self.ledger_descriptor.try_clone() {
            Ok(ledger) => {
                self.tell_with(worker, &ToWorker::Welcome(welcome), Some(ledger));
                self.tell(worker, &ToWorker::Switches(self.switches.clone()));
            }
            Err(error) => {
                log::error!("cannot give the ledger to worker {worker}: {error}");
                self.kill(worker);
            }
        }
    }

    /// Makes a worker and all its peers known to each other, once it can take clients.
    fn introduce(&mut self, worker: WorkerId) {
        let known: Vec<WorkerId> = self
            .welcomed()
            .filter(|(_, hand)| hand.standing == Standing::Known)
            .map(|(peer, _)| peer)
            .collect();
        let Some(hand) = self.hands.get_mut(&worker) else { return };
        if hand.standing != Standing::Welcomed {
            return;
        }
        hand.standing = Standing::Known;
        for peer in known {
            match channel::pair() {
                Ok((one, other)) => {
                    self.tell_with(worker, &ToWorker::Peer { worker: peer }, Some(one));
                    self.tell_with(peer, &ToWorker::Peer { worker }, Some(other));
                }
                Err(errno) => log::error!(
                    "workers {worker} and {peer} cannot be connected: {errno}; see the limit of open files"
                ),
            }
        }
    }

    pub(super) fn tell(&self, worker: WorkerId, message: &ToWorker) {
        self.tell_with(worker, message, None);
    }

    fn tell_with(
        &self,
        worker: WorkerId,
        message: &ToWorker,
        descriptor: Option<std::os::fd::OwnedFd>,
    ) {
        if let Some(hand) = self.hands.get(&worker) {
            if hand.process.sender.queued() > LONGEST_QUEUE {
                log::error!("worker {worker} does not read its link: it is ended");
                return hand.process.kill();
            }
            hand.process.sender.send(message, descriptor.into_iter().collect());
        }
    }

    /// The wanted workers serve, or those that can: answers whoever waits for it.
    fn scaled(&mut self) {
        let (serving, wanted) = (self.fleet.serving(), usize::from(self.fleet.wanted()));
        let missing = (serving < wanted && self.fleet.looping() > 0).then(|| {
            format!("only {serving} of {wanted} workers serve, the others crash as they start; see the log")
        });
        for done in self.scalings.drain(..) {
            drop(done.send(Ok(missing.clone().into_iter().collect())));
        }
        if self.ready.is_open() {
            match (&missing, serving) {
                (Some(missing), 0) => {
                    log::error!(target: crate::log_line::FATAL, "{missing}");
                    self.ready.fail(missing);
                    self.failed = true;
                    self.events.push_back(Event::Stop(Stop::Now));
                }
                (Some(_), _) | (None, _) => {
                    self.ready.serving();
                    let addresses = self.listeners.addresses().join(", ");
                    log::info!("fleet serves with {serving} workers on {addresses}");
                    self.notify.ready(&self.status_line());
                }
            }
        } else {
            log::info!("{}", self.status_line());
            self.notify.status(&self.status_line());
        }
        if let Some(missing) = missing {
            log::warn!("{missing}");
        }
    }

    fn restarted(&mut self, result: Result<(), RollEnd>) {
        match &result {
            Ok(()) => log::info!("rolling restart is done"),
            Err(end) => log::warn!("rolling restart ended early: {end}"),
        }
        if let Some(done) = self.restarting.take() {
            drop(done.send(
                result.map(|()| Vec::new()).map_err(|end| Refusal::protocol(end.to_string())),
            ));
        }
    }
}

/// The core of a slot: they take turns on those that this process may use.
fn core(slot: u16) -> Option<u16> {
    let usable = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let cores: Vec<usize> =
        (0..CpuSet::count()).filter(|core| usable.is_set(*core).unwrap_or(false)).collect();
    let place = usize::from(slot.saturating_sub(1)).checked_rem(cores.len())?;
    cores.get(place).and_then(|core| u16::try_from(*core).ok())
}

fn say(note: &Note) {
    match note {
        Note::Died { worker, served, pause } if *pause == Duration::ZERO => {
            log::warn!(
                "worker {worker} died after {} s of service, its successor starts",
                served.as_secs()
            );
        }
        Note::Died { worker, served, pause } => log::warn!(
            "worker {worker} died after {} s of service, its successor starts in {} ms",
            served.as_secs(),
            pause.as_millis()
        ),
        Note::LoopBegins { slot } => log::error!(
            "slot {slot} is in a crash loop: five workers died within a minute; it is tried again every 10 s, the other slots serve on"
        ),
        Note::LoopEnded { slot } => log::info!("slot {slot} has left its crash loop"),
        Note::RollFailed { worker } => {
            log::error!("successor {worker} did not come up, the old worker serves on")
        }
    }
}
