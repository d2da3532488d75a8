//! Postgres goes away and comes back: who is told what, who does not notice, and that nobody stampedes.
//! Each test has a cluster of its own, since it stops it.
//! `make test` runs them over a real Postgres.

use std::time::{Duration, Instant};

use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    crowd::{Crowd, Running},
    failure::Failure,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

fn fatal(text: &str) -> Failure {
    Failure::new("FATAL", "08P01", text)
}

const DOWN: &str =
    "server login has been failing, cached error: connect failed (server_login_retry)";

/// A cluster that logs every login.
fn talkative() -> Cluster {
    let cluster = Cluster::start_new();
    let superuser = cluster.superuser();
    superuser.run("alter system set log_connections = on");
    superuser.run("select pg_reload_conf()");
    wait::until_true("logins are logged", || {
        cluster.superuser().value("show log_connections") == "on"
    });
    cluster
}

/// Logins of `app`, that were let in or not.
fn logins(cluster: &Cluster) -> usize {
    cluster.log().matches("connection authorized: user=app").count()
}

#[test]
fn idle_clients_do_not_notice_a_restart_of_postgres() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).start();
    let clients: Vec<Client> = (0..8).map(|_| fleet.client()).collect();
    clients.iter().for_each(|client| client.run("select 1"));
    for _ in 0..2 {
        cluster.restart();
        for client in &clients {
            assert_eq!(client.value("select 2"), "2");
        }
    }
}

#[test]
fn new_queries_fail_at_once_while_postgres_is_down() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).workers(1).set("query_wait_timeout", 2).start();
    let mut clients: Vec<Raw> = (0..3).map(|_| fleet.raw()).collect();
    cluster.stop("fast");
    // The first one finds out, and waits in vain; all others are told what is known.
    let mut first = clients.remove(0);
    assert_eq!(first.query("select 1").expect_err("it waits"), fatal("query_wait_timeout"));
    for raw in &mut clients {
        let start = Instant::now();
        assert_eq!(raw.query("select 1").expect_err("it is down"), fatal(DOWN));
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
    cluster.start();
    served(&fleet, Duration::from_secs(3));
}

#[test]
fn new_clients_get_pgbouncers_texts_while_postgres_is_down() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    cluster.stop("fast");
    let fleet = Fleet::of(&database).workers(1).set("query_wait_timeout", 2).start();
    let first = Raw::login(&fleet.address()).expect_err("there is no server to welcome it");
    assert_eq!(first, fatal("query_wait_timeout"));
    assert_eq!(Raw::login(&fleet.address()).expect_err("that is known by now"), fatal(DOWN));
    cluster.start();
    served(&fleet, Duration::from_secs(3));
}

#[test]
fn a_login_that_waits_for_a_server_falls_under_client_login_timeout() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    cluster.stop("fast");
    let fleet = Fleet::of(&database).workers(1).set("client_login_timeout", 1).start();
    let failure = Raw::login(&fleet.address()).expect_err("there is no server to welcome it");
    assert_eq!(failure, fatal("client_login_timeout (server down)"));
}

/// Somebody new is served within this time.
fn served(fleet: &Fleet, patience: Duration) {
    let address = fleet.address();
    wait::until_within(patience, "a new client is served", || {
        Raw::login(&address).ok()?.query("select 1").ok()?.error().is_none().then_some(())
    });
}

#[test]
fn those_who_wait_through_an_outage_are_served_without_a_stampede() {
    let cluster = talkative();
    let database = cluster.database();
    let fleet = Fleet::of(&database).set("default_pool_size", 4).start();
    let mut holders: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    for raw in &mut holders {
        raw.query("begin").expect("there is a server for each");
    }
    let mut line: Vec<Raw> = (0..40).map(|_| fleet.raw()).collect();
    for raw in &mut line {
        raw.send(&message::query("select 7")).expect("the fleet reads");
    }
    wait::until_true("all stand in line", || fleet.console("show pools").sum("cl_waiting") == 40);
    let before = logins(&cluster);
    cluster.stop("immediate");
    for mut raw in holders {
        assert!(raw.until_closed().is_ok_and(|answer| answer.error().is_some()), "they are told");
    }
    cluster.start();
    let start = Instant::now();
    for raw in &mut line {
        assert_eq!(raw.until(b'Z').expect("whoever waited is served").values(), ["7"]);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let after = logins(&cluster) - before;
    assert!((1..=4).contains(&after), "{after} logins for a pool of 4");
}

/// A client that tries again and again, and gives back when it was first served after `since`.
fn stubborn(fleet: &Fleet) -> Crowd<usize> {
    let address = fleet.address();
    Crowd::start(32, move |_, running: &Running| {
        let mut served = 0;
        while running.goes_on() {
            if Raw::login(&address).and_then(|mut raw| raw.query("select 1")).is_ok() {
                served += 1;
            }
            wait::let_pass(Duration::from_millis(10));
        }
        served
    })
}

#[test]
fn clients_that_retry_do_not_stampede_either() {
    let cluster = talkative();
    let database = cluster.database();
    let fleet = Fleet::of(&database).set("default_pool_size", 6).start();
    let crowd = stubborn(&fleet);
    wait::until_true("they are served", || logins(&cluster) > 0);
    cluster.stop("fast");
    let before = cluster.log().matches("connection received").count();
    wait::let_pass(Duration::from_millis(1500));
    cluster.start();
    served(&fleet, Duration::from_secs(3));
    wait::let_pass(Duration::from_secs(1));
    let received = cluster.log().matches("connection received").count() - before;
    assert!(crowd.stop().into_iter().all(|served| served > 0));
    // Six of the pool, two workers' tries while it was starting up, and pg_ctl's own.
    assert!(received <= 20, "{received} connections after the start");
}

#[test]
fn a_server_that_is_terminated_tells_its_client_and_nobody_else() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut others: Vec<Raw> = (0..3).map(|_| fleet.raw()).collect();
    for raw in &mut others {
        raw.query("begin").expect("there is a server");
    }
    let mut victim = fleet.raw();
    victim.send(&message::query("/* victim */ select pg_sleep(600)")).expect("the fleet reads");
    let direct = database.direct();
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where query like '/* victim%' and state = 'active'";
    wait::until_true("the victim's server is terminated", || {
        direct.rows(kill).is_ok_and(|rows| !rows.is_empty())
    });
    let told = victim.until_closed().expect("its connection closes").error();
    let text = "terminating connection due to administrator command";
    assert_eq!(told, Some(Failure::new("FATAL", "57P01", text)));
    for raw in &mut others {
        assert_eq!(raw.query("select 3").expect("others are unharmed").values(), ["3"]);
        assert_eq!(raw.query("commit").expect("others are unharmed").state(), Some('I'));
    }
}

#[test]
fn an_idle_server_that_is_terminated_is_replaced_in_silence() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let client = fleet.client();
    let pid = client.value("select pg_backend_pid()");
    database.direct().run(&format!("select pg_terminate_backend({pid})"));
    wait::until_true("it is gone", || database.backends() == 0);
    assert_eq!(client.value("select 1"), "1");
    assert_eq!(client.notices(), [""; 0]);
}

#[test]
fn a_crash_of_postgres_tells_those_in_transactions_and_serves_the_others() {
    let cluster = Cluster::start_new();
    let database = cluster.database();
    let fleet = Fleet::of(&database).start();
    let (mut inside, idle) = (fleet.raw(), fleet.client());
    inside.query("begin").expect("there is a server");
    idle.run("select 1");
    cluster.stop("immediate");
    let told = inside.until_closed().expect("its connection closes").error();
    let told = told.expect("it is told");
    assert!(["57P01", "57P02", "08P01"].contains(&told.code.as_str()), "{told}");
    assert_eq!(told.severity, "FATAL");
    cluster.start();
    assert_eq!(idle.value("select 1"), "1");
}
