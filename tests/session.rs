//! What a client asks for is what it gets: queries, batches, errors, notices and notifications.
//! These tests never look at other clients; isolation has a suite of its own.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    client::{Client, runtime},
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    program::{psql, python},
    raw::{Raw, message},
};

#[test]
fn a_simple_query_is_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    assert_eq!(fleet.client().value("select 40 + 2"), "42");
}

#[test]
fn several_statements_in_one_query_are_answered_in_order() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let answer = fleet.raw().query("select 1; select 2, 'x'; select null").expect("the query runs");
    assert_eq!(answer.course(), "TDCTDCTDCZ");
    assert_eq!(answer.values(), ["1", "2", ""]);
}

#[test]
fn an_empty_query_is_answered_as_one() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    assert_eq!(raw.query("").expect("an empty query is fine").course(), "IZ");
    assert_eq!(raw.ask(&message::sync()).expect("a Sync alone is fine").course(), "Z");
    assert_eq!(raw.query(" ; ").expect("so is an empty statement").course(), "IZ");
}

#[test]
fn a_query_with_parameters_is_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let client = fleet.client();
    let rows = client
        .query("select $1::int4 + 1, $2::text || '!'", &[&41, &"so"])
        .expect("the query runs");
    let row = rows.first().expect("there is a row");
    assert_eq!((row.get::<_, i32>(0), row.get::<_, String>(1)), (42, "so!".to_owned()));
}

#[test]
fn queries_that_a_driver_sends_ahead_are_answered_in_order() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let client = fleet.client();
    let driver = client.driver();
    let one = async |number: i32| {
        driver.query_one("select $1::int4 * 2", &[&number]).await.map(|row| row.get::<_, i32>(0))
    };
    let (first, second, third) = runtime().block_on(async { tokio::join!(one(1), one(2), one(3)) });
    assert_eq!([first, second, third].map(|result| result.expect("each query runs")), [2, 4, 6]);
}

#[test]
fn many_batches_in_one_packet_are_all_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let batches: Vec<u8> = (0..200)
        .flat_map(|number| message::unnamed("select $1::int", &[Some(&format!("{number}"))]))
        .collect();
    raw.send(&batches).expect("the fleet reads");
    for number in 0..200 {
        let answer = raw.until(b'Z').expect("each batch is answered");
        assert_eq!(
            (answer.course().as_str(), answer.values()),
            ("12DCZ", vec![number.to_string()])
        );
    }
}

#[test]
fn flush_brings_answers_before_sync() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let begin = [
        message::parse("", "select generate_series(1, 25)"),
        message::bind("c", "", &[]),
        message::describe_portal("c"),
        message::flush(),
    ];
    raw.send(&begin.concat()).expect("the fleet reads");
    assert_eq!(raw.until(b'T').expect("Flush is obeyed").course(), "12T");
    for (expected, rows) in [(b's', 10), (b's', 10), (b'C', 5)] {
        raw.send(&[message::execute("c", 10), message::flush()].concat()).expect("the fleet reads");
        assert_eq!(raw.until(expected).expect("the portal is still there").rows().len(), rows);
    }
    assert_eq!(raw.ask(&message::sync()).expect("the batch ends").course(), "Z");
}

#[test]
fn a_portal_outlives_sync_inside_a_transaction() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("begin runs");
    let open = [
        message::parse("", "select generate_series(1, 6)"),
        message::bind("c", "", &[]),
        message::execute("c", 4),
        message::sync(),
    ];
    assert_eq!(raw.ask(&open.concat()).expect("the portal opens").values(), ["1", "2", "3", "4"]);
    let rest =
        raw.ask(&[message::execute("c", 0), message::sync()].concat()).expect("the portal goes on");
    assert_eq!(rest.values(), ["5", "6"]);
    assert_eq!(raw.query("commit").expect("commit runs").state(), Some('I'));
}

#[test]
fn an_error_in_a_batch_skips_to_its_sync_and_no_further() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let bad =
        [message::parse("", "select 1/0"), message::bind("", "", &[]), message::execute("", 0)]
            .concat();
    let skipped = [
        message::parse("", "select 2"),
        message::bind("", "", &[]),
        message::execute("", 0),
        message::sync(),
    ]
    .concat();
    raw.send(&[bad, skipped, message::unnamed("select 3", &[])].concat()).expect("the fleet reads");
    let first = raw.until(b'Z').expect("the first batch ends");
    assert_eq!((first.code().as_str(), first.state()), ("22012", Some('I')));
    assert!(first.rows().is_empty());
    assert_eq!(raw.until(b'Z').expect("the second batch runs").values(), ["3"]);
}

#[test]
fn an_error_in_a_simple_query_leaves_the_connection_usable() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let client = fleet.client();
    let failure = client.failure("select 1; select 1/0; select 2");
    assert_eq!(failure, Failure::new("ERROR", "22012", "division by zero"));
    assert_eq!(client.value("select 5"), "5");
}

#[test]
fn a_failed_transaction_stays_failed_until_rollback() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    assert_eq!(raw.query("begin").expect("begin runs").state(), Some('T'));
    assert_eq!(raw.query("select 1/0").expect("an error is an answer").state(), Some('E'));
    assert_eq!(raw.query("select 1").expect("an error is an answer").code(), "25P02");
    assert_eq!(raw.query("rollback").expect("rollback runs").state(), Some('I'));
    assert_eq!(raw.query("select 1").expect("all is well again").values(), ["1"]);
}

#[test]
fn notices_reach_the_client_that_caused_them() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let client = fleet.client();
    client.run("do $$ begin raise notice 'mind the gap'; end $$");
    assert_eq!(client.notices(), ["mind the gap"]);
}

#[test]
fn notifications_arrive_in_session_mode() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("pool_mode", "session").start();
    let (listener, talker) = (fleet.client(), fleet.client());
    listener.run("listen news");
    talker.run("notify news, 'hello'");
    // No query is under way when it comes.
    assert_eq!(listener.notification("news"), "hello");
    assert_eq!(listener.value("select 1"), "1");
}

#[test]
fn a_function_call_is_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let oid: u32 = raw
        .query("select 'int4pl'::regproc::oid")
        .expect("it is there")
        .values()
        .concat()
        .parse()
        .expect("a number");
    let arguments = b"\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x28\0\0\0\x04\0\0\0\x02\0\x01";
    let answer = raw
        .ask(&message::framed(b'F', &[&oid.to_be_bytes()[..], arguments].concat()))
        .expect("it is answered");
    assert_eq!(answer.course(), "VZ");
    assert_eq!(answer.first(b'V').expect("there is a value").body, b"\0\0\0\x04\0\0\0\x2a");
}

#[test]
fn every_split_of_a_byte_stream_gives_the_same_answers() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let stream = recorded();
    let expected = played(&mut fleet.raw(), &[&stream]);
    assert_eq!(expected, ["TDCZ", "12DCZ", "CZ", "GCZ", "EZ", "TDCZ", "CZ"]);
    let mut raw = fleet.raw();
    for split in 1..stream.len() {
        let (head, tail) = stream.split_at(split);
        assert_eq!(played(&mut raw, &[head, tail]), expected, "split after {split} bytes");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(played(&mut raw, &bytes), expected, "byte by byte");
}

/// A bit of everything, ending outside of any transaction.
fn recorded() -> Vec<u8> {
    let copy = [
        message::query("copy pg_temp.t from stdin"),
        message::copy_data(b"1\n2\n"),
        message::copy_done(),
    ]
    .concat();
    [
        message::query("select 'one'"),
        message::unnamed("select $1::text", &[Some("two")]),
        message::query("begin; create temp table t (a int) on commit drop"),
        copy,
        [
            message::parse("", "select nothing"),
            message::bind("", "", &[]),
            message::execute("", 0),
            message::sync(),
        ]
        .concat(),
        message::query("rollback; select 4"),
        message::query("set application_name = 'split'"),
    ]
    .concat()
}

/// Sends the pieces, each in a packet of its own, and gives back the course of each answer.
fn played(raw: &mut Raw, pieces: &[&[u8]]) -> Vec<String> {
    for piece in pieces {
        raw.send(piece).expect("the fleet reads");
    }
    let mut courses: Vec<String> =
        (0..7).map(|_| raw.until(b'Z').expect("each part is answered").course()).collect();
    // The two statements of the third and sixth part count as one here.
    for course in &mut courses {
        *course = course.replace("CC", "C").replace("CTDC", "TDC");
    }
    courses
}

#[test]
fn psycopg_works_through_the_fleet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let printed = python("session.py", &fleet.address(), &[]);
    assert_eq!(printed.text(), "rows batch pipeline error copy cursor transaction");
}

#[test]
fn psql_works_through_both_sockets() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for address in [fleet.address(), fleet.unix_address()] {
        assert_eq!(psql(&address, "select current_user, 1").well().text(), "app|1");
    }
}

#[test]
fn a_server_that_dies_takes_only_its_client_with_it() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let (victim, other) = (fleet.client(), fleet.client());
    victim.run("begin");
    other.run("begin");
    let pid = victim.value("select pg_backend_pid()");
    database.direct().run(&format!("select pg_terminate_backend({pid})"));
    let failure = victim.failure("select 1");
    assert!(failure.is_silent() || failure.severity == "FATAL", "{failure}");
    assert_eq!(other.value("select 7"), "7");
    assert_eq!(Client::connect(&fleet.address()).expect("others get in").value("select 8"), "8");
}

#[test]
fn a_server_that_dies_idle_is_not_noticed() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let client = fleet.client();
    let pid = client.value("select pg_backend_pid()");
    database.direct().run(&format!("select pg_terminate_backend({pid}, 5000)"));
    pgfleet_harness::wait::until_true("the fleet has seen it go", || {
        fleet.console("show servers").is_empty()
    });
    assert_ne!(client.value("select pg_backend_pid()"), pid);
}
