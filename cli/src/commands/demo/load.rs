//! pgbench against the fleet: the data, and the select-only load.
//!
//! It owns the reading of what pgbench prints, and shows progress from it. It never fails for a slow machine, only for
//! errors. The story calls it.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::Command;

use super::postgres::{Programs, USER};
use super::stage::Stage;
use crate::exit::Failure;
use crate::progress::Progress;

/// Connections of the load.
pub(super) const CLIENTS: u32 = 32;

/// The name of the database at the fleet.
pub(super) const DATABASE: &str = "demo";

/// What the load brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Throughput {
    /// Transactions in all.
    pub(super) transactions: u64,
    /// Transactions for each second.
    pub(super) tps: f64,
    /// Milliseconds for each.
    pub(super) latency: f64,
}

/// pgbench as a client of the fleet.
fn pgbench(stage: &Stage, programs: &Programs, password: &str) -> Command {
    let mut command = stage.tool(&programs.path("pgbench"));
    command
        .args(["-h", "127.0.0.1", "-p", &stage.port.to_string(), "-U", USER])
        .env("PGPASSWORD", password);
    command
}

/// Fills the tables of pgbench, through the fleet.
pub(super) async fn fill(
    stage: &Stage,
    programs: &Programs,
    password: &str,
) -> Result<(), Failure> {
    let mut command = pgbench(stage, programs, password);
    command.args(["-i", "-q", "-s", "5", DATABASE]);
    stage.silent(command).await
}

/// Runs the load for this many seconds, with a step of the progress for each.
pub(super) async fn run(
    stage: &Stage,
    programs: &Programs,
    password: &str,
    seconds: u32,
    progress: &Progress,
) -> Result<Throughput, Failure> {
    let failed = || Failure::system("run pgbench");
    let mut command = pgbench(stage, programs, password);
    command.args(["-S", "-n", "-M", "simple", "-j", "2", "-P", "1", "-c", &CLIENTS.to_string()]);
    command.args(["-T", &seconds.to_string(), DATABASE]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed())?;
    let mut complaints = Vec::new();
    if let Some(said) = child.stderr.take() {
        let mut lines = BufReader::new(said).lines();
        while let Some(line) = lines.next_line().await.map_err(failed())? {
            match of_progress(&line) {
                Some(tps) => {
                    progress.step();
                    progress.say(&format!("{tps:.0} transactions/s"));
                }
                None => complaints.push(line),
            }
        }
    }
    // The summary is short enough to wait in the pipe.
    let mut summary = String::new();
    if let Some(mut printed) = child.stdout.take() {
        printed.read_to_string(&mut summary).await.map_err(failed())?;
    }
    let status = child.wait().await.map_err(failed())?;
    let throughput = of_summary(&summary).filter(|_| status.success());
    throughput.ok_or_else(|| {
        Failure::Refused(format!("pgbench failed ({status}):\n{}", complaints.join("\n")))
    })
}

/// The rate of a line such as `progress: 3.0 s, 41234.5 tps, lat 0.775 ms stddev 0.5, 0 failed`.
fn of_progress(line: &str) -> Option<f64> {
    let mut parts = line.strip_prefix("progress: ")?.split(", ");
    parts.nth(1)?.strip_suffix(" tps")?.parse().ok()
}

/// The numbers of the summary; its wording is the same in all versions that are still about.
fn of_summary(text: &str) -> Option<Throughput> {
    let after = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start))?;
        line.split([' ', '/']).find(|word| !word.is_empty() && *word != "=").map(str::to_owned)
    };
    Some(Throughput {
        transactions: after("number of transactions actually processed:")?.parse().ok()?,
        tps: after("tps")?.parse().ok()?,
        latency: after("latency average")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_pgbench_is_read() {
        let line = "progress: 3.0 s, 41234.5 tps, lat 0.775 ms stddev 0.512, 0 failed";
        assert_eq!(of_progress(line), Some(41234.5));
        assert_eq!(of_progress("pgbench: error: client 3 aborted"), None);
    }

    #[test]
    fn the_summary_of_pgbench_is_read() {
        let text = "transaction type: <builtin: select only>\n\
                    number of transactions actually processed: 412345\n\
                    number of failed transactions: 0 (0.000%)\n\
                    latency average = 0.775 ms\n\
                    initial connection time = 20.1 ms\n\
                    tps = 41234.567890 (without initial connection time)\n";
        let read = of_summary(text);
        assert_eq!(
            read,
            Some(Throughput { transactions: 412_345, tps: 41_234.567_89, latency: 0.775 })
        );
        let old = text.replace("412345", "412345/412345");
        assert_eq!(of_summary(&old).map(|read| read.transactions), Some(412_345));
        assert_eq!(of_summary("nothing"), None);
    }
}
