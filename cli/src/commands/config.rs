//! `pgfleet config`: check the configuration, or show what it says.
//!
//! It owns the two reports; the checks themselves are the configuration's own, the same that the daemon runs. It
//! never connects to a fleet. `commands` calls it.

use pgfleet_config::{KEYS, Reload, Settings, readiness, worker_count};

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
    for note in settings.notes.iter().chain(&notes).chain(&settings.vacancies()) {
        screen.remark(&format!("note: {note}"));
    }
    let problems = readiness(&settings);
    if !problems.is_empty() {
        return Err(Failure::Configuration { file, problems });
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

/// Every key with its value, then the databases and users.
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
    let mut entry = |section: &str, name: &str, shown: String| {
        table.push([format!("{section}.{name}"), shown, String::new(), "yes".to_owned()]);
    };
    for database in settings.databases.values().chain(&settings.fallback) {
        entry("databases", &database.name, database.shown());
    }
    for user in settings.users.values() {
        entry("users", &user.name, user.shown());
    }
    table
}

#[cfg(test)]
mod tests {
    use pgfleet_config::Database;

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
