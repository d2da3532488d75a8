//! What one file says, as a source for the `config` crate.
//! Each value carries its origin `file:line`; nothing is judged here but which names there are at the top.
//! The TOML and ini readers fill it, `load` stacks it under the environment.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use config::{ConfigError, Map, Source, Value, ValueKind};

use crate::{KEYS, Problem, fault::Fault, problem::Place};

/// The tables that a file may have beside the keys.
pub(crate) const SECTIONS: [&str; 3] = ["databases", "users", "peers"];

/// The key under which an entry that is a table keeps its own place, which the merge would drop.
pub(crate) const HEADER: &str = "\0header";

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Ini,
}

/// The values of one file, its includes among them, and what is wrong with its form.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) format: Format,
    pub(crate) values: Map<String, Value>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) problems: Vec<Problem>,
    /// What counts in another way than it may look, one line each.
    pub(crate) notes: Vec<String>,
    /// Whether nothing of the file could be read.
    pub(crate) broken: bool,
}

impl Layer {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            values: Map::new(),
            files: Vec::new(),
            problems: Vec::new(),
            notes: Vec::new(),
            broken: false,
        }
    }

    /// Notes a fault of a key on a line.
    pub(crate) fn fault(&mut self, file: &Path, line: usize, key: &str, fault: Fault) {
        let place = Place::Line(file.to_owned(), Some(line));
        self.problems.push(Problem::at(&place, key, fault));
    }

    /// Adds an entry to the table `section`; a later entry of the same name takes its place, which is given back.
    pub(crate) fn entry(&mut self, section: &str, name: &str, value: Value) -> Option<Value> {
        let table = self
            .values
            .entry(section.to_owned())
            .or_insert_with(|| Value::new(None, Map::<String, Value>::new()));
        match &mut table.kind {
            ValueKind::Table(entries) => entries.insert(name.to_owned(), value),
            ValueKind::Nil
            | ValueKind::Boolean(_)
            | ValueKind::I64(_)
            | ValueKind::I128(_)
            | ValueKind::U64(_)
            | ValueKind::U128(_)
            | ValueKind::Float(_)
            | ValueKind::String(_)
            | ValueKind::Array(_) => None,
        }
    }

    /// Notes that a value takes the place of an earlier one.
    pub(crate) fn replaced(&mut self, key: &str, new: &str, old: Option<Value>) {
        if let Some(old) = old.as_ref().and_then(Value::origin) {
            self.notes.push(format!("{new}: {key}: stands twice; this line counts, not {old}"));
        }
    }
}

/// The name of the key in the table, if there is one; PgBouncer has one alias.
pub(crate) fn known_key(name: &str) -> Option<&'static str> {
    let name = if name == "service_name" { "job_name" } else { name };
    KEYS.iter().map(|key| key.name).find(|key| *key == name)
}

/// The fault of a key that is not in the table.
pub(crate) fn unknown_key(name: &str) -> Fault {
    Fault::unknown("key", name, KEYS.iter().map(|key| key.name))
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values hold passwords.
        write!(f, "Layer({:?})", self.files)
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.values.clone())
    }
}
