//! `pgfleet demo`: everything at once, on a throwaway Postgres.
//!
//! It owns the frame: who runs it, what happens on an interrupt, and that nothing is left behind. It never touches a
//! Postgres or a fleet that it did not start. Operators and `make demo` call it.

mod cancel;
mod load;
mod postgres;
mod root;
mod stage;
mod story;

use std::io;

use nix::unistd::geteuid;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Demo, Global};
use crate::exit::Failure;
use crate::screen::Screen;
use stage::Stage;

/// Runs the demo, as another user if this one is root.
pub(super) fn run(demo: &Demo, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("start the event loop"))?;
    // From here on an interrupt is an event, not the end: also while everything is cleared away.
    let mut interrupts = runtime.block_on(async { Interrupts::watch() })?;
    if geteuid().is_root() {
        return root::run(demo, global, &runtime, &mut interrupts);
    }
    let mut stage = Stage::set_up(demo.stage.clone(), global)?;
    runtime.block_on(async {
        let told = perform(&mut stage, demo, screen, &mut interrupts).await;
        let cleared = stage.clear().await;
        told.and(cleared)
    })
}

/// The story, to its end or to an interrupt.
async fn perform(
    stage: &mut Stage,
    demo: &Demo,
    screen: &Screen,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let told = tokio::select! {
        told = story::tell(stage, demo, screen) => Some(told),
        () = interrupts.next() => None,
    };
    match told {
        Some(Ok(())) => Ok(()),
        Some(Err(failure)) => {
            stage.explain(&failure, screen);
            Err(failure)
        }
        None => Err(Failure::Refused("interrupted; nothing is left behind".to_owned())),
    }
}

/// The signals that ask a program to end.
struct Interrupts([Signal; 3]);

impl Interrupts {
    fn watch() -> Result<Self, Failure> {
        let watch = || -> io::Result<Self> {
            Ok(Self([
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ]))
        };
        watch().map_err(Failure::system("watch for signals"))
    }

    /// Waits for the next one. Cancel-safe: nothing is taken before it is given.
    async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
