//! Where console statements ask the loop for things.
//!
//! It owns a way into the loop's queue and turns each request into a future. It keeps no state and never
//! touches the fleet. Statements run with it, each in a task of its own.

use pgfleet_config::Workers;
use tokio::sync::{mpsc, oneshot};

use super::gather::Gathered;
use super::input::{Done, Input, Refusal, Request};
use super::slot::Stop;
use super::view::View;
use crate::link::table::Question;

/// The loop, as a console statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    inputs: mpsc::UnboundedSender<Input>,
}

impl Desk {
    pub(super) fn new(inputs: mpsc::UnboundedSender<Input>) -> Self {
        Self { inputs }
    }

    /// Asks all workers.
    pub(crate) async fn gather(&self, question: Question) -> Result<Gathered, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Gather(question, reply))?;
        answer.await.map_err(|_| ending())
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
