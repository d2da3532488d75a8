//! Host names of servers: looked up without holding anybody up, remembered, and looked up again.
//! The name server is the harness' own, and misbehaves on purpose; the names lead to one Postgres, or to where nobody listens.
//! `make test` runs them over a real Postgres.

use std::{
    thread,
    time::{Duration, Instant},
};

use pgfleet_harness::{
    cluster::{Cluster, Database},
    failure::Failure,
    fleet::{Fleet, Setup, setup},
    nameserver::{Manner, NameServer},
    raw::Raw,
    wait,
};

const NAME: &str = "db.fleet.example";

/// Where nobody listens.
const AWAY: &str = "127.0.0.9";

/// One worker whose database is at the name.
fn named(database: &Database<'_>, server: &NameServer) -> Setup {
    let port = database.cluster().port();
    let entry = format!("host={NAME} port={port} dbname={}", database.name());
    Fleet::of(database)
        .workers(1)
        .set("resolv_conf", server.resolv_conf())
        .database(database.name(), &entry)
        .database("near", &setup::entry(database.cluster(), database.name()))
}

/// Clients that each hold a server.
fn holders(fleet: &Fleet, count: usize) -> Vec<Raw> {
    let holder = || {
        let mut raw = fleet.raw();
        raw.query("begin").expect("there is a server");
        raw
    };
    (0..count).map(|_| holder()).collect()
}

fn addresses(fleet: &Fleet) -> String {
    let hosts = fleet.console("show dns_hosts");
    hosts.find("hostname", NAME).map_or_else(String::new, |row| row.text("addrs").to_owned())
}

fn refused(text: &str) -> Failure {
    Failure::new("FATAL", "08P01", text)
}

#[test]
fn a_name_is_looked_up_once_for_all_servers() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.set(NAME, &["127.0.0.1"]);
    let fleet = named(&database, &server).set("dns_max_ttl", 3600).start();
    let _holders = holders(&fleet, 5);
    assert_eq!(server.asked(NAME), 1);
    let hosts = fleet.console("show dns_hosts");
    let row = hosts.find("hostname", NAME).expect("the name is shown");
    assert_eq!(row.text("addrs"), "127.0.0.1");
    assert!((3500..=3600).contains(&row.number("ttl")), "{}", row.number("ttl"));
}

#[test]
fn every_address_is_used_and_one_that_is_away_is_passed_over() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.set(NAME, &[AWAY, "127.0.0.1"]);
    let fleet = named(&database, &server).set("server_login_retry", 60).start();
    let start = Instant::now();
    let _holders = holders(&fleet, 5);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(fleet.log().matches(&format!("{AWAY}:")).count(), 1, "{}", fleet.log());
}

#[test]
fn a_name_that_has_moved_takes_its_servers_along() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.set(NAME, &["127.0.0.1"]);
    let fleet = named(&database, &server).set("dns_max_ttl", 1).start();
    let mut holder = holders(&fleet, 2);
    holder[0].query("commit").expect("it ends");
    server.set(NAME, &[AWAY]);
    wait::until_true("the idle server is closed", || database.backends() == 1);
    assert_eq!(addresses(&fleet), AWAY);
    assert_eq!(holder[1].query("select 1").expect("nobody is interrupted").values(), ["1"]);
    holder[1].query("commit").expect("it ends");
    wait::until_true("the other one is closed too", || database.backends() == 0);
    server.set(NAME, &["127.0.0.1"]);
    wait::until_true("the name is found again", || {
        Raw::login(&fleet.address()).is_ok_and(|mut raw| raw.query("select 1").is_ok())
    });
}

#[test]
fn nobody_else_waits_while_a_lookup_hangs() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.behave(Manner::Silent);
    let fleet = named(&database, &server).start();
    let address = fleet.address();
    let hanging = thread::spawn(move || Raw::login(&address).expect_err("the name is not found"));
    wait::until_true("the question is under way", || {
        fleet.console("show lists").find("list", "dns_queries").expect("it is told").number("items")
            == 1
    });
    let mut near = Raw::login(&fleet.address().in_database("near")).expect("it is served");
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(near.query("select 1").expect("it is served").values(), ["1"]);
    }
    assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
    server.set(NAME, &["127.0.0.1"]);
    server.behave(Manner::Honest);
    drop(hanging);
    wait::until_true("the name is found", || Raw::login(&fleet.address()).is_ok());
}

#[test]
fn a_name_that_does_not_exist_is_told_and_asked_for_again_after_dns_nxdomain_ttl() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    let fleet =
        named(&database, &server).set("dns_nxdomain_ttl", 3).set("query_wait_timeout", 1).start();
    let first = Raw::login(&fleet.address()).expect_err("there is no such name");
    assert_eq!(first, refused("query_wait_timeout"));
    let text = "server login has been failing, cached error: server DNS lookup failed (server_login_retry)";
    assert_eq!(Raw::login(&fleet.address()).expect_err("there is no such name"), refused(text));
    assert_eq!(server.asked(NAME), 1, "the answer is remembered");
    server.set(NAME, &["127.0.0.1"]);
    wait::until_true("the name is found", || Raw::login(&fleet.address()).is_ok());
    assert!(fleet.log().contains(&format!("cannot resolve {NAME}: no such name")));
}

#[test]
fn answers_that_are_too_long_or_wrong_do_no_harm() {
    for manner in [Manner::Truncating, Manner::Noisy] {
        let (database, server) = (Cluster::shared().database(), NameServer::start());
        server.set(NAME, &["127.0.0.1"]);
        server.behave(manner);
        let fleet = named(&database, &server).start();
        assert_eq!(fleet.client().value("select 1"), "1", "{manner:?}");
    }
}

#[test]
fn a_name_server_that_fails_makes_no_known_address_wrong() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.set(NAME, &["127.0.0.1"]);
    let fleet = named(&database, &server).set("dns_max_ttl", 1).set("dns_nxdomain_ttl", 1).start();
    let held = holders(&fleet, 1);
    for manner in [Manner::Failing, Manner::Silent] {
        server.behave(manner);
        let before = server.asked(NAME);
        wait::until_true("it has been asked in vain", || server.asked(NAME) > before + 1);
        assert_eq!(holders(&fleet, 2).len(), 2, "{manner:?}");
    }
    drop(held);
}

#[test]
fn a_zone_with_another_serial_number_has_its_names_looked_up_again() {
    let (database, server) = (Cluster::shared().database(), NameServer::start());
    server.set(NAME, &["127.0.0.1"]);
    let fleet =
        named(&database, &server).set("dns_max_ttl", 3600).set("dns_zone_check_period", 1).start();
    let _held = holders(&fleet, 1);
    wait::until_true("the zone is known", || {
        let zones = fleet.console("show dns_zones");
        zones
            .find("zonename", "fleet.example")
            .is_some_and(|row| row.number("serial") == 1 && row.number("count") == 1)
    });
    server.set(NAME, &["127.0.0.1", AWAY]);
    server.set_serial(2);
    wait::until_true("the name is looked up again", || {
        addresses(&fleet) == format!("127.0.0.1,{AWAY}")
    });
    assert_eq!(server.asked(NAME), 2);
}
