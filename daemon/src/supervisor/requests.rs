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
use super::slot::Stop;
use super::view::{self, Stopping, View};
use crate::link::message::{Drain, ToWorker, WorkerId};
use crate::link::table::{Question, Row};

impl Office {
    pub(super) fn request(&mut self, request: Request) {
        match request {
            Request::Gather(question, reply) => self.gather(question, reply),
            Request::View(reply) => {
                // Whoever asked may have gone away: so in all replies here.
                drop(reply.send(self.view()));
            }
            Request::Reload(done) => self.reload(Some(done)),
            Request::Scale(workers, done) => self.scale(workers, done),
            Request::Restart(done) => self.restart(done),
            Request::Shutdown(stop, done) => {
                log::info!("SHUTDOWN command issued");
                self.events.push_back(Event::Stop(stop));
                drop(done.send(Ok(Vec::new())));
            }
        }
    }

    pub(super) fn signal(&mut self, signal: Signal) {
        let again = self.fleet.is_stopping();
        let drain = self.settings.global.drain_timeout;
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
                    Stop::Drain(Drain::BetweenTransactions(drain)),
                );
            }
            Signal::Now => self.stop("got SIGQUIT, fast exit", Stop::Now),
            Signal::Pause => {
                log::warn!("got SIGUSR1: PAUSE is not supported in this version, nothing is paused")
            }
            Signal::Resume => log::warn!(
                "got SIGUSR2: RESUME is not supported in this version, nothing was paused"
            ),
        }
    }

    fn stop(&mut self, text: &str, stop: Stop) {
        log::info!("{text}");
        self.events.push_back(Event::Stop(stop));
    }

    fn gather(&mut self, question: Question, reply: oneshot::Sender<Gathered>) {
        let workers: BTreeSet<WorkerId> = self.welcomed().map(|(worker, _)| worker).collect();
        let Some(id) = self.gatherings.begin(question, workers.clone(), reply) else { return };
        for worker in workers {
            self.tell(worker, &ToWorker::Ask { id, question });
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
        }
    }
}

/// How long the preparation of a reload may take.
pub(super) const RELOAD_DEADLINE: Duration = Duration::from_secs(5);
