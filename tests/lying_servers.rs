//! Servers that lie: what they do to their own clients is an error, what they do to others is nothing.
//! These tests never trust that a server speaks the protocol.
//! `make test` runs them with a lying server beside a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    failure::Failure,
    fake::{FakeServer, Lie},
    fleet::Fleet,
    wait,
};

/// A fleet in front of a lying and a real server.
fn beside(database: &Database<'_>, fake: &FakeServer) -> Fleet {
    let entry = format!("host=127.0.0.1 port={}", fake.port());
    let setup = Fleet::of(database)
        .database("lie", &entry)
        .set("server_connect_timeout", 2)
        .set("query_wait_timeout", 6);
    setup.set("query_timeout", 3).start()
}

/// What a client of the lying server gets, while one of the real server must not notice.
fn told(lie: Lie) -> Failure {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(lie);
    let fleet = beside(&database, &fake);
    let witness = fleet.client();
    witness.run("begin; create temp table witness as select 1 as a");
    let workers: Vec<_> = fleet.workers().iter().map(|worker| worker.process).collect();
    let address = fleet.address().in_database("lie");
    let failure = Client::connect(&address)
        .and_then(|client| client.rows("select 1"))
        .expect_err("nothing good comes of it");
    assert_eq!(witness.value("select a from witness"), "1");
    assert_eq!(fleet.client().value("select 2"), "2");
    assert_eq!(fleet.workers().iter().map(|worker| worker.process).collect::<Vec<_>>(), workers);
    failure
}

#[test]
fn a_server_that_never_answers_a_login_is_given_up() {
    let failure = told(Lie::Silent);
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
}

#[test]
fn a_server_that_hangs_up_in_the_login_is_an_error() {
    let failure = told(Lie::HangsUpInLogin);
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
}

#[test]
fn a_server_that_talks_nonsense_in_the_login_is_an_error() {
    let failure = told(Lie::NonsenseInLogin);
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
}

#[test]
fn a_server_with_an_unknown_login_method_is_an_error() {
    let failure = told(Lie::UnknownLogin);
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
}

#[test]
fn a_server_that_never_answers_a_query_falls_under_query_timeout() {
    let failure = told(Lie::SilentQuery);
    assert_eq!(failure, Failure::new("FATAL", "08P01", "query timeout"));
}

#[test]
fn a_server_that_closes_in_a_row_ends_its_client() {
    let failure = told(Lie::ClosesInRow);
    assert!(failure.is_silent() || failure.severity == "FATAL", "{failure}");
}

#[test]
fn a_message_that_nobody_knows_ends_its_client() {
    let failure = told(Lie::NonsenseMessage);
    assert!(failure.is_silent() || failure.severity == "FATAL", "{failure}");
}

#[test]
fn a_message_of_an_impossible_length_ends_its_client() {
    let failure = told(Lie::ImpossibleLength);
    assert!(failure.is_silent() || failure.severity == "FATAL", "{failure}");
}

#[test]
fn a_server_that_answers_unasked_is_never_lent_again() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::AnswersTwice);
    let fleet = beside(&database, &fake);
    let address = fleet.address().in_database("lie");
    for round in 1..=5 {
        if let Ok(client) = Client::connect(&address) {
            // The one answer is right; the second one is for nobody.
            drop(client.rows("select 1"));
        }
        wait::until_true("the liar is not kept", || {
            let pools = fleet.console("show pools");
            pools
                .rows()
                .filter(|row| row.text("database") == "lie")
                .all(|row| row.number("sv_idle") == 0 && row.number("sv_active") == 0)
        });
        assert!(fake.accepted() >= round, "each client got a server of its own");
    }
    assert_eq!(fleet.client().value("select 2"), "2");
}

#[test]
fn a_server_that_is_ready_in_a_copy_is_never_lent_again() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::ReadyInCopy);
    let fleet = beside(&database, &fake);
    for _ in 0..3 {
        drop(
            Client::connect(&fleet.address().in_database("lie"))
                .and_then(|client| client.rows("select 1")),
        );
    }
    wait::until_true("the liar is not kept", || {
        let pools = fleet.console("show pools");
        pools
            .rows()
            .filter(|row| row.text("database") == "lie")
            .all(|row| row.number("sv_idle") == 0)
    });
    assert_eq!(fleet.client().value("select 2"), "2");
}

#[test]
fn a_silent_server_does_not_hold_up_other_databases() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::Silent);
    let fleet = beside(&database, &fake);
    let address = fleet.address().in_database("lie");
    let waiting = pgfleet_harness::crowd::Crowd::start(20, move |_, _| {
        Client::connect(&address).is_ok_and(|client| client.rows("select 1").is_ok())
    });
    wait::until_true("they wait for the liar", || fake.accepted() > 0);
    let client = fleet.client();
    wait::holds_for(Duration::from_secs(2), "others are served at once", || {
        let start = std::time::Instant::now();
        client.value("select 1") == "1" && start.elapsed() < Duration::from_millis(500)
    });
    assert!(waiting.finish().iter().all(|served| !served));
}
