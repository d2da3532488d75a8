//! What a new cluster is made with: settings, logins and roles.
//! It never depends on the machine but for the port and the socket.
//! `Cluster` writes it.

use crate::port;

/// Arguments of `initdb`.
pub(super) const INITDB: [&str; 7] = [
    "--username=postgres",
    "--auth=trust",
    "--no-sync",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    "--no-clean",
];

/// Who logs in how. The users without a line of their own use SCRAM.
pub(super) const HBA: &str = "\
local all         all                            trust
local replication all                            trust
host  all         postgres,raw  127.0.0.1/32     trust
host  all         postgres,raw  ::1/128          trust
host  all         md5user       127.0.0.1/32     md5
host  all         md5user       ::1/128          md5
host  all         plain         127.0.0.1/32     password
host  all         plain         ::1/128          password
host  all         all           127.0.0.1/32     scram-sha-256
host  all         all           ::1/128          scram-sha-256
";

/// Every database lets every user make tables.
pub(super) const TEMPLATE: &str = "grant all on schema public to public";

/// The users.
pub(super) const ROLES: &str = "
create role app login password 's3cret';
create role plain login password 's3cret';
create role raw login;
create role replica login replication password 's3cret';
set password_encryption = 'md5';
create role md5user login password 's3cret';
";

/// Settings of a cluster that may lose everything at any time.
pub(super) fn settings(port: u16, socket_dir: &str) -> String {
    let addresses = if port::has_ipv6() { "127.0.0.1,::1" } else { "127.0.0.1" };
    format!(
        "listen_addresses = '{addresses}'
port = {port}
unix_socket_directories = '{socket_dir}'
max_connections = 300
shared_buffers = '64MB'
fsync = off
synchronous_commit = off
full_page_writes = off
autovacuum = off
wal_level = logical
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u@%d %e '
"
    )
}
