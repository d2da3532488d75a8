//! CSV (RFC 4180): a header line, then a line for each row.
//!
//! It owns the quoting by way of the csv crate, and never writes to a file. `render` calls it.

use std::io;

use serde_json::Value;

use super::Table;
use crate::exit::Failure;

/// The rows under their header; an absent value is an empty field.
pub(crate) fn rows(table: &Table) -> Result<String, Failure> {
    let header: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().map(|value| value.as_deref().unwrap_or("")).collect());
    records(std::iter::once(header).chain(rows))
}

/// The facts as a header and one row.
pub(crate) fn facts(facts: &[(&'static str, Value)]) -> Result<String, Failure> {
    let values: Vec<String> = facts.iter().map(|(_, value)| plain(value)).collect();
    let header = facts.iter().map(|(name, _)| *name).collect();
    let row = values.iter().map(String::as_str).collect();
    records([header, row].into_iter())
}

fn records<'a>(records: impl Iterator<Item = Vec<&'a str>>) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.write_record(record).map_err(|error| broken(io::Error::other(error)))?;
    }
    let bytes =
        writer.into_inner().map_err(|error| broken(io::Error::other(error.error().to_string())))?;
    String::from_utf8(bytes).map_err(|error| broken(io::Error::other(error)))
}

/// Text without quotes, everything else as JSON has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn broken(error: io::Error) -> Failure {
    Failure::Output(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Kind;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut table = Table::of(&[("name", Kind::Text), ("size", Kind::Number)]);
        table.push(["a, \"b\"\nc".to_owned(), "1".to_owned()]);
        table.rows.push(vec![None, Some("2".to_owned())]);
        assert_eq!(rows(&table).unwrap(), "name,size\n\"a, \"\"b\"\"\nc\",1\n,2\n");
    }

    #[test]
    fn facts_are_a_header_and_a_row() {
        let facts = [("pid", 7.into()), ("state", "not, yet".into())];
        assert_eq!(super::facts(&facts).unwrap(), "pid,state\n7,\"not, yet\"\n");
    }
}
