//! pgbench as a judge: a run is clean or the test fails.
//! It never measures anything that a test compares with a bar; that is what the bench is for.
//! Suites run it through a fleet, with a database that it has filled before.

use std::process::Command;

use super::{Printed, run};
use crate::{address::Address, binaries};

/// One run in the making.
#[derive(Clone, Debug)]
pub struct Pgbench {
    address: Address,
    arguments: Vec<String>,
}

/// What a clean run printed of itself.
#[derive(Clone, Debug)]
pub struct Report {
    /// Transactions that were done.
    pub transactions: u64,
    /// All that was printed.
    pub output: String,
}

impl Pgbench {
    /// A run through this address, without the vacuum before it.
    pub fn through(address: &Address) -> Self {
        Self { address: address.clone(), arguments: vec!["-n".to_owned()] }
    }

    /// Makes and fills the tables, past any pooler; `scale` is pgbench's.
    pub fn fill(address: &Address, scale: u32) {
        let _printed =
            Self::through(address).with(&["-i", "-q", "-s", &scale.to_string()]).printed().well();
    }

    /// With more arguments.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// With so many clients, on two threads.
    #[must_use]
    pub fn clients(self, count: u32) -> Self {
        self.with(&["-c", &count.to_string(), "-j", "2"])
    }

    /// For so many seconds.
    #[must_use]
    pub fn seconds(self, seconds: u32) -> Self {
        self.with(&["-T", &seconds.to_string()])
    }

    /// `simple`, `extended` or `prepared`.
    #[must_use]
    pub fn mode(self, mode: &str) -> Self {
        self.with(&["-M", mode])
    }

    /// Runs it, and gives back what it printed, clean or not.
    pub fn printed(&self) -> Printed {
        let mut command = Command::new(binaries::postgres("pgbench"));
        run(command.args(&self.arguments).arg(self.address.to_string()))
    }

    /// Runs it, and fails the test unless it was clean: exit 0, no error, no retry, no failed transaction.
    pub fn clean(&self) -> Report {
        let printed = self.printed().well();
        let output = format!("{}\n{}", printed.out, printed.err);
        let bad = output.lines().find(|line| is_bad(line));
        assert!(bad.is_none(), "pgbench was not clean: {output}");
        let transactions = output
            .lines()
            .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
        let transactions =
            transactions.and_then(|text| text.split('/').next()?.trim().parse().ok());
        Report {
            transactions: transactions.expect("pgbench says how many transactions it has done"),
            output,
        }
    }
}

/// Whether the line tells of something that a clean run does not have.
fn is_bad(line: &str) -> bool {
    if let Some(count) = line.strip_prefix("number of failed transactions: ") {
        return !count.starts_with("0 ");
    }
    ["error", "FATAL", "retried", "aborted", "WARNING"].iter().any(|word| line.contains(word))
}
