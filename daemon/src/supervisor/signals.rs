//! Signals to the supervisor, as PgBouncer uses them.
//!
//! It owns the signal streams and turns each signal into an input. It never acts on one. The entry starts it.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::input::{Input, Signal};

/// What each signal means.
fn meanings() -> [(SignalKind, Signal); 6] {
    [
        (SignalKind::hangup(), Signal::Reload),
        (SignalKind::terminate(), Signal::WaitForClients),
        (SignalKind::interrupt(), Signal::WaitForServers),
        (SignalKind::quit(), Signal::Now),
        (SignalKind::user_defined1(), Signal::Pause),
        (SignalKind::user_defined2(), Signal::Resume),
    ]
}

/// Catches the signals from now on; must be called within the supervisor's `LocalSet`.
pub(crate) fn watch(inputs: &mpsc::UnboundedSender<Input>) -> io::Result<()> {
    for (kind, meaning) in meanings() {
        let mut stream = signal(kind)?;
        let inputs = inputs.clone();
        drop(tokio::task::spawn_local(async move {
            while stream.recv().await.is_some() {
                if inputs.send(Input::Signal(meaning)).is_err() {
                    return;
                }
            }
        }));
    }
    Ok(())
}
