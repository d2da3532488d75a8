//! Clients that send garbage, too little, too much, or nothing: each ends its own connection and no other.
//! These tests never need a cooperative client; after each a well-behaved one must find all as it was.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    raw::{Answer, Raw, message},
    wait,
};

/// A fleet with a client in a transaction, and the workers that must live through it all.
struct Watched<'a> {
    fleet: Fleet,
    witness: Client,
    workers: Vec<pgfleet_harness::process::Process>,
    _database: &'a pgfleet_harness::cluster::Database<'a>,
}

impl<'a> Watched<'a> {
    fn start(database: &'a pgfleet_harness::cluster::Database<'a>) -> Self {
        let fleet = Fleet::of(database).set("client_login_timeout", 2).start();
        let witness = fleet.client();
        witness.run("begin; create temp table witness as select 1 as a");
        let workers = fleet.workers().iter().map(|worker| worker.process).collect();
        Self { fleet, witness, workers, _database: database }
    }

    /// Sends bytes on a fresh connection and reads until it is closed.
    fn answer_to(&self, bytes: &[u8]) -> Answer {
        let mut raw = Raw::open(&self.fleet.address()).expect("the fleet accepts");
        // It may be closed before all is written.
        drop(raw.send(bytes));
        raw.until_closed().expect("the connection closes")
    }

    /// Sends bytes after a login and reads until the connection is closed.
    fn answer_inside(&self, bytes: &[u8]) -> Answer {
        let mut raw = self.fleet.raw();
        drop(raw.send(bytes));
        raw.until_closed().expect("the connection closes")
    }

    /// Nobody else has noticed.
    fn unharmed(&self) {
        assert_eq!(self.witness.value("select a from witness"), "1");
        assert_eq!(self.fleet.client().value("select 2"), "2");
        let workers: Vec<_> = self.fleet.workers().iter().map(|worker| worker.process).collect();
        assert_eq!(workers, self.workers, "no worker was replaced");
    }
}

fn fatal(text: &str) -> Option<Failure> {
    Some(Failure::new("FATAL", "08P01", text))
}

#[test]
fn garbage_instead_of_a_startup_closes_the_connection() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let noise: Vec<u8> = (0..5000_u32).map(|number| (number * 31 % 251).to_le_bytes()[0]).collect();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        noise,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
    ] {
        assert!(watched.answer_to(&bytes).first(b'R').is_none());
    }
    watched.unharmed();
}

#[test]
fn a_startup_of_an_impossible_length_closes_the_connection() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    for length in [0_u32, 1, 4, 7, 100_000, 1 << 31, u32::MAX] {
        let bytes =
            [&length.to_be_bytes()[..], &(3_u32 << 16).to_be_bytes(), b"user\0app\0\0"].concat();
        assert!(watched.answer_to(&bytes).first(b'R').is_none(), "length {length}");
    }
    watched.unharmed();
}

#[test]
fn an_oversized_startup_is_not_read_to_its_end() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let parameters = [
        ("user", "app"),
        ("database", database.name()),
        ("application_name", &"x".repeat(200_000)),
    ];
    assert!(watched.answer_to(&message::startup(&parameters)).first(b'R').is_none());
    watched.unharmed();
}

#[test]
fn a_startup_without_its_terminator_is_refused() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let body = [&(3_u32 << 16).to_be_bytes()[..], b"user\0app\0database\0x\0"].concat();
    let bytes =
        [&u32::try_from(body.len() + 4).expect("it is short").to_be_bytes()[..], &body].concat();
    let answer = watched.answer_to(&bytes);
    assert_eq!(
        answer.error(),
        fatal("invalid startup packet layout: expected terminator as last byte")
    );
    watched.unharmed();
}

#[test]
fn a_slow_login_is_cut_off() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let start = Instant::now();
    let mut silent = Raw::open(&watched.fleet.address()).expect("the fleet accepts");
    let mut half = Raw::open(&watched.fleet.address()).expect("the fleet accepts");
    let mut loris = Raw::open(&watched.fleet.address()).expect("the fleet accepts");
    half.send(&message::startup(&[("user", "app")])[..9]).expect("the fleet reads");
    let startup = message::startup(&[("user", "app"), ("application_name", &"z".repeat(500))]);
    let dripping = startup.chunks(1).take_while(|byte| {
        wait::let_pass(Duration::from_millis(50));
        loris.send(byte).is_ok() && start.elapsed() < Duration::from_secs(8)
    });
    assert!(dripping.count() < 150, "the slow one is cut off in time");
    for raw in [&mut silent, &mut half, &mut loris] {
        let answer = raw.until_closed().expect("the connection closes");
        assert!(
            answer.error().is_none_or(|failure| failure.message == "client_login_timeout"),
            "{answer:?}"
        );
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    watched.unharmed();
}

#[test]
fn many_connections_that_say_nothing_do_not_keep_others_out() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let silent: Vec<Raw> =
        (0..100).map(|_| Raw::open(&watched.fleet.address()).expect("the fleet accepts")).collect();
    watched.unharmed();
    for mut raw in silent {
        raw.until_closed().expect("each is closed in time");
    }
    watched.unharmed();
}

#[test]
fn an_unknown_message_closes_the_connection() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    for tag in [b'?', b'!', 0, b'Z', b'R', b'T', 0xff] {
        let answer = watched.answer_inside(&message::framed(tag, b"what"));
        assert_eq!(
            answer.error().map(|failure| (failure.severity, failure.code)),
            Some(("FATAL".to_owned(), "08P01".to_owned()))
        );
    }
    watched.unharmed();
}

#[test]
fn a_message_of_an_impossible_length_closes_the_connection() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    for length in [0, 1, 3, 1 << 31, u32::MAX] {
        let answer = watched.answer_inside(&message::with_length(b'Q', length, b"select 1\0"));
        let failure = answer.error().expect("it says why");
        assert_eq!(
            (failure.severity.as_str(), failure.code.as_str()),
            ("FATAL", "08P01"),
            "length {length}"
        );
    }
    watched.unharmed();
}

#[test]
fn a_promised_gigabyte_that_does_not_come_costs_nothing() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let before: u64 = watched.workers.iter().map(|worker| worker.resident_kib()).sum();
    let mut liars: Vec<Raw> = (0..20).map(|_| watched.fleet.raw()).collect();
    for raw in &mut liars {
        raw.send(&message::with_length(b'P', 1 << 30, b"s\0select 1")).expect("the fleet reads");
    }
    watched.unharmed();
    let after: u64 = watched.workers.iter().map(|worker| worker.resident_kib()).sum();
    assert!(
        after.saturating_sub(before) < 20 << 10,
        "the workers grew from {before} to {after} KiB"
    );
}

#[test]
fn messages_out_of_place_get_an_error_and_nothing_worse() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let mut raw = watched.fleet.raw();
    let bind =
        [message::bind("", "never_parsed", &[]), message::execute("", 0), message::sync()].concat();
    assert_eq!(raw.ask(&bind).expect("an answer comes").code(), "26000");
    let execute = [message::execute("no_portal", 0), message::sync()].concat();
    assert_eq!(raw.ask(&execute).expect("an answer comes").code(), "34000");
    let describe = [message::describe_portal("no_portal"), message::sync()].concat();
    assert_eq!(raw.ask(&describe).expect("an answer comes").code(), "34000");
    assert_eq!(raw.query("select 3").expect("the client goes on").values(), ["3"]);
    watched.unharmed();
}

#[test]
fn copy_data_outside_of_copy_is_ignored() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let mut raw = watched.fleet.raw();
    let stray = [
        message::copy_data(b"1\n"),
        message::copy_done(),
        message::copy_fail("no"),
        message::query("select 4"),
    ]
    .concat();
    assert_eq!(raw.ask(&stray).expect("an answer comes").values(), ["4"]);
    watched.unharmed();
}

#[test]
fn a_password_after_the_login_is_no_message() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let answer = watched.answer_inside(&message::password("again"));
    assert_eq!(answer.error().map(|failure| failure.severity), Some("FATAL".to_owned()));
    watched.unharmed();
}

#[test]
fn malformed_bodies_close_at_most_their_own_connection() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let bodies: [&[u8]; 7] =
        [b"", b"\0", b"no end", b"S", b"Sname", b"\xff\xff\xff\xff", b"\0\0\xff\xff\0"];
    for tag in *b"QPBDECFfcS" {
        for body in bodies {
            let mut raw = watched.fleet.raw();
            raw.send(&[message::framed(tag, body), message::sync()].concat())
                .expect("the fleet reads");
            raw.shut();
            raw.until_closed().expect("the connection closes");
        }
    }
    watched.unharmed();
}

#[test]
fn clients_that_vanish_at_any_point_leave_nothing_behind() {
    let database = Cluster::shared().database();
    let watched = Watched::start(&database);
    let startup = message::startup(&[("user", "app"), ("database", database.name())]);
    let whole = [
        startup,
        message::query("begin"),
        message::unnamed("select pg_sleep(0.01)", &[]),
        message::query("select 1"),
    ]
    .concat();
    for end in (0..whole.len()).step_by(7) {
        let mut raw = Raw::open(&watched.fleet.address()).expect("the fleet accepts");
        raw.send(whole.get(..end).unwrap_or_default()).expect("the fleet reads");
    }
    watched.unharmed();
    wait::until_true("only the witness' server is busy", || {
        let pools = watched.fleet.console("show pools");
        pools.sum("sv_active") == 1 && pools.sum("cl_active") == 1 && pools.sum("cl_waiting") == 0
    });
}
