//! Settings and messages of the protocol that few use: refused simple queries, notices at login, function calls,
//! Flush, and versions that a server does not know.
//! These tests never rely on a driver: they send the bytes themselves.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    raw::{Raw, cancel, message},
    wait,
};

#[test]
fn disable_pqexec_refuses_simple_queries_and_nothing_else() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("disable_pqexec", 1).start();
    let mut extended = fleet.raw();
    let answer = extended.ask(&message::unnamed("select 'extended'", &[]));
    assert_eq!(answer.expect("it runs").values(), ["extended"]);
    let mut simple = fleet.raw();
    let refused = Failure::new("FATAL", "08P01", "PQexec disallowed");
    assert_eq!(simple.query("select 1"), Err(refused.clone()));
    // Also in a transaction that is open: it is rolled back, and its server serves the next one.
    extended.ask(&message::unnamed("begin", &[])).expect("it runs");
    assert_eq!(extended.query("commit"), Err(refused));
    let answer = fleet.raw().ask(&message::unnamed("select 'next'", &[]));
    assert_eq!(answer.expect("it runs").values(), ["next"]);
}

#[test]
fn login_notify_message_is_a_notice_after_the_login() {
    let database = Cluster::shared().database();
    let text = "maintenance at nine; say \"goodbye\" in time";
    let fleet = Fleet::of(&database).set("login_notify_message", text).start();
    for _ in 0..2 {
        let raw = fleet.raw();
        assert_eq!(raw.welcome.notices(), [Failure::new("NOTICE", "00000", text)]);
        assert!(raw.welcome.tags().ends_with("KNZ"), "{}", raw.welcome.tags());
    }
}

#[test]
fn without_login_notify_message_there_is_no_notice() {
    let database = Cluster::shared().database();
    assert_eq!(Fleet::of(&database).start().raw().welcome.notices(), []);
}

#[test]
fn a_server_that_is_asked_for_3_2_and_does_not_know_it_serves_in_3_0() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("server_protocol", "3.2").start();
    let mut raw = fleet.raw();
    raw.send(&message::query("select pg_sleep(30) /* asked for 3.2 */")).expect("it is read");
    let direct = database.direct();
    let sleeping = "select count(*) from pg_stat_activity where datname = current_database() \
                    and wait_event = 'PgSleep'";
    wait::until_true("it sleeps", || direct.value(sleeping) == "1");
    cancel(&fleet.address(), &raw.key).expect("the cancel is accepted");
    assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
}

/// FunctionCall with text arguments and a text result.
fn call(oid: u32, arguments: &[&str]) -> Vec<u8> {
    let count = u16::try_from(arguments.len()).expect("few");
    let mut body = [&oid.to_be_bytes()[..], &[0, 0], &count.to_be_bytes()].concat();
    for argument in arguments {
        body.extend(u32::try_from(argument.len()).expect("short").to_be_bytes());
        body.extend(argument.as_bytes());
    }
    body.extend([0, 0]);
    message::framed(b'F', &body)
}

fn oid(raw: &mut Raw, function: &str) -> u32 {
    let sql = format!("select '{function}'::regprocedure::oid");
    raw.query(&sql).expect("it runs").values().concat().parse().expect("an oid is a number")
}

#[test]
fn a_function_call_is_a_request_like_another() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).start();
    let (mut raw, mut other) = (fleet.raw(), fleet.raw());
    let plus = oid(&mut raw, "int4pl(int4,int4)");
    let answer = raw.ask(&call(plus, &["40", "2"])).expect("it runs");
    assert_eq!(answer.course(), "VZ");
    assert_eq!(answer.first(b'V').map(|it| it.body.clone()), Some(b"\0\0\0\x0242".to_vec()));
    assert_eq!(other.query("select 1").expect("the server was given back").values(), ["1"]);
    let failed = raw.ask(&call(plus, &["x", "2"])).expect("an error is an answer");
    assert_eq!((failed.code().as_str(), failed.course().as_str()), ("22P02", "EZ"));
    // In a transaction it keeps its server.
    raw.query("begin").expect("it runs");
    let inside = raw.ask(&call(plus, &["1", "2"])).expect("it runs");
    assert_eq!(inside.state(), Some('T'));
    raw.query("commit").expect("it runs");
}

#[test]
fn a_function_call_streams_a_large_value() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 1).start();
    let mut raw = fleet.raw();
    let repeat = oid(&mut raw, "repeat(text,int4)");
    let answer = raw.ask(&call(repeat, &["0123456789", "1000000"])).expect("it runs");
    let value = answer.first(b'V').expect("a value comes").body.clone().split_off(4);
    assert!(value == "0123456789".repeat(1_000_000).into_bytes());
}

#[test]
fn a_portal_lives_from_flush_to_flush_until_its_sync() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("default_pool_size", 2).start();
    let (mut raw, mut other) = (fleet.raw(), fleet.raw());
    let sql = "select n from generate_series(1, 5) n";
    let open = [message::parse("", sql), message::bind("p", "", &[]), message::flush()].concat();
    raw.send(&open).expect("the fleet reads");
    assert_eq!(raw.until(b'2').expect("the portal is open").course(), "12");
    for rows in [vec!["1", "2"], vec!["3", "4"]] {
        assert_eq!(other.query("select 'other'").expect("it runs").values(), ["other"]);
        raw.send(&[message::execute("p", 2), message::flush()].concat()).expect("it is read");
        assert_eq!(raw.until(b's').expect("there is more").values(), rows);
    }
    let answer = raw.ask(&[message::execute("p", 2), message::sync()].concat());
    let answer = answer.expect("the rest comes");
    assert_eq!((answer.values(), answer.course()), (vec!["5".to_owned()], "DCZ".to_owned()));
    let gone = raw.ask(&[message::execute("p", 2), message::sync()].concat());
    assert_eq!(gone.expect("an error is an answer").code(), "34000", "its portal ended at Sync");
}
