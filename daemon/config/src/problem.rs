//! One fault in the configuration, with where it stands and the way out.
//! Its text never holds a secret.
//! The loaders and checks make it; the CLI and the supervisor print it.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// One fault in the configuration: `pgfleet.toml:12: default_pool_size: must be ...; write ...`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file, unless it stands in the environment or nowhere.
    pub file: Option<PathBuf>,
    /// The line in that file, from 1.
    pub line: Option<usize>,
    /// The key, with its section: `databases.app.pool_size`, or `PGFLEET_LISTEN_PORT`.
    pub key: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// The way out.
    pub remedy: String,
}

impl Problem {
    /// A fault of a whole file.
    pub(crate) fn in_file(file: &Path, line: Option<usize>, fault: Fault) -> Self {
        Self {
            file: Some(file.to_owned()),
            line,
            key: None,
            reason: fault.reason,
            remedy: fault.remedy,
        }
    }

    /// A fault of a key that stands somewhere.
    pub(crate) fn at(place: &Place, key: &str, fault: Fault) -> Self {
        let (file, line, key) = match place {
            Place::Line(file, line) => (Some(file.clone()), *line, key.to_owned()),
            Place::Environment => (None, None, format!("PGFLEET_{}", key.to_uppercase())),
            Place::Nowhere => (None, None, key.to_owned()),
        };
        Self { file, line, key: Some(key), reason: fault.reason, remedy: fault.remedy }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", file.display())?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Problem {}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this file, on this line.
    Line(PathBuf, Option<usize>),
    /// In an environment variable named after the key.
    Environment,
    /// It is a default, or nobody knows.
    Nowhere,
}

impl Place {
    /// The origin that a loader gives to a value.
    pub(crate) fn origin(file: &Path, line: usize) -> String {
        format!("{}:{line}", file.display())
    }

    /// The place that an origin means.
    pub(crate) fn of(origin: Option<&str>) -> Self {
        let Some(origin) = origin else {
            return Self::Nowhere;
        };
        match origin.rsplit_once(':') {
            Some((file, line)) => Self::Line(PathBuf::from(file), line.parse().ok()),
            None => Self::Environment,
        }
    }
}

/// Where each key stands: `listen_port`, `databases.app`, `databases.app.pool_size`.
#[derive(Debug)]
pub(crate) struct Places {
    main: PathBuf,
    known: BTreeMap<String, Place>,
}

impl Places {
    pub(crate) fn new(main: &Path) -> Self {
        Self { main: main.to_owned(), known: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, key: &str, place: Place) {
        self.known.insert(key.to_owned(), place);
    }

    /// Whether the key was set anywhere.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.known.contains_key(key)
    }

    /// Where the key stands, else its section, else the main file.
    pub(crate) fn of(&self, key: &str) -> Place {
        let section = key.rsplit_once('.').map(|(section, _)| section);
        let known = self.known.get(key).or_else(|| self.known.get(section?));
        match known {
            Some(Place::Nowhere) | None => Place::Line(self.main.clone(), None),
            Some(place) => place.clone(),
        }
    }

    /// A problem of that key.
    pub(crate) fn problem(&self, key: &str, fault: Fault) -> Problem {
        Problem::at(&self.of(key), key, fault)
    }
}
