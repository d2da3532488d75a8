//! The lock that makes one fleet of one runtime directory.
//!
//! It owns `private/lock`, which the supervisor locks and every worker inherits, so that it stays locked
//! while any process of the fleet lives, and the pid files. It never waits for the lock. The entry takes
//! it; `act` writes the pids into it as workers come and go.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::Pid;

use super::runtime_dir::{self, Owner};

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error(
        "a fleet is already running here, pid {pid} ({path}); use pgfleet status, or stop it with pgfleet stop"
    )]
    Running { pid: i32, path: PathBuf },
    #[error("orphaned workers {} of an earlier fleet still serve ({}); wait until their clients have left, or kill them", list(pids), path.display())]
    Orphans { pids: Vec<i32>, path: PathBuf },
    #[error("{0} is locked by a process that is not named in it; find it with fuser and end it")]
    Unknown(PathBuf),
    #[error("pidfile {} names pid {pid}, which lives; set another pidfile, or remove it if that is not a pooler", path.display())]
    PidFile { pid: i32, path: PathBuf },
    #[error("cannot use {path}: {source}; check who owns it, or set another path")]
    File { path: PathBuf, source: io::Error },
}

fn list(pids: &[i32]) -> String {
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

/// The lock, held as long as this or any inherited copy is open.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    pid_files: Vec<PathBuf>,
}

impl Lock {
    /// Takes the lock of a runtime directory, or says who has it.
    pub(crate) fn take(runtime: &Path, owner: Owner) -> Result<Self, LockError> {
        let path = runtime_dir::private_dir(runtime).join("lock");
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(holder(&mut file, &path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        nix::unistd::fchown(&file, Some(owner.uid), Some(owner.gid))
            .map_err(|errno| failed(errno.into()))?;
        Ok(Self { file, path, pid_files: Vec::new() })
    }

    /// A copy for a worker to inherit: it is not closed on exec.
    pub(crate) fn inheritable(&self) -> io::Result<OwnedFd> {
        Ok(nix::unistd::dup(&self.file)?)
    }

    /// Writes the pids of the fleet, the supervisor's first.
    pub(crate) fn name(&mut self, workers: impl Iterator<Item = u32>) -> io::Result<()> {
        let mut text = format!("{}\n", std::process::id());
        for pid in workers {
            text.push_str(&format!("{pid}\n"));
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }

    /// The same for a file of the operator's choice: refused if it names another process that lives.
    pub(crate) fn claim_pid_file(&mut self, path: PathBuf, owner: Owner) -> Result<(), LockError> {
        let named = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        match named {
            Some(pid) if pid != own_pid() && is_alive(pid) => Err(LockError::PidFile { pid, path }),
            Some(_) | None => self.write_pid(path, owner),
        }
    }

    /// Writes the supervisor's pid to a file of its own, which is removed at the end.
    pub(crate) fn write_pid(&mut self, path: PathBuf, owner: Owner) -> Result<(), LockError> {
        let failed = |source| LockError::File { path: path.clone(), source };
        // Its directory may belong to the user that the daemon drops to: no link is followed.
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
            .open(&path)
            .map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
        nix::unistd::fchown(&file, Some(owner.uid), Some(owner.gid))
            .map_err(|errno| failed(errno.into()))?;
        self.pid_files.push(path);
        Ok(())
    }

    /// The fleet ends: removes the pid files, and names no one any more.
    ///
    /// The lock file stays: removing it would let two fleets lock two files of one name.
    pub(crate) fn release(self) {
        for path in &self.pid_files {
            if let Err(error) = fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                log::warn!("cannot remove {}: {error}", path.display());
            }
        }
        if let Err(error) = self.file.set_len(0) {
            log::warn!("cannot empty {}: {error}", self.path.display());
        }
    }
}

fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// Who has the lock, as far as the file says.
fn holder(file: &mut File, path: &Path) -> LockError {
    let mut text = String::new();
    if let Err(source) = file.read_to_string(&mut text) {
        return LockError::File { path: path.to_owned(), source };
    }
    let pids: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let path = path.to_owned();
    match pids.split_first() {
        Some((&pid, _)) if is_alive(pid) => LockError::Running { pid, path },
        Some((_, workers)) => {
            let pids: Vec<i32> = workers.iter().copied().filter(|pid| is_alive(*pid)).collect();
            if pids.is_empty() {
                LockError::Unknown(path)
            } else {
                LockError::Orphans { pids, path }
            }
        }
        None => LockError::Unknown(path),
    }
}

fn is_alive(pid: i32) -> bool {
    let is_there = !matches!(signal::kill(Pid::from_raw(pid), None), Err(Errno::ESRCH));
    is_there && !is_zombie(pid)
}

/// Whether it has ended and only waits to be reaped (proc(5)); it holds no lock any more.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Owner {
        Owner { uid: nix::unistd::geteuid(), gid: nix::unistd::getegid() }
    }

    fn runtime() -> tempfile::TempDir {
        let runtime = tempfile::tempdir().unwrap();
        runtime_dir::prepare(runtime.path(), me()).unwrap();
        runtime
    }

    #[test]
    fn a_second_start_is_refused_with_the_pid() {
        let runtime = runtime();
        let mut lock = Lock::take(runtime.path(), me()).unwrap();
        lock.name([1].into_iter()).unwrap();
        let error = Lock::take(runtime.path(), me()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("already running here, pid {}", std::process::id())),
            "{error}"
        );
    }

    #[test]
    fn a_pid_file_that_is_a_link_is_refused_and_its_target_untouched() {
        let runtime = runtime();
        let target = runtime.path().join("target");
        fs::write(&target, "precious").unwrap();
        let link = runtime.path().join("pid");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut lock = Lock::take(runtime.path(), me()).unwrap();
        assert!(lock.write_pid(link, me()).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    }

    #[test]
    fn a_pid_file_that_names_a_living_process_is_refused() {
        let runtime = runtime();
        let path = runtime.path().join("fleet.pid");
        fs::write(&path, "1\n").unwrap();
        let mut lock = Lock::take(runtime.path(), me()).unwrap();
        let error = lock.claim_pid_file(path.clone(), me()).unwrap_err().to_string();
        assert!(error.contains("names pid 1, which lives"), "{error}");
        fs::write(&path, "not a pid").unwrap();
        lock.claim_pid_file(path, me()).unwrap();
    }

    #[test]
    fn live_orphans_are_named() {
        let runtime = runtime();
        let lock = Lock::take(runtime.path(), me()).unwrap();
        let copy = lock.inheritable().unwrap();
        let dead = 0x3fff_ffff;
        let text = format!("{dead}\n{}\n", std::process::id());
        fs::write(runtime_dir::private_dir(runtime.path()).join("lock"), text).unwrap();
        drop(lock);
        let error = Lock::take(runtime.path(), me()).unwrap_err();
        assert!(matches!(error, LockError::Orphans { ref pids, .. } if pids.len() == 1), "{error}");
        drop(copy);
        assert!(Lock::take(runtime.path(), me()).is_ok());
    }

    #[test]
    fn the_end_removes_pid_files_and_frees_the_lock() {
        let runtime = runtime();
        let mut lock = Lock::take(runtime.path(), me()).unwrap();
        let pid = runtime_dir::private_dir(runtime.path()).join("pid");
        lock.write_pid(pid.clone(), me()).unwrap();
        assert!(pid.exists());
        lock.release();
        assert!(!pid.exists());
        assert!(Lock::take(runtime.path(), me()).is_ok());
    }
}
