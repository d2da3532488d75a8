//! The start of a worker and its event loop.
//!
//! It says hello over the link, is welcomed, and then serves whatever comes first: sockets, the link,
//! completed work, the sweep. It ends when the supervisor says so or nothing is left to stay for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use log::{LevelFilter, error};
use nix::sys::signal::{SigHandler, Signal, signal};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use super::completion::Completion;
use super::io::Io;
use super::state::Worker;
use super::sweep;
use crate::ledger::Ledger;
use crate::ledger::tallies::Tallies;
use crate::link::channel::{Channel, ChannelError, Receiver};
use crate::link::descriptor::watch;
use crate::link::message::{BUILD, ToSupervisor, ToWorker, Welcome};
use crate::log_line;

/// Threads for work that blocks: key derivation, name look-ups.
const BLOCKING: usize = 4;

/// The worker's life.
pub(crate) fn run() -> ExitCode {
    log_line::worker(LevelFilter::Info);
    ignore_signals();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING)
        .build();
    let ended = match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, live()),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!("worker ends: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A worker obeys only its link: signals for the whole group are the supervisor's business.
fn ignore_signals() {
    for which in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE] {
        ignore(which);
    }
}

#[expect(unsafe_code, reason = "setting a signal to be ignored installs no handler")]
fn ignore(which: Signal) {
    // SAFETY: SIG_IGN runs no code of ours.
    if let Err(error) = unsafe { signal(which, SigHandler::SigIgn) } {
        error!("cannot ignore {which}: {error}");
    }
}

async fn live() -> io::Result<()> {
    let link = io::stdin().as_fd().try_clone_to_owned()?;
    let (sender, mut receiver) = Channel::new(link)?;
    let hello = ToSupervisor::Hello { build: BUILD.to_owned(), pid: std::process::id() };
    sender.send(&hello, Vec::new());
    let Some((welcome, ledger)) = welcomed(&mut receiver).await? else {
        return Ok(());
    };
    let io = Io::open()?;
    let ready = watch(io.descriptor()?)?;
    let (completions, completed) = mpsc::unbounded_channel();
    pin(welcome.core);
    let mut worker = Worker::new(welcome, sender.clone(), ledger, io, completions);
    let (tallies, descriptor) = Tallies::create()?;
    worker.say(&ToSupervisor::Tallies, Some(descriptor));
    worker.stats.keep_in(tallies);
    serve(worker, ready, receiver, completed).await;
    // What was said last is on its way before the link closes.
    let _closed = tokio::time::timeout(std::time::Duration::from_secs(1), sender.flush()).await;
    Ok(())
}

async fn welcomed(receiver: &mut Receiver) -> io::Result<Option<(Welcome, Ledger)>> {
    match receiver.recv::<ToWorker>().await {
        Ok(Some((ToWorker::Welcome(welcome), mut fds))) => {
            let Some(fd) = fds.pop() else {
                return Err(io::Error::other("the welcome came without the ledger"));
            };
            Ok(Some((welcome, Ledger::open(fd)?)))
        }
        // Refused: another build.
        Ok(None) => Ok(None),
        Ok(Some(_)) => Err(io::Error::other("the first message was no welcome")),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

fn pin(core: Option<u16>) {
    let Some(core) = core else { return };
    let mut cores = nix::sched::CpuSet::new();
    let pinned = cores
        .set(core.into())
        .and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores));
    if let Err(error) = pinned {
        error!("cannot run on core {core} (cpu_affinity): {error}");
    }
}

/// Serves until there is nothing left to do.
async fn serve(
    mut worker: Worker,
    ready: AsyncFd<OwnedFd>,
    mut link: Receiver,
    mut completed: mpsc::UnboundedReceiver<Completion>,
) {
    let mut ticks = interval(sweep::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut round = 0;
    // The sockets are to be looked at again, whatever the kernel tells.
    let mut again = false;
    while !worker.quit {
        // All five are cancel-safe: readiness, records and completions stay where they are until
        // they are taken, and a tick that is not taken comes again.
        tokio::select! {
            () = tokio::task::yield_now(), if again => worker.leftover |= !worker.turn(),
            sockets = ready.readable(), if !again => match sockets {
                Ok(mut sockets) => {
                    if worker.turn() {
                        sockets.clear_ready();
                    }
                }
                Err(error) => return error!("cannot wait for sockets: {error}"),
            },
            message = link.recv::<ToWorker>(), if !worker.orphaned => on_message(&mut worker, message),
            Some(completion) = completed.recv() => worker.completed(completion),
            _ = ticks.tick() => {
                round += 1;
                worker.sweep(round);
            }
        }
        worker.go_on();
        worker.stats.publish();
        again = worker.leftover;
    }
}

fn on_message(
    worker: &mut Worker,
    message: Result<Option<(ToWorker, Vec<OwnedFd>)>, ChannelError>,
) {
    worker.now = std::time::Instant::now();
    match message {
        Ok(Some((message, fds))) => worker.on_link(message, fds),
        Ok(None) => worker.orphan(),
        Err(error) => {
            error!("link: {error}");
            worker.orphan();
        }
    }
}
