//! What takes too long is ended, with PgBouncer's texts, and nothing else is.
//! These tests never take Postgres down; `outage` does.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, Setup},
    raw::{Raw, message},
    wait,
};

fn fatal(text: &str) -> Failure {
    Failure::new("FATAL", "08P01", text)
}

/// One worker with one server.
fn narrow(database: &Database<'_>) -> Setup {
    Fleet::of(database).workers(1).set("default_pool_size", 1)
}

/// A client in a transaction.
fn holder(fleet: &Fleet) -> Raw {
    let mut raw = fleet.raw();
    assert_eq!(raw.query("begin").expect("there is a server").state(), Some('T'));
    raw
}

/// What the client is told without having asked, before it is thrown out.
fn thrown_out(mut raw: Raw) -> Option<Failure> {
    raw.until_closed().expect("the fleet closes the connection").error()
}

/// Waits until so many clients stand in line.
fn wait_for_line(fleet: &Fleet, count: i64) {
    wait::until_true(&format!("{count} clients wait"), || {
        fleet.console("show pools").sum("cl_waiting") == count
    });
}

/// Nothing of what was ended goes on in Postgres.
fn wait_for_quiet(database: &Database<'_>) {
    let name = database.name();
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{name}' and state <> 'idle'"
    );
    let superuser = database.cluster().superuser();
    wait::until_true("no backend is busy", || superuser.value(&sql) == "0");
}

#[test]
fn query_wait_timeout_ends_the_wait_and_nobody_else() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("query_wait_timeout", 1).start();
    let mut first = holder(&fleet);
    let mut second = fleet.raw();
    assert_eq!(second.query("select 1").expect_err("it waits"), fatal("query_wait_timeout"));
    assert!(second.until_closed().is_ok(), "and is thrown out");
    assert_eq!(first.query("select 2").expect("it has its server").values(), ["2"]);
}

#[test]
fn query_wait_timeout_of_the_entry_beats_the_global_one() {
    let database = Cluster::shared().database();
    let fleet =
        narrow(&database).set("query_wait_timeout", 300).database_keys("query_wait_timeout=1");
    let fleet = fleet.start();
    let _first = holder(&fleet);
    let failure = fleet.raw().query("select 1").expect_err("it waits");
    assert_eq!(failure, fatal("query_wait_timeout"));
}

#[test]
fn query_wait_notify_tells_those_who_wait_once() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("query_wait_notify", 1).start();
    let mut first = holder(&fleet);
    let mut second = fleet.raw();
    second.send(&message::query("select 2")).expect("the fleet reads");
    let notice = second.until(b'N').expect("it is told that it waits").notices();
    let text = "No server connection available in postgres backend, client being queued";
    assert_eq!(notice, [Failure::new("NOTICE", "00000", text)]);
    wait::let_pass(Duration::from_millis(1500));
    first.query("commit").expect("it has its server");
    let answer = second.until(b'Z').expect("it is served");
    assert_eq!((answer.values(), answer.notices()), (vec!["2".to_owned()], vec![]));
}

#[test]
fn those_who_wait_are_served_in_the_order_of_their_coming() {
    let database = Cluster::shared().database();
    database.direct().run("create sequence turn; grant all on sequence turn to app");
    let fleet = narrow(&database).start();
    let mut first = holder(&fleet);
    let mut line: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    for (raw, count) in line.iter_mut().zip(1..) {
        raw.send(&message::query("select nextval('turn')")).expect("the fleet reads");
        wait_for_line(&fleet, count);
    }
    first.query("commit").expect("it has its server");
    for (raw, turn) in line.iter_mut().zip(1..) {
        let answer = raw.until(b'Z').expect("everybody is served");
        assert_eq!(answer.values(), [turn.to_string()]);
    }
}

#[test]
fn a_client_that_comes_back_does_not_overtake_those_who_wait() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).start();
    let mut greedy = holder(&fleet);
    let mut patient = fleet.raw();
    patient.send(&message::query("select clock_timestamp()")).expect("the fleet reads");
    wait_for_line(&fleet, 1);
    greedy.query("commit").expect("it has its server");
    let late = greedy.query("select clock_timestamp()").expect("it is served, too").values();
    let early = patient.until(b'Z').expect("so is the other's").values();
    assert!(early < late, "{early:?} should be before {late:?}");
}

#[test]
fn idle_transaction_timeout_ends_the_transaction() {
    let database = Cluster::shared().database();
    database.direct().run("create table t (); grant all on t to app");
    let fleet = narrow(&database).set("idle_transaction_timeout", 1).start();
    let idle = fleet.raw();
    let mut raw = holder(&fleet);
    raw.query("insert into t default values").expect("it runs");
    assert_eq!(thrown_out(raw), Some(fatal("idle transaction timeout")));
    wait_for_quiet(&database);
    let mut idle = idle;
    let count =
        idle.query("select count(*) from t").expect("idle outside of a transaction is fine");
    assert_eq!(count.values(), ["0"]);
}

#[test]
fn idle_transaction_timeout_counts_before_sync_too() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("idle_transaction_timeout", 1).start();
    let mut raw = fleet.raw();
    let half = [
        message::parse("", "select 1"),
        message::bind("", "", &[]),
        message::execute("", 0),
        message::flush(),
    ];
    raw.send(&half.concat()).expect("the fleet reads");
    assert_eq!(raw.until(b'C').expect("Flush is obeyed").values(), ["1"]);
    assert_eq!(thrown_out(raw), Some(fatal("idle transaction timeout")));
    assert_eq!(fleet.raw().query("select 2").expect("the server is free").values(), ["2"]);
}

#[test]
fn idle_transaction_timeout_leaves_busy_transactions_alone() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("idle_transaction_timeout", 1).start();
    let mut raw = holder(&fleet);
    raw.query("select pg_sleep(2.5)").expect("a long query is not idleness");
    assert_eq!(raw.query("commit").expect("it goes on").state(), Some('I'));
}

#[test]
fn query_timeout_ends_the_query_in_postgres_too() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("query_timeout", 1).start();
    let failure = fleet.raw().query("select pg_sleep(600)").expect_err("it takes too long");
    assert_eq!(failure, fatal("query timeout"));
    wait_for_quiet(&database);
    assert_eq!(fleet.raw().query("select 1").expect("all is well").values(), ["1"]);
}

#[test]
fn query_timeout_counts_while_waiting_too() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("query_timeout", 1).start();
    let _first = holder(&fleet);
    let failure = fleet.raw().query("select 1").expect_err("it waits for too long");
    assert_eq!(failure, fatal("query_timeout"));
}

#[test]
fn a_timeout_of_the_user_beats_the_global_one() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("query_timeout", 300).user("raw", "query_timeout=1");
    let fleet = fleet.start();
    let mut other = fleet.raw();
    other.send(&message::query("select pg_sleep(3)")).expect("the fleet reads");
    let mut raw = Raw::login(&fleet.address().as_user("raw", "")).expect("raw gets in");
    assert_eq!(
        raw.query("select pg_sleep(600)").expect_err("it takes too long"),
        fatal("query timeout")
    );
    assert_eq!(other.until(b'Z').expect("app may take its time").error(), None);
}

#[test]
fn transaction_timeout_ends_even_busy_transactions() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database).set("transaction_timeout", 1).start();
    let mut raw = holder(&fleet);
    let failure =
        wait::until("the transaction is ended", || match raw.query("select pg_sleep(0.05)") {
            Ok(answer) => answer.error(),
            Err(failure) => Some(failure),
        });
    assert_eq!(failure, fatal("transaction timeout"));
    wait_for_quiet(&database);
    let mut next = fleet.raw();
    for _ in 0..8 {
        next.query("select pg_sleep(0.2)").expect("short transactions are fine, however many");
    }
}

#[test]
fn client_idle_timeout_ends_idle_clients_alone() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("client_idle_timeout", 1).start();
    let mut inside = holder(&fleet);
    let mut busy = fleet.raw();
    busy.send(&message::query("select pg_sleep(3)")).expect("the fleet reads");
    let mut used = fleet.raw();
    used.query("select 1").expect("it runs");
    let idle = [used, fleet.raw()].map(thrown_out);
    assert_eq!(idle, [(); 2].map(|()| Some(fatal("client_idle_timeout"))));
    assert_eq!(busy.until(b'Z').expect("it was busy").error(), None);
    assert_eq!(inside.query("commit").expect("it was in a transaction").state(), Some('I'));
}

/// What raw, who has this timeout for himself, is told after these queries; app, beside him, is not.
fn told_alone(timeout: &str, queries: &[&str]) -> Failure {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).user("raw", &format!("{timeout}=1")).start();
    let users = [fleet.address(), fleet.address().as_user("raw", "")];
    let [mut app, mut raw] = users.map(|address| Raw::login(&address).expect("both get in"));
    for sql in queries {
        for client in [&mut app, &mut raw] {
            client.query(sql).expect("it is in time");
        }
    }
    let told = raw.until_closed().expect("raw is thrown out").error();
    assert!(app.query("select 1").is_ok(), "{timeout} is not app's");
    told.expect("raw is told why")
}

#[test]
fn every_timeout_of_a_user_is_for_that_user_alone() {
    let cases: [(&str, &[&str], &str); 3] = [
        ("client_idle_timeout", &["select 1"], "client_idle_timeout"),
        ("idle_transaction_timeout", &["begin"], "idle transaction timeout"),
        ("transaction_timeout", &["begin", "select 1"], "transaction timeout"),
    ];
    for (timeout, queries, text) in cases {
        assert_eq!(told_alone(timeout, queries), fatal(text), "{timeout}");
    }
}

#[test]
fn query_wait_timeout_of_the_user_beats_that_of_the_entry() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database)
        .database_keys("query_wait_timeout=600 max_db_connections=1")
        .user("raw", "query_wait_timeout=1")
        .start();
    let _first = holder(&fleet);
    let failure = Raw::login(&fleet.address().as_user("raw", "")).expect_err("it waits in vain");
    assert_eq!(failure, fatal("query_wait_timeout"));
}
