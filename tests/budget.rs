//! A budget of 100 server connections over 7 workers, kept while workers die and the fleet grows and shrinks under load.
//! Postgres itself is the judge: its own limit on role and database is the budget, and it may never have to refuse.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    address::Address,
    cluster::{Cluster, Database},
    crowd::{Crowd, Running},
    fleet::{Fleet, Setup},
    raw::Raw,
    wait,
};

const BUDGET: i32 = 100;

/// A role that Postgres allows as many connections as the database.
fn limited(database: &Database<'_>, role: &str) {
    database.direct().run(&format!("create role {role} login"));
    database.cluster().limit_role(role, BUDGET);
    database.limit(BUDGET);
}

/// A client that always wants a server; gives back how often it was served. It comes anew after every few queries,
/// since only new connections are spread over the workers.
fn insist(address: &Address, running: &Running) -> usize {
    let mut served = 0;
    while running.goes_on() {
        let Ok(mut raw) = Raw::login(address) else { continue };
        let mut ask = || raw.query("select pg_sleep(0.2)").is_ok_and(|it| it.error().is_none());
        served += (0..3).take_while(|_| running.goes_on() && ask()).count();
        raw.leave();
    }
    served
}

/// The whole budget is in use, so nothing of it has been lost.
fn exhausted(database: &Database<'_>, when: &str) {
    let budget = usize::try_from(BUDGET).expect("it is positive");
    wait::until_true(&format!("all {BUDGET} connections are in use {when}"), || {
        database.backends() == budget
    });
}

/// Load, deaths and scaling on a fleet whose limit is the budget.
fn kept(database: &Database<'_>, setup: Setup, role: &str) {
    limited(database, role);
    let fleet = setup.workers(7).secret(role, "").start();
    let address = fleet.address().as_user(role, "");
    let load = Crowd::start(140, move |_, running| insist(&address, running));
    exhausted(database, "at first");
    for slot in [1, 4, 7] {
        let killed = fleet.kill_worker(slot);
        fleet.wait_for_successor(killed);
    }
    exhausted(database, "after the deaths");
    for count in [3, 9, 5, 7] {
        fleet.scale(count);
        wait::let_pass(Duration::from_millis(500));
    }
    let killed = fleet.kill_worker(2);
    fleet.wait_for_successor(killed);
    exhausted(database, "at last");
    let served: usize = load.stop().into_iter().sum();
    assert!(served > 500, "only {served} were served");
    let refused = database.cluster().logged("53300").into_iter();
    let refused: Vec<String> = refused.filter(|line| line.contains(role)).collect();
    assert_eq!(refused, [""; 0], "Postgres had to refuse");
}

#[test]
fn max_db_connections_is_never_exceeded_and_never_lost() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database).set("max_db_connections", BUDGET).set("default_pool_size", 0);
    kept(&database, setup, "of_database");
}

#[test]
fn pool_size_is_never_exceeded_and_never_lost() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database).database_keys(&format!("pool_size={BUDGET}"));
    kept(&database, setup, "of_pool");
}

#[test]
fn max_user_connections_is_never_exceeded_and_never_lost() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database)
        .user("of_user", &format!("max_user_connections={BUDGET}"))
        .set("default_pool_size", 0);
    kept(&database, setup, "of_user");
}
