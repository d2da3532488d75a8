//! Who gets in: every way to log in with every kind of secret, and what those who do not get in are told.
//! These tests never depend on how the fleet logs in to Postgres; that has a suite of its own.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database, PASSWORD},
    failure::Failure,
    fleet::{Fleet, Setup},
};

/// A fleet that logs in its users this way, and itself to Postgres by trust.
fn fleet(database: &Database<'_>, auth_type: &str) -> Setup {
    Fleet::of(database).set("auth_type", auth_type).database_keys("user=raw")
}

/// The secret of this user as Postgres keeps it.
fn secret(database: &Database<'_>, user: &str) -> String {
    database.direct().value(&format!("select rolpassword from pg_authid where rolname = '{user}'"))
}

/// What the user gets with this password.
fn login(fleet: &Fleet, user: &str, password: &str) -> Result<String, Failure> {
    Client::connect(&fleet.address().as_user(user, password))
        .map(|client| client.value("select 'in'"))
}

fn refused(text: &str) -> Result<String, Failure> {
    Err(Failure::new("FATAL", "08P01", text))
}

#[test]
fn trust_lets_in_whom_it_knows() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "trust").start();
    assert_eq!(login(&fleet, "app", "anything"), Ok("in".to_owned()));
    assert_eq!(
        login(&fleet, "nobody_knows", "anything"),
        refused("\"trust\" authentication failed")
    );
}

#[test]
fn any_lets_in_everyone() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "any").start();
    assert_eq!(login(&fleet, "nobody_knows", "anything"), Ok("in".to_owned()));
    let client =
        Client::connect(&fleet.address().as_user("nobody_knows", "")).expect("anyone gets in");
    assert_eq!(client.value("select current_user"), "raw");
}

#[test]
fn cleartext_passwords_are_held_against_every_kind_of_secret() {
    secrets_work(&Cluster::shared().database(), "plain", &["app", "md5user", "scramuser"]);
}

#[test]
fn md5_takes_every_kind_of_secret() {
    secrets_work(&Cluster::shared().database(), "md5", &["app", "md5user", "scramuser"]);
}

#[test]
fn scram_takes_plain_and_scram_secrets() {
    secrets_work(&Cluster::shared().database(), "scram-sha-256", &["app", "scramuser"]);
}

/// The users have a plain, an md5 and a SCRAM secret in the auth file.
fn secrets_work(database: &Database<'_>, auth_type: &str, users: &[&str]) {
    let (md5, scram) = (secret(database, "md5user"), secret(database, "app"));
    assert!(md5.starts_with("md5") && scram.starts_with("SCRAM-SHA-256$"));
    let fleet =
        fleet(database, auth_type).secret("md5user", &md5).secret("scramuser", &scram).start();
    for user in users {
        assert_eq!(login(&fleet, user, PASSWORD), Ok("in".to_owned()), "{user} with {auth_type}");
        let wrong = login(&fleet, user, "wrong").expect_err("a wrong password is refused");
        assert_eq!(
            (wrong.severity.as_str(), wrong.code.as_str()),
            ("FATAL", "08P01"),
            "{user} with {auth_type}"
        );
    }
}

#[test]
fn an_md5_secret_is_no_good_for_scram() {
    let database = Cluster::shared().database();
    let md5 = secret(&database, "md5user");
    let fleet = fleet(&database, "scram-sha-256").secret("md5user", &md5).start();
    assert_eq!(login(&fleet, "md5user", PASSWORD), refused("SASL authentication failed"));
}

#[test]
fn the_secret_itself_is_no_password() {
    let database = Cluster::shared().database();
    let (md5, scram) = (secret(&database, "md5user"), secret(&database, "app"));
    let fleet =
        fleet(&database, "plain").secret("md5user", &md5).secret("scramuser", &scram).start();
    assert!(login(&fleet, "md5user", &md5).is_err());
    assert!(login(&fleet, "scramuser", &scram).is_err());
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_the_same() {
    let database = Cluster::shared().database();
    for (auth_type, text) in [
        ("plain", "password authentication failed"),
        ("md5", "password authentication failed"),
        ("scram-sha-256", "SASL authentication failed"),
    ] {
        let fleet = fleet(&database, auth_type).start();
        assert_eq!(login(&fleet, "app", "wrong"), refused(text), "{auth_type}");
        assert_eq!(login(&fleet, "nobody_knows", PASSWORD), refused(text), "{auth_type}");
    }
}

#[test]
fn an_empty_password_lets_nobody_in() {
    let database = Cluster::shared().database();
    for auth_type in ["plain", "md5", "scram-sha-256"] {
        let fleet = fleet(&database, auth_type).start();
        assert!(login(&fleet, "raw", "").is_err(), "raw has no secret, {auth_type}");
        assert!(login(&fleet, "app", "").is_err(), "app has one, {auth_type}");
    }
}

#[test]
fn an_unknown_database_is_named_only_to_those_who_are_in() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "scram-sha-256").start();
    let address = fleet.address().in_database("nowhere");
    let inside = Client::connect(&address).expect_err("there is no such database");
    assert_eq!(inside, Failure::new("FATAL", "08P01", "no such database: nowhere"));
    let outside =
        Client::connect(&address.as_user("app", "wrong")).expect_err("the password is wrong");
    assert_eq!(outside, Failure::new("FATAL", "08P01", "SASL authentication failed"));
}

#[test]
fn no_secret_is_in_the_log() {
    let database = Cluster::shared().database();
    let scram = secret(&database, "app");
    let fleet =
        fleet(&database, "scram-sha-256").set("verbose", 3).secret("scramuser", &scram).start();
    assert!(login(&fleet, "app", PASSWORD).is_ok());
    assert!(login(&fleet, "scramuser", "wr0ngpassw0rd").is_err());
    let log = fleet.log();
    for secret in [PASSWORD, "wr0ngpassw0rd", scram.as_str()] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
    for process in fleet.processes() {
        assert!(!process.command_line().contains(PASSWORD));
    }
}

#[test]
fn a_login_is_the_same_on_every_worker() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "scram-sha-256").workers(4).start();
    for _ in 0..24 {
        assert_eq!(login(&fleet, "app", PASSWORD), Ok("in".to_owned()));
        assert_eq!(login(&fleet, "nobody_knows", PASSWORD), refused("SASL authentication failed"));
    }
}

#[test]
fn a_changed_password_counts_after_a_reload() {
    let database = Cluster::shared().database();
    let mut fleet = fleet(&database, "scram-sha-256").start();
    assert!(login(&fleet, "app", PASSWORD).is_ok());
    fleet.rewrite(|setup| setup.secret("app", "n3w").stranger("plain"));
    fleet.reload();
    for _ in 0..8 {
        assert_eq!(login(&fleet, "app", PASSWORD), refused("SASL authentication failed"));
        assert_eq!(login(&fleet, "app", "n3w"), Ok("in".to_owned()));
        assert_eq!(
            login(&fleet, "plain", PASSWORD),
            refused("SASL authentication failed"),
            "removed users are out"
        );
    }
}

#[test]
fn strangers_are_asked_as_known_users_are() {
    let database = Cluster::shared().database();
    let scram = secret(&database, "app");
    let users = ["app", "md5user", "plain", "raw", "admin", "stats"];
    let setup = fleet(&database, "md5");
    let setup = users.iter().fold(setup, |setup, user| setup.secret(user, &scram));
    let fleet = setup.start();
    assert_eq!(login(&fleet, "app", "wrong"), refused("SASL authentication failed"));
    assert_eq!(login(&fleet, "nobody_knows", "wrong"), refused("SASL authentication failed"));
}
