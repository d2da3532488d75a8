//! The console answers for the whole fleet, with PgBouncer's names, by every way in.
//! These tests never parse a table by position: tools read columns by name.
//! `make test` runs them over a real Postgres.

use std::time::Duration;

use pgfleet_harness::{
    client::Client,
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    program::{psql, python},
    raw::{Raw, message},
    wait,
};

const SOCKETS: &str = "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail";

/// PgBouncer's columns in its order; ours follow them.
const COLUMNS: [(&str, &str); 19] = [
    (
        "databases",
        "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode load_balance_hosts max_connections current_connections max_client_connections current_client_connections paused disabled",
    ),
    (
        "pools",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts",
    ),
    (
        "clients",
        "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id",
    ),
    (
        "servers",
        "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id",
    ),
    (
        "users",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections max_user_client_connections current_client_connections",
    ),
    (
        "stats",
        "database total_server_assignment_count total_xact_count total_query_count total_received total_sent total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count total_bind_count total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    (
        "stats_totals",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time client_parse_count server_parse_count bind_count client_login_count",
    ),
    ("lists", "list items"),
    ("config", "key value default changeable"),
    ("mem", "name size used free memtotal"),
    (
        "stats_averages",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    ("totals", "name value"),
    ("state", "key value"),
    ("peers", "peer_id host port pool_size"),
    ("peer_pools", "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login"),
    ("sockets", SOCKETS),
    ("active_sockets", SOCKETS),
    (
        "fds",
        "fd task user database addr port cancel link client_encoding std_strings datestyle timezone password scram_client_key scram_server_key",
    ),
    ("dns_hosts", "hostname ttl addrs"),
];

fn admin(fleet: &Fleet) -> pgfleet_harness::address::Address {
    fleet.address().in_database("pgbouncer").as_user("admin", "adm1n")
}

#[test]
fn columns_have_pgbouncers_names_and_order() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let client = fleet.client();
    client.run("select 1");
    for (what, expected) in COLUMNS {
        let columns = fleet.console(&format!("show {what}")).columns;
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(
            columns.get(..expected.len()).map(<[String]>::to_vec),
            Some(expected.iter().map(|name| (*name).to_owned()).collect()),
            "show {what}"
        );
    }
}

#[test]
fn lists_have_pgbouncers_rows() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let lists = fleet.console("show lists");
    for name in [
        "databases",
        "users",
        "pools",
        "free_clients",
        "used_clients",
        "login_clients",
        "free_servers",
        "used_servers",
    ] {
        assert!(lists.find("list", name).is_some(), "{name} is missing");
    }
}

#[test]
fn sums_are_those_of_the_whole_fleet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..12).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        raw.query("begin").expect("begin runs");
    }
    let pools = fleet.console("show pools");
    let pool = pools.find("database", database.name()).expect("the pool is there");
    assert_eq!((pool.number("cl_active"), pool.number("sv_active")), (12, 12));
    let count = |what: &str| {
        fleet.console(what).rows().filter(|row| row.text("database") == database.name()).count()
    };
    assert_eq!((count("show clients"), count("show servers"), count("show pools")), (12, 12, 1));
    let databases = fleet.console("show databases");
    assert_eq!(
        databases.find("name", database.name()).expect("it is there").number("current_connections"),
        12
    );
    assert_eq!(fleet.console("show workers").sum("clients"), 12);
}

#[test]
fn statistics_count_what_was_done() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    for _ in 0..6 {
        let mut raw = fleet.raw();
        raw.query("begin").expect("it runs");
        raw.query("select 1").expect("it runs");
        raw.query("commit").expect("it runs");
        raw.ask(&message::unnamed("select 2", &[])).expect("it runs");
    }
    let stats = fleet.console("show stats_totals");
    let row = stats.find("database", database.name()).expect("it is there");
    assert_eq!(
        (row.number("xact_count"), row.number("query_count"), row.number("client_login_count")),
        (12, 24, 6)
    );
    assert!(row.number("bytes_received") > 0 && row.number("bytes_sent") > 0);
}

#[test]
fn totals_never_fall_when_a_worker_dies() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let queries = || {
        fleet
            .console("show stats_totals")
            .find("database", database.name())
            .expect("it is there")
            .number("query_count")
    };
    let clients: Vec<Client> = (0..8).map(|_| fleet.client()).collect();
    for client in &clients {
        (0..50).for_each(|_| client.run("select 1"));
    }
    let before = queries();
    assert_eq!(before, 400);
    let killed = fleet.kill_worker(1);
    fleet.wait_for_successor(killed);
    assert!(queries() >= before, "{} after {before}", queries());
}

#[test]
fn psql_reaches_the_console_by_its_own_socket_and_through_any_worker() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    assert!(psql(&fleet.console_address(), "show version").well().text().contains("pgfleet"));
    for _ in 0..8 {
        let printed = psql(&admin(&fleet), "show workers").well();
        assert_eq!(printed.text().lines().count(), 4, "{}", printed.text());
    }
}

#[test]
fn both_names_of_the_console_work() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for name in ["pgbouncer", "pgfleet"] {
        assert_eq!(psql(&admin(&fleet).in_database(name), "show fleet").well().status, Some(0));
    }
}

#[test]
fn stats_users_may_look_and_not_touch() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut stats = Raw::login(&admin(&fleet).as_user("stats", "st4ts")).expect("stats gets in");
    assert_eq!(stats.query("show pools").expect("it may look").code(), "");
    for command in ["reload", "scale 3", "shutdown", "restart"] {
        let failure = stats.query(command).expect("an answer comes").error();
        assert_eq!(
            failure,
            Some(Failure::new("ERROR", "08P01", "admin access needed")),
            "{command}"
        );
    }
    fleet.wait_for_workers(2);
}

#[test]
fn others_are_not_allowed() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let failure =
        Raw::login(&fleet.address().in_database("pgbouncer")).expect_err("app is no admin");
    assert_eq!(failure, Failure::new("FATAL", "08P01", "not allowed"));
}

#[test]
fn drivers_reach_the_console_by_the_extended_protocol() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let printed = python("console.py", &admin(&fleet), &[]);
    assert_eq!(printed.text(), "pools workers fleet set error");
}

#[test]
fn an_unknown_command_is_an_error_and_no_end() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut console = Raw::login(&admin(&fleet)).expect("admin gets in");
    let failure =
        console.query("fly away").expect("an answer comes").error().expect("it is an error");
    assert_eq!(
        (failure.code.as_str(), failure.message.as_str()),
        ("08P01", "invalid command 'fly away', use SHOW HELP;")
    );
    assert!(console.query("ShOw PoOlS;").expect("an answer comes").error().is_none());
    assert!(!console.query("show help").expect("an answer comes").tags().is_empty());
}

#[test]
fn statements_in_a_row_are_all_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(1).start();
    let mut stats = Raw::login(&admin(&fleet).as_user("stats", "st4ts")).expect("stats gets in");
    stats.set_patience(Duration::from_secs(5));
    for number in 0..600 {
        let answer = stats.query("scale 3");
        assert_eq!(answer.map(|answer| answer.code()), Ok("08P01".to_owned()), "{number}");
    }
}

#[test]
fn garbage_on_the_console_socket_harms_nobody() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let silent: Vec<Raw> =
        (0..20).map(|_| Raw::open(&fleet.console_address()).expect("it accepts")).collect();
    for bytes in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0; 40], &[0xff; 40]] {
        let mut raw = Raw::open(&fleet.console_address()).expect("it accepts");
        drop(raw.send(bytes));
        raw.until_closed().expect("the connection closes");
    }
    assert_eq!(fleet.console("show workers").len(), 2);
    drop(silent);
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn a_reload_changes_all_workers_or_none() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).workers(3).set("default_pool_size", 9).start();
    let size = |fleet: &Fleet| {
        fleet
            .console("show config")
            .find("key", "default_pool_size")
            .expect("it is there")
            .text("value")
            .to_owned()
    };
    fleet.rewrite(|setup| setup.set("default_pool_size", 12));
    fleet.console("reload");
    assert_eq!(size(&fleet), "12");
    fleet.rewrite(|setup| setup.set("default_pool_size", 15).set("no_such_key", 1));
    let failure = fleet.try_console("reload").expect_err("it is refused");
    assert!(failure.message.contains("no_such_key"), "{failure}");
    assert_eq!(size(&fleet), "12", "nothing of a bad file is taken");
    assert_eq!(fleet.command(&["reload"]).status, Some(78));
    fleet.rewrite(|setup| setup.unset("no_such_key"));
    fleet.reload();
    assert_eq!(size(&fleet), "15");
}

#[test]
fn a_reload_adds_and_removes_databases() {
    let cluster = Cluster::shared();
    let (one, two) = (cluster.database(), cluster.database());
    let mut fleet = Fleet::of(&one).workers(2).start();
    let address = fleet.address().in_database(two.name());
    assert!(Client::connect(&address).is_err());
    let entry = pgfleet_harness::fleet::setup::entry(cluster, two.name());
    fleet.rewrite(|setup| setup.database(two.name(), &entry));
    fleet.reload();
    for _ in 0..6 {
        assert_eq!(
            Client::connect(&address).expect("it is known now").value("select current_database()"),
            two.name()
        );
    }
}

#[test]
fn a_smaller_pool_after_a_reload_is_kept_to() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).workers(2).set("default_pool_size", 12).start();
    let mut clients: Vec<Raw> = (0..12).map(|_| fleet.raw()).collect();
    clients.iter_mut().for_each(|raw| drop(raw.query("begin").expect("begin runs")));
    fleet.rewrite(|setup| setup.set("default_pool_size", 4));
    fleet.reload();
    clients.iter_mut().for_each(|raw| drop(raw.query("commit").expect("commit runs")));
    wait::until_true("what is too many is closed", || database.backends() <= 4);
}

#[test]
fn the_console_shows_no_secret() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).database_keys("user=app password=s3cret").start();
    fleet.client().run("select 1");
    for what in ["config", "databases", "users", "clients", "servers", "pools"] {
        let printed = psql(&fleet.console_address(), &format!("show {what}")).well();
        assert!(!printed.out.contains("s3cret") && !printed.out.contains("adm1n"), "show {what}");
    }
}

#[test]
fn scale_and_restart_work_as_statements() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    fleet.console("scale 3");
    assert_eq!(fleet.serving().len(), 3, "SCALE returns when accepts have moved");
    fleet.console("RESTART");
    fleet.wait_for_workers(3);
    let failure = fleet.try_console("scale 0").expect_err("it is refused");
    assert_eq!(failure.severity, "ERROR");
}
