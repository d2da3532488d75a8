//! What the console and the signals ask of the loop.
//!
//! It checks whether a request can be carried out now, sets it going and keeps whoever waits for it. It never
//! waits itself. Only the loop in `office` calls it.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pgfleet_config::{Workers, worker_count};
use tokio::sync::oneshot;

use super::event::Event;
use super::gather::{DEADLINE, Gathered};
use super::input::{Done, GatherId, Input, Refusal, Request, Signal};
use super::office::Office;
use super::reload::Setting;
use super::slot::Stop;
use super::switchboard::{self, Stuck, Turn};
use super::view::{self, Stopping, View};
use crate::link::message::{Drain, ToWorker, WorkerId};
use crate::link::switches::{Activity, Doors, Order, Scope};
use crate::link::table::{Question, Row};

impl Office {
    pub(super) fn request(&mut self, request: Request) {
        match request {
            Request::Gather(question, reply) => self.gather(question, reply),
            Request::View(reply) => {
                // Whoever asked may have gone away: so in all replies here.
                drop(reply.send(self.view()));
            }
            Request::Order(order, reply) => self.order(order, reply),
            Request::Turn(turn, done) => {
                let stuck = |stuck: Stuck| Refusal::protocol(stuck.to_string());
                drop(done.send(self.turn(&turn).map(|()| Vec::new()).map_err(stuck)));
            }
            Request::Set { key, value, done } => self.set(Setting { key, value, done }),
            Request::Reload(done) => self.reload(Some(done)),
            Request::Scale(workers, done) => self.scale(workers, done),
            Request::Restart(done) => self.restart(done),
            Request::Shutdown(stop, done) => {
                self.stop("SHUTDOWN command issued", stop);
                drop(done.send(Ok(Vec::new())));
            }
        }
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        let again = self.fleet.is_stopping();
        match signal {
            Signal::Reload => {
                log::info!("got SIGHUP, re-reading config");
                self.reload(None);
            }
            Signal::WaitForClients | Signal::WaitForServers if again => {
                self.stop("got a second signal, shutting down at once", Stop::Now)
            }
            Signal::WaitForClients => {
                self.stop(
                    "got SIGTERM, shutting down, waiting for all clients to disconnect",
                    Stop::Drain(Drain::WhenClientsLeave),
                );
            }
            Signal::WaitForServers => {
                self.stop(
                    "got SIGINT, shutting down, waiting for all servers to be released",
                    Stop::Drain(Drain::WhenServersLeave),
                );
            }
            Signal::Now => self.stop("got SIGQUIT, fast exit", Stop::Now),
            Signal::Pause => match self.turn(&Turn::Pause(Scope::All)) {
                Ok(()) => log::info!("got SIGUSR1, pausing all activity"),
                Err(stuck) => log::info!("got SIGUSR1, but {stuck}"),
            },
            Signal::Resume if again => log::info!("got SIGUSR2 while shutting down, ignoring"),
            Signal::Resume => {
                let activity = self.switches.activity;
                match (self.turn(&Turn::Resume(Scope::All)), activity) {
                    (Ok(()), Activity::Suspended) => {
                        log::info!("got SIGUSR2, continuing from SUSPEND")
                    }
                    (Ok(()), Activity::Paused | Activity::Running) => {
                        log::info!("got SIGUSR2, continuing from PAUSE")
                    }
                    (Err(_), _) => log::info!("got SIGUSR2, but not paused/suspended"),
                }
            }
        }
    }

    /// Turns a switch and tells all workers.
    fn turn(&mut self, turn: &Turn) -> Result<(), Stuck> {
        let settings = &self.settings;
        let is_known = |name: &str| settings.database(name).is_some();
        switchboard::turn(&mut self.switches, turn, is_known)?;
        log::info!("{turn}");
        self.tell_switches();
        Ok(())
    }

    fn tell_switches(&self) {
        for (worker, _) in self.welcomed() {
            self.tell(worker, &ToWorker::Switches(self.switches.clone()));
        }
    }

    fn order(&mut self, order: Order, reply: oneshot::Sender<Gathered>) {
        match &order {
            // What they are to report on is in the log already.
            Order::Report | Order::Kill(_) => {}
            Order::Reconnect(scope) => log::info!("RECONNECT{scope} command issued"),
            Order::KillClient(number) => log::info!("KILL_CLIENT '{number}' command issued"),
        }
        self.ask(Question::Done, reply, |id| ToWorker::Do { id, order: order.clone() });
    }

    fn stop(&mut self, text: &str, stop: Stop) {
        log::info!("{text}");
        self.switches.doors = Doors::Closing;
        if stop == Stop::Drain(Drain::WhenServersLeave) {
            self.switches.activity = Activity::Paused;
        } else if self.switches.activity == Activity::Suspended {
            // Who stands still cannot leave.
            self.switches.activity = Activity::Running;
        }
        self.tell_switches();
        self.events.push_back(Event::Stop(stop));
    }

    fn gather(&mut self, question: Question, reply: oneshot::Sender<Gathered>) {
        self.ask(question, reply, |id| ToWorker::Ask { id, question });
    }

    /// Sends this message to all workers, and gathers what they answer to it.
    fn ask(
        &mut self,
        question: Question,
        reply: oneshot::Sender<Gathered>,
        message: impl Fn(GatherId) -> ToWorker,
    ) {
        let workers: BTreeSet<WorkerId> = self.welcomed().map(|(worker, _)| worker).collect();
        let Some(id) = self.gatherings.begin(question, workers.clone(), reply) else { return };
        for worker in workers {
            self.tell(worker, &message(id));
        }
        self.send_later(DEADLINE, Input::GatherDue(id));
    }

    pub(super) fn rows(&mut self, worker: WorkerId, id: GatherId, rows: Vec<Row>) {
        if self.gatherings.question(id) == Some(Question::Stats) {
            self.totals.heard(worker, &rows);
        }
        self.gatherings.rows(worker, id, rows);
    }

    fn scale(&mut self, workers: Workers, done: Done) {
        let counted = worker_count(&self.settings, Some(workers));
        match counted {
            _ if self.fleet.is_stopping() => {
                drop(done.send(Err(Refusal::protocol("the fleet is shutting down"))));
            }
            Ok((count, notes)) => {
                notes.iter().for_each(|note| log::info!("{note}"));
                log::info!("SCALE to {count} workers");
                self.asked = Some(workers);
                self.scalings.push(done);
                self.events.push_back(Event::Scale(count));
            }
            Err(problems) => {
                let reasons: Vec<String> = problems.iter().map(ToString::to_string).collect();
                drop(
                    done.send(Err(Refusal::protocol(format!(
                        "cannot scale: {}",
                        reasons.join("; ")
                    )))),
                );
            }
        }
    }

    fn restart(&mut self, done: Done) {
        let refusal = if self.fleet.is_stopping() {
            "the fleet is shutting down"
        } else if self.fleet.is_rolling() {
            "a rolling restart is under way; wait until it is done"
        } else {
            log::info!("RESTART: replacing the workers one by one");
            self.restarting = Some(done);
            self.events.push_back(Event::Restart);
            return;
        };
        drop(done.send(Err(Refusal::protocol(refusal))));
    }

    fn view(&self) -> View {
        let now = Instant::now();
        let about = |worker| self.hands.get(&worker).map(|hand| (hand.process.pid, hand.since));
        View {
            settings: Rc::clone(&self.settings),
            config: self.config.clone(),
            wanted: self.fleet.wanted(),
            lines: view::lines(&self.fleet, about, now),
            uptime: now.duration_since(self.born),
            epoch: self.shares.epoch(),
            stopping: if self.fleet.is_stopping() { Stopping::Yes } else { Stopping::No },
            totals: self.totals.summary(),
            ghosts: self.copies.count(),
            haunted: self.copies.ghosts(),
            switches: self.switches.clone(),
        }
    }
}

/// How long the preparation of a reload may take.
pub(super) const RELOAD_DEADLINE: Duration = Duration::from_secs(5);
