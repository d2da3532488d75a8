//! COPY in both directions, to its end or broken off by either side.
//! These tests never use a driver: drivers do not break off in the ways that matter here.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

/// A fleet with one worker and one server, so that the next client gets the server of the last one.
fn narrow(database: &Database<'_>) -> Fleet {
    database.direct().run("create table t (a int primary key)");
    database.direct().run("grant all on t to public");
    Fleet::of(database).workers(1).set("default_pool_size", 1).start()
}

/// Starts a COPY into the table.
fn copying(fleet: &Fleet) -> Raw {
    let mut raw = fleet.raw();
    raw.send(&message::query("copy t from stdin")).expect("the fleet reads");
    raw.until(b'G').expect("the server wants data");
    raw
}

fn count(fleet: &Fleet) -> String {
    fleet.client().value("select count(*) from t")
}

#[test]
fn rows_go_in_and_come_out() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    for number in 0..3000 {
        raw.send(&message::copy_data(format!("{number}\n").as_bytes())).expect("the fleet reads");
    }
    assert_eq!(raw.ask(&message::copy_done()).expect("the copy ends").commands(), ["COPY 3000"]);
    let answer = raw.query("copy (select a from t order by a) to stdout").expect("the copy runs");
    let expected: String = (0..3000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(answer.copied()).expect("numbers are text"), expected);
    assert_eq!(answer.state(), Some('I'));
}

#[test]
fn copy_works_in_the_extended_protocol() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    let start = [
        message::parse("", "copy t from stdin"),
        message::bind("", "", &[]),
        message::execute("", 0),
        message::flush(),
    ];
    raw.send(&start.concat()).expect("the fleet reads");
    assert_eq!(raw.until(b'G').expect("the server wants data").course(), "12G");
    let answer =
        raw.ask(&[message::copy_data(b"1\n"), message::copy_done(), message::sync()].concat());
    assert_eq!(answer.expect("the copy ends").course(), "CZ");
    assert_eq!(count(&fleet), "1");
}

#[test]
fn a_client_may_break_off() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    let answer = raw
        .ask(&[message::copy_data(b"1\n"), message::copy_fail("changed my mind")].concat())
        .expect("it ends");
    assert_eq!(answer.code(), "57014");
    assert_eq!(raw.query("select 1").expect("all is well").values(), ["1"]);
    assert_eq!(count(&fleet), "0");
}

#[test]
fn a_server_may_break_off_while_data_still_comes() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    raw.send(&message::copy_data(b"not a number\n")).expect("the fleet reads");
    // The client has not seen the error yet and goes on.
    for number in 0..2000 {
        raw.send(&message::copy_data(format!("{number}\n").as_bytes())).expect("the fleet reads");
    }
    let answer = raw.ask(&message::copy_done()).expect("the error comes");
    assert_eq!((answer.code().as_str(), answer.state()), ("22P02", Some('I')));
    assert_eq!(raw.query("select 1").expect("all is well").values(), ["1"]);
}

#[test]
fn late_data_after_an_error_never_reaches_the_next_client() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut late = copying(&fleet);
    late.send(&message::copy_data(b"not a number\n")).expect("the fleet reads");
    assert_eq!(late.until(b'Z').expect("the error comes").code(), "22P02");
    // The one server is now free for the next client, whose COPY is under way when the late data comes.
    let mut next = copying(&fleet);
    next.send(&message::copy_data(b"1\n")).expect("the fleet reads");
    late.send(
        &[message::copy_data(b"666\n"), message::copy_data(b"667\n"), message::copy_done()]
            .concat(),
    )
    .expect("the fleet reads");
    next.send(&message::copy_data(b"2\n")).expect("the fleet reads");
    assert_eq!(next.ask(&message::copy_done()).expect("the copy ends").commands(), ["COPY 2"]);
    assert_eq!(
        late.query("select sum(a) from t").expect("the late one is well too").values(),
        ["3"]
    );
}

#[test]
fn a_client_that_is_gone_in_the_middle_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    raw.send(&message::copy_data(b"1\n2\n")).expect("the fleet reads");
    drop(raw);
    assert_eq!(count(&fleet), "0");
}

#[test]
fn a_reader_that_is_gone_in_the_middle_frees_its_server() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    raw.send(&message::query(
        "copy (select repeat('x', 1000) from generate_series(1, 10000000)) to stdout",
    ))
    .expect("the fleet reads");
    raw.until(b'd').expect("data comes");
    drop(raw);
    assert_eq!(fleet.client().value("select 1"), "1");
    wait::until_true("the copy has ended in Postgres too", || {
        database.direct().value(
            "select count(*) from pg_stat_activity where query like 'copy%' and state = 'active'",
        ) == "0"
    });
}

#[test]
fn a_sync_inside_a_copy_is_not_answered() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    let answer = raw.ask(
        &[message::sync(), message::copy_data(b"1\n"), message::sync(), message::copy_done()]
            .concat(),
    );
    assert_eq!(answer.expect("the copy ends").course(), "CZ");
    assert_eq!(raw.query("select 1").expect("nothing is out of step").values(), ["1"]);
}

#[test]
fn a_server_that_dies_in_a_copy_ends_it() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = copying(&fleet);
    raw.send(&message::copy_data(b"1\n")).expect("the fleet reads");
    database
        .direct()
        .run("select pg_terminate_backend(pid) from pg_stat_activity where query like 'copy t%'");
    let answer = raw.until_closed().expect("the connection closes");
    assert_eq!(answer.error().expect("with an error").severity, "FATAL");
    assert_eq!(count(&fleet), "0");
}
