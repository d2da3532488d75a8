//! The commands that act on databases, clients and settings: fleet-wide, with PgBouncer's answers.
//! These tests never pause or stop a fleet for its own sake; `pause` does.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::Cluster,
    failure::Failure,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

fn refused(fleet: &Fleet, command: &str) -> String {
    let failure = fleet.try_console(command).expect_err("it is refused");
    assert_eq!((failure.severity.as_str(), failure.code.as_str()), ("ERROR", "08P01"), "{command}");
    failure.message
}

/// What a command is answered with: its tag.
fn tag(fleet: &Fleet, command: &str) -> String {
    let mut console = Raw::login(&fleet.console_address()).expect("the console is there");
    console.query(command).expect("it is answered").commands().concat()
}

fn setting(fleet: &Fleet, key: &str) -> String {
    let config = fleet.console("show config");
    config.find("key", key).expect("it is there").text("value").to_owned()
}

fn backend(raw: &mut Raw) -> String {
    raw.query("select pg_backend_pid()").expect("it runs").values().concat()
}

#[test]
fn every_command_has_its_tag() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let name = database.name();
    for (command, expected) in [
        (format!("disable {name}"), "DISABLE"),
        (format!("ENABLE {name};"), "ENABLE"),
        ("reconnect".to_owned(), "RECONNECT"),
        (format!("reconnect {name}"), "RECONNECT"),
        ("wait_close".to_owned(), "WAIT_CLOSE"),
        (format!("wait_close {name}"), "WAIT_CLOSE"),
        (format!("pause {name}"), "PAUSE"),
        (format!("resume {name}"), "RESUME"),
        (format!("kill \"{name}\""), "KILL"),
        (format!("resume '{name}'"), "RESUME"),
        ("suspend".to_owned(), "SUSPEND"),
        ("resume".to_owned(), "RESUME"),
        ("kill".to_owned(), "KILL"),
        ("resume".to_owned(), "RESUME"),
        ("set query_timeout = 5".to_owned(), "SET query_timeout=5"),
        ("reload".to_owned(), "RELOAD"),
        ("shutdown wait_for_clients".to_owned(), "SHUTDOWN WAIT_FOR_CLIENTS"),
    ] {
        assert_eq!(tag(&fleet, &command), expected, "{command}");
    }
}

#[test]
fn wrong_arguments_get_pgbouncers_words() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (command, expected) in [
        ("disable", "a database is required"),
        ("enable", "a database is required"),
        ("disable nope", "no such database: nope"),
        ("enable nope", "no such database: nope"),
        ("reconnect nope", "no such database: nope"),
        ("wait_close nope", "no such database: nope"),
        ("kill nope", "no such database: nope"),
        ("kill pgbouncer", "cannot kill admin db: pgbouncer"),
        ("kill_client", "invalid client pointer supplied"),
        ("kill_client some", "invalid client pointer supplied"),
        ("kill_client 12345", "client not found"),
        ("set no_such_key = 1", "SET failed"),
        ("set query_timeout = soon", "SET failed"),
        ("set listen_port = 7000", "SET failed"),
        ("set query_timeout", "invalid command 'set query_timeout', use SHOW HELP;"),
        ("show something", "bad SHOW arg, use SHOW HELP for usage"),
        ("pause a b", "invalid command 'pause a b', use SHOW HELP;"),
    ] {
        assert_eq!(refused(&fleet, command), expected, "{command}");
    }
}

#[test]
fn only_admins_give_commands() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let address = fleet.address().in_database("pgbouncer").as_user("stats", "st4ts");
    let mut stats = Raw::login(&address).expect("stats gets in");
    for command in [
        "pause",
        "resume",
        "suspend",
        "disable",
        "enable x",
        "reconnect",
        "wait_close",
        "kill",
        "kill_client 1",
        "set query_timeout = 1",
        "reload",
        "shutdown",
        "show fds",
    ] {
        let failure = stats.query(command).expect("it is answered").error();
        let expected = Failure::new("ERROR", "08P01", "admin access needed");
        assert_eq!(failure, Some(expected), "{command}");
    }
    assert_eq!(stats.query("show state").expect("it may look").code(), "");
}

#[test]
fn a_disabled_database_takes_no_new_clients() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).workers(3).start();
    let mut there = fleet.raw();
    fleet.console(&format!("disable {}", database.name()));
    fleet.reload();
    let text = format!("database \"{}\" is disabled", database.name());
    for _ in 0..6 {
        let failure = Raw::login(&fleet.address()).expect_err("it is refused");
        assert_eq!(failure, Failure::new("FATAL", "08P01", &text));
    }
    assert!(there.query("select 1").is_ok(), "who is there stays");
    let shown = fleet.console("show databases");
    assert_eq!(shown.find("name", database.name()).expect("it is there").number("disabled"), 1);
    fleet.console(&format!("enable {}", database.name()));
    assert_eq!(fleet.client().value("select 1"), "1");
    fleet.rewrite(|setup| setup);
}

#[test]
fn reconnect_replaces_servers_and_wait_close_waits_for_it() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut clients: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    let mut busy = fleet.raw();
    busy.query("begin").expect("it runs");
    let before: Vec<String> = clients.iter_mut().map(backend).collect();
    let kept = backend(&mut busy);
    fleet.console("reconnect");
    let after: Vec<String> = clients.iter_mut().map(backend).collect();
    assert!(after.iter().all(|pid| !before.contains(pid)), "{before:?} {after:?}");
    assert_eq!(backend(&mut busy), kept, "a transaction keeps its server");
    std::thread::scope(|scope| {
        let closed = scope.spawn(|| fleet.console("wait_close"));
        wait::holds_for(std::time::Duration::from_millis(500), "it waits", || {
            !closed.is_finished()
        });
        busy.query("commit").expect("it ends");
        closed.join().expect("no panic");
    });
    assert_ne!(backend(&mut busy), kept);
    assert_eq!(fleet.console("show servers").sum("close_needed"), 0);
}

#[test]
fn kill_drops_clients_and_servers_and_holds_back_until_resume() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    for (raw, sql) in clients.iter_mut().zip(["begin", "select 1"].into_iter().cycle()) {
        raw.query(sql).expect("it runs");
    }
    clients[3].send(&message::query("select pg_sleep(60)")).expect("it is read");
    fleet.console(&format!("kill {}", database.name()));
    let expected = Failure::new("FATAL", "08P01", "admin forced disconnect");
    for raw in &mut clients {
        assert_eq!(raw.until(b'Z').expect_err("it is dropped"), expected);
    }
    wait::until_true("the backends end", || database.backends() == 0);
    fleet.console(&format!("resume {}", database.name()));
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn kill_client_drops_one_client_wherever_it_is() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let names: Vec<String> = (0..8).map(|number| format!("number{number}")).collect();
    let login = |name: &String| Raw::login_with(&fleet.address(), &[("application_name", name)]);
    let mut clients: Vec<Raw> = names.iter().map(|name| login(name).expect("it gets in")).collect();
    for (column, victim) in [("id", 2), ("ptr", 5)] {
        let shown = fleet.console("show clients");
        let row = shown.find("application_name", &names[victim]).expect("it is there");
        fleet.console(&format!("kill_client {}", row.text(column)));
        let failure = clients[victim].until(b'Z').expect_err("it is dropped");
        assert_eq!(failure, Failure::new("FATAL", "08P01", "admin forced disconnect"));
    }
    let left = clients.iter_mut().filter_map(|raw| raw.query("select 1").ok()).count();
    assert_eq!(left, 6, "nobody else is dropped");
}

#[test]
fn ids_are_those_of_one_client_or_server_of_the_fleet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(4).start();
    let mut clients: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    clients.iter_mut().for_each(|raw| drop(raw.query("begin").expect("it runs")));
    let (clients, servers) = (fleet.console("show clients"), fleet.console("show servers"));
    let mut ids: Vec<i64> =
        clients.rows().chain(servers.rows()).map(|row| row.number("id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 16);
    for row in clients.rows() {
        let server = servers.find("ptr", row.text("link")).expect("it is linked");
        assert_eq!(server.text("link"), row.text("ptr"));
    }
}

#[test]
fn a_set_reaches_all_workers_and_those_that_are_born_later() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    fleet.console("set query_timeout = 1");
    fleet.scale(4);
    assert_eq!(setting(&fleet, "query_timeout"), "1");
    let mut clients: Vec<Raw> = (0..8).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        raw.send(&message::query("select pg_sleep(20)")).expect("it is read");
    }
    for raw in &mut clients {
        assert_eq!(raw.until(b'Z').expect_err("it takes too long").message, "query timeout");
    }
}

#[test]
fn a_reload_undoes_every_set() {
    let database = Cluster::shared().database();
    let mut fleet = Fleet::of(&database).set("query_wait_timeout", 30).start();
    fleet.console("SET query_wait_timeout TO '7'");
    fleet.console("set application_name_add_host = 1");
    fleet.console("set server_reset_query = 'select ''a;b'''");
    assert_eq!(setting(&fleet, "query_wait_timeout"), "7");
    assert_eq!(setting(&fleet, "server_reset_query"), "select 'a;b'");
    fleet.rewrite(|setup| setup.set("query_timeout", 77));
    assert_eq!(setting(&fleet, "query_timeout"), "0", "SET reads no file");
    fleet.console("reload");
    let after = ["query_wait_timeout", "application_name_add_host", "query_timeout"];
    assert_eq!(after.map(|key| setting(&fleet, key)), ["30", "0", "77"]);
}

#[test]
fn a_set_that_fails_says_why_beside_pgbouncers_text() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut console = Raw::login(&fleet.console_address()).expect("the console is there");
    let mut why = |command: &str| {
        let answer = console.query(command).expect("it is answered");
        assert_eq!(answer.error().expect("it fails").message, "SET failed");
        answer.notices().into_iter().map(|notice| notice.message).collect::<String>()
    };
    assert!(why("set listen_port = 1").contains("new start"));
    assert!(why("set query_timeoud = 1").contains("query_timeout"), "the nearest key is named");
    assert!(why("set max_client_conn = 1").contains("cannot be divided over 2 workers"));
    assert!(why("set auth_file = '/nowhere/at/all'").contains("/nowhere/at/all"));
    assert_eq!(fleet.client().value("select 1"), "1");
}

#[test]
fn limits_that_are_set_are_kept_to() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).set("default_pool_size", 10).start();
    fleet.console("set default_pool_size = 2");
    let mut clients: Vec<Raw> = (0..6).map(|_| fleet.raw()).collect();
    for raw in &mut clients {
        raw.send(&message::query("select pg_sleep(0.2)")).expect("it is read");
    }
    wait::until_true("two run", || database.backends() == 2);
    clients.iter_mut().for_each(|raw| drop(raw.until(b'Z').expect("it ends")));
    assert_eq!(database.backends(), 2);
}

#[test]
fn what_is_switched_is_shown() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    fleet.console(&format!("pause {}", database.name()));
    fleet.console(&format!("disable {}", database.name()));
    fleet.console("pause");
    let shown = fleet.console("show fleet");
    let value = |key: &str| shown.find("key", key).expect("it is there").text("value").to_owned();
    assert_eq!(value("activity"), "paused");
    assert_eq!(value("paused_databases"), database.name());
    assert_eq!(value("disabled_databases"), database.name());
    let status = fleet.command(&["status"]).well().out;
    assert!(status.contains("everything is paused"), "{status}");
    assert!(status.contains(&format!("disabled: {}", database.name())), "{status}");
}

#[test]
fn sockets_and_descriptors_are_those_of_the_fleet() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).workers(2).start();
    let mut clients: Vec<Raw> = (0..4).map(|_| fleet.raw()).collect();
    clients.iter_mut().for_each(|raw| drop(raw.query("begin").expect("it runs")));
    assert_eq!(fleet.console("show sockets").len(), 8);
    assert_eq!(fleet.console("show active_sockets").len(), 8);
    let shown = fleet.console("show fds");
    let count = |task: &str| shown.rows().filter(|row| row.text("task") == task).count();
    // Each of the two workers has a listener of its own and one that they share.
    assert_eq!((count("client"), count("server"), count("pooler")), (4, 4, 4));
    let client = shown.find("task", "client").expect("it is there");
    assert_eq!((client.text("database"), client.text("user")), (database.name(), "app"));
    assert_eq!((client.text("client_encoding"), client.text("password")), ("UTF8", ""));
    for row in shown.rows().filter(|row| row.text("task") == "client") {
        let linked = |other: &pgfleet_harness::table::Row<'_>| {
            other.text("fd") == row.text("link") && other.text("worker") == row.text("worker")
        };
        assert!(shown.rows().any(|other| other.text("task") == "server" && linked(&other)));
    }
}

#[test]
fn small_talk_of_drivers_is_answered() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (command, expected) in [
        ("show client_encoding", "UTF8"),
        ("show default_transaction_isolation", "read committed"),
        ("show standard_conforming_strings", "on"),
        ("show datestyle", "ISO, MDY"),
        ("show timezone", "GMT"),
        ("select 1", "1"),
    ] {
        let shown = fleet.console(command);
        let values: Vec<String> =
            shown.rows().map(|row| row.text(&shown.columns[0]).to_owned()).collect();
        assert_eq!(values, [expected], "{command}");
    }
    for name in ["client_encoding", "datestyle", "timezone", "standard_conforming_strings"] {
        let mut console = Raw::login(&fleet.console_address()).expect("the console is there");
        let answer = console.query(&format!("set {name} = 'x'")).expect("it is answered");
        assert_eq!(answer.commands(), ["SET"], "{name}");
        assert_eq!(answer.notices()[0].message, "SET ignored", "{name}");
    }
    assert_eq!(fleet.console("select pools").columns, fleet.console("show pools").columns);
}

#[test]
fn the_command_line_switches_databases_too() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let name = database.name();
    let said = |arguments: &[&str]| fleet.command(arguments).well().out.trim().to_owned();
    assert_eq!(said(&["pause"]), "all databases are paused");
    assert_eq!(said(&["resume"]), "all databases are resumed");
    assert_eq!(said(&["disable", name]), format!("database {name} is disabled"));
    assert_eq!(said(&["enable", name]), format!("database {name} is enabled"));
    assert_eq!(said(&["reconnect", name, "--quiet"]), "");
    assert_eq!(
        said(&["kill", name]),
        format!("database {name} is killed, and paused until resume")
    );
    assert!(said(&["resume", name, "--format", "json"]).contains("\"command\": \"resume\""));
    let printed = fleet.command(&["pause", "nope"]);
    assert_eq!(printed.status, Some(1));
    assert!(printed.err.contains("no such database: nope"), "{}", printed.err);
    assert_eq!(fleet.command(&["disable"]).status, Some(2));
    assert_eq!(fleet.command(&["scale", "abc"]).status, Some(2));
}
