//! SCRAM pass-through: with nothing but verifiers the fleet logs in to Postgres with the keys that clients have shown.
//! A client without a key of its own comes by the Unix socket, which the rules trust.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database, PASSWORD},
    failure::Failure,
    fleet::{Fleet, Setup},
    wait,
};

const RULES: &str = "local all all trust\nhost all all all scram-sha-256\n";

/// The verifier of this user, as Postgres keeps it.
fn verifier(database: &Database<'_>, user: &str) -> String {
    database.direct().value(&format!("select rolpassword from pg_authid where rolname = '{user}'"))
}

/// A fleet that knows `app` by its verifier alone, in front of Postgres that asks for the password.
fn fleet(database: &Database<'_>, verifier: &str) -> Setup {
    let entry =
        format!("host=127.0.0.1 port={} dbname={}", database.cluster().port(), database.name());
    Fleet::of(database)
        .database(database.name(), &entry)
        .set("auth_type", "hba")
        .file("auth_hba_file", RULES)
        .secret("app", verifier)
}

/// A client that proves itself, and one that nobody asks.
fn proved(fleet: &Fleet, password: &str) -> Result<String, Failure> {
    Client::connect(&fleet.address().as_user("app", password))
        .map(|client| client.value("select current_user"))
}

fn trusted(fleet: &Fleet) -> Result<String, Failure> {
    Client::connect(&fleet.unix_address()).map(|client| client.value("select current_user"))
}

fn keyless() -> Result<String, Failure> {
    Err(Failure::new("FATAL", "08P01", "server login failed: wrong password type"))
}

fn inside() -> Result<String, Failure> {
    Ok("app".to_owned())
}

/// Ends all backends of `app` in this database, and waits until the fleet has noticed.
fn end_servers(database: &Database<'_>, fleet: &Fleet) {
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
               where usename = 'app' and datname = current_database()";
    database.direct().run(end);
    wait::until_true("the fleet has no servers", || fleet.console("show servers").is_empty());
}

#[test]
fn a_verifier_is_enough_on_every_worker_and_after_reconnect() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, &verifier(&database, "app")).workers(4).start();
    for round in 0..3 {
        for _ in 0..8 {
            assert_eq!(proved(&fleet, PASSWORD), inside(), "round {round}");
        }
        end_servers(&database, &fleet);
    }
}

#[test]
fn without_a_key_the_login_to_postgres_fails_and_one_proof_is_enough_for_all_workers() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, &verifier(&database, "app")).workers(4).start();
    assert_eq!(trusted(&fleet), keyless());
    assert_eq!(proved(&fleet, PASSWORD), inside());
    for _ in 0..12 {
        assert_eq!(trusted(&fleet), inside());
    }
}

#[test]
fn a_new_worker_is_told_what_the_others_know() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, &verifier(&database, "app")).workers(1).start();
    assert_eq!(proved(&fleet, PASSWORD), inside());
    let killed = fleet.kill_worker(1);
    fleet.wait_for_successor(killed);
    assert_eq!(trusted(&fleet), inside());
}

#[test]
fn a_password_in_clear_text_shows_the_key_too() {
    let database = Cluster::shared().database();
    let rules = "local all all trust\nhost all all all password\n";
    let fleet = fleet(&database, &verifier(&database, "app")).file("auth_hba_file", rules).start();
    assert_eq!(trusted(&fleet), keyless());
    assert!(proved(&fleet, "wrong").is_err());
    assert_eq!(proved(&fleet, PASSWORD), inside());
    assert_eq!(trusted(&fleet), inside());
}

#[test]
fn removed_and_changed_users_take_their_keys_along() {
    let database = Cluster::shared().database();
    let mut fleet = fleet(&database, &verifier(&database, "app")).workers(3).start();
    assert_eq!(proved(&fleet, PASSWORD), inside());
    fleet.rewrite(|setup| setup.stranger("app"));
    fleet.reload();
    for _ in 0..9 {
        let out = Failure::new("FATAL", "08P01", "SASL authentication failed");
        assert_eq!(proved(&fleet, PASSWORD), Err(out));
    }
    let other = "create role tmp_verifier login password 'other'";
    database.direct().run(other);
    let changed = verifier(&database, "tmp_verifier");
    fleet.rewrite(|setup| setup.secret("app", &changed));
    fleet.reload();
    assert!(proved(&fleet, PASSWORD).is_err(), "the old password is out");
    database.direct().run("drop role tmp_verifier");
}

#[test]
fn keys_of_another_verifier_are_refused_by_postgres_and_not_forgotten() {
    let database = Cluster::shared().database();
    database.direct().run("create role tmp_twin login password 's3cret'");
    let twin = verifier(&database, "tmp_twin");
    database.direct().run("drop role tmp_twin");
    let fleet = fleet(&database, &twin).start();
    let failure = proved(&fleet, PASSWORD).expect_err("salt and keys differ");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("28P01", "password authentication failed for user \"app\"")
    );
}

#[test]
fn no_key_is_in_the_log() {
    let database = Cluster::shared().database();
    let verifier = verifier(&database, "app");
    let fleet = fleet(&database, &verifier).set("verbose", 3).start();
    assert_eq!(proved(&fleet, PASSWORD), inside());
    let log = fleet.log();
    for part in verifier.split(['$', ':']).skip(2) {
        assert!(!log.contains(part), "a part of the verifier is in the log");
    }
}
