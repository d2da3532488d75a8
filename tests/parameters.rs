//! The parameters of a client on servers that others use too: exact, told back, and refused when they are no good.
//! These tests never look at anything else that a session may hold; isolation has a suite of its own.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::Fleet,
    raw::Raw,
    wait,
};

/// One worker with one server, which all clients share.
fn narrow(database: &Database<'_>) -> Fleet {
    Fleet::of(database).workers(1).set("default_pool_size", 1).start()
}

fn login(fleet: &Fleet, parameters: &[(&str, &str)]) -> Raw {
    Raw::login_with(&fleet.address(), parameters).expect("the fleet lets app in")
}

fn setting(raw: &mut Raw, name: &str) -> String {
    let sql = format!("select current_setting('{name}')");
    raw.query(&sql).expect("the query runs").values().concat()
}

fn invalid() -> Failure {
    Failure::new("FATAL", "08P01", "invalid server parameter")
}

#[test]
fn a_bad_value_at_the_login_ends_its_client_alone() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut other = login(&fleet, &[("TimeZone", "Asia/Tokyo"), ("application_name", "other")]);
    let bad =
        [("TimeZone", "Mars/Olympus"), ("DateStyle", "Klingon"), ("client_encoding", "RUNES")];
    for (name, value) in bad {
        let refused = Raw::login_with(&fleet.address(), &[(name, value)])
            .and_then(|mut raw| raw.query("select 1"));
        assert_eq!(refused, Err(invalid()), "{name}");
        assert_eq!(setting(&mut other, "TimeZone"), "Asia/Tokyo", "after {name}");
        assert_eq!(setting(&mut other, "application_name"), "other", "after {name}");
        assert_eq!(fleet.client().value("show DateStyle"), "ISO, MDY", "after {name}");
    }
}

#[test]
fn a_bad_value_among_good_ones_changes_nothing_for_the_next() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mixed =
        [("application_name", "half"), ("IntervalStyle", "iso_8601"), ("TimeZone", "Mars/Olympus")];
    let refused =
        Raw::login_with(&fleet.address(), &mixed).and_then(|mut raw| raw.query("select 1"));
    assert_eq!(refused, Err(invalid()));
    let mut next = fleet.raw();
    assert_eq!(setting(&mut next, "application_name"), "");
    assert_eq!(setting(&mut next, "IntervalStyle"), "postgres");
    assert_eq!(setting(&mut next, "TimeZone"), "UTC");
}

#[test]
fn a_bad_value_in_a_set_is_an_error_like_any_other() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = login(&fleet, &[("TimeZone", "Asia/Tokyo")]);
    let answer = raw.query("set TimeZone = 'Mars/Olympus'").expect("an error is an answer");
    assert_eq!((answer.code().as_str(), answer.state()), ("22023", Some('I')));
    assert_eq!(setting(&mut raw, "TimeZone"), "Asia/Tokyo");
}

#[test]
fn values_that_differ_only_in_case_or_in_their_last_letter_are_told_apart() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let long = "n".repeat(59);
    let names =
        [format!("{long}1"), format!("{long}2"), "Billing".to_owned(), "billing".to_owned()];
    let mut clients: Vec<Raw> =
        names.iter().map(|name| login(&fleet, &[("application_name", name)])).collect();
    for _ in 0..3 {
        for (raw, name) in clients.iter_mut().zip(&names) {
            assert_eq!(setting(raw, "application_name"), *name);
        }
    }
}

#[test]
fn a_value_that_looks_like_sql_stays_a_value() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let names =
        ["'; set TimeZone = 'Asia/Tokyo", "\\'; create table owned (); --", "E'\\x27'", "''"];
    let mut clients: Vec<Raw> =
        names.iter().map(|name| login(&fleet, &[("application_name", name)])).collect();
    for _ in 0..2 {
        for (raw, name) in clients.iter_mut().zip(names) {
            assert_eq!(setting(raw, "application_name"), name);
            assert_eq!(setting(raw, "TimeZone"), "UTC");
        }
    }
    assert_eq!(
        database.direct().value("select coalesce(to_regclass('owned')::text, 'none')"),
        "none"
    );
}

#[test]
fn a_set_that_is_rolled_back_is_not_kept() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let (mut raw, mut other) = (login(&fleet, &[("TimeZone", "Asia/Tokyo")]), fleet.raw());
    for undone in [
        "begin; set TimeZone = 'Europe/Berlin'; rollback",
        "begin; set local TimeZone = 'Europe/Berlin'; commit",
    ] {
        raw.query(undone).expect("it runs");
        assert_eq!(setting(&mut other, "TimeZone"), "UTC", "{undone}");
        assert_eq!(setting(&mut raw, "TimeZone"), "Asia/Tokyo", "{undone}");
    }
    raw.query("begin; set TimeZone = 'Europe/Berlin'; commit").expect("it runs");
    assert_eq!(setting(&mut other, "TimeZone"), "UTC");
    assert_eq!(setting(&mut raw, "TimeZone"), "Europe/Berlin");
}

#[test]
fn values_follow_their_client_from_server_to_server() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 3).start();
    let zones =
        ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "Australia/Perth", "Africa/Cairo"];
    let mut clients: Vec<Raw> =
        zones.iter().map(|zone| login(&fleet, &[("TimeZone", zone)])).collect();
    // Two of the three servers are held, each time other ones, so that every client meets every server.
    for round in 0..clients.len() * 2 {
        let held = [round % 5, (round + 2) % 5];
        for index in held {
            clients[index].query("begin").expect("begin runs");
        }
        for (raw, zone) in clients.iter_mut().zip(zones) {
            assert_eq!(setting(raw, "TimeZone"), zone, "round {round}");
        }
        for index in held {
            clients[index].query("commit").expect("commit runs");
        }
    }
}

#[test]
fn alter_role_is_followed_once_servers_are_recycled() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).workers(1).start();
    let (mut old, mut own) = (fleet.raw(), login(&fleet, &[("TimeZone", "Asia/Tokyo")]));
    assert_eq!(setting(&mut old, "TimeZone"), "UTC");
    assert_eq!(setting(&mut own, "TimeZone"), "Asia/Tokyo");
    cluster.superuser().run("alter role app set timezone = 'Europe/Lisbon'");
    cluster.superuser().run("alter role app set work_mem = '9MB'");
    recycle(&database, &fleet);
    for raw in [&mut old, &mut fleet.raw()] {
        assert_eq!(setting(raw, "TimeZone"), "Europe/Lisbon");
        assert_eq!(setting(raw, "work_mem"), "9MB");
    }
    assert_eq!(setting(&mut own, "TimeZone"), "Asia/Tokyo", "what a client chose stays");
    assert_eq!(fleet.raw().welcome.parameter("TimeZone").as_deref(), Some("Europe/Lisbon"));
}

/// Ends every server of the fleet, so that the next query needs a new one.
fn recycle(database: &Database<'_>, fleet: &Fleet) {
    let end = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'app'";
    database.direct().run(end);
    wait::until_true("the fleet has seen its servers go", || {
        fleet.console("show servers").is_empty()
    });
}

#[test]
fn a_client_is_told_when_a_default_has_changed_under_it() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    assert_eq!(setting(&mut raw, "TimeZone"), "UTC");
    cluster.superuser().run("alter role app set timezone = 'Europe/Lisbon'");
    recycle(&database, &fleet);
    let answer = raw.query("select current_setting('TimeZone')").expect("the query runs");
    assert_eq!(answer.values(), ["Europe/Lisbon"]);
    assert_eq!(answer.parameter("TimeZone").as_deref(), Some("Europe/Lisbon"));
}

#[test]
fn a_tracked_name_that_the_server_does_not_report_is_refused_and_reaches_nobody() {
    let database = Cluster::shared().database();
    // Nobody could tell when it changes, nor put it back for the next client.
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("default_pool_size", 1)
        .set("track_extra_parameters", "IntervalStyle, work_mem")
        .start();
    let text = "unsupported startup parameter: work_mem";
    for parameters in [("work_mem", "7MB"), ("options", "-c work_mem=7MB")] {
        // Before and after it is known what the server reports.
        for _ in 0..2 {
            let refused = Raw::login_with(&fleet.address(), &[parameters])
                .and_then(|mut raw| raw.query("select 1"))
                .map(|_| ());
            assert_eq!(refused, Err(Failure::new("FATAL", "08P01", text)), "{parameters:?}");
            assert_eq!(setting(&mut fleet.raw(), "work_mem"), "4MB", "after {parameters:?}");
        }
    }
}
