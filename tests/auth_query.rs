//! `auth_query`: users who are not in the auth file are looked up in Postgres, safely and by the rules of the pool.
//! Each test makes users of its own, since users are the whole cluster's.
//! `make test` runs them over a real Postgres.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use pgfleet_harness::{
    address::Address,
    client::Client,
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, Setup},
    wait,
};

/// A fleet in front of Postgres by TCP, where every user needs its password; `looker` looks them up.
fn fleet(database: &Database<'_>) -> Setup {
    let cluster = database.cluster();
    let exists = "do $$begin create role looker superuser login password 'l00k'; \
                  exception when duplicate_object or unique_violation then null; end$$";
    database.direct().run(exists);
    Fleet::of(database)
        .database(database.name(), &entry(cluster, database.name()))
        .set("auth_type", "scram-sha-256")
        .set("auth_user", "looker")
        .secret("looker", "l00k")
}

fn entry(cluster: &Cluster, name: &str) -> String {
    format!("host=127.0.0.1 port={} dbname={name}", cluster.port())
}

/// A new user of Postgres with this password.
fn user(database: &Database<'_>, password: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    let name = format!("looked_up_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    database.direct().run(&format!("create role {name} login password '{password}'"));
    name
}

fn login(address: &Address) -> Result<String, Failure> {
    Client::connect(address).map(|client| client.value("select current_user"))
}

/// Waits for the log to say so.
fn logged(fleet: &Fleet, text: &str) {
    wait::until_true(&format!("it is logged that {text}"), || fleet.log().contains(text));
}

fn refused(text: &str) -> Result<String, Failure> {
    Err(Failure::new("FATAL", "08P01", text))
}

#[test]
fn a_user_who_is_not_listed_is_looked_up_and_logs_in_to_postgres_with_its_own_keys() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).workers(3).start();
    let name = user(&database, "pw two");
    for _ in 0..9 {
        assert_eq!(login(&fleet.address().as_user(&name, "pw two")), Ok(name.clone()));
    }
    let wrong = login(&fleet.address().as_user(&name, "wrong"));
    assert_eq!(wrong, refused("SASL authentication failed"));
    let nobody = login(&fleet.address().as_user("nobody_at_all", "x"));
    assert_eq!(nobody, wrong, "an unknown user is told the same");
}

#[test]
fn every_method_takes_what_was_found() {
    let database = Cluster::shared().database();
    let name = user(&database, "s1");
    let hashed = user(&database, "s2");
    database
        .direct()
        .run(&format!("set password_encryption='md5'; alter role {hashed} password 's2'"));
    for auth_type in ["plain", "md5", "trust"] {
        let fleet = fleet(&database)
            .database_keys("user=raw password=x")
            .set("auth_type", auth_type)
            .start();
        assert_eq!(
            login(&fleet.address().as_user(&name, "s1")),
            Ok("raw".to_owned()),
            "{auth_type}"
        );
        assert_eq!(
            login(&fleet.address().as_user(&hashed, "s2")),
            Ok("raw".to_owned()),
            "{auth_type}"
        );
        assert!(login(&fleet.address().as_user("nobody_at_all", "s1")).is_err(), "{auth_type}");
        let wrong = login(&fleet.address().as_user(&name, "wrong"));
        assert_eq!(wrong.is_ok(), auth_type == "trust");
    }
}

#[test]
fn a_changed_password_counts_at_once_on_every_worker() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).workers(3).start();
    let name = user(&database, "old");
    assert_eq!(login(&fleet.address().as_user(&name, "old")), Ok(name.clone()));
    database.direct().run(&format!("alter role {name} password 'new'"));
    for _ in 0..6 {
        assert_eq!(
            login(&fleet.address().as_user(&name, "old")),
            refused("SASL authentication failed")
        );
        assert_eq!(login(&fleet.address().as_user(&name, "new")), Ok(name.clone()));
    }
    let kill =
        format!("select pg_terminate_backend(pid) from pg_stat_activity where usename='{name}'");
    database.direct().run(&kill);
    wait::until_true("the fleet has none of its servers", || {
        fleet.console("show servers").find("user", &name).is_none()
    });
    for _ in 0..6 {
        assert_eq!(login(&fleet.address().as_user(&name, "new")), Ok(name.clone()));
    }
}

#[test]
fn an_expired_password_and_a_user_without_login_are_refused_though_their_pool_is_warm() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).start();
    let name = user(&database, "pw");
    let address = fleet.address().as_user(&name, "pw");
    let no = refused("SASL authentication failed");
    for (change, expected) in [
        ("valid until 'infinity'", Ok(name.clone())),
        ("valid until '2020-01-01'", no.clone()),
        ("valid until 'infinity' nologin", no.clone()),
        ("login", Ok(name.clone())),
        ("password null", no),
    ] {
        database.direct().run(&format!("alter role {name} {change}"));
        assert_eq!(login(&address), expected, "{change}");
    }
}

#[test]
fn a_search_path_that_a_session_left_behind_does_not_change_the_query() {
    let database = Cluster::shared().database();
    database.direct().run(
        "create schema evil; create table evil.pg_authid(rolname name, rolcanlogin bool, rolvaliduntil timestamptz, rolpassword text);
         insert into evil.pg_authid values ('intruder', true, null, 'open');
         create function public.find_user(text, out text, out text) language sql as $$select $1, 'sesame'$$;
         create function evil.find_user(text, out text, out text) language sql as $$select $1, 'open'$$",
    );
    for (query, secret) in [(None, "sesame"), (Some("SELECT * FROM find_user($1)"), "open")] {
        let setup = fleet(&database).workers(1).database_keys("pool_size=1 user=raw");
        let setup = query.iter().fold(setup, |setup, query| setup.set("auth_query", query));
        let fleet = setup
            .set("auth_dbname", "lookups")
            .database("lookups", &entry(database.cluster(), database.name()))
            .start();
        let looker =
            Client::connect(&fleet.address().in_database("lookups").as_user("looker", "l00k"))
                .expect("it is listed");
        looker.run("set search_path = evil, pg_catalog");
        assert_eq!(looker.value("show search_path"), "evil, pg_catalog", "one server for all");
        assert!(login(&fleet.address().as_user("intruder", "open")).is_err(), "{query:?}");
        let found = login(&fleet.address().as_user("intruder", "sesame"));
        assert_eq!(found.is_ok(), query.is_some(), "{query:?} {secret}");
        assert_eq!(looker.value("show search_path"), "evil, pg_catalog", "and it is restored");
    }
}

#[test]
fn a_client_s_own_settings_do_not_reach_the_query() {
    let database = Cluster::shared().database();
    database.direct().run(
        "create function sees(text, out text, out text) language plpgsql as $$begin
        raise log 'SEES % %', current_setting('search_path'), current_setting('application_name');
        $2 := $1; $3 := 'pw'; end$$",
    );
    let fleet = fleet(&database)
        .set("auth_query", "select * from sees($1)")
        .set("track_extra_parameters", "search_path")
        .database_keys("user=raw")
        .start();
    let address = fleet.address().as_user("anyone", "pw").with("application_name=mine");
    assert_eq!(login(&address), Ok("raw".to_owned()));
    // The query has run by the time at which a parameter that Postgres does not report is refused.
    let refused = login(&address.with("options='-c search_path=evil'")).expect_err("not reported");
    assert_eq!(refused.message, "unsupported startup parameter: search_path");
    let log = wait::until("both queries are in the log of Postgres", || {
        Some(database.cluster().log()).filter(|log| log.matches("SEES").count() >= 2)
    });
    let seen: Vec<&str> = log.lines().filter(|line| line.contains("SEES")).collect();
    assert!(
        !seen.is_empty() && seen.iter().all(|line| line.ends_with("SEES \"$user\", public ")),
        "{seen:?}"
    );
}

#[test]
fn a_query_of_no_use_is_told_and_its_reason_is_in_the_log() {
    let database = Cluster::shared().database();
    let three = "expected 2 columns from auth_query, not 3";
    let error = "error response from auth_query";
    for (query, text, detail) in [
        ("select $1::text", "expected 2 columns from auth_query, not 1", "it must give"),
        ("select $1::text, 'a', 'b'", three, "it must give the name and the secret"),
        ("select nonsense", error, "column \"nonsense\" does not exist (42703)"),
        ("select 1/0, $1::text", error, "division by zero (22012)"),
        (
            "select null::text, $1::text",
            "auth_query response contained null user name",
            "the first",
        ),
    ] {
        let fleet = fleet(&database).set("auth_query", query).start();
        assert_eq!(login(&fleet.address().as_user("anyone", "x")), refused(text), "{query}");
        logged(&fleet, &format!("auth_query for user \"anyone\" failed: {text}: {detail}"));
        assert_eq!(login(&fleet.address()), Ok("app".to_owned()), "who is listed gets in");
    }
}

#[test]
fn secrets_may_be_in_another_database() {
    let database = Cluster::shared().database();
    let other = Cluster::shared().database();
    other
        .direct()
        .run("create table secrets(u text, p text); insert into secrets values ('app2', 'pw')");
    let query = "auth_query='select u, p from secrets where u = $1' auth_dbname=secrets user=raw";
    let fleet = fleet(&database)
        .database_keys(query)
        .database("secrets", &entry(other.cluster(), other.name()))
        .start();
    assert_eq!(login(&fleet.address().as_user("app2", "pw")), Ok("raw".to_owned()));
    let elsewhere = fleet.address().in_database("secrets").as_user("app2", "pw");
    assert_eq!(
        login(&elsewhere),
        refused("SASL authentication failed"),
        "there it is the default query"
    );
}

#[test]
fn a_database_for_secrets_that_is_not_configured_is_an_error() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).set("auth_dbname", "nowhere").start();
    assert_eq!(login(&fleet.address().as_user("anyone", "x")), refused("bouncer config error"));
    logged(&fleet, "authentication database \"nowhere\" is not configured");
    let printed = fleet.setup().clone().set("auth_dbname", "pgbouncer").refused();
    assert!(printed.err.contains("auth_dbname: \"pgbouncer\" is the console"), "{printed:?}");
}

#[test]
fn names_are_data_whatever_is_in_them() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).set("auth_type", "plain").start();
    for name in ["x' or '1'='1", "\\'; drop role app; --", "$1", "é\u{1F418}", "a\"b", "%s%n"] {
        let escaped = name.replace('\\', "\\\\").replace('\'', "\\'");
        let address = Address { user: escaped, ..fleet.address() };
        assert_eq!(login(&address), refused("password authentication failed"), "{name}");
    }
    let quoted = "we\"ird 'é' \\ name";
    let sql = quoted.replace('"', "\"\"");
    database.direct().run(&format!("create role \"{sql}\" login password 'pw'"));
    let escaped = quoted.replace('\\', "\\\\").replace('\'', "\\'");
    let address = Address { user: escaped, password: Some("pw".to_owned()), ..fleet.address() };
    assert_eq!(login(&address), Ok(quoted.to_owned()));
    database.direct().run(&format!("drop role \"{sql}\""));
}

#[test]
fn lookups_wait_in_line_and_give_way_to_others() {
    let database = Cluster::shared().database();
    let name = user(&database, "pw");
    let fleet =
        fleet(&database).workers(1).database_keys("pool_size=1 max_db_connections=1").start();
    let address = fleet.address().as_user(&name, "pw");
    let logins: Vec<_> = (0..20)
        .map(|_| {
            let address = address.clone();
            thread::spawn(move || login(&address))
        })
        .collect();
    for result in logins {
        assert_eq!(result.join().expect("the login ends"), Ok(name.clone()));
    }
    assert_eq!(
        fleet
            .console("show databases")
            .find("name", database.name())
            .expect("a row")
            .number("current_connections"),
        1
    );
}

#[test]
fn a_login_ends_when_the_server_of_the_lookup_is_not_to_be_had() {
    let database = Cluster::shared().database();
    let setup =
        fleet(&database).database("missing", &entry(database.cluster(), "no_such_database"));
    let down = "host=127.0.0.1 port=1 dbname=x";
    let fleet = setup.database("down", down).start();
    let begun = Instant::now();
    let missing = login(&fleet.address().in_database("missing").as_user("anyone", "x"));
    assert_eq!(
        missing,
        Err(Failure::new("FATAL", "3D000", "database \"no_such_database\" does not exist"))
    );
    assert!(begun.elapsed().as_secs() < 3);
    let down = fleet.address().in_database("down").as_user("anyone", "x");
    let failing =
        "server login has been failing, cached error: connect failed (server_login_retry)";
    for _ in 0..2 {
        assert_eq!(login(&down), refused(failing));
    }
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn an_old_connection_that_was_cut_is_replaced_before_the_client_is_told() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database).workers(1).start();
    let name = user(&database, "pw");
    assert!(login(&fleet.address().as_user(&name, "pw")).is_ok());
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
               where usename = 'looker' and datname = current_database()";
    database.direct().run(cut);
    assert_eq!(login(&fleet.address().as_user(&name, "pw")), Ok(name));
}

#[test]
fn names_of_databases_that_strangers_make_up_are_not_kept() {
    let database = Cluster::shared().database();
    let any = format!("host=127.0.0.1 port={}", database.cluster().port());
    let fleet = fleet(&database).database("*", &any).start();
    for number in 0..20 {
        let made_up = fleet.address().in_database(&format!("made_up_{number}"));
        let failure = login(&made_up.as_user("anyone", "x")).expect_err("there is none");
        assert_eq!(failure.code, "3D000");
    }
    for number in 0..20 {
        logged(&fleet, &format!("dropping database 'made_up_{number}'"));
    }
}
