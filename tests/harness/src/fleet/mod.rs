//! A fleet under test: started with a configuration of its own, watched by its console, gone with its value.
//! It never reaches into the processes: all it knows comes from the console, the log and the kernel.
//! Suites start one in front of a cluster; [`Setup`] says with which settings.

mod control;
mod files;
mod reference;
pub mod setup;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
};

pub use control::Worker;
pub use setup::{Format, Setup};

use crate::{
    address::Address,
    binaries,
    client::Client,
    cluster::{Database, PASSWORD},
    failure::Failure,
    program::{Printed, run},
    raw::Raw,
    scratch::Scratch,
    table::Table,
};

/// A running fleet.
#[derive(Debug)]
pub struct Fleet {
    scratch: Scratch,
    setup: Setup,
    foreground: Option<Child>,
}

impl Fleet {
    /// A fleet in front of this database, with the harness' defaults; see [`Setup`].
    pub fn of(database: &Database<'_>) -> Setup {
        Setup::of(database)
    }

    /// The way through it for `app`.
    pub fn address(&self) -> Address {
        Address {
            host: "127.0.0.1".to_owned(),
            port: self.setup.port(),
            database: self.setup.database_name().to_owned(),
            user: "app".to_owned(),
            password: Some(PASSWORD.to_owned()),
            extra: String::new(),
        }
    }

    /// The way through its Unix socket.
    pub fn unix_address(&self) -> Address {
        self.address().at(&self.path("sock").display().to_string())
    }

    /// A client through it.
    pub fn client(&self) -> Client {
        Client::connect(&self.address()).expect("the fleet lets app in")
    }

    /// A raw client through it.
    pub fn raw(&self) -> Raw {
        Raw::login(&self.address()).expect("the fleet lets app in")
    }

    /// Where the console's own socket is.
    pub fn console_address(&self) -> Address {
        let dir = if reference::is_set() { self.path("sock") } else { self.path("run/console") };
        let user = if reference::is_set() { "admin" } else { "postgres" };
        let host = dir.display().to_string();
        Address { host, database: "pgbouncer".to_owned(), user: user.to_owned(), ..self.address() }
    }

    /// Asks the console.
    pub fn console(&self, sql: &str) -> Table {
        self.try_console(sql).unwrap_or_else(|failure| refused(sql, &failure))
    }

    /// Asks the console something that it may refuse.
    ///
    /// # Errors
    /// What it refused it with.
    pub fn try_console(&self, sql: &str) -> Result<Table, Failure> {
        let mut console = Raw::login(&self.console_address())?;
        let answer = console.query(sql)?;
        console.leave();
        match answer.error() {
            Some(failure) => Err(failure),
            None => Ok(Table::new(answer.columns(), answer.rows())),
        }
    }

    /// A file or directory of its own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.path(self.setup.config_name())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.setup.port()
    }

    /// The settings that it was started with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Writes its configuration anew, for a reload.
    pub fn rewrite(&mut self, change: impl FnOnce(Setup) -> Setup) {
        self.setup = change(self.setup.clone());
        files::write(&self.scratch, &self.setup);
    }

    /// The log so far.
    pub fn log(&self) -> String {
        fs::read(self.path("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// `pgfleet COMMAND` with its configuration.
    pub fn command(&self, arguments: &[&str]) -> Printed {
        self.command_with(&self.config(), arguments)
    }

    /// `pgfleet COMMAND` with another configuration.
    pub fn command_with(&self, config: &Path, arguments: &[&str]) -> Printed {
        run(&mut command(&self.scratch, config, arguments))
    }
}

#[expect(clippy::panic, reason = "a console that refuses fails the test")]
fn refused(sql: &str, failure: &Failure) -> ! {
    panic!("the console refused {sql}: {failure}")
}

/// `pgfleet COMMAND` with this configuration, as the unprivileged account.
fn command(scratch: &Scratch, config: &Path, arguments: &[&str]) -> Command {
    let mut command = binaries::pgfleet();
    command.args(arguments).arg("--config").arg(config).current_dir(scratch.path());
    command
}
