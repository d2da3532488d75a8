//! The start of the supervisor, step by step.
//!
//! It loads and checks everything, binds everything, gives up root's rights, and only then lets the loop begin.
//! Whatever fails is said to whoever started us, with the way out. It never leaves half a fleet behind: a
//! failed step ends the process before any worker has started.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use log::LevelFilter;
use pgfleet_config::{Problem, Settings, Workers};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::Start;
use super::console::Console;
use super::desk::Desk;
use super::listeners::{ListenError, Listeners, Spare};
use super::lock::{Lock, LockError};
use super::office::{Office, Prepared};
use super::privileges::{self, Identity, PrivilegesError};
use super::ready::Ready;
use super::runtime_dir::{self, RuntimeDirError};
use super::signals;
use crate::ledger::Ledger;
use crate::log_line;

/// The exit code for what only another configuration can mend (`EX_CONFIG`).
const CONFIGURATION: u8 = 78;

/// Why the fleet does not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{}", lines(_0))]
    Configuration(Vec<Problem>),
    #[error(
        "no configuration: there is none in the usual places; give its path with --config, or make one with pgfleet init"
    )]
    NoConfiguration,
    #[error("--workers {0}: {1}")]
    Workers(String, String),
    #[error(transparent)]
    Privileges(#[from] PrivilegesError),
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot open logfile: {0}; check its directory and who owns it")]
    Log(io::Error),
    #[error(
        "cannot make the shared memory of the fleet: {0}; see the limits of memory and open files"
    )]
    Ledger(io::Error),
    #[error("there are no random numbers: {0}")]
    Random(getrandom::Error),
    #[error("cannot start the event loop: {0}; see the limit of open files")]
    Runtime(io::Error),
}

impl StartError {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Configuration(_)
            | Self::NoConfiguration
            | Self::Workers(..)
            | Self::Privileges(_) => ExitCode::from(CONFIGURATION),
            Self::RuntimeDir(_) | Self::Lock(_) | Self::Listen(_) | Self::Log(_) => {
                ExitCode::FAILURE
            }
            Self::Ledger(_) | Self::Random(_) | Self::Runtime(_) => ExitCode::FAILURE,
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Runs the supervisor to its end.
pub(super) fn run(start: Start) -> ExitCode {
    let mut ready = Ready::take(start.ready_fd);
    match prepare(&start) {
        Ok(parts) => serve(parts, ready),
        Err(error) => {
            note_failure(&start, &error);
            fail(&mut ready, &error)
        }
    }
}

/// Leaves the reason of a failed start in the log file, too, as far as it is known by then.
fn note_failure(start: &Start, error: &StartError) {
    let Some(config) = pgfleet_config::find(start.config.as_deref()) else { return };
    let sink = log_line::Sink {
        // Whoever started us reads it there without a stamp.
        errors: log_line::Errors::Quiet,
        file: pgfleet_config::logfile(&config),
        level: LevelFilter::Info,
    };
    // A file that root made here could not be opened by whoever runs the fleet later.
    let is_right = |file: &PathBuf| !nix::unistd::geteuid().is_root() || file.exists();
    if sink.file.as_ref().is_some_and(is_right) && log_line::supervisor(sink).is_ok() {
        for line in error.to_string().lines() {
            log::error!(target: log_line::FATAL, "{line}");
        }
    }
}

fn fail(ready: &mut Ready, error: &StartError) -> ExitCode {
    // The log may not be open yet, and with --quiet a failed start must still say why.
    let mut shown = io::stderr().lock();
    let _unseen = writeln!(shown, "{error}");
    ready.fail(&error.to_string());
    error.exit_code()
}

/// Everything that the loop needs, bound and checked.
struct Parts {
    settings: Settings,
    config: PathBuf,
    asked: Option<Workers>,
    count: u16,
    listeners: Listeners,
    console: Console,
    lock: Lock,
    ledger: Ledger,
    ledger_descriptor: std::os::fd::OwnedFd,
    secret: [u8; 32],
    errors: log_line::Errors,
}

fn prepare(start: &Start) -> Result<Parts, StartError> {
    let (settings, config) = configuration(start)?;
    let asked = start.workers.as_ref().map(|text| asked(text)).transpose()?;
    let (count, notes) =
        pgfleet_config::worker_count(&settings, asked).map_err(StartError::Configuration)?;
    let identity = Identity::of(&settings)?;
    let owner = identity.owner();
    let runtime = pgfleet_config::runtime_dir(&settings);
    runtime_dir::prepare(&runtime, owner)?;
    let mut lock = Lock::take(&runtime, owner)?;
    let errors = if start.quiet { log_line::Errors::Quiet } else { log_line::Errors::Written };
    log_line::supervisor(sink(&settings, errors)).map_err(StartError::Log)?;
    if let Some(logfile) = &settings.global.logfile {
        std::os::unix::fs::lchown(logfile, Some(owner.uid.as_raw()), Some(owner.gid.as_raw()))
            .map_err(StartError::Log)?;
    }
    settings.notes.iter().chain(&notes).for_each(|note| log::info!("{note}"));
    settings.vacancies().iter().for_each(|line| log::warn!("{line}"));
    let spare = match identity {
        Identity::Become(_) => Spare::All,
        Identity::Own(_) => Spare::None,
    };
    privileges::raise_open_files(&settings, count);
    let listeners = Listeners::bind(&settings, &runtime, spare)?;
    let console = Console::bind(&settings, &runtime, owner)?;
    lock.write_pid(runtime_dir::private_dir(&runtime).join("pid"), owner)?;
    if let Some(path) = &settings.global.pidfile {
        lock.claim_pid_file(path.clone(), owner)?;
    }
    identity.assume()?;
    let (ledger, ledger_descriptor) = Ledger::create().map_err(StartError::Ledger)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(StartError::Random)?;
    Ok(Parts {
        settings,
        config,
        asked,
        count,
        listeners,
        console,
        lock,
        ledger,
        ledger_descriptor,
        secret,
        errors,
    })
}

/// The settings and the absolute path of their file, so that a reload reads the same one.
fn configuration(start: &Start) -> Result<(Settings, PathBuf), StartError> {
    let found = pgfleet_config::find(start.config.as_deref()).ok_or(StartError::NoConfiguration)?;
    let path = std::path::absolute(&found).unwrap_or(found);
    let settings = pgfleet_config::load(&path).map_err(StartError::Configuration)?;
    Ok((settings, path))
}

fn asked(text: &str) -> Result<Workers, StartError> {
    text.parse().map_err(|reason| StartError::Workers(text.to_owned(), reason))
}

/// Where the log of these settings goes.
pub(super) fn sink(settings: &Settings, errors: log_line::Errors) -> log_line::Sink {
    let level = match settings.global.verbose {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    log_line::Sink { errors, file: settings.global.logfile.clone(), level }
}

/// The loop, on one thread.
fn serve(parts: Parts, mut ready: Ready) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&mut ready, &StartError::Runtime(error)),
    };
    let Parts {
        settings,
        config,
        asked,
        count,
        listeners,
        console,
        lock,
        ledger,
        ledger_descriptor,
        secret,
        errors,
    } = parts;
    let (inputs, queue) = mpsc::unbounded_channel();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let started =
            signals::watch(&inputs).and_then(|()| console.serve(Desk::new(inputs.clone())));
        // The socket's file lives as long as this does.
        let _serving = match started {
            Ok(serving) => serving,
            Err(error) => return fail(&mut ready, &StartError::Runtime(error)),
        };
        log::info!("pgfleet {} starts with {count} workers", env!("CARGO_PKG_VERSION"));
        let prepared = Prepared {
            settings,
            config,
            workers: asked,
            count,
            listeners,
            lock,
            ledger,
            ledger_descriptor,
            secret,
            ready,
            errors,
        };
        Office::new(prepared, inputs).run(queue).await
    })
}
