//! Limits while the fleet changes: kills and scaling never lift a limit, and the whole of it can be used.
//! These tests never trust a count that is polled: Postgres itself has the same limit and would log every excess.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    crowd::Crowd,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

#[test]
fn seven_workers_never_exceed_a_budget_of_a_hundred() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    database.limit(100);
    cluster.limit_role("app", 100);
    let setup = Fleet::of(&database)
        .workers(7)
        .set("max_db_connections", 100)
        .set("default_pool_size", 100);
    let fleet = setup.set("server_idle_timeout", 1).set("query_wait_timeout", 60).start();
    let address = fleet.address();
    let crowd = Crowd::start(140, move |_, running| {
        let mut errors = Vec::new();
        while running.goes_on() {
            let Ok(client) = Client::connect(&address).map_err(|failure| errors.push(failure))
            else {
                continue;
            };
            for _ in 0..20 {
                if let Err(failure) = client.rows("select pg_sleep(0.02)") {
                    errors.push(failure);
                    break;
                }
            }
        }
        errors
    });
    for (slot, scale) in [(1, 7), (3, 3), (2, 9), (7, 7), (4, 7), (5, 5), (2, 7)] {
        fleet.kill_worker(slot);
        wait::let_pass(Duration::from_millis(700));
        fleet.scale(scale);
        wait::let_pass(Duration::from_millis(700));
    }
    let errors = crowd.stop().concat();
    assert_eq!(cluster.logged("53300"), Vec::<String>::new(), "Postgres had to refuse");
    let odd: Vec<_> = errors
        .iter()
        .filter(|failure| !failure.is_silent() && failure.severity != "FATAL")
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn the_whole_budget_can_be_used() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    database.limit(21);
    let fleet = Fleet::of(&database)
        .workers(3)
        .set("max_db_connections", 21)
        .set("default_pool_size", 21)
        .start();
    let clients: Vec<Raw> = (0..21).map(|_| fleet.raw()).collect();
    let mut clients: Vec<Raw> = clients
        .into_iter()
        .map(|mut raw| {
            raw.query("begin").expect("there is a server for it");
            raw
        })
        .collect();
    assert_eq!(fleet.console("show pools").sum("sv_active"), 21);
    let mut late = fleet.raw();
    late.send(&message::query("select 1")).expect("the fleet reads");
    wait::until_true("the next one waits", || fleet.console("show pools").sum("cl_waiting") == 1);
    for raw in &mut clients {
        raw.query("commit").expect("commit runs");
    }
    assert_eq!(late.until(b'Z').expect("it is served").values(), ["1"]);
    assert_eq!(cluster.logged("53300"), Vec::<String>::new());
}

#[test]
fn a_killed_worker_frees_its_part_only_when_its_backends_are_gone() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    database.limit(4);
    cluster.limit_role("app", 4);
    let fleet = Fleet::of(&database)
        .workers(2)
        .set("max_db_connections", 4)
        .set("default_pool_size", 4)
        .start();
    let mut clients: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        // Postgres does not notice that its client is gone while it sleeps.
        raw.send(&message::query("select pg_sleep(60)")).expect("the fleet reads");
    }
    wait::until_true("all four servers are busy", || {
        fleet.console("show pools").sum("sv_active") == 4
    });
    let killed = fleet.kill_worker(1);
    fleet.wait_for_successor(killed);
    let fresh: Vec<_> = (0..4).map(|_| fleet.client()).collect();
    wait::until_true("a server is there for new clients", || {
        fresh.iter().any(|client| client.rows("select 1").is_ok())
    });
    assert_eq!(cluster.logged("53300"), Vec::<String>::new());
}

#[test]
fn a_waiting_client_that_leaves_does_not_hold_up_the_line() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).start();
    let mut holder = fleet.raw();
    holder.query("begin").expect("begin runs");
    let (mut impatient, mut patient) = (fleet.raw(), fleet.raw());
    impatient.send(&message::query("create table never (a int)")).expect("the fleet reads");
    patient.send(&message::query("select 1")).expect("the fleet reads");
    wait::until_true("both wait", || fleet.console("show pools").sum("cl_waiting") == 2);
    drop(impatient);
    wait::until_true("one is gone", || fleet.console("show pools").sum("cl_waiting") == 1);
    holder.query("commit").expect("commit runs");
    assert_eq!(patient.until(b'Z').expect("it is served").values(), ["1"]);
    assert_eq!(fleet.client().value("select to_regclass('never') is null"), "t");
}
