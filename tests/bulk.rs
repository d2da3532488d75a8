//! Messages far larger than any buffer pass at bounded memory, and a slow side only slows itself.
//! These tests never look at speed.
//! `make test` runs them over a real Postgres.

use std::io::Write;

use pgfleet_harness::{cluster::Cluster, fleet::Fleet, raw::message, wait};

/// How much a worker may grow while a message of hundreds of megabytes passes, in KiB.
const ROOM: u64 = 24 << 10;
const MIB: usize = 1 << 20;

#[test]
fn a_result_of_100_mb_passes_at_bounded_memory() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("all is well");
    let before = fleet.worker(1).resident_kib();
    // One row of 50 MB, then 50 MB of small ones.
    let answer = raw.query("select repeat('x', 50 << 20) union all select repeat('y', 1024) from generate_series(1, 50 << 10)");
    let bytes: usize = answer.expect("the query runs").values().iter().map(String::len).sum();
    assert_eq!(bytes, 100 * MIB);
    let grown = fleet.worker(1).peak_kib().saturating_sub(before);
    assert!(grown < ROOM, "the worker grew by {grown} KiB");
}

#[test]
fn a_parameter_of_200_mb_passes_at_bounded_memory() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("all is well");
    let before = fleet.worker(1).resident_kib();
    let value = "z".repeat(200 * MIB);
    let answer = raw
        .ask(&message::unnamed("select length($1::text)", &[Some(&value)]))
        .expect("the query runs");
    assert_eq!(answer.values(), [(200 * MIB).to_string()]);
    let grown = fleet.worker(1).peak_kib().saturating_sub(before);
    assert!(grown < ROOM, "the worker grew by {grown} KiB");
}

#[test]
fn query_texts_of_16_mb_pass() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let sql = format!("select length('{}')", "q".repeat(16 * MIB));
    assert_eq!(fleet.raw().query(&sql).expect("the query runs").values(), [(16 * MIB).to_string()]);
    let answer = fleet.raw().ask(&message::unnamed(&sql, &[])).expect("the query runs");
    assert_eq!(answer.values(), [(16 * MIB).to_string()]);
}

#[test]
fn sizes_around_every_buffer_edge_pass() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    let edges = [12, 13, 14, 15, 16, 17].map(|bits| 1_usize << bits);
    for size in edges.into_iter().flat_map(|edge| edge - 40..edge + 8) {
        let value = "v".repeat(size);
        let answer =
            raw.ask(&message::unnamed("select $1::text", &[Some(&value)])).expect("the query runs");
        assert!(answer.values() == [value], "{size} bytes came back wrong");
    }
}

#[test]
fn three_thousand_parameters_pass() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let terms: Vec<String> = (1..=3000).map(|number| format!("${number}::int")).collect();
    let sql = format!("select {}", terms.join("+"));
    let answer =
        fleet.raw().ask(&message::unnamed(&sql, &vec![Some("1"); 3000])).expect("the query runs");
    assert_eq!(answer.values(), ["3000"]);
}

#[test]
fn a_client_that_sends_ahead_without_reading_does_not_deadlock() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    let (batches, size) = (600, 100 << 10);
    let batch = message::unnamed("select $1::text", &[Some(&"p".repeat(size))]);
    let mut writer = raw.writer();
    // 60 MB each way: far more than the sockets hold, and nobody reads before all is written.
    let written =
        std::thread::spawn(move || (0..batches).try_for_each(|_| writer.write_all(&batch)));
    let others = fleet.client();
    wait::until_true("the writer is held up or done, and others are served", || {
        others.value("select 1") == "1"
    });
    for number in 0..batches {
        let answer = raw.until(b'Z').expect("each batch is answered");
        assert_eq!(answer.values().first().map(String::len), Some(size), "batch {number}");
    }
    written.join().expect("the writer ends").expect("all could be written");
}

#[test]
fn a_client_that_does_not_read_costs_bounded_memory() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut idle = fleet.raw();
    idle.query("select 1").expect("all is well");
    let before = fleet.worker(1).resident_kib();
    idle.send(&message::query("select repeat('x', 1024) from generate_series(1, 200 << 10)"))
        .expect("the fleet reads");
    let others = fleet.client();
    wait::holds_for(std::time::Duration::from_secs(2), "others are served", || {
        others.value("select 1") == "1"
    });
    let grown = fleet.worker(1).peak_kib().saturating_sub(before);
    assert!(grown < ROOM, "the worker grew by {grown} KiB");
    let rows = idle.until(b'Z').expect("all is there in the end").rows().len();
    assert_eq!(rows, 200 << 10);
}
