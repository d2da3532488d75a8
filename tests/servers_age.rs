//! Servers grow old, idle and ill: when they are closed, when they are checked, and that clients do not notice.
//! These tests never take Postgres down; `outage` does.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    client::Client, cluster::Cluster, failure::Failure, fleet::Fleet, raw::message, wait,
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
