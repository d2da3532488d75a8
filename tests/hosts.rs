//! Several hosts in one entry: which of them gets the next connection, and what becomes of one that is away.
//! The hosts here are the ways to one Postgres, over TCP and its Unix socket, and addresses where nobody listens.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, Setup},
    raw::{Raw, message},
    wait,
};

/// Where nobody listens.
const AWAY: &str = "127.0.0.9";

/// A fleet whose entry has these hosts.
fn fleet(database: &Database<'_>, hosts: &str, keys: &str) -> Setup {
    let port = database.cluster().port();
    let entry = format!("host={hosts} port={port} dbname={} {keys}", database.name());
    Fleet::of(database).workers(1).database(database.name(), &entry)
}

/// Opens so many servers, and tells how many of them go to this address.
fn opened(fleet: &Fleet, count: usize, address: &str) -> (Vec<Raw>, usize) {
    let clients: Vec<Raw> = (0..count)
        .map(|_| {
            let mut raw = fleet.raw();
            raw.query("begin").expect("there is a server");
            raw
        })
        .collect();
    let servers = fleet.console("show servers");
    let to_it = servers.rows().filter(|row| row.text("addr") == address).count();
    (clients, to_it)
}

fn shown_balance(fleet: &Fleet) -> String {
    let pools = fleet.console("show pools");
    let row = pools.find("user", "app").expect("the pool is shown");
    row.text("load_balance_hosts").to_owned()
}

#[test]
fn each_host_of_a_list_gets_its_turn() {
    let database = Cluster::shared().database();
    let hosts = format!("127.0.0.1,{}", database.cluster().socket_dir());
    let fleet = fleet(&database, &hosts, "").start();
    let (_clients, by_tcp) = opened(&fleet, 6, "127.0.0.1");
    assert_eq!(by_tcp, 3);
    assert_eq!(shown_balance(&fleet), "round-robin");
}

#[test]
fn load_balance_hosts_disable_stays_at_one_host() {
    let database = Cluster::shared().database();
    let hosts = format!("127.0.0.1,{}", database.cluster().socket_dir());
    let fleet = fleet(&database, &hosts, "load_balance_hosts=disable").start();
    let (_clients, by_tcp) = opened(&fleet, 5, "127.0.0.1");
    assert_eq!(by_tcp, 5);
    assert_eq!(shown_balance(&fleet), "disable");
}

#[test]
fn a_host_that_is_away_holds_nobody_up() {
    let database = Cluster::shared().database();
    for balance in ["round-robin", "disable"] {
        let keys = format!("load_balance_hosts={balance}");
        let fleet = fleet(&database, &format!("{AWAY},127.0.0.1"), &keys)
            .set("server_login_retry", 60)
            .start();
        let start = Instant::now();
        let (_clients, by_tcp) = opened(&fleet, 5, "127.0.0.1");
        assert_eq!(by_tcp, 5, "{balance}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        // It is passed over until server_login_retry is over.
        assert_eq!(fleet.log().matches(&format!("{AWAY}:")).count(), 1, "{}", fleet.log());
    }
}

#[test]
fn clients_are_told_when_every_host_is_away() {
    let database = Cluster::shared().database();
    let hosts = format!("{AWAY},127.0.0.8");
    let fleet = fleet(&database, &hosts, "").set("query_wait_timeout", 2).start();
    let first = Raw::login(&fleet.address()).expect_err("nobody is there");
    assert_eq!(first, Failure::new("FATAL", "08P01", "query_wait_timeout"));
    let text = "server login has been failing, cached error: connect failed (server_login_retry)";
    let second = Raw::login(&fleet.address()).expect_err("nobody is there");
    assert_eq!(second, Failure::new("FATAL", "08P01", text));
    for host in hosts.split(',') {
        assert!(fleet.log().contains(&format!("{host}:")), "{host} was tried");
    }
}

#[test]
fn a_reload_that_moves_a_database_leaves_the_old_host() {
    let database = Cluster::shared().database();
    let socket = database.cluster().socket_dir().to_owned();
    let mut fleet = fleet(&database, "127.0.0.1", "").start();
    let mut client = fleet.raw();
    let (busy, by_tcp) = opened(&fleet, 1, "127.0.0.1");
    assert_eq!(by_tcp, 1);
    fleet.rewrite(|setup| {
        let entry = format!("host={socket} port={} dbname=", database.cluster().port());
        setup.database(database.name(), &format!("{entry}{}", database.name()))
    });
    fleet.reload();
    let address = "select coalesce(host(inet_server_addr()), 'unix')";
    assert_eq!(client.query(address).expect("it is served").values(), ["unix"]);
    for mut raw in busy {
        assert_eq!(raw.query(address).expect("it is in a transaction").values(), ["127.0.0.1"]);
        raw.ask(&message::query("commit")).expect("it ends");
    }
    wait::until_true("no server is left at the old host", || {
        fleet.console("show servers").rows().all(|row| row.text("addr") == "unix")
    });
}
