//! The number of workers that a machine and the limits allow.
//! A fleet never has more workers than its smallest hard limit, or one of them would have a part of nothing.
//! The checks call it on the file, the supervisor at the start and on `SCALE`.

use crate::{
    Database, Global, LimitMode, Problem, Settings, User, Workers, cores, fault::Fault,
    problem::Place,
};

const ZERO: Option<&str> = Some("set it to 0 for no limit");
const ABSENT: Option<&str> = Some("remove it for the global limit");

/// A limit of which every worker needs at least 1.
struct Hard {
    key: String,
    value: u32,
    /// How to have no limit at all, if one can.
    open: Option<&'static str>,
}

/// The number of workers, and lines for the log on why it is not what was asked.
///
/// `asked` overrides the key `workers`. `auto` and percentages are capped at the smallest hard limit, with a note.
///
/// # Errors
/// For an explicit number, a problem for each hard limit below it.
pub fn worker_count(
    settings: &Settings,
    asked: Option<Workers>,
) -> Result<(u16, Vec<String>), Vec<Problem>> {
    count(settings, asked.unwrap_or(settings.global.workers), cores::usable_cores())
}

pub(crate) fn count(
    settings: &Settings,
    asked: Workers,
    cores: usize,
) -> Result<(u16, Vec<String>), Vec<Problem>> {
    let hard = hard(settings);
    let wanted = match asked {
        Workers::Count(count) => return explicit(count, &hard),
        Workers::Auto => cores,
        Workers::Percent(percent) => cores.saturating_mul(usize::from(percent)) / 100,
    };
    let wanted = u16::try_from(wanted).unwrap_or(Workers::MOST).clamp(1, Workers::MOST);
    match hard.iter().min_by_key(|limit| limit.value) {
        Some(least) if least.value < u32::from(wanted) => {
            let count = u16::try_from(least.value).unwrap_or(wanted);
            let note = format!(
                "workers: {count} instead of {wanted}, since {} = {} is divided over them; raise it for more workers",
                least.key, least.value
            );
            Ok((count, vec![note]))
        }
        _ => Ok((wanted, Vec::new())),
    }
}

fn explicit(count: u16, hard: &[Hard]) -> Result<(u16, Vec<String>), Vec<Problem>> {
    let below = hard.iter().filter(|limit| limit.value < u32::from(count));
    let problems: Vec<Problem> = below.map(|limit| too_small(limit, count)).collect();
    if problems.is_empty() { Ok((count, Vec::new())) } else { Err(problems) }
}

fn too_small(limit: &Hard, count: u16) -> Problem {
    let Hard { key, value, open } = limit;
    let reason = format!("{value} cannot be divided over {count} workers, each needs at least 1");
    let open = open.map_or_else(String::new, |open| format!(", or {open}"));
    let remedy = format!("raise it to {count} or more, use at most {value} workers{open}");
    Problem::at(&Place::Nowhere, key, Fault::new(reason, remedy))
}

/// The limits that are set, in the order of the table, then of the entries.
fn hard(settings: &Settings) -> Vec<Hard> {
    if settings.global.limit_mode != LimitMode::Divided {
        return Vec::new();
    }
    let mut all = of_global(&settings.global);
    all.extend(settings.databases.values().chain(&settings.fallback).flat_map(of_database));
    all.extend(settings.users.values().flat_map(of_user));
    all.retain(|limit| limit.value > 0);
    all
}

fn of_global(global: &Global) -> Vec<Hard> {
    let limits = [
        ("max_client_conn", global.max_client_conn),
        ("default_pool_size", global.default_pool_size),
        ("max_db_connections", global.max_db_connections),
        ("max_db_client_connections", global.max_db_client_connections),
        ("max_user_connections", global.max_user_connections),
        ("max_user_client_connections", global.max_user_client_connections),
    ];
    let open = |key: &str| if key == "max_client_conn" { None } else { ZERO };
    limits.map(|(key, value)| Hard { key: key.to_owned(), value, open: open(key) }).into()
}

fn of_database(db: &Database) -> [Hard; 3] {
    let hard = |key: &str, value: Option<u32>, open| Hard {
        key: format!("databases.{}.{key}", db.name),
        value: value.unwrap_or(0),
        open,
    };
    [
        hard("pool_size", db.pool_size, ZERO),
        hard("max_db_connections", db.max_db_connections, ZERO),
        hard("max_db_client_connections", db.max_db_client_connections, ABSENT),
    ]
}

fn of_user(user: &User) -> [Hard; 3] {
    let hard = |key: &str, value: Option<u32>, open| Hard {
        key: format!("users.{}.{key}", user.name),
        value: value.unwrap_or(0),
        open,
    };
    [
        hard("pool_size", user.pool_size, ZERO),
        hard("max_user_connections", user.max_user_connections, ZERO),
        hard("max_user_client_connections", user.max_user_client_connections, ABSENT),
    ]
}
