//! The table of keys held against PgBouncer's: every documented key, its default, and whether it can be changed live.

use crate::{Database, KEYS, Key, Origin, Reload, User};

/// `key default`, then what is at odds and why: `R` changeable, `N` only at the start.
const GENERIC: &str = "\
logfile R
pidfile N
listen_addr N
listen_port N 6432
listen_backlog N 128
unix_socket_dir N /tmp
unix_socket_mode N 0777
unix_socket_group N
user N
pool_mode R session
max_client_conn R 100
default_pool_size R 20
min_pool_size R 0
reserve_pool_size R 0
reserve_pool_timeout R 5
max_db_connections R 0
max_db_client_connections R 0
max_user_connections R 0
max_user_client_connections R 0
server_round_robin R 0
track_extra_parameters N IntervalStyle
ignore_startup_parameters R
peer_id R 0
disable_pqexec N 0
application_name_add_host R 0
conffile R
job_name N pgbouncer
stats_period R 60
max_prepared_statements R 200
scram_iterations R 4096
resolv_conf N
autodb_idle_timeout R 3600
pool_idle_timeout R 0
dns_max_ttl R 15
dns_nxdomain_ttl R 15
dns_zone_check_period R 0
syslog R 0
syslog_ident R pgbouncer
syslog_facility R daemon
log_connections R 1
log_disconnections R 1
log_pooler_errors R 1
log_stats R 1
verbose R 0
admin_users R
stats_users R
auth_type R md5
auth_file R
auth_hba_file R
auth_ident_file R
auth_user R
auth_query R SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin
auth_dbname R
auth_ldap_options R
login_notify_message R
server_reset_query R DISCARD ALL
server_reset_query_always R 0
server_check_delay R 30
server_check_query R <empty>
server_fast_close R 0
server_lifetime R 3600
server_idle_timeout R 600
server_connect_timeout R 15
server_login_retry R 15
client_login_timeout R 60
query_timeout R 0
query_wait_timeout R 120
query_wait_notify R 5
cancel_wait_timeout R 10
client_idle_timeout R 0
idle_transaction_timeout R 0
transaction_timeout R 0
suspend_timeout R 10
client_tls_sslmode R disable
client_tls_key_file R
client_tls_cert_file R
client_tls_ca_file R
client_tls_protocols R secure
client_tls_ciphers R default
client_tls13_ciphers R
client_tls_ecdhcurve R auto
client_tls_dheparams R auto
server_tls_sslmode R prefer
server_tls_ca_file R
server_tls_key_file R
server_tls_cert_file R
server_tls_protocols R secure
server_tls_ciphers R default
server_tls13_ciphers R
pkt_buf N 4096
max_packet_size R 2147483647
sbuf_loopcnt R 5
so_reuseport N 0
tcp_defer_accept R 1
tcp_socket_buffer R 0
tcp_keepalive R 1
tcp_keepcnt R 0
tcp_keepidle R 0
tcp_keepintvl R 0
tcp_user_timeout R 0";

/// Where a fleet has another default, and why.
const OTHER_DEFAULTS: [(&str, &str); 1] =
    // Several fleets on one machine must not meet in /tmp; documented and noted when an ini leaves it out.
    [("unix_socket_dir", "auto")];

#[test]
fn every_key_of_pgbouncer_is_there_with_its_default_and_kind_of_change() {
    for line in GENERIC.lines() {
        let mut words = line.splitn(3, ' ');
        let (name, change) = (words.next().unwrap(), words.next().unwrap());
        let default = words.next().unwrap_or_default();
        let key = Key::of(name).unwrap_or_else(|| panic!("{name} is missing"));
        let other = OTHER_DEFAULTS.iter().find(|(key, _)| *key == name);
        assert_eq!(key.default, other.map_or(default, |(_, own)| own), "{name}");
        let reload = if change == "R" { Reload::Live } else { Reload::Restart };
        assert_eq!((key.reload, key.origin), (reload, Origin::PgBouncer), "{name}");
    }
}

#[test]
fn no_key_says_that_it_is_pgbouncers_and_is_not() {
    let known: Vec<&str> = GENERIC.lines().filter_map(|line| line.split(' ').next()).collect();
    let claimed = KEYS.iter().filter(|key| key.origin == Origin::PgBouncer);
    assert_eq!(
        claimed.map(|key| key.name).collect::<Vec<_>>(),
        known,
        "the order is SHOW CONFIG's"
    );
}

#[test]
fn the_entries_take_every_key_of_pgbouncer() {
    let databases = "dbname host port load_balance_hosts user password auth_user auth_query auth_dbname pool_size min_pool_size reserve_pool_size reserve_pool max_db_connections max_db_client_connections pool_mode server_lifetime query_wait_timeout connect_query client_encoding datestyle timezone application_name";
    let users = "pool_mode pool_size reserve_pool_size max_user_connections max_user_client_connections query_timeout idle_transaction_timeout transaction_timeout client_idle_timeout query_wait_timeout";
    for (listed, keys) in [(databases, Database::KEYS), (users, User::KEYS)] {
        let mut expected: Vec<&str> = listed.split(' ').collect();
        let mut found = keys.to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
