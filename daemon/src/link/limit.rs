//! One worker's part of each limit.
//!
//! The supervisor and the workers must agree on it to the unit, so both ask here. It holds no
//! count and grants nothing: a worker's permits and the supervisor's shares do.

use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use super::message::LimitKey;

/// The part of `key`'s limit that belongs to `share`; `None` where there is no limit.
///
/// Without a share the part is 0: such a worker may keep what it has, and get nothing new.
pub(crate) fn part(settings: &Settings, share: Option<Share>, key: &LimitKey) -> Option<u32> {
    let divided = |limit: u32| share.map_or(0, |share| share.part(limit));
    match key {
        LimitKey::Clients => Some(divided(settings.global.max_client_conn)),
        LimitKey::ClientsOfDatabase(name) => {
            let database = settings.database(name)?;
            positive(settings.max_db_client_connections(&database)).map(divided)
        }
        LimitKey::ClientsOfUser(user) => {
            positive(settings.max_user_client_connections(user)).map(divided)
        }
        LimitKey::Pool { database, user } => {
            let database = settings.database(database)?;
            let size = positive(settings.pool_size(&database, user))?;
            let reserve = settings.reserve_pool_size(&database, user);
            Some(divided(size) + divided(reserve))
        }
        LimitKey::Database(name) => {
            let database = settings.database(name)?;
            positive(settings.max_db_connections(&database)).map(divided)
        }
        LimitKey::User(user) => positive(settings.max_user_connections(user)).map(divided),
    }
}

fn positive(limit: u32) -> Option<u32> {
    (limit > 0).then_some(limit)
}
