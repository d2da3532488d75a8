//! The daemon as a process: its pid, its signals, its exit status, and what it leaves behind, which is nothing.
//! These tests never look at what it does for clients beyond whether it does it.
//! `make test` runs them over a real Postgres.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    account,
    cluster::{Cluster, Database},
    fleet::Fleet,
    program::Printed,
    raw::{Raw, message},
    wait,
};

/// A fleet in the foreground, and a client in a transaction.
fn in_transaction(database: &Database<'_>) -> (Fleet, Raw) {
    let fleet = Fleet::of(database).foreground().start();
    let mut raw = fleet.raw();
    raw.query("begin; create table kept (a int)").expect("it runs");
    (fleet, raw)
}

fn signal(fleet: &Fleet, signal: Signal) {
    fleet.supervisor().expect("the supervisor runs").signal(signal);
}

/// Names of what is in the directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the directory is there").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Fails the test unless the start was refused with this status and these words.
fn refused(printed: &Printed, status: i32, words: &[&str]) {
    assert_eq!(printed.status, Some(status), "{printed:?}");
    for word in words {
        assert!(printed.err.contains(word), "{word:?} is missing in {:?}", printed.err);
    }
}

#[test]
fn term_waits_for_clients_and_exits_with_0() {
    let database = Cluster::shared().database();
    let (mut fleet, mut raw) = in_transaction(&database);
    signal(&fleet, Signal::SIGTERM);
    wait::until_true("nobody accepts any more", || Raw::login(&fleet.address()).is_err());
    raw.query("commit").expect("the transaction can finish");
    assert_eq!(raw.query("select 1").expect("it is still served").values(), ["1"]);
    assert!(fleet.supervisor().is_some(), "it waits as long as the client is there");
    raw.leave();
    assert_eq!(fleet.exit_status(), Some(0));
}

#[test]
fn int_waits_for_transactions_and_exits_with_0() {
    let database = Cluster::shared().database();
    let (mut fleet, mut raw) = in_transaction(&database);
    let mut idle = Raw::login(&fleet.address()).expect("it gets in");
    idle.query("select 1").expect("it is served");
    signal(&fleet, Signal::SIGINT);
    assert_eq!(idle.until(b'E').expect("it is let go").code(), "57P01");
    assert_eq!(raw.query("commit").expect("it can finish").commands(), ["COMMIT"]);
    assert_eq!(raw.until(b'E').expect("then it is let go").code(), "57P01");
    assert_eq!(fleet.exit_status(), Some(0));
    assert_eq!(database.direct().value("select to_regclass('kept') is not null"), "t");
}

#[test]
fn a_second_int_does_not_wait() {
    let database = Cluster::shared().database();
    let (mut fleet, _raw) = in_transaction(&database);
    signal(&fleet, Signal::SIGINT);
    wait::until_true("it is stopping", || fleet.log().contains("got SIGINT, shutting down"));
    let start = Instant::now();
    signal(&fleet, Signal::SIGINT);
    assert_eq!(fleet.exit_status(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[test]
fn quit_ends_at_once_and_leaves_no_backend() {
    let database = Cluster::shared().database();
    let (mut fleet, mut raw) = in_transaction(&database);
    raw.send(&message::query("select pg_sleep(60)")).expect("the fleet reads");
    wait::until_true("it runs", || fleet.console("show pools").sum("sv_active") == 1);
    let (all, start) = (fleet.processes(), Instant::now());
    signal(&fleet, Signal::SIGQUIT);
    assert_eq!(fleet.exit_status(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    wait::until_true("no process is left", || all.iter().all(|process| !process.is_alive()));
    raw.until_closed().expect("the client is closed");
}

#[test]
fn hup_reloads_and_a_bad_file_is_told_in_the_log_alone() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).foreground().start();
    fleet.rewrite(|setup| setup.set("query_timeout", "soon"));
    signal(&fleet, Signal::SIGHUP);
    wait::until_true("the log tells why not", || {
        fleet.log().contains("RELOAD failed, nothing has changed: ")
    });
    let log = fleet.log();
    let line = log.lines().find(|line| line.contains("RELOAD failed")).unwrap_or_default();
    assert!(line.contains("pgfleet.toml:") && line.contains(" query_timeout: "), "{line}");
    fleet.rewrite(|setup| setup.set("query_timeout", 5));
    signal(&fleet, Signal::SIGHUP);
    wait::until_true("the next one is taken", || fleet.log().contains("RELOAD done"));
    assert_eq!(fleet.client().failure("select pg_sleep(30)").message, "query timeout");
}

#[test]
fn a_failed_start_in_the_foreground_has_the_exit_status_of_its_reason() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database).foreground();
    let _holder = TcpListener::bind(("127.0.0.1", setup.port())).expect("the port is free");
    let address = format!("cannot bind 127.0.0.1:{}: address already in use", setup.port());
    refused(&setup.refused(), 1, &[&address, "listen_port"]);
    refused(
        &Fleet::of(&database).foreground().set("auth_type", "cert").refused(),
        78,
        &["auth_type: cert is not supported in this version"],
    );
}

#[test]
fn a_second_foreground_start_is_refused_with_the_pid() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).foreground().start();
    let pid = fleet.supervisor().expect("it runs").0;
    let printed = fleet.command(&["start", "--foreground"]);
    refused(&printed, 1, &[&format!("pid {pid} "), "pgfleet stop"]);
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_stop_leaves_no_socket_and_no_pid_file() {
    let database = Cluster::shared().database();
    for mode in ["smart", "fast", "immediate"] {
        let mut fleet = Fleet::of(&database).start();
        fleet.client().run("select 1");
        assert_eq!(names(&fleet.path("sock")), [format!(".s.PGSQL.{}", fleet.port())], "{mode}");
        fleet.stop(mode);
        assert_eq!(names(&fleet.path("sock")), [""; 0], "{mode}");
        assert_eq!(names(&fleet.path("run/console")), [""; 0], "{mode}");
        // The lock stays: without it two fleets could lock two files of one name.
        assert_eq!(names(&fleet.path("run/private")), ["lock"], "{mode}");
        assert!(!fleet.path("pid").exists(), "{mode}: the pid file is still there");
    }
}

#[test]
fn a_stopped_fleet_starts_again() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    for mode in ["fast", "immediate"] {
        fleet.stop(mode);
        refused(&fleet.command(&["stop"]), 3, &["run/console"]);
        let _printed = fleet.command(&["start"]).well();
        assert_eq!(fleet.client().value("select 1"), "1");
    }
}

#[test]
fn a_runtime_directory_of_another_user_is_refused() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("runtime_dir", "/usr").unstarted();
    let printed = fleet.command(&["start"]);
    refused(&printed, 1, &["/usr belongs to uid 0, not to uid ", "set runtime_dir"]);
    assert!(!Path::new("/usr/private").exists());
}

#[test]
fn a_runtime_directory_that_others_may_write_or_read_is_refused() {
    let database = Cluster::shared().database();
    for (dir, mode, wanted) in [
        ("run", 0o775, "chmod 0755"),
        ("run/private", 0o750, "chmod 0700"),
        ("run/console", 0o757, "chmod 0755"),
    ] {
        let fleet = Fleet::of(&database).unstarted();
        for name in ["run", "run/private", "run/console"] {
            fs::create_dir(fleet.path(name)).expect("it can be made");
            let mode = if name == dir { mode } else { 0o700 };
            fs::set_permissions(fleet.path(name), fs::Permissions::from_mode(mode))
                .expect("modes can be set");
            account::give(&fleet.path(name));
        }
        let place = format!("{} has mode {mode:04o}", fleet.path(dir).display());
        refused(&fleet.command(&["start"]), 1, &[&place, wanted]);
    }
}

#[test]
fn a_runtime_directory_that_is_a_link_is_refused() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    symlink(fleet.path("sock"), fleet.path("run")).expect("links can be made");
    let place = format!("{} is a symbolic link", fleet.path("run").display());
    refused(&fleet.command(&["start"]), 1, &[&place, "set runtime_dir"]);
    assert_eq!(names(&fleet.path("sock")), [""; 0]);
}

#[test]
fn a_failed_start_leaves_nothing_that_hinders_the_next() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database);
    let holder = TcpListener::bind(("127.0.0.1", setup.port())).expect("the port is free");
    let fleet = setup.unstarted();
    refused(&fleet.command(&["start"]), 1, &["address already in use"]);
    assert!(!fleet.path("pid").exists(), "no pid file");
    assert_eq!(names(&fleet.path("sock")), [""; 0]);
    drop(holder);
    let _printed = fleet.command(&["start"]).well();
    assert_eq!(fleet.client().value("select 1"), "1");
}
