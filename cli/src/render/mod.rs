//! Results as text: a table for people, JSON and CSV for programs.
//!
//! It owns the three forms and never writes anywhere. `Screen` calls it with what the commands found.

pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod table;

use serde_json::Value;

use crate::args::Format;
use crate::exit::Failure;
use table::Look;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text.
    Text,
    /// Whole numbers or decimals.
    Number,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// What its values are.
    pub(crate) kind: Kind,
}

/// Rows of text with one value (or none) for each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// The rows.
    pub(crate) rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn of(columns: &[(&str, Kind)]) -> Self {
        let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind };
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push<const N: usize>(&mut self, values: [String; N]) {
        self.rows.push(values.into_iter().map(Some).collect());
    }

    /// The value of a column in a row; none if there is no such column, or no value.
    pub(crate) fn value<'a>(&self, row: &'a [Option<String>], name: &str) -> Option<&'a str> {
        let index = self.columns.iter().position(|column| column.name == name)?;
        row.get(index)?.as_deref()
    }

    /// These columns of it, in this order; unknown names are left out.
    pub(crate) fn pick(&self, names: &[&str]) -> Self {
        let found: Vec<usize> = names
            .iter()
            .filter_map(|name| self.columns.iter().position(|column| column.name == *name))
            .collect();
        let row = |row: &Vec<Option<String>>| {
            found.iter().map(|i| row.get(*i).cloned().flatten()).collect()
        };
        Self {
            columns: found.iter().filter_map(|i| self.columns.get(*i).cloned()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// What a command has done.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// For people: one or more lines.
    pub(crate) sentence: String,
    /// For programs.
    pub(crate) facts: Vec<(&'static str, Value)>,
}

impl Outcome {
    /// Done, in these words.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), facts: Vec::new() }
    }

    /// With one more fact.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.facts.push((name, value.into()));
        self
    }
}

/// A table in this format, ending with a line break.
pub(crate) fn table(table: &Table, format: Format, look: Look) -> Result<String, Failure> {
    Ok(match format {
        Format::Table => table::table(table, look),
        Format::Json => json::rows(table),
        Format::Csv => csv::rows(table)?,
    })
}

/// An outcome in this format, ending with a line break.
pub(crate) fn outcome(outcome: &Outcome, format: Format) -> Result<String, Failure> {
    Ok(match format {
        Format::Table => format!("{}\n", outcome.sentence),
        Format::Json => json::facts(&outcome.facts),
        Format::Csv => csv::facts(&outcome.facts)?,
    })
}

/// A number with its noun: `1 worker`, `2 workers`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
