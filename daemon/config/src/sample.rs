//! The commented TOML that `pgfleet init` writes.
//! Every key of the table is in it with its meaning and default; what the options say is set, and it never writes a file.
//! The CLI calls it; what it returns loads as it is.

use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    AuthType, KEYS, Key, Kind, PoolMode, Workers,
    key::{Reload, Standing},
};

/// What the sample sets; everything else stands there as a comment with its default.
#[derive(Clone, Debug, Default)]
pub struct SampleOptions {
    /// Names and connection strings of the databases.
    pub databases: Vec<(String, String)>,
    /// Address and port to listen on.
    pub listen: Option<(String, u16)>,
    /// The number of workers.
    pub workers: Option<Workers>,
    /// How clients prove who they are.
    pub auth_type: AuthType,
    /// The file with the users.
    pub auth_file: Option<PathBuf>,
    /// Users who may run every console command.
    pub admin_users: Vec<String>,
    /// The runtime directory.
    pub runtime_dir: Option<PathBuf>,
    /// When clients give their servers back.
    pub pool_mode: PoolMode,
}

impl SampleOptions {
    /// The values that the sample sets, as TOML.
    fn values(&self) -> Vec<(&'static str, String)> {
        let mut values = vec![
            ("pool_mode", quoted(self.pool_mode.word())),
            ("auth_type", quoted(self.auth_type.word())),
        ];
        if let Some((address, port)) = &self.listen {
            values.extend([("listen_addr", quoted(address)), ("listen_port", port.to_string())]);
        }
        if let Some(workers) = self.workers {
            values.push(("workers", plain(Kind::Workers, &workers.to_string())));
        }
        let path = |path: &PathBuf| quoted(&path.display().to_string());
        values.extend(self.auth_file.iter().map(|file| ("auth_file", path(file))));
        values.extend(self.runtime_dir.iter().map(|dir| ("runtime_dir", path(dir))));
        if !self.admin_users.is_empty() {
            values.push(("admin_users", quoted(&self.admin_users.join(", "))));
        }
        values
    }
}

const HEADER: &str = "\
# Configuration of pgfleet; check it with: pgfleet config check
# Keys have PgBouncer's names. Durations take units (\"30s\", \"5min\"), as do sizes (\"64MiB\"); plain numbers are seconds and bytes.
# Limits are those of the whole fleet, whatever the number of workers.
# A key that stands as a comment shows its default.
";

const DATABASES: &str = "
# The databases that clients may ask for: where each of them is, as key=value pairs or as a table of its own.
# \"*\" stands for every name that is not listed.
[databases]
#app = \"host=127.0.0.1 port=5432 dbname=app pool_size=20\"
";

const USERS: &str = "
# Settings that hold for one user, for example:
#[users.report]
#pool_mode = \"session\"
#max_user_connections = 5
";

/// A value that the file sets.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// As TOML.
    pub(crate) value: String,
    /// Where it is from, to stand above it.
    pub(crate) comment: Option<String>,
}

/// An entry of a database or user that the file has.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) conninfo: String,
    pub(crate) comment: Option<String>,
}

/// The sample file.
pub fn sample(options: &SampleOptions) -> String {
    let set = |(name, value)| (name, Set { value, comment: None });
    let entry = |(name, conninfo): &(String, String)| Entry {
        name: name.clone(),
        conninfo: conninfo.clone(),
        comment: None,
    };
    let databases: Vec<_> = options.databases.iter().map(entry).collect();
    rendered(&options.values().into_iter().map(set).collect(), &databases, &[])
}

/// The file in which these keys are set, and the others stand as comments with their defaults.
pub(crate) fn rendered(
    values: &BTreeMap<&'static str, Set>,
    databases: &[Entry],
    users: &[Entry],
) -> String {
    let mut text = HEADER.to_owned();
    let has_meaning = |key: &&Key| !matches!(key.standing, Standing::Meaningless(_));
    for key in KEYS.iter().filter(has_meaning) {
        text.push_str(&lines(key, values.get(key.name)));
    }
    text.push_str(DATABASES);
    text.extend(databases.iter().map(entry));
    text.push_str(USERS);
    if !users.is_empty() {
        text.push_str("[users]\n");
        text.extend(users.iter().map(entry));
    }
    text
}

fn entry(entry: &Entry) -> String {
    let comment = entry.comment.as_ref().map_or_else(String::new, |text| format!("# {text}\n"));
    format!("{comment}{} = {}\n", quoted(&entry.name), quoted(&entry.conninfo))
}

/// The lines of one key, with its value or, as a comment, its default.
fn lines(key: &Key, set: Option<&Set>) -> String {
    let Key { name, text, default, kind, .. } = key;
    let restart = match key.reload {
        Reload::Live => "",
        Reload::Restart => " A change needs a restart.",
    };
    let later = match key.standing {
        Standing::NotYet(why) => format!(" No effect yet: {why}."),
        Standing::Honoured | Standing::Meaningless(_) => String::new(),
    };
    let setting = match set {
        Some(Set { value, .. }) => format!("{name} = {value}"),
        None => format!("#{name} = {}", plain(*kind, default)),
    };
    let from = set.and_then(|set| set.comment.as_ref());
    let from = from.map_or_else(String::new, |text| format!("# {text}\n"));
    format!("\n# {text}{restart}{later}\n{from}{setting}\n")
}

/// A value as TOML: bare where its kind is a number or a boolean.
pub(crate) fn plain(kind: Kind, text: &str) -> String {
    match (kind, text) {
        (Kind::Flag, "1") => "true".to_owned(),
        (Kind::Flag, _) => "false".to_owned(),
        (Kind::Count | Kind::Port | Kind::Seconds | Kind::Millis | Kind::Size, _) => {
            text.to_owned()
        }
        (Kind::Workers, _) if text.parse::<u16>().is_ok() => text.to_owned(),
        (
            Kind::Mode
            | Kind::Text
            | Kind::Secret
            | Kind::File
            | Kind::List
            | Kind::Workers
            | Kind::Choice(_),
            _,
        ) => quoted(text),
    }
}

/// A string as TOML.
pub(crate) fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}
