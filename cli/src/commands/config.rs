//! `pgfleet config`: check the configuration, or show what it says.
//!
//! It owns the two reports; the checks themselves are the configuration's own, the same that the daemon runs. It
//! never connects to a fleet. `commands` calls it.

use pgfleet_config::{Database, KEYS, Reload, Settings, worker_count};

use crate::args::{Config, Global};
use crate::exit::Failure;
use crate::fleet::Configuration;
use crate::render::{Kind, Outcome, Table, counted};
use crate::screen::Screen;

/// Checks or shows.
pub(super) fn run(config: &Config, global: &Global, screen: &Screen) -> Result<(), Failure> {
    match config {
        Config::Check => check(global, screen),
        Config::Show => show(global, screen),
    }
}

fn check(global: &Global, screen: &Screen) -> Result<(), Failure> {
    let Configuration { file, settings } = Configuration::load(global)?;
    let (workers, notes) = worker_count(&settings, None)
        .map_err(|problems| Failure::Configuration { file: file.clone(), problems })?;
    for note in settings.notes.iter().chain(&notes) {
        screen.remark(&format!("note: {note}"));
    }
    let databases = settings.databases.values().chain(&settings.fallback).map(|_| 1).sum();
    let users = settings.userlist.values().map(|_| 1).sum();
    let sentence = format!(
        "ok: {}: {}, {}, {}",
        file.display(),
        counted(databases, "database"),
        counted(users, "user"),
        counted(workers.into(), "worker")
    );
    screen.outcome(
        &Outcome::new(sentence)
            .with("state", "ok")
            .with("file", file.display().to_string())
            .with("databases", databases)
            .with("users", users)
            .with("workers", workers),
    )
}

fn show(global: &Global, screen: &Screen) -> Result<(), Failure> {
    let Configuration { settings, .. } = Configuration::load(global)?;
    screen.table(&effective(&settings))
}

/// Every key with its value, then the databases.
fn effective(settings: &Settings) -> Table {
    let columns = ["key", "value", "default", "changeable"].map(|name| (name, Kind::Text));
    let mut table = Table::of(&columns);
    for key in KEYS {
        let changeable = match key.reload {
            Reload::Live => "yes",
            Reload::Restart => "no",
        };
        let value = settings.global.show(key.name).unwrap_or_default();
        table.push([key.name, &value, key.default, changeable].map(str::to_owned));
    }
    for database in settings.databases.values().chain(&settings.fallback) {
        let key = format!("databases.{}", database.name);
        table.push([key, place(database), String::new(), "yes".to_owned()]);
    }
    table
}

/// Where a database is; its password is not shown.
fn place(database: &Database) -> String {
    let mut pairs = Vec::new();
    if !database.hosts.is_empty() {
        pairs.push(format!("host={}", database.hosts.join(",")));
    }
    pairs.push(format!("port={}", database.port));
    pairs.push(format!("dbname={}", database.dbname));
    pairs.extend(database.user.iter().map(|user| format!("user={user}")));
    pairs.extend(database.password.iter().map(|_| "password=***".to_owned()));
    pairs.extend(database.pool_size.map(|size| format!("pool_size={size}")));
    pairs.extend(database.pool_mode.map(|mode| format!("pool_mode={mode}")));
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_shown_and_no_password() {
        let mut settings = Settings::default();
        let mut app = Database::new("app");
        app.password = Some(pgfleet_config::Password::new("open sesame"));
        settings.databases.insert("app".to_owned(), app);
        let table = effective(&settings);
        assert_eq!(table.rows.len(), KEYS.len() + 1);
        assert!(!format!("{table:?}").contains("sesame"));
    }
}
