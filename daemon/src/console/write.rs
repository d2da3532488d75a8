//! Replies as messages.
//!
//! It owns the order in which notices, headers, rows and the tag of a reply go out, and the formats
//! that a client asked for. It never changes what a reply says. Both query protocols call it.

use std::borrow::Cow;

use pgfleet_wire::back::{self, ErrorFields};

use crate::link::table::{Outcome, Reply};

use super::request::Format;
use super::{PROTOCOL, binary};

/// Name and type of each column.
pub(super) type Columns = [(String, u32)];

/// Appends a whole reply as the simple protocol wants it, without `ReadyForQuery`.
pub(super) fn simple(out: &mut Vec<u8>, reply: &Reply) {
    notices(out, &reply.notices);
    match &reply.outcome {
        Outcome::Table { columns, rows, tag } => {
            let names: Vec<(&str, u32)> = names(columns);
            back::row_description(out, &names);
            for row in rows {
                let values = row.iter().map(|value| value.as_deref().map(str::as_bytes));
                back::data_row(out, values);
            }
            back::command_complete(out, tag);
        }
        Outcome::Done { tag } => back::command_complete(out, tag),
        Outcome::Refused { sqlstate, message } => {
            back::error(out, &ErrorFields::error(sqlstate.as_str(), message.as_str()));
        }
    }
}

/// Appends the notices of a reply.
pub(super) fn notices(out: &mut Vec<u8>, notices: &[String]) {
    for text in notices {
        let notice = ErrorFields {
            severity: "NOTICE".to_owned(),
            code: "00000".to_owned(),
            message: text.clone(),
            ..ErrorFields::default()
        };
        back::notice(out, &notice);
    }
}

/// Appends a `RowDescription` that announces these formats.
pub(super) fn description(
    out: &mut Vec<u8>,
    columns: &Columns,
    formats: &[Format],
) -> Result<(), ErrorFields> {
    let formats = formats_of(columns, formats)?;
    let mut at = out.len() + FIRST_COLUMN;
    back::row_description(out, &names(columns));
    // The builder announces text, in the last two bytes of each column.
    for ((name, _), format) in columns.iter().zip(formats) {
        // Names end at their first NUL, there as here.
        at += name.bytes().take_while(|&byte| byte != 0).count() + 1 + AFTER_NAME;
        if let (Format::Binary, Some(code)) = (format, out.get_mut(at - 1)) {
            *code = 1;
        }
    }
    Ok(())
}

/// Tag, length and number of columns stand before the first one.
const FIRST_COLUMN: usize = 7;
/// Table, column number, type, its size, its modifier, format.
const AFTER_NAME: usize = 4 + 2 + 4 + 2 + 4 + 2;

/// Appends rows in these formats.
pub(super) fn rows(
    out: &mut Vec<u8>,
    columns: &Columns,
    formats: &[Format],
    rows: &[Vec<Option<String>>],
) -> Result<(), ErrorFields> {
    let formats = formats_of(columns, formats)?;
    for row in rows {
        let mut values: Vec<Option<Cow<'_, [u8]>>> = Vec::with_capacity(row.len());
        for ((value, (name, oid)), format) in row.iter().zip(columns).zip(&formats) {
            values.push(match (value, format) {
                (None, _) => None,
                (Some(text), Format::Text) => Some(Cow::Borrowed(text.as_bytes())),
                (Some(text), Format::Binary) => {
                    Some(binary::encode(*oid, text).ok_or_else(|| {
                        let text = format!("column {name} has no binary format: ask for text");
                        ErrorFields::error("0A000", text)
                    })?)
                }
            });
        }
        back::data_row(out, values.iter().map(Option::as_deref));
    }
    Ok(())
}

/// One format for each column: none means text, one means all (manual: "Bind").
fn formats_of(columns: &Columns, formats: &[Format]) -> Result<Vec<Format>, ErrorFields> {
    match formats {
        [] => Ok(vec![Format::Text; columns.len()]),
        &[all] => Ok(vec![all; columns.len()]),
        each if each.len() == columns.len() => Ok(each.to_vec()),
        each => {
            let (formats, columns) = (each.len(), columns.len());
            let text = format!(
                "bind message has {formats} result formats but query has {columns} columns"
            );
            Err(ErrorFields::error(PROTOCOL, text))
        }
    }
}

fn names(columns: &Columns) -> Vec<(&str, u32)> {
    columns.iter().map(|(name, oid)| (name.as_str(), *oid)).collect()
}
