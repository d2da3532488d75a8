//! What the settings of sockets do, as the kernel tells it.
//! Options that the kernel tells nobody else are tested where they are set; here it is seen that both sides of the fleet have them.
//! `make test` runs them over a real Postgres.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use pgfleet_harness::{
    cluster::{Cluster, Database},
    fleet::{Fleet, Setup},
    raw::{Raw, message},
    wait,
};

/// An established connection in the kernel's table: its ports and its timer.
struct Connection {
    local: u16,
    remote: u16,
    timer: u8,
    /// When that fires, in hundredths of a second.
    fires: u64,
}

fn connections() -> Vec<Connection> {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel has the table");
    table.lines().skip(1).filter_map(connection).collect()
}

fn connection(line: &str) -> Option<Connection> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |field: &str| u16::from_str_radix(field.split_once(':')?.1, 16).ok();
    let (timer, fires) = fields.get(5)?.split_once(':')?;
    (*fields.get(3)? == "01").then_some(Connection {
        local: port(fields.get(1)?)?,
        remote: port(fields.get(2)?)?,
        timer: u8::from_str_radix(timer, 16).ok()?,
        fires: u64::from_str_radix(fires, 16).ok()?,
    })
}

/// A fleet whose servers are reached over TCP.
fn by_tcp(database: &Database<'_>) -> Setup {
    let port = database.cluster().port();
    let entry = format!("host=127.0.0.1 port={port} dbname={}", database.name());
    Fleet::of(database).workers(1).database(database.name(), &entry)
}

/// Clients of all workers, silent ones among them.
fn clients(fleet: &Fleet) -> i64 {
    fleet.console("show workers").sum("clients")
}

#[test]
fn both_sides_are_probed_when_they_are_silent() {
    const PROBING: u8 = 2;
    let database = Cluster::shared().database();
    for (keepalive, expected) in [(1, PROBING), (0, 0)] {
        let fleet =
            by_tcp(&database).set("tcp_keepalive", keepalive).set("tcp_keepidle", 30).start();
        let mut raw = fleet.raw();
        raw.query("begin").expect("it has a server");
        let is_its =
            |it: &Connection| it.local == fleet.port() || it.remote == database.cluster().port();
        wait::until_true("both connections have the timer", || {
            let own: Vec<_> = connections().into_iter().filter(is_its).collect();
            let fits = |it: &Connection| it.timer == expected && it.fires <= 3000;
            own.iter().filter(|it| it.local == fleet.port()).any(fits)
                && own.iter().filter(|it| it.local != fleet.port()).any(fits)
        });
    }
}

#[test]
fn tcp_defer_accept_keeps_silent_connections_from_the_workers() {
    let database = Cluster::shared().database();
    let mut fleet = by_tcp(&database).start();
    let silent = Raw::open(&fleet.address()).expect("the kernel accepts");
    wait::holds_for(Duration::from_millis(500), "no worker has it", || clients(&fleet) == 0);
    wait::until_true("it is handed over in the end", || clients(&fleet) == 1);
    drop(silent);
    fleet.rewrite(|setup| setup.set("tcp_defer_accept", 0));
    fleet.reload();
    wait::until_true("the first one is gone", || clients(&fleet) == 0);
    let _silent = Raw::open(&fleet.address()).expect("the kernel accepts");
    let deadline = Instant::now() + Duration::from_millis(600);
    assert!(wait::before(deadline, || (clients(&fleet) == 1).then_some(())).is_some());
}

#[test]
fn small_buffers_only_slow_down() {
    let database = Cluster::shared().database();
    let fleet = by_tcp(&database).set("tcp_socket_buffer", 16_384).start();
    let answer = fleet.raw().query("select repeat('x', 300000)").expect("it is answered");
    assert_eq!(answer.values()[0].len(), 300_000);
}

#[test]
fn listen_backlog_bounds_the_queue_that_nobody_accepts_from() {
    let database = Cluster::shared().database();
    let fleet = by_tcp(&database).set("listen_backlog", 2).set("tcp_defer_accept", 0).start();
    let worker = fleet.worker(1);
    worker.signal(nix::sys::signal::Signal::SIGSTOP);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, fleet.port()));
    let knock = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let queue: Vec<_> = (0..6).filter_map(|_| knock()).collect();
    let established = connections().iter().filter(|it| it.local == fleet.port()).count();
    worker.signal(nix::sys::signal::Signal::SIGCONT);
    // The kernel lets one more in than it is told.
    assert_eq!(established, 3);
    drop(queue);
    assert!(fleet.raw().ask(&message::query("select 1")).is_ok());
}
