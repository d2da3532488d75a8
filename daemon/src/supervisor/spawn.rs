//! Starts a worker's process and watches it until it is gone.
//!
//! It owns the process: its link, its log socket, its end. It never decides whether or when; `act` calls
//! it, and learns of the worker's messages and of its end as inputs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::AsRawFd;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::input::Input;
use super::lock::Lock;
use crate::link::channel::{self, Channel, Receiver, Sender};
use crate::link::descriptor;
use crate::link::message::{ToSupervisor, WorkerId};
use crate::log_line;

/// The running executable, also when its file has been replaced.
const EXECUTABLE: &str = "/proc/self/exe";
/// What a worker keeps of the environment: no secret can be in these.
const KEPT_VARIABLES: [&str; 5] = ["PATH", "TZ", "LANG", "LC_ALL", "RUST_BACKTRACE"];
/// How long a worker may live on once its link is closed.
const LINK_GRACE: Duration = Duration::from_secs(2);
/// How long the link of a dead worker may still bring messages.
const LINK_REST: Duration = Duration::from_secs(1);

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("cannot start a worker: {0}; see the limits of processes and open files")]
    Spawn(#[from] io::Error),
    #[error("cannot make the link of a worker: {0}; see the limit of open files")]
    Link(#[from] Errno),
}

/// A started worker.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) sender: Sender,
    kill: mpsc::UnboundedSender<()>,
}

impl Process {
    /// Ends it at once. It is gone only when its `Exited` comes.
    pub(crate) fn kill(&self) {
        // Without a receiver it has been reaped already.
        let _reaped = self.kill.send(());
    }
}

/// Starts the process of a worker; must be called within the supervisor's `LocalSet`.
pub(crate) fn start(
    worker: WorkerId,
    lock: &Lock,
    inputs: mpsc::UnboundedSender<Input>,
) -> Result<Process, SpawnError> {
    let (ours, theirs) = channel::pair()?;
    let (log, their_log) = channel::pair()?;
    let inherited = lock.inheritable()?;
    let mut command = Command::new(EXECUTABLE);
    command
        .arg("worker")
        .env_clear()
        .envs(
            std::env::vars_os().filter(|(name, _)| KEPT_VARIABLES.iter().any(|kept| name == kept)),
        )
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::from(their_log))
        .process_group(0);
    let child = command.spawn()?;
    // The child has its own copy; ours must not be inherited by anyone else.
    drop(inherited);
    drop(command);
    let pid = child.id().ok_or_else(|| io::Error::other("it ended at once"))?;
    let (sender, receiver) = Channel::new(ours)?;
    let (kill, kills) = mpsc::unbounded_channel();
    let (logged, log_end) = oneshot::channel();
    drop(tokio::task::spawn_local(async move {
        if let Err(error) = copy_log(pid, log).await {
            log::warn!("the log of worker {worker} (pid {pid}) is lost from here on: {error}");
        }
        let _unheard = logged.send(());
    }));
    drop(tokio::task::spawn_local(watch(worker, child, receiver, kills, log_end, inputs)));
    Ok(Process { pid, sender, kill })
}

/// Passes on what the worker says, and says once when it is gone: reaped, with its link read to the end.
async fn watch(
    worker: WorkerId,
    mut child: Child,
    mut receiver: Receiver,
    mut kills: mpsc::UnboundedReceiver<()>,
    log_end: oneshot::Receiver<()>,
    inputs: mpsc::UnboundedSender<Input>,
) {
    let pass =
        |message, descriptors| inputs.send(Input::Link(worker, message, descriptors)).is_ok();
    let mut has_link = true;
    let status = loop {
        // All three are cancel-safe: `recv` keeps a half-read record in the receiver.
        tokio::select! {
            status = child.wait() => break status,
            Some(()) = kills.recv() => end(&mut child),
            message = receiver.recv::<ToSupervisor>(), if has_link => match message {
                Ok(Some((message, descriptors))) => {
                    pass(message, descriptors);
                }
                Ok(None) => has_link = false,
                Err(error) => {
                    log::error!("link to worker {worker}: {error}: the worker is ended");
                    has_link = false;
                    end(&mut child);
                }
            },
            () = tokio::time::sleep(LINK_GRACE), if !has_link => end(&mut child),
        }
    };
    while has_link {
        match timeout(LINK_REST, receiver.recv::<ToSupervisor>()).await {
            Ok(Ok(Some((message, descriptors)))) => has_link = pass(message, descriptors),
            Ok(Ok(None) | Err(_)) | Err(_) => has_link = false,
        }
    }
    // Its last words stand in the log before the line on its end.
    drop(timeout(LINK_REST, log_end).await);
    drop(inputs.send(Input::Exited(worker, describe(&status))));
}

fn end(child: &mut Child) {
    if let Err(error) = child.start_kill() {
        log::warn!("cannot kill pid {:?}: {error}", child.id());
    }
}

fn describe(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its status is unknown: {error}"),
    }
}

/// Writes the packets of a worker's log until it closes the socket.
async fn copy_log(pid: u32, log: OwnedFd) -> io::Result<()> {
    let log = descriptor::watch(log)?;
    let mut packet = vec![0; log_line::LONGEST + 64];
    loop {
        let mut ready = log.readable().await?;
        let received = ready.try_io(|log| {
            let raw = log.get_ref().as_fd().as_raw_fd();
            recv(raw, &mut packet, MsgFlags::MSG_DONTWAIT).map_err(io::Error::from)
        });
        match received {
            Ok(Ok(0)) => return Ok(()),
            Ok(Ok(length)) => log_line::from_worker(pid, packet.get(..length).unwrap_or_default()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => {}
        }
    }
}
