//! The one table of keys: every setting of the fleet, its default and its meaning.
//! The struct, the loaders, `SHOW CONFIG`, the man page and the sample file come from these rows and cannot drift apart.
//! Nothing here reads a file or looks at the machine.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    AuthType, LimitMode, Password, PoolMode, ServerProtocol, SslMode, Workers,
    fault::Fault,
    form::{
        Count, File, Flag, Form, List, Millis, Mode, Optional, Port, Seconds, Secret, Size, Text,
    },
    key::{Key, Origin, Reload, Standing, keys},
    raw::Raw,
};

use Standing::{Honoured, Meaningless, NotYet};

const NO_SYSLOG: Standing = NotYet("logs go to standard error and logfile");
const NO_TLS: Standing = NotYet("TLS is not supported in this version");

keys! {
    // Generic
    logfile: Option<PathBuf>, File, "", Live, Honoured, PgBouncer, "Append the log to this file; empty means standard error alone.";
    pidfile: Option<PathBuf>, File, "", Restart, Honoured, PgBouncer, "Write the process id of the supervisor to this file.";
    listen_addr: Vec<String>, List, "", Restart, Honoured, PgBouncer, "Addresses to listen on for TCP; * means all, empty means Unix sockets alone.";
    listen_port: u16, Port, "6432", Restart, Honoured, PgBouncer, "Port for TCP, and in the name of the Unix socket.";
    listen_backlog: u32, Count, "128", Restart, Honoured, PgBouncer, "Length of the queue of connections that nobody has accepted yet, for each listener.";
    unix_socket_dir: Option<PathBuf>, File, "auto", Restart, Honoured, PgBouncer, "Directory of the Unix socket for clients, @NAME for an abstract one; auto means the runtime directory, empty turns it off.";
    unix_socket_mode: u32, Mode, "0777", Restart, Honoured, PgBouncer, "Permissions of the Unix socket for clients, in octal.";
    unix_socket_group: Option<String>, Optional, "", Restart, Honoured, PgBouncer, "Group of the Unix socket for clients.";
    user: Option<String>, Optional, "", Restart, Honoured, PgBouncer, "Run as this user when started as root.";
    pool_mode: PoolMode, PoolMode, "session", Live, Honoured, PgBouncer, "When a client gives its server back: session, transaction or statement.";
    max_client_conn: u32, Count, "100", Live limit, Honoured, PgBouncer, "Client connections of the fleet.";
    default_pool_size: u32, Count, "20", Live limit, Honoured, PgBouncer, "Server connections of each pool, that is each database and user; 0 means no limit.";
    min_pool_size: u32, Count, "0", Live limit, Honoured, PgBouncer, "Server connections to keep open in each pool that is in use.";
    reserve_pool_size: u32, Count, "0", Live limit, Honoured, PgBouncer, "More server connections for a pool whose clients wait longer than reserve_pool_timeout; 0 turns it off.";
    reserve_pool_timeout: Duration, Seconds, "5", Live, Honoured, PgBouncer, "How long a client waits before its pool takes from the reserve.";
    max_db_connections: u32, Count, "0", Live limit, Honoured, PgBouncer, "Server connections of each database; 0 means no limit.";
    max_db_client_connections: u32, Count, "0", Live limit, Honoured, PgBouncer, "Client connections of each database; 0 means no limit.";
    max_user_connections: u32, Count, "0", Live limit, Honoured, PgBouncer, "Server connections of each user; 0 means no limit.";
    max_user_client_connections: u32, Count, "0", Live limit, Honoured, PgBouncer, "Client connections of each user; 0 means no limit.";
    server_round_robin: bool, Flag, "0", Live, Honoured, PgBouncer, "Lend the server that has been idle longest instead of the one used last.";
    track_extra_parameters: Vec<String>, List, "IntervalStyle", Restart, Honoured, PgBouncer, "More parameters to keep for each client, of those that Postgres reports.";
    ignore_startup_parameters: Vec<String>, List, "", Live, Honoured, PgBouncer, "Startup parameters to drop instead of refusing the client; may hold options.";
    peer_id: u32, Count, "0", Live, Meaningless("the workers of a fleet know each other"), PgBouncer, "Number of this process among its peers.";
    disable_pqexec: bool, Flag, "0", Restart, Honoured, PgBouncer, "Refuse simple queries, which one string can make many statements of.";
    application_name_add_host: bool, Flag, "0", Live, Honoured, PgBouncer, "Add the address of the client to its application_name.";
    conffile: Option<PathBuf>, File, "", Live, Honoured, PgBouncer, "The configuration file that the next reload reads; empty means the one of the start.";
    job_name: String, Text, "pgbouncer", Restart, Meaningless("it names a Windows service"), PgBouncer, "Name of the service on Windows; also spelled service_name.";
    stats_period: Duration, Seconds, "60", Live, Honoured, PgBouncer, "Time over which the averages in SHOW STATS and in the log are taken.";
    max_prepared_statements: u32, Count, "200", Live, NotYet("a client that has prepared a statement keeps its server"), PgBouncer, "Prepared statements to keep on each server; 0 turns their handling off.";
    scram_iterations: u32, Count, "4096", Live, Honoured, PgBouncer, "Iterations of the SCRAM secrets that are made from passwords.";
    resolv_conf: Option<PathBuf>, File, "", Restart, Honoured, PgBouncer, "File with the settings of the resolver, instead of /etc/resolv.conf; a name server in it may have a port.";
    autodb_idle_timeout: Duration, Seconds, "3600", Live, Honoured, PgBouncer, "Drop a database made from * that nobody used for this long.";
    pool_idle_timeout: Duration, Seconds, "0", Live, Honoured, PgBouncer, "Drop an empty pool after this long; 0 turns it off.";
    dns_max_ttl: Duration, Seconds, "15", Live, Honoured, PgBouncer, "How long a resolved name is remembered; one that servers are connected to is then looked up again.";
    dns_nxdomain_ttl: Duration, Seconds, "15", Live, Honoured, PgBouncer, "How long it is remembered that a name does not resolve.";
    dns_zone_check_period: Duration, Seconds, "0", Live, Honoured, PgBouncer, "How often to look whether a zone has changed; 0 turns it off.";
    // Logging
    syslog: bool, Flag, "0", Live, NO_SYSLOG, PgBouncer, "Log to syslog too.";
    syslog_ident: String, Text, "pgbouncer", Live, NO_SYSLOG, PgBouncer, "Name under which to log to syslog.";
    syslog_facility: String, Text, "daemon", Live, NO_SYSLOG, PgBouncer, "Facility under which to log to syslog.";
    log_connections: bool, Flag, "1", Live, Honoured, PgBouncer, "Log each login.";
    log_disconnections: bool, Flag, "1", Live, Honoured, PgBouncer, "Log each end of a connection, with its reason.";
    log_pooler_errors: bool, Flag, "1", Live, Honoured, PgBouncer, "Log each error that a client gets from the pooler itself.";
    log_stats: bool, Flag, "1", Live, Honoured, PgBouncer, "Log a line of totals in each stats_period.";
    verbose: u32, Count, "0", Live, Honoured, PgBouncer, "How much more to log: 0 to 3.";
    // Console access
    admin_users: Vec<String>, List, "", Live, Honoured, PgBouncer, "Users who may run every console command.";
    stats_users: Vec<String>, List, "", Live, Honoured, PgBouncer, "Users who may run the SHOW commands of the console.";
    // Authentication
    auth_type: AuthType, AuthType, "md5", Live, Honoured, PgBouncer, "How clients prove who they are: any, trust, plain, md5, scram-sha-256, cert, hba, ldap or pam.";
    auth_file: Option<PathBuf>, File, "", Live, Honoured, PgBouncer, "File with the users and their secrets, one \"user\" \"secret\" a line.";
    auth_hba_file: Option<PathBuf>, File, "", Live, Honoured, PgBouncer, "Rules of who may log in, for auth_type=hba.";
    auth_ident_file: Option<PathBuf>, File, "", Live, Honoured, PgBouncer, "Map of user names, for auth_type=hba.";
    auth_user: Option<String>, Optional, "", Live, Honoured, PgBouncer, "User who looks up secrets in Postgres.";
    auth_query: String, Text, "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END FROM pg_authid WHERE rolname=$1 AND rolcanlogin", Live, Honoured, PgBouncer, "Query that looks up a secret in Postgres.";
    auth_dbname: Option<String>, Optional, "", Live, Honoured, PgBouncer, "Database in which secrets are looked up.";
    auth_ldap_options: Option<Password>, Secret, "", Live, Honoured, PgBouncer, "Options for auth_type=ldap.";
    login_notify_message: String, Text, "", Live, Honoured, PgBouncer, "Notice to send to each client after its login.";
    // Timeouts and sanity checks
    server_reset_query: String, Text, "DISCARD ALL", Live, Honoured, PgBouncer, "Query that cleans a server before another client gets it, in session mode; empty means none.";
    server_reset_query_always: bool, Flag, "0", Live, Honoured, PgBouncer, "Run server_reset_query in every pool mode.";
    server_check_delay: Duration, Seconds, "30", Live, Honoured, PgBouncer, "Check a server that has been idle for longer before it is lent.";
    server_check_query: String, Text, "<empty>", Live, Honoured, PgBouncer, "Query for that check; the default sends an empty query, an empty value turns the check off.";
    server_fast_close: bool, Flag, "0", Live, Honoured, PgBouncer, "In session mode, close a server that is to be closed as soon as it is in no transaction.";
    server_lifetime: Duration, Seconds, "3600", Live, Honoured, PgBouncer, "Close a server that is older, once it is not in use; 0 closes it after one use.";
    server_idle_timeout: Duration, Seconds, "600", Live, Honoured, PgBouncer, "Close a server that has been idle for longer; 0 turns it off.";
    server_connect_timeout: Duration, Seconds, "15", Live, Honoured, PgBouncer, "How long connecting and logging in to a server may take.";
    server_login_retry: Duration, Seconds, "15", Live, Honoured, PgBouncer, "How long to wait after a failed connection to a server before the next try.";
    client_login_timeout: Duration, Seconds, "60", Live, Honoured, PgBouncer, "How long a client may take to log in; 0 turns it off.";
    query_timeout: Duration, Seconds, "0", Live, Honoured, PgBouncer, "How long a query may run; 0 turns it off.";
    query_wait_timeout: Duration, Seconds, "120", Live, Honoured, PgBouncer, "How long a client may wait for a server; 0 turns it off.";
    query_wait_notify: Duration, Seconds, "5", Live, Honoured, PgBouncer, "Tell a client that it is waiting after this long; 0 turns it off.";
    cancel_wait_timeout: Duration, Seconds, "10", Live, Honoured, PgBouncer, "How long a cancel request may wait for its connection; 0 turns it off.";
    client_idle_timeout: Duration, Seconds, "0", Live, Honoured, PgBouncer, "How long a client may be idle outside of a transaction; 0 turns it off.";
    idle_transaction_timeout: Duration, Seconds, "0", Live, Honoured, PgBouncer, "How long a client may be idle inside a transaction; 0 turns it off.";
    transaction_timeout: Duration, Seconds, "0", Live, Honoured, PgBouncer, "How long a transaction may take; 0 turns it off.";
    suspend_timeout: Duration, Seconds, "10", Live, Honoured, PgBouncer, "How long SUSPEND waits for buffers to empty before it drops their connections; 0 means for ever.";
    // TLS
    client_tls_sslmode: SslMode, SslMode, "disable", Live, NO_TLS, PgBouncer, "TLS with clients: disable, allow, prefer, require, verify-ca or verify-full.";
    client_tls_key_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Private key for TLS with clients.";
    client_tls_cert_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Certificate for TLS with clients.";
    client_tls_ca_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Certificates of those who may sign client certificates.";
    client_tls_protocols: String, Text, "secure", Live, NO_TLS, PgBouncer, "TLS versions with clients.";
    client_tls_ciphers: String, Text, "default", Live, NO_TLS, PgBouncer, "Ciphers with clients, up to TLS 1.2.";
    client_tls13_ciphers: Option<String>, Optional, "", Live, NO_TLS, PgBouncer, "Ciphers with clients, TLS 1.3.";
    client_tls_ecdhcurve: String, Text, "auto", Live, NO_TLS, PgBouncer, "Curve for the key exchange with clients.";
    client_tls_dheparams: String, Text, "auto", Live, NO_TLS, PgBouncer, "Diffie-Hellman parameters with clients.";
    server_tls_sslmode: SslMode, SslMode, "prefer", Live, NO_TLS, PgBouncer, "TLS with servers: disable, allow, prefer, require, verify-ca or verify-full.";
    server_tls_ca_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Certificates of those who may sign server certificates.";
    server_tls_key_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Private key for TLS with servers.";
    server_tls_cert_file: Option<PathBuf>, File, "", Live, NO_TLS, PgBouncer, "Certificate for TLS with servers.";
    server_tls_protocols: String, Text, "secure", Live, NO_TLS, PgBouncer, "TLS versions with servers.";
    server_tls_ciphers: String, Text, "default", Live, NO_TLS, PgBouncer, "Ciphers with servers, up to TLS 1.2.";
    server_tls13_ciphers: Option<String>, Optional, "", Live, NO_TLS, PgBouncer, "Ciphers with servers, TLS 1.3.";
    // Network
    pkt_buf: u32, Size, "4096", Restart, Meaningless("the relay sizes its own buffers"), PgBouncer, "Size of the buffer of each connection.";
    max_packet_size: u32, Size, "2147483647", Live, Honoured, PgBouncer, "Longest message that is accepted.";
    sbuf_loopcnt: u32, Count, "5", Live, Meaningless("the relay shares its time out itself"), PgBouncer, "Reads from one connection before the next one has its turn.";
    so_reuseport: bool, Flag, "0", Restart, Meaningless("the fleet opens its own SO_REUSEPORT listeners"), PgBouncer, "Let several processes listen on one port.";
    tcp_defer_accept: bool, Flag, "1", Live, Honoured, PgBouncer, "Accept a TCP connection only once it has sent something.";
    tcp_socket_buffer: u32, Size, "0", Live, Honoured, PgBouncer, "Size of the kernel's buffers of each TCP connection; 0 means the system's.";
    tcp_keepalive: bool, Flag, "1", Live, Honoured, PgBouncer, "Probe silent TCP connections.";
    tcp_keepcnt: u32, Count, "0", Live, Honoured, PgBouncer, "Probes without answer before a TCP connection is given up; 0 means the system's.";
    tcp_keepidle: u32, Count, "0", Live, Honoured, PgBouncer, "Silent seconds before the first probe; 0 means the system's.";
    tcp_keepintvl: u32, Count, "0", Live, Honoured, PgBouncer, "Seconds between two probes; 0 means the system's.";
    tcp_user_timeout: u32, Millis, "0", Live, Honoured, PgBouncer, "How long sent data may stay unacknowledged; 0 means the system's.";
    // The fleet
    workers: Workers, Workers, "auto", Live, Honoured, Pgfleet, "Number of workers: auto (one for each usable core), a number, or a percentage of the cores.";
    runtime_dir: Option<PathBuf>, File, "auto", Restart, Honoured, Pgfleet, "Directory for the console socket, the locks and the pid; auto means /run/pgfleet or one of the user's.";
    server_protocol: ServerProtocol, ServerProtocol, "3.0", Live, Honoured, Pgfleet, "Version of the protocol to ask servers for: 3.0, or 3.2 for the long cancel keys of Postgres 18.";
    limit_mode: LimitMode, LimitMode, "divided", Restart, Honoured, Pgfleet, "How the workers keep to the limits of the fleet: divided (each has its part) or shared.";
    drain_timeout: Duration, Seconds, "60", Live, Honoured, Pgfleet, "How long a worker that goes away may wait for its clients to finish.";
    heartbeat_timeout: Duration, Seconds, "5", Live, Honoured, Pgfleet, "How long a worker may be silent before it is taken for hung and replaced.";
    cpu_affinity: bool, Flag, "0", Restart, Honoured, Pgfleet, "Pin each worker to a core of its own.";
}
