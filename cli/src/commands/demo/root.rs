//! The demo of root: it runs as another user, since Postgres refuses root.
//!
//! It owns the directory that the other user works in and removes it at the end; it never runs Postgres or the fleet
//! itself. The demo's frame calls it.

use std::fs;
use std::io;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};
use tokio::process::{Child, Command};
use tokio::runtime::Runtime;

use super::Interrupts;
use super::postgres::Programs;
use super::stage;
use crate::args::{Demo, Format, Global};
use crate::daemon;
use crate::exit::Failure;

/// The first of these users that exists runs the demo.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Runs the demo as one of them, and passes on how it ended.
pub(super) fn run(
    demo: &Demo,
    global: &Global,
    runtime: &Runtime,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    // What is missing is better said before anything is made.
    Programs::find()?;
    let user = USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    let user = user.ok_or_else(|| {
        Failure::Refused("root cannot run Postgres, and there is no user postgres or nobody; run the demo as another user".to_owned())
    })?;
    let dir = stage::directory()?;
    let code = run_in(dir.path(), &user, demo, global, runtime, interrupts);
    let removed = stage::remove(dir);
    match code? {
        0 => removed,
        code => removed.and(Err(Failure::Said(code))),
    }
}

/// Runs it as this user in this directory, to its exit code.
fn run_in(
    dir: &Path,
    user: &User,
    demo: &Demo,
    global: &Global,
    runtime: &Runtime,
    interrupts: &mut Interrupts,
) -> Result<u8, Failure> {
    let programs = dir.join("bin");
    let failed = || Failure::system(format!("prepare {}", dir.display()));
    // The other user may not be allowed to look into the directory that they are in.
    copy(&std::env::current_exe().map_err(failed())?, &programs.join("pgfleet"))
        .map_err(failed())?;
    copy(&daemon::executable()?, &programs.join("pgfleetd")).map_err(failed())?;
    chown(dir, Some(user.uid), Some(user.gid)).map_err(io::Error::from).map_err(failed())?;
    let mut command = Command::new(programs.join("pgfleet"));
    command
        .args(arguments(demo, global))
        .arg("--stage")
        .arg(dir)
        .current_dir(dir)
        .env("HOME", dir)
        .env("USER", &user.name)
        .env("LOGNAME", &user.name)
        .uid(user.uid.as_raw())
        .gid(user.gid.as_raw());
    runtime.block_on(async {
        let child = command.spawn().map_err(Failure::system(format!("run as {}", user.name)))?;
        wait(child, interrupts).await
    })
}

/// Waits for the end of the demo; an interrupt is passed on, and it ends by itself.
async fn wait(mut child: Child, interrupts: &mut Interrupts) -> Result<u8, Failure> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
    loop {
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(Failure::system("wait for the demo"))?;
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                return Ok(code.unwrap_or(1));
            }
            () = interrupts.next() => {
                if let Some(pid) = pid {
                    // It may be gone already, which is what is wanted.
                    let _gone = kill(pid, Signal::SIGTERM);
                }
            }
        }
    }
}

fn arguments(demo: &Demo, global: &Global) -> Vec<String> {
    let format = match global.format {
        Format::Table => "table",
        Format::Json => "json",
        Format::Csv => "csv",
    };
    let mut words = vec!["--format".to_owned(), format.to_owned()];
    if global.quiet {
        words.push("--quiet".to_owned());
    }
    if global.no_color {
        words.push("--no-color".to_owned());
    }
    words.extend(["demo".to_owned(), "--seconds".to_owned(), demo.seconds.to_string()]);
    words.extend(["--workers".to_owned(), demo.workers.to_string()]);
    words
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map(drop)
}
