//! Reads a `pgbouncer.ini` as it is: sections that repeat, quoted keys, comments and includes.
//! Values stay the text that they are, and unlike in PgBouncer a bad line does not end the reading, so that all are reported.
//! `load` calls it for files that are ini by name or content.

use std::{
    fs,
    path::{Path, PathBuf},
};

use config::{Value, ValueKind};

use crate::{
    Problem, entry,
    fault::Fault,
    layer::{Format, Layer, SECTIONS, known_key, unknown_key},
    nearest::nearest,
    problem::Place,
};

/// How deep files may include each other, as in PgBouncer.
const DEEPEST: usize = 10;

/// Reads `text`, which is the content of `file`, and what it includes.
pub(crate) fn read(file: &Path, text: &str) -> Layer {
    let mut reader = Reader {
        layer: Layer::new(Format::Ini),
        section: Section::None,
        main_seen: false,
        open: Vec::new(),
    };
    reader.file(file, text);
    if !reader.main_seen {
        let fault = Fault::new(
            "there is no [pgbouncer] section",
            "add the line [pgbouncer] above the settings",
        );
        reader.layer.problems.push(Problem::in_file(file, None, fault));
    }
    reader.layer
}

/// Whether the text looks like an ini file and not like TOML.
pub(crate) fn looks_like_one(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().map(str::trim_start).any(|line| {
        line.starts_with("[pgbouncer]") || line.starts_with(';') || line.starts_with("%include")
    })
}

/// The section that lines are added to.
#[derive(Clone, Copy)]
enum Section {
    None,
    Main,
    Entries(&'static str),
    Unknown,
}

/// What one line says.
enum Line<'a> {
    Nothing,
    Include(&'a str),
    Section(&'a str),
    Pair(String, &'a str),
    Broken(&'static str),
}

struct Reader {
    layer: Layer,
    section: Section,
    main_seen: bool,
    /// The files that are being read, each included by the one before.
    open: Vec<PathBuf>,
}

impl Reader {
    fn file(&mut self, file: &Path, text: &str) {
        self.layer.files.push(file.to_owned());
        self.open.push(real(file));
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            match parse(line) {
                Line::Nothing => {}
                Line::Include(path) => self.include(file, number, Path::new(path)),
                Line::Section(name) => self.enter(file, number, name),
                Line::Pair(key, value) => self.pair(file, number, &key, value),
                Line::Broken(reason) => {
                    let fault =
                        Fault::new(reason, "write key = value, [section], or ; before a comment");
                    self.layer.problems.push(Problem::in_file(file, Some(number), fault));
                }
            }
        }
        self.open.pop();
    }

    /// Reads an included file in the current section; its path is relative to the working directory, as in PgBouncer.
    fn include(&mut self, file: &Path, line: usize, path: &Path) {
        let fault = if self.open.contains(&real(path)) {
            Fault::new("the file includes itself", "take out the include that closes the circle")
        } else if self.open.len() > DEEPEST {
            let reason = format!("files include each other more than {DEEPEST} deep");
            Fault::new(reason, "include them from the main file")
        } else {
            match fs::read_to_string(path) {
                Ok(text) => return self.file(path, &text),
                Err(error) => Fault::new(
                    format!("cannot read {}: {error}", path.display()),
                    "give the path of a readable file, absolute or relative to the working directory",
                ),
            }
        };
        self.layer.fault(file, line, "%include", fault);
    }

    fn enter(&mut self, file: &Path, line: usize, name: &str) {
        if name == "pgfleet" {
            self.section = Section::Main;
            return;
        }
        if name == "pgbouncer" {
            self.reset(file, line);
            self.main_seen = true;
            self.section = Section::Main;
            return;
        }
        if let Some(section) = SECTIONS.into_iter().find(|section| *section == name) {
            self.section = Section::Entries(section);
            return;
        }
        self.section = Section::Unknown;
        let remedy = match nearest(name, SECTIONS.into_iter().chain(["pgbouncer"])) {
            Some(section) => format!("did you mean [{section}]?"),
            None => "the sections are [pgbouncer], [databases] and [users]".to_owned(),
        };
        self.layer.fault(file, line, name, Fault::new("unknown section", remedy));
    }

    /// As in PgBouncer, the header puts every key back to its default.
    fn reset(&mut self, file: &Path, line: usize) {
        let is_key = |name: &str| !SECTIONS.contains(&name);
        let mut lost: Vec<&str> =
            self.layer.values.keys().map(String::as_str).filter(|name| is_key(name)).collect();
        if !lost.is_empty() {
            lost.sort_unstable();
            let (place, lost) = (Place::origin(file, line), lost.join(", "));
            self.layer.notes.push(format!(
                "{place}: [pgbouncer]: stands again and puts what was set before back to its default, as in PgBouncer: {lost}"
            ));
        }
        self.layer.values.retain(|key, _| !is_key(key));
    }

    fn pair(&mut self, file: &Path, line: usize, key: &str, text: &str) {
        let place = Place::origin(file, line);
        let value = |kind: ValueKind| Value::new(Some(&place), kind);
        match (self.section, known_key(key)) {
            (Section::Unknown, _) => {}
            (Section::None, _) => {
                let fault =
                    Fault::new("stands before the first section", "put it below [pgbouncer]");
                self.layer.fault(file, line, key, fault);
            }
            (Section::Main, None) => self.layer.fault(file, line, key, unknown_key(key)),
            (Section::Main, Some(key)) => {
                let old = self.layer.values.insert(key.to_owned(), value(text.into()));
                self.layer.replaced(key, &place, old);
            }
            (Section::Entries("peers"), _) => {
                if let Err(fault) = entry::peer(key, text) {
                    self.layer.fault(file, line, &format!("peers.{key}"), fault);
                }
                self.layer.values.entry("peers".to_owned()).or_insert_with(|| value(true.into()));
            }
            (Section::Entries(section), _) => {
                let name = format!("{section}.{key}");
                let (text, cut) = entry::whole_seconds(text);
                let cut = cut.iter().map(|cut| format!("{place}: {name}.{cut}"));
                self.layer.notes.extend(cut);
                let old = self.layer.entry(section, key, value(text.into()));
                self.layer.replaced(&name, &place, old);
            }
        }
    }
}

/// The path by which a file is known again.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn parse(line: &str) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with([';', '#']) {
        return Line::Nothing;
    }
    if let Some(rest) = line.strip_prefix('%') {
        return match rest
            .strip_prefix("include")
            .map(|path| (path.trim(), path.starts_with(char::is_whitespace)))
        {
            Some((path, true)) if !path.is_empty() => Line::Include(path),
            _ => Line::Broken(
                "not a directive that there is; the one that there is is %include FILE",
            ),
        };
    }
    if let Some(rest) = line.strip_prefix('[') {
        let behind = |text: &str| text.is_empty() || text.starts_with([';', '#']);
        return match rest.split_once(']') {
            Some((name, rest)) if behind(rest.trim_start()) => Line::Section(name.trim()),
            Some(_) | None => Line::Broken("a section header must end with ]"),
        };
    }
    match key(line).map(|(key, rest)| (key, rest.trim_start().strip_prefix('='))) {
        Some((key, Some(value))) => Line::Pair(key, value.trim()),
        Some((_, None)) => Line::Broken("there must be = after the key"),
        None => {
            Line::Broken("a key has letters, digits and _ . * - alone, or stands in single quotes")
        }
    }
}

/// The key at the start of the line, and the rest; in quotes, two of them mean one.
fn key(line: &str) -> Option<(String, &str)> {
    let Some(mut rest) = line.strip_prefix('\'') else {
        let end = line
            .find(|c: char| !c.is_ascii_alphanumeric() && !"_.*-".contains(c))
            .unwrap_or(line.len());
        let (key, rest) = line.split_at(end);
        return if key.is_empty() { None } else { Some((key.to_owned(), rest)) };
    };
    let mut key = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        key.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                key.push('\'');
                rest = more;
            }
            None => return Some((key, after)),
        }
    }
}
