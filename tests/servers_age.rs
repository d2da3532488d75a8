//! Servers grow old, idle and ill: when they are closed, when they are checked, and that clients do not notice.
//! These tests never take Postgres down; `outage` does.
//! `make test` runs them over a real Postgres.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, setup},
    raw::{Raw, message},
    wait,
};

const PID: &str = "select pg_backend_pid()";

#[test]
fn server_lifetime_replaces_servers_between_transactions() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_lifetime", 1).start();
    let client = fleet.client();
    client.run("begin");
    let old = client.value(PID);
    wait::let_pass(Duration::from_secs(2));
    assert_eq!(client.value(PID), old, "nobody is interrupted");
    client.run("commit");
    assert_ne!(client.value(PID), old, "an old server is not lent again");
    assert!(fleet.log().contains("server lifetime over"));
}

#[test]
fn server_lifetime_closes_idle_servers_too() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).database_keys("server_lifetime=1").start();
    let client = fleet.client();
    client.run("select 1");
    wait::until_true("the server is closed", || database.backends() == 0);
    assert_eq!(client.value("select 1"), "1");
}

#[test]
fn server_idle_timeout_closes_what_nobody_needs() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_idle_timeout", 1).start();
    let clients: Vec<Client> = (0..3).map(|_| fleet.client()).collect();
    clients.iter().for_each(|client| client.run("begin"));
    wait::let_pass(Duration::from_secs(2));
    assert_eq!(database.backends(), 3, "servers in use are not idle");
    clients.iter().for_each(|client| client.run("commit"));
    wait::until_true("all servers are closed", || database.backends() == 0);
    assert!(fleet.log().contains("server idle timeout"));
    assert_eq!(clients.first().map(|client| client.value("select 1")).as_deref(), Some("1"));
}

#[test]
fn server_check_query_runs_on_servers_that_were_idle_for_longer_than_the_delay() {
    let database = Cluster::shared().database();
    database.direct().run("create sequence checks; grant all on sequence checks to app");
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("server_check_delay", 1)
        .set("server_check_query", "select nextval('checks')")
        .start();
    let client = fleet.client();
    let checks = || database.direct().value("select last_value from checks where is_called");
    (0..20).for_each(|_| client.run("select 1"));
    wait::let_pass(Duration::from_millis(1400));
    client.run("select 1");
    assert_eq!(checks(), "1");
    wait::let_pass(Duration::from_millis(1400));
    client.run("select 1");
    assert_eq!(checks(), "2");
}

/// Runs a query on a server whose check goes wrong as soon as `ill` says so; gives back the backends before and then.
fn checked(check: &str) -> (String, Result<String, Failure>) {
    let database = Cluster::shared().database();
    let direct = database.direct();
    direct.run("create table ill (yes bool); insert into ill values (false)");
    direct.run("grant all on ill to app");
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("server_check_delay", 1)
        .set("server_check_query", check)
        .start();
    let client = fleet.client();
    let old = client.value(PID);
    direct.run("update ill set yes = true");
    wait::let_pass(Duration::from_millis(1400));
    let rows = client.rows(PID);
    (old, rows.map(|rows| rows.concat().into_iter().flatten().collect()))
}

#[test]
fn a_server_that_dies_of_its_check_is_replaced_and_its_client_does_not_notice() {
    let (old, new) = checked("select pg_terminate_backend(pg_backend_pid()) from ill where yes");
    let new = new.expect("the client is served by another server");
    assert_ne!(new, old);
}

#[test]
fn an_error_of_the_check_query_is_none_of_the_clients() {
    let (_, new) = checked("select 1 / (not yes)::int from ill");
    assert!(new.is_ok(), "{new:?}");
}

#[test]
fn the_default_check_finds_nothing_wrong_with_a_good_server() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_check_delay", 0).start();
    let mut raw = fleet.raw();
    let pid = raw.query(PID).expect("it runs").values();
    for _ in 0..20 {
        assert_eq!(raw.query(PID).expect("it runs").values(), pid);
        let batch = raw.ask(&message::unnamed("select $1::int", &[Some("7")]));
        assert_eq!(batch.expect("it runs").course(), "12DCZ");
    }
}

#[test]
fn a_lifetime_of_zero_makes_each_server_for_one_lease() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_lifetime", 0).start();
    let client = fleet.client();
    let pids: Vec<String> = (0..4).map(|_| client.value(PID)).collect();
    let distinct: HashSet<&String> = pids.iter().collect();
    assert_eq!(distinct.len(), 4, "{pids:?}");
    wait::until_true("the last one is closed too", || database.backends() == 0);
}

#[test]
fn servers_are_lent_last_in_first_out_or_in_turn() {
    let database = Cluster::shared().database();
    for (round_robin, expected) in [(0, 1), (1, 3)] {
        let fleet = Fleet::of(&database).workers(1).set("server_round_robin", round_robin).start();
        let clients: Vec<Client> = (0..3).map(|_| fleet.client()).collect();
        clients.iter().for_each(|client| client.run("begin"));
        clients.iter().for_each(|client| client.run("commit"));
        let used: HashSet<String> = (0..9).map(|_| clients[0].value(PID)).collect();
        assert_eq!(used.len(), expected, "server_round_robin = {round_robin}");
    }
}

/// A session whose database has been given other settings meanwhile.
fn outdated(database: &Database<'_>, fast_close: u8) -> (Fleet, Raw) {
    let mut fleet = Fleet::of(database)
        .set("pool_mode", "session")
        .set("server_fast_close", fast_close)
        .start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("it is served");
    fleet.rewrite(|setup| setup.database_keys("connect_query='select 1'"));
    fleet.reload();
    (fleet, raw)
}

#[test]
fn server_fast_close_ends_a_session_between_two_transactions() {
    let database = Cluster::shared().database();
    let (fleet, mut raw) = outdated(&database, 1);
    wait::holds_for(Duration::from_secs(1), "the transaction goes on", || {
        raw.query("select 1").is_ok()
    });
    raw.query("commit").expect("it is not interrupted");
    let told = raw.until_closed().expect("it is closed").error();
    assert_eq!(told, Some(Failure::new("FATAL", "08P01", "database configuration changed")));
    assert_eq!(fleet.raw().query("select 1").expect("there is a new server").values(), ["1"]);
}

#[test]
fn without_server_fast_close_a_session_keeps_its_old_server() {
    let database = Cluster::shared().database();
    let (_fleet, mut raw) = outdated(&database, 0);
    raw.query("commit").expect("it is not interrupted");
    wait::holds_for(Duration::from_secs(1), "it is served", || raw.query("select 1").is_ok());
}

/// The sum of all queries that the fleet has counted.
fn counted(fleet: &Fleet) -> i64 {
    let totals = fleet.console("show totals");
    totals.find("name", "total_query_count").expect("it is counted").number("value")
}

#[test]
fn databases_made_from_the_star_go_away_and_the_sums_keep_what_they_counted() {
    let database = Cluster::shared().database();
    let entry = setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database)
        .set("autodb_idle_timeout", 1)
        .set("server_idle_timeout", 1)
        .database("*", &entry)
        .start();
    let clients = ["one", "two"].map(|name| fleet.address().in_database(name));
    let clients = clients.map(|address| Client::connect(&address).expect("* is for all names"));
    clients.iter().for_each(|client| client.run("select 1"));
    fleet.client().run("select 1");
    wait::until_true("three queries are counted", || counted(&fleet) == 3);
    drop(clients);
    wait::until_true("only the real database is left", || {
        let stats = fleet.console("show stats");
        stats.rows().all(|row| row.text("database") == database.name()) && !stats.is_empty()
    });
    assert_eq!(counted(&fleet), 3);
    fleet.kill_worker(1);
    fleet.wait_for_workers(2);
    assert_eq!(counted(&fleet), 3);
}

/// How many pools the workers remember.
fn remembered(fleet: &Fleet) -> i64 {
    fleet.console("show mem").find("name", "pool_cache").expect("pools are told of").number("used")
}

#[test]
fn pool_idle_timeout_drops_empty_pools() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).workers(1).set("server_idle_timeout", 1).start();
    fleet.client().run("select 1");
    wait::until_true("the pool is empty", || fleet.console("show pools").is_empty());
    assert_eq!(remembered(&fleet), 1);
    fleet.rewrite(|setup| setup.set("pool_idle_timeout", 1));
    fleet.reload();
    wait::until_true("the pool is dropped", || remembered(&fleet) == 0);
    assert_eq!(fleet.client().value("select 1"), "1");
}

/// How many statements Postgres logs for one query of a client whose server has been idle.
fn logged_for_one(check_query: &str, delay: u32) -> usize {
    let database = Cluster::shared().database();
    let name = database.name();
    database.direct().run(&format!("alter database {name} set log_statement = 'all'"));
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("server_check_delay", delay)
        .set("server_check_query", check_query)
        .start();
    let client = fleet.client();
    client.run("select 1");
    wait::let_pass(Duration::from_millis(1200));
    let mark = format!("@{name} ");
    let statements = || {
        let log = database.cluster().log();
        log.lines().filter(|line| line.contains(&mark) && line.contains("statement: ")).count()
    };
    let before = statements();
    client.run("select 2");
    wait::until("the query is logged", || Some(statements() - before).filter(|count| *count > 0))
}

#[test]
fn the_check_can_be_turned_off_and_runs_always_with_a_delay_of_zero() {
    assert_eq!(logged_for_one("", 1), 1);
    assert_eq!(logged_for_one("<empty>", 1), 2);
    assert_eq!(logged_for_one("select 3", 0), 2);
    assert_eq!(logged_for_one("select 3", 30), 1);
}

/// Whether a temporary table of one client is there for the next one on the same server.
fn survives(mode: &str, settings: &[(&str, &str)]) -> bool {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).set("pool_mode", mode);
    let fleet = settings.iter().fold(fleet, |fleet, (key, value)| fleet.set(key, value)).start();
    fleet.client().run("create temp table t (a int)");
    fleet.client().rows("select a from t").is_ok()
}

#[test]
fn server_reset_query_runs_between_sessions_and_if_wanted_between_transactions() {
    assert!(!survives("session", &[]));
    assert!(survives("session", &[("server_reset_query", "")]));
    assert!(survives("session", &[("server_reset_query", "select 1")]));
    assert!(survives("transaction", &[]));
    assert!(!survives("transaction", &[("server_reset_query_always", "1")]));
    let own = ("server_reset_query", "drop table if exists pg_temp.t");
    assert!(!survives("transaction", &[("server_reset_query_always", "1"), own]));
}

#[test]
fn servers_that_were_opened_together_are_not_closed_together() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("server_lifetime", 4)
        .set("default_pool_size", 8)
        .start();
    let clients: Vec<Client> = (0..8).map(|_| fleet.client()).collect();
    clients.iter().for_each(|client| client.run("begin"));
    clients.iter().for_each(|client| client.run("commit"));
    assert_eq!(database.backends(), 8);
    wait::until_true("the first one is closed", || database.backends() < 8);
    let start = Instant::now();
    wait::until_true("four are closed", || database.backends() <= 4);
    // One each half a second: the lifetime divided by the size of the pool.
    let passed = start.elapsed();
    assert!((Duration::from_millis(1300)..Duration::from_secs(4)).contains(&passed), "{passed:?}");
}
