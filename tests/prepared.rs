//! pgbench with prepared statements: clients that keep their servers, as many as there are servers.
//! These tests never have more clients than servers: those would wait, which is this version's rule.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::Fleet,
    program::Pgbench,
    wait,
};

const CLIENTS: u32 = 8;

/// As many servers as clients, with the tables of pgbench.
fn filled(database: &Database<'_>, workers: u32) -> Fleet {
    let fleet = Fleet::of(database)
        .workers(workers)
        .set("default_pool_size", CLIENTS)
        .set("query_wait_timeout", 5)
        .start();
    let socket = database.cluster().socket_dir();
    Pgbench::fill(&database.address().as_user("app", "s3cret").at(&socket), 4);
    fleet
}

#[test]
fn eight_clients_on_a_pool_of_eight_run_clean() {
    let database = Cluster::shared().database();
    for workers in [1, 4] {
        let fleet = filled(&database, workers);
        let run = Pgbench::through(&fleet.address()).clients(CLIENTS).mode("prepared");
        let selects = run.clone().seconds(2).with(&["-S"]).clean();
        assert!(selects.transactions > 100, "{workers} workers: {}", selects.output);
        let transfers = run.seconds(3).clean();
        assert_eq!(
            database.direct().value("select count(*) from pgbench_history"),
            transfers.transactions.to_string(),
            "{workers} workers"
        );
        wait::until_true("there are no more servers than the pool has", || {
            database.backends() <= 8
        });
    }
}

#[test]
fn a_server_that_was_kept_is_given_up_when_its_client_leaves() {
    let database = Cluster::shared().database();
    let fleet = filled(&database, 2);
    let run = Pgbench::through(&fleet.address()).clients(CLIENTS).mode("prepared");
    for round in 0..4 {
        let report = run.clone().with(&["-t", "25", "-S"]).clean();
        assert_eq!(report.transactions, u64::from(CLIENTS) * 25, "round {round}");
    }
    let report =
        Pgbench::through(&fleet.address()).clients(64).with(&["-t", "5", "-S"]).mode("simple");
    assert_eq!(report.clean().transactions, 320);
}
