//! What is wrong with a configuration is said before anything starts: file, line, key, reason and way out, all at once.
//! These tests never start a fleet but to see that it is refused.
//! `make test` runs them.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use pgfleet_harness::{
    cluster::Cluster,
    fleet::{Fleet, Format, Setup},
};

/// What `config check` says of a configuration.
fn check(fleet: &Fleet) -> (Option<i32>, String) {
    let printed = fleet.command(&["config", "check"]);
    (printed.status, printed.out + &printed.err)
}

/// The line of a key in the configuration.
fn line_of(fleet: &Fleet, key: &str) -> usize {
    let text = fs::read_to_string(fleet.config()).expect("it can be read");
    text.lines().position(|line| line.starts_with(key)).expect("the key is there") + 1
}

#[test]
fn a_good_configuration_is_found_good() {
    let database = Cluster::shared().database();
    for format in [Format::Toml, Format::Ini] {
        let fleet = Fleet::of(&database).format(format).unstarted();
        let (status, text) = check(&fleet);
        assert_eq!(status, Some(0), "{text}");
    }
}

#[test]
fn every_problem_is_told_with_its_place() {
    let database = Cluster::shared().database();
    for format in [Format::Toml, Format::Ini] {
        let setup = Fleet::of(&database)
            .format(format)
            .set("pool_mod", "session")
            .set("default_pool_size", "many");
        let fleet = setup.set("query_timeout", "soon").set("auth_type", "guess").unstarted();
        let (status, text) = check(&fleet);
        assert_eq!(status, Some(78), "{text}");
        let file = fleet.config().display().to_string();
        for key in ["pool_mod ", "default_pool_size", "query_timeout", "auth_type"] {
            let place = format!("{file}:{}: {}", line_of(&fleet, key), key.trim());
            assert!(text.contains(&place), "{place} is missing in:\n{text}");
        }
        assert!(text.contains("pool_mode"), "an unknown key is told its nearest: {text}");
    }
}

#[test]
fn a_start_with_a_bad_configuration_exits_with_78() {
    let database = Cluster::shared().database();
    let printed = Fleet::of(&database).set("no_such_key", 1).refused();
    assert_eq!(printed.status, Some(78));
    assert!(printed.err.contains("no_such_key"), "{}", printed.err);
    let printed = Fleet::of(&database).set("no_such_key", 1).foreground().refused();
    assert_eq!(printed.status, Some(78));
    assert!(printed.err.contains("no_such_key"), "{}", printed.err);
}

#[test]
fn bad_entries_are_told_with_their_names() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .database("broken", "host=localhost prot=5432")
        .user("app", "pool_mode=sometimes")
        .unstarted();
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    assert!(
        text.contains("broken") && text.contains("prot") && text.contains("sometimes"),
        "{text}"
    );
}

#[test]
fn a_secret_file_that_others_can_read_is_refused() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    fs::set_permissions(fleet.path("users.txt"), fs::Permissions::from_mode(0o644))
        .expect("it can be opened");
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    assert!(text.contains("users.txt") && text.contains("chmod"), "{text}");
}

#[test]
fn a_missing_or_broken_auth_file_is_told() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("auth_file", "/nonexistent/users.txt").unstarted();
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    assert!(text.contains("/nonexistent/users.txt"), "{text}");

    let fleet = Fleet::of(&database).unstarted();
    fs::write(fleet.path("users.txt"), "\"app\" \"ok\"\nhunter2 without quotes\n")
        .expect("it can be written");
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    assert!(text.contains("users.txt:2"), "{text}");
    assert!(!text.contains("hunter2"), "what may be a secret is not repeated: {text}");
}

#[test]
fn a_missing_configuration_is_told() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    fs::remove_file(fleet.config()).expect("it can be removed");
    for command in [&["start"][..], &["config", "check"]] {
        let printed = fleet.command(command);
        assert_eq!(printed.status, Some(78), "{command:?}: {printed:?}");
        assert!(printed.err.contains("pgfleet.toml"), "{}", printed.err);
    }
}

#[test]
fn contradictions_are_told_with_the_ways_out() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(8)
        .set("max_client_conn", 5)
        .set("max_db_connections", 6)
        .unstarted();
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    assert!(
        text.contains("max_client_conn")
            && text.contains("max_db_connections")
            && text.contains("workers"),
        "{text}"
    );
}

#[test]
fn no_value_of_a_password_is_ever_repeated() {
    let database = Cluster::shared().database();
    let fleet =
        Fleet::of(&database).database("x", "host=localhost password=hunter2 bogus=1").unstarted();
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    let shown = fleet.command(&["config", "show"]);
    assert!(
        !text.contains("hunter2")
            && !shown.out.contains("hunter2")
            && !shown.err.contains("hunter2")
    );
}

#[test]
fn a_failed_start_leaves_its_reason_in_the_log_file() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).unstarted();
    let _taken = TcpListener::bind(("127.0.0.1", fleet.port())).expect("the port is free");
    let printed = fleet.command(&["start"]);
    assert_eq!(printed.status, Some(1), "{printed:?}");
    let log = fleet.log();
    let place = format!("127.0.0.1:{}", fleet.port());
    assert!(log.contains(" FATAL ") && log.contains(&place), "{log}");
}

#[test]
fn a_fleet_without_a_database_says_so() {
    let cluster = Cluster::shared();
    let fleet = Setup::bare(cluster, "nothing").set("listen_addr", "").start();
    let log = fleet.log();
    for text in ["there is no database: every client", "listen_addr is empty: clients can only"] {
        assert!(log.contains(text), "{log}");
        let (status, checked) = check(&fleet);
        assert!(status == Some(0) && checked.contains(text), "{checked}");
    }
}

#[test]
fn a_machine_that_is_not_as_the_settings_need_it_is_told() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .set("user", "nobody-of-that-name")
        .set("listen_addr", "192.0.2.77")
        .set("logfile", "/no/such/place/log")
        .unstarted();
    let (status, text) = check(&fleet);
    assert_eq!(status, Some(78), "{text}");
    for part in
        ["user: there is no user", "listen_addr: 192.0.2.77 is no", "logfile: the directory"]
    {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_init_makes_of_an_ini_starts_a_fleet_with_the_same_settings() {
    let database = Cluster::shared().database();
    let keys = [("pkt_buf", 8192), ("so_reuseport", 1), ("max_client_conn", 30)];
    let setup = Fleet::of(&database).format(Format::Ini).unset("workers");
    let setup = keys.iter().fold(setup, |setup, (key, value)| setup.set(key, value));
    let fleet = setup.unstarted();
    let ini = fleet.config().display().to_string();
    let made = fleet.path("made.toml");
    let arguments = ["init", "--from", &ini, "--from-processes", "4"];
    let printed = fleet.command_with(&made, &arguments).well();
    for part in [
        format!("{ini}:{}: pkt_buf: accepted without effect", line_of(&fleet, "pkt_buf")),
        "max_client_conn: 30 for each of 4 processes is 120 for the fleet".to_owned(),
        "max_client_conn = 120 (".to_owned(),
    ] {
        assert!(printed.err.contains(&part), "{part}: {}", printed.err);
    }
    let started = fleet.command_with(&made, &["start"]).well();
    assert!(started.out.contains("listening on 127.0.0.1"), "{}", started.out);
    assert_eq!(fleet.client().value("select 1"), "1");
    let shown = fleet.console("show config");
    let value = |key: &str| shown.find("key", key).expect("it is a key").text("value").to_owned();
    assert_eq!(
        (value("max_client_conn"), value("pool_mode")),
        ("120".into(), "transaction".into())
    );
    assert_eq!(fleet.command_with(&made, &["stop"]).status, Some(0));
}
