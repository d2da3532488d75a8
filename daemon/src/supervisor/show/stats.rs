//! SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS, with PgBouncer's columns.
//!
//! It only lays out numbers; the totals of the fleet come from `totals`. It changes nothing. `show` calls it.

use super::table::{Table, number, text};
use crate::link::table::{Question, Type, Value};
use crate::supervisor::totals::{self, Numbers, Summary};

/// The names that SHOW STATS has after `total_` and `avg_`, in the order of the numbers.
const SHORT: [&str; 12] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "received",
    "sent",
    "xact_time",
    "query_time",
    "wait_time",
    "client_parse_count",
    "server_parse_count",
    "bind_count",
    "client_login_count",
];

/// PgBouncer calls one average differently.
fn average_name(short: &str) -> String {
    if short == "received" { "avg_recv".to_owned() } else { format!("avg_{short}") }
}

fn total_name(short: &str) -> String {
    format!("total_{short}")
}

/// SHOW STATS: totals and averages of each database.
pub(super) fn both(summary: &Summary) -> Table {
    let names: Vec<String> = SHORT
        .iter()
        .map(|short| total_name(short))
        .chain(SHORT.iter().map(|short| average_name(short)))
        .collect();
    let mut table = with_database(&names);
    for (database, total) in &summary.totals {
        let average = summary.averages.get(database);
        let mut row = vec![text(database)];
        row.extend(values(total));
        row.extend(values(average.unwrap_or(&Numbers::new())));
        table.push(row);
    }
    table
}

/// SHOW STATS_TOTALS.
pub(super) fn totals_only(summary: &Summary) -> Table {
    let names: Vec<String> =
        Question::Stats.spec().iter().skip(1).map(|column| column.name.to_owned()).collect();
    let mut table = with_database(&names);
    for (database, total) in &summary.totals {
        let mut row = vec![text(database)];
        row.extend(values(total));
        table.push(row);
    }
    table
}

/// SHOW STATS_AVERAGES.
pub(super) fn averages_only(summary: &Summary) -> Table {
    let names: Vec<String> = Question::Stats
        .spec()
        .iter()
        .skip(1)
        .map(|column| match column.name {
            counted @ ("client_parse_count" | "server_parse_count" | "bind_count"
            | "client_login_count") => format!("avg_{counted}"),
            plain => plain.to_owned(),
        })
        .collect();
    let mut table = with_database(&names);
    for database in summary.totals.keys() {
        let mut row = vec![text(database)];
        row.extend(values(summary.averages.get(database).unwrap_or(&Numbers::new())));
        table.push(row);
    }
    table
}

/// SHOW TOTALS: the sums over all databases, one a row.
pub(super) fn of_the_fleet(summary: &Summary) -> Table {
    let mut table = Table::new(&[("name", Type::Text), ("value", Type::Numeric)]);
    let all = summary.totals.values().chain([&summary.folded]);
    let (total, average) = (totals::sum(all), totals::sum(summary.averages.values()));
    for (prefix, numbers) in [("total", &total), ("avg", &average)] {
        for (place, short) in SHORT.iter().enumerate() {
            let name = text(format!("{prefix}_{}", counter(short)));
            table.push(vec![name, number(totals::at(numbers, place))]);
        }
    }
    table
}

/// SHOW TOTALS names some numbers as PgBouncer's own counters.
fn counter(short: &str) -> String {
    match short {
        "received" => "client_bytes".to_owned(),
        "sent" => "server_bytes".to_owned(),
        "client_parse_count" | "server_parse_count" | "bind_count" => format!("ps_{short}"),
        other => other.to_owned(),
    }
}

fn with_database(names: &[String]) -> Table {
    let mut columns = vec![("database", Type::Text)];
    columns.extend(names.iter().map(|name| (name.as_str(), Type::Numeric)));
    Table::new(&columns)
}

fn values(numbers: &Numbers) -> impl Iterator<Item = Value> + '_ {
    (0..SHORT.len()).map(|place| number(totals::at(numbers, place)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::table::Outcome;

    fn names(table: Table) -> Vec<String> {
        let Outcome::Table { columns, .. } = table.into_outcome() else { panic!("no table") };
        columns.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn columns_are_pgbouncers() {
        let summary = Summary::default();
        let stats = names(both(&summary));
        assert_eq!(stats.len(), 25);
        assert_eq!(stats[4..6], ["total_received", "total_sent"]);
        assert_eq!(stats[16..18], ["avg_recv", "avg_sent"]);
        let totals = names(totals_only(&summary));
        assert_eq!(totals[4..6], ["bytes_received", "bytes_sent"]);
        assert_eq!(names(averages_only(&summary))[9], "avg_client_parse_count");
        assert_eq!(SHORT.len() + 1, Question::Stats.spec().len());
    }
}
