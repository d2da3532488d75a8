//! A cancel ends the query of the client whose key it carries, and nothing else, whichever worker it lands on.
//! These tests never count on where a connection lands: they make so many that every worker has its share.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    crowd::Crowd,
    failure::Failure,
    fake::{FakeServer, Lie},
    fleet::Fleet,
    raw::{Raw, cancel, message},
    wait,
};

/// Waits until Postgres runs a query with this mark in it.
fn is_running(superuser: &Client, mark: &str) {
    let sql = format!(
        "select count(*) from pg_stat_activity where state = 'active' and query like '%/* {mark} */%' and pid <> pg_backend_pid()"
    );
    wait::until_true("the query runs", || superuser.value(&sql) == "1");
}

/// A client that sleeps for half a minute in a query with this mark.
fn sleeper(fleet: &Fleet, superuser: &Client, mark: &str) -> Raw {
    let mut raw = fleet.raw();
    raw.send(&message::query(&format!("select pg_sleep(30) /* {mark} */")))
        .expect("the fleet reads");
    is_running(superuser, mark);
    raw
}

#[test]
fn two_hundred_cancels_each_end_their_own_query() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(8).set("default_pool_size", 80).start();
    let (address, direct) = (fleet.address(), database.cluster().address());
    let bystanders = Crowd::start(8, {
        let address = address.clone();
        move |_, running| {
            let client = Client::connect(&address).expect("the fleet lets app in");
            (0..)
                .take_while(|_| running.goes_on())
                .filter(|_| client.rows("select pg_sleep(0.01)").is_err())
                .count()
        }
    });
    let victims = Crowd::start(20, move |number, _| {
        let superuser = Client::connect(&direct).expect("the superuser can connect");
        let round = |round| {
            let mark = format!("victim {number} round {round}");
            let mut raw = Raw::login(&address).expect("the fleet lets app in");
            raw.send(&message::query(&format!("select pg_sleep(30) /* {mark} */")))
                .expect("the fleet reads");
            is_running(&superuser, &mark);
            cancel(&address, &raw.key).expect("the cancel is accepted");
            let answer = raw.until(b'Z').expect("the query ends");
            (answer.code(), raw.query("select 1").expect("the client goes on").values())
        };
        (0..10).map(round).collect::<Vec<_>>()
    });
    let ends = victims.finish().concat();
    assert_eq!(ends.len(), 200);
    assert!(ends.iter().all(|end| *end == ("57014".to_owned(), vec!["1".to_owned()])), "{ends:?}");
    assert_eq!(bystanders.stop(), [0; 8], "no bystander was hit");
}

#[test]
fn drivers_can_cancel() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let superuser = database.cluster().superuser();
    for round in 0..8 {
        let client = fleet.client();
        let canceller = client.canceller();
        let mark = format!("driver {round}");
        std::thread::scope(|scope| {
            let query =
                scope.spawn(|| client.failure(&format!("select pg_sleep(30) /* {mark} */")));
            is_running(&superuser, &mark);
            canceller.cancel().expect("the cancel is accepted");
            assert_eq!(query.join().expect("the query ends").code, "57014");
        });
        assert_eq!(client.value("select 1"), "1");
    }
}

#[test]
fn a_cancel_may_come_over_the_unix_socket() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let superuser = database.cluster().superuser();
    for round in 0..8 {
        let mut raw = sleeper(&fleet, &superuser, &format!("unix {round}"));
        cancel(&fleet.unix_address(), &raw.key).expect("the cancel is accepted");
        assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
    }
}

#[test]
fn the_requester_is_let_go_when_the_cancel_is_delivered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let superuser = database.cluster().superuser();
    for round in 0..12 {
        let mut raw = sleeper(&fleet, &superuser, &format!("deliver {round}"));
        let start = Instant::now();
        cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
        let delivered = start.elapsed();
        raw.until(b'Z').expect("the query ends");
        assert!(delivered < Duration::from_secs(2), "delivered after {delivered:?}");
        assert!(
            start.elapsed() - delivered < Duration::from_secs(1),
            "the query went on after the delivery"
        );
    }
}

#[test]
fn a_wrong_key_does_nothing_and_tells_nothing() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let superuser = database.cluster().superuser();
    let mut raw = sleeper(&fleet, &superuser, "wrong");
    for bit in 0..64 {
        let mut key = raw.key.clone();
        key[bit / 8] ^= 1 << (bit % 8);
        let mut requester = Raw::open(&fleet.address()).expect("the fleet accepts");
        requester.send(&message::cancel(&key)).expect("the fleet reads");
        assert_eq!(
            requester.until_closed().expect("the connection closes").tags(),
            "",
            "bit {bit}"
        );
    }
    is_running(&superuser, "wrong");
    cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
    assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
}

#[test]
fn a_stale_key_does_nothing() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("default_pool_size", 2).start();
    let superuser = database.cluster().superuser();
    let gone = fleet.raw();
    let key = gone.key.clone();
    gone.leave();
    let mut other = sleeper(&fleet, &superuser, "stale");
    for _ in 0..8 {
        cancel(&fleet.address(), &key).expect("the connection closes");
    }
    is_running(&superuser, "stale");
    cancel(&fleet.address(), &other.key).expect("the cancel is accepted");
    assert_eq!(other.until(b'Z').expect("the query ends").code(), "57014");
}

#[test]
fn a_cancel_of_a_malformed_length_closes_the_connection() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for key in [&b""[..], b"1234", b"123456789", &[7; 256]] {
        let mut requester = Raw::open(&fleet.address()).expect("the fleet accepts");
        requester.send(&message::cancel(key)).expect("the fleet reads");
        requester.until_closed().expect("the connection closes");
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn an_idle_client_can_be_cancelled_without_effect() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut raw = fleet.raw();
    for _ in 0..12 {
        cancel(&fleet.address(), &raw.key).expect("the connection closes");
        assert_eq!(raw.query("select 1").expect("the query runs").values(), ["1"]);
    }
}

/// One server for everyone: a canceller whose cancels come late, and victims that must never be hit.
fn late_cancels_hit_nobody_else(database: &Database<'_>, workers: u32) {
    let fleet = Fleet::of(database).workers(workers).set("default_pool_size", workers).start();
    let address = fleet.address();
    let others = Crowd::start(4, {
        let address = address.clone();
        move |_, running| {
            let client = Client::connect(&address).expect("the fleet lets app in");
            (0..)
                .take_while(|_| running.goes_on())
                .filter(|_| client.rows("select pg_sleep(0.002)").is_err())
                .count()
        }
    });
    let mut raw = fleet.raw();
    let mut hits = 0;
    for round in 0..200_u64 {
        let (address, key) = (address.clone(), raw.key.clone());
        let late = std::thread::spawn(move || {
            wait::let_pass(Duration::from_micros(round % 40 * 200));
            cancel(&address, &key)
        });
        hits += usize::from(
            raw.query("select pg_sleep(0.004)").expect("an answer comes").code() == "57014",
        );
        late.join().expect("the thread ends").expect("the connection closes");
    }
    assert_eq!(others.stop(), [0; 4], "no other client was hit");
    assert!(hits > 0, "the cancels must not be dropped to be safe");
}

#[test]
fn a_late_cancel_never_hits_the_next_client() {
    late_cancels_hit_nobody_else(&Cluster::shared().database(), 1);
}

#[test]
fn a_late_cancel_by_way_of_a_peer_never_hits_the_next_client() {
    late_cancels_hit_nobody_else(&Cluster::shared().database(), 4);
}

#[test]
fn cancels_have_a_budget_of_their_own() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(2)
        .set("max_client_conn", 8)
        .set("max_db_connections", 6)
        .start();
    let superuser = database.cluster().superuser();
    let mut sleepers: Vec<Raw> =
        (0..6).map(|number| sleeper(&fleet, &superuser, &format!("full {number}"))).collect();
    let _idle = [fleet.raw(), fleet.raw()];
    assert!(Raw::login(&fleet.address()).is_err(), "the fleet is full");
    for raw in &mut sleepers {
        cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
        assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
    }
}

#[test]
fn a_cancel_that_cannot_be_delivered_ends_after_cancel_wait_timeout() {
    let database = Cluster::shared().database();
    let fake = FakeServer::start(Lie::HoldsCancels);
    let fleet = Fleet::of(&database)
        .set("cancel_wait_timeout", 1)
        .database("fake", &format!("host=127.0.0.1 port={}", fake.port()))
        .start();
    let mut raw = Raw::login(&fleet.address().in_database("fake")).expect("the fake logs in");
    raw.send(&message::query("select 1")).expect("the fleet reads");
    wait::until_true("the query is on its way", || {
        let pools = fleet.console("show pools");
        pools.find("database", "fake").is_some_and(|row| row.number("sv_active") == 1)
    });
    let start = Instant::now();
    cancel(&fleet.address(), &raw.key).expect("the requester is let go");
    let waited = start.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
    // The key may still arrive, and must hit nobody else.
    let servers = fleet.console("show servers");
    assert_eq!(servers.find("database", "fake").map(|row| row.number("close_needed")), Some(1));
}

/// A client of protocol 3.2 whose query sleeps.
fn sleeper_of_3_2(fleet: &Fleet, superuser: &Client, mark: &str) -> Raw {
    let mut raw = Raw::login_of((3 << 16) + 2, &fleet.address(), &[]).expect("app gets in");
    assert_eq!(raw.key.len(), 36);
    raw.send(&message::query(&format!("select pg_sleep(30) /* {mark} */"))).expect("it is read");
    is_running(superuser, mark);
    raw
}

#[test]
fn a_long_key_cancels_on_whichever_worker_it_lands() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let superuser = database.cluster().superuser();
    for round in 0..8 {
        let mut raw = sleeper_of_3_2(&fleet, &superuser, &format!("long {round}"));
        cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
        assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
    }
}

#[test]
fn a_long_key_counts_as_a_whole() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let superuser = database.cluster().superuser();
    let mut raw = sleeper_of_3_2(&fleet, &superuser, "whole");
    let mut wrong: Vec<Vec<u8>> = (4..36).map(|at| flipped(&raw.key, at)).collect();
    wrong.extend([8, 12, 35].map(|length| raw.key[..length].to_vec()));
    wrong.extend([1, 224].map(|more| [raw.key.clone(), vec![0; more]].concat()));
    for key in wrong {
        let mut requester = Raw::open(&fleet.address()).expect("the fleet accepts");
        requester.send(&message::cancel(&key)).expect("the fleet reads");
        assert_eq!(requester.until_closed().expect("the connection closes").tags(), "");
    }
    is_running(&superuser, "whole");
    cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
    assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
}

fn flipped(key: &[u8], at: usize) -> Vec<u8> {
    let mut key = key.to_vec();
    key[at] ^= 1;
    key
}

#[test]
fn a_cancel_request_without_a_key_of_a_possible_length_is_bad() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for length in [0, 7, 261] {
        let mut requester = Raw::open(&fleet.address()).expect("the fleet accepts");
        requester.send(&message::cancel(&vec![0; length])).expect("the fleet reads");
        let answer = requester.until_closed().expect("the connection closes");
        assert_eq!(answer.error(), Some(Failure::new("FATAL", "08P01", "bad cancel request")));
    }
}
