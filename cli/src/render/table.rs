//! Tables for people.
//!
//! It owns borders, alignment, colour and what happens when the screen is too narrow: then each row becomes a
//! block of lines. It never lets a control character of a value reach the terminal. `render` and `status` call it.

use std::env;
use std::io::{self, IsTerminal};

use comfy_table::{Attribute, Cell, CellAlignment, TableComponent, presets};

use super::{Kind, Table};
use crate::args::Global;

/// How tables look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Which characters the borders are made of.
    pub(crate) borders: Borders,
    /// Whether headers stand out.
    pub(crate) colour: Colour,
    /// The columns of the terminal; none on a pipe, where lines are as long as they are.
    pub(crate) width: Option<u16>,
}

/// The characters of borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borders {
    /// What every locale can show.
    Ascii,
    /// Lines of the Unicode box drawing block.
    Unicode,
}

/// Whether escape sequences may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// They may not.
    Off,
    /// They may.
    On,
}

impl Look {
    /// The look for standard output as it is, and for what the operator said of colour.
    pub(crate) fn of_terminal(global: &Global) -> Self {
        let terminal = io::stdout().is_terminal();
        // NO_COLOR counts when it is not empty.
        let refused = global.no_color
            || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            borders: borders(|name| env::var(name).ok()),
            colour: if terminal && !refused { Colour::On } else { Colour::Off },
            width: if terminal { comfy_table::Table::new().width() } else { None },
        }
    }
}

/// The first of these variables that is set decides, as in setlocale(3).
fn borders(variable: impl Fn(&str) -> Option<String>) -> Borders {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| variable(name).filter(|value| !value.is_empty()))
        .unwrap_or_default()
        .to_ascii_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") {
        Borders::Unicode
    } else {
        Borders::Ascii
    }
}

/// The table, or a block of lines for each row where the screen is too narrow for it.
pub(crate) fn table(table: &Table, look: Look) -> String {
    let text = grid(table, look);
    match look.width {
        Some(width) if widest(table) > usize::from(width) => blocks(table, look),
        Some(_) | None => format!("{text}\n"),
    }
}

fn grid(table: &Table, look: Look) -> String {
    let mut grid = comfy_table::Table::new();
    match look.borders {
        Borders::Ascii => grid.load_preset(presets::ASCII_FULL_CONDENSED),
        Borders::Unicode => grid
            .load_preset(presets::UTF8_FULL_CONDENSED)
            .set_style(TableComponent::VerticalLines, '│'),
    };
    grid.force_no_tty();
    let bold = look.colour == Colour::On;
    if bold {
        grid.enforce_styling();
    }
    let header = table.columns.iter().map(|column| {
        let cell = Cell::new(&column.name);
        if bold { cell.add_attribute(Attribute::Bold) } else { cell }
    });
    grid.set_header(header);
    for row in &table.rows {
        let cells = table.columns.iter().zip(row).map(|(column, value)| {
            let cell = Cell::new(shown(value.as_deref()));
            match column.kind {
                Kind::Number => cell.set_alignment(CellAlignment::Right),
                Kind::Text => cell,
            }
        });
        grid.add_row(cells);
    }
    grid.to_string()
}

/// The width of the grid: borders and a blank on each side of a value.
fn widest(table: &Table) -> usize {
    let width = |(index, column): (usize, &super::Column)| {
        let values = table.rows.iter().filter_map(|row| row.get(index));
        let longest = values.map(|value| shown(value.as_deref()).chars().count()).max();
        longest.unwrap_or(0).max(column.name.chars().count()) + 3
    };
    table.columns.iter().enumerate().map(width).sum::<usize>() + 1
}

/// Each row as lines of `name  value`, long lines as they are: the terminal wraps them.
fn blocks(table: &Table, look: Look) -> String {
    let names = table.columns.iter().map(|column| column.name.chars().count());
    let pad = names.max().unwrap_or(0);
    let rule = match look.borders {
        Borders::Ascii => "-",
        Borders::Unicode => "─",
    };
    let mut text = String::new();
    for (number, row) in (1..).zip(&table.rows) {
        let width = look.width.map_or(40, usize::from).min(40);
        let head = format!("{} {number} ", rule.repeat(2));
        let tail = width.saturating_sub(head.chars().count());
        text.push_str(&format!("{head}{}\n", rule.repeat(tail)));
        for (column, value) in table.columns.iter().zip(row) {
            text.push_str(format!("{:pad$}  {}", column.name, shown(value.as_deref())).trim_end());
            text.push('\n');
        }
    }
    text
}

/// A value without control characters, which could do things to a terminal.
fn shown(value: Option<&str>) -> String {
    let mut text = String::new();
    for c in value.unwrap_or("").chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Look = Look { borders: Borders::Ascii, colour: Colour::Off, width: None };

    fn sample() -> Table {
        let mut table = Table::of(&[("database", Kind::Text), ("clients", Kind::Number)]);
        table.push(["app".to_owned(), "7".to_owned()]);
        table.rows.push(vec![Some("a\u{1b}[2J".to_owned()), None]);
        table
    }

    #[test]
    fn a_pipe_gets_ascii_without_colour() {
        let text = table(&sample(), PIPE);
        assert!(text.is_ascii(), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.contains("| app        |       7 |"), "{text}");
    }

    #[test]
    fn a_narrow_screen_gets_a_block_for_each_row() {
        let text = table(&sample(), Look { width: Some(20), ..PIPE });
        let expected = "-- 1 ---------------\ndatabase  app\nclients   7\n-- 2 ---------------\ndatabase  a\\u{1b}[2J\nclients\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_wide_screen_gets_lines_that_fit() {
        let text = table(
            &sample(),
            Look { borders: Borders::Unicode, colour: Colour::On, width: Some(80) },
        );
        assert!(text.contains('│') && text.contains("\u{1b}[1m"), "{text:?}");
        assert!(!text.contains("[2J") || text.contains("\\u{1b}[2J"), "{text:?}");
    }

    #[test]
    fn only_utf8_locales_get_unicode_borders() {
        let locale = |all: &'static str, lang: &'static str| {
            borders(move |name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert_eq!(locale("", "de_DE.UTF-8"), Borders::Unicode);
        assert_eq!(locale("C", "de_DE.UTF-8"), Borders::Ascii);
        assert_eq!(locale("C.utf8", ""), Borders::Unicode);
        assert_eq!(borders(|_| None), Borders::Ascii);
    }
}
