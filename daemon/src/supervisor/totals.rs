//! The statistics of the fleet, which never fall.
//!
//! It owns the last totals of every living worker and the sum of those of dead ones, and samples them to
//! averages over `stats_period`. It never asks a worker; the loop feeds it with what workers say.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::gather::int;
use crate::ledger::tallies;
use crate::link::message::WorkerId;
use crate::link::table::{FOLDED, Question, Row, Value};

/// The numbers of one database, in the order of `Question::Stats` after its name.
pub(crate) type Numbers = Vec<i64>;
/// Numbers by database.
pub(crate) type ByDatabase = BTreeMap<String, Numbers>;

/// Places in [`Numbers`].
pub(crate) mod place {
    pub(crate) const XACTS: usize = 1;
    pub(crate) const QUERIES: usize = 2;
    pub(crate) const RECEIVED: usize = 3;
    pub(crate) const SENT: usize = 4;
    pub(crate) const XACT_TIME: usize = 5;
    pub(crate) const QUERY_TIME: usize = 6;
    pub(crate) const WAIT_TIME: usize = 7;
    pub(crate) const CLIENT_PARSES: usize = 8;
    pub(crate) const SERVER_PARSES: usize = 9;
    pub(crate) const BINDS: usize = 10;
}

/// Totals and averages at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) totals: ByDatabase,
    /// Of databases that are gone.
    pub(crate) folded: Numbers,
    pub(crate) averages: ByDatabase,
}

/// The totals of the fleet.
#[derive(Debug)]
pub(crate) struct Totals {
    living: BTreeMap<WorkerId, ByDatabase>,
    dead: ByDatabase,
    /// Databases that only dead workers knew, and since when.
    forgotten: BTreeMap<String, Instant>,
    sampled: (Instant, ByDatabase),
    averages: ByDatabase,
}

impl Totals {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            living: BTreeMap::new(),
            dead: ByDatabase::new(),
            forgotten: BTreeMap::new(),
            sampled: (now, ByDatabase::new()),
            averages: ByDatabase::new(),
        }
    }

    /// What a worker counts now: all its rows. Those that do not look like statistics are passed over.
    pub(crate) fn heard(&mut self, worker: WorkerId, rows: &[Row]) {
        let known = self.living.entry(worker).or_default();
        known.clear();
        for row in rows {
            if row.len() != Question::Stats.spec().len() {
                continue;
            }
            let mut values = row.iter();
            if let Some(Value::Text(database)) = values.next() {
                known.insert(database.clone(), values.map(int).collect());
            }
        }
    }

    /// What a worker that is gone had counted to its last moment.
    pub(crate) fn last_heard(&mut self, worker: WorkerId, tallies: OwnedFd) {
        match tallies::read(tallies) {
            Ok(rows) => {
                let known = self.living.entry(worker).or_default();
                let has_folded = rows.iter().any(|(database, _)| database == FOLDED);
                if has_folded && rows.len() < tallies::ROWS {
                    // Rows that were folded since the last heartbeat are counted there.
                    known.retain(|database, _| database.len() > tallies::NAME);
                }
                for (database, numbers) in rows {
                    let numbers = numbers.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
                    known.insert(database, numbers.to_vec());
                }
            }
            Err(error) => log::warn!("cannot read what worker {worker} counted: {error}"),
        }
    }

    /// A worker is gone; what it counted stays.
    pub(crate) fn gone(&mut self, worker: WorkerId) {
        for (database, numbers) in self.living.remove(&worker).unwrap_or_default() {
            add(self.dead.entry(database).or_default(), &numbers);
        }
    }

    /// All that the fleet has counted since it started.
    pub(crate) fn totals(&self) -> ByDatabase {
        let mut totals = self.dead.clone();
        for (database, numbers) in self.living.values().flatten() {
            add(totals.entry(database.clone()).or_default(), numbers);
        }
        totals
    }

    /// A period is over: averages are those of this period from now on.
    pub(crate) fn sample(&mut self, now: Instant) {
        let mut totals = self.totals();
        totals.remove(FOLDED);
        let (since, before) = &self.sampled;
        let period = now.duration_since(*since);
        let average = |(database, numbers): (&String, &Numbers)| {
            let before = before.get(database).cloned().unwrap_or_default();
            (database.clone(), averages(&before, numbers, period))
        };
        self.averages = totals.iter().map(average).collect();
        self.sampled = (now, totals);
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut totals = self.totals();
        let folded = totals.remove(FOLDED).unwrap_or_default();
        Summary { totals, folded, averages: self.averages.clone() }
    }

    /// Folds what is known of databases that no living worker has known for so long, and that are not
    /// `configured`: the sums keep it.
    pub(crate) fn forget(
        &mut self,
        now: Instant,
        patience: Duration,
        configured: impl Fn(&str) -> bool,
    ) {
        let (living, dead) = (&self.living, &self.dead);
        let is_gone = |name: &str| {
            name != FOLDED
                && !configured(name)
                && !living.values().any(|known| known.contains_key(name))
        };
        self.forgotten.retain(|name, _| is_gone(name));
        for name in dead.keys().filter(|name| is_gone(name)) {
            self.forgotten.entry(name.clone()).or_insert(now);
        }
        let is_due = |since: &Instant| now.duration_since(*since) >= patience;
        let due: Vec<String> = self
            .forgotten
            .iter()
            .filter(|(_, since)| is_due(since))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.forgotten.remove(&name);
            if let Some(numbers) = self.dead.remove(&name) {
                add(self.dead.entry(FOLDED.to_owned()).or_default(), &numbers);
            }
        }
    }
}

/// The sum over all databases.
pub(crate) fn sum<'a>(numbers: impl IntoIterator<Item = &'a Numbers>) -> Numbers {
    let mut sum = Numbers::new();
    numbers.into_iter().for_each(|numbers| add(&mut sum, numbers));
    sum
}

fn add(into: &mut Numbers, numbers: &Numbers) {
    into.resize(into.len().max(numbers.len()), 0);
    for (into, number) in into.iter_mut().zip(numbers) {
        *into = into.saturating_add(*number);
    }
}

/// As PgBouncer: counts for each second, transaction and query times for each one of them.
fn averages(before: &Numbers, now: &Numbers, period: Duration) -> Numbers {
    let delta: Numbers =
        (0..now.len()).map(|n| at(now, n).saturating_sub(at(before, n)).max(0)).collect();
    let micros = i64::try_from(period.as_micros()).unwrap_or(i64::MAX).max(1);
    let per_second = |number: i64| {
        i64::try_from(i128::from(number) * 1_000_000 / i128::from(micros)).unwrap_or(i64::MAX)
    };
    let averaged = |n: usize| match n {
        place::XACT_TIME => at(&delta, n).checked_div(at(&delta, place::XACTS)).unwrap_or(0),
        place::QUERY_TIME => at(&delta, n).checked_div(at(&delta, place::QUERIES)).unwrap_or(0),
        _ => per_second(at(&delta, n)),
    };
    (0..delta.len()).map(averaged).collect()
}

/// The number at a place, 0 beyond the end.
pub(crate) fn at(numbers: &[i64], place: usize) -> i64 {
    numbers.get(place).copied().unwrap_or(0)
}

/// PgBouncer's line of statistics, for the whole fleet.
pub(crate) fn line(summary: &Summary) -> String {
    let averages = sum(summary.averages.values());
    // Times are averages of averages in `sum`: they are worked out for each database, so weigh them.
    let weighed = |time: usize, count: usize| {
        let weight: i64 = summary.averages.values().map(|numbers| at(numbers, count)).sum();
        let total: i64 = summary
            .averages
            .values()
            .map(|numbers| at(numbers, time).saturating_mul(at(numbers, count)))
            .sum();
        total.checked_div(weight).unwrap_or(0)
    };
    format!(
        "stats: {} xacts/s, {} queries/s, {} client parses/s, {} server parses/s, {} binds/s, in {} B/s, out {} B/s, xact {} us, query {} us, wait {} us",
        at(&averages, place::XACTS),
        at(&averages, place::QUERIES),
        at(&averages, place::CLIENT_PARSES),
        at(&averages, place::SERVER_PARSES),
        at(&averages, place::BINDS),
        at(&averages, place::RECEIVED),
        at(&averages, place::SENT),
        weighed(place::XACT_TIME, place::XACTS),
        weighed(place::QUERY_TIME, place::QUERIES),
        at(&averages, place::WAIT_TIME),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(slot: u16) -> WorkerId {
        WorkerId { slot, generation: 1 }
    }

    /// `xacts` transactions of 10 µs each.
    fn row(xacts: i64) -> Row {
        let width = Question::Stats.spec().len();
        let mut row = vec![Value::Int(0); width];
        row[0] = Value::Text("app".to_owned());
        row[1 + place::XACTS] = Value::Int(xacts);
        row[1 + place::XACT_TIME] = Value::Int(xacts * 10);
        row
    }

    #[test]
    fn places_are_those_of_the_spec() {
        let names: Vec<&str> =
            Question::Stats.spec().iter().skip(1).map(|column| column.name).collect();
        assert_eq!(names[place::XACTS], "xact_count");
        assert_eq!(names[place::XACT_TIME], "xact_time");
        assert_eq!(names[place::WAIT_TIME], "wait_time");
        assert_eq!(names[place::BINDS], "bind_count");
        assert_eq!(names[place::SENT], "bytes_sent");
    }

    #[test]
    fn totals_do_not_fall_when_a_worker_dies() {
        let mut totals = Totals::new(Instant::now());
        totals.heard(worker(1), &[row(5)]);
        totals.heard(worker(2), &[row(7)]);
        totals.gone(worker(1));
        assert_eq!(totals.totals()["app"][place::XACTS], 12);
        totals.heard(worker(2), &[row(8)]);
        assert_eq!(totals.totals()["app"][place::XACTS], 13);
    }

    #[test]
    fn sums_keep_what_databases_counted_that_are_gone() {
        let start = Instant::now();
        let mut totals = Totals::new(start);
        totals.heard(worker(1), &[row(5)]);
        totals.gone(worker(1));
        let patience = Duration::from_secs(10);
        totals.forget(start, patience, |name| name == "app");
        totals.forget(start + patience, patience, |_| false);
        assert_eq!(totals.summary().totals["app"][place::XACTS], 5);
        totals.forget(start + patience * 2, patience, |_| false);
        let summary = totals.summary();
        assert_eq!((summary.totals.len(), summary.folded[place::XACTS]), (0, 5));
    }

    #[test]
    fn averages_are_of_the_last_period() {
        let start = Instant::now();
        let mut totals = Totals::new(start);
        totals.heard(worker(1), &[row(100)]);
        totals.sample(start + Duration::from_secs(10));
        totals.heard(worker(1), &[row(300)]);
        totals.sample(start + Duration::from_secs(20));
        let summary = totals.summary();
        assert_eq!(summary.averages["app"][place::XACTS], 20);
        assert_eq!(summary.averages["app"][place::XACT_TIME], 10);
        assert!(line(&summary).starts_with("stats: 20 xacts/s"), "{}", line(&summary));
    }
}
