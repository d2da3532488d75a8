//! What a peer that breaks the rules is told: each fault has its text, and then the connection is closed.
//! These tests never look at how much a fault costs; the suite about hostile clients does.
//! `make test` runs them over a real Postgres, and with servers that lie beside it.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    thread,
    time::{Duration, Instant},
};

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    crowd::Crowd,
    failure::Failure,
    fake::{FakeServer, Lie},
    fleet::Fleet,
    raw::{Answer, Raw, message},
};

fn fatal(text: &str) -> Option<Failure> {
    Some(Failure::new("FATAL", "08P01", text))
}

/// What bytes at the very start of a connection are answered with before it is closed.
fn opened_with(fleet: &Fleet, bytes: &[u8]) -> Answer {
    let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
    // It may be closed before all is written.
    drop(raw.send(bytes));
    raw.until_closed().expect("the connection closes")
}

/// The same after a login.
fn sent_inside(fleet: &Fleet, bytes: &[u8]) -> Option<Failure> {
    let mut raw = fleet.raw();
    drop(raw.send(bytes));
    raw.until_closed().expect("the connection closes").error()
}

#[test]
fn a_startup_packet_of_an_impossible_length_is_named_as_such() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for length in [0_u32, 4, 7, 100_000, u32::MAX] {
        let bytes = [&length.to_be_bytes()[..], &(3_u32 << 16).to_be_bytes()].concat();
        let failure = opened_with(&fleet, &bytes).error().expect("it says why");
        assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
        assert!(failure.message.contains(&length.to_string()), "{length}: {failure}");
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_web_browser_is_told_that_this_is_no_startup_packet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let answer = opened_with(&fleet, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let failure = answer.error().expect("it says why");
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
    assert!(failure.message.contains("startup packet"), "{failure}");
}

#[test]
fn a_version_that_is_not_spoken_is_named() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (major, minor) in [(1, 0), (4, 0), (4, 7), (999, 1)] {
        let bytes = message::startup_of((major << 16) + minor, &[("user", "app")]);
        let failure = opened_with(&fleet, &bytes).error().expect("it says why");
        assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
        assert!(failure.message.contains(&format!("{major}.{minor}")), "{failure}");
    }
    let old = opened_with(&fleet, &message::startup_of(2 << 16, &[("user", "app")]));
    assert_eq!(old.error(), fatal("old V2 protocol not supported"));
}

#[test]
fn bytes_behind_an_encryption_request_close_the_connection_at_every_split() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let startup = message::startup(&[("user", "app"), ("database", database.name())]);
    for request in [message::ssl_request(), message::gss_request()] {
        for split in 0..request.len() {
            for extra in [1, 4, 8, startup.len()] {
                let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
                let (head, tail) = request.split_at(split);
                raw.send(head).expect("the fleet reads");
                let (smuggled, _) = startup.split_at(extra);
                drop(raw.send(&[tail, smuggled].concat()));
                let tags = raw.until_closed().expect("the connection closes").tags();
                assert!(!tags.contains('R'), "split {split}, {extra} bytes more: {tags}");
            }
        }
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn an_unknown_message_is_refused_with_pgbouncers_text() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for tag in *b"?ZT" {
        assert_eq!(sent_inside(&fleet, &message::framed(tag, b"what")), fatal("unknown pkt"));
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_header_that_cannot_be_one_is_shown() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (length, shown) in [(0, "5100000000"), (3, "5100000003"), (u32::MAX, "51ffffffff")] {
        let failure = sent_inside(&fleet, &message::with_length(b'Q', length, b""));
        assert_eq!(failure, fatal(&format!("bad packet header: '{shown}'")), "length {length}");
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_message_beyond_max_packet_size_is_a_bad_header() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("max_packet_size", 1000).start();
    let fits = message::query(&format!("select '{}'", "x".repeat(900)));
    assert!(fleet.raw().ask(&fits).is_ok());
    let failure = sent_inside(&fleet, &message::framed(b'Q', &[b'x'; 1000]));
    assert_eq!(failure, fatal("bad packet header: '51000003ec'"));
    let mut raw = fleet.raw();
    let failure = raw.query("select repeat('x', 2000)").expect_err("the row is too long");
    assert_eq!(Some(failure), fatal("bad pkt header"));
}

#[test]
fn a_fault_inside_a_transaction_rolls_it_back() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).start();
    fleet.client().run("create table t (a int)");
    for fault in [message::framed(b'?', b"what"), message::with_length(b'Q', 2, b"")] {
        let mut raw = fleet.raw();
        raw.query("begin; insert into t values (1)").expect("it runs");
        raw.send(&fault).expect("the fleet reads");
        let answer = raw.until_closed().expect("the connection closes");
        assert_eq!(answer.error().map(|failure| failure.code), Some("08P01".to_owned()));
        assert_eq!(fleet.client().value("select count(*) from t"), "0");
    }
}

/// A fleet of so many workers with an entry `lie` for the port, whose clients soon lose patience.
fn beside(database: &Database<'_>, port: u16, workers: u32) -> Fleet {
    let setup = Fleet::of(database).database("lie", &format!("host=127.0.0.1 port={port}"));
    let setup = setup.set("server_connect_timeout", 2).set("query_wait_timeout", 6);
    setup.workers(workers).start()
}

/// What a client of the liar is told; one in a transaction with a real server must not notice.
fn told(database: &Database<'_>, port: u16) -> Failure {
    let fleet = beside(database, port, 1);
    let witness = fleet.client();
    witness.run("begin; create temp table witness as select 1 as a");
    let failure = Client::connect(&fleet.address().in_database("lie"))
        .and_then(|client| client.rows("select 1"))
        .expect_err("nothing good comes of it");
    assert_eq!(witness.value("select a from witness"), "1");
    assert_eq!(fleet.client().value("select 2"), "2");
    failure
}

#[test]
fn a_client_is_told_that_its_server_sent_an_unknown_message() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::NonsenseMessage);
    assert_eq!(Some(told(&database, fake.port())), fatal("unknown pkt"));
}

#[test]
fn a_client_is_told_that_its_server_sent_an_impossible_length() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::ImpossibleLength);
    assert_eq!(Some(told(&database, fake.port())), fatal("bad pkt header"));
}

#[test]
fn a_server_that_closes_in_the_middle_of_a_row_ends_its_client_at_once() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::ClosesInRow);
    let fleet = beside(&database, fake.port(), 1);
    let mut raw = Raw::login(&fleet.address().in_database("lie")).expect("the login is answered");
    let start = Instant::now();
    raw.send(&message::query("select 1")).expect("the fleet reads");
    let answer = raw.until_closed().expect("the connection closes");
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
    assert!(!answer.tags().contains(['D', 'C', 'Z']), "half a row is no answer: {answer:?}");
    assert!(answer.error().is_none() || answer.error() == fatal("server conn crashed?"));
}

/// What those are told at once whose server is known to fail.
fn cached(cause: &str) -> Option<Failure> {
    fatal(&format!("server login has been failing, cached error: {cause} (server_login_retry)"))
}

#[test]
fn what_one_worker_learns_of_a_failing_server_all_workers_know() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::Silent);
    let fleet = beside(&database, fake.port(), 2);
    let address = fleet.address().in_database("lie");
    assert_eq!(Raw::login(&address).err(), fatal("query_wait_timeout"));
    // Enough at once that every worker gets some.
    let ends = Crowd::start(6, move |_, _| {
        let start = Instant::now();
        (Raw::login(&address).err(), start.elapsed())
    });
    for (failure, took) in ends.finish() {
        assert_eq!(failure, cached("connect timeout"), "after {took:?}");
        assert!(took < Duration::from_secs(1), "it was told after {took:?}");
    }
}

/// The first client of a server that cannot be logged in to waits for it in vain; the next one is told at once what
/// is known by then.
fn told_with_its_cause(port: u16, cause: &str) {
    let database = Cluster::shared().database();
    let fleet = beside(&database, port, 1);
    let witness = fleet.client();
    witness.run("begin; create temp table witness as select 1 as a");
    let address = fleet.address().in_database("lie");
    let mut ends = (0..2).map(|_| (Raw::login(&address).err(), Instant::now()));
    let (first, second) = (ends.next().expect("one ends"), ends.next().expect("and so does two"));
    assert_eq!(first.0, fatal("query_wait_timeout"));
    assert_eq!(second.0, cached(cause));
    let took = second.1 - first.1;
    assert!(took < Duration::from_secs(1), "the second one was told after {took:?}");
    assert_eq!(witness.value("select a from witness"), "1");
    assert_eq!(fleet.client().value("select 2"), "2");
}

#[test]
fn a_login_that_the_server_breaks_off_is_told_with_its_cause() {
    told_with_its_cause(FakeServer::start(Lie::HangsUpInLogin).port(), "server conn crashed?");
}

#[test]
fn a_login_that_is_never_answered_is_told_with_its_cause() {
    told_with_its_cause(FakeServer::start(Lie::Silent).port(), "connect timeout");
}

#[test]
fn a_server_that_closes_in_the_middle_of_its_greeting_is_a_login_that_failed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut startup = [0; 1024];
            // The head of an AuthenticationOk, and no more.
            let _gone = stream.read(&mut startup).and_then(|_| stream.write_all(b"R\0\0\0\x08\0"));
        }
    });
    told_with_its_cause(port, "server conn crashed?");
}
