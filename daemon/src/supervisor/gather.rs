//! Asks all workers one question and puts their answers together.
//!
//! It owns the gatherings under way and merges rows by the rule of each column. It never waits: who has
//! not answered when the time is over is named as missing. The loop feeds it, console statements get the result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;

use super::input::GatherId;
use crate::link::message::WorkerId;
use crate::link::table::{Column, Merge, Question, Row, Value};

/// How long a worker may take to answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);

/// What came together.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Whose rows are whose, before any merge.
    pub(crate) by_worker: BTreeMap<WorkerId, Vec<Row>>,
    pub(crate) missing: Vec<WorkerId>,
}

impl Gathered {
    /// The NOTICE texts on workers that are missing.
    pub(crate) fn notices(&self) -> Vec<String> {
        let missing = self.missing.iter();
        missing
            .map(|worker| format!("worker {worker} did not answer in time: it is missing here"))
            .collect()
    }

    /// The rows of all workers as one table; `worker` columns are filled in.
    pub(crate) fn merged(&self, question: Question) -> Vec<Row> {
        let rows = self
            .by_worker
            .iter()
            .flat_map(|(worker, rows)| rows.iter().map(move |row| (*worker, row)));
        merge(question.spec(), rows)
    }
}

/// Puts the rows of several workers together by the rules of their columns. Rows of a wrong width are
/// dropped: they can only come from a worker that is about to be ended.
pub(crate) fn merge<'a>(
    spec: &[Column],
    rows: impl Iterator<Item = (WorkerId, &'a Row)>,
) -> Vec<Row> {
    let rows = rows.filter(|(_, row)| row.len() == spec.len());
    if spec.iter().any(|column| column.merge == Merge::PerWorker) {
        return rows.map(|(worker, row)| named(spec, worker, row)).collect();
    }
    let mut merged: BTreeMap<Vec<String>, Row> = BTreeMap::new();
    for (_, row) in rows {
        match merged.entry(key(spec, row)) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(row.clone());
            }
            std::collections::btree_map::Entry::Occupied(mut known) => {
                add(spec, known.get_mut(), row)
            }
        }
    }
    merged.into_values().collect()
}

fn named(spec: &[Column], worker: WorkerId, row: &Row) -> Row {
    let fill = |(column, value): (&Column, &Value)| match column.merge {
        Merge::Supervisor if column.name == "worker" => Value::Text(worker.to_string()),
        Merge::Key
        | Merge::Sum
        | Merge::Max
        | Merge::First
        | Merge::PerWorker
        | Merge::Supervisor => value.clone(),
    };
    spec.iter().zip(row).map(fill).collect()
}

fn key(spec: &[Column], row: &Row) -> Vec<String> {
    let keys = spec.iter().zip(row).filter(|(column, _)| column.merge == Merge::Key);
    keys.map(|(_, value)| text(value).unwrap_or_default()).collect()
}

fn add(spec: &[Column], into: &mut Row, row: &Row) {
    // The seconds and microseconds of one wait belong together: both come from the longest.
    let longer = is_longer(spec, into, row);
    for ((column, have), new) in spec.iter().zip(into.iter_mut()).zip(row) {
        match column.merge {
            Merge::Sum => *have = Value::Int(int(have).saturating_add(int(new))),
            Merge::Max if longer => *have = new.clone(),
            Merge::First if *have == Value::Null => *have = new.clone(),
            Merge::Max | Merge::First | Merge::Key | Merge::PerWorker | Merge::Supervisor => {}
        }
    }
}

/// Compares the columns that are merged by their greatest value, in their order.
fn is_longer(spec: &[Column], have: &Row, new: &Row) -> bool {
    let greatest = |row: &Row| -> Vec<i64> {
        let columns = spec.iter().zip(row).filter(|(column, _)| column.merge == Merge::Max);
        columns.map(|(_, value)| int(value)).collect()
    };
    greatest(new) > greatest(have)
}

/// The value as a number; text and null count as nothing.
pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Null | Value::Text(_) => 0,
    }
}

/// The value as the console shows it.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
    }
}

/// The gatherings under way.
#[derive(Debug, Default)]
pub(crate) struct Gatherings {
    last: GatherId,
    open: BTreeMap<GatherId, Open>,
}

#[derive(Debug)]
struct Open {
    question: Question,
    waiting: BTreeSet<WorkerId>,
    so_far: Gathered,
    reply: oneshot::Sender<Gathered>,
}

impl Gatherings {
    /// Begins one over these workers; without any it is answered at once, and `None` is returned.
    pub(crate) fn begin(
        &mut self,
        question: Question,
        waiting: BTreeSet<WorkerId>,
        reply: oneshot::Sender<Gathered>,
    ) -> Option<GatherId> {
        if waiting.is_empty() {
            // Whoever asked may have gone away meanwhile.
            drop(reply.send(Gathered::default()));
            return None;
        }
        self.last += 1;
        self.open.insert(self.last, Open { question, waiting, so_far: Gathered::default(), reply });
        Some(self.last)
    }

    /// What a gathering under way asks for.
    pub(crate) fn question(&self, id: GatherId) -> Option<Question> {
        self.open.get(&id).map(|open| open.question)
    }

    pub(crate) fn rows(&mut self, worker: WorkerId, id: GatherId, rows: Vec<Row>) {
        if let Some(open) = self.open.get_mut(&id)
            && open.waiting.remove(&worker)
        {
            open.so_far.by_worker.insert(worker, rows);
            self.finish_if_complete(id);
        }
    }

    /// A worker is gone: no one waits for it any longer, and it is not missing either.
    pub(crate) fn gone(&mut self, worker: WorkerId) {
        let ids: Vec<GatherId> = self.open.keys().copied().collect();
        for id in ids {
            if let Some(open) = self.open.get_mut(&id) {
                open.waiting.remove(&worker);
            }
            self.finish_if_complete(id);
        }
    }

    /// The deadline: answers with what there is.
    pub(crate) fn due(&mut self, id: GatherId) {
        if let Some(mut open) = self.open.remove(&id) {
            open.so_far.missing = open.waiting.into_iter().collect();
            drop(open.reply.send(open.so_far));
        }
    }

    fn finish_if_complete(&mut self, id: GatherId) {
        if self.open.get(&id).is_some_and(|open| open.waiting.is_empty()) {
            self.due(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(slot: u16) -> WorkerId {
        WorkerId { slot, generation: 1 }
    }

    fn pool(user: &str, active: i64, wait: (i64, i64)) -> Row {
        Question::Pools
            .spec()
            .iter()
            .map(|column| match column.name {
                "database" => Value::Text("app".to_owned()),
                "user" => Value::Text(user.to_owned()),
                "cl_active" => Value::Int(active),
                "maxwait" => Value::Int(wait.0),
                "maxwait_us" => Value::Int(wait.1),
                "pool_mode" => Value::Text("transaction".to_owned()),
                _ => Value::Null,
            })
            .collect()
    }

    #[test]
    fn pools_are_summed_and_the_longest_wait_is_kept_whole() {
        let rows = [
            (worker(1), pool("u", 2, (1, 900_000))),
            (worker(2), pool("u", 3, (2, 5))),
            (worker(2), pool("v", 1, (0, 0))),
        ];
        let merged = merge(Question::Pools.spec(), rows.iter().map(|(worker, row)| (*worker, row)));
        assert_eq!(merged.len(), 2);
        let find = |name: &str| {
            Question::Pools.spec().iter().position(|column| column.name == name).unwrap()
        };
        let first = &merged[0];
        assert_eq!(int(&first[find("cl_active")]), 5);
        assert_eq!((int(&first[find("maxwait")]), int(&first[find("maxwait_us")])), (2, 5));
    }

    #[test]
    fn clients_are_kept_apart_and_named_by_their_worker() {
        let row: Row = vec![Value::Null; Question::Clients.spec().len()];
        let rows = [(worker(1), row.clone()), (worker(2), row)];
        let merged =
            merge(Question::Clients.spec(), rows.iter().map(|(worker, row)| (*worker, row)));
        let last: Vec<_> = merged.iter().map(|row| row.last().cloned()).collect();
        assert_eq!(
            last,
            [Some(Value::Text("1.1".to_owned())), Some(Value::Text("2.1".to_owned()))]
        );
    }

    #[test]
    fn rows_of_a_wrong_width_are_dropped() {
        let row = vec![Value::Int(1)];
        assert!(merge(Question::Pools.spec(), [(worker(1), &row)].into_iter()).is_empty());
    }

    #[test]
    fn a_silent_worker_is_named_and_a_dead_one_is_not() {
        let mut gatherings = Gatherings::default();
        let (reply, mut result) = oneshot::channel();
        let id = gatherings
            .begin(Question::Pools, [worker(1), worker(2), worker(3)].into(), reply)
            .unwrap();
        gatherings.rows(worker(1), id, Vec::new());
        gatherings.gone(worker(2));
        assert!(result.try_recv().is_err());
        gatherings.due(id);
        let gathered = result.try_recv().unwrap();
        assert_eq!(gathered.missing, [worker(3)]);
        assert!(gathered.notices()[0].contains("worker 3.1"));
    }
}
