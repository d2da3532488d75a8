//! Throwaway Postgres clusters: one for each test binary, and more for tests that stop theirs.
//! It never touches a cluster of the machine: the files are in a scratch directory, the port is a free one.
//! Suites ask [`Cluster::shared`] for a [`Database`], or start a [`Cluster`] of their own.

mod database;
mod files;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

pub use database::Database;

use crate::{
    account, address::Address, binaries, client::Client, failure::Failure, port, scratch::Scratch,
    wait,
};

/// Users that log in to Postgres, and how: `app` by SCRAM, `md5user` by md5, `plain` by cleartext, `raw` by trust,
/// `replica` like `app` and with the right to replicate, and `postgres` as superuser. All but `raw` and `postgres`
/// have this password.
pub const PASSWORD: &str = "s3cret";

/// A running Postgres.
#[derive(Debug)]
pub struct Cluster {
    scratch: Scratch,
    port: u16,
}

impl Cluster {
    /// The cluster of this test binary.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(Self::start_new)
    }

    /// A cluster of its own, for a test that stops it or changes its users.
    pub fn start_new() -> Self {
        let cluster = Self { scratch: Scratch::make("pg"), port: port::free() };
        cluster.scratch.dir("sock", 0o755);
        let init =
            cluster.program("initdb").arg("-D").arg(cluster.data()).args(files::INITDB).output();
        let init = init.expect("initdb can be started");
        assert!(init.status.success(), "initdb: {}", String::from_utf8_lossy(&init.stderr));
        cluster.scratch.write("data/pg_hba.conf", 0o600, files::HBA);
        let settings = files::settings(cluster.port, &cluster.socket_dir());
        cluster.scratch.write("data/postgresql.auto.conf", 0o600, &settings);
        cluster.start();
        cluster.superuser_in("template1").run(files::TEMPLATE);
        cluster.superuser_in("postgres").run(files::ROLES);
        cluster
    }

    /// Starts it, and returns when it takes connections.
    pub fn start(&self) {
        self.pg_ctl(&["start", "-w", "-t", "60"]);
    }

    /// Stops it: `smart`, `fast` or `immediate`.
    pub fn stop(&self, mode: &str) {
        self.pg_ctl(&["stop", "-w", "-t", "60", "-m", mode]);
    }

    /// Stops and starts it.
    pub fn restart(&self) {
        self.stop("fast");
        self.start();
    }

    fn pg_ctl(&self, arguments: &[&str]) {
        let mut command = self.program("pg_ctl");
        command.args(arguments).arg("-D").arg(self.data()).arg("-l").arg(self.log_file());
        // The server keeps what it inherits, so nothing of it may be a pipe of the test.
        let status =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(
            status.expect("pg_ctl can be started").success(),
            "pg_ctl {arguments:?} failed:\n{}",
            self.log()
        );
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(binaries::postgres(name));
        account::unprivileged(&mut command).current_dir(self.scratch.path()).env("LC_ALL", "C");
        command
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// The log so far.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The port, on 127.0.0.1 and `::1`.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its Unix socket.
    pub fn socket_dir(&self) -> String {
        self.scratch.path().join("sock").display().to_string()
    }

    /// The superuser's way in, past any pooler.
    pub fn address(&self) -> Address {
        Address {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            database: "postgres".to_owned(),
            user: "postgres".to_owned(),
            password: None,
            extra: String::new(),
        }
    }

    /// The superuser, connected past any pooler.
    pub fn superuser(&self) -> Client {
        self.superuser_in("postgres")
    }

    fn superuser_in(&self, database: &str) -> Client {
        wait::until("the superuser can connect", || {
            Client::connect(&self.address().in_database(database)).ok()
        })
    }

    /// A new, empty database of the user `app`.
    pub fn database(&self) -> Database<'_> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let name = format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.superuser().run(&format!("create database {name} owner app"));
        Database::new(self, name)
    }

    /// Sets the most connections that Postgres itself allows a user; -1 is no limit.
    pub fn limit_role(&self, role: &str, connections: i32) {
        self.superuser().run(&format!("alter role {role} connection limit {connections}"));
    }

    /// Lines of the log with this SQLSTATE.
    pub fn logged(&self, sqlstate: &str) -> Vec<String> {
        let mark = format!(" {sqlstate} ");
        self.log().lines().filter(|line| line.contains(&mark)).map(str::to_owned).collect()
    }

    /// Connects as anyone, past any pooler.
    ///
    /// # Errors
    /// What Postgres refused it with.
    pub fn connect(&self, user: &str, database: &str) -> Result<Client, Failure> {
        Client::connect(&self.address().as_user(user, PASSWORD).in_database(database))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            self.stop("immediate");
        }
    }
}
