//! PAUSE, SUSPEND and SHUTDOWN: whoever is at work finishes, whoever comes waits, and nobody gets an error for it.
//! These tests never look at what else the console does; `console` and `commands` do.
//! `make test` runs them over a real Postgres.

use std::{
    thread::{self, Scope, ScopedJoinHandle},
    time::Duration,
};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    crowd::Crowd,
    failure::Failure,
    fleet::{Fleet, setup},
    raw::{Raw, cancel, message},
    table::Table,
    wait,
};

/// Long enough for an answer that should not come to come.
const MOMENT: Duration = Duration::from_millis(600);

fn refused(fleet: &Fleet, command: &str) -> String {
    fleet.try_console(command).expect_err("it is refused").message
}

fn state(fleet: &Fleet, key: &str) -> String {
    fleet.console("show state").find("key", key).expect("it is there").text("value").to_owned()
}

/// A command that does not return at once.
fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    fleet: &'scope Fleet,
    command: &'scope str,
) -> ScopedJoinHandle<'scope, Result<Table, Failure>> {
    let waiting = scope.spawn(move || fleet.try_console(command));
    wait::holds_for(MOMENT, "the command waits", || !waiting.is_finished());
    waiting
}

fn done(command: ScopedJoinHandle<'_, Result<Table, Failure>>) {
    command.join().expect("no panic").expect("it is done");
}

/// Clients that come and ask at once, without waiting for their welcome.
fn comers(fleet: &Fleet, count: usize) -> Vec<Raw> {
    let address = fleet.address();
    let startup = message::startup(&[("user", "app"), ("database", &address.database)]);
    let bytes = [startup, message::query("select 7")].concat();
    let comer = |_| {
        let mut raw = Raw::open(&address).expect("it connects");
        raw.send(&bytes).expect("it is read");
        raw
    };
    (0..count).map(comer).collect()
}

/// None of them has been answered.
fn are_held(clients: &mut [Raw]) {
    wait::let_pass(MOMENT);
    for raw in clients {
        raw.set_patience(Duration::from_millis(5));
        let failure = raw.until(b'C').expect_err("it waits");
        assert!(failure.is_silent() && !failure.message.contains("eof"), "{failure}");
    }
}

/// All of them are answered now.
fn are_served(clients: &mut [Raw]) {
    for raw in clients {
        raw.set_patience(wait::PATIENCE);
        assert_eq!(raw.until(b'C').expect("it is served").values(), ["7"]);
    }
}

fn transactions(fleet: &Fleet, count: usize) -> Vec<Raw> {
    let begun = |_| {
        let mut raw = fleet.raw();
        raw.query("begin").expect("it runs");
        raw
    };
    (0..count).map(begun).collect()
}

fn commit(clients: &mut [Raw]) {
    for raw in clients {
        assert_eq!(raw.query("select 1").expect("a transaction goes on").values(), ["1"]);
        assert_eq!(raw.query("commit").expect("a transaction ends").state(), Some('I'));
    }
}

fn pause_finishes_transactions_and_holds_new_ones(workers: u32) {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(workers).start();
    let mut busy = transactions(&fleet, 6);
    let mut late = thread::scope(|scope| {
        let paused = begin(scope, &fleet, "pause");
        let mut late = comers(&fleet, 6);
        are_held(&mut late);
        commit(&mut busy);
        done(paused);
        late
    });
    assert_eq!(database.backends(), 0, "PAUSE returns when all servers are gone");
    let states = ["active", "paused", "suspended"].map(|key| state(&fleet, key));
    assert_eq!(states, ["no", "yes", "no"]);
    are_held(&mut late);
    fleet.console("resume");
    are_served(&mut late);
    assert_eq!(state(&fleet, "active"), "yes");
}

#[test]
fn with_one_worker_pause_finishes_transactions_and_holds_new_ones() {
    pause_finishes_transactions_and_holds_new_ones(1);
}

#[test]
fn with_four_workers_pause_finishes_transactions_and_holds_new_ones() {
    pause_finishes_transactions_and_holds_new_ones(4);
}

#[test]
fn a_paused_database_holds_nobody_else_up() {
    let cluster = Cluster::shared();
    let (one, two) = (cluster.database(), cluster.database());
    let entry = setup::entry(cluster, two.name());
    let fleet = Fleet::of(&one).database(two.name(), &entry).workers(2).start();
    let other = fleet.address().in_database(two.name());
    fleet.console(&format!("pause {}", one.name()));
    let mut late = comers(&fleet, 3);
    are_held(&mut late);
    for _ in 0..4 {
        let client = Client::connect(&other).expect("it is let in");
        assert_eq!(client.value("select current_database()"), two.name());
    }
    let shown = fleet.console("show databases");
    let paused = |name| shown.find("name", name).expect("it is there").number("paused");
    assert_eq!((paused(one.name()), paused(two.name())), (1, 0));
    assert_eq!(state(&fleet, "paused"), "no");
    fleet.console(&format!("RESUME \"{}\";", one.name()));
    are_served(&mut late);
}

#[test]
fn a_session_is_waited_for() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("pool_mode", "session").start();
    let mut raw = fleet.raw();
    raw.query("select 1").expect("it runs");
    thread::scope(|scope| {
        let paused = begin(scope, &fleet, "pause");
        assert!(raw.query("select 2").is_ok(), "a session goes on");
        raw.leave();
        done(paused);
    });
    assert_eq!(database.backends(), 0);
}

#[test]
fn a_cancel_passes_a_pause() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut raw = fleet.raw();
    raw.send(&message::query("select pg_sleep(60)")).expect("it is read");
    thread::scope(|scope| {
        let paused = begin(scope, &fleet, "pause");
        cancel(&fleet.address(), &raw.key).expect("the connection closes");
        assert_eq!(raw.until(b'Z').expect("the query ends").code(), "57014");
        done(paused);
    });
}

#[test]
fn a_database_is_moved_under_load_without_one_error() {
    let cluster = Cluster::shared();
    let (old, new) = (cluster.database(), cluster.database());
    let mut fleet = Fleet::of(&old).workers(3).start();
    let address = fleet.address();
    let crowd = Crowd::start(9, move |_, running| {
        let client = Client::connect(&address).expect("it is let in");
        let mut places: Vec<String> = Vec::new();
        while running.goes_on() {
            places.push(client.value("select current_database()"));
        }
        places
    });
    wait::let_pass(MOMENT);
    fleet.console("pause");
    assert_eq!(old.backends(), 0);
    let entry = setup::entry(cluster, new.name());
    fleet.rewrite(|setup| setup.database(old.name(), &entry));
    fleet.console("reload");
    fleet.console("resume");
    wait::let_pass(MOMENT);
    for mut places in crowd.stop() {
        assert!(places.len() > 10, "{} queries", places.len());
        places.dedup();
        assert_eq!(places, [old.name(), new.name()], "each moved once");
    }
}

#[test]
fn a_worker_that_dies_does_not_end_a_pause() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut clients = transactions(&fleet, 4);
    thread::scope(|scope| {
        let paused = begin(scope, &fleet, "pause");
        let killed = fleet.kill_worker(1);
        fleet.wait_for_successor(killed);
        let left = clients.iter_mut().filter_map(|raw| raw.query("commit").ok()).count();
        assert_eq!(left, 2, "the clients of the other worker stay");
        done(paused);
    });
    assert_eq!(database.backends(), 0);
    let mut late = comers(&fleet, 6);
    are_held(&mut late);
    fleet.console("resume");
    are_served(&mut late);
}

#[test]
fn workers_that_are_born_later_keep_to_a_pause() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    fleet.console("pause");
    fleet.scale(4);
    let mut late = comers(&fleet, 12);
    are_held(&mut late);
    assert_eq!(database.backends(), 0);
    fleet.console("resume");
    are_served(&mut late);
}

#[test]
fn what_cannot_be_switched_is_refused_in_pgbouncers_words() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let unpaused = format!("resume {}", database.name());
    let not_paused = format!("database {} is not paused", database.name());
    for (command, expected) in [
        ("resume", "pooler is not paused/suspended"),
        ("pause nope", "no such database: nope"),
        ("pause pgbouncer", "cannot pause admin db: pgbouncer"),
        (&unpaused, &not_paused),
    ] {
        let failure = fleet.try_console(command).expect_err("it is refused");
        assert_eq!(failure, Failure::new("ERROR", "08P01", expected), "{command}");
    }
    fleet.console("pause");
    for command in ["pause", "suspend", "kill"] {
        assert_eq!(refused(&fleet, command), "already suspended/paused", "{command}");
    }
}

#[test]
fn a_pause_that_is_resumed_early_says_so() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut busy = transactions(&fleet, 2);
    thread::scope(|scope| {
        let paused = begin(scope, &fleet, "pause");
        fleet.console("resume");
        let failure = paused.join().expect("no panic").expect_err("it did not come to its end");
        assert_eq!(failure.message, "PAUSE was ended by another command before it was done");
    });
    commit(&mut busy);
}

#[test]
fn signals_pause_and_resume() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let supervisor = fleet.supervisor().expect("it runs");
    supervisor.signal(Signal::SIGUSR1);
    wait::until_true("USR1 pauses", || state(&fleet, "paused") == "yes");
    let mut late = comers(&fleet, 4);
    are_held(&mut late);
    supervisor.signal(Signal::SIGUSR1);
    wait::until_true("it says so", || {
        fleet.log().contains("got SIGUSR1, but already suspended/paused")
    });
    supervisor.signal(Signal::SIGUSR2);
    are_served(&mut late);
    supervisor.signal(Signal::SIGUSR2);
    wait::until_true("it says so", || {
        fleet.log().contains("got SIGUSR2, but not paused/suspended")
    });
}

#[test]
fn suspend_stops_all_and_resume_goes_on() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut busy = transactions(&fleet, 4);
    let address = fleet.address().in_database("pgbouncer").as_user("admin", "adm1n");
    let mut console = Raw::login(&address).expect("admin gets in");
    assert_eq!(console.query("suspend").expect("it is answered").commands(), ["SUSPEND"]);
    assert_eq!(state(&fleet, "suspended"), "yes");
    let mut late = comers(&fleet, 4);
    are_held(&mut late);
    busy.iter_mut().for_each(|raw| raw.send(&message::query("select 7")).expect("it is read"));
    are_held(&mut busy);
    assert_eq!(console.query("resume").expect("a client says so").commands(), ["RESUME"]);
    are_served(&mut late);
    are_served(&mut busy);
}

#[test]
fn suspend_does_not_wait_for_ever_for_those_who_do_not_read() {
    let database = Cluster::shared().database();
    let fleet =
        Fleet::of(&database).set("suspend_timeout", 1).set("tcp_socket_buffer", 4096).start();
    let flood = message::query("select repeat('x', 1000) from generate_series(1, 60000)");
    // The kernel takes the rest of some after all.
    let mut lazy: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    lazy.iter_mut().for_each(|raw| raw.send(&flood).expect("it is read"));
    let unsent = || fleet.console("show sockets").sum("send_remain");
    wait::until_true("the kernel takes no more", || {
        let before = unsent();
        wait::let_pass(Duration::from_millis(200));
        before > 0 && before == unsent()
    });
    thread::scope(|scope| done(begin(scope, &fleet, "suspend")));
    assert_eq!(unsent(), 0);
    fleet.console("resume");
    assert!(fleet.log().contains("closing because: suspend_timeout"), "{}", fleet.log());
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn shutdown_wait_for_servers_lets_transactions_end_and_nobody_else() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut busy = transactions(&fleet, 1);
    let mut idle = fleet.raw();
    fleet.console("shutdown wait_for_servers");
    let expected = Failure::new("FATAL", "08P01", "server shutting down");
    idle.send(&message::query("select 1")).expect("it is read");
    assert_eq!(idle.until(b'Z').expect_err("it gets no server"), expected);
    assert_eq!(refused(&fleet, "resume"), "pooler is shutting down");
    assert!(Raw::open(&fleet.address()).is_err(), "nobody listens any more");
    commit(&mut busy);
    wait::until_true("the fleet ends with its last server", || fleet.supervisor().is_none());
    assert_eq!(database.backends(), 0);
}

#[test]
fn shutdown_wait_for_clients_serves_those_who_are_there() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut raw = fleet.raw();
    let supervisor = fleet.supervisor().expect("it runs");
    fleet.console("shutdown wait_for_clients");
    let failure = Raw::login(&fleet.unix_address()).expect_err("it is refused");
    assert_eq!(failure, Failure::new("FATAL", "08P01", "pooler is shutting down"));
    supervisor.signal(Signal::SIGUSR2);
    wait::until_true("it says so", || {
        fleet.log().contains("got SIGUSR2 while shutting down, ignoring")
    });
    assert_eq!(raw.query("select 1").expect("it is served").values(), ["1"]);
    raw.leave();
    wait::until_true("the fleet ends with its last client", || fleet.supervisor().is_none());
}

#[test]
fn a_paused_fleet_can_be_stopped() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    let mut raw = fleet.raw();
    fleet.console("pause");
    raw.send(&message::query("select 1")).expect("it is read");
    wait::until_true("it waits", || fleet.console("show pools").sum("cl_waiting") == 1);
    fleet.stop("fast");
    assert_eq!(raw.until(b'Z').expect_err("it is let go").code, "57P01");
}

#[test]
fn int_waits_for_servers_and_a_second_one_for_nothing() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut busy = transactions(&fleet, 2);
    let supervisor = fleet.supervisor().expect("it runs");
    supervisor.signal(Signal::SIGINT);
    wait::until_true("it is on the way out", || Raw::open(&fleet.address()).is_err());
    assert!(busy.iter_mut().all(|raw| raw.query("select 1").is_ok()), "transactions go on");
    supervisor.signal(Signal::SIGINT);
    wait::until_true("a second INT does not wait", || fleet.supervisor().is_none());
}
