//! Which of user, database and global holds.

use std::{path::Path, time::Duration};

use super::good;
use crate::{PoolMode, Settings, console_dir, find, runtime_dir};

fn settings() -> Settings {
    good(
        "pgfleet.toml",
        r#"
auth_file = "users.txt"
default_pool_size = 30
max_db_client_connections = 40
max_user_connections = 50
query_timeout = 60
[databases]
plain = ""
own = "pool_size=5 min_pool_size=2 reserve_pool_size=3 pool_mode=transaction query_wait_timeout=7 max_db_connections=9 max_db_client_connections=0 server_lifetime=11"
forced = "user=boss"
[users.boss]
pool_mode = "transaction"
pool_size = 8
query_wait_timeout = 0
query_timeout = 0
transaction_timeout = 4
max_user_connections = 0
"#,
    )
}

#[test]
fn the_user_beats_the_database_and_that_the_global() {
    let s = settings();
    let (plain, own, forced) = (&s.databases["plain"], &s.databases["own"], &s.databases["forced"]);
    assert_eq!(
        [
            s.pool_size(plain, "x"),
            s.pool_size(own, "x"),
            s.pool_size(own, "boss"),
            s.pool_size(forced, "x")
        ],
        [30, 5, 8, 8]
    );
    assert_eq!(s.pool_mode(plain, "x"), PoolMode::Session);
    assert_eq!(s.pool_mode(own, "x"), PoolMode::Transaction);
    assert_eq!(s.pool_mode(forced, "x"), PoolMode::Transaction);
    assert_eq!((s.min_pool_size(own), s.min_pool_size(plain)), (2, 0));
    assert_eq!((s.reserve_pool_size(own, "x"), s.reserve_pool_size(plain, "x")), (3, 0));
    assert_eq!((s.max_db_connections(own), s.max_db_connections(plain)), (9, 0));
    assert_eq!(s.max_db_client_connections(own), 40);
    assert_eq!((s.max_user_connections("boss"), s.max_user_connections("x")), (0, 50));
    assert_eq!(s.max_user_client_connections("boss"), 0);
}

#[test]
fn timeouts_of_zero_mean_the_global_one_where_pgbouncer_says_so() {
    let s = settings();
    let seconds = Duration::from_secs;
    let (plain, own) = (&s.databases["plain"], &s.databases["own"]);
    assert_eq!((s.query_timeout("boss"), s.query_timeout("x")), (seconds(60), seconds(60)));
    assert_eq!(
        (s.transaction_timeout("boss"), s.transaction_timeout("x")),
        (seconds(4), seconds(0))
    );
    assert_eq!(
        (s.idle_transaction_timeout("x"), s.client_idle_timeout("x")),
        (seconds(0), seconds(0))
    );
    assert_eq!(
        (s.query_wait_timeout(plain, "x"), s.query_wait_timeout(own, "x")),
        (seconds(120), seconds(7))
    );
    assert_eq!(s.query_wait_timeout(own, "boss"), seconds(0));
    assert_eq!((s.server_lifetime(own), s.server_lifetime(plain)), (seconds(11), seconds(3600)));
}

#[test]
fn paths_follow_the_settings() {
    let own = good("pgfleet.toml", "runtime_dir = \"/srv/fleet\"\n");
    assert_eq!(runtime_dir(&own), Path::new("/srv/fleet"));
    assert_eq!(console_dir(Path::new("/srv/fleet")), Path::new("/srv/fleet/console"));
    let dropped = good("pgfleet.toml", "user = \"postgres\"\n");
    assert_eq!(runtime_dir(&dropped), Path::new("/run/pgfleet"));
    assert!(runtime_dir(&Settings::default()).is_absolute());
    assert_eq!(find(Some(Path::new("/given"))).as_deref(), Some(Path::new("/given")));
}
