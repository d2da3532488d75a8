//! A `pgbouncer.ini` as commented TOML with the same settings.
//! Limits that were those of one of several processes can be multiplied back; it never writes a file.
//! `pgfleet init --from` calls it and writes what comes out.

use std::{collections::BTreeMap, fs, num::NonZeroU16, path, path::Path};

use config::{Map, Value, ValueKind};

use crate::{
    KEYS, Key, Kind, Problem, Settings, conninfo,
    fault::Fault,
    layer::Format,
    load,
    multiply::multiply,
    raw::Raw,
    sample::{Entry, Set, plain, quoted, rendered},
};

/// What became of a `pgbouncer.ini`.
#[derive(Clone, Debug)]
pub struct Converted {
    /// The TOML.
    pub text: String,
    /// What it means: those of the ini, with absolute paths and multiplied limits.
    pub settings: Settings,
    /// What the operator should know, one line each.
    pub remarks: Vec<String>,
}

/// Makes TOML of the ini file at `path`, whose limits are multiplied by the number of processes that they were divided over.
///
/// # Errors
/// Every problem of the file.
pub fn convert(path: &Path, processes: NonZeroU16) -> Result<Converted, Vec<Problem>> {
    let mut settings = load::load_with(path, &[])?;
    let text = fs::read_to_string(path).unwrap_or_default();
    let layer = load::read(path, &text);
    if layer.format != Format::Ini {
        let fault = Fault::new("is not a pgbouncer.ini", "give the path of one to --from");
        return Err(vec![Problem::in_file(path, None, fault)]);
    }
    absolute(&mut settings);
    let mut remarks = settings.notes.clone();
    let multiplied = multiply(&mut settings, processes);
    remarks.extend(multiplied.iter().map(|(key, text)| format!("{key}: {text}")));
    remarks.extend(one_of_several(&settings, &layer.values, processes));
    let origins = Origins { values: &layer.values, multiplied: &multiplied };
    let values = KEYS.iter().filter(|key| origins.sets(key)).map(|key| {
        let set = Set { value: value(&settings, key), comment: origins.comment(key.name) };
        (key.name, set)
    });
    let entry = |section: &str, name: &str, conninfo: String| Entry {
        name: name.to_owned(),
        conninfo,
        comment: origins.comment(&format!("{section}.{name}")),
    };
    let databases: Vec<_> = settings
        .databases
        .values()
        .chain(&settings.fallback)
        .map(|it| entry("databases", &it.name, conninfo::joined(&it.pairs())))
        .collect();
    let users: Vec<_> =
        settings.users.values().map(|it| entry("users", &it.name, it.shown())).collect();
    let text = rendered(&values.collect(), &databases, &users);
    Ok(Converted { text, settings, remarks })
}

/// Where values come from, for the comments.
struct Origins<'a> {
    values: &'a Map<String, Value>,
    multiplied: &'a BTreeMap<String, String>,
}

impl Origins<'_> {
    /// Whether the file has the key, or multiplying has changed its default.
    fn sets(&self, key: &Key) -> bool {
        self.values.contains_key(key.name) || self.multiplied.contains_key(key.name)
    }

    fn comment(&self, key: &str) -> Option<String> {
        let value = match key.split_once('.') {
            Some((section, name)) => match &self.values.get(section)?.kind {
                ValueKind::Table(entries) => entries.get(name),
                ValueKind::Nil
                | ValueKind::Boolean(_)
                | ValueKind::I64(_)
                | ValueKind::I128(_)
                | ValueKind::U64(_)
                | ValueKind::U128(_)
                | ValueKind::Float(_)
                | ValueKind::String(_)
                | ValueKind::Array(_) => None,
            },
            None => self.values.get(key),
        };
        let from = value.and_then(Value::origin).map(|origin| format!("From {origin}."));
        let entry = format!("{key}.");
        let multiplied: Vec<_> = self
            .multiplied
            .iter()
            .filter_map(|(name, text)| match name.strip_prefix(&entry) {
                Some(inner) => Some(format!("{inner}: {text}.")),
                None => (name == key).then(|| format!("{text}.")),
            })
            .collect();
        let all: Vec<_> = from.into_iter().chain(multiplied).collect();
        // A name may hold what would end the comment.
        let line = all.join(" ").replace(char::is_control, " ");
        (!line.is_empty()).then_some(line)
    }
}

/// The value of a key as TOML.
fn value(settings: &Settings, key: &Key) -> String {
    let global = &settings.global;
    match key.kind {
        Kind::Secret => {
            quoted(global.auth_ldap_options.as_ref().map_or("", |options| options.expose()))
        }
        Kind::Mode => quoted(&format!("0{:o}", global.unix_socket_mode)),
        Kind::Flag
        | Kind::Count
        | Kind::Port
        | Kind::Seconds
        | Kind::Millis
        | Kind::Size
        | Kind::Text
        | Kind::File
        | Kind::List
        | Kind::Workers
        | Kind::Choice(_) => plain(key.kind, &global.show(key.name).unwrap_or_default()),
    }
}

/// Paths in an ini file are relative to the working directory, those in TOML to its own.
fn absolute(settings: &mut Settings) {
    for key in KEYS.iter().filter(|key| key.kind == Kind::File) {
        let shown = settings.global.show(key.name).unwrap_or_default();
        if shown.is_empty() || shown.starts_with('@') {
            continue;
        }
        if let Ok(absolute) = path::absolute(&shown) {
            let raw = Raw::Text(absolute.display().to_string());
            // Any path is a path.
            let _always = settings.global.set(key.name, &raw);
        }
    }
}

/// The offer to multiply, where the file looks like one of several.
fn one_of_several(
    settings: &Settings,
    values: &Map<String, Value>,
    processes: NonZeroU16,
) -> Option<String> {
    let is_one = settings.global.so_reuseport || values.contains_key("peers");
    (is_one && processes.get() == 1).then(|| {
        "this file was for one of several processes, and limits here are those of the whole fleet: if they were divided, \
         multiply them back with --from-processes N"
            .to_owned()
    })
}
