//! pgbench runs clean through the fleet, and its books balance, also when workers are killed meanwhile.
//! These tests never compare speeds.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::Fleet,
    program::Pgbench,
    wait,
};

const CLIENTS: u32 = 64;

fn filled(database: &Database<'_>) -> Fleet {
    let fleet = Fleet::of(database).workers(4).set("default_pool_size", 24).start();
    Pgbench::fill(
        &database.address().as_user("app", "s3cret").at(&database.cluster().socket_dir()),
        8,
    );
    fleet
}

/// The sums over accounts, tellers, branches and history are all the same.
fn assert_balanced(database: &Database<'_>) {
    let sum = |table: &str, column: &str| {
        format!("(select coalesce(sum({column}), 0) from pgbench_{table})")
    };
    let sums = [
        sum("accounts", "abalance"),
        sum("tellers", "tbalance"),
        sum("branches", "bbalance"),
        sum("history", "delta"),
    ];
    let [accounts, rest @ ..] = &sums;
    let equal: Vec<String> = rest.iter().map(|other| format!("{accounts} = {other}")).collect();
    assert_eq!(
        database.direct().value(&format!("select {}", equal.join(" and "))),
        "t",
        "the books do not balance"
    );
}

#[test]
fn select_only_runs_clean_in_every_protocol() {
    let database = Cluster::shared().database();
    let fleet = filled(&database);
    for mode in ["simple", "extended", "prepared"] {
        // A client that prepares statements keeps its server, so there must be one for each.
        let clients = if mode == "prepared" { 24 } else { CLIENTS };
        let report = Pgbench::through(&fleet.address())
            .clients(clients)
            .mode(mode)
            .seconds(3)
            .with(&["-S"])
            .clean();
        assert!(report.transactions > 100, "{mode}: {}", report.output);
    }
}

#[test]
fn tpcb_runs_clean_and_balances() {
    let database = Cluster::shared().database();
    let fleet = filled(&database);
    for mode in ["simple", "extended"] {
        let report =
            Pgbench::through(&fleet.address()).clients(CLIENTS).mode(mode).seconds(4).clean();
        let rows = database.direct().value("select count(*) from pgbench_history");
        assert!(report.transactions > 50, "{mode}: {}", report.output);
        assert!(rows.parse::<u64>().expect("a number") >= report.transactions);
        assert_balanced(&database);
    }
    // Every transaction that pgbench counted is there, and no other.
    database.direct().run("truncate pgbench_history; update pgbench_accounts set abalance = 0; update pgbench_tellers set tbalance = 0; update pgbench_branches set bbalance = 0");
    let report = Pgbench::through(&fleet.address()).clients(16).seconds(2).clean();
    assert_eq!(
        database.direct().value("select count(*) from pgbench_history"),
        report.transactions.to_string()
    );
}

#[test]
fn tpcb_runs_clean_in_session_mode_with_a_connection_for_each_transaction() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("pool_mode", "session").start();
    Pgbench::fill(
        &database.address().as_user("app", "s3cret").at(&database.cluster().socket_dir()),
        2,
    );
    Pgbench::through(&fleet.address()).clients(16).seconds(3).with(&["-C"]).clean();
    assert_balanced(&database);
}

#[test]
fn the_books_balance_when_workers_are_killed() {
    let database = Cluster::shared().database();
    let fleet = filled(&database);
    let address = fleet.address();
    let load = std::thread::spawn(move || {
        Pgbench::through(&address).clients(CLIENTS).seconds(8).printed()
    });
    wait::until_true("the load has begun", || fleet.console("show pools").sum("sv_active") > 0);
    for slot in 1..=4 {
        wait::let_pass(Duration::from_millis(700));
        let killed = fleet.kill_worker(slot);
        fleet.wait_for_successor(killed);
    }
    // Clients of killed workers break off, so pgbench does not end well; what it did is what counts.
    let printed = load.join().expect("the thread ends");
    assert!(printed.out.contains("number of transactions actually processed"), "{printed:?}");
    wait::until_true("no transaction is open any more", || {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = '{}' and state <> 'idle'",
            database.name()
        );
        database.cluster().superuser().value(&sql) == "0"
    });
    assert_balanced(&database);
}
