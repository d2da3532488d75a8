//! SHOW FLEET, SHOW WORKERS and SHOW STATE: what only a fleet has.
//!
//! It joins the supervisor's knowledge of each process with what the worker says of itself, and with the
//! kernel's account of it. It changes nothing. `show` calls it.

use std::collections::BTreeSet;
use std::fs;

use super::table::{Table, number, text};
use crate::link::message::BUILD;
use crate::link::switches::Activity;
use crate::link::table::{Question, Row, Type, Value};
use crate::supervisor::gather::Gathered;
use crate::supervisor::office::show_share;
use crate::supervisor::view::{self, Line, Stopping, View};

/// SHOW FLEET: one key and its value a row.
pub(super) fn fleet(view: &View) -> Table {
    let mut table = Table::new(&[("key", Type::Text), ("value", Type::Text)]);
    let global = &view.settings.global;
    let rows = [
        ("wanted", view.wanted.to_string()),
        ("serving", view.serving().to_string()),
        ("starting", view.count(view::STARTING).to_string()),
        ("draining", view.count(view::DRAINING).to_string()),
        ("leaving", view.count(view::LEAVING).to_string()),
        ("crash_looping", view.count(view::CRASH_LOOP).to_string()),
        ("retiring_servers", view.ghosts.to_string()),
        ("stopping", yes_no(view.stopping == Stopping::Yes).to_owned()),
        ("uptime_s", view.uptime.as_secs().to_string()),
        ("pid", std::process::id().to_string()),
        ("build", BUILD.to_owned()),
        ("executable", executable().to_owned()),
        ("limit_mode", global.limit_mode.to_string()),
        ("epoch", view.epoch.to_string()),
        ("config_file", view.config.display().to_string()),
        ("activity", activity(view).to_owned()),
        ("paused_databases", listed(&view.switches.paused)),
        ("disabled_databases", listed(&view.switches.disabled)),
    ];
    for (key, value) in rows {
        table.push(vec![text(key), text(value)]);
    }
    table
}

/// SHOW STATE, as PgBouncer has it: what the operator has switched.
pub(super) fn state(view: &View) -> Table {
    let mut table = Table::new(&[("key", Type::Text), ("value", Type::Text)]);
    for (key, activity) in [
        ("active", Activity::Running),
        ("paused", Activity::Paused),
        ("suspended", Activity::Suspended),
    ] {
        table.push(vec![text(key), text(yes_no(view.switches.activity == activity))]);
    }
    table
}

/// SHOW PEERS: none, since the workers are one pooler and send each other cancels by themselves.
pub(super) fn peers() -> Table {
    Table::new(&[
        ("peer_id", Type::Int4),
        ("host", Type::Text),
        ("port", Type::Int4),
        ("pool_size", Type::Int4),
    ])
}

/// SHOW PEER_POOLS: none either.
pub(super) fn peer_pools() -> Table {
    Table::new(&[
        ("peer_id", Type::Int4),
        ("cl_active_cancel_req", Type::Int4),
        ("cl_waiting_cancel_req", Type::Int4),
        ("sv_active_cancel", Type::Int4),
        ("sv_login", Type::Int4),
    ])
}

fn activity(view: &View) -> &'static str {
    match view.switches.activity {
        Activity::Running => "running",
        Activity::Paused => "paused",
        Activity::Suspended => "suspended",
    }
}

fn listed(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(", ")
}

fn yes_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// Whether the file of the running executable is still the same one.
fn executable() -> &'static str {
    let replaced = fs::read_link("/proc/self/exe")
        .is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)"));
    if replaced { "replaced" } else { "current" }
}

/// What a worker says of itself, by the name of the column.
struct Own<'a>(Option<&'a Row>);

impl Own<'_> {
    fn value(&self, name: &str) -> Value {
        let place = Question::Workers.spec().iter().position(|column| column.name == name);
        let value = place.and_then(|place| self.0?.get(place));
        value.cloned().unwrap_or(Value::Null)
    }
}

/// SHOW WORKERS: a row for each process, and one for each slot that has none.
pub(super) fn workers(view: &View, gathered: &Gathered) -> Table {
    let mut table = Table::new(&[
        ("worker", Type::Text),
        ("slot", Type::Int4),
        ("pid", Type::Int4),
        ("state", Type::Text),
        ("clients", Type::Int8),
        ("servers", Type::Int8),
        ("waiting", Type::Int8),
        ("share", Type::Text),
        ("cpu_ms", Type::Int8),
        ("rss_kb", Type::Int8),
        ("restarts", Type::Int8),
        ("uptime_s", Type::Int8),
        ("listeners", Type::Int4),
        ("handed_out", Type::Int8),
        ("handed_in", Type::Int8),
        ("cancels", Type::Int8),
        ("panics", Type::Int8),
        ("log_dropped", Type::Int8),
    ]);
    for line in &view.lines {
        let rows = line.worker.and_then(|worker| gathered.by_worker.get(&worker));
        table.push(worker_row(line, &Own(rows.and_then(|rows| rows.first()))));
    }
    table
}

fn worker_row(line: &Line, own: &Own<'_>) -> Vec<Value> {
    let usage = line.pid.and_then(usage);
    vec![
        line.worker.map_or(Value::Null, |worker| text(worker.to_string())),
        number(line.slot),
        line.pid.map_or(Value::Null, number),
        text(line.state),
        own.value("clients"),
        own.value("servers"),
        own.value("waiting"),
        show_share(line.share).map_or(Value::Null, text),
        usage.map_or(Value::Null, |(cpu_ms, _)| number(cpu_ms)),
        usage.map_or(Value::Null, |(_, rss_kb)| number(rss_kb)),
        number(line.restarts),
        line.uptime.map_or(Value::Null, |uptime| number(uptime.as_secs())),
        number(line.listeners),
        own.value("handed_out"),
        own.value("handed_in"),
        own.value("cancels"),
        own.value("panics"),
        own.value("log_dropped"),
    ]
}

/// CPU time in milliseconds and resident memory in kB of a process.
fn usage(pid: u32) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    usage_of(&stat, ticks_per_second(), page_size())
}

/// Reads a line of `/proc/PID/stat` (proc(5)); the name in parentheses may hold anything.
fn usage_of(stat: &str, ticks: u64, page: u64) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field here is the third of the line: utime is the 14th, stime the 15th, rss the 24th.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    let cpu = field(14)? + field(15)?;
    Some((cpu * 1000 / ticks.max(1), field(24)? * page / 1024))
}

fn ticks_per_second() -> u64 {
    sysconf(nix::unistd::SysconfVar::CLK_TCK, 100)
}

fn page_size() -> u64 {
    sysconf(nix::unistd::SysconfVar::PAGE_SIZE, 4096)
}

fn sysconf(variable: nix::unistd::SysconfVar, otherwise: u64) -> u64 {
    let value = nix::unistd::sysconf(variable).ok().flatten();
    value.and_then(|value| u64::try_from(value).ok()).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_past_any_process_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 100 9999 25 18446744073709551615";
        assert_eq!(usage_of(stat, 100, 4096), Some((2000, 100)));
        assert_eq!(usage_of("nonsense", 100, 4096), None);
        assert!(usage(std::process::id()).is_some());
    }
}
