//! What happens when someone takes too long, and when Postgres is away.
//! These tests never measure how exact a timeout is, only that it comes, with PgBouncer's text, and not early.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

fn fatal(text: &str) -> Option<Failure> {
    Some(Failure::new("FATAL", "08P01", text))
}

/// Reads until the connection is closed, which must not be early.
fn end_of(raw: &mut Raw, not_before: Duration) -> Option<Failure> {
    let start = Instant::now();
    let answer = raw.until_closed().expect("the connection closes");
    assert!(start.elapsed() >= not_before, "closed after {:?}", start.elapsed());
    answer.error()
}

#[test]
fn a_client_does_not_wait_longer_than_query_wait_timeout() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("default_pool_size", 1)
        .set("query_wait_timeout", 1)
        .start();
    let mut holder = fleet.raw();
    holder.query("begin").expect("begin runs");
    let mut raw = fleet.raw();
    raw.send(&message::query("select 1")).expect("the fleet reads");
    assert_eq!(end_of(&mut raw, Duration::from_millis(900)), fatal("query_wait_timeout"));
    assert_eq!(holder.query("commit").expect("the holder goes on").state(), Some('I'));
}

#[test]
fn an_idle_transaction_is_ended() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("idle_transaction_timeout", 1).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("begin runs");
    assert_eq!(end_of(&mut raw, Duration::from_millis(900)), fatal("idle transaction timeout"));
    wait::until_true("its server is gone", || database.backends() == 0);
}

#[test]
fn a_batch_without_sync_counts_as_an_idle_transaction() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("idle_transaction_timeout", 1).start();
    let mut raw = fleet.raw();
    let batch = [
        message::parse("", "select 1"),
        message::bind("", "", &[]),
        message::execute("", 0),
        message::flush(),
    ];
    raw.send(&batch.concat()).expect("the fleet reads");
    raw.until(b'C').expect("it is executed");
    assert_eq!(end_of(&mut raw, Duration::from_millis(500)), fatal("idle transaction timeout"));
}

#[test]
fn a_busy_transaction_is_not_idle() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("idle_transaction_timeout", 1).start();
    let mut raw = fleet.raw();
    raw.query("begin").expect("begin runs");
    assert_eq!(
        raw.query("select 'slow' from pg_sleep(2.5)").expect("it runs to its end").values(),
        ["slow"]
    );
    assert_eq!(raw.query("commit").expect("commit runs").state(), Some('I'));
}

#[test]
fn a_query_may_not_take_longer_than_query_timeout() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("query_timeout", 1).start();
    let mut raw = fleet.raw();
    raw.send(&message::query("select pg_sleep(30)")).expect("the fleet reads");
    assert_eq!(end_of(&mut raw, Duration::from_millis(900)), fatal("query timeout"));
    wait::until_true("Postgres has stopped it too", || database.backends() == 0);
}

#[test]
fn a_client_may_not_be_idle_longer_than_client_idle_timeout() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("client_idle_timeout", 1).start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("all is well");
    assert_eq!(end_of(&mut raw, Duration::from_millis(900)), fatal("client_idle_timeout"));
}

#[test]
fn timeouts_of_a_user_beat_the_global_ones() {
    let database = Cluster::shared().database();
    let fleet =
        Fleet::of(&database).set("query_timeout", 60).user("raw", "query_timeout=1").start();
    let mut raw = Raw::login(&fleet.address().as_user("raw", "")).expect("raw gets in");
    raw.send(&message::query("select pg_sleep(30)")).expect("the fleet reads");
    assert_eq!(end_of(&mut raw, Duration::from_millis(900)), fatal("query timeout"));
}

#[test]
fn an_idle_server_is_closed() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("server_idle_timeout", 1).start();
    let client = fleet.client();
    client.run("select 1");
    wait::until_true("no server is left", || database.backends() == 0);
    assert_eq!(client.value("select 2"), "2");
}

#[test]
fn an_old_server_is_replaced() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_lifetime", 1).start();
    let client = fleet.client();
    let old = client.value("select pg_backend_pid()");
    wait::until_true("another server answers", || client.value("select pg_backend_pid()") != old);
}

#[test]
fn an_old_server_is_never_taken_out_of_a_transaction() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).set("server_lifetime", 1).start();
    let client = fleet.client();
    client.run("begin");
    let pid = client.value("select pg_backend_pid()");
    wait::holds_for(Duration::from_secs(3), "the transaction keeps its server", || {
        client.value("select pg_backend_pid()") == pid
    });
    client.run("commit");
}

#[test]
fn a_client_waits_while_postgres_is_away_and_is_served_when_it_is_back() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).workers(1).set("query_wait_timeout", 60).start();
    let client = fleet.client();
    client.run("select 1");
    cluster.stop("immediate");
    wait::until_true("the fleet has seen its server go", || {
        fleet.console("show servers").is_empty()
    });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.rows("select 1"));
        wait::until_true("the client waits", || fleet.console("show pools").sum("cl_waiting") == 1);
        // As with PgBouncer, whoever comes after the failure is known is told at once.
        wait::until_true("others are told why", || {
            let told = Client::connect(&fleet.address()).and_then(|other| other.rows("select 1"));
            told.is_err_and(|failure| {
                failure.message.starts_with("server login has been failing, cached error: ")
            })
        });
        cluster.start();
        let answer = waiting.join().expect("the thread ends");
        assert_eq!(answer, Ok(vec![vec![Some("1".to_owned())]]));
    });
}

#[test]
fn clients_get_pgbouncers_error_when_postgres_stays_away() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).set("query_wait_timeout", 2).start();
    let mut known = fleet.raw();
    known.query("select 1").expect("all is well");
    cluster.stop("immediate");
    known.send(&message::query("select 1")).expect("the fleet reads");
    let answer = known.until_closed().expect("the connection closes");
    let failure = answer.error().expect("it says why");
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("FATAL", "08P01"));
    let failure = Client::connect(&fleet.address())
        .and_then(|client| client.rows("select 1"))
        .expect_err("Postgres is away");
    let texts = [
        "query_wait_timeout",
        "server login has been failing, cached error: ",
        "server conn crashed?",
    ];
    assert!(texts.iter().any(|text| failure.message.starts_with(text)), "{failure}");
    cluster.start();
    wait::until_true("clients are served again", || {
        Client::connect(&fleet.address()).is_ok_and(|client| client.rows("select 1").is_ok())
    });
}

#[test]
fn a_database_that_is_away_does_not_disturb_the_others() {
    let (cluster, away) = (Cluster::shared(), Cluster::start_new());
    let database = cluster.database();
    let entry = format!("host=127.0.0.1 port={} dbname=postgres", away.port());
    let fleet = Fleet::of(&database).database("away", &entry).set("query_wait_timeout", 3).start();
    away.stop("immediate");
    let address = fleet.address().in_database("away");
    let waiting = std::thread::spawn(move || {
        Client::connect(&address).and_then(|client| client.rows("select 1")).is_err()
    });
    let client = fleet.client();
    wait::holds_for(Duration::from_secs(2), "others are served", || {
        client.value("select 1") == "1"
    });
    assert!(waiting.join().expect("the thread ends"));
}
