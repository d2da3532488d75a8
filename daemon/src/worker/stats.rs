//! Totals of each database since the worker's start.
//!
//! The relay adds to one row by its number; the console and the heartbeat read all rows. Times are
//! microseconds. The row of a database that goes away is folded into one for all such: totals never fall.

use std::collections::HashMap;
use std::time::Duration;

use crate::ledger::tallies::{NUMBERS, Tallies};
use slab::Slab;

use crate::link::table::{FOLDED, Row, Value};

/// The totals of one database, as SHOW STATS_TOTALS names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) server_assignments: u64,
    pub(crate) xacts: u64,
    pub(crate) queries: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) xact_time: u64,
    pub(crate) query_time: u64,
    pub(crate) wait_time: u64,
    pub(crate) client_parses: u64,
    pub(crate) server_parses: u64,
    pub(crate) binds: u64,
    pub(crate) logins: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.server_assignments += other.server_assignments;
        self.xacts += other.xacts;
        self.queries += other.queries;
        self.received += other.received;
        self.sent += other.sent;
        self.xact_time += other.xact_time;
        self.query_time += other.query_time;
        self.wait_time += other.wait_time;
        self.client_parses += other.client_parses;
        self.server_parses += other.server_parses;
        self.binds += other.binds;
        self.logins += other.logins;
    }

    /// In the order of the columns.
    fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.server_assignments,
            self.xacts,
            self.queries,
            self.received,
            self.sent,
            self.xact_time,
            self.query_time,
            self.wait_time,
            self.client_parses,
            self.server_parses,
            self.binds,
            self.logins,
        ]
    }
}

/// All rows.
#[derive(Default)]
pub(crate) struct Stats {
    rows: Slab<(String, Totals)>,
    index: HashMap<String, usize>,
    /// Rows that have changed since the last [`Stats::publish`].
    changed: Vec<usize>,
    tallies: Option<Tallies>,
}

/// Whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn number(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

impl Stats {
    /// The row of a database.
    pub(crate) fn row_of(&mut self, database: &str) -> usize {
        if let Some(&row) = self.index.get(database) {
            return row;
        }
        let row = self.rows.insert((database.to_owned(), Totals::default()));
        self.index.insert(database.to_owned(), row);
        row
    }

    /// A database goes away: what was counted for it stays in the sums.
    pub(crate) fn fold(&mut self, database: &str) {
        let Some(row) = self.index.remove(database) else { return };
        let (_, totals) = self.rows.remove(row);
        let folded = self.row_of(FOLDED);
        if let Some(sums) = self.at(folded) {
            sums.add(&totals);
        }
        // The sum first: whoever reads in between must not find less than before.
        self.publish();
        if folded != row
            && let Some(tallies) = &mut self.tallies
        {
            tallies.clear(row);
        }
    }

    /// Its totals, to be added to. An unknown row is the caller's mistake and counts nowhere.
    pub(crate) fn at(&mut self, row: usize) -> Option<&mut Totals> {
        if self.changed.last() != Some(&row) {
            self.changed.push(row);
        }
        self.rows.get_mut(row).map(|(_, totals)| totals)
    }

    /// From now on the totals are written where they outlive this worker.
    pub(crate) fn keep_in(&mut self, tallies: Tallies) {
        self.tallies = Some(tallies);
    }

    /// Writes what has changed there.
    pub(crate) fn publish(&mut self) {
        for row in self.changed.drain(..) {
            if let (Some(tallies), Some((name, totals))) = (&mut self.tallies, self.rows.get(row)) {
                tallies.write(row, name, &totals.numbers());
            }
        }
    }

    /// The rows of [`crate::link::table::Question::Stats`].
    pub(crate) fn table(&self) -> Vec<Row> {
        self.rows
            .iter()
            .map(|(_, (name, row))| {
                let name = Value::Text(name.clone());
                std::iter::once(name).chain(row.numbers().map(number)).collect()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::table::Question;

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let mut stats = Stats::default();
        let row = stats.row_of("bench");
        assert_eq!(stats.row_of("bench"), row);
        stats.at(row).unwrap().queries += 3;
        let table = stats.table();
        assert_eq!(table[0].len(), Question::Stats.spec().len());
        assert_eq!(table[0][3], Value::Int(3));
    }

    #[test]
    fn what_was_counted_for_a_database_that_went_away_stays_in_the_sum() {
        let mut stats = Stats::default();
        for (name, queries) in [("one", 3), ("two", 4), ("three", 5)] {
            let row = stats.row_of(name);
            stats.at(row).unwrap().queries += queries;
        }
        stats.fold("one");
        stats.fold("two");
        stats.fold("unknown");
        let again = stats.row_of("one");
        assert_eq!(stats.at(again).unwrap().queries, 0);
        let sum: u64 = stats.rows.iter().map(|(_, (_, totals))| totals.queries).sum();
        assert_eq!((sum, stats.rows.len()), (12, 3));
        let folded = stats.row_of(FOLDED);
        assert_eq!(stats.at(folded).unwrap().queries, 7);
    }
}
