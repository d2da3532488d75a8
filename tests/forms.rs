//! The command's JSON and CSV parse, and say what the console says.
//! These tests never look at the tables for people; `operations` does.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{client::Client, cluster::Cluster, fleet::Fleet};
use serde_json::{Value, json};

/// What the command prints as JSON, with the status that it must exit with.
fn json_of(fleet: &Fleet, status: i32, command: &[&str]) -> Value {
    let printed = fleet.command(&[command, &["--format", "json"]].concat());
    assert_eq!(printed.status, Some(status), "{command:?}: {printed:?}");
    serde_json::from_str(&printed.out).unwrap_or_else(|error| unreadable(&printed.out, &error))
}

#[expect(clippy::panic, reason = "output that does not parse fails the test")]
fn unreadable(text: &str, error: &dyn std::error::Error) -> ! {
    panic!("{error}: {text}")
}

/// What the command prints as CSV, the header first.
fn csv_of(fleet: &Fleet, command: &[&str]) -> Vec<Vec<String>> {
    let printed = fleet.command(&[command, &["--format", "csv"]].concat()).well();
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).from_reader(printed.out.as_bytes());
    let record = |record: Result<csv::StringRecord, csv::Error>| {
        record
            .unwrap_or_else(|error| unreadable(&printed.out, &error))
            .iter()
            .map(str::to_owned)
            .collect()
    };
    reader.records().map(record).collect()
}

/// The console's answer, the header first.
fn console(fleet: &Fleet, what: &str) -> Vec<Vec<String>> {
    let table = fleet.console(&format!("show {what}"));
    let row = |row: pgfleet_harness::table::Row<'_>| {
        table.columns.iter().map(|name| row.text(name).to_owned()).collect()
    };
    let rows: Vec<Vec<String>> = table.rows().map(row).collect();
    [vec![table.columns.clone()], rows].concat()
}

/// A JSON value as the console writes it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// An array of objects as a header and rows.
fn rows_of(value: &Value) -> Vec<Vec<String>> {
    let objects: Vec<_> =
        value.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let header = objects.first().map(|object| object.keys().cloned().collect());
    let rows = objects.iter().map(|object| object.values().map(plain).collect());
    header.into_iter().chain(rows).collect()
}

/// Tables that stay as they are while nobody does anything.
const STILL: [&str; 7] = ["version", "databases", "pools", "lists", "config", "users", "mem"];

#[test]
fn show_says_in_json_and_csv_what_the_console_says() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    let clients: Vec<Client> = (0..5).map(|_| fleet.client()).collect();
    clients.iter().for_each(|client| client.run("begin"));
    for what in STILL {
        let expected = console(&fleet, what);
        assert_eq!(csv_of(&fleet, &["show", what]), expected, "show {what} as CSV");
        assert_eq!(rows_of(&json_of(&fleet, 0, &["show", what])), expected, "show {what} as JSON");
    }
    for (what, rows) in [("workers", 3), ("clients", 5), ("servers", 5), ("stats_totals", 1)] {
        let columns = fleet.console(&format!("show {what}")).columns;
        let found = rows_of(&json_of(&fleet, 0, &["show", what]));
        assert_eq!((found.len() - 1, found.first()), (rows, Some(&columns)), "show {what}");
        assert_eq!(csv_of(&fleet, &["show", what]).len() - 1, rows, "show {what}");
    }
}

#[test]
fn numbers_are_numbers_in_json() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).database("007", "host=localhost").start();
    let databases = json_of(&fleet, 0, &["show", "databases"]);
    let row = databases.as_array().into_iter().flatten().find(|row| row["name"] == "007");
    let row = row.expect("a name of digits stays text");
    assert_eq!((&row["port"], &row["force_user"]), (&json!(5432), &Value::Null));
    let workers = json_of(&fleet, 0, &["show", "workers"]);
    assert_eq!((&workers[0]["slot"], &workers[1]["slot"]), (&json!(1), &json!(2)));
}

#[test]
fn status_says_it_for_programs() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let _clients: Vec<Client> = (0..3).map(|_| fleet.client()).collect();
    let status = json_of(&fleet, 0, &["status"]);
    let pid = fleet.supervisor().expect("it runs").0;
    for (key, expected) in [
        ("ok", json!(true)),
        ("wanted", json!(2)),
        ("serving", json!(2)),
        ("draining", json!(0)),
        ("crash_looping", json!(0)),
        ("clients", json!(3)),
        ("waiting", json!(0)),
        ("pid", json!(pid)),
        ("config", json!(fleet.config().display().to_string())),
    ] {
        assert_eq!(status[key], expected, "{key} in {status}");
    }
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(2));
    assert_eq!(csv_of(&fleet, &["status"]).len(), 3);
}

#[test]
fn what_was_done_is_told_for_programs() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let scaled = json_of(&fleet, 0, &["scale", "3"]);
    assert_eq!(scaled, json!({"wanted": 3, "serving": 3, "draining": 0}));
    assert_eq!(json_of(&fleet, 0, &["reload"]), json!({"state": "reloaded"}));
    let restarted = json_of(&fleet, 0, &["restart"]);
    assert_eq!(restarted, json!({"state": "restarted", "wanted": 3, "serving": 3}));
    let checked = json_of(&fleet, 0, &["config", "check"]);
    let file = fleet.config().display().to_string();
    assert_eq!(
        checked,
        json!({"state": "ok", "file": file, "databases": 1, "users": 6, "workers": 2})
    );
    assert_eq!(
        csv_of(&fleet, &["scale", "4"]),
        [vec!["wanted", "serving", "draining"], vec!["4", "4", "0"]]
    );
}

#[test]
fn config_show_agrees_with_the_running_fleet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("query_timeout", 33).start();
    let mut shown = rows_of(&json_of(&fleet, 0, &["config", "show"]));
    shown.retain(|row| row.first().is_none_or(|key| !key.starts_with("databases.")));
    assert_eq!(shown, console(&fleet, "config"));
    assert_eq!(csv_of(&fleet, &["config", "show"]).len(), shown.len() + 1);
    let timeout = shown.iter().find(|row| row.first().is_some_and(|key| key == "query_timeout"));
    assert_eq!(timeout.map(|row| row.join(" ")), Some("query_timeout 33 0 yes".to_owned()));
}

#[test]
fn failures_say_nothing_on_standard_output() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    for (command, status) in [
        (&["status"][..], 3),
        (&["show", "pools"], 3),
        (&["show", "pools; shutdown"], 2),
        (&["scale", "2 3"], 2),
    ] {
        for format in ["table", "json", "csv"] {
            let printed = fleet.command(&[command, &["--format", format]].concat());
            assert_eq!(printed.status, Some(status), "{command:?}: {printed:?}");
            assert_eq!((printed.out.as_str(), printed.err.is_empty()), ("", false), "{command:?}");
        }
    }
}
