//! `pgfleet init --from`: a `pgbouncer.ini` becomes a configuration of its own.
//!
//! It owns what is said about the change: every key that has no effect, every limit that was multiplied, what each
//! worker gets. It never touches the ini or the files that it names. `init` calls it.

use std::num::NonZeroU16;
use std::path::Path;

use nix::unistd::User;
use pgfleet_config::share::Share;
use pgfleet_config::{Converted, KEYS, Settings, convert, worker_count};

use crate::exit::Failure;
use crate::render::{Outcome, counted};
use crate::screen::Screen;

/// Converts `ini` and writes it to `configuration`.
pub(super) fn run(
    ini: &Path,
    processes: NonZeroU16,
    configuration: &Path,
    root_becomes: Option<User>,
    screen: &Screen,
) -> Result<(), Failure> {
    let ini = std::path::absolute(ini).unwrap_or_else(|_| ini.to_owned());
    let Converted { mut text, settings, remarks } = convert(&ini, processes)
        .map_err(|problems| Failure::Configuration { file: ini.clone(), problems })?;
    let named = settings.global.user.as_ref().and_then(|name| User::from_name(name).ok().flatten());
    let owner = root_becomes.map(|user| named.unwrap_or(user));
    if let (Some(owner), None) = (&owner, &settings.global.user) {
        text = super::set(&text, "user", &owner.name);
    }
    super::enterable(configuration, owner.as_ref())?;
    super::place(&text, configuration, owner.as_ref())?;
    for remark in remarks.iter().chain(&settings.vacancies()).chain(&shares(&settings)) {
        screen.remark(&format!("note: {remark}"));
    }
    let (from, to) = (ini.display().to_string(), configuration.display().to_string());
    let databases = settings.databases.values().chain(&settings.fallback).map(|_| 1).sum();
    let sentence = format!(
        "wrote {to} from {from}: {}, {}; start with: pgfleet start --config {to}",
        counted(databases, "database"),
        counted(settings.users.values().map(|_| 1).sum(), "user")
    );
    screen.outcome(
        &Outcome::new(sentence)
            .with("state", "written")
            .with("configuration", to)
            .with("from", from)
            .with("databases", databases)
            .with("remarks", remarks),
    )
}

/// What each worker gets of the limits that are set.
fn shares(settings: &Settings) -> Vec<String> {
    let Ok((of, notes)) = worker_count(settings, None) else { return Vec::new() };
    let first = Share { index: 0, of };
    let part = |(key, limit): (&str, u32)| {
        let part = first.part(limit);
        let most = if limit % u32::from(of) == 0 { "" } else { "at most " };
        format!("{key} = {limit} ({most}{part} each)")
    };
    let limits = KEYS.iter().filter(|key| key.limit).filter_map(|key| {
        let limit = settings.global.show(key.name)?.parse().ok().filter(|limit| *limit > 0)?;
        Some((key.name, limit))
    });
    let parts: Vec<_> = limits.map(part).collect();
    let line = format!(
        "limits are the fleet's; on this machine it has {}: {}",
        counted(of.into(), "worker"),
        parts.join(", ")
    );
    notes.into_iter().chain([line]).collect()
}
