//! A console's answer, whose columns are asked for by name.
//! It never interprets a value beyond reading a number.
//! The fleet's console gives it back.

/// Rows with named columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The names of the columns, in order.
    pub columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// One row of it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    values: &'a [Option<String>],
}

impl Table {
    /// A table of these columns and rows.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> Self {
        Self { columns, rows }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|values| Row { table: self, values })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first row that has this value in this column.
    pub fn find(&self, column: &str, value: &str) -> Option<Row<'_>> {
        self.rows().find(|row| row.text(column) == value)
    }

    /// The numbers of one column, added up.
    pub fn sum(&self, column: &str) -> i64 {
        self.rows().map(|row| row.number(column)).sum()
    }
}

impl Row<'_> {
    /// The value as text; null is empty.
    pub fn text(&self, column: &str) -> &str {
        let index = self.table.columns.iter().position(|name| name == column);
        let index = index.unwrap_or_else(|| missing(column, &self.table.columns));
        self.values.get(index).and_then(Option::as_deref).unwrap_or("")
    }

    /// The value as a number.
    pub fn number(&self, column: &str) -> i64 {
        self.text(column)
            .trim()
            .parse()
            .unwrap_or_else(|_| missing(column, &[self.text(column).to_owned()]))
    }
}

#[expect(clippy::panic, reason = "a column that is not there fails the test")]
fn missing(column: &str, found: &[String]) -> ! {
    panic!("the console has no number or column {column}: {found:?}")
}
