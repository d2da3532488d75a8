//! A table on its way to a client.
//!
//! It owns columns and rows and keeps them of one width. It knows nothing of what is shown. The tables of
//! `show` are made with it.

use crate::link::table::{Column, Outcome, Row, Type, Value};
use crate::supervisor::gather;

/// Columns and rows.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Vec<(String, Type)>,
    rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub(super) fn new(columns: &[(&str, Type)]) -> Self {
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Self { columns, rows: Vec::new() }
    }

    /// The rows of a worker's table as they are.
    pub(super) fn of_rows(spec: &[Column], rows: &[Row]) -> Self {
        let columns: Vec<(&str, Type)> =
            spec.iter().map(|column| (column.name, column.kind)).collect();
        let mut table = Self::new(&columns);
        for row in rows {
            table.push(row.clone());
        }
        table
    }

    /// Adds a row; one that is too short is filled up with nulls.
    pub(super) fn push(&mut self, values: Vec<Value>) {
        let mut row: Vec<Option<String>> = values.iter().map(gather::text).collect();
        row.resize(self.columns.len(), None);
        self.rows.push(row);
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let columns = self.columns.into_iter().map(|(name, kind)| (name, kind.oid())).collect();
        Outcome::Table { columns, rows: self.rows, tag: "SHOW".to_owned() }
    }
}

/// A text value.
pub(super) fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// A whole number.
pub(super) fn number(value: impl TryInto<i64>) -> Value {
    Value::Int(value.try_into().unwrap_or(i64::MAX))
}
