//! Clients that send far ahead: tens of thousands of messages before the first Sync, read late or never.
//! These tests never send a message that is large by itself; bulk has a suite of its own.
//! `make test` runs them over a real Postgres.

use std::{
    io::Write,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    fleet::Fleet,
    raw::{Answer, Raw, message},
    wait,
};

/// More messages than any queue of the pooler or of Postgres holds.
const MANY: usize = 20_000;

/// How much a worker may grow by what one client sends ahead, in KiB.
const ROOM: u64 = 24 << 10;

fn narrow(database: &Database<'_>) -> Fleet {
    Fleet::of(database).workers(1).set("default_pool_size", 1).start()
}

/// Bind and Execute of the unnamed statement with each of these numbers.
fn executes(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let one = |number: usize| {
        [message::bind("", "", &[Some(&number.to_string())]), message::execute("", 0)].concat()
    };
    numbers.flat_map(one).collect()
}

/// Sends on a thread of its own, since whoever sends ahead may be held up until somebody reads.
fn sent_aside(raw: &Raw, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut writer = raw.writer();
    thread::spawn(move || writer.write_all(&bytes).expect("the fleet reads in the end"))
}

/// Sends all of it while the answers are read, up to the next `ReadyForQuery`.
fn answered(raw: &mut Raw, bytes: Vec<u8>) -> Answer {
    let writer = sent_aside(raw, bytes);
    let answer = raw.until(b'Z').expect("the batch is answered");
    writer.join().expect("all could be sent");
    answer
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn twenty_thousand_executes_without_a_sync_are_answered_in_order() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    let before = fleet.worker(1).resident_kib();
    let batch = [message::parse("", "select $1::int"), executes(0..MANY), message::sync()].concat();
    let answer = answered(&mut raw, batch);
    assert_eq!(answer.course(), format!("1{}Z", "2DC".repeat(MANY)));
    assert_eq!(answer.values(), numbers(0..MANY));
    let grown = fleet.worker(1).peak_kib().saturating_sub(before);
    assert!(grown < ROOM, "the worker grew by {grown} KiB");
}

#[test]
fn a_long_batch_is_one_transaction() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    raw.query("create table t (a int primary key)").expect("the table is made");
    let insert = message::parse("", "insert into t values ($1)");
    let twice = [insert.clone(), executes(0..MANY), executes(7..8), message::sync()].concat();
    let answer = answered(&mut raw, twice);
    assert_eq!((answer.code().as_str(), answer.commands().len()), ("23505", MANY));
    assert_eq!(raw.query("select count(*) from t").expect("it runs").values(), ["0"]);
    let once = [insert, executes(0..MANY), message::sync()].concat();
    assert_eq!(answered(&mut raw, once).code(), "");
    assert_eq!(raw.query("select count(*) from t").expect("it runs").values(), ["20000"]);
}

#[test]
fn a_long_batch_behind_an_error_is_skipped_to_its_sync() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    let bad = message::parse("", "select $1::int from nowhere");
    let answer = answered(&mut raw, [bad, executes(0..MANY), message::sync()].concat());
    assert_eq!(
        (answer.course().as_str(), answer.code().as_str(), answer.state()),
        ("EZ", "42P01", Some('I'))
    );
    assert_eq!(raw.query("select 1").expect("the client goes on").values(), ["1"]);
    assert_eq!(fleet.client().value("select 2"), "2");
}

#[test]
fn an_error_in_the_middle_of_a_long_batch_ends_it_there() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    let half = MANY / 2;
    let parse = message::parse("", "select 100 / ($1::int - 10000)");
    let next = message::unnamed("select 'next'", &[]);
    let writer =
        sent_aside(&raw, [parse, executes(0..MANY), message::sync(), next.clone()].concat());
    let answer = raw.until(b'Z').expect("the batch is answered");
    assert_eq!((answer.rows().len(), answer.code().as_str()), (half, "22012"));
    assert_eq!(answer.course(), format!("1{}2EZ", "2DC".repeat(half)));
    assert_eq!(raw.until(b'Z').expect("the next batch runs").values(), ["next"]);
    writer.join().expect("all could be sent");
}

#[test]
fn twenty_thousand_simple_queries_sent_ahead_are_answered_in_order() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut raw = fleet.raw();
    let all = (0..MANY).flat_map(|number| message::query(&format!("select {number}"))).collect();
    let writer = sent_aside(&raw, all);
    for number in 0..MANY {
        let answer = raw.until(b'Z').expect("each query is answered");
        assert_eq!((answer.course().as_str(), answer.values()), ("TDCZ", vec![number.to_string()]));
    }
    writer.join().expect("all could be sent");
}

#[test]
fn a_client_that_pipelines_without_reading_slows_nobody_and_goes_on_later() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 2).start();
    let mut idle = fleet.raw();
    let before = fleet.worker(1).resident_kib();
    // 80 MB of answers, of which the sockets hold a small part.
    let parse = message::parse("", "select repeat($1, 1000)");
    let writer =
        sent_aside(&idle, [parse, executes(1000..5000).repeat(5), message::sync()].concat());
    let busy = || fleet.console("show pools").sum("sv_active") == 1;
    wait::until_true("the idle one has a server", busy);
    let other = fleet.client();
    wait::holds_for(Duration::from_secs(2), "others are served at once", || is_quick(&other));
    assert!(busy(), "the answers are still held up");
    let grown = fleet.worker(1).peak_kib().saturating_sub(before);
    assert!(grown < ROOM, "the worker grew by {grown} KiB");
    let values = idle.until(b'Z').expect("all is there in the end").values();
    let expected: Vec<String> = (1000..5000).map(|n| n.to_string().repeat(1000)).collect();
    assert!(values.chunks(expected.len()).all(|part| part == expected), "a value is wrong");
    assert_eq!(values.len(), 5 * expected.len());
    writer.join().expect("all could be sent");
}

fn is_quick(client: &Client) -> bool {
    let start = Instant::now();
    client.value("select 1") == "1" && start.elapsed() < Duration::from_millis(500)
}

#[test]
fn a_client_that_never_reads_can_be_dropped_and_frees_its_server() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut idle = fleet.raw();
    let parse = message::parse("", "select repeat('x', 100000 + $1)");
    idle.send(&[parse, executes(0..2000), message::sync()].concat()).expect("the fleet reads");
    wait::until_true("it has the one server", || fleet.console("show pools").sum("sv_active") == 1);
    drop(idle);
    assert_eq!(fleet.client().value("select 'next'"), "next");
}

#[test]
fn a_client_gone_in_a_long_batch_leaves_nothing() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    fleet.client().run("create table t (a int)");
    let mut gone = fleet.raw();
    let insert = message::parse("", "insert into t values ($1)");
    let writer = sent_aside(&gone, [insert, executes(0..MANY), message::flush()].concat());
    for _ in 0..100 {
        gone.until(b'C').expect("rows go in");
    }
    drop(gone);
    // The other handle to the same connection goes with its thread, written to the end or not.
    drop(writer.join());
    assert_eq!(fleet.client().value("select count(*) from t"), "0");
}

#[test]
fn a_notice_comes_where_it_belongs_and_to_its_client_alone() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let (mut loud, mut quiet) = (fleet.raw(), fleet.raw());
    let noise = "do $$ begin raise notice 'mind the gap'; end $$";
    let answer = loud.ask(&message::unnamed(noise, &[])).expect("it runs");
    assert_eq!(answer.tags().replace('S', ""), "12NCZ");
    let notices: Vec<String> = answer.notices().into_iter().map(|notice| notice.message).collect();
    assert_eq!(notices, ["mind the gap"]);
    let answer = quiet.query("select 1").expect("it runs");
    assert_eq!((answer.notices().len(), answer.values()), (0, vec!["1".to_owned()]));
}
