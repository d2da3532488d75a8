//! Reads our TOML, with the line of every value.
//! It never judges values beyond their being scalars, arrays or entries; paths are made relative to the file's directory.
//! `load` calls it for every file that is not an ini.

use std::path::{self, Path};

use config::{Map, Value, ValueKind};
use toml_edit::{Document, Item, Key, TableLike, Value as Toml};

use crate::{
    Kind, Problem,
    fault::Fault,
    layer::{Format, HEADER, Layer, SECTIONS, known_key, unknown_key},
    nearest::nearest,
    paths::is_auto,
    problem::Place,
};

/// Reads `text`, which is the content of `file`.
pub(crate) fn read(file: &Path, text: &str) -> Layer {
    let mut reader = Reader {
        file,
        ends: text.match_indices('\n').map(|(end, _)| end).collect(),
        layer: Layer::new(Format::Toml),
    };
    reader.layer.files.push(file.to_owned());
    match Document::parse(text) {
        Ok(document) => reader.top(document.as_table()),
        Err(error) => {
            let line = error.span().map(|span| reader.line(span.start));
            let reason = error.message().lines().collect::<Vec<_>>().join(", ");
            let fault = Fault::new(
                format!("not valid TOML: {reason}"),
                "text values need quotes; pgfleet config show lists every key",
            );
            reader.layer.problems.push(Problem::in_file(file, line, fault));
            reader.layer.broken = true;
        }
    }
    reader.layer
}

struct Reader<'a> {
    file: &'a Path,
    /// Where the lines end.
    ends: Vec<usize>,
    layer: Layer,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        self.ends.partition_point(|end| *end < offset) + 1
    }

    fn top(&mut self, table: &dyn TableLike) {
        for (name, item, line) in self.items(table) {
            if name == "peers" {
                self.layer.values.insert(name.to_owned(), self.value(line, true));
            } else if SECTIONS.contains(&name) {
                match item.as_table_like() {
                    Some(entries) => self.section(name, entries),
                    None => self.wrong(
                        line,
                        name,
                        "must be a table",
                        &format!("write [{name}] and its entries below it"),
                    ),
                }
            } else if let Some(key) = known_key(name) {
                self.key(key, item, line);
            } else {
                self.unknown(name, item, line);
            }
        }
    }

    /// The items of a table with the lines of their keys.
    fn items<'t>(&self, table: &'t dyn TableLike) -> Vec<(&'t str, &'t Item, usize)> {
        let line = |key: &Key, item: &Item| {
            key.span().or_else(|| item.span()).map_or(1, |span| self.line(span.start))
        };
        table
            .iter()
            .filter_map(|(name, _)| {
                table.get_key_value(name).map(|(key, item)| (name, item, line(key, item)))
            })
            .collect()
    }

    fn key(&mut self, key: &str, item: &Item, line: usize) {
        let Some(mut kind) = scalar(item, &self.origin(line)) else {
            return self.wrong(
                line,
                key,
                "must be a single value or an array of values",
                "write it as key = value",
            );
        };
        if let (ValueKind::String(path), Some(Kind::File)) =
            (&mut kind, crate::Key::of(key).map(|key| key.kind))
        {
            *path = self.beside(path);
        }
        self.layer.values.insert(key.to_owned(), self.value(line, kind));
    }

    /// The path, relative to the directory of the file instead of the working directory.
    fn beside(&self, text: &str) -> String {
        let given = Path::new(text);
        if text.is_empty() || text.starts_with('@') || is_auto(given) || given.is_absolute() {
            return text.to_owned();
        }
        let file = path::absolute(self.file).unwrap_or_else(|_| self.file.to_owned());
        file.with_file_name(given).display().to_string()
    }

    fn section(&mut self, section: &str, entries: &dyn TableLike) {
        for (name, item, line) in self.items(entries) {
            let path = format!("{section}.{name}");
            if let Some(text) = item.as_str() {
                let _first = self.layer.entry(section, name, self.value(line, text));
            } else if let Some(keys) = item.as_table_like() {
                let value = self.entry(&path, keys, line);
                let _first = self.layer.entry(section, name, value);
            } else {
                let remedy = match known_key(name) {
                    Some(key) => {
                        format!("{key} is a key of the fleet: move it above the first [section]")
                    }
                    None => format!("write \"key=value key=value\" or a table [{path}]"),
                };
                self.wrong(line, &path, "must be a string of keys or a table", &remedy);
            }
        }
    }

    /// One entry that is written as a table.
    fn entry(&mut self, path: &str, keys: &dyn TableLike, line: usize) -> Value {
        let mut table = Map::new();
        for (key, item, line) in self.items(keys) {
            match scalar(item, &self.origin(line)) {
                Some(kind) => {
                    table.insert(key.to_owned(), self.value(line, kind));
                }
                None => {
                    let (section, name) = path.split_once('.').unwrap_or_default();
                    let remedy =
                        format!("a name with a dot needs quotes: [{section}.\"{name}.{key}\"]");
                    self.wrong(
                        line,
                        &format!("{path}.{key}"),
                        "must be a single value or an array of values",
                        &remedy,
                    );
                }
            }
        }
        table.insert(HEADER.to_owned(), self.value(line, ValueKind::Nil));
        self.value(line, table)
    }

    fn unknown(&mut self, name: &str, item: &Item, line: usize) {
        let fault = if !item.is_table() && !item.is_array_of_tables() {
            unknown_key(name)
        } else if name == "pgbouncer" || name == "pgfleet" {
            Fault::new(
                "unknown section",
                "in TOML the keys of the fleet stand at the top, before the first [section]",
            )
        } else {
            match nearest(name, SECTIONS.into_iter()) {
                Some(section) => {
                    Fault::new("unknown section", format!("did you mean [{section}]?"))
                }
                None => Fault::new("unknown section", "the sections are [databases] and [users]"),
            }
        };
        self.layer.fault(self.file, line, name, fault);
    }

    fn wrong(&mut self, line: usize, key: &str, reason: &str, remedy: &str) {
        self.layer.fault(self.file, line, key, Fault::new(reason, remedy));
    }

    fn origin(&self, line: usize) -> String {
        Place::origin(self.file, line)
    }

    fn value(&self, line: usize, kind: impl Into<ValueKind>) -> Value {
        Value::new(Some(&self.origin(line)), kind)
    }
}

/// The value of an item that is a scalar or an array of scalars.
fn scalar(item: &Item, origin: &String) -> Option<ValueKind> {
    match item.as_value()? {
        Toml::String(text) => Some(ValueKind::String(text.value().clone())),
        Toml::Integer(number) => Some(ValueKind::I64(*number.value())),
        Toml::Float(number) => Some(ValueKind::Float(*number.value())),
        Toml::Boolean(flag) => Some(ValueKind::Boolean(*flag.value())),
        Toml::Array(items) => {
            let items = items.iter().map(|item| {
                let kind = scalar(&Item::Value(item.clone()), origin)?;
                Some(Value::new(Some(origin), kind))
            });
            items.collect::<Option<Vec<_>>>().map(ValueKind::Array)
        }
        Toml::Datetime(_) | Toml::InlineTable(_) => None,
    }
}
