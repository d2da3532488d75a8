//! The demo, step by step.
//!
//! It owns the order and the words; each step is the command that an operator would type, or a client that anyone
//! could write. It never clears anything away. The demo's frame calls it.

use std::fs;

use serde_json::{Value, json};

use super::cancel;
use super::load::{self, CLIENTS, DATABASE, Throughput};
use super::postgres::{self, Cluster, PORT, Programs, USER};
use super::stage::Stage;
use crate::args::{Demo, Format};
use crate::exit::Failure;
use crate::render::{Kind, Outcome, Table, table};
use crate::screen::Screen;

/// Says what happens: to standard output for people, and beside the results for programs.
struct Narrator<'a>(&'a Screen);

impl Narrator<'_> {
    fn say(&self, text: &str) -> Result<(), Failure> {
        match self.0.format() {
            Format::Table => self.0.text(&format!("{text}\n")),
            Format::Json | Format::Csv => {
                self.0.remark(text);
                Ok(())
            }
        }
    }

    /// Runs a command.
    async fn run(&self, stage: &Stage, words: &[&str]) -> Result<(), Failure> {
        self.typed(words)?;
        self.printed(&stage.pgfleet(words).await?)
    }

    /// Shows a command as it would be typed.
    fn typed(&self, words: &[&str]) -> Result<(), Failure> {
        let quoted = words.iter().map(|word| match word.contains(' ') {
            true => format!("'{word}'"),
            false => (*word).to_owned(),
        });
        self.say(&format!("$ pgfleet {}", quoted.collect::<Vec<_>>().join(" ")))
    }

    /// Shows what it printed.
    fn printed(&self, text: &str) -> Result<(), Failure> {
        self.say(&format!("  {}\n", text.trim_end().replace('\n', "\n  ")))
    }
}

/// Tells it from the beginning to the end.
pub(super) async fn tell(stage: &mut Stage, demo: &Demo, screen: &Screen) -> Result<(), Failure> {
    let programs = &Programs::find()?;
    let narrator = Narrator(screen);
    narrator.say(&format!(
        "A throwaway PostgreSQL {} in {}",
        programs.version,
        stage.dir().display()
    ))?;
    let progress = screen.progress("initdb and postgres");
    postgres::make(stage, programs).await?;
    let cluster = Cluster::spawn(stage, programs)?;
    let sockets = postgres::socket_dir(stage);
    // From here on it is ended with everything else, also if it never answers.
    stage.cluster.insert(cluster).answers(&sockets).await?;
    drop(progress);
    narrator.say("  it listens on a Unix socket in there, and nowhere else\n")?;
    open(stage, demo, &narrator).await?;
    let password = password(stage)?;
    let (throughput, shares) = work(stage, demo, screen, programs, &password).await?;
    narrator.say(
        "A long query, and a cancel request from another connection, which any worker may get:",
    )?;
    let took = cancel::run(stage, &password).await?;
    narrator.say(&format!("  cancelled after {took:.1?}; the query beside it went on\n"))?;
    let workers = close(stage, &narrator).await?;
    let sentence = format!(
        "{:.0} transactions/s, {:.2} ms each, {} in all; nothing is left behind",
        throughput.tps, throughput.latency, throughput.transactions
    );
    screen.outcome(
        &Outcome::new(sentence)
            .with("tps", json!(throughput.tps))
            .with("latency_ms", json!(throughput.latency))
            .with("transactions", throughput.transactions)
            .with("cancel_ms", json!(took.as_secs_f64() * 1000.0))
            .with("workers", workers)
            .with("shares", shares),
    )
}

/// `init` and `start`.
async fn open(stage: &mut Stage, demo: &Demo, narrator: &Narrator<'_>) -> Result<(), Failure> {
    let sockets = postgres::socket_dir(stage);
    let database =
        format!("{DATABASE}=host={} port={PORT} dbname=postgres user={USER}", sockets.display());
    let listen = format!("127.0.0.1:{}", stage.port);
    let workers = demo.workers.to_string();
    narrator
        .run(stage, &["init", "--listen", &listen, "--workers", &workers, "--database", &database])
        .await?;
    narrator.typed(&["start"])?;
    narrator.printed(&stage.start().await?)
}

/// The password that `init` has made for the admin user.
fn password(stage: &Stage) -> Result<String, Failure> {
    let path = stage.dir().join("userlist.txt");
    let text =
        fs::read_to_string(&path).map_err(Failure::system(format!("read {}", path.display())))?;
    let line = text.lines().find(|line| line.starts_with(&format!("\"{USER}\"")));
    let secret = line.and_then(|line| line.split('"').nth(3)).map(str::to_owned);
    secret.ok_or_else(|| Failure::Refused(format!("there is no user {USER} in {}", path.display())))
}

/// The data, the load, and who did how much of it.
async fn work(
    stage: &Stage,
    demo: &Demo,
    screen: &Screen,
    programs: &Programs,
    password: &str,
) -> Result<(Throughput, Value), Failure> {
    let narrator = Narrator(screen);
    let at = format!("-h 127.0.0.1 -p {} -U {USER}", stage.port);
    narrator.say(&format!("$ pgbench -i -s 5 {at} {DATABASE}"))?;
    let progress = screen.progress("filling the tables");
    load::fill(stage, programs, password).await?;
    drop(progress);
    narrator.say("  500000 accounts, through the fleet\n")?;
    narrator.say(&format!("$ pgbench -S -c {CLIENTS} -T {} {at} {DATABASE}", demo.seconds))?;
    let before = workers(stage).await?;
    let progress = screen.progress_of(demo.seconds.into(), "connecting");
    let throughput = load::run(stage, programs, password, demo.seconds, &progress).await?;
    drop(progress);
    let after = workers(stage).await?;
    narrator.say(&format!(
        "  {:.0} transactions/s over {CLIENTS} connections, {:.2} ms each",
        throughput.tps, throughput.latency
    ))?;
    let shares = shares(&before, &after);
    let shown = table::table(&shares, screen.look());
    narrator.say(&format!("  who did how much:\n{}", shown.trim_end()))?;
    let totals = totals(stage).await?;
    narrator.say(&format!("  the fleet counts {totals} transactions so far, as one pooler\n"))?;
    Ok((throughput, crate::render::json::array(&shares)))
}

/// SHOW WORKERS, as objects.
async fn workers(stage: &Stage) -> Result<Vec<Value>, Failure> {
    rows(stage, "workers").await
}

async fn rows(stage: &Stage, what: &str) -> Result<Vec<Value>, Failure> {
    let text = stage.pgfleet(&["show", what, "--format", "json"]).await?;
    let wrong = |error| Failure::Refused(format!("pgfleet show {what} printed no JSON: {error}"));
    serde_json::from_str(&text).map_err(wrong)
}

/// What each worker did between two moments.
fn shares(before: &[Value], after: &[Value]) -> Table {
    let mut table = Table::of(&[
        ("worker", Kind::Text),
        ("pid", Kind::Number),
        ("cpu_ms", Kind::Number),
        ("cpu_share", Kind::Text),
        ("connections_given", Kind::Number),
        ("connections_taken", Kind::Number),
    ]);
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64).unwrap_or(0);
    let gained = |row: &Value, name: &str| {
        let earlier = before.iter().find(|earlier| earlier.get("worker") == row.get("worker"));
        number(row, name).saturating_sub(earlier.map_or(0, |earlier| number(earlier, name)))
    };
    let all: u64 = after.iter().map(|row| gained(row, "cpu_ms")).sum();
    for row in after {
        let cpu = gained(row, "cpu_ms");
        table.push([
            row.get("worker").and_then(Value::as_str).unwrap_or("-").to_owned(),
            number(row, "pid").to_string(),
            cpu.to_string(),
            format!("{} %", cpu * 100 / all.max(1)),
            gained(row, "handed_out").to_string(),
            gained(row, "handed_in").to_string(),
        ]);
    }
    table
}

/// The transactions of all workers.
async fn totals(stage: &Stage) -> Result<u64, Failure> {
    let rows = rows(stage, "stats_totals").await?;
    let own = rows.iter().find(|row| row.get("database").and_then(Value::as_str) == Some(DATABASE));
    Ok(own.and_then(|row| row.get("xact_count")).and_then(Value::as_u64).unwrap_or(0))
}

/// `scale`, `status` and `stop`; how many workers there were at the end.
async fn close(stage: &Stage, narrator: &Narrator<'_>) -> Result<u64, Failure> {
    let now = workers(stage).await?.len();
    // The pool of 20 servers is divided: there cannot be more workers.
    let more = if now <= 18 { now + 2 } else { now - 1 };
    narrator.run(stage, &["scale", &more.to_string()]).await?;
    narrator.run(stage, &["status"]).await?;
    narrator.run(stage, &["stop"]).await?;
    Ok(u64::try_from(more).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_what_was_gained() {
        let before = [json!({"worker": "1.1", "pid": 7, "cpu_ms": 100, "handed_in": 1})];
        let after = [
            json!({"worker": "1.1", "pid": 7, "cpu_ms": 400, "handed_in": 5}),
            json!({"worker": "2.1", "pid": 8, "cpu_ms": 100, "handed_in": 0}),
        ];
        let table = shares(&before, &after);
        let text = |row: usize, name| table.value(&table.rows[row], name).unwrap().to_owned();
        assert_eq!(
            (text(0, "cpu_ms"), text(0, "cpu_share")),
            ("300".to_owned(), "75 %".to_owned())
        );
        assert_eq!(
            (text(1, "cpu_share"), text(0, "connections_taken")),
            ("25 %".to_owned(), "4".to_owned())
        );
    }
}
