//! Ini files as PgBouncer takes them.

use super::{Ground, bad, good, one};
use crate::{AuthType, PoolMode, load::load_with};

const WILD: &str = "
;;;
;;; PgBouncer configuration file
;;;
[databases]
; foodb over Unix socket
foodb =
# redirect bardb to bazdb on localhost
bardb = host=localhost dbname=bazdb
  forcedb = host=localhost port=300 user=baz password=foo client_encoding=UNICODE datestyle=ISO connect_query='SELECT 1'
nondefaultdb = pool_size=50 reserve_pool=10
* = host=testserver

[users]
;user1 = pool_mode=transaction max_user_connections=10
user2 = pool_mode=session max_user_connections=25

[pgbouncer]
logfile = /var/log/pgbouncer/pgbouncer.log
pidfile = /var/run/pgbouncer/pgbouncer.pid
listen_addr = localhost
listen_port = 6432
unix_socket_dir = /var/run/postgresql
;client_tls_sslmode = disable
auth_type = md5
auth_file = $DIR/users.txt
admin_users = user2, someadmin, otheradmin
stats_users = stats, root
pool_mode = transaction
server_reset_query = DISCARD ALL;
ignore_startup_parameters = extra_float_digits, options
max_client_conn = 1000
default_pool_size = 30
server_idle_timeout = 0.5
so_reuseport = 1
max_prepared_statements = 100
";

#[test]
fn a_file_as_found_in_the_wild_loads() {
    let settings = good("pgbouncer.ini", WILD);
    let global = &settings.global;
    assert_eq!((global.pool_mode, global.auth_type), (PoolMode::Transaction, AuthType::Md5));
    assert_eq!(global.admin_users, ["user2", "someadmin", "otheradmin"]);
    assert_eq!(global.server_reset_query, "DISCARD ALL;");
    assert_eq!(settings.databases["foodb"].hosts, ["/var/run/postgresql"]);
    assert_eq!(settings.databases["bardb"].dbname, "bazdb");
    let forced = &settings.databases["forcedb"];
    assert_eq!(
        (forced.user.as_deref(), forced.port, forced.connect_query.as_deref()),
        (Some("baz"), 300, Some("SELECT 1"))
    );
    assert_eq!(settings.databases["nondefaultdb"].reserve_pool_size, Some(10));
    assert_eq!(settings.fallback.unwrap().hosts, ["testserver"]);
    assert_eq!(settings.users["user2"].max_user_connections, Some(25));
    assert_eq!(settings.notes.len(), 2, "{:?}", settings.notes);
    assert!(settings.notes[1].contains("pgbouncer.ini:35: so_reuseport: accepted without effect"));
}

#[test]
fn the_content_tells_an_ini_from_toml() {
    for name in ["pgbouncer.conf", "x"] {
        assert_eq!(
            good(name, "[pgbouncer]\npool_mode = transaction\n").global.pool_mode,
            PoolMode::Transaction
        );
        assert_eq!(
            good(name, "pool_mode = \"transaction\"\n").global.pool_mode,
            PoolMode::Transaction
        );
    }
}

#[test]
fn sections_repeat_and_stand_in_any_order() {
    let text = "[pgbouncer]\nauth_file=$DIR/users.txt\r\n[databases]\na=host=1\n[users]\nu=pool_size=3\n[databases]\nb=host=2\na=host=3\n";
    let settings = good("p.ini", text);
    assert_eq!(settings.databases.len(), 2);
    assert_eq!(settings.databases["a"].hosts, ["3"]);
    assert_eq!(settings.users["u"].pool_size, Some(3));
}

#[test]
fn a_second_main_section_wipes_the_first() {
    let settings =
        good("p.ini", "[pgbouncer]\nlisten_port=7000\nverbose=1\n[pgbouncer]\nverbose=2\n");
    assert_eq!((settings.global.listen_port, settings.global.verbose), (6432, 2));
}

#[test]
fn comments_quotes_and_blanks_are_read_as_in_pgbouncer() {
    let text = "\u{feff}; c\n # c\n  [pgbouncer]  \n\tserver_check_query = select 1; -- # all of it  \nauth_file = $DIR/users.txt\n[databases]\n'it''s a db' = dbname=x\nwith.dot-and_* = dbname=y\n";
    let settings = good("p.ini", text);
    assert_eq!(settings.global.server_check_query, "select 1; -- # all of it");
    assert_eq!(settings.databases["it's a db"].dbname, "x");
    assert_eq!(settings.databases["with.dot-and_*"].dbname, "y");
}

#[test]
fn files_include_others_in_the_section_they_are_in() {
    let ground = Ground::new();
    ground.file("extra.ini", "verbose = 3\n[databases]\n");
    ground.file("more.ini", "a = host=h\n");
    let text = "[pgbouncer]\nauth_file = $DIR/users.txt\n%include $DIR/extra.ini\n%include $DIR/more.ini\n";
    let settings = ground.load("p.ini", text).unwrap();
    assert_eq!((settings.global.verbose, settings.databases["a"].hosts.len()), (3, 1));
    assert_eq!(settings.files.len(), 4);
}

#[test]
fn a_problem_in_an_included_file_names_that_file() {
    let ground = Ground::new();
    let extra = ground.file("extra.ini", "\nverbose = loud\n");
    let problems = ground.load("p.ini", "[pgbouncer]\n%include $DIR/extra.ini\n").unwrap_err();
    assert_eq!((problems[0].file.as_ref(), problems[0].line), (Some(&extra), Some(2)));
}

#[test]
fn includes_that_close_a_circle_are_refused() {
    let ground = Ground::new();
    let problems = ground.load("p.ini", "[pgbouncer]\n%include $DIR/p.ini\n").unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].reason.contains("includes itself"));
    one(
        "p.ini",
        "[pgbouncer]\n\n%include /no/such/file\n",
        "3 %include cannot read /no/such/file",
        "readable",
    );
}

#[test]
fn an_ini_may_hold_keys_of_pgfleet_and_peers() {
    let settings =
        good("p.ini", "[pgbouncer]\nworkers = 50%\ndrain_timeout = 1min\n[peers]\n1 = host=/tmp\n");
    assert_eq!(settings.global.show("workers").as_deref(), Some("50%"));
    assert!(settings.notes.iter().any(|note| note.contains("p.ini:5: peers: accepted without")));
    assert!(settings.notes.iter().any(|note| note.starts_with("unix_socket_dir: not set")));
}

#[test]
fn each_bad_line_is_named() {
    let text = "early = 1\n[pgbouncer]\nmax_client_con = 5\nno equals\n= 5\n%exclude x\n[broken\n[database]\nx = y\n[pgbouncer]\npool_mode = session ; note\n'open = 1\n[users]\nu = colour=red\n";
    let found = bad("p.ini", text);
    let expected = [
        ("1 early stands before the first section", ""),
        ("3 max_client_con unknown key", "did you mean max_client_conn?"),
        ("4 - there must be = after the key", ""),
        ("5 - a key has letters", ""),
        ("6 - not a directive", "key = value"),
        ("7 - a section header must end with ]", ""),
        ("8 database unknown section", "did you mean [databases]?"),
        ("11 pool_mode must be one of session", "a line of its own"),
        ("12 - a key has letters", ""),
        ("14 users.u.colour unknown key", ""),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (start, part)) in found.iter().zip(expected) {
        assert!(found.starts_with(start) && found.contains(part), "{found}");
    }
}

#[test]
fn the_main_section_must_be_there() {
    one("p.ini", "[users]\n", "- - there is no [pgbouncer] section", "");
    one("p.ini", "", "- - there is no [pgbouncer] section", "");
}

#[test]
fn a_file_that_is_not_text_is_a_problem() {
    let ground = Ground::new();
    std::fs::write(ground.path("p.ini"), [b'[', 0xff, 0xfe, 0]).unwrap();
    assert_eq!(load_with(&ground.path("p.ini"), &[]).unwrap_err().len(), 1);
}

#[test]
fn files_that_include_each_other_too_deep_are_refused() {
    let ground = Ground::new();
    for depth in 1..=11 {
        let next = depth + 1;
        ground.file(&format!("{depth}.ini"), &format!("%include $DIR/{next}.ini\n"));
    }
    ground.file("12.ini", "");
    let problems = ground.load("p.ini", "[pgbouncer]\n%include $DIR/1.ini\n").unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].reason.contains("more than 10 deep"));
    assert!(ground.load("p.ini", "[pgbouncer]\n%include $DIR/3.ini\n").is_ok());
}

#[test]
fn a_section_of_our_own_does_not_wipe_the_main_one() {
    let text = "[pgbouncer]\nverbose=1\nauth_file=$DIR/users.txt\n[pgfleet]\nworkers=3\n[databases]\n'a[0].b' = host=h\n";
    let settings = good("p.ini", text);
    assert_eq!(
        (settings.global.verbose, settings.global.show("workers").as_deref()),
        (1, Some("3"))
    );
    assert_eq!(settings.databases["a[0].b"].hosts, ["h"]);
}
