//! The demo's directory, the environment of what runs in it, and the clearing away.
//!
//! It owns everything that the demo makes, and ends only processes that the demo has started. The story works on it,
//! the frame clears it at the end, whatever happened.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::postgres::Cluster;
use crate::args::Global;
use crate::daemon::Watched;
use crate::exit::Failure;
use crate::screen::Screen;

/// Longer paths would not leave room for the names of sockets.
const LONGEST_BASE: usize = 60;

const START: Duration = Duration::from_secs(40);

const END: Duration = Duration::from_secs(5);

/// Everything that the demo has made so far.
#[derive(Debug)]
pub(super) struct Stage {
    dir: PathBuf,
    /// Removed with it, unless someone else made it for us.
    own: Option<TempDir>,
    program: PathBuf,
    quiet: bool,
    /// The port of the fleet.
    pub(super) port: u16,
    /// `pgfleet start`, while it runs.
    starting: Option<Child>,
    /// The throwaway Postgres, once it runs.
    pub(super) cluster: Option<Cluster>,
}

/// A new private directory for a demo.
pub(super) fn directory() -> Result<TempDir, Failure> {
    let base = std::env::temp_dir();
    let base = if base.as_os_str().len() > LONGEST_BASE { PathBuf::from("/tmp") } else { base };
    tempfile::Builder::new()
        .prefix("pgfleet-demo-")
        .tempdir_in(&base)
        .map_err(Failure::system(format!("make a directory in {}", base.display())))
}

/// Removes the directory; a process that was killed a moment ago may still have been writing there.
pub(super) fn remove(dir: TempDir) -> Result<(), Failure> {
    let path = dir.keep();
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(&path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if begin.elapsed() >= END => {
                return Err(Failure::system(format!("remove {}", path.display()))(error));
            }
            Err(_still_in_use) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A process with the children that it starts: when nobody waits for it any more, all of them end.
struct Group(Option<Pid>);

impl Group {
    /// The group that was made for this process.
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw))
    }

    /// It has ended by itself.
    fn disband(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may just have ended.
            let _gone = killpg(pid, Signal::SIGKILL);
        }
    }
}

impl Stage {
    /// Makes the directory, or takes the one that was made for it, and finds a free port.
    pub(super) fn set_up(given: Option<PathBuf>, global: &Global) -> Result<Self, Failure> {
        let own = match &given {
            Some(_) => None,
            None => Some(directory()?),
        };
        let made = own.as_ref().map(|own| own.path().to_owned());
        let dir = given.or(made).unwrap_or_default();
        // Bound and let go: nobody else gets this port so soon.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(Failure::system("find a free port"))?.port();
        let program = std::env::current_exe().map_err(Failure::system("find this executable"))?;
        Ok(Self { dir, own, program, quiet: global.quiet, port, starting: None, cluster: None })
    }

    /// Where everything is.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The runtime directory of the fleet.
    fn runtime(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// A command that knows only this demo, and that ends when nobody waits for it any more.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            // Neither another Postgres nor another fleet may be meant.
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command
            .env("PGFLEET_CONFIG", self.dir.join("pgfleet.toml"))
            .env("PGFLEET_RUNTIME_DIR", self.runtime())
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The same for a program of PostgreSQL, whose words are read here and so must be English.
    pub(super) fn tool(&self, program: &Path) -> Command {
        let mut command = self.command(program);
        command.env("LC_ALL", "C");
        command
    }

    /// This executable with these words, in a group of its own: an interrupt is for the demo to act on.
    fn own(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.program);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::inherit()).process_group(0);
        if self.quiet {
            command.arg("--quiet");
        }
        command
    }

    /// Runs this executable with these words, and gives what it printed.
    pub(super) async fn pgfleet(&self, words: &[&str]) -> Result<String, Failure> {
        let line = format!("pgfleet {}", words.join(" "));
        let failed = Failure::system(format!("run {line}"));
        let output = self.own(words).output().await.map_err(failed)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(Failure::Refused(format!("{line} failed ({})", output.status)))
        }
    }

    /// Starts the fleet, and gives what `pgfleet start` printed.
    ///
    /// When this is dropped before its end, the command runs on: only when it is done can the daemon be found and ended.
    pub(super) async fn start(&mut self) -> Result<String, Failure> {
        let failed = || Failure::system("run pgfleet start");
        let child = self.own(&["start"]).kill_on_drop(false).spawn().map_err(failed())?;
        let child = self.starting.insert(child);
        let mut printed = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_string(&mut printed).await.map_err(failed())?;
        }
        let status = child.wait().await.map_err(failed())?;
        self.starting = None;
        match status.success() {
            true => Ok(printed),
            false => Err(Failure::Refused(format!("pgfleet start failed ({status})"))),
        }
    }

    /// Runs a command of which only a failure is worth a word.
    pub(super) async fn silent(&self, mut command: Command) -> Result<(), Failure> {
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        let failed = || Failure::system(format!("run {name}"));
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(failed())?;
        let group = Group::of(&child);
        let output = child.wait_with_output().await.map_err(failed())?;
        group.disband();
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Failure::Refused(format!("{name} failed ({}):\n{said}", output.status)))
    }

    /// After a failure: the ends of the logs, which are about to be removed.
    pub(super) fn explain(&self, failure: &Failure, screen: &Screen) {
        if matches!(failure, Failure::Output(_)) {
            return;
        }
        for name in ["pgfleet.log", "postgres.log"] {
            let text = fs::read_to_string(self.dir.join(name)).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.get(lines.len().saturating_sub(8)..).unwrap_or_default();
            if !last.is_empty() {
                screen.remark(&format!("the end of {name}:\n  {}", last.join("\n  ")));
            }
        }
    }

    /// Ends what still runs and removes the directory.
    pub(super) async fn clear(mut self) -> Result<(), Failure> {
        if let Some(mut starting) = self.starting.take() {
            // It ends by itself, well or not; the fleet cannot be found before.
            let _ended = timeout(START, starting.wait()).await;
        }
        self.end_fleet().await;
        if let Some(cluster) = self.cluster.take() {
            cluster.stop().await;
        }
        match self.own {
            Some(own) => remove(own),
            // Whoever made the directory removes it.
            None => Ok(()),
        }
    }

    /// Ends the processes that hold the lock of the fleet: the supervisor at once, and whatever is left by force.
    async fn end_fleet(&self) {
        let text = fs::read_to_string(self.runtime().join("private/lock")).unwrap_or_default();
        let pids = text.lines().filter_map(|line| line.trim().parse().ok()).map(Pid::from_raw);
        let processes: Vec<Watched> =
            pids.map(Watched::new).filter(|process| process.is_alive()).collect();
        if let Some(supervisor) = processes.first() {
            // QUIT means: without waiting for anyone. It may just have ended.
            let _gone = kill(supervisor.pid(), Signal::SIGQUIT);
        }
        let begin = Instant::now();
        while begin.elapsed() < END && processes.iter().any(Watched::is_alive) {
            sleep(Duration::from_millis(50)).await;
        }
        for process in processes.iter().filter(|process| process.is_alive()) {
            let _gone = kill(process.pid(), Signal::SIGKILL);
        }
    }
}
