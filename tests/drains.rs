//! Workers that leave, and workers whose supervisor is gone: cancels still reach their clients, and every one of them ends.
//! These tests never look at the load; `fleet` does.
//! `make test` runs them over a real Postgres.

use std::{
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, setup},
    program::python,
    raw::{Raw, cancel, message},
    wait,
};

/// What a client is told that is let go.
fn let_go() -> Failure {
    Failure::new("FATAL", "57P01", "terminating connection due to administrator command")
}

/// Waits until so many queries of this database sleep.
fn are_asleep(superuser: &Client, database: &Database<'_>, count: usize) {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and state = 'active' and query like 'select pg_sleep(30)%'",
        database.name()
    );
    wait::until_true("the queries run", || superuser.value(&sql) == count.to_string());
}

/// Clients that sleep for half a minute inside of a transaction.
fn sleepers(fleet: &Fleet, count: usize) -> Vec<Raw> {
    let sleeper = |_| {
        let mut raw = fleet.raw();
        raw.query("begin").expect("begin runs");
        raw.send(&message::query("select pg_sleep(30)")).expect("the fleet reads");
        raw
    };
    (0..count).map(sleeper).collect()
}

/// How many workers are in this state.
fn count(fleet: &Fleet, state: &str) -> usize {
    fleet.workers().iter().filter(|worker| worker.state == state).count()
}

/// Cancels one client after the other, and sees that the others sleep on.
fn cancel_one_by_one(fleet: &Fleet, database: &Database<'_>, clients: &mut [Raw]) {
    let superuser = database.cluster().superuser();
    let mut left = clients.len();
    are_asleep(&superuser, database, left);
    for raw in clients {
        cancel(&fleet.address(), &raw.key).expect("the connection closes");
        assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
        left -= 1;
        are_asleep(&superuser, database, left);
    }
}

#[test]
fn a_cancel_reaches_the_clients_of_draining_workers() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients = sleepers(&fleet, 8);
    fleet.scale(1);
    assert_eq!((count(&fleet, "serving"), count(&fleet, "draining")), (1, 3));
    cancel_one_by_one(&fleet, &database, &mut clients);
    for mut raw in clients {
        assert_eq!(raw.query("rollback").expect("it is still served").state(), Some('I'));
        raw.leave();
    }
    fleet.wait_for_workers(1);
}

#[test]
fn a_cancel_reaches_the_clients_of_a_worker_that_has_a_successor() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).set("drain_timeout", 60).start();
    let mut clients = sleepers(&fleet, 6);
    thread::scope(|scope| {
        let restart = scope.spawn(|| fleet.restart());
        wait::until_true("one worker is on its way out", || count(&fleet, "leaving") == 1);
        cancel_one_by_one(&fleet, &database, &mut clients);
        for raw in &mut clients {
            raw.query("rollback").expect("it is not let go inside of its transaction");
        }
        for raw in &mut clients {
            assert_eq!(raw.until(b'E').expect("it is told").error(), Some(let_go()));
        }
        restart.join().expect("the restart ends");
    });
    fleet.wait_for_workers(3);
}

#[test]
fn a_session_that_never_leaves_is_ended_at_the_drain_deadline() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("drain_timeout", 3).start();
    let mut raw = fleet.raw();
    raw.query("begin; create table half (a int)").expect("it runs");
    let start = Instant::now();
    thread::scope(|scope| {
        let restart = scope.spawn(|| fleet.restart());
        assert_eq!(raw.until(b'E').expect("it is told").error(), Some(let_go()));
        let ended = start.elapsed();
        assert!((Duration::from_secs(3)..Duration::from_secs(6)).contains(&ended), "{ended:?}");
        restart.join().expect("the restart ends");
    });
    raw.until_closed().expect("it is closed");
    wait::until_true("its server has gone", || database.backends() == 0);
    assert_eq!(database.direct().value("select to_regclass('half') is null"), "t");
}

#[test]
fn a_running_query_is_not_let_go_by_a_restart() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("drain_timeout", 20).start();
    let mut raw = fleet.raw();
    raw.send(&message::query("select pg_sleep(2)::text || 'done'")).expect("the fleet reads");
    wait::until_true("it runs", || fleet.console("show pools").sum("sv_active") == 1);
    thread::scope(|scope| {
        let restart = scope.spawn(|| fleet.restart());
        assert_eq!(raw.until(b'Z').expect("it comes to its end").values(), ["done"]);
        assert_eq!(raw.until(b'E').expect("then it is let go").error(), Some(let_go()));
        restart.join().expect("the restart ends");
    });
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_worker_that_stands_still_does_not_hold_up_a_restart() {
    let database = Cluster::shared().database();
    let fleet =
        Fleet::of(&database).workers(2).set("drain_timeout", 3).set("heartbeat_timeout", 3).start();
    let hung = fleet.worker(1);
    hung.signal(Signal::SIGSTOP);
    let start = Instant::now();
    // Whether the restart counts as done is another question: nobody may wait for it forever.
    let _printed = fleet.command(&["restart"]);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    wait::until_true("it is gone", || !hung.is_alive());
    fleet.wait_for_workers(2);
}

#[test]
fn a_start_is_possible_when_the_orphaned_workers_have_gone() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("drain_timeout", 30).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("begin runs");
    let workers = fleet.serving();
    let owner = workers.iter().find(|worker| worker.clients == 1).expect("one has it").process;
    fleet.supervisor().expect("it runs").signal(Signal::SIGKILL);
    wait::until_true("the idle worker has gone", || {
        workers.iter().all(|worker| worker.process.is_alive() == (worker.process == owner))
    });
    let printed = fleet.command(&["start"]);
    assert_eq!(printed.status, Some(1), "{printed:?}");
    assert!(printed.err.contains(&format!("orphaned workers {} of", owner.0)), "{}", printed.err);
    assert_eq!(raw.query("commit").expect("it can finish").commands(), ["COMMIT"]);
    assert_eq!(raw.until(b'E').expect("then it is let go").error(), Some(let_go()));
    wait::until_true("the last worker has gone", || !owner.is_alive());
    let _printed = fleet.command(&["start"]).well();
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn an_orphaned_worker_takes_no_new_client() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("drain_timeout", 5).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("begin runs");
    let worker = fleet.worker(1);
    fleet.supervisor().expect("it runs").signal(Signal::SIGKILL);
    wait::until_true("nobody listens any more", || Raw::open(&fleet.address()).is_err());
    assert!(Raw::open(&fleet.unix_address()).is_err(), "nor on the Unix socket");
    assert_eq!(raw.until(b'E').expect("the deadline comes").error(), Some(let_go()));
    wait::until_true("the worker has gone", || !worker.is_alive());
    wait::until_true("its server has gone", || database.backends() == 0);
}

#[test]
fn a_client_that_keeps_its_server_is_let_go_between_two_transactions() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("drain_timeout", 30)
        .database("sessions", &session_entry(&database))
        .start();
    let mut session = Raw::login(&fleet.address().in_database("sessions")).expect("it gets in");
    let mut pinned = fleet.raw();
    session.query("select 1").expect("it runs");
    let named = [message::parse("kept", "select 1"), message::sync()].concat();
    pinned.ask(&named).expect("it is parsed");
    let start = Instant::now();
    fleet.restart();
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    for mut raw in [session, pinned] {
        assert_eq!(raw.until_closed().expect("it is closed").error(), Some(let_go()));
    }
}

/// The same database in session mode.
fn session_entry(database: &Database<'_>) -> String {
    format!("{} pool_mode=session", setup::entry(database.cluster(), database.name()))
}

#[test]
fn drivers_see_why_they_are_let_go_also_when_they_never_pause() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let address = fleet.address();
    let clients = thread::spawn(move || python("let_go.py", &address, &[]));
    wait::until_true("all are there", || fleet.console("show clients").len() == 8);
    fleet.restart();
    assert_eq!(clients.join().expect("the clients end").text(), "8 57P01");
}
