//! The operator's command: what it does, what it says, and how it exits.
//! These tests never look at the relay.
//! `make test` runs them over a real Postgres.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, time::Duration};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    cluster::Cluster,
    fleet::{Fleet, Format},
    raw::Raw,
    wait,
};

#[test]
fn start_leaves_a_daemon_that_serves() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    assert_eq!(fleet.client().value("select 1"), "1");
    let status = fleet.command(&["status"]).well();
    assert!(status.out.contains("serving"), "{}", status.out);
}

#[test]
fn the_foreground_command_becomes_the_supervisor() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).foreground().start();
    let supervisor = fleet.supervisor().expect("it runs");
    assert!(supervisor.command_line().contains("pgfleetd"));
    assert_eq!(supervisor.parent().map(|parent| parent.0), i32::try_from(std::process::id()).ok());
    supervisor.signal(Signal::SIGINT);
    assert_eq!(fleet.exit_status(), Some(0));
}

#[test]
fn a_second_start_says_who_is_running() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let pid = fleet.supervisor().expect("it runs").0.to_string();
    let printed = fleet.command(&["start"]);
    assert_eq!(printed.status, Some(1));
    assert!(printed.err.contains("already runs") && printed.err.contains(&pid), "{}", printed.err);
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn every_mode_of_stop_leaves_nothing() {
    let database = Cluster::shared().database();
    for mode in ["smart", "fast", "immediate"] {
        let mut fleet = Fleet::of(&database).start();
        fleet.client().run("select 1");
        fleet.stop(mode);
        assert!(Raw::open(&fleet.address()).is_err(), "{mode}: nobody listens any more");
        assert!(fleet.supervisor().is_none());
        wait::until_true("the servers are gone", || database.backends() == 0);
    }
}

#[test]
fn a_smart_stop_waits_for_clients() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let printed = fleet.command(&["stop", "--mode", "smart", "--timeout", "1s"]);
    assert_eq!(printed.status, Some(1));
    assert!(printed.err.contains("still running"), "{}", printed.err);
    assert_eq!(raw.query("select 1").expect("it is still served").values(), ["1"]);
    raw.leave();
    wait::until_true("the fleet ends with its last client", || fleet.supervisor().is_none());
    assert_eq!(fleet.command(&["stop"]).status, Some(3));
    fleet.rewrite(|setup| setup);
}

#[test]
fn a_fast_stop_breaks_no_transaction() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    raw.query("begin; create table kept (a int)").expect("it runs");
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| fleet.command(&["stop", "--mode", "fast"]));
        wait::let_pass(Duration::from_millis(500));
        assert!(raw.query("commit").is_ok(), "the transaction can finish");
        assert_eq!(stop.join().expect("the stop ends").status, Some(0));
    });
    assert_eq!(database.direct().value("select to_regclass('kept') is not null"), "t");
}

#[test]
fn commands_without_a_daemon_exit_with_3() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    for command in
        [&["stop"][..], &["status"], &["scale", "2"], &["reload"], &["restart"], &["show", "pools"]]
    {
        let printed = fleet.command(command);
        assert_eq!(printed.status, Some(3), "{command:?}: {printed:?}");
        assert!(printed.err.contains(&fleet.path("run").display().to_string()), "{}", printed.err);
    }
}

#[test]
fn a_wrong_usage_exits_with_2() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    for command in [&["fly"][..], &["scale"], &["stop", "--mode", "gently"]] {
        let printed = fleet.command(command);
        assert_eq!(printed.status, Some(2), "{command:?}: {printed:?}");
    }
}

#[test]
fn impossible_scales_are_refused_with_the_way_out() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for count in ["0", "129", "100000", "-3", "many"] {
        let printed = fleet.command(&["scale", count]);
        assert!(matches!(printed.status, Some(1 | 2)), "{count}: {printed:?}");
        assert!(!printed.err.is_empty(), "{count}");
    }
    let zero = fleet.command(&["scale", "0"]);
    assert!(zero.err.contains("stop"), "the way out of 0 is to stop: {}", zero.err);
    fleet.wait_for_workers(2);
}

#[test]
fn a_port_in_use_is_named() {
    let database = Cluster::shared().database();
    let setup = Fleet::of(&database);
    let address = format!("127.0.0.1:{}", setup.port());
    let _holder = TcpListener::bind(&address).expect("the port is free");
    let printed = setup.refused();
    assert_eq!(printed.status, Some(1), "{printed:?}");
    assert!(printed.err.contains(&address) && printed.err.contains("in use"), "{}", printed.err);
}

#[test]
fn two_fleets_never_share_a_port() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    // SO_REUSEPORT would allow it.
    let printed = Fleet::of(&database).set("listen_port", fleet.port()).refused();
    assert_eq!(printed.status, Some(1), "{printed:?}");
    assert!(printed.err.contains("in use"), "{}", printed.err);
}

#[test]
fn two_fleets_run_side_by_side() {
    let database = Cluster::shared().database();
    let (one, two) = (Fleet::of(&database).start(), Fleet::of(&database).start());
    assert_eq!(one.client().value("select 1") + &two.client().value("select 2"), "12");
}

#[test]
fn what_a_killed_fleet_left_behind_does_not_stop_a_start() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let all = fleet.processes();
    for process in &all {
        process.signal(Signal::SIGKILL);
    }
    wait::until_true("all are gone", || all.iter().all(|process| !process.is_alive()));
    let _printed = fleet.command(&["start"]).well();
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_start_beside_orphaned_workers_names_them() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("drain_timeout", 60).start();
    let _clients: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    let workers = fleet.serving();
    fleet.supervisor().expect("it runs").signal(Signal::SIGKILL);
    wait::until_true("the supervisor is gone", || fleet.supervisor().is_none());
    let printed = fleet.command(&["start"]);
    assert_eq!(printed.status, Some(1), "{printed:?}");
    assert!(
        workers.iter().all(|worker| printed.err.contains(&worker.process.0.to_string())),
        "{}",
        printed.err
    );
    workers.iter().for_each(|worker| worker.process.signal(Signal::SIGKILL));
}

#[test]
fn a_foreign_or_open_runtime_directory_is_refused() {
    let database = Cluster::shared().database();
    let open = Fleet::of(&database).unstarted();
    fs::create_dir(open.path("run")).expect("it can be made");
    fs::set_permissions(open.path("run"), fs::Permissions::from_mode(0o777))
        .expect("it can be opened");
    let printed = open.command(&["start"]);
    assert_eq!(printed.status, Some(1), "{printed:?}");
    assert!(printed.err.contains(&open.path("run").display().to_string()), "{}", printed.err);

    let file = Fleet::of(&database).unstarted();
    fs::write(file.path("run"), "").expect("it can be written");
    assert_eq!(file.command(&["start"]).status, Some(1));
}

#[test]
fn a_socket_path_that_is_too_long_is_named() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    let long = fleet.path(&"d".repeat(110)).display().to_string();
    let printed = Fleet::of(&database).set("runtime_dir", long).refused();
    assert!(matches!(printed.status, Some(1 | 78)), "{printed:?}");
    assert!(printed.err.contains("107"), "{}", printed.err);
}

#[test]
fn a_pgbouncer_ini_starts_as_it_is() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .format(Format::Ini)
        .set("server_reset_query", "DISCARD ALL")
        .set("pkt_buf", 8192)
        .start();
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn signals_do_what_they_do_with_pgbouncer() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    fleet.rewrite(|setup| setup.set("query_timeout", 77));
    fleet.supervisor().expect("it runs").signal(Signal::SIGHUP);
    wait::until_true("HUP reloads", || {
        fleet
            .console("show config")
            .find("key", "query_timeout")
            .is_some_and(|row| row.text("value") == "77")
    });
    let mut raw = fleet.raw();
    fleet.supervisor().expect("it runs").signal(Signal::SIGTERM);
    wait::until_true("TERM stops accepting", || Raw::open(&fleet.address()).is_err());
    assert!(raw.query("select 1").is_ok(), "TERM waits for clients");
    fleet.supervisor().expect("it runs").signal(Signal::SIGTERM);
    wait::until_true("a second TERM does not wait", || fleet.supervisor().is_none());
}

#[test]
fn tables_come_in_three_forms() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let csv = fleet.command(&["show", "workers", "--format", "csv"]).well();
    assert_eq!(csv.out.lines().count(), 3);
    assert!(csv.out.starts_with("worker,slot,pid,state"), "{}", csv.out);
    let json = fleet.command(&["show", "workers", "--format", "json"]).well();
    assert!(
        json.out.trim_start().starts_with('[') && json.out.contains("\"slot\""),
        "{}",
        json.out
    );
    let table = fleet.command(&["show", "workers"]).well();
    assert!(
        table.out.contains("serving") && !table.out.contains('\u{1b}'),
        "no colours on a pipe: {}",
        table.out
    );
}

#[test]
fn scale_lasts_until_the_file_changes() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).workers(2).start();
    fleet.scale(3);
    fleet.reload();
    fleet.wait_for_workers(3);
    fleet.rewrite(|setup| setup.workers(4));
    fleet.reload();
    fleet.wait_for_workers(4);
}
