//! What the kernel says of a process, and signals to it.
//! It never signals a process that the harness did not start.
//! The fleet asks it for its workers, and suites for their memory.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, SysconfVar, sysconf},
};

/// A process by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process(pub i32);

impl Process {
    /// All that there are.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Self).collect()
    }

    /// Its parent.
    pub fn parent(self) -> Option<Self> {
        self.stat()?.get(1)?.parse().ok().map(Self)
    }

    /// Sends the signal; a process that is gone has nothing against it.
    pub fn signal(self, signal: Signal) {
        let _gone = kill(Pid::from_raw(self.0), signal);
    }

    /// Whether it is there and not just a zombie.
    pub fn is_alive(self) -> bool {
        !matches!(self.state(), None | Some('Z' | 'X'))
    }

    /// Its state as in `ps`.
    pub fn state(self) -> Option<char> {
        self.stat()?.first()?.chars().next()
    }

    /// Resident memory in KiB.
    pub fn resident_kib(self) -> u64 {
        self.status("VmRSS:").unwrap_or(0)
    }

    /// The most resident memory that it ever had, in KiB.
    pub fn peak_kib(self) -> u64 {
        self.status("VmHWM:").unwrap_or(0)
    }

    /// User and system time so far, in milliseconds.
    pub fn cpu_ms(self) -> u64 {
        let ticks = self.stat().map_or(0, |fields| {
            [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<u64>().ok()).sum()
        });
        let hertz =
            sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|hertz| u64::try_from(hertz).ok());
        ticks * 1000 / hertz.unwrap_or(100)
    }

    /// The command line, with blanks between its words.
    pub fn command_line(self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
    }

    /// The effective user's number.
    pub fn uid(self) -> Option<u64> {
        self.status("Uid:")
    }

    /// The fields of `stat` after the name, the state first.
    fn stat(self) -> Option<Vec<String>> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        Some(rest.split_whitespace().map(str::to_owned).collect())
    }

    fn status(self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}
