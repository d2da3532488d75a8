//! SHOW DATABASES, USERS and LISTS: the settings joined with what the workers count.
//!
//! Limits here are those of the whole fleet, never a worker's part. It changes nothing and shows no secret.
//! `show` calls it.

use std::collections::{BTreeMap, BTreeSet};

use pgfleet_config::{Database, Settings};

use super::table::{Table, number, text};
use crate::link::switches::Switches;
use crate::link::table::{Row, Type, Value};
use crate::supervisor::gather::{int, text as shown};

/// Servers and clients by name.
fn counts(rows: &[Row]) -> BTreeMap<String, (i64, i64)> {
    let entry = |row: &Row| {
        let [name, servers, clients] = row.as_slice() else { return None };
        Some((shown(name)?, (int(servers), int(clients))))
    };
    rows.iter().filter_map(entry).collect()
}

/// SHOW DATABASES.
pub(super) fn databases(settings: &Settings, switches: &Switches, rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("name", Type::Text),
        ("host", Type::Text),
        ("port", Type::Int4),
        ("database", Type::Text),
        ("force_user", Type::Text),
        ("pool_size", Type::Int4),
        ("min_pool_size", Type::Int4),
        ("reserve_pool_size", Type::Int4),
        ("server_lifetime", Type::Int4),
        ("pool_mode", Type::Text),
        ("load_balance_hosts", Type::Text),
        ("max_connections", Type::Int4),
        ("current_connections", Type::Int4),
        ("max_client_connections", Type::Int4),
        ("current_client_connections", Type::Int4),
        ("paused", Type::Int4),
        ("disabled", Type::Int4),
    ]);
    let counts = counts(rows);
    // Databases that only the fallback entry knows are listed once someone uses them, as in PgBouncer.
    let names: BTreeSet<&String> = settings.databases.keys().chain(counts.keys()).collect();
    for name in names {
        if let Some(database) = settings.database(name) {
            let counts = counts.get(name).copied().unwrap_or_default();
            let mut row = database_row(settings, &database, counts);
            row.push(number(i64::from(switches.paused.contains(name))));
            row.push(number(i64::from(switches.disabled.contains(name))));
            table.push(row);
        }
    }
    table
}

fn database_row(
    settings: &Settings,
    database: &Database,
    (servers, clients): (i64, i64),
) -> Vec<Value> {
    let user = database.user.as_deref().unwrap_or("");
    let host = if database.hosts.is_empty() { Value::Null } else { text(database.hosts.join(",")) };
    vec![
        text(&database.name),
        host,
        number(database.port),
        text(&database.dbname),
        database.user.as_ref().map_or(Value::Null, text),
        number(settings.pool_size(database, user)),
        number(settings.min_pool_size(database)),
        number(settings.reserve_pool_size(database, user)),
        number(settings.server_lifetime(database).as_secs()),
        database.pool_mode.map_or(Value::Null, |mode| text(mode.word())),
        text(database.load_balance_hosts.word()),
        number(settings.max_db_connections(database)),
        number(servers),
        number(settings.max_db_client_connections(database)),
        number(clients),
    ]
}

/// SHOW USERS.
pub(super) fn users(settings: &Settings, rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("name", Type::Text),
        ("pool_size", Type::Text),
        ("reserve_pool_size", Type::Text),
        ("pool_mode", Type::Text),
        ("max_user_connections", Type::Int4),
        ("current_connections", Type::Int4),
        ("max_user_client_connections", Type::Int4),
        ("current_client_connections", Type::Int4),
    ]);
    let counts = counts(rows);
    let names: BTreeSet<&String> =
        settings.users.keys().chain(settings.userlist.keys()).chain(counts.keys()).collect();
    for name in names {
        let own = settings.users.get(name);
        let size =
            |size: Option<u32>| text(size.map_or_else(String::new, |size| format!("{size:9}")));
        let (servers, clients) = counts.get(name).copied().unwrap_or_default();
        table.push(vec![
            text(name),
            size(own.and_then(|user| user.pool_size)),
            size(own.and_then(|user| user.reserve_pool_size)),
            own.and_then(|user| user.pool_mode).map_or(Value::Null, |mode| text(mode.word())),
            number(settings.max_user_connections(name)),
            number(servers),
            number(settings.max_user_client_connections(name)),
            number(clients),
        ]);
    }
    table
}

/// The lists in PgBouncer's order.
const LISTS: [&str; 14] = [
    "databases",
    "users",
    "peers",
    "pools",
    "peer_pools",
    "free_clients",
    "used_clients",
    "login_clients",
    "free_servers",
    "used_servers",
    "dns_names",
    "dns_zones",
    "dns_queries",
    "dns_pending",
];

/// SHOW LISTS: the counts of the workers, and those that only the settings know.
pub(super) fn lists(settings: &Settings, rows: &[Row]) -> Table {
    let mut table = Table::new(&[("list", Type::Text), ("items", Type::Int4)]);
    let mut known: BTreeMap<String, i64> = BTreeMap::new();
    for row in rows {
        if let [list, items] = row.as_slice()
            && let Some(list) = shown(list)
        {
            known.insert(list, int(items));
        }
    }
    // Every worker has all databases and users: their sum over the workers would be wrong.
    let users: BTreeSet<&String> = settings.users.keys().chain(settings.userlist.keys()).collect();
    known.insert(
        "databases".to_owned(),
        i64::try_from(settings.databases.len()).unwrap_or(i64::MAX),
    );
    known.insert("users".to_owned(), i64::try_from(users.len()).unwrap_or(i64::MAX));
    for list in LISTS {
        table.push(vec![text(list), number(known.remove(list).unwrap_or(0))]);
    }
    for (list, items) in known {
        table.push(vec![text(list), number(items)]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::table::Outcome;

    fn rows(table: Table) -> Vec<Vec<Option<String>>> {
        let Outcome::Table { rows, .. } = table.into_outcome() else { panic!("no table") };
        rows
    }

    fn settings() -> Settings {
        let mut settings = Settings::default();
        settings.databases.insert("app".to_owned(), Database::new("app"));
        settings.userlist.insert("joe".to_owned(), "secret".to_owned());
        settings
    }

    #[test]
    fn databases_show_fleet_limits_and_the_sum_of_connections() {
        let counted = vec![vec![Value::Text("app".to_owned()), Value::Int(3), Value::Int(9)]];
        let rows = rows(databases(&settings(), &Switches::default(), &counted));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][0].as_deref(), Some("app"));
        assert_eq!((rows[0][12].as_deref(), rows[0][14].as_deref()), (Some("3"), Some("9")));
        assert_eq!(rows[0][5].as_deref(), Some("20"));
    }

    #[test]
    fn users_come_from_everywhere_and_without_secrets() {
        let counted = vec![vec![Value::Text("ann".to_owned()), Value::Int(1), Value::Int(2)]];
        let rows = rows(users(&settings(), &counted));
        let names: Vec<_> = rows.iter().map(|row| row[0].clone().unwrap()).collect();
        assert_eq!(names, ["ann", "joe"]);
        assert!(rows.iter().flatten().flatten().all(|value| value != "secret"));
    }

    #[test]
    fn lists_count_what_all_workers_share_once() {
        let counted = vec![
            vec![Value::Text("databases".to_owned()), Value::Int(8)],
            vec![Value::Text("pools".to_owned()), Value::Int(4)],
        ];
        let rows = rows(lists(&settings(), &counted));
        assert_eq!(rows[0], [Some("databases".to_owned()), Some("1".to_owned())]);
        assert_eq!(rows[3], [Some("pools".to_owned()), Some("4".to_owned())]);
    }
}
