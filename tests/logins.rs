//! The rarer turns of a login: what can be told apart from outside, what a reload changes, what is refused by name.
//! These tests never repeat the table of methods and secrets, which is in `auth`.
//! `make test` runs them over a real Postgres.

use std::collections::HashSet;

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database, PASSWORD},
    crowd::Crowd,
    failure::Failure,
    fleet::{Fleet, Setup},
    raw::{Raw, message},
    wait,
};

fn fatal(text: &str) -> Failure {
    Failure::new("FATAL", "08P01", text)
}

/// A fleet that logs in to Postgres over TCP, where each user has a method of its own.
fn over_tcp(database: &Database<'_>) -> Setup {
    let port = database.cluster().port();
    let entry = format!("host=127.0.0.1 port={port} dbname={}", database.name());
    Fleet::of(database).database(database.name(), &entry)
}

/// What twelve logins at once get; whoever gets in stays until all have been answered.
fn at_once(fleet: &Fleet, user: &str, password: &str) -> Vec<Option<Failure>> {
    let address = fleet.address().as_user(user, password);
    let logins = Crowd::start(12, move |_, _| Client::connect(&address)).finish();
    logins.iter().map(|login| login.as_ref().err().cloned()).collect()
}

/// Salt and rounds that the fleet offers a user for SCRAM.
fn offer(fleet: &Fleet, user: &str) -> String {
    let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
    let startup = message::startup(&[("user", user), ("database", &fleet.address().database)]);
    raw.send(&startup).expect("the fleet reads");
    assert_eq!(raw.read().expect("SASL is asked for").body.get(..4), Some(&[0, 0, 0, 10][..]));
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    let length = u32::try_from(first.len()).expect("it is short").to_be_bytes();
    let body = [b"SCRAM-SHA-256\0", &length[..], first].concat();
    raw.send(&message::framed(b'p', &body)).expect("the fleet reads");
    let text = raw.read().expect("the exchange goes on").text();
    text.split_once(",s=").expect("there is a salt").1.to_owned()
}

#[test]
fn strangers_and_known_users_are_offered_equally_constant_salts() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).set("auth_type", "scram-sha-256").start();
    let offers = |user: &str| (0..24).map(|_| offer(&fleet, user)).collect::<HashSet<_>>();
    let (known, stranger) = (offers("app"), offers("nobody_knows"));
    assert_eq!(stranger.len(), 1, "strangers: {stranger:?}");
    assert_eq!(known.len(), 1, "a changing salt tells that the user exists: {known:?}");
    assert_ne!(known, stranger);
}

#[test]
fn a_removed_user_is_out_on_every_worker_and_its_open_connections_stay() {
    let database = Cluster::shared().database();
    for (auth_type, text) in [
        ("plain", "password authentication failed"),
        ("md5", "password authentication failed"),
        ("scram-sha-256", "SASL authentication failed"),
    ] {
        let mut fleet = Fleet::of(&database).workers(3).set("auth_type", auth_type).start();
        assert_eq!(at_once(&fleet, "plain", PASSWORD), vec![None; 12], "{auth_type} before");
        let before = Client::connect(&fleet.address().as_user("plain", PASSWORD));
        let before = before.expect("it is still known");
        fleet.rewrite(|setup| setup.stranger("plain"));
        fleet.reload();
        let refused = vec![Some(fatal(text)); 12];
        assert_eq!(at_once(&fleet, "plain", PASSWORD), refused, "{auth_type} after");
        assert_eq!(before.value("select 1"), "1", "{auth_type}");
    }
}

#[test]
fn a_changed_password_counts_on_every_worker() {
    let database = Cluster::shared().database();
    for auth_type in ["plain", "md5", "scram-sha-256"] {
        let mut fleet = Fleet::of(&database).workers(3).set("auth_type", auth_type).start();
        assert_eq!(at_once(&fleet, "app", PASSWORD), vec![None; 12], "{auth_type} before");
        fleet.rewrite(|setup| setup.secret("app", "n3w"));
        fleet.reload();
        assert_eq!(at_once(&fleet, "app", "n3w"), vec![None; 12], "{auth_type}, the new one");
        let old = at_once(&fleet, "app", PASSWORD);
        assert!(old.iter().all(Option::is_some), "{auth_type}, the old one: {old:?}");
    }
}

#[test]
fn any_needs_a_forced_user() {
    let database = Cluster::shared().database();
    let printed = Fleet::of(&database).set("auth_type", "any").refused();
    assert_eq!(printed.status, Some(78), "{printed:?}");
    let text = "with auth_type any the database must say as whom to log in";
    assert!(printed.err.contains(text), "{}", printed.err);
}

#[test]
fn an_empty_password_is_called_one() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("auth_type", "plain").start();
    let failure =
        Raw::login(&fleet.address().as_user("app", "")).expect_err("it is no password at all");
    assert_eq!(failure, fatal("empty password returned by client"));
}

#[test]
fn an_md5_secret_logs_in_to_a_server_that_asks_for_md5() {
    let database = Cluster::shared().database();
    let sql = "select rolpassword from pg_authid where rolname = 'md5user'";
    let secret = database.direct().value(sql);
    let fleet = over_tcp(&database).set("auth_type", "md5").secret("md5user", &secret).start();
    let client = Client::connect(&fleet.address().as_user("md5user", PASSWORD));
    assert_eq!(client.expect("it gets in").value("select current_user"), "md5user");
}

#[test]
fn a_client_that_says_no_to_replication_is_like_any_other() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for value in ["false", "off", "0"] {
        assert!(Raw::login_with(&fleet.address(), &[("replication", value)]).is_ok(), "{value}");
    }
}

#[test]
fn options_of_another_form_are_refused_and_unknown_ones_can_be_ignored() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    let text = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed";
    for options in ["-W 3", "-c", "work_mem=1MB"] {
        let login = Raw::login_with(&fleet.address(), &[("options", options)]);
        assert_eq!(login.expect_err("it is refused"), fatal(text), "{options}");
    }
    fleet.rewrite(|setup| setup.set("ignore_startup_parameters", "options"));
    fleet.reload();
    for options in ["-c work_mem=1MB", "--work_mem=1MB --TimeZone=Asia/Tokyo"] {
        let login = Raw::login_with(&fleet.address(), &[("options", options)]);
        assert!(login.is_ok(), "{options}: {:?}", login.err());
    }
}

#[test]
fn a_refused_server_login_is_remembered_until_the_password_is_right() {
    let database = Cluster::shared().database();
    let right = |setup: Setup| setup.secret("app", PASSWORD);
    let mut fleet = over_tcp(&database)
        .workers(1)
        .secret("app", "wrong")
        .set("server_login_retry", 2)
        .set("client_login_timeout", 20)
        .start();
    let said = "password authentication failed for user \"app\"";
    let first = Client::connect(&fleet.address()).expect_err("Postgres refuses");
    assert_eq!(first, Failure::new("FATAL", "28P01", said));
    let second = Client::connect(&fleet.address()).expect_err("that is remembered");
    let cached =
        format!("server login has been failing, cached error: {said} (server_login_retry)");
    assert_eq!(second, fatal(&cached));
    fleet.rewrite(right);
    fleet.reload();
    wait::until_true("the right password is tried", || Client::connect(&fleet.address()).is_ok());
}
