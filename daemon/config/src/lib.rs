//! The settings of pgfleet: the one table of keys, and its loaders for TOML, `pgbouncer.ini` and the environment.
//! It never binds, forks, logs or ends the process; every fault in a file comes back as a [`Problem`], all of them at once.
//! The supervisor, the CLI and, for the types alone, the workers call it.

mod check;
mod check_auth;
mod choice;
mod conninfo;
mod convert;
pub mod cores;
mod database;
mod draft;
mod effective;
mod entry;
mod environment;
mod fault;
mod form;
pub mod hba;
mod ini;
mod key;
mod keys;
mod layer;
mod limits;
mod load;
mod lookup;
mod machine;
mod multiply;
mod nearest;
mod notes;
mod paths;
mod problem;
mod raw;
mod refuse;
mod restart;
mod sample;
mod secret;
mod settings;
pub mod share;
mod toml;
mod units;
mod user;
mod userlist;
mod workers;

#[cfg(test)]
mod tests;

pub use choice::{AuthType, LimitMode, LoadBalance, PoolMode, ServerProtocol, SslMode};
pub use conninfo::redacted;
pub use convert::{Converted, convert};
pub use database::{DEFAULT_SERVER_PORT, Database, SERVER_SOCKET_DIRS};
pub use key::{Key, Kind, Origin, Reload, Standing};
pub use keys::{Global, KEYS};
pub use limits::worker_count;
pub use load::{load, logfile};
pub use lookup::Lookup;
pub use machine::{closed_to, readiness};
pub use paths::{console_dir, find, runtime_dir};
pub use problem::Problem;
pub use restart::{Waiting, changed_needing_restart};
pub use sample::{SampleOptions, sample};
pub use secret::Password;
pub use settings::Settings;
pub use user::User;
pub use workers::Workers;
