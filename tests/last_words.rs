//! Bytes and the end of a connection that arrive together: both are noticed, though nothing else ever happens.
//! The worker is stopped meanwhile, so that it finds both at once; nothing else may wake it afterwards.
//! `make test` runs them over a real Postgres.

use nix::sys::signal::Signal;
use pgfleet_harness::{
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::Fleet,
    process::Process,
    raw::message,
    wait,
};

/// Lets something happen while the worker cannot look; it is shorter than the heartbeat.
fn unseen(worker: Process, happens: impl FnOnce()) {
    worker.signal(Signal::SIGSTOP);
    wait::until_true("the worker stands still", || worker.state() == Some('T'));
    happens();
    worker.signal(Signal::SIGCONT);
}

/// Terminates all backends of the database, and waits until they are gone.
fn terminate(database: &Database<'_>) {
    let name = database.name();
    let sql =
        format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    database.cluster().superuser().run(&sql);
    wait::until_true("the backends are gone", || database.backends() == 0);
}

fn end() -> Option<Failure> {
    let text = "terminating connection due to administrator command";
    Some(Failure::new("FATAL", "57P01", text))
}

#[test]
fn the_end_of_a_server_is_noticed_along_with_its_last_words() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("heartbeat_timeout", 30).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("there is a server");
    unseen(fleet.worker(1), || terminate(&database));
    assert_eq!(raw.until(b'E').expect("the last words are passed on").error(), end());
    raw.set_patience(std::time::Duration::from_secs(5));
    assert!(raw.until_closed().is_ok(), "the connection should have been closed at once");
}

#[test]
fn the_end_of_an_idle_server_is_noticed_along_with_its_last_words() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("heartbeat_timeout", 30).start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("it runs");
    unseen(fleet.worker(1), || terminate(&database));
    wait::until_true("the fleet knows that it has no server", || {
        fleet.console("show servers").rows().all(|row| row.text("database") != database.name())
    });
    assert_eq!(raw.query("select 2").expect("a new one is opened").values(), ["2"]);
}

#[test]
fn the_end_of_a_client_is_noticed_along_with_half_a_message() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("heartbeat_timeout", 30).start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("it runs");
    unseen(fleet.worker(1), move || {
        let query = message::query("select 2");
        raw.send(query.get(..7).expect("it is longer")).expect("the kernel takes it");
    });
    wait::until_true("the fleet knows that it has no client", || {
        fleet.console("show clients").rows().all(|row| row.text("database") != database.name())
    });
}
