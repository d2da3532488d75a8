//! Many clients at once, each on a thread of its own, until they are told to stop.
//! It never decides what an error is: the work gives back what the test wants to know.
//! Suites use it for load that goes on while something happens to the fleet.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    address::Address,
    failure::Failure,
    raw::{Raw, message},
};

/// Whether the crowd should go on.
#[derive(Clone, Debug, Default)]
pub struct Running(Arc<AtomicBool>);

impl Running {
    /// True until [`Crowd::stop`] is called.
    pub fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// Threads at work.
#[derive(Debug)]
pub struct Crowd<T> {
    running: Running,
    threads: Vec<JoinHandle<T>>,
}

impl<T: Send + 'static> Crowd<T> {
    /// Starts `count` threads, numbered from 0.
    pub fn start(
        count: usize,
        work: impl Fn(usize, &Running) -> T + Clone + Send + 'static,
    ) -> Self {
        let running = Running::default();
        let start = |number| {
            let (running, work) = (running.clone(), work.clone());
            thread::spawn(move || work(number, &running))
        };
        let threads = (0..count).map(start).collect();
        Self { running, threads }
    }

    /// Tells them to stop and gives back what each had to say.
    pub fn stop(mut self) -> Vec<T> {
        self.running.0.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Waits until each has ended by itself.
    pub fn finish(mut self) -> Vec<T> {
        self.join()
    }

    fn join(&mut self) -> Vec<T> {
        self.threads
            .drain(..)
            .map(|thread| thread.join().expect("no thread of the crowd fails"))
            .collect()
    }
}

impl<T> Drop for Crowd<T> {
    fn drop(&mut self) {
        self.running.0.store(true, Ordering::Relaxed);
    }
}

/// What a client that comes and goes has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections that were made, used and closed in good order.
    pub served: usize,
    /// What went wrong, each with the number of milliseconds since its connect.
    pub errors: Vec<String>,
    /// The longest time that one connection took, from connect to close.
    pub slowest: Duration,
}

impl Tally {
    /// The sum of many.
    pub fn of(tallies: Vec<Self>) -> Self {
        tallies.into_iter().fold(Self::default(), |mut sum, tally| {
            sum.served += tally.served;
            sum.errors.extend(tally.errors);
            sum.slowest = sum.slowest.max(tally.slowest);
            sum
        })
    }
}

/// Clients that connect, run one query, leave, and come again.
pub fn churn(count: usize, address: &Address) -> Crowd<Tally> {
    let address = address.clone();
    Crowd::start(count, move |_, running| {
        let mut tally = Tally::default();
        while running.goes_on() {
            let start = Instant::now();
            match visit(&address) {
                Ok(()) => tally.served += 1,
                Err(failure) => {
                    tally.errors.push(format!("{failure} after {} ms", start.elapsed().as_millis()))
                }
            }
            tally.slowest = tally.slowest.max(start.elapsed());
        }
        tally
    })
}

/// One connection with one query.
fn visit(address: &Address) -> Result<(), Failure> {
    let mut raw = Raw::login(address)?;
    let answer = raw.ask(&message::query("select 1"))?;
    raw.leave();
    match answer.error() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}
