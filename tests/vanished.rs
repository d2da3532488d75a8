//! Clients that are gone at a bad moment: what they began comes to nothing, and their server is clean or closed.
//! These tests never say goodbye unless that is the point; the next client gets the one server there is.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::{Fleet, Setup},
    raw::{Raw, message},
    wait,
};

/// One worker with one server, and a table.
fn setup(database: &Database<'_>) -> Setup {
    database.direct().run("create table t (a int); grant all on t to public");
    Fleet::of(database).workers(1).set("default_pool_size", 1)
}

/// Nothing of the one who is gone is in the table, in the locks or among the backends, and the next one is served.
fn clean(database: &Database<'_>, fleet: &Fleet) {
    let next = fleet.client();
    assert_eq!(next.value("select count(*) from t"), "0");
    assert_eq!(next.value("select coalesce(to_regclass('pg_temp.mine')::text, 'none')"), "none");
    next.run("begin; lock table t nowait; rollback");
    let direct = database.direct();
    let left = "select count(*) from pg_stat_activity where datname = current_database() \
                and pid <> pg_backend_pid() and state <> 'idle'";
    wait::until_true("no backend is at work or in a transaction", || direct.value(left) == "0");
}

/// A client in a transaction that holds a lock, a row and a temporary table.
fn in_transaction(fleet: &Fleet) -> Raw {
    let mut raw = fleet.raw();
    let begun = "begin; insert into t values (1); lock table t; create temp table mine (a int)";
    assert_eq!(raw.query(begun).expect("it runs").state(), Some('T'));
    raw
}

#[test]
fn a_client_gone_in_a_transaction_holds_no_lock_and_no_row() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    drop(in_transaction(&fleet));
    clean(&database, &fleet);
}

#[test]
fn a_client_that_says_goodbye_in_a_transaction_has_not_committed_it() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    in_transaction(&fleet).leave();
    clean(&database, &fleet);
}

#[test]
fn a_client_gone_in_a_failed_transaction_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let mut raw = in_transaction(&fleet);
    assert_eq!(raw.query("select 1/0").expect("an error is an answer").state(), Some('E'));
    drop(raw);
    clean(&database, &fleet);
}

#[test]
fn a_client_gone_in_a_transaction_in_session_mode_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).set("pool_mode", "session").start();
    drop(in_transaction(&fleet));
    clean(&database, &fleet);
}

#[test]
fn the_query_of_a_client_that_is_gone_ends_in_postgres_too() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let mut gone = fleet.raw();
    gone.send(&message::query("insert into t select 1 from pg_sleep(600)"))
        .expect("the fleet reads");
    let direct = database.direct();
    let sleeping = "select count(*) from pg_stat_activity where datname = current_database() \
                    and wait_event = 'PgSleep'";
    wait::until_true("it sleeps", || direct.value(sleeping) == "1");
    drop(gone);
    wait::until_true("it sleeps no more", || direct.value(sleeping) == "0");
    clean(&database, &fleet);
}

#[test]
fn a_client_gone_while_it_waits_for_a_server_never_gets_one() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let mut holder = fleet.raw();
    holder.query("begin").expect("begin runs");
    let mut gone = fleet.raw();
    gone.send(&message::query("insert into t values (1)")).expect("the fleet reads");
    let waiting = || fleet.console("show pools").sum("cl_waiting");
    wait::until_true("it waits", || waiting() == 1);
    drop(gone);
    wait::until_true("it waits no more", || waiting() == 0);
    holder.query("commit").expect("commit runs");
    clean(&database, &fleet);
}

#[test]
fn a_client_gone_in_the_middle_of_copy_data_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    for half in [1, 4, 5, 9, 10_000] {
        let mut raw = fleet.raw();
        raw.send(&message::query("copy t from stdin")).expect("the fleet reads");
        raw.until(b'G').expect("the server wants data");
        let whole = message::copy_data("1\n".repeat(30_000).as_bytes());
        let (part, _) = whole.split_at(half);
        raw.send(&[message::copy_data(b"2\n"), part.to_vec()].concat()).expect("the fleet reads");
        drop(raw);
        clean(&database, &fleet);
    }
}

#[test]
fn a_client_gone_in_the_middle_of_any_message_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let batch = message::unnamed("insert into t values ($1)", &[Some("1")]);
    let (whole, sync) = batch.split_at(batch.len() - message::sync().len());
    assert_eq!(sync, message::sync());
    // Without its Sync none of it may be committed, wherever it breaks off.
    for end in 0..=whole.len() {
        let mut raw = fleet.raw();
        raw.send(whole.get(..end).unwrap_or_default()).expect("the fleet reads");
        drop(raw);
    }
    clean(&database, &fleet);
}

#[test]
fn a_client_gone_while_rows_come_leaves_its_server_to_the_next_without_them() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    for rows in [10, 1_000, 100_000, 10_000_000] {
        let mut gone = fleet.raw();
        let sql = format!("select 'theirs' from generate_series(1, {rows})");
        gone.send(&message::query(&sql)).expect("the fleet reads");
        gone.until(b'D').expect("rows begin to come");
        drop(gone);
        let answer = fleet.raw().query("select 'mine'").expect("the next one is served");
        assert_eq!((answer.course().as_str(), answer.values()), ("TDCZ", vec!["mine".to_owned()]));
    }
    clean(&database, &fleet);
}

#[test]
fn fifty_clients_gone_at_once_leave_a_pool_that_serves() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).set("default_pool_size", 5).start();
    let mut gone: Vec<Raw> = (0..50).map(|_| fleet.raw()).collect();
    for raw in &mut gone {
        raw.send(&message::query("begin; insert into t values (1)")).expect("the fleet reads");
    }
    wait::until_true("five of them are served", || {
        fleet.console("show pools").sum("sv_active") == 5
    });
    drop(gone);
    clean(&database, &fleet);
    wait::until_true("nobody waits and nothing is held", || {
        let pools = fleet.console("show pools");
        pools.sum("cl_waiting") == 0 && pools.sum("sv_active") == 0
    });
}
