//! The TOML that we take.

use std::time::Duration;

use super::{Ground, good};
use crate::{LoadBalance, PoolMode, Workers, load::load_with};

#[test]
fn an_empty_file_has_the_defaults() {
    let settings = good("pgfleet.toml", "");
    assert_eq!(settings.global.default_pool_size, 20);
    assert_eq!(settings.global.unix_socket_dir, settings.global.runtime_dir);
    assert!(settings.notes.is_empty() && settings.files.len() == 1);
}

#[test]
fn values_take_their_natural_forms() {
    let global = good(
        "pgfleet.toml",
        r#"
listen_addr = ["127.0.0.1", "::1"]
admin_users = "anna, bert"
query_timeout = "5min"
server_check_delay = 0.5
tcp_user_timeout = "2s"
max_packet_size = "64MiB"
log_connections = false
server_round_robin = 1
unix_socket_mode = 0o700
workers = 2
pool_mode = "transaction"
server_reset_query = ""
max_client_conn = "500"
"#,
    )
    .global;
    assert_eq!(global.listen_addr, ["127.0.0.1", "::1"]);
    assert_eq!(global.admin_users, ["anna", "bert"]);
    assert_eq!(global.query_timeout, Duration::from_secs(300));
    assert_eq!(global.server_check_delay, Duration::from_millis(500));
    assert_eq!((global.tcp_user_timeout, global.max_packet_size), (2000, 64 << 20));
    assert_eq!((global.log_connections, global.server_round_robin), (false, true));
    assert_eq!((global.unix_socket_mode, global.workers), (0o700, Workers::Count(2)));
    assert_eq!((global.pool_mode, global.server_reset_query.as_str()), (PoolMode::Transaction, ""));
    assert_eq!(global.max_client_conn, 500);
}

#[test]
fn databases_are_strings_or_tables() {
    let settings = good(
        "pgfleet.toml",
        r#"
auth_file = "users.txt"
[databases]
one = "host=a,b port=5433 dbname='the one' pool_size=-1 load_balance_hosts=disable"
two = { host = ["10.0.0.1", "/run/pg"], pool_size = 7, query_wait_timeout = "1min" }
[databases."with.dot"]
user = "u"
connect_query = "select 'x'"
[databases."*"]
host = "fallback"
[users]
short = "pool_mode=transaction query_timeout=3"
[users.long]
max_user_connections = 9
"#,
    );
    let one = &settings.databases["one"];
    assert_eq!(
        (one.hosts.len(), one.port, one.dbname.as_str(), one.pool_size),
        (2, 5433, "the one", None)
    );
    assert_eq!(one.load_balance_hosts, LoadBalance::Disable);
    let two = &settings.databases["two"];
    assert_eq!((two.hosts[1].as_str(), two.pool_size), ("/run/pg", Some(7)));
    assert_eq!(two.query_wait_timeout, Some(Duration::from_secs(60)));
    assert_eq!(settings.databases["with.dot"].connect_query.as_deref(), Some("select 'x'"));
    assert_eq!(settings.users["short"].pool_mode, Some(PoolMode::Transaction));
    assert_eq!(settings.users["long"].max_user_connections, Some(9));
    let other = settings.database("other").unwrap();
    assert_eq!((other.name.as_str(), other.dbname.as_str()), ("other", "other"));
    assert_eq!(other.hosts, ["fallback"]);
}

#[test]
fn a_template_with_a_dbname_keeps_it() {
    let settings =
        good("pgfleet.toml", "auth_file = \"users.txt\"\n[databases]\n\"*\" = \"dbname=all\"\n");
    assert_eq!(settings.database("x").unwrap().dbname, "all");
    assert_eq!(settings.database("x").unwrap().name, "x");
    assert!(good("pgfleet.toml", "").database("x").is_none());
}

#[test]
fn paths_are_relative_to_the_file() {
    let ground = Ground::new();
    let settings =
        ground.load("pgfleet.toml", "auth_file = \"users.txt\"\nlogfile = \"/abs.log\"\n").unwrap();
    assert_eq!(settings.global.auth_file, Some(ground.path("users.txt")));
    assert_eq!(settings.global.show("logfile").as_deref(), Some("/abs.log"));
    assert_eq!(settings.userlist["app"], "secret");
    assert_eq!(settings.files, [ground.path("pgfleet.toml"), ground.path("users.txt")]);
}

#[test]
fn sockets_can_be_off_abstract_or_elsewhere() {
    let off = good("pgfleet.toml", "unix_socket_dir = \"\"\nlisten_addr = \"*\"\n");
    assert_eq!(off.global.unix_socket_dir, None);
    let hidden = good("pgfleet.toml", "unix_socket_dir = \"@fleet\"\n");
    assert_eq!(hidden.global.show("unix_socket_dir").as_deref(), Some("@fleet"));
    let own = good("pgfleet.toml", "runtime_dir = \"/run/other\"\n");
    assert_eq!(own.global.show("unix_socket_dir").as_deref(), Some("/run/other"));
}

#[test]
fn a_missing_file_is_one_problem() {
    let problems = load_with(&Ground::new().path("none.toml"), &[]).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().contains("none.toml: cannot read the configuration"));
}
