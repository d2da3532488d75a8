//! JSON: an array of objects for a table, one object for an outcome.
//!
//! It owns how values become JSON: numbers of numeric columns as numbers, what is absent as null. It never loses a
//! digit and never writes. `render` calls it.

use serde_json::{Map, Value};

use super::{Kind, Table};

/// The rows as an array of objects.
pub(crate) fn rows(table: &Table) -> String {
    line(&array(table))
}

/// The rows as a JSON value, to be part of something else.
pub(crate) fn array(table: &Table) -> Value {
    let object = |row: &Vec<Option<String>>| {
        let values = row.iter().map(Option::as_deref);
        let members = table
            .columns
            .iter()
            .zip(values)
            .map(|(column, text)| (column.name.clone(), value(column.kind, text)));
        Value::Object(members.collect())
    };
    table.rows.iter().map(object).collect()
}

/// The facts as one object.
pub(crate) fn facts(facts: &[(&'static str, Value)]) -> String {
    let members: Map<String, Value> =
        facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    line(&Value::Object(members))
}

/// A JSON value as a line, or a few.
pub(crate) fn line(value: &Value) -> String {
    format!("{value:#}\n")
}

fn value(kind: Kind, text: Option<&str>) -> Value {
    match (kind, text) {
        (_, None) => Value::Null,
        (Kind::Text, Some(text)) => Value::from(text),
        // What does not fit 64 bits stays text: a rounded number would be a wrong one.
        (Kind::Number, Some(text)) => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => Value::from(number),
            (Err(_), Ok(number)) if text.contains('.') => Value::from(number),
            (Err(_), _) => Value::from(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_only_in_numeric_columns() {
        let mut table = Table::of(&[("name", Kind::Text), ("size", Kind::Number)]);
        table.push(["42".to_owned(), "42".to_owned()]);
        table.push(["a\"\n".to_owned(), "99999999999999999999".to_owned()]);
        table.rows.push(vec![None, Some("1.5".to_owned())]);
        let value: Value = serde_json::from_str(&rows(&table)).unwrap();
        assert_eq!(
            value,
            serde_json::json!([
                {"name": "42", "size": 42},
                {"name": "a\"\n", "size": "99999999999999999999"},
                {"name": null, "size": 1.5}
            ])
        );
    }

    #[test]
    fn no_rows_are_an_empty_array() {
        assert_eq!(rows(&Table::of(&[("name", Kind::Text)])), "[]\n");
    }

    #[test]
    fn facts_are_one_object() {
        let value: Value =
            serde_json::from_str(&facts(&[("pid", 7.into()), ("state", "started".into())]))
                .unwrap();
        assert_eq!(value, serde_json::json!({"pid": 7, "state": "started"}));
    }
}
