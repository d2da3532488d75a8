//! The daemon as a process: where its executable is, how it is started, and whether it is gone.
//!
//! It owns the hand-over from this command to `pgfleetd` and never talks to a running one. `start`, `stop` and
//! the hidden `detach` call it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::Pid;

use crate::exit::Failure;

/// The name of the executable.
const NAME: &str = "pgfleetd";

/// What the daemon says when it serves.
const READY: &str = "ready\n";

/// The executable beside this one, else the first in PATH.
pub(crate) fn executable() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this executable"))?;
    let beside = own.parent().map(|dir| dir.join(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join(NAME));
    beside.into_iter().chain(in_path).find(|candidate| candidate.is_file()).ok_or_else(|| {
        let dir = own.parent().unwrap_or(Path::new("."));
        Failure::Refused(format!(
            "cannot find {NAME} in {} or in PATH; install it beside pgfleet",
            dir.display()
        ))
    })
}

/// Becomes the daemon; returns only if that fails.
pub(crate) fn become_it(program: &Path, arguments: &[OsString]) -> Failure {
    let error = Command::new(program).args(arguments).exec();
    Failure::system(format!("run {}", program.display()))(error)
}

/// Leaves the session of the terminal and becomes a program; returns only if that fails.
pub(crate) fn detach(program: &[OsString]) -> Failure {
    let Some((program, arguments)) = program.split_first() else {
        return Failure::Usage("no program to become".to_owned());
    };
    match nix::unistd::setsid() {
        Ok(_session) => become_it(Path::new(program), arguments),
        Err(errno) => Failure::system("leave the session of the terminal")(errno.into()),
    }
}

/// A daemon that is starting in the background.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Child,
    reader: PipeReader,
}

/// Starts the daemon in a session of its own, without the terminal.
pub(crate) fn start(program: &Path, arguments: &[OsString]) -> Result<Starting, Failure> {
    let failed = || Failure::system(format!("start {}", program.display()));
    let (reader, writer) = io::pipe().map_err(failed())?;
    let writer = OwnedFd::from(writer);
    // Only the daemon shall have this end: then the end of the daemon is the end of the pipe.
    fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty())).map_err(io::Error::from).map_err(failed())?;
    let own = std::env::current_exe().map_err(failed())?;
    let child = Command::new(own)
        .args(["detach", "--"])
        .arg(program)
        .args(arguments)
        .arg("--ready-fd")
        .arg(writer.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed())?;
    Ok(Starting { child, reader })
}

impl Starting {
    /// Waits until the daemon serves, or has given its reason not to.
    pub(crate) fn wait(mut self) -> Result<(), Failure> {
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => said.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::system("hear from the daemon")(error)),
            }
            if said == READY.as_bytes() {
                return Ok(());
            }
        }
        let status = self.child.wait().map_err(Failure::system("wait for the daemon"))?;
        let reason = String::from_utf8_lossy(&said).trim_end().to_owned();
        if reason.is_empty() {
            return Err(Failure::Refused(format!(
                "the daemon ended before it served ({status}); run pgfleet start --foreground to see why"
            )));
        }
        Err(Failure::of_daemon(status.code(), reason))
    }
}

/// A process that may end, told from a later one of the same number by its time of birth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pid: Pid,
    born: Option<String>,
}

impl Watched {
    /// Begins to watch.
    pub(crate) fn new(pid: Pid) -> Self {
        Self { pid, born: stat(pid).map(|(_, born)| born) }
    }

    /// Whether it still runs; a process that only waits to be reaped does not.
    pub(crate) fn is_alive(&self) -> bool {
        let now = stat(self.pid);
        now.is_some_and(|(state, born)| state != "Z" && state != "X" && self.born == Some(born))
    }

    /// Its number.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }
}

/// The state and the time of birth of a process, fields 3 and 22 of proc(5).
fn stat(pid: Pid) -> Option<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, also blanks and parentheses.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.to_owned();
    let born = fields.nth(18)?.to_owned();
    Some((state, born))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_to_its_end_and_not_beyond() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let watched = Watched::new(Pid::from_raw(child.id().try_into().unwrap()));
        assert!(watched.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!watched.is_alive());
        let later = Watched { born: Some("0".to_owned()), pid: Pid::this() };
        assert!(!later.is_alive());
    }
}
