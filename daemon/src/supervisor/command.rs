//! The commands of the console, from the statement to its answer.
//!
//! It says who may run what, puts a command to the loop, and waits where a command means to wait: until
//! servers are gone, or buffers are empty. It keeps no state and holds up no one but whoever asked. The console
//! and the link's statements call it.

use std::time::Duration;

use super::desk::Desk;
use super::gather::{Gathered, int, text};
use super::input::Refusal;
use super::show;
use super::slot::Stop;
use super::statement::{self, Show, Statement, Wait};
use super::switchboard::{self, Turn};
use super::view::View;
use crate::link::message::{Drain, LimitKey, Role};
use crate::link::switches::{Activity, Order, Scope};
use crate::link::table::{Outcome, Question, Reply, Row};

/// How soon, and then how often, the workers are asked whether they have come to rest.
const SOON: Duration = Duration::from_millis(5);
const OFTEN: Duration = Duration::from_millis(200);

/// Runs a statement to its reply.
pub(crate) async fn run(desk: &Desk, role: Role, text: &str) -> Reply {
    match attempt(desk, role, text).await {
        Ok(reply) => reply,
        Err(Refusal { sqlstate, message, notices }) => {
            let outcome = Outcome::Refused { sqlstate: sqlstate.to_owned(), message };
            Reply { notices, outcome }
        }
    }
}

async fn attempt(desk: &Desk, role: Role, text: &str) -> Result<Reply, Refusal> {
    let statement = statement::parse(text);
    if role == Role::Stats && needs_admin(&statement, text) {
        return Err(Refusal::protocol("admin access needed"));
    }
    let (tag, notices) = match statement? {
        Statement::Show(what) => return show::run(desk, what).await,
        Statement::Reload => ("RELOAD", desk.reload().await?),
        Statement::Scale(workers) => ("SCALE", desk.scale(workers).await?),
        Statement::Restart => ("RESTART", desk.restart().await?),
        Statement::Shutdown(wait) => shutdown(desk, wait).await?,
        Statement::Set { key, value } => {
            let notices = desk.set(key.clone(), value.clone()).await?;
            let outcome = Outcome::Done { tag: format!("SET {key}={value}") };
            return Ok(Reply { notices, outcome });
        }
        Statement::Pause(scope) => ("PAUSE", pause(desk, scope).await?),
        Statement::Suspend => ("SUSPEND", suspend(desk).await?),
        Statement::Resume(scope) => ("RESUME", turn(desk, Turn::Resume(scope)).await?),
        Statement::Disable(name) => ("DISABLE", turn(desk, Turn::Disable(name)).await?),
        Statement::Enable(name) => ("ENABLE", turn(desk, Turn::Enable(name)).await?),
        Statement::Reconnect(scope) => ("RECONNECT", reconnect(desk, scope).await?),
        Statement::WaitClose(scope) => ("WAIT_CLOSE", wait_close(desk, scope).await?),
        Statement::Kill(scope) => ("KILL", kill(desk, scope).await?),
        Statement::KillClient(number) => ("KILL_CLIENT", kill_client(desk, number).await?),
    };
    Ok(Reply { notices, outcome: Outcome::Done { tag: tag.to_owned() } })
}

/// Whether those who may only look are refused, whatever else is wrong with the statement.
fn needs_admin(statement: &Result<Statement, Refusal>, text: &str) -> bool {
    match statement {
        Ok(Statement::Show(Show::Fds)) => true,
        Ok(Statement::Show(_)) => false,
        Ok(_) => true,
        Err(_) => statement::is_command(text),
    }
}

async fn shutdown(desk: &Desk, wait: Wait) -> Result<(&'static str, Vec<String>), Refusal> {
    let (tag, stop) = match wait {
        Wait::Nothing => ("SHUTDOWN", Stop::Now),
        Wait::Clients => ("SHUTDOWN WAIT_FOR_CLIENTS", Stop::Drain(Drain::WhenClientsLeave)),
        Wait::Servers => ("SHUTDOWN WAIT_FOR_SERVERS", Stop::Drain(Drain::WhenServersLeave)),
        Wait::Transactions => {
            let drain_timeout = desk.view().await?.settings.global.drain_timeout;
            let drain = Drain::BetweenTransactions(drain_timeout);
            ("SHUTDOWN WAIT_FOR_TRANSACTIONS", Stop::Drain(drain))
        }
    };
    let mut notices = desk.shutdown(stop).await?;
    // Fleets with nobody to wait for have ended by then.
    if stop != Stop::Now
        && let Ok(reported) = desk.order(Order::Report).await
    {
        notices.extend(late(&reported));
    }
    Ok((tag, notices))
}

/// Turns a switch; returns when all workers keep to it.
async fn turn(desk: &Desk, turn: Turn) -> Result<Vec<String>, Refusal> {
    desk.turn(turn).await?;
    Ok(late(&desk.order(Order::Report).await?))
}

/// Says which workers have not answered in time.
fn late(gathered: &Gathered) -> Vec<String> {
    let missing = gathered.missing.iter();
    missing.map(|worker| format!("worker {worker} has not answered yet")).collect()
}

async fn pause(desk: &Desk, scope: Scope) -> Result<Vec<String>, Refusal> {
    desk.turn(Turn::Pause(scope.clone())).await?;
    let is_paused = |view: &View| match &scope {
        Scope::All => view.switches.activity == Activity::Paused,
        Scope::Database(name) => view.switches.pauses(name),
    };
    until(desk, "PAUSE", is_paused, |rows, view| {
        count(rows, &scope, 1) == 0 && ghosts(view, &scope) == 0
    })
    .await
}

async fn suspend(desk: &Desk) -> Result<Vec<String>, Refusal> {
    desk.turn(Turn::Suspend).await?;
    let is_suspended = |view: &View| view.switches.activity == Activity::Suspended;
    until(desk, "SUSPEND", is_suspended, |rows, _| count(rows, &Scope::All, 3) == 0).await
}

async fn wait_close(desk: &Desk, scope: Scope) -> Result<Vec<String>, Refusal> {
    known(desk, "wait in", &scope).await?;
    until(desk, "WAIT_CLOSE", |_| true, |rows, _| count(rows, &scope, 2) == 0).await
}

async fn reconnect(desk: &Desk, scope: Scope) -> Result<Vec<String>, Refusal> {
    known(desk, "reconnect", &scope).await?;
    Ok(late(&desk.order(Order::Reconnect(scope)).await?))
}

async fn kill(desk: &Desk, scope: Scope) -> Result<Vec<String>, Refusal> {
    desk.turn(Turn::Kill(scope.clone())).await?;
    Ok(late(&desk.order(Order::Kill(scope)).await?))
}

async fn kill_client(desk: &Desk, number: i64) -> Result<Vec<String>, Refusal> {
    let gathered = desk.order(Order::KillClient(number)).await?;
    let done = gathered.merged(Question::Done);
    if done.iter().flatten().map(int).sum::<i64>() == 0 {
        let refusal = Refusal::protocol("client not found");
        return Err(Refusal { notices: late(&gathered), ..refusal });
    }
    Ok(late(&gathered))
}

async fn known(desk: &Desk, verb: &'static str, scope: &Scope) -> Result<(), Refusal> {
    let settings = desk.view().await?.settings;
    let is_known = |name: &str| settings.database(name).is_some();
    switchboard::check(verb, scope, is_known).map_err(|stuck| Refusal::protocol(stuck.to_string()))
}

/// Asks all workers again and again until `is_done`; ends early when what it waits for is not wanted any more.
async fn until(
    desk: &Desk,
    command: &str,
    is_wanted: impl Fn(&View) -> bool,
    is_done: impl Fn(&[Row], &View) -> bool,
) -> Result<Vec<String>, Refusal> {
    let _place = desk.wait_place(command)?;
    let mut pause = SOON;
    loop {
        let gathered = desk.gather(Question::Busy).await?;
        // Looked at afterwards: a worker that died meanwhile has left its servers to the supervisor.
        let view = desk.view().await?;
        if !is_wanted(&view) {
            let text = format!("{command} was ended by another command before it was done");
            return Err(Refusal::protocol(text));
        }
        if gathered.missing.is_empty() && is_done(&gathered.merged(Question::Busy), &view) {
            return Ok(Vec::new());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(OFTEN);
    }
}

/// The sum of one column over the databases of a scope.
fn count(rows: &[Row], scope: &Scope, column: usize) -> i64 {
    let covered = rows.iter().filter(|row| {
        let name = row.first().and_then(text).unwrap_or_default();
        scope.covers(&name)
    });
    covered.filter_map(|row| row.get(column)).map(int).sum()
}

/// Servers of dead workers that are not gone yet.
fn ghosts(view: &View, scope: &Scope) -> u32 {
    let of_database = |(key, count): (&LimitKey, &u32)| match key {
        LimitKey::Database(name) if scope.covers(name) => Some(*count),
        LimitKey::Database(_)
        | LimitKey::Clients
        | LimitKey::ClientsOfDatabase(_)
        | LimitKey::ClientsOfUser(_)
        | LimitKey::Pool { .. }
        | LimitKey::User(_) => None,
    };
    view.haunted.iter().filter_map(of_database).sum()
}
