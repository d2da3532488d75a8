//! The limits of a fleet of one or two workers: exact counts, PgBouncer's texts, and what a reload does to them.
//! These tests never kill or scale anything under load; `budget` does.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    address::Address,
    client::Client,
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, setup},
    raw::{Raw, message},
    wait,
};

fn fatal(text: &str) -> Failure {
    Failure::new("FATAL", "08P01", text)
}

/// So many clients get in, the next one is told why not, and one more gets in when one has left.
fn exactly(count: usize, address: &Address, text: &str) {
    let mut inside: Vec<Raw> =
        (0..count).map(|_| Raw::login(address).expect("as many get in as are allowed")).collect();
    assert_eq!(Raw::login(address).expect_err("there is no room"), fatal(text));
    inside.pop().expect("somebody is in").leave();
    inside.push(wait::until("there is room again", || Raw::login(address).ok()));
    for raw in &mut inside {
        assert_eq!(raw.query("select 1").expect("those inside are served").values(), ["1"]);
    }
}

/// A client in a transaction.
fn holder(address: &Address) -> Raw {
    let mut raw = Raw::login(address).expect("there is room");
    raw.query("begin").expect("there is a server");
    raw
}

#[test]
fn max_client_conn_is_kept_and_named() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("max_client_conn", 5).start();
    exactly(5, &fleet.address(), "no more connections allowed (max_client_conn)");
    assert!(fleet.try_console("show version").is_ok(), "the console is exempt");
}

#[test]
fn max_db_client_connections_is_kept_and_named() {
    let database = Cluster::shared().database();
    let entry = setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database)
        .set("max_db_client_connections", 4)
        .database("other", &entry)
        .database("wide", &format!("{entry} max_db_client_connections=8"))
        .start();
    let text = "client connections exceeded (max_db_client_connections)";
    exactly(4, &fleet.address(), text);
    let _held: Vec<Raw> = (0..2).map(|_| fleet.raw()).collect();
    exactly(4, &fleet.address().in_database("other"), text);
    exactly(8, &fleet.address().in_database("wide"), text);
}

#[test]
fn max_user_client_connections_is_kept_and_named() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .set("max_user_client_connections", 4)
        .user("raw", "max_user_client_connections=2")
        .start();
    let text = "client connections exceeded (max_user_client_connections)";
    exactly(4, &fleet.address(), text);
    exactly(2, &fleet.address().as_user("raw", ""), text);
}

#[test]
fn auto_has_no_more_workers_than_the_smallest_limit() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("workers", "auto").set("default_pool_size", 1).start();
    assert_eq!(fleet.serving().len(), 1);
    assert_eq!(fleet.client().value("select 1"), "1");
    if cores > 1 {
        let line = format!(
            "workers: 1 instead of {cores}, since default_pool_size = 1 is divided over them; raise it for more workers"
        );
        assert_eq!(fleet.log().matches(&line).count(), 1, "{}", fleet.log());
    }
}

#[test]
fn a_limit_below_an_explicit_number_of_workers_is_refused_with_the_ways_out() {
    let database = Cluster::shared().database();
    let printed = Fleet::of(&database).workers(7).set("max_db_connections", 5).refused();
    assert_eq!(printed.status, Some(78), "{printed:?}");
    for part in [
        "max_db_connections",
        "5 cannot be divided over 7 workers, each needs at least 1",
        "raise it to 7 or more, use at most 5 workers, or set it to 0 for no limit",
    ] {
        assert!(printed.err.contains(part), "{part} is not in {}", printed.err);
    }
}

#[test]
fn scale_and_reload_that_would_break_a_limit_change_nothing() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("default_pool_size", 3).start();
    let printed = fleet.command(&["scale", "4"]);
    assert_ne!(printed.status, Some(0));
    assert!(printed.err.contains("3 cannot be divided over 4 workers"), "{printed:?}");
    fleet.rewrite(|setup| setup.set("default_pool_size", 1).set("query_timeout", 77));
    let printed = fleet.command(&["reload"]);
    assert_eq!(printed.status, Some(78), "{printed:?}");
    assert!(printed.err.contains("1 cannot be divided over 2 workers"), "{printed:?}");
    let config = fleet.console("show config");
    let value = |key: &str| config.find("key", key).expect("it is shown").text("value").to_owned();
    assert_eq!((value("default_pool_size").as_str(), value("query_timeout").as_str()), ("3", "0"));
    assert_eq!(fleet.serving().len(), 2);
}

/// Clients that each want a server for as long as they are there.
fn busy(fleet: &Fleet, count: usize) -> Vec<Raw> {
    let mut clients: Vec<Raw> = (0..count).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        raw.send(&message::query("select pg_sleep(600)")).expect("the fleet reads");
    }
    clients
}

#[test]
fn a_reload_that_raises_a_limit_serves_those_who_wait() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("default_pool_size", 2).start();
    let clients = busy(&fleet, 8);
    wait::until_true("two are served", || database.backends() == 2);
    fleet.rewrite(|setup| setup.set("default_pool_size", 6));
    database.limit(6);
    fleet.reload();
    wait::until_true("six are served", || database.backends() == 6);
    wait::holds_for(Duration::from_secs(1), "not one more is", || database.backends() == 6);
    drop(clients);
    assert_eq!(refusals(&database), [""; 0]);
}

#[test]
fn a_reload_that_lowers_a_limit_gives_servers_up() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("max_db_connections", 8).start();
    let holders: Vec<Raw> = (0..8).map(|_| holder(&fleet.address())).collect();
    assert_eq!(database.backends(), 8);
    fleet.rewrite(|setup| setup.set("max_db_connections", 2));
    fleet.reload();
    // Nobody is thrown out of a transaction, and nothing new is opened.
    assert_eq!(database.backends(), 8);
    for mut raw in holders {
        raw.query("commit").expect("it was not interrupted");
    }
    wait::until_true("two servers are left", || database.backends() == 2);
    let clients = busy(&fleet, 6);
    wait::holds_for(Duration::from_secs(1), "two are the most", || database.backends() <= 2);
    drop(clients);
}

#[test]
fn a_reload_that_lowers_max_client_conn_lets_clients_stay() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("max_client_conn", 6).start();
    let mut inside: Vec<Raw> = (0..6).map(|_| fleet.raw()).collect();
    fleet.rewrite(|setup| setup.set("max_client_conn", 2));
    fleet.reload();
    let text = "no more connections allowed (max_client_conn)";
    for raw in inside.split_off(2) {
        assert_eq!(Raw::login(&fleet.address()).expect_err("it is full"), fatal(text));
        raw.leave();
    }
    for raw in &mut inside {
        assert_eq!(raw.query("select 1").expect("it may stay").values(), ["1"]);
    }
    drop(inside);
    wait::until_true("there is room", || Raw::login(&fleet.address()).is_ok());
}

#[test]
fn the_reserve_is_for_those_who_have_waited_long_enough() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("default_pool_size", 1)
        .set("reserve_pool_size", 1)
        .set("reserve_pool_timeout", 1)
        .set("query_wait_timeout", 4)
        .start();
    let mut first = holder(&fleet.address());
    let start = Instant::now();
    let second = holder(&fleet.address());
    let waited = start.elapsed();
    assert!((Duration::from_millis(950)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
    let third = fleet.raw().query("select 1").expect_err("the reserve is used up");
    assert_eq!(third, fatal("query_wait_timeout"));
    assert_eq!(database.backends(), 2);
    first.query("commit").expect("it goes on");
    drop(second);
}

/// Lines of Postgres' log about too many connections to this database.
fn refusals(database: &Database<'_>) -> Vec<String> {
    let mark = format!("@{} ", database.name());
    let lines = database.cluster().logged("53300").into_iter();
    lines.filter(|line| line.contains(&mark)).collect()
}

#[test]
fn an_idle_server_makes_room_for_another_user_of_its_database() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("max_db_connections", 1).start();
    database.limit(1);
    let (app, raw) = (fleet.address(), fleet.address().as_user("raw", ""));
    let clients = [&app, &raw].map(|address| Client::connect(address).expect("both get in"));
    for _ in 0..5 {
        for (client, user) in clients.iter().zip(["app", "raw"]) {
            assert_eq!(client.value("select current_user"), user);
        }
    }
    assert_eq!(database.backends(), 1);
    assert!(fleet.log().contains("evicted"));
    assert_eq!(refusals(&database), [""; 0]);
}

#[test]
fn an_idle_server_makes_room_for_another_database_of_its_user() {
    let (one, two) = (Cluster::shared().database(), Cluster::shared().database());
    let entry = setup::entry(two.cluster(), two.name());
    let fleet =
        Fleet::of(&one).workers(1).set("max_user_connections", 1).database("two", &entry).start();
    let clients = [fleet.address(), fleet.address().in_database("two")];
    let clients = clients.map(|address| Client::connect(&address).expect("both get in"));
    for _ in 0..5 {
        for (client, name) in clients.iter().zip([one.name(), two.name()]) {
            assert_eq!(client.value("select current_database()"), name);
        }
    }
    assert_eq!(one.backends() + two.backends(), 1);
}

#[test]
fn min_pool_size_is_kept_while_the_pool_is_in_use() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("min_pool_size", 3)
        .set("server_idle_timeout", 1)
        .start();
    assert_eq!(database.backends(), 0);
    let client = fleet.client();
    wait::until_true("three servers are there", || database.backends() == 3);
    wait::holds_for(Duration::from_secs(2), "three stay", || database.backends() == 3);
    assert_eq!(client.value("select 1"), "1");
}

#[test]
fn min_pool_size_of_a_forced_user_needs_no_client() {
    let database = Cluster::shared().database();
    let _fleet = Fleet::of(&database).database_keys("user=raw min_pool_size=4").start();
    wait::until_true("four servers are there", || database.backends() == 4);
}

/// So many clients of this address want a server, and so many get one.
///
/// A server that was connecting for one who has left is kept and idle, so the fleet closes idle ones soon.
fn served(database: &Database<'_>, address: &Address, wanting: usize, expected: usize) {
    let start = |_| {
        let mut raw = Raw::login(address).expect("there is room");
        raw.send(&message::query("select pg_sleep(600)")).expect("the fleet reads");
        raw
    };
    let clients: Vec<Raw> = (0..wanting).map(start).collect();
    wait::until_true("as many are served as should be", || database.backends() == expected);
    wait::holds_for(Duration::from_millis(700), "no more are", || database.backends() == expected);
    drop(clients);
    wait::until_true("all are gone", || database.backends() == 0);
}

#[test]
fn the_pool_size_of_the_user_beats_the_entrys_which_beats_the_global_one() {
    let database = Cluster::shared().database();
    let entry = setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database)
        .set("default_pool_size", 2)
        .database_keys("pool_size=4")
        .set("server_idle_timeout", 1)
        .database("plain", &entry)
        .database("wide", &format!("{entry} pool_size=0"))
        .database("forced", &format!("{entry} user=raw pool_size=5"))
        .user("raw", "pool_size=3")
        .start();
    let app = fleet.address();
    served(&database, &app, 8, 4);
    served(&database, &app.in_database("plain"), 8, 2);
    served(&database, &app.in_database("wide"), 8, 8);
    served(&database, &app.as_user("raw", ""), 8, 3);
    // Of a database with a forced user that user's settings count.
    served(&database, &app.in_database("forced"), 8, 3);
}

#[test]
fn limits_on_servers_of_the_entry_and_the_user_beat_the_global_ones() {
    let database = Cluster::shared().database();
    let entry = setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database)
        .set("max_db_connections", 4)
        .set("max_user_connections", 6)
        .set("server_idle_timeout", 1)
        .database("wide", &format!("{entry} max_db_connections=8"))
        .database("free", &format!("{entry} max_db_connections=0"))
        .user("raw", "max_user_connections=3")
        .user("plain", "max_user_connections=0")
        .start();
    let app = fleet.address();
    served(&database, &app, 9, 4);
    served(&database, &app.in_database("wide"), 9, 6);
    served(&database, &app.as_user("raw", ""), 9, 3);
    served(&database, &app.as_user("plain", "").in_database("wide"), 10, 8);
    served(&database, &app.as_user("plain", "").in_database("free"), 10, 10);
}

#[test]
fn the_reserve_of_the_user_beats_the_entrys_which_beats_the_global_one() {
    let database = Cluster::shared().database();
    let entry = setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database)
        .set("server_idle_timeout", 1)
        .set("default_pool_size", 2)
        .set("reserve_pool_size", 2)
        .set("reserve_pool_timeout", "0.2")
        .database("wide", &format!("{entry} reserve_pool_size=4"))
        .database("capped", &format!("{entry} reserve_pool=4 max_db_connections=3"))
        .user("raw", "reserve_pool_size=0")
        .start();
    let app = fleet.address();
    served(&database, &app, 9, 4);
    served(&database, &app.in_database("wide"), 9, 6);
    served(&database, &app.in_database("capped"), 9, 3);
    served(&database, &app.in_database("wide").as_user("raw", ""), 9, 2);
    assert!(fleet.log().contains("taking connection from reserve_pool"));
}

#[test]
fn admins_on_the_console_fall_under_no_client_limit() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .set("max_client_conn", 2)
        .set("max_user_client_connections", 2)
        .set("max_db_client_connections", 2)
        .start();
    let _inside: Vec<Raw> = (0..2).map(|_| fleet.raw()).collect();
    let console = fleet.address().in_database("pgbouncer").as_user("admin", "adm1n");
    let mut admins: Vec<Raw> =
        (0..4).map(|_| Raw::login(&console).expect("an admin gets in")).collect();
    for admin in &mut admins {
        admin.query("show version").expect("it is answered");
    }
}

#[test]
fn servers_above_a_pool_size_that_was_lowered_are_closed_with_pgbouncers_reason() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("default_pool_size", 6).start();
    let holders: Vec<Raw> = (0..6).map(|_| holder(&fleet.address())).collect();
    for mut raw in holders {
        raw.query("commit").expect("it ends");
    }
    assert_eq!(database.backends(), 6);
    fleet.rewrite(|setup| setup.set("default_pool_size", 2));
    fleet.reload();
    wait::until_true("two are left", || database.backends() == 2);
    assert_eq!(fleet.log().matches("too many servers in the pool").count(), 4);
}
