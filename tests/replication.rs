//! Replication through a fleet: each client has a server of its own, and what it is for works as without a pooler.
//! These tests never share a slot: each makes its own, temporary where it can be.
//! `make test` runs them over a real Postgres.

use std::process::Command;

use pgfleet_harness::{
    account,
    address::Address,
    binaries,
    cluster::{Cluster, Database, PASSWORD},
    failure::Failure,
    fleet::{Fleet, Setup},
    program::{psql, run},
    raw::{Raw, message},
    scratch::Scratch,
    wait,
};

/// One worker that knows the user `replica`, who may replicate.
fn setup(database: &Database<'_>) -> Setup {
    Fleet::of(database).workers(1).secret("replica", PASSWORD)
}

fn address(fleet: &Fleet) -> Address {
    fleet.address().as_user("replica", PASSWORD)
}

/// A replication client of this kind.
fn client(fleet: &Fleet, replication: &str) -> Raw {
    Raw::login_with(&address(fleet), &[("replication", replication)]).expect("replica gets in")
}

/// A temporary logical slot, and the stream from it.
fn stream(fleet: &Fleet, slot: &str) -> Raw {
    let mut raw = client(fleet, "database");
    let create = format!("CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL test_decoding");
    assert_eq!(raw.query(&create).expect("it is made").code(), "");
    raw.send(&message::query(&format!("START_REPLICATION SLOT {slot} LOGICAL 0/0"))).expect("sent");
    raw.until(b'W').expect("it streams");
    raw
}

/// Reads the stream until there is this text in it.
fn streamed(raw: &mut Raw, text: &str) -> String {
    loop {
        let piece = raw.until(b'd').expect("the stream goes on").copied();
        let piece = String::from_utf8_lossy(&piece).into_owned();
        if piece.contains(text) {
            return piece;
        }
    }
}

/// Walsenders of the user `replica`.
fn senders(database: &Database<'_>) -> String {
    let sql = "select count(*) from pg_stat_activity where usename = 'replica' \
               and backend_type = 'walsender'";
    database.direct().value(sql)
}

#[test]
fn a_logical_client_identifies_the_system_and_runs_queries() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let mut raw = client(&fleet, "database");
    let answer = raw.query("IDENTIFY_SYSTEM").expect("it runs");
    assert_eq!(answer.columns(), ["systemid", "timeline", "xlogpos", "dbname"]);
    assert_eq!(answer.rows()[0][3].as_deref(), Some(database.name()));
    assert_eq!(raw.query("select 'sql'").expect("it runs").values(), ["sql"]);
}

#[test]
fn a_physical_client_is_in_no_database() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    for word in ["true", "on", "yes", "1", "T"] {
        let mut raw = client(&fleet, word);
        let answer = raw.query("IDENTIFY_SYSTEM").expect("it runs");
        assert_eq!(answer.rows()[0][3], None, "{word}");
    }
    for word in ["false", "off", "no", "0"] {
        let mut raw = client(&fleet, word);
        assert_eq!(raw.query("select 'sql'").expect("it runs").values(), ["sql"], "{word}");
    }
}

#[test]
fn a_word_that_is_no_kind_of_replication_is_refused() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let refused = Raw::login_with(&address(&fleet), &[("replication", "maybe")]).map(|_| ());
    let text = "invalid value for parameter \"replication\": \"maybe\"";
    assert_eq!(refused, Err(Failure::new("FATAL", "08P01", text)));
}

#[test]
fn changes_are_streamed_until_the_client_has_had_enough() {
    let database = Cluster::shared().database();
    database.direct().run("create table t (a text); grant all on t to public");
    let fleet = setup(&database).start();
    let mut raw = stream(&fleet, "enough");
    fleet.client().run("insert into t values ('first')");
    assert!(streamed(&mut raw, "first").contains("table public.t: INSERT: a[text]:'first'"));
    raw.send(&message::copy_done()).expect("the fleet reads");
    let end = raw.until(b'Z').expect("the stream ends");
    // What was on its way may still come behind the end of the server's side.
    assert!(end.tags().contains('c') && end.tags().ends_with("CZ"), "{}", end.tags());
    assert_eq!(raw.query("select 'goes on'").expect("it runs").values(), ["goes on"]);
}

#[test]
fn startup_parameters_and_options_reach_the_server() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).set("ignore_startup_parameters", "nonsense").start();
    let asked = [
        ("replication", "database"),
        ("options", "-c work_mem=7MB -c search_path=a,\\ b --geqo=off"),
        ("statement_timeout", "12345"),
        ("application_name", "copier"),
        ("nonsense", "x"),
    ];
    let mut raw = Raw::login_with(&address(&fleet), &asked).expect("replica gets in");
    let settings = [
        ("work_mem", "7MB"),
        ("search_path", "a, b"),
        ("geqo", "off"),
        ("statement_timeout", "12345ms"),
        ("application_name", "copier"),
    ];
    for (name, value) in settings {
        let answer = raw.query(&format!("SHOW {name}")).expect("it runs");
        assert_eq!(answer.values(), [value], "{name}");
    }
    assert_eq!(raw.welcome.parameter("application_name").as_deref(), Some("copier"));
    // Its server is nobody else's, nor what it said at its login.
    let mut other = Raw::login(&address(&fleet)).expect("replica gets in");
    assert_eq!(other.query("show work_mem").expect("it runs").values(), ["4MB"]);
    assert_eq!(other.welcome.parameter("application_name").as_deref(), Some(""));
}

#[test]
fn the_console_tells_replication_clients_and_their_servers() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let _clients = [client(&fleet, "database"), client(&fleet, "true")];
    let _plain = fleet.raw().query("select 1");
    for table in ["show clients", "show servers"] {
        let table = fleet.console(table);
        let mut kinds: Vec<String> = table
            .rows()
            .filter(|row| row.text("user") == "replica")
            .map(|row| row.text("replication").to_owned())
            .collect();
        kinds.sort();
        assert_eq!(kinds, ["logical", "physical"]);
    }
    let servers = fleet.console("show servers");
    let other = servers.rows().find(|row| row.text("user") == "app").expect("app has a server");
    assert_eq!(other.text("replication"), "none");
}

#[test]
fn the_server_ends_with_its_client_however_that_leaves() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let leave: [fn(Raw); 3] = [Raw::leave, drop, |mut raw| {
        raw.send(&message::copy_done()).expect("the fleet reads");
        raw.until(b'Z').expect("the stream ends");
        raw.leave();
    }];
    for (number, leave) in leave.into_iter().enumerate() {
        let raw = stream(&fleet, &format!("ends_{number}"));
        assert_eq!(senders(&database), "1");
        leave(raw);
        wait::until_true("its walsender is gone", || senders(&database) == "0");
        wait::until_true("its server is gone", || fleet.console("show servers").is_empty());
    }
}

#[test]
fn idle_servers_make_room_and_the_pool_size_holds() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).set("default_pool_size", 1).start();
    let mut plain = Raw::login(&address(&fleet)).expect("replica gets in");
    plain.query("select 1").expect("it runs");
    // The idle server of the pool is closed for it.
    let first = client(&fleet, "database");
    let waiting = || fleet.console("show pools").sum("cl_waiting");
    let mut second = Raw::open(&fleet.address()).expect("the fleet accepts");
    let startup = [("user", "replica"), ("database", database.name()), ("replication", "true")];
    second.send(&message::startup(&startup)).expect("the fleet reads");
    wait::until_true("the second waits", || waiting() == 1);
    assert_eq!(fleet.console("show servers").rows().count(), 1);
    plain.send(&message::query("select 'plain'")).expect("the fleet reads");
    wait::until_true("the plain one waits too", || waiting() == 2);
    first.leave();
    second.until(b'Z').expect("the second has its server");
    second.leave();
    assert_eq!(plain.until(b'Z').expect("the plain one has a server").values(), ["plain"]);
}

#[test]
fn who_may_not_replicate_is_told_that_the_login_failed_and_nobody_else_is() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let mut plain = fleet.raw();
    for word in ["database", "true"] {
        let refused = Raw::login_with(&fleet.address(), &[("replication", word)]).map(|_| ());
        assert_eq!(refused, Err(Failure::new("FATAL", "08P01", "login failed")), "{word}");
        assert_eq!(plain.query("select 1").expect("it runs").values(), ["1"]);
        assert_eq!(fleet.raw().query("select 1").expect("it runs").values(), ["1"]);
    }
    wait::until_true("one server is left", || fleet.console("show servers").rows().count() == 1);
}

#[test]
fn no_timeout_is_for_a_replication_client() {
    let database = Cluster::shared().database();
    let keys = ["query_timeout", "transaction_timeout", "idle_transaction_timeout"];
    let fleet = keys.iter().fold(setup(&database), |setup, key| setup.set(key, 1)).start();
    database.direct().run("create table t (a text); grant all on t to public");
    let mut raw = stream(&fleet, "patient");
    let mut idle = client(&fleet, "database");
    idle.query("begin").expect("it runs");
    for _ in 0..2 {
        // The clock: another client's query is ended for its time.
        let failure = fleet.raw().query("select pg_sleep(30)").expect_err("it has its time");
        assert_eq!(failure.message, "query timeout");
    }
    fleet.client().run("insert into t values ('late')");
    streamed(&mut raw, "late");
    assert_eq!(idle.query("commit").expect("it runs").state(), Some('I'));
}

#[test]
fn a_stream_that_is_not_read_waits_and_loses_nothing() {
    let database = Cluster::shared().database();
    database.direct().run("create table t (a int, b text); grant all on t to public");
    let fleet = setup(&database).start();
    let mut raw = stream(&fleet, "unread");
    let fill = "insert into t select n, repeat('x', 1000) from generate_series(1, 30000) n";
    fleet.client().run(fill);
    let memory =
        || fleet.console("show mem").find("name", "iobuf_cache").map(|it| it.number("used"));
    for wanted in 1..=30_000 {
        streamed(&mut raw, &format!("a[integer]:{wanted} "));
        assert!(wanted % 5_000 != 0 || memory().is_some_and(|bytes| bytes < 4_000_000));
    }
}

/// A program of Postgres with the connection string of the user `replica`.
fn program(name: &str, fleet: &Fleet) -> Command {
    let mut command = Command::new(binaries::postgres(name));
    account::unprivileged(&mut command).current_dir("/").arg("-d").arg(address(fleet).to_string());
    command
}

#[test]
fn psql_can_replicate() {
    let database = Cluster::shared().database();
    let fleet = setup(&database).start();
    let extra = "replication=database".to_owned();
    let printed = psql(&Address { extra, ..address(&fleet) }, "IDENTIFY_SYSTEM").well();
    assert!(printed.text().ends_with(&format!("|{}", database.name())), "{}", printed.text());
}

#[test]
fn pg_recvlogical_receives() {
    let database = Cluster::shared().database();
    database.direct().run("create table t (a text); grant all on t to public");
    let fleet = setup(&database).start();
    let slot = ["--slot", "received"];
    let _ended = run(program("pg_recvlogical", &fleet).args(slot).arg("--create-slot")).well();
    let direct = database.direct();
    direct.run("set synchronous_commit = on; insert into t values ('received')");
    let end = direct.value("select pg_current_wal_lsn()");
    let until = ["--start", "--no-loop", "-f", "-", "--endpos", &end];
    let printed = run(program("pg_recvlogical", &fleet).args(slot).args(until)).well();
    assert!(printed.out.contains("a[text]:'received'"), "{}", printed.out);
    let _ended = run(program("pg_recvlogical", &fleet).args(slot).arg("--drop-slot")).well();
}

/// A fleet with the entry that programs of physical replication ask for.
fn physical(database: &Database<'_>) -> Fleet {
    let cluster = database.cluster();
    let entry = format!("host={} port={}", cluster.socket_dir(), cluster.port());
    setup(database).database("replication", &entry).start()
}

#[test]
fn pg_receivewal_receives() {
    let database = Cluster::shared().database();
    let fleet = physical(&database);
    let scratch = Scratch::make("wal");
    // Where the stream may end must not be the end of what there is.
    let direct = database.direct();
    direct.run("set synchronous_commit = on; select pg_switch_wal(); create table first ()");
    let end = direct.value("select pg_current_wal_lsn()");
    direct.run("create table second ()");
    let mut command = program("pg_receivewal", &fleet);
    command.arg("-D").arg(scratch.path()).args(["--no-loop", "--endpos", &end]);
    let _ended = run(&mut command).well();
    let files = std::fs::read_dir(scratch.path()).expect("the directory is there").count();
    assert!(files > 0, "no segment came");
}

#[test]
fn pg_basebackup_copies_the_cluster() {
    let database = Cluster::shared().database();
    let fleet = physical(&database);
    let scratch = Scratch::make("base");
    let mut command = program("pg_basebackup", &fleet);
    command.arg("-D").arg(scratch.path().join("copy")).args(["-X", "stream", "-c", "fast"]);
    let _ended = run(&mut command).well();
    assert!(scratch.path().join("copy/PG_VERSION").exists());
    wait::until_true("its servers are gone", || fleet.console("show servers").is_empty());
}
