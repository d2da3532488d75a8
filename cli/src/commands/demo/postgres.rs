//! The throwaway Postgres of the demo.
//!
//! It owns the search for the server programs, and one cluster in the demo's directory that listens on a Unix socket
//! alone. It never looks at clusters that are there already. The stage and the story call it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use super::stage::Stage;
use crate::exit::Failure;

/// What the demo needs of PostgreSQL.
const NEEDED: [&str; 3] = ["initdb", "postgres", "pgbench"];

/// The name of the socket; nobody else listens in that directory.
pub(super) const PORT: u16 = 5432;

/// The superuser of the cluster, and the user that the fleet logs in as.
pub(super) const USER: &str = "pgfleet";

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(10);

/// The directory with the server programs.
#[derive(Debug)]
pub(super) struct Programs {
    dir: PathBuf,
    /// `initdb (PostgreSQL) 17.2`, shortened to what follows the blank.
    pub(super) version: String,
}

impl Programs {
    /// The newest that are installed: where distributions put them, in PATH, and where `pg_config` points.
    pub(super) fn find() -> Result<Self, Failure> {
        let found = candidates()
            .into_iter()
            .filter(|dir| NEEDED.iter().all(|name| dir.join(name).is_file()));
        let newest = found.filter_map(|dir| {
            let version = version(&dir)?;
            Some((number(&version), Self { dir, version }))
        });
        newest.max_by_key(|(number, _)| *number).map(|(_, programs)| programs).ok_or_else(|| {
            Failure::Refused(
                "no PostgreSQL server programs found (initdb, postgres, pgbench); install them: \
                 apt install postgresql (Debian, Ubuntu), dnf install postgresql-server postgresql-contrib (Fedora), \
                 brew install postgresql (Homebrew)"
                    .to_owned(),
            )
        })
    }

    /// The path of one of them.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

fn candidates() -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for (parent, suffix) in
        [("/usr/lib/postgresql", "bin"), ("/usr/lib64/pgsql", "bin"), ("/usr", "bin")]
    {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        // Of /usr itself only pgsql-17 and the like are of interest.
        let named = entries.filter(|entry| {
            parent != "/usr" || entry.file_name().to_string_lossy().starts_with("pgsql")
        });
        dirs.extend(named.map(|entry| entry.path().join(suffix)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    dirs.extend(std::env::split_paths(&path));
    let asked = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output();
    dirs.extend(
        asked
            .ok()
            .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
    );
    dirs
}

fn version(dir: &Path) -> Option<String> {
    let output = Command::new(dir.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_once(')')?.1.trim().to_owned())
}

/// `17.2` and `18beta1` as numbers that can be compared.
fn number(version: &str) -> (u32, u32) {
    let mut digits =
        version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    (digits.next().unwrap_or(0), digits.next().unwrap_or(0))
}

/// The running cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    server: Child,
}

/// The directory of its socket.
pub(super) fn socket_dir(stage: &Stage) -> PathBuf {
    stage.dir().join("postgres")
}

fn data_dir(stage: &Stage) -> PathBuf {
    stage.dir().join("data")
}

/// Makes the files of the cluster.
pub(super) async fn make(stage: &Stage, programs: &Programs) -> Result<(), Failure> {
    let sockets = socket_dir(stage);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&sockets)
        .map_err(Failure::system(format!("make {}", sockets.display())))?;
    let mut initdb = stage.tool(&programs.path("initdb"));
    initdb.arg("-D").arg(data_dir(stage));
    initdb.args(["-U", USER, "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8"]);
    stage.silent(initdb).await
}

impl Cluster {
    /// Starts its server. It answers a little later.
    pub(super) fn spawn(stage: &Stage, programs: &Programs) -> Result<Self, Failure> {
        let failed = || Failure::system("start the throwaway Postgres");
        let log = File::create(stage.dir().join("postgres.log")).map_err(failed())?;
        let mut server = stage.tool(&programs.path("postgres"));
        server.arg("-D").arg(data_dir(stage)).arg("-k").arg(socket_dir(stage)).args(settings());
        // An interrupt of the terminal must not end it before the fleet: it has a group of its own.
        server.process_group(0).kill_on_drop(false);
        server.stdout(log.try_clone().map_err(failed())?).stderr(log);
        Ok(Self { server: server.spawn().map_err(failed())? })
    }

    /// Waits until its server answers in this directory.
    pub(super) async fn answers(&mut self, sockets: &Path) -> Result<(), Failure> {
        let begin = Instant::now();
        while begin.elapsed() < START {
            if connect(sockets).await.is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.server.try_wait() {
                return Err(Failure::Refused(format!(
                    "the throwaway Postgres ended at once ({status})"
                )));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Err(Failure::Refused(format!("the throwaway Postgres does not answer after {START:?}")))
    }

    /// Ends the server: without waiting for its clients, and if it does not end, by force.
    pub(super) async fn stop(mut self) {
        for signal in [Signal::SIGINT, Signal::SIGQUIT] {
            if let Some(pid) = self.server.id().and_then(|pid| i32::try_from(pid).ok()) {
                // It may just have ended.
                let _gone = kill(Pid::from_raw(pid), signal);
            }
            if timeout(STOP, self.server.wait()).await.is_ok() {
                return;
            }
        }
        // Nothing else is left to try.
        let _gone = self.server.kill().await;
    }
}

/// Small, fast, and not meant to survive anything.
fn settings() -> Vec<OsString> {
    let port = format!("port={PORT}");
    let all = [
        "listen_addresses=",
        &port,
        "fsync=off",
        "synchronous_commit=off",
        "max_connections=60",
        "shared_buffers=64MB",
    ];
    all.iter().flat_map(|setting| ["-c".into(), (*setting).into()]).collect()
}

/// A connection to the cluster itself, past the fleet.
pub(super) async fn connect(sockets: &Path) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(sockets).port(PORT).user(USER).dbname("postgres");
    let (client, connection) = config.connect(NoTls).await?;
    drop(tokio::spawn(async move {
        // Its end is seen by whoever uses the client.
        let _ended = connection.await;
    }));
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_wins() {
        let mut versions = ["9.6.24", "17.2 (Debian 17.2-1)", "18beta1", "16.10", "16.9"];
        versions.sort_by_key(|version| number(version));
        assert_eq!(versions, ["9.6.24", "16.9", "16.10", "17.2 (Debian 17.2-1)", "18beta1"]);
    }
}
