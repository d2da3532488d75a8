//! What happens to the workers does not show at the clients: crashes, hangs, scaling, rolling restarts.
//! These tests never stop the load before they act, since it is the load that must not notice.
//! `make test` runs them over a real Postgres.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    client::Client,
    cluster::{Cluster, Database},
    crowd::{Crowd, Tally, churn},
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

/// Pids of the workers that have clients now.
fn in_use(fleet: &Fleet) -> HashSet<i64> {
    fleet.serving().iter().filter(|worker| worker.clients > 0).map(|worker| worker.slot).collect()
}

/// The most and the fewest clients that a worker has.
fn spread(fleet: &Fleet) -> (i64, i64) {
    let clients: Vec<i64> = fleet.serving().iter().map(|worker| worker.clients).collect();
    (clients.iter().copied().max().unwrap_or(0), clients.iter().copied().min().unwrap_or(0))
}

#[test]
fn few_clients_are_dealt_evenly() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    for address in [fleet.address(), fleet.unix_address()] {
        let clients: Vec<Raw> =
            (0..8).map(|_| Raw::login(&address).expect("the fleet lets app in")).collect();
        let (most, fewest) = spread(&fleet);
        assert!(most - fewest <= 1, "{} clients are dealt from {fewest} to {most}", clients.len());
        drop(clients);
        wait::until_true("all have left", || spread(&fleet).0 == 0);
    }
}

#[test]
fn the_unix_socket_reaches_all_workers() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let _clients: Vec<Raw> =
        (0..4).map(|_| Raw::login(&fleet.unix_address()).expect("the fleet lets app in")).collect();
    assert_eq!(in_use(&fleet).len(), 4);
}

#[test]
fn a_killed_worker_takes_only_its_own_clients() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..16).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        raw.query("begin").expect("begin runs");
    }
    let lost = fleet.serving().iter().find(|worker| worker.slot == 2).expect("it serves").clients;
    let killed = fleet.kill_worker(2);
    let failed = clients.iter_mut().filter_map(|raw| raw.query("select 1").err()).count();
    assert_eq!(i64::try_from(failed), Ok(lost));
    assert!((3..=5).contains(&lost), "one worker of four had {lost} of 16 clients");
    fleet.wait_for_successor(killed);
}

#[test]
fn a_killed_worker_loses_no_queued_connection() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    for slot in [1, 2, 1] {
        let victim = fleet.worker(slot);
        // Nobody accepts in its place yet: what comes now stays in its queue.
        victim.signal(Signal::SIGSTOP);
        let startup = message::startup(&[("user", "app"), ("database", database.name())]);
        let mut queued: Vec<Raw> =
            (0..20).map(|_| Raw::open(&fleet.address()).expect("the kernel accepts")).collect();
        for raw in &mut queued {
            raw.send(&startup).expect("the kernel takes it");
        }
        victim.signal(Signal::SIGKILL);
        for (number, raw) in queued.iter_mut().enumerate() {
            assert!(raw.until(b'Z').is_ok(), "connection {number} of 20 was lost");
        }
        fleet.wait_for_successor(victim);
    }
}

#[test]
fn a_crash_under_load_is_seen_by_its_clients_alone() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let (load, mut lost) = (churn(6, &fleet.address()), 0);
    for round in 0..4 {
        wait::let_pass(Duration::from_millis(400));
        let killed = fleet.kill_worker(round % 4 + 1);
        lost += 6;
        fleet.wait_for_successor(killed);
    }
    let tally = Tally::of(load.stop());
    assert!(tally.served > 100, "{tally:?}");
    // Never more than those that were being served at that moment, and none is refused.
    assert!(tally.errors.len() <= lost, "{:?}", tally.errors);
    assert!(tally.errors.iter().all(|error| !error.contains("refused")), "{:?}", tally.errors);
    assert!(tally.slowest < Duration::from_secs(5), "{:?}", tally.slowest);
}

#[test]
fn a_hung_worker_is_replaced_and_no_connect_hangs() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).set("heartbeat_timeout", 3).start();
    let hung = fleet.worker(2);
    hung.signal(Signal::SIGSTOP);
    let start = Instant::now();
    let load = churn(8, &fleet.address());
    wait::until_true("it is replaced", || !hung.is_alive());
    assert!(start.elapsed() < Duration::from_secs(12), "replaced after {:?}", start.elapsed());
    fleet.wait_for_successor(hung);
    let tally = Tally::of(load.stop());
    assert!(tally.slowest < Duration::from_secs(12), "{:?}", tally.slowest);
    assert_eq!(tally.errors, Vec::<String>::new());
}

#[test]
fn scaling_up_and_down_loses_no_connection() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("default_pool_size", 24).start();
    let load = churn(12, &fleet.address());
    for count in [8, 3, 8, 1, 2] {
        wait::let_pass(Duration::from_millis(500));
        fleet.scale(count);
    }
    let tally = Tally::of(load.stop());
    assert_eq!(tally.errors, Vec::<String>::new(), "after {} good ones", tally.served);
    assert!(tally.served > 200, "only {} were served", tally.served);
    fleet.wait_for_workers(2);
}

#[test]
fn scaling_down_waits_for_the_clients_that_are_there() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    fleet.scale(1);
    for raw in &mut clients {
        assert_eq!(raw.query("select 1").expect("it is still served").values(), ["1"]);
    }
    assert!(fleet.workers().iter().any(|worker| worker.state != "serving"), "some are draining");
    drop(clients);
    fleet.wait_for_workers(1);
}

#[test]
fn scaling_up_while_draining_uses_the_drainers_again() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    let before: HashSet<_> = fleet.workers().iter().map(|worker| worker.process).collect();
    fleet.scale(1);
    fleet.scale(4);
    fleet.wait_for_workers(4);
    let after: HashSet<_> = fleet.workers().iter().map(|worker| worker.process).collect();
    assert_eq!(before, after);
    assert!(clients.iter_mut().all(|raw| raw.query("select 1").is_ok()));
}

/// Clients that go on with short transactions: what was broken inside of one, and what else they were told.
fn transactions(fleet: &Fleet, count: usize) -> Crowd<Vec<String>> {
    let address = fleet.address();
    Crowd::start(count, move |_, running| {
        let mut broken = Vec::new();
        while running.goes_on() {
            let mut raw = match Raw::login(&address) {
                Ok(raw) => raw,
                Err(failure) => {
                    broken.push(format!("connect: {failure}"));
                    continue;
                }
            };
            while running.goes_on() {
                match raw.query("begin") {
                    Err(failure) if failure.code == "57P01" => break,
                    Err(failure) => {
                        broken.push(format!("between: {failure}"));
                        break;
                    }
                    Ok(_) => {}
                }
                if let Err(failure) =
                    raw.query("select pg_sleep(0.01)").and_then(|_| raw.query("commit"))
                {
                    broken.push(format!("inside: {failure}"));
                    break;
                }
            }
        }
        broken
    })
}

#[test]
fn a_rolling_restart_breaks_no_transaction_and_no_connect() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    let before: HashSet<_> = fleet.workers().iter().map(|worker| worker.process).collect();
    let (load, comers) = (transactions(&fleet, 12), churn(4, &fleet.address()));
    wait::let_pass(Duration::from_millis(500));
    fleet.restart();
    wait::let_pass(Duration::from_millis(300));
    assert_eq!(load.stop().concat(), Vec::<String>::new());
    assert_eq!(Tally::of(comers.stop()).errors, Vec::<String>::new());
    fleet.wait_for_workers(3);
    assert!(
        fleet.workers().iter().all(|worker| !before.contains(&worker.process)),
        "all were replaced"
    );
}

#[test]
fn a_restart_waits_for_a_long_transaction_until_drain_timeout() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("drain_timeout", 3).start();
    let (mut finishing, mut endless) = (fleet.raw(), fleet.raw());
    finishing.query("begin").expect("begin runs");
    endless.query("begin").expect("begin runs");
    let start = Instant::now();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| fleet.restart());
        wait::let_pass(Duration::from_secs(1));
        assert_eq!(finishing.query("commit").expect("it can finish").state(), Some('I'));
        restart.join().expect("the restart ends");
    });
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(endless.query("select 1").is_err(), "the endless one was cut off");
    fleet.wait_for_workers(2);
}

#[test]
fn a_crash_loop_is_recognised_and_does_not_take_the_others_down() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    let witness: Vec<Client> = (0..3).map(|_| fleet.client()).collect();
    let is_looping = || {
        fleet
            .console("show fleet")
            .find("key", "crash_looping")
            .expect("it is there")
            .number("value")
            == 1
    };
    let deadline = Instant::now() + Duration::from_secs(40);
    let found = wait::before(deadline, || {
        if let Some(worker) = fleet.serving().iter().find(|worker| worker.slot == 2) {
            worker.process.signal(Signal::SIGKILL);
        }
        is_looping().then_some(())
    });
    assert!(found.is_some(), "five deaths in a row are a crash loop: {:?}", fleet.workers());
    assert!(fleet.log().contains("crash loop"), "the log says so");
    let served = witness.iter().filter(|client| client.rows("select 1").is_ok()).count();
    assert_eq!(served, 2, "only the clients of the dead worker are gone");
    let status = fleet.command(&["status"]);
    assert_eq!(status.status, Some(1), "a degraded fleet is not well: {}", status.out);
    wait::until_true("it is tried again and gets well", || fleet.serving().len() == 3);
}

#[test]
fn every_worker_obeys_only_the_link() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let before = fleet.serving();
    for worker in &before {
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            worker.process.signal(signal);
        }
    }
    wait::holds_for(Duration::from_secs(1), "the workers stay", || {
        fleet.client().value("select 1") == "1"
    });
    let pids = |workers: &[pgfleet_harness::fleet::Worker]| {
        workers.iter().map(|worker| worker.process).collect::<Vec<_>>()
    };
    assert_eq!(pids(&fleet.serving()), pids(&before));
}

#[test]
fn workers_that_lose_their_supervisor_finish_their_clients_and_go() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("drain_timeout", 20).start();
    let mut clients: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    let workers: Vec<_> = fleet.serving().iter().map(|worker| worker.process).collect();
    fleet.supervisor().expect("it runs").signal(Signal::SIGKILL);
    for raw in &mut clients {
        assert_eq!(raw.query("select 1").expect("it is still served").values(), ["1"]);
    }
    drop(clients);
    wait::until_true("the workers go when their clients have", || {
        workers.iter().all(|worker| !worker.is_alive())
    });
}

#[test]
fn the_daemon_runs_as_an_unprivileged_user() {
    let database: Database<'_> = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    assert!(fleet.processes().len() >= 3);
    assert!(fleet.processes().iter().all(|process| process.uid().is_some_and(|uid| uid != 0)));
}
