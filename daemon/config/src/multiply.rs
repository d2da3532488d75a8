//! Limits that were divided by hand over several processes, put together again.
//! It multiplies what is in force, defaults included, for each process had those too; 0 keeps its meaning.
//! The conversion calls it.

use std::{collections::BTreeMap, num::NonZeroU16};

use crate::{Database, Settings, User};

/// PgBouncer's integers end here.
const LARGEST: u32 = 0x7fff_ffff;

/// Multiplies every limit, and says of each what it was, by its key.
pub(crate) fn multiply(settings: &mut Settings, processes: NonZeroU16) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    if processes.get() == 1 {
        return all;
    }
    let mut times = |key: String, limit: &mut u32| {
        if *limit > 0 {
            let product = limit.saturating_mul(u32::from(processes.get())).min(LARGEST);
            let text =
                format!("{limit} for each of {processes} processes is {product} for the fleet");
            all.insert(key, text);
            *limit = product;
        }
    };
    for (key, limit) in of_global(&mut settings.global) {
        times(key.to_owned(), limit);
    }
    for database in settings.databases.values_mut().chain(&mut settings.fallback) {
        let name = database.name.clone();
        for (key, limit) in of_database(database) {
            limit.as_mut().into_iter().for_each(|it| times(format!("databases.{name}.{key}"), it));
        }
    }
    for user in settings.users.values_mut() {
        let name = user.name.clone();
        for (key, limit) in of_user(user) {
            limit.as_mut().into_iter().for_each(|it| times(format!("users.{name}.{key}"), it));
        }
    }
    all
}

fn of_global(global: &mut crate::Global) -> [(&'static str, &mut u32); 8] {
    [
        ("max_client_conn", &mut global.max_client_conn),
        ("default_pool_size", &mut global.default_pool_size),
        ("min_pool_size", &mut global.min_pool_size),
        ("reserve_pool_size", &mut global.reserve_pool_size),
        ("max_db_connections", &mut global.max_db_connections),
        ("max_db_client_connections", &mut global.max_db_client_connections),
        ("max_user_connections", &mut global.max_user_connections),
        ("max_user_client_connections", &mut global.max_user_client_connections),
    ]
}

fn of_database(database: &mut Database) -> [(&'static str, &mut Option<u32>); 5] {
    [
        ("pool_size", &mut database.pool_size),
        ("min_pool_size", &mut database.min_pool_size),
        ("reserve_pool_size", &mut database.reserve_pool_size),
        ("max_db_connections", &mut database.max_db_connections),
        ("max_db_client_connections", &mut database.max_db_client_connections),
    ]
}

fn of_user(user: &mut User) -> [(&'static str, &mut Option<u32>); 4] {
    [
        ("pool_size", &mut user.pool_size),
        ("reserve_pool_size", &mut user.reserve_pool_size),
        ("max_user_connections", &mut user.max_user_connections),
        ("max_user_client_connections", &mut user.max_user_client_connections),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KEYS;

    #[test]
    fn every_limit_of_the_table_is_multiplied_and_nothing_else() {
        let mut settings = Settings::default();
        let limits: Vec<_> = KEYS.iter().filter(|key| key.limit).map(|key| key.name).collect();
        let mut named = of_global(&mut settings.global).map(|(key, _)| key).to_vec();
        named.sort_unstable();
        let mut expected = limits.clone();
        expected.sort_unstable();
        assert_eq!(named, expected);
    }

    #[test]
    fn products_are_said_and_do_not_overflow() {
        let mut settings = Settings::default();
        settings.global.max_client_conn = 2_000_000_000;
        let said = multiply(&mut settings, NonZeroU16::new(4).unwrap());
        assert_eq!(settings.global.max_client_conn, LARGEST);
        assert_eq!((settings.global.default_pool_size, settings.global.min_pool_size), (80, 0));
        assert_eq!(said["default_pool_size"], "20 for each of 4 processes is 80 for the fleet");
        assert_eq!(said.len(), 2);
    }
}
