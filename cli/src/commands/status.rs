//! `pgfleet status`: is all well?
//!
//! It owns the judgement over what SHOW FLEET, SHOW WORKERS and SHOW POOLS say, in about ten lines; it changes
//! nothing. `commands` calls it, and `scale` and `restart` ask it how the fleet is afterwards.

use serde_json::{Value, json};

use super::{console, remarks};
use crate::args::{Format, Global};
use crate::console::{Answer, Console, Error};
use crate::exit::Failure;
use crate::render::{Table, json as as_json, table};
use crate::screen::Screen;

/// The columns of the workers that fit a narrow screen.
const WORKERS: [&str; 9] =
    ["worker", "pid", "state", "clients", "servers", "waiting", "cpu_ms", "rss_kb", "restarts"];

/// How the fleet is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// How many workers there should be.
    pub(super) wanted: u64,
    /// How many serve.
    pub(super) serving: u64,
    /// How many wait for their clients to leave.
    pub(super) draining: u64,
    crash_looping: u64,
    uptime: u64,
    pid: String,
    config: String,
    executable: String,
    stopping: String,
    activity: String,
    paused: String,
    disabled: String,
}

impl Health {
    /// Asks the fleet.
    pub(super) fn ask(console: &mut Console) -> Result<Self, Error> {
        Ok(Self::of(&console.show("FLEET")?.table))
    }

    fn of(fleet: &Table) -> Self {
        let text = |key: &str| {
            let row = fleet.rows.iter().find(|row| fleet.value(row, "key") == Some(key));
            row.and_then(|row| fleet.value(row, "value")).unwrap_or_default().to_owned()
        };
        let number = |key: &str| text(key).parse().unwrap_or_default();
        Self {
            wanted: number("wanted"),
            serving: number("serving"),
            draining: number("draining"),
            crash_looping: number("crash_looping"),
            uptime: number("uptime_s"),
            pid: text("pid"),
            config: text("config_file"),
            executable: text("executable"),
            stopping: text("stopping"),
            activity: text("activity"),
            paused: text("paused_databases"),
            disabled: text("disabled_databases"),
        }
    }

    /// Whether every wanted worker serves.
    fn is_ok(&self) -> bool {
        self.serving >= self.wanted && self.crash_looping == 0 && self.stopping != "yes"
    }

    fn verdict(&self) -> String {
        let serve = format!("{} of {} workers serve", self.serving, self.wanted);
        let mut parts = vec![serve];
        if self.crash_looping > 0 {
            parts.push(format!("{} crash again and again, see the log", self.crash_looping));
        }
        if self.draining > 0 {
            parts.push(format!("{} leave when their clients have", self.draining));
        }
        if self.stopping == "yes" {
            parts.push("the fleet is stopping".to_owned());
        }
        if matches!(self.activity.as_str(), "paused" | "suspended") {
            parts.push(format!("everything is {}", self.activity));
        }
        for (what, names) in [("paused", &self.paused), ("disabled", &self.disabled)] {
            if !names.is_empty() {
                parts.push(format!("{what}: {names}"));
            }
        }
        let word = if self.is_ok() { "ok" } else { "DEGRADED" };
        format!("{word}: {}", parts.join(", "))
    }
}

/// What clients and servers do, over all pools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Traffic {
    clients: u64,
    waiting: u64,
    servers: u64,
    active: u64,
}

impl Traffic {
    fn of(pools: &Table, workers: &Table) -> Self {
        let sum = |table: &Table, columns: &[&str]| -> u64 {
            let of_row = |row: &Vec<Option<String>>| -> u64 {
                let values = columns.iter().filter_map(|name| table.value(row, name));
                values.filter_map(|value| value.parse::<u64>().ok()).sum()
            };
            table.rows.iter().map(of_row).sum()
        };
        Self {
            clients: sum(workers, &["clients"]),
            waiting: sum(pools, &["cl_waiting"]),
            servers: sum(workers, &["servers"]),
            active: sum(pools, &["sv_active"]),
        }
    }
}

/// Shows how the fleet is; a failure if it is not well.
pub(super) fn run(global: &Global, screen: &Screen) -> Result<(), Failure> {
    let mut console = console(global)?;
    let health = Health::ask(&mut console)?;
    let workers = console.show_typed("WORKERS")?;
    let pools: Answer = console.show("POOLS")?;
    remarks(&workers, screen);
    let traffic = Traffic::of(&pools.table, &workers.table);
    match screen.format() {
        Format::Table => {
            let own = workers.table.pick(&WORKERS);
            let text =
                format!("{}{}", summary(&health, &traffic), table::table(&own, screen.look()));
            screen.text(&text)?;
        }
        Format::Json => screen.text(&as_json::line(&object(&health, &traffic, &workers.table)))?,
        Format::Csv => screen.table(&workers.table)?,
    }
    if health.is_ok() { Ok(()) } else { Err(Failure::degraded()) }
}

fn summary(health: &Health, traffic: &Traffic) -> String {
    let Traffic { clients, waiting, servers, active } = traffic;
    let mut lines = vec![
        format!("fleet    {}", health.verdict()),
        format!("clients  {clients}, {waiting} of them waiting for a server"),
        format!("servers  {servers}, {active} of them busy"),
        format!("daemon   pid {}, up {}", health.pid, long(health.uptime)),
        format!("config   {}", health.config),
    ];
    if health.executable == "replaced" {
        lines.push(
            "note     pgfleetd was replaced since the start; stop and start to run the new one"
                .to_owned(),
        );
    }
    lines.join("\n") + "\n"
}

fn object(health: &Health, traffic: &Traffic, workers: &Table) -> Value {
    json!({
        "ok": health.is_ok(),
        "wanted": health.wanted,
        "serving": health.serving,
        "draining": health.draining,
        "crash_looping": health.crash_looping,
        "stopping": health.stopping == "yes",
        "clients": traffic.clients,
        "waiting": traffic.waiting,
        "servers": traffic.servers,
        "busy": traffic.active,
        "pid": health.pid.parse::<i64>().ok(),
        "uptime_s": health.uptime,
        "config": health.config,
        "executable": health.executable,
        "workers": as_json::array(workers),
    })
}

/// Seconds in the two largest units.
fn long(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let first = units.iter().position(|(_, length)| seconds >= *length).unwrap_or(3);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units.iter().skip(first).take(2) {
        parts.push(format!("{} {unit}", rest / length));
        rest %= length;
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Kind;

    fn fleet(pairs: &[(&str, &str)]) -> Health {
        let mut table = Table::of(&[("key", Kind::Text), ("value", Kind::Text)]);
        for (key, value) in pairs {
            table.push([(*key).to_owned(), (*value).to_owned()]);
        }
        Health::of(&table)
    }

    #[test]
    fn a_fleet_is_well_when_every_wanted_worker_serves() {
        let well =
            fleet(&[("wanted", "4"), ("serving", "4"), ("draining", "1"), ("stopping", "no")]);
        assert!(well.is_ok());
        assert_eq!(well.verdict(), "ok: 4 of 4 workers serve, 1 leave when their clients have");
    }

    #[test]
    fn a_fleet_that_lacks_one_crashes_or_stops_is_not_well() {
        for more in [("serving", "3"), ("crash_looping", "1"), ("stopping", "yes")] {
            let mut pairs = vec![("wanted", "4"), more];
            if more.0 != "serving" {
                pairs.push(("serving", "4"));
            }
            let health = fleet(&pairs);
            assert!(!health.is_ok(), "{more:?}");
            assert!(health.verdict().starts_with("DEGRADED: "), "{more:?}");
        }
    }

    #[test]
    fn the_summary_is_short() {
        let text = summary(
            &fleet(&[("executable", "replaced"), ("uptime_s", "90061")]),
            &Traffic::default(),
        );
        assert!(text.lines().count() <= 6, "{text}");
        assert!(text.contains("up 1 d 1 h") && text.contains("note"), "{text}");
    }

    #[test]
    fn times_are_shown_in_two_units() {
        assert_eq!([0, 61, 3_600, 200_000].map(long), ["0 s", "1 min 1 s", "1 h 0 min", "2 d 7 h"]);
    }
}
