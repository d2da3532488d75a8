//! The words of a line: separated by blanks, lists by commas, with double quotes around what is meant literally.
//! It knows nothing of what a word means, and never follows an `@file` that includes itself for ever.
//! Rules, maps and `auth_ldap_options` are read with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Problem, fault::Fault};

/// How deep files may include each other.
const DEEPEST: usize = 10;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// It began with a quote: it is a name, never a keyword.
    pub(super) quoted: bool,
    /// Where it begins, from 1.
    pub(super) column: usize,
}

/// A list of words that commas join.
pub(super) type Field = Vec<Token>;

/// One line that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) fields: Vec<Field>,
}

impl Line {
    /// A problem that stands at a column of this line.
    pub(super) fn problem(&self, file: &Path, column: usize, fault: Fault) -> Problem {
        let reason = format!("column {column}: {}", fault.reason);
        Problem::in_file(file, Some(self.number), Fault::new(reason, fault.remedy))
    }

    /// The column behind the last word.
    pub(super) fn end(&self) -> usize {
        let last = self.fields.last().and_then(|field| field.last());
        last.map_or(1, |token| token.column + token.text.chars().count())
    }
}

/// The lines of a text that say something; a backslash at the end of a line joins the next one to it.
pub(super) fn lines(file: &Path, text: &str, problems: &mut Vec<Problem>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut joined: Option<(usize, String)> = None;
    for (index, raw) in text.lines().enumerate() {
        let (number, whole) = match joined.take() {
            Some((number, before)) => (number, before + raw),
            None => (index + 1, raw.to_owned()),
        };
        if let Some(part) = whole.strip_suffix('\\') {
            joined = Some((number, part.to_owned()));
            continue;
        }
        lines.extend(line(file, number, &whole, problems));
    }
    if let Some((number, rest)) = joined {
        lines.extend(line(file, number, &rest, problems));
    }
    lines
}

fn line(file: &Path, number: usize, text: &str, problems: &mut Vec<Problem>) -> Option<Line> {
    match fields(text) {
        Ok(fields) if fields.is_empty() => None,
        Ok(fields) => {
            let line = Line { number, fields };
            let fields = line.fields.iter().map(|field| included(file, &line, field, problems));
            Some(Line { number, fields: fields.collect() })
        }
        Err(column) => {
            let fault = Fault::new("the quote is not closed", "write the second \"");
            let line = Line { number, fields: Vec::new() };
            problems.push(line.problem(file, column, fault));
            None
        }
    }
}

/// The fields of a line, or the column of a quote that is not closed.
fn fields(text: &str) -> Result<Vec<Field>, usize> {
    let mut fields: Vec<Field> = Vec::new();
    let mut word: Option<Token> = None;
    let (mut open, mut goes_on) = (None, false);
    for (index, character) in text.chars().enumerate() {
        let column = index + 1;
        let is_blank = character.is_whitespace();
        if open.is_none() && (is_blank || character == ',' || character == '#') {
            if let Some(token) = word.take() {
                put(&mut fields, token, goes_on);
                goes_on = false;
            }
            goes_on |= character == ',';
            if character == '#' {
                return Ok(fields);
            }
            continue;
        }
        let quoted = character == '"';
        let token = word.get_or_insert_with(|| Token { text: String::new(), quoted, column });
        if quoted {
            open = if open.is_some() { None } else { Some(column) };
        } else {
            token.text.push(character);
        }
    }
    if let Some(column) = open {
        return Err(column);
    }
    if let Some(token) = word {
        put(&mut fields, token, goes_on);
    }
    Ok(fields)
}

fn put(fields: &mut Vec<Field>, token: Token, goes_on: bool) {
    match fields.last_mut() {
        Some(field) if goes_on => field.push(token),
        Some(_) | None => fields.push(vec![token]),
    }
}

/// The field with the words of each `@file` in its place.
fn included(file: &Path, line: &Line, field: &Field, problems: &mut Vec<Problem>) -> Field {
    let mut whole = Field::new();
    for token in field {
        match token.text.strip_prefix('@').filter(|name| !token.quoted && !name.is_empty()) {
            None => whole.push(token.clone()),
            Some(name) => match words(&beside(file, name), 1) {
                Ok(words) => whole.extend(words.into_iter().map(|mut word| {
                    word.column = token.column;
                    word
                })),
                Err(fault) => problems.push(line.problem(file, token.column, fault)),
            },
        }
    }
    whole
}

fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new(".")).join(name)
}

/// All words of an included file.
fn words(file: &Path, depth: usize) -> Result<Vec<Token>, Fault> {
    let shown = file.display();
    if depth > DEEPEST {
        let reason = format!("{shown} is included more than {DEEPEST} files deep");
        return Err(Fault::new(reason, "let no file include itself"));
    }
    let text = fs::read_to_string(file).map_err(|error| {
        let reason = format!("cannot read {shown}: {error}");
        Fault::new(reason, "make the file, or name another one after the @")
    })?;
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fields = fields(line).map_err(|column| {
            let place = format!("{shown}:{}: column {column}", index + 1);
            Fault::new(format!("{place}: the quote is not closed"), "write the second \"")
        })?;
        for token in fields.into_iter().flatten() {
            match token.text.strip_prefix('@').filter(|name| !token.quoted && !name.is_empty()) {
                Some(name) => all.extend(words(&beside(file, name), depth + 1)?),
                None => all.push(token),
            }
        }
    }
    Ok(all)
}
