//! What is done to a fleet: start, scale, kill a worker, restart, reload, stop.
//! It never ends a process that is not the supervisor of this fleet or one of its children.
//! The suites call it as methods of `Fleet`.

use std::{
    fs::{self, File},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::{
    Fleet, command, files, reference,
    setup::{Setup, Start},
};
use crate::{
    process::Process,
    program::{Printed, run},
    scratch::Scratch,
    wait,
};

/// One worker, as the console tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Its slot.
    pub slot: i64,
    /// Its process.
    pub process: Process,
    /// Its state, in the console's words.
    pub state: String,
    /// The clients that it has.
    pub clients: i64,
}

/// Writes the files and starts nothing.
pub(super) fn unstarted(setup: Setup) -> Fleet {
    let setup = if reference::is_set() { reference::fitting(setup) } else { setup };
    let scratch = Scratch::make("fleet");
    scratch.dir("sock", 0o755);
    files::write(&scratch, &setup);
    Fleet { scratch, setup, foreground: None }
}

/// Starts a fleet; what was printed comes back with it when it did not start.
pub(super) fn start(setup: Setup) -> Result<Fleet, (Box<Fleet>, Printed)> {
    let mut fleet = unstarted(setup);
    let printed = match fleet.setup.start {
        Start::Foreground => {
            let child = spawn_foreground(&fleet);
            fleet.foreground = Some(child);
            fleet.wait_until_ready()
        }
        Start::Detached if reference::is_set() => {
            let printed = run(&mut reference::command(&fleet.config(), fleet.scratch.path()));
            fleet.wait_until_ready().map_or_else(|_| Some(printed), |()| None).map_or(Ok(()), Err)
        }
        Start::Detached => {
            let printed = fleet.command(&["start"]);
            if printed.status == Some(0) { Ok(()) } else { Err(printed) }
        }
    };
    match printed {
        Ok(()) => Ok(fleet),
        Err(printed) => Err((Box::new(fleet), printed)),
    }
}

fn spawn_foreground(fleet: &Fleet) -> Child {
    let err = File::create(fleet.path("err")).expect("files can be made in the scratch directory");
    let mut command = command(&fleet.scratch, &fleet.config(), &["start", "--foreground"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(err).spawn();
    child.expect("pgfleet can be started")
}

impl Fleet {
    /// Waits until the console answers; a foreground fleet that ends instead gives back what it said.
    fn wait_until_ready(&mut self) -> Result<(), Printed> {
        let deadline = Instant::now() + wait::PATIENCE;
        let ready = wait::before(deadline, || {
            if let Some(Ok(Some(status))) = self.foreground.as_mut().map(Child::try_wait) {
                let err = fs::read_to_string(self.path("err")).unwrap_or_default();
                return Some(Err(Printed { status: status.code(), out: String::new(), err }));
            }
            self.is_ready().then_some(Ok(()))
        });
        ready.unwrap_or_else(|| {
            Err(Printed { status: None, out: String::new(), err: "no console came up".to_owned() })
        })
    }

    /// Whether all wanted workers serve: the console answers before.
    fn is_ready(&self) -> bool {
        if reference::is_set() {
            return self.try_console("show version").is_ok();
        }
        self.try_console("show fleet").is_ok_and(|fleet| {
            let number = |key| fleet.find("key", key).map(|row| row.number("value"));
            number("serving") >= number("wanted")
        })
    }

    /// The supervisor; none when it is gone.
    pub fn supervisor(&self) -> Option<Process> {
        let text = fs::read_to_string(self.path("pid")).ok()?;
        let process = Process(text.lines().next()?.trim().parse().ok()?);
        process.is_alive().then_some(process)
    }

    /// The exit status of a foreground fleet, once it has ended.
    pub fn exit_status(&mut self) -> Option<i32> {
        let child = self.foreground.as_mut().expect("the fleet was started in the foreground");
        wait::until("the supervisor ends", || child.try_wait().ok().flatten()).code()
    }

    /// All workers, draining ones among them.
    pub fn workers(&self) -> Vec<Worker> {
        let table = self.console("show workers");
        let pid =
            |row: crate::table::Row<'_>| i32::try_from(row.number("pid")).expect("pids are small");
        let worker = |row: crate::table::Row<'_>| Worker {
            slot: row.number("slot"),
            process: Process(pid(row)),
            state: row.text("state").to_owned(),
            clients: row.text("clients").parse().unwrap_or(0),
        };
        table.rows().filter(|row| !matches!(row.text("pid"), "" | "0")).map(worker).collect()
    }

    /// The workers that serve.
    pub fn serving(&self) -> Vec<Worker> {
        self.workers().into_iter().filter(|worker| worker.state == "serving").collect()
    }

    /// The process in this slot.
    pub fn worker(&self, slot: i64) -> Process {
        let serving = self.serving();
        serving
            .iter()
            .find(|worker| worker.slot == slot)
            .expect("the slot has a serving worker")
            .process
    }

    /// Kills the worker in this slot outright, and gives back which process that was.
    pub fn kill_worker(&self, slot: i64) -> Process {
        let process = self.worker(slot);
        process.signal(Signal::SIGKILL);
        process
    }

    /// Waits until exactly so many workers serve and none else is there.
    pub fn wait_for_workers(&self, count: usize) {
        wait::until_true(&format!("{count} workers serve and no other is left"), || {
            let workers = self.workers();
            workers.len() == count && workers.iter().all(|worker| worker.state == "serving")
        });
    }

    /// Waits until this process has been replaced: all wanted workers serve, and it is not among them.
    pub fn wait_for_successor(&self, of: Process) {
        let wanted = self.wanted();
        wait::until_true("the worker has a successor", || {
            let serving = self.serving();
            serving.len() >= wanted && serving.iter().all(|worker| worker.process != of)
        });
    }

    fn wanted(&self) -> usize {
        let fleet = self.console("show fleet");
        let row =
            fleet.find("key", "wanted").expect("SHOW FLEET tells how many workers are wanted");
        usize::try_from(row.number("value")).expect("no fleet wants a negative number of workers")
    }

    /// `pgfleet scale N`, which must succeed.
    pub fn scale(&self, count: u32) {
        let _printed = self.command(&["scale", &count.to_string()]).well();
    }

    /// `pgfleet restart`, which must succeed.
    pub fn restart(&self) {
        let _printed = self.command(&["restart"]).well();
    }

    /// `pgfleet reload`, which must succeed.
    pub fn reload(&self) {
        let _printed = self.command(&["reload"]).well();
    }

    /// `pgfleet stop` in this mode, which must succeed and leave no process.
    pub fn stop(&mut self, mode: &str) {
        let all = self.processes();
        let _printed = self.command(&["stop", "--mode", mode]).well();
        if let Some(mut child) = self.foreground.take() {
            drop(child.wait());
        }
        wait::until_true("no process of the fleet is left", || {
            all.iter().all(|process| !process.is_alive())
        });
    }

    /// The supervisor and its children.
    pub fn processes(&self) -> Vec<Process> {
        let Some(supervisor) = self.supervisor() else { return Vec::new() };
        let children =
            Process::all().into_iter().filter(|process| process.parent() == Some(supervisor));
        [supervisor].into_iter().chain(children).collect()
    }

    fn tell(&self) {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.get(lines.len().saturating_sub(60)..).unwrap_or_default();
        eprintln!("--- the last of the fleet's log\n{}\n---", last.join("\n"));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if thread::panicking() {
            self.tell();
        }
        let all = self.processes();
        if let Some(supervisor) = all.first() {
            supervisor.signal(Signal::SIGQUIT);
        }
        let gone = || all.iter().all(|process| !process.is_alive()).then_some(());
        if wait::before(Instant::now() + Duration::from_secs(3), gone).is_none() {
            for process in &all {
                process.signal(Signal::SIGCONT);
                process.signal(Signal::SIGKILL);
            }
        }
        if let Some(mut child) = self.foreground.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
