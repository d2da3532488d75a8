//! Which fleet a command is about: its configuration, its runtime directory, its console socket.
//!
//! It owns the search for all three and never connects or changes anything. The commands call it first.

use std::fs;
use std::path::{Path, PathBuf};

use pgfleet_config::{Settings, console_dir, find, load, runtime_dir};

use crate::args::Global;
use crate::exit::Failure;

/// Where a configuration is looked for, for messages.
pub(crate) const LOOKED_AT: &str = "./pgfleet.toml, pgfleet/pgfleet.toml in the user's configuration directory, and /etc/pgfleet/pgfleet.toml";

/// A configuration without problems.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// Its main file, absolute.
    pub(crate) file: PathBuf,
    /// What it says.
    pub(crate) settings: Settings,
}

impl Configuration {
    /// Finds and checks the configuration.
    ///
    /// # Errors
    /// `NoConfiguration`, or `Configuration` with all problems.
    pub(crate) fn load(global: &Global) -> Result<Self, Failure> {
        let file = find(global.config.as_deref()).ok_or(Failure::NoConfiguration)?;
        let file = std::path::absolute(&file).unwrap_or(file);
        match load(&file) {
            Ok(settings) => Ok(Self { file, settings }),
            Err(problems) => Err(Failure::Configuration { file, problems }),
        }
    }

    /// The console socket of its fleet.
    pub(crate) fn console(&self) -> PathBuf {
        socket(&runtime_dir(&self.settings), self.settings.global.listen_port)
    }

    /// Where clients find it, in words: `127.0.0.1:6432, /run/pgfleet/.s.PGSQL.6432`.
    pub(crate) fn listening(&self) -> Vec<String> {
        let global = &self.settings.global;
        let port = global.listen_port;
        let address = |address: &String| match address.contains(':') {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        };
        let mut all: Vec<String> = global.listen_addr.iter().map(address).collect();
        if let Some(dir) = &global.unix_socket_dir {
            all.push(format!("{}/.s.PGSQL.{port}", dir.display()));
        }
        all
    }
}

/// The console socket of the fleet that runs with this configuration.
///
/// A file that has got problems since the start, that this user may not read, or that is not there must not keep an
/// operator from stopping the fleet: then what can be read of it, and the defaults, are good enough.
///
/// # Errors
/// The problems of the configuration, if it has some and no socket is found in spite of them.
pub(crate) fn console(global: &Global) -> Result<PathBuf, Failure> {
    let failure = match Configuration::load(global) {
        Ok(configuration) => return Ok(configuration.console()),
        Err(failure) => failure,
    };
    let file = find(global.config.as_deref());
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    let mut settings = Settings::default();
    settings.global.runtime_dir = said("runtime_dir", &text).map(PathBuf::from);
    settings.global.user = said("user", &text);
    let port = said("listen_port", &text).and_then(|port| port.parse().ok());
    let path = socket(&runtime_dir(&settings), port.unwrap_or(settings.global.listen_port));
    if matches!(failure, Failure::NoConfiguration) || path.exists() {
        return Ok(path);
    }
    Err(failure)
}

/// The value of a key: in the environment, else on a line `key = value` before any section of a TOML file, or anywhere
/// in an ini file, where sections of databases hold no such keys.
fn said(key: &str, text: &str) -> Option<String> {
    if let Ok(value) = std::env::var(format!("PGFLEET_{}", key.to_uppercase())) {
        return Some(value);
    }
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let value = lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value).next_back()?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// The socket for this port. A fleet keeps the port that it was started with: if there is only one socket, it is that.
fn socket(runtime: &Path, port: u16) -> PathBuf {
    let dir = console_dir(runtime);
    let path = dir.join(format!(".s.PGSQL.{port}"));
    if path.exists() {
        return path;
    }
    let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(".s.PGSQL.");
        number.is_some_and(|number| number.parse::<u16>().is_ok())
    };
    let others: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_socket).collect();
    match others.as_slice() {
        [only] => only.clone(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_socket_is_taken_for_the_one_of_another_port() {
        let runtime = tempfile::tempdir().unwrap();
        let dir = console_dir(runtime.path());
        fs::create_dir(&dir).unwrap();
        assert_eq!(socket(runtime.path(), 6432), dir.join(".s.PGSQL.6432"));
        fs::write(dir.join(".s.PGSQL.7000"), "").unwrap();
        fs::write(dir.join(".s.PGSQL.7000.lock"), "").unwrap();
        assert_eq!(socket(runtime.path(), 6432), dir.join(".s.PGSQL.7000"));
        fs::write(dir.join(".s.PGSQL.7001"), "").unwrap();
        assert_eq!(socket(runtime.path(), 6432), dir.join(".s.PGSQL.6432"));
    }

    #[test]
    fn a_broken_file_still_says_where_the_fleet_is() {
        let text = "#listen_port = 1\nlisten_port = 7000\nruntime_dir = \"/x\"\nnonsense";
        assert_eq!(said("listen_port", text).as_deref(), Some("7000"));
        assert_eq!(said("runtime_dir", text).as_deref(), Some("/x"));
        assert_eq!(said("user", text), None);
    }
}
