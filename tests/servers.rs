//! How the fleet gets to Postgres: every login method, every way to an address, and the entries of `[databases]`.
//! These tests never look at how clients log in.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database, PASSWORD},
    fleet::Fleet,
    port, wait,
};

/// The entry of a database over TCP.
fn tcp(database: &Database<'_>, host: &str) -> String {
    format!("host={host} port={} dbname={}", database.cluster().port(), database.name())
}

#[test]
fn every_login_method_of_postgres_works() {
    let database = Cluster::shared().database();
    let entry = tcp(&database, "127.0.0.1");
    let fleet = Fleet::of(&database).database("x", &entry).start();
    // SCRAM, md5, cleartext and trust, as the cluster asks each of them.
    for user in ["app", "md5user", "plain", "raw"] {
        let client = Client::connect(&fleet.address().in_database("x").as_user(user, ""))
            .expect("the fleet lets them in");
        assert_eq!(client.value("select current_user"), user);
    }
}

#[test]
fn every_way_to_an_address_works() {
    let database = Cluster::shared().database();
    let socket = database.cluster().socket_dir();
    let hosts = ["127.0.0.1", "::1", "localhost", &socket];
    for host in hosts.into_iter().filter(|host| *host != "::1" || port::has_ipv6()) {
        let fleet = Fleet::of(&database)
            .workers(1)
            .database(database.name(), &tcp(&database, host))
            .start();
        let expected = if host.starts_with('/') { "none" } else { "inet" };
        let client = fleet.client();
        assert_eq!(
            client.value("select case when inet_server_addr() is null then 'none' else 'inet' end"),
            expected,
            "{host}"
        );
        if host == "::1" {
            assert_eq!(client.value("select host(inet_server_addr())"), "::1");
        }
    }
}

#[test]
fn the_entry_may_force_user_and_password() {
    let database = Cluster::shared().database();
    let entry = format!("{} user=md5user password={PASSWORD}", tcp(&database, "127.0.0.1"));
    let fleet = Fleet::of(&database).database(database.name(), &entry).stranger("md5user").start();
    assert_eq!(fleet.client().value("select current_user"), "md5user");
    let raw = Client::connect(&fleet.address().as_user("raw", "")).expect("raw gets in");
    assert_eq!(raw.value("select current_user"), "md5user");
    assert_eq!(
        fleet
            .console("show pools")
            .rows()
            .filter(|row| row.text("database") == database.name())
            .count(),
        1
    );
}

#[test]
fn the_entry_may_have_another_name_than_the_database() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).database("alias", &tcp(&database, "127.0.0.1")).start();
    let client =
        Client::connect(&fleet.address().in_database("alias")).expect("the alias is known");
    assert_eq!(client.value("select current_database()"), database.name());
}

#[test]
fn the_star_entry_is_for_all_other_names() {
    let cluster = Cluster::shared();
    let (one, two) = (cluster.database(), cluster.database());
    let star = format!("host=127.0.0.1 port={}", cluster.port());
    let fleet = Fleet::of(&one).database("*", &star).start();
    for name in [one.name(), two.name()] {
        let client =
            Client::connect(&fleet.address().in_database(name)).expect("the star takes it");
        assert_eq!(client.value("select current_database()"), name);
    }
    let failure = Client::connect(&fleet.address().in_database("not_in_postgres"))
        .and_then(|client| client.rows("select 1"));
    let failure = failure.expect_err("Postgres does not know it");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("3D000", "database \"not_in_postgres\" does not exist")
    );
}

#[test]
fn the_connect_query_runs_on_every_server() {
    let database = Cluster::shared().database();
    let keys = "connect_query='select set_config(''work_mem'', ''77MB'', false)'";
    let fleet = Fleet::of(&database).database_keys(keys).start();
    let clients: Vec<Client> = (0..6).map(|_| fleet.client()).collect();
    for client in &clients {
        client.run("begin");
        assert_eq!(client.value("show work_mem"), "77MB");
    }
}

#[test]
fn a_connect_query_that_fails_is_only_logged() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).database_keys("connect_query='select nonsense'").start();
    assert_eq!(fleet.client().value("select 1"), "1");
    wait::until_true("the log tells of it", || fleet.log().contains("nonsense"));
}

#[test]
fn parameters_of_the_entry_reach_the_server() {
    let database = Cluster::shared().database();
    let fleet =
        Fleet::of(&database).database_keys("timezone=Asia/Tokyo application_name=entry").start();
    let client = fleet.client();
    assert_eq!(client.value("show TimeZone"), "Asia/Tokyo");
}

#[test]
fn the_pool_mode_of_user_and_entry_beats_the_global_one() {
    let database = Cluster::shared().database();
    let entry = format!("{} pool_mode=session", tcp(&database, "127.0.0.1"));
    let fleet =
        Fleet::of(&database).database("s", &entry).user("raw", "pool_mode=transaction").start();
    drop(
        Client::connect(&fleet.address().in_database("s")).expect("app gets in").value("select 1"),
    );
    drop(
        Client::connect(&fleet.address().in_database("s").as_user("raw", ""))
            .expect("raw gets in")
            .value("select 1"),
    );
    fleet.client().run("select 1");
    let pools = fleet.console("show pools");
    let mode = |database: &str, user: &str| {
        let pool =
            pools.rows().find(|row| row.text("database") == database && row.text("user") == user);
        pool.expect("the pool is there").text("pool_mode").to_owned()
    };
    assert_eq!(mode("s", "app"), "session");
    assert_eq!(mode("s", "raw"), "transaction");
    assert_eq!(mode(database.name(), "app"), "transaction");
}

#[test]
fn a_refused_login_is_passed_on_as_postgres_said_it() {
    let database = Cluster::shared().database();
    let entry = format!("{} user=app password=wrong", tcp(&database, "127.0.0.1"));
    let fleet = Fleet::of(&database).database(database.name(), &entry).start();
    let failure = Client::connect(&fleet.address())
        .and_then(|client| client.rows("select 1"))
        .expect_err("Postgres refuses");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("28P01", "password authentication failed for user \"app\"")
    );
}

#[test]
fn a_server_whose_secret_is_only_a_hash_is_refused_with_pgbouncers_text() {
    let database = Cluster::shared().database();
    let hash = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0c2FsdA==$6lTCJ0hTQmYDB5Dj6nzFcE5Ix7OE4AFtSZFbVm0cw4E=:m5DJqz6VhDJCEjd+OFRhyVtpF0CQ9fOSh3QHYTG6zu0=";
    let entry = tcp(&database, "127.0.0.1");
    let fleet = Fleet::of(&database).database(database.name(), &entry).secret("app", hash).start();
    let failure = Client::connect(&fleet.address())
        .and_then(|client| client.rows("select 1"))
        .expect_err("there is no password");
    assert_eq!(failure.message, "server login failed: wrong password type");
}
