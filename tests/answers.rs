//! The console's answers hold for the whole fleet, whoever asks and wherever: nothing counted twice, lost or given away.
//! These tests never look at single statements; `console` does.
//! `make test` runs them over a real Postgres.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use pgfleet_harness::{
    address::Address,
    client::Client,
    cluster::Cluster,
    crowd::Crowd,
    failure::Failure,
    fleet::{Fleet, Format},
    program::{psql, python},
    raw::Raw,
    wait,
};

/// All that can be shown in a table, with its columns; those after the bar are our own.
const TABLES: [(&str, &str); 17] = [
    ("version", "version"),
    ("fleet", "| key value"),
    (
        "workers",
        "| worker slot pid state clients servers waiting share cpu_ms rss_kb restarts uptime_s listeners handed_out handed_in cancels panics log_dropped",
    ),
    (
        "databases",
        "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode load_balance_hosts max_connections current_connections max_client_connections current_client_connections paused disabled",
    ),
    (
        "pools",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts | sv_retiring sv_pinned",
    ),
    ("clients", SESSIONS),
    ("servers", SESSIONS),
    (
        "stats",
        "database total_server_assignment_count total_xact_count total_query_count total_received total_sent total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count total_bind_count total_client_login_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    (
        "stats_totals",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time client_parse_count server_parse_count bind_count client_login_count",
    ),
    (
        "stats_averages",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    ("totals", "name value"),
    ("lists", "list items"),
    ("config", "key value default changeable"),
    (
        "users",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections max_user_client_connections current_client_connections",
    ),
    ("mem", "name size used free memtotal"),
    ("state", "key value"),
    ("help", ""),
];

const SESSIONS: &str = "type user database replication state addr port local_addr local_port connect_time request_time wait wait_us close_needed ptr link remote_pid tls application_name prepared_statements id | worker";

fn console_of(fleet: &Fleet, user: &str, password: &str) -> Address {
    fleet.address().in_database("pgbouncer").as_user(user, password)
}

/// What it says about a key in SHOW CONFIG.
fn config(fleet: &Fleet, key: &str) -> String {
    fleet.console("show config").find("key", key).expect("it is shown").text("value").to_owned()
}

#[test]
fn every_table_has_pgbouncers_columns_and_then_ours() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    fleet.client().run("select 1");
    let mut stats = Raw::login(&console_of(&fleet, "stats", "st4ts")).expect("stats gets in");
    for (what, columns) in TABLES {
        let expected: Vec<&str> = columns.split_whitespace().filter(|word| *word != "|").collect();
        assert_eq!(fleet.console(&format!("show {what}")).columns, expected, "show {what}");
        let answer = stats.query(&format!("SHOW {what};")).expect("an answer comes");
        assert_eq!(answer.error(), None, "show {what}");
        assert_eq!(answer.columns(), expected, "show {what} through a worker");
    }
}

#[test]
fn every_worker_tells_the_same() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let clients: Vec<Client> = (0..8).map(|_| fleet.client()).collect();
    clients.iter().for_each(|client| client.run("begin; select 1; select 2"));
    let mut consoles: Vec<Raw> = (0..4)
        .map(|_| Raw::login(&console_of(&fleet, "admin", "adm1n")).expect("admin gets in"))
        .collect();
    let counts: Vec<i64> = fleet.serving().iter().map(|worker| worker.clients).collect();
    assert_eq!(counts, [3; 4], "there is a console session in every worker");
    for what in ["pools", "databases", "stats_totals", "users", "lists"] {
        let expected = psql(&fleet.console_address(), &format!("show {what}")).well().out;
        for raw in &mut consoles {
            let rows = raw.query(&format!("show {what}")).expect("an answer comes").rows();
            let line = |row: Vec<Option<String>>| {
                row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join("|") + "\n"
            };
            assert_eq!(rows.into_iter().map(line).collect::<String>(), expected, "show {what}");
        }
    }
}

#[test]
fn psycopg_and_psql_reach_it_as_admin_and_as_stats() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (user, password) in [("admin", "adm1n"), ("stats", "st4ts")] {
        let address = console_of(&fleet, user, password);
        let printed = python("console.py", &address, &[]);
        assert_eq!(printed.text(), "pools workers fleet set error", "{user}");
        assert_eq!(psql(&address, "show workers").well().text().lines().count(), 2, "{user}");
        let unix = address.at(&fleet.path("sock").display().to_string());
        assert_eq!(psql(&unix, "show workers").well().text().lines().count(), 2, "{user}");
    }
}

#[test]
fn others_are_refused_whatever_they_ask_for() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("auth_type", "scram-sha-256").start();
    for name in ["pgbouncer", "pgfleet"] {
        let refused = |user: &str, password: &str| {
            let address = fleet.address().in_database(name).as_user(user, password);
            Client::connect(&address).expect_err("it is not let in")
        };
        assert_eq!(refused("app", "s3cret"), Failure::new("FATAL", "08P01", "not allowed"));
        let wrong = Failure::new("FATAL", "08P01", "SASL authentication failed");
        assert_eq!((refused("admin", "guess"), refused("nobody", "guess")), (wrong.clone(), wrong));
    }
    let admin = console_of(&fleet, "admin", "adm1n");
    assert_eq!(psql(&admin, "show workers").well().text().lines().count(), 2);
}

/// Clients that ask and ask: how many answers each of them got.
fn askers(address: &Address) -> Crowd<i64> {
    let address = address.clone();
    Crowd::start(6, move |_, running| {
        let mut answered = 0;
        while running.goes_on() {
            let Ok(mut raw) = Raw::login(&address) else { continue };
            while running.goes_on() && raw.query("select 1").is_ok() {
                answered += 1;
            }
        }
        answered
    })
}

/// The queries that were counted for the database so far.
fn queries(fleet: &Fleet, database: &str) -> i64 {
    let stats = fleet.console("show stats_totals");
    stats.find("database", database).map_or(0, |row| row.number("query_count"))
}

#[test]
fn totals_never_fall_while_workers_die() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    let load = askers(&fleet.address());
    let mut last = 0;
    for slot in [1, 2, 3, 1] {
        let killed = fleet.kill_worker(slot);
        wait::holds_for(Duration::from_millis(700), "the count only grows", || {
            let before = std::mem::replace(&mut last, queries(&fleet, database.name()));
            before <= last
        });
        fleet.wait_for_successor(killed);
    }
    assert!(load.stop().into_iter().sum::<i64>() > 100);
}

#[test]
fn what_a_dead_worker_had_counted_is_not_lost() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).start();
    let load = askers(&fleet.address());
    for slot in [1, 2, 3, 1] {
        wait::let_pass(Duration::from_millis(300));
        let killed = fleet.kill_worker(slot);
        fleet.wait_for_successor(killed);
    }
    let answered: i64 = load.stop().into_iter().sum();
    // A query may be counted whose answer came too late: at most one of each client of each dead worker.
    let (counted, most) = (queries(&fleet, database.name()), answered + 24);
    assert!(
        (answered..=most).contains(&counted),
        "{counted} are counted and {answered} were answered"
    );
}

#[test]
fn what_a_worker_that_leaves_had_counted_is_not_lost() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    for round in 1..=3 {
        let clients: Vec<Client> = (0..8).map(|_| fleet.client()).collect();
        for client in &clients {
            (0..20).for_each(|_| client.run("select 1"));
        }
        drop(clients);
        if round == 2 {
            fleet.restart()
        } else {
            fleet.scale(4 - round)
        }
        wait::until_true("the drainers have gone", || {
            fleet.workers().iter().all(|worker| worker.state == "serving")
        });
        assert_eq!(queries(&fleet, database.name()), i64::from(round) * 160, "round {round}");
    }
}

#[test]
fn a_worker_that_does_not_answer_is_named_and_holds_up_nobody() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(3).set("heartbeat_timeout", 60).start();
    let _clients: Vec<Client> = (0..6).map(|_| fleet.client()).collect();
    let hung = fleet.worker(2);
    hung.signal(Signal::SIGSTOP);
    let mut console = Raw::login(&fleet.console_address()).expect("the console is there");
    console.set_patience(Duration::from_secs(3));
    let answer = console.query("show clients").expect("an answer comes without it");
    assert_eq!(answer.rows().len(), 4);
    let notices: Vec<String> = answer.notices().into_iter().map(|notice| notice.message).collect();
    assert_eq!(notices, ["worker 2.1 did not answer in time: it is missing here"]);
    hung.signal(Signal::SIGCONT);
    wait::until_true("it is back", || fleet.console("show clients").len() == 6);
}

#[test]
fn a_refused_reload_names_file_and_line_and_changes_nothing() {
    let database = Cluster::shared().database();
    for format in [Format::Toml, Format::Ini] {
        let mut fleet = Fleet::of(&database).format(format).set("query_timeout", 11).start();
        fleet.rewrite(|setup| setup.set("query_timeout", 22).set("pool_mode", "transction"));
        let text = fs::read_to_string(fleet.config()).expect("it can be read");
        let line =
            text.lines().position(|line| line.starts_with("pool_mode")).expect("it is there");
        let place = format!("{}:{}: pool_mode: must be ", fleet.config().display(), line + 1);
        let failure = fleet.try_console("reload").expect_err("it is refused");
        assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("ERROR", "F0000"));
        assert!(failure.message.contains(&place), "{place} is not in {failure}");
        assert!(failure.message.contains("did you mean \"transaction\"?"), "{failure}");
        let printed = fleet.command(&["reload"]);
        assert!(printed.status != Some(0) && printed.err.contains(&place), "{printed:?}");
        assert_eq!(
            (config(&fleet, "query_timeout"), config(&fleet, "pool_mode")),
            ("11".to_owned(), "transaction".to_owned())
        );
    }
}

#[test]
fn a_reload_with_a_bad_auth_file_changes_nothing() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("auth_type", "scram-sha-256").start();
    fleet.rewrite(|setup| setup.secret("new", "pw").stranger("app").set("query_timeout", 22));
    let text = fs::read_to_string(fleet.path("users.txt")).expect("it can be read");
    let place = format!("users.txt:{}: there is no user name", text.lines().count() + 1);
    fs::write(fleet.path("users.txt"), text + "no quotes\n").expect("it can be written");
    let failure = fleet.try_console("reload").expect_err("it is refused");
    assert!(failure.message.contains(&place), "{failure}");
    assert_eq!(config(&fleet, "query_timeout"), "0");
    for _ in 0..4 {
        assert_eq!(fleet.client().value("select 1"), "1");
        assert!(Client::connect(&fleet.address().as_user("new", "pw")).is_err());
    }
    fleet.rewrite(|setup| setup);
    fleet.reload();
    assert!(Client::connect(&fleet.address()).is_err(), "app is not known any more");
}

#[test]
fn what_takes_a_start_to_change_is_shown_as_it_is() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).start();
    let port = fleet.port().to_string();
    fleet.rewrite(|setup| setup.set("listen_port", 1).set("query_timeout", 44));
    let mut console = Raw::login(&fleet.console_address()).expect("the console is there");
    let answer = console.query("reload").expect("an answer comes");
    assert_eq!(answer.error(), None);
    let notices: Vec<String> = answer.notices().into_iter().map(|notice| notice.message).collect();
    let later = "it takes effect when the fleet is started anew";
    assert_eq!(notices, [format!("listen_port has changed from \"{port}\" to \"1\"; {later}")]);
    assert_eq!(config(&fleet, "query_timeout"), "44");
    assert_eq!(config(&fleet, "listen_port"), port, "SHOW CONFIG says what is in force");
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn no_secret_is_told_anywhere() {
    let database = Cluster::shared().database();
    let hash = "md5aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb";
    let fleet = Fleet::of(&database)
        .set("auth_type", "plain")
        .set("verbose", 2)
        .secret("hashed", hash)
        .database_keys("user=app password=s3cret")
        .start();
    assert_eq!(fleet.client().value("select 1"), "1");
    assert!(Client::connect(&fleet.address().as_user("app", "hunter2")).is_err());
    assert!(Client::connect(&fleet.address().as_user("hashed", "hunter3")).is_err());
    let shown = TABLES
        .iter()
        .map(|(what, _)| psql(&fleet.console_address(), &format!("show {what}")).well().out);
    let lines = fleet.processes().into_iter().map(|process| process.command_line());
    let all: Vec<String> = shown.chain(lines).chain([fleet.log()]).collect();
    assert!(all.iter().any(|text| text.contains("pgfleetd")), "the command lines are there");
    for secret in ["s3cret", "adm1n", "st4ts", "hunter2", "hunter3", hash] {
        let told = all.iter().find(|text| text.contains(secret));
        assert_eq!(told, None, "{secret} is told");
    }
}
