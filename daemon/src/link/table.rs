//! Typed tables of the console: columns, types and the rule by which each column is merged.
//!
//! A worker answers a [`Question`] with rows that have one [`Value`] for each column of the
//! question's [`Spec`]; the supervisor merges the rows of all workers by the same spec, so that
//! headers, rows and merges cannot drift apart. Column names and order are PgBouncer's.

use serde::{Deserialize, Serialize};

/// One value of one column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Value {
    Null,
    Text(String),
    Int(i64),
}

/// One value for each column of the spec, in its order.
pub(crate) type Row = Vec<Value>;

/// The Postgres type that a column is announced with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Int4,
    Int8,
    Numeric,
    Bytes,
}

impl Type {
    /// Its object id in `pg_type`.
    pub(crate) fn oid(self) -> u32 {
        match self {
            Self::Text => 25,
            Self::Int4 => 23,
            Self::Int8 => 20,
            Self::Numeric => 1700,
            Self::Bytes => 17,
        }
    }
}

/// How the values of one column of several workers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Part of the row's identity: rows with equal keys are merged.
    Key,
    Sum,
    Max,
    /// They are the same everywhere, or any of them will do.
    First,
    /// Rows are not merged: each belongs to one worker (CLIENTS, SERVERS). If one column of a spec
    /// has this rule, all rows are kept.
    PerWorker,
    /// Not from the workers: the supervisor fills it in (averages, the worker's name, limits).
    Supervisor,
}

/// The name of the statistics of all databases that are gone; no client can ask for one of this name.
pub(crate) const FOLDED: &str = "\0";

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    pub(crate) merge: Merge,
}

/// A table that workers contribute to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    Pools,
    Clients,
    Servers,
    /// Totals of each database since the worker's start.
    Stats,
    /// Current connections of each database.
    Databases,
    /// Current connections of each user.
    Users,
    /// The counts of SHOW LISTS.
    Lists,
    /// name, size, used, free, memtotal.
    Mem,
    /// Resolved host names.
    DnsHosts,
    /// The zones of those names.
    DnsZones,
    /// What SHOW WORKERS needs of each worker.
    Workers,
    /// Clients and servers with what is buffered for them.
    Sockets,
    /// The same, of those that are at work.
    ActiveSockets,
    /// Every descriptor, with what belongs to it.
    Fds,
    /// Of each database the servers that are not gone, and those of them that are to be closed; under an
    /// empty name the sockets with something unsent.
    Busy,
    /// To how many an order was done.
    Done,
}

/// What a console statement is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// NOTICE texts, sent first.
    pub(crate) notices: Vec<String>,
    pub(crate) outcome: Outcome,
}

/// The end of a console statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// Headers (name, type oid) and rows of text.
    Table {
        columns: Vec<(String, u32)>,
        rows: Vec<Vec<Option<String>>>,
        tag: String,
    },
    /// A command without rows: its command tag.
    Done {
        tag: String,
    },
    Refused {
        sqlstate: String,
        message: String,
    },
}

macro_rules! spec {
    ($name:ident: $($column:literal $kind:ident $merge:ident),+ $(,)?) => {
        const $name: &[Column] = &[$(Column { name: $column, kind: Type::$kind, merge: Merge::$merge }),+];
    };
}

spec!(POOLS:
    "database" Text Key, "user" Text Key,
    "cl_active" Int4 Sum, "cl_waiting" Int4 Sum, "cl_active_cancel_req" Int4 Sum, "cl_waiting_cancel_req" Int4 Sum,
    "sv_active" Int4 Sum, "sv_active_cancel" Int4 Sum, "sv_being_canceled" Int4 Sum, "sv_idle" Int4 Sum,
    "sv_used" Int4 Sum, "sv_tested" Int4 Sum, "sv_login" Int4 Sum,
    "maxwait" Int4 Max, "maxwait_us" Int4 Max, "pool_mode" Text First, "load_balance_hosts" Text First,
    "sv_retiring" Int8 Sum, "sv_pinned" Int8 Sum,
);
spec!(CLIENTS:
    "type" Text PerWorker, "user" Text PerWorker, "database" Text PerWorker, "replication" Text PerWorker,
    "state" Text PerWorker, "addr" Text PerWorker, "port" Int4 PerWorker, "local_addr" Text PerWorker,
    "local_port" Int4 PerWorker, "connect_time" Text PerWorker, "request_time" Text PerWorker,
    "wait" Int4 PerWorker, "wait_us" Int4 PerWorker, "close_needed" Int4 PerWorker, "ptr" Text PerWorker,
    "link" Text PerWorker, "remote_pid" Int4 PerWorker, "tls" Text PerWorker, "application_name" Text PerWorker,
    "prepared_statements" Int4 PerWorker, "id" Int8 PerWorker, "worker" Text Supervisor,
);
spec!(STATS:
    "database" Text Key, "server_assignment_count" Numeric Sum, "xact_count" Numeric Sum, "query_count" Numeric Sum,
    "bytes_received" Numeric Sum, "bytes_sent" Numeric Sum, "xact_time" Numeric Sum, "query_time" Numeric Sum,
    "wait_time" Numeric Sum, "client_parse_count" Numeric Sum, "server_parse_count" Numeric Sum,
    "bind_count" Numeric Sum, "client_login_count" Numeric Sum,
);
spec!(DATABASES:
    "name" Text Key, "current_connections" Int8 Sum, "current_client_connections" Int8 Sum,
);
spec!(USERS:
    "name" Text Key, "current_connections" Int8 Sum, "current_client_connections" Int8 Sum,
);
spec!(LISTS: "list" Text Key, "items" Int4 Sum);
spec!(MEM:
    "name" Text Key, "size" Int4 First, "used" Int8 Sum, "free" Int8 Sum, "memtotal" Int8 Sum,
);
spec!(DNS_HOSTS: "hostname" Text Key, "ttl" Int8 Max, "addrs" Text First);
spec!(DNS_ZONES: "zonename" Text Key, "serial" Int8 Max, "count" Int4 Max);
spec!(WORKERS:
    "clients" Int8 PerWorker, "servers" Int8 PerWorker, "waiting" Int8 PerWorker, "handed_out" Int8 PerWorker,
    "handed_in" Int8 PerWorker, "cancels" Int8 PerWorker, "panics" Int8 PerWorker, "log_dropped" Int8 PerWorker,
);

spec!(SOCKETS:
    "type" Text PerWorker, "user" Text PerWorker, "database" Text PerWorker, "replication" Text PerWorker,
    "state" Text PerWorker, "addr" Text PerWorker, "port" Int4 PerWorker, "local_addr" Text PerWorker,
    "local_port" Int4 PerWorker, "connect_time" Text PerWorker, "request_time" Text PerWorker,
    "wait" Int4 PerWorker, "wait_us" Int4 PerWorker, "close_needed" Int4 PerWorker, "ptr" Text PerWorker,
    "link" Text PerWorker, "remote_pid" Int4 PerWorker, "tls" Text PerWorker, "application_name" Text PerWorker,
    "prepared_statements" Int4 PerWorker, "id" Int8 PerWorker,
    "recv_pos" Int4 PerWorker, "pkt_pos" Int4 PerWorker, "pkt_remain" Int4 PerWorker, "send_pos" Int4 PerWorker,
    "send_remain" Int4 PerWorker, "pkt_avail" Int4 PerWorker, "send_avail" Int4 PerWorker, "worker" Text Supervisor,
);
spec!(FDS:
    "fd" Int4 PerWorker, "task" Text PerWorker, "user" Text PerWorker, "database" Text PerWorker,
    "addr" Text PerWorker, "port" Int4 PerWorker, "cancel" Int8 PerWorker, "link" Int4 PerWorker,
    "client_encoding" Text PerWorker, "std_strings" Text PerWorker, "datestyle" Text PerWorker,
    "timezone" Text PerWorker, "password" Text PerWorker, "scram_client_key" Bytes PerWorker,
    "scram_server_key" Bytes PerWorker, "worker" Text Supervisor,
);
spec!(BUSY: "database" Text Key, "servers" Int8 Sum, "close_needed" Int8 Sum, "unsent" Int8 Sum);
spec!(DONE: "done" Int8 Sum);

impl Question {
    /// The columns of the rows that a worker answers with.
    ///
    /// `Clients` and `Servers` have the same columns; a column that the supervisor fills in is sent
    /// as `Value::Null`.
    pub(crate) fn spec(self) -> &'static [Column] {
        match self {
            Self::Pools => POOLS,
            Self::Clients | Self::Servers => CLIENTS,
            Self::Stats => STATS,
            Self::Databases => DATABASES,
            Self::Users => USERS,
            Self::Lists => LISTS,
            Self::Mem => MEM,
            Self::DnsHosts => DNS_HOSTS,
            Self::DnsZones => DNS_ZONES,
            Self::Workers => WORKERS,
            Self::Sockets | Self::ActiveSockets => SOCKETS,
            Self::Fds => FDS,
            Self::Busy => BUSY,
            Self::Done => DONE,
        }
    }
}
