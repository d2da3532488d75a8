//! A client never sees what another one left behind: parameters, statements, transactions, session state.
//! These tests never need luck: one server, or fewer servers than clients, make every leak a certainty.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    crowd::Crowd,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

/// One worker with one server, which all clients share.
fn narrow(database: &Database<'_>) -> Fleet {
    Fleet::of(database).workers(1).set("default_pool_size", 1).start()
}

fn setting(raw: &mut Raw, name: &str) -> String {
    raw.query(&format!("select current_setting('{name}')"))
        .expect("the query runs")
        .values()
        .concat()
}

#[test]
fn parameters_of_the_startup_stay_with_their_client() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let values = ["Asia/Tokyo", "Europe/Berlin", "America/New_York", "UTC"];
    let mut clients: Vec<Raw> = values
        .iter()
        .map(|zone| login(&fleet, &[("TimeZone", zone), ("application_name", zone)]))
        .collect();
    for _ in 0..3 {
        for (raw, zone) in clients.iter_mut().zip(values) {
            assert_eq!(setting(raw, "TimeZone"), zone);
            assert_eq!(setting(raw, "application_name"), zone);
        }
    }
}

#[test]
fn parameters_that_are_set_stay_with_their_client() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let (mut one, mut two) = (fleet.raw(), fleet.raw());
    one.query("set DateStyle = 'German, DMY'; set IntervalStyle = 'iso_8601'; set standard_conforming_strings = off").expect("it is set");
    two.query("set DateStyle = 'SQL, MDY'").expect("it is set");
    for _ in 0..2 {
        assert_eq!(setting(&mut one, "DateStyle"), "German, DMY");
        assert_eq!(setting(&mut one, "IntervalStyle"), "iso_8601");
        assert_eq!(setting(&mut one, "standard_conforming_strings"), "off");
        assert_eq!(setting(&mut two, "DateStyle"), "SQL, MDY");
        assert_eq!(setting(&mut two, "IntervalStyle"), "postgres");
        assert_eq!(setting(&mut two, "standard_conforming_strings"), "on");
    }
}

#[test]
fn the_encoding_of_a_client_stays_with_it() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut latin = login(&fleet, &[("client_encoding", "LATIN1")]);
    let mut utf = login(&fleet, &[("client_encoding", "UTF8")]);
    let ask = message::query(
        "select length('\u{e9}'), octet_length(convert_to(chr(233), current_setting('client_encoding')))",
    );
    for _ in 0..3 {
        // Two bytes of UTF-8 are two characters of Latin 1.
        assert_eq!(
            latin.ask(&ask).expect("the query runs").rows().concat(),
            [Some("2".to_owned()), Some("1".to_owned())]
        );
        assert_eq!(
            utf.ask(&ask).expect("the query runs").rows().concat(),
            [Some("1".to_owned()), Some("2".to_owned())]
        );
    }
}

#[test]
fn odd_and_long_values_are_restored_exactly() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let long = "n".repeat(63);
    let names = [
        "it's",
        "back\\slash",
        "a\"b",
        "semi;colon",
        "App",
        "app",
        "  blanks  ",
        "$1",
        "%s",
        &long,
        "",
    ];
    let mut clients: Vec<Raw> =
        names.iter().map(|name| login(&fleet, &[("application_name", name)])).collect();
    for _ in 0..2 {
        for (raw, name) in clients.iter_mut().zip(names) {
            assert_eq!(setting(raw, "application_name"), name);
        }
    }
}

#[test]
fn a_value_of_200_bytes_is_restored_exactly() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).start();
    // A DateStyle cannot be long, and Postgres cuts application_name; a time zone of POSIX form is as long as one likes.
    let zone = format!("<{}>-3", "A".repeat(190));
    let mut long = fleet.raw();
    let mut plain = fleet.raw();
    assert_eq!(
        long.query(&format!("set TimeZone = '{zone}'")).expect("an answer comes").code(),
        ""
    );
    for _ in 0..3 {
        assert_eq!(setting(&mut plain, "TimeZone"), "UTC");
        assert_eq!(setting(&mut long, "TimeZone"), zone);
    }
}

#[test]
fn a_bad_parameter_ends_its_client_alone() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let bad = Raw::login_with(&fleet.address(), &[("TimeZone", "Mars/Olympus")])
        .and_then(|mut raw| raw.query("select 1"));
    assert!(bad.is_err() || bad.is_ok_and(|answer| answer.error().is_some()));
    assert_eq!(fleet.client().value("select current_setting('TimeZone')"), "UTC");
}

/// Parses in one batch and binds in the next, nine clients on three servers.
fn two_steps(fleet: &Fleet, name: &'static str) {
    let address = fleet.address();
    let wrong = Crowd::start(9, move |number, _| {
        let mut raw = Raw::login(&address).expect("the fleet lets app in");
        let mut wrong = Vec::new();
        for round in 0..60 {
            let name = if name.is_empty() { String::new() } else { format!("{name}{round}") };
            let sql = format!("select $1::int + {number}");
            let parsed = raw.ask(
                &[message::parse(&name, &sql), message::describe_statement(&name), message::sync()]
                    .concat(),
            );
            let run = [
                message::bind("", &name, &[Some("1000")]),
                message::execute("", 0),
                message::sync(),
            ]
            .concat();
            let answer = raw.ask(&run);
            if parsed.is_err()
                || answer.as_ref().map(|answer| answer.values())
                    != Ok(vec![(1000 + number).to_string()])
            {
                wrong.push(format!("client {number}, round {round}: {answer:?}"));
            }
        }
        wrong
    });
    assert_eq!(wrong.finish().concat(), Vec::<String>::new());
}

#[test]
fn an_unnamed_statement_outlives_sync_and_stays_with_its_client() {
    let database = Cluster::shared().database();
    two_steps(&Fleet::of(&database).workers(1).set("default_pool_size", 3).start(), "");
}

#[test]
fn named_statements_outlive_sync_and_stay_with_their_client() {
    let database = Cluster::shared().database();
    two_steps(&Fleet::of(&database).workers(1).set("default_pool_size", 3).start(), "same");
}

#[test]
fn a_bind_on_a_statement_never_parsed_runs_nothing() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    for name in ["", "theirs"] {
        let mut owner = fleet.raw();
        owner
            .ask(&[message::parse(name, "select 'secret'"), message::sync()].concat())
            .expect("it is parsed");
        owner
            .ask(&[message::bind("", name, &[]), message::execute("", 0), message::sync()].concat())
            .expect("it runs");
        owner.leave();
        let mut thief = fleet.raw();
        let answer = thief
            .ask(&[message::bind("", name, &[]), message::execute("", 0), message::sync()].concat())
            .expect("an answer comes");
        assert_eq!(
            (answer.code().as_str(), answer.rows().len()),
            ("26000", 0),
            "statement {name:?}"
        );
        let described = thief
            .ask(&[message::describe_statement(name), message::sync()].concat())
            .expect("an answer comes");
        assert_eq!(described.code(), "26000", "statement {name:?}");
        assert_eq!(thief.query("select 1").expect("the client goes on").values(), ["1"]);
    }
}

#[test]
fn a_statement_that_was_closed_is_gone() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    raw.ask(&[message::parse("s", "select 1"), message::sync()].concat()).expect("it is parsed");
    assert_eq!(
        raw.ask(&[message::close_statement("s"), message::sync()].concat())
            .expect("it is closed")
            .course(),
        "3Z"
    );
    let answer = raw
        .ask(&[message::bind("", "s", &[]), message::execute("", 0), message::sync()].concat())
        .expect("an answer comes");
    assert_eq!(answer.code(), "26000");
    assert_eq!(raw.query("select 1").expect("the client goes on").values(), ["1"]);
}

#[test]
fn a_client_gone_in_a_transaction_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    fleet.client().run("create table t (a int)");
    let mut gone = fleet.raw();
    gone.query("begin; insert into t values (1); set local work_mem = '77MB'; create temp table mine (a int)").expect("it runs");
    drop(gone);
    let next = fleet.client();
    assert_eq!(next.value("select count(*) from t"), "0");
    assert_eq!(next.value("select coalesce(to_regclass('pg_temp.mine')::text, 'none')"), "none");
    assert_ne!(next.value("show work_mem"), "77MB");
}

#[test]
fn a_client_gone_in_a_batch_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    fleet.client().run("create table t (a int)");
    let mut gone = fleet.raw();
    // Executed, but without the Sync that would commit it.
    let batch = [
        message::parse("", "insert into t values (1)"),
        message::bind("", "", &[]),
        message::execute("", 0),
        message::flush(),
    ];
    gone.send(&batch.concat()).expect("the fleet reads");
    gone.until(b'C').expect("it is executed");
    drop(gone);
    assert_eq!(fleet.client().value("select count(*) from t"), "0");
}

#[test]
fn a_client_gone_with_answers_unread_leaves_no_answer_to_the_next() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    for _ in 0..20 {
        let mut gone = fleet.raw();
        gone.send(&message::query("select 'theirs' from generate_series(1, 100000)"))
            .expect("the fleet reads");
        gone.until(b'T').expect("rows begin to come");
        drop(gone);
        assert_eq!(fleet.raw().query("select 'mine'").expect("the query runs").values(), ["mine"]);
    }
}

#[test]
fn the_reset_query_runs_between_sessions() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("pool_mode", "session")
        .set("default_pool_size", 1)
        .start();
    let first = fleet.client();
    let pid = first.value("select pg_backend_pid()");
    first.run("set work_mem = '77MB'; create temp table mine (a int); prepare p as select 1; select pg_advisory_lock(7)");
    drop(first);
    let next = fleet.client();
    assert_eq!(next.value("select pg_backend_pid()"), pid, "the server is used again");
    assert_ne!(next.value("show work_mem"), "77MB");
    assert_eq!(next.value("select coalesce(to_regclass('pg_temp.mine')::text, 'none')"), "none");
    assert_eq!(next.value("select count(*) from pg_prepared_statements"), "0");
    assert_eq!(next.value("select count(*) from pg_locks where locktype = 'advisory'"), "0");
}

#[test]
fn session_mode_keeps_the_server_for_the_session() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("pool_mode", "session").start();
    let (one, two) = (fleet.client(), fleet.client());
    one.run("set work_mem = '77MB'");
    let pids = [one.value("select pg_backend_pid()"), two.value("select pg_backend_pid()")];
    assert_ne!(pids[0], pids[1]);
    for _ in 0..5 {
        assert_eq!(
            [one.value("select pg_backend_pid()"), two.value("select pg_backend_pid()")],
            pids
        );
    }
    assert_eq!(one.value("show work_mem"), "77MB");
}

#[test]
fn transaction_mode_shares_servers_between_clients() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let clients: Vec<_> = (0..5).map(|_| fleet.client()).collect();
    let mut pids: Vec<String> =
        clients.iter().map(|client| client.value("select pg_backend_pid()")).collect();
    pids.dedup();
    assert_eq!(pids.len(), 1);
    wait::until_true("the one server is idle", || fleet.console("show pools").sum("sv_idle") == 1);
}

#[test]
fn a_client_in_a_transaction_keeps_its_server() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 2).start();
    let (inside, other) = (fleet.client(), fleet.client());
    inside.run("begin");
    let pid = inside.value("select pg_backend_pid()");
    for _ in 0..10 {
        assert_ne!(other.value("select pg_backend_pid()"), pid);
        assert_eq!(inside.value("select pg_backend_pid()"), pid);
    }
    inside.run("commit");
}

fn login(fleet: &Fleet, parameters: &[(&str, &str)]) -> Raw {
    Raw::login_with(&fleet.address(), parameters).expect("the fleet lets app in")
}
