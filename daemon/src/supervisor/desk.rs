//! Where console statements ask the loop for things.
//!
//! It owns a way into the loop's queue and turns each request into a future. It keeps no state and never
//! touches the fleet. Statements run with it, each in a task of its own.

use std::sync::Arc;

use pgfleet_config::Workers;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::gather::Gathered;
use super::input::{Done, Input, Refusal, Request};
use super::slot::Stop;
use super::switchboard::Turn;
use super::view::View;
use crate::link::switches::Order;
use crate::link::table::Question;

/// Commands that wait for workers to come to rest, at once. Those whose client is gone still count.
const WAITING: usize = 64;

/// The loop, as a console statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    inputs: mpsc::UnboundedSender<Input>,
    places: Arc<Semaphore>,
}

impl Desk {
    pub(super) fn new(inputs: mpsc::UnboundedSender<Input>) -> Self {
        Self { inputs, places: Arc::new(Semaphore::new(WAITING)) }
    }

    /// Asks all workers.
    pub(crate) async fn gather(&self, question: Question) -> Result<Gathered, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Gather(question, reply))?;
        answer.await.map_err(|_| ending())
    }

    /// Has all workers do something.
    pub(crate) async fn order(&self, order: Order) -> Result<Gathered, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Order(order, reply))?;
        answer.await.map_err(|_| ending())
    }

    /// Turns a switch; the workers are told, and may still be at it.
    pub(crate) async fn turn(&self, turn: Turn) -> Result<Vec<String>, Refusal> {
        self.run(|done| Request::Turn(turn, done)).await
    }

    /// Returns when all workers have the new value.
    pub(crate) async fn set(&self, key: String, value: String) -> Result<Vec<String>, Refusal> {
        self.run(|done| Request::Set { key, value, done }).await
    }

    /// The right to wait for workers to come to rest, for so long as it is kept.
    pub(crate) fn wait_place(&self, command: &str) -> Result<OwnedSemaphorePermit, Refusal> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::protocol(format!(
                "{WAITING} commands wait already, so {command} does not wait for its end; see SHOW STATE and SHOW SERVERS"
            ))
        })
    }

    /// The fleet as it is now.
    pub(crate) async fn view(&self) -> Result<View, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::View(reply))?;
        answer.await.map_err(|_| ending())
    }

    pub(crate) async fn reload(&self) -> Result<Vec<String>, Refusal> {
        self.run(Request::Reload).await
    }

    /// Returns when accepts have moved.
    pub(crate) async fn scale(&self, workers: Workers) -> Result<Vec<String>, Refusal> {
        self.run(|done| Request::Scale(workers, done)).await
    }

    /// Returns when all workers have been replaced.
    pub(crate) async fn restart(&self) -> Result<Vec<String>, Refusal> {
        self.run(Request::Restart).await
    }

    /// Returns when the shutdown has begun.
    pub(crate) async fn shutdown(&self, stop: Stop) -> Result<Vec<String>, Refusal> {
        self.run(|done| Request::Shutdown(stop, done)).await
    }

    async fn run(&self, request: impl FnOnce(Done) -> Request) -> Result<Vec<String>, Refusal> {
        let (done, end) = oneshot::channel();
        self.send(request(done))?;
        end.await.map_err(|_| ending())?
    }

    fn send(&self, request: Request) -> Result<(), Refusal> {
        self.inputs.send(Input::Request(request)).map_err(|_| ending())
    }
}

fn ending() -> Refusal {
    Refusal::protocol("the fleet has ended")
}
