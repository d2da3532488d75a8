//! What happens at the edges of a message, a batch or a buffer: cut off there, skipped there, blocked there.
//! Each of these once went wrong; the pool of one server makes a fault a certainty.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

fn narrow(database: &Database<'_>) -> Fleet {
    Fleet::of(database).workers(1).set("default_pool_size", 1).start()
}

/// An unnamed statement is run without being parsed again.
fn use_unnamed() -> Vec<u8> {
    [message::bind("", "", &[]), message::execute("", 0), message::sync()].concat()
}

/// A batch in which something fails before the unnamed statement is used.
fn fail_before_use() -> Vec<u8> {
    [message::describe_portal("nope"), use_unnamed()].concat()
}

fn parse(sql: &str) -> Vec<u8> {
    [message::parse("", sql), message::sync()].concat()
}

#[test]
fn an_unnamed_statement_whose_replay_was_skipped_is_replayed_again() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let (mut one, mut two) = (fleet.raw(), fleet.raw());
    one.ask(&parse("select 'mine'")).expect("it is parsed");
    let secret = [message::parse("", "select 'secret of another'"), use_unnamed()].concat();
    for pipelined in [false, true] {
        two.ask(&secret).expect("it runs");
        let answer = if pipelined {
            one.send(&[fail_before_use(), use_unnamed()].concat()).expect("it is sent");
            one.until(b'Z').expect("the first batch fails");
            one.until(b'Z').expect("the second runs")
        } else {
            one.ask(&fail_before_use()).expect("it fails");
            one.ask(&use_unnamed()).expect("it runs")
        };
        assert_eq!(answer.values(), ["mine"], "pipelined: {pipelined}");
    }
}

#[test]
fn a_client_without_a_statement_gets_none_also_after_a_failed_batch() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let (mut one, mut two) = (fleet.raw(), fleet.raw());
    two.ask(&[message::parse("", "select 'secret'"), use_unnamed()].concat()).expect("it runs");
    one.ask(&fail_before_use()).expect("it fails");
    assert_eq!(one.ask(&use_unnamed()).expect("it is answered").code(), "26000");
}

#[test]
fn a_server_whose_last_client_reads_slowly_serves_the_next_one() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    for size in [3_000_000, 3_900_000, 3_910_000, 5_000_000] {
        let mut slow = fleet.raw();
        slow.send(&message::query(&format!("select repeat('x', {size})"))).expect("it is sent");
        let mut next = fleet.raw();
        next.send(&message::query("select 1")).expect("it is sent");
        slow.until(b'Z').expect("the slow one gets it all");
        assert_eq!(next.until(b'Z').expect("the next one is served").values(), ["1"], "{size}");
    }
}

#[test]
fn a_large_startup_packet_and_a_long_console_statement_are_read_to_their_end() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    for size in [1_000, 1_100, 4_096, 8_000] {
        let name = "n".repeat(size);
        let raw = Raw::login_with(&fleet.address(), &[("application_name", &name)]);
        assert!(raw.is_ok(), "{size} bytes");
    }
    let long = format!("show {}", "x".repeat(10_000));
    let refused = fleet.try_console(&long).expect_err("there is no such table");
    assert!(refused.message.contains("use SHOW HELP"), "{}", refused.message);
}

#[test]
fn a_half_sent_statement_is_never_completed_by_the_pooler() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let direct = database.direct();
    direct.run("create table half(a int); grant all on half to public");
    let text = format!("insert into half values (1) --{}", "p".repeat(20_000));
    let whole = message::query(&text);
    for _ in 0..5 {
        let mut raw = fleet.raw();
        raw.send(&whole[..whole.len() - 2]).expect("it is sent");
        wait::until_true("it has a server", || fleet.console("show pools").sum("sv_active") == 1);
        drop(raw);
        wait::until_true("its server is gone", || {
            fleet.console("show pools").sum("sv_active") == 0
        });
    }
    assert_eq!(fleet.client().value("select 1"), "1");
    assert_eq!(direct.value("select count(*) from half"), "0");
}

#[test]
fn a_lease_ends_when_the_rest_of_a_late_message_has_come() {
    let database = Cluster::shared().database();
    let fleet = narrow(&database);
    let mut one = fleet.raw();
    let late = message::copy_data(&vec![b'x'; 1_000]);
    one.send(&[message::query("copy nosuch from stdin"), late[..500].to_vec()].concat())
        .expect("it is sent");
    assert_eq!(one.until(b'Z').expect("it fails").code(), "42P01");
    one.send(&late[500..]).expect("it is sent");
    let mut next = fleet.raw();
    assert_eq!(next.query("select 1").expect("the next one is served").values(), ["1"]);
}

#[test]
fn statements_that_the_server_skips_cost_no_memory() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    raw.send(&[message::parse("", "nonsense"), message::flush()].concat()).expect("it is sent");
    raw.until(b'E').expect("it fails");
    let skipped = message::parse("", &"s".repeat(15_000)).repeat(64);
    for _ in 0..100 {
        raw.send(&skipped).expect("it is sent");
    }
    raw.ask(&message::sync()).expect("it is answered");
    let peak = fleet.worker(1).peak_kib();
    assert!(peak < 40_000, "the worker grew to {peak} KiB");
}

#[test]
fn a_server_that_cannot_be_reached_and_no_retry_time_do_not_stop_the_others() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("server_login_retry", 0)
        .set("query_wait_timeout", 2)
        .database("nowhere", "host=/nonexistent port=1")
        .start();
    let mut good = fleet.raw();
    let refused = Raw::login(&fleet.address().in_database("nowhere")).expect_err("it is refused");
    assert_eq!(refused.code, "08P01");
    assert_eq!(good.query("select 1").expect("it is served").values(), ["1"]);
}
