//! A long query, cancelled from another connection.
//!
//! It owns the two connections and the proof that the right query ended, and that another one did not. The story calls
//! it.

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::load::DATABASE;
use super::postgres::{self, USER};
use super::stage::Stage;
use crate::exit::Failure;

/// The query that is cancelled, and the one that must go on.
const VICTIM: &str = "select pg_sleep(600)";
const BYSTANDER: &str = "select pg_sleep(601)";

const PATIENCE: Duration = Duration::from_secs(15);

/// Cancels the one query; how long it took until its client knew.
pub(super) async fn run(stage: &Stage, password: &str) -> Result<Duration, Failure> {
    let victim = connect(stage, password).await?;
    let bystander = connect(stage, password).await?;
    let (of_victim, of_bystander) = (victim.cancel_token(), bystander.cancel_token());
    let running = tokio::spawn(async move { victim.simple_query(VICTIM).await });
    let beside = tokio::spawn(async move { bystander.simple_query(BYSTANDER).await });
    let watcher = postgres::connect(&postgres::socket_dir(stage))
        .await
        .map_err(|error| refused("ask Postgres", &error))?;
    until_running(&watcher, VICTIM).await?;
    until_running(&watcher, BYSTANDER).await?;
    let begin = Instant::now();
    of_victim
        .cancel_query(NoTls)
        .await
        .map_err(|error| refused("send a cancel request", &error))?;
    let ended = timeout(PATIENCE, running)
        .await
        .map_err(|_elapsed| wrong("the query was not cancelled"))?;
    let took = begin.elapsed();
    let code = ended.ok().and_then(Result::err).and_then(|error| error.code().cloned());
    if code != Some(SqlState::QUERY_CANCELED) {
        return Err(wrong("the query ended otherwise than by its cancel"));
    }
    if !is_running(&watcher, BYSTANDER).await? {
        return Err(wrong("the cancel ended another query as well"));
    }
    of_bystander
        .cancel_query(NoTls)
        .await
        .map_err(|error| refused("send a cancel request", &error))?;
    // How it ends matters to no one.
    let _ended = timeout(PATIENCE, beside).await;
    Ok(took)
}

/// A client of the fleet.
async fn connect(stage: &Stage, password: &str) -> Result<Client, Failure> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(stage.port).user(USER).password(password).dbname(DATABASE);
    let (client, connection) =
        config.connect(NoTls).await.map_err(|error| refused("connect to the fleet", &error))?;
    drop(tokio::spawn(async move {
        // Its end is seen by whoever uses the client.
        let _ended = connection.await;
    }));
    Ok(client)
}

async fn until_running(watcher: &Client, query: &str) -> Result<(), Failure> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if is_running(watcher, query).await? {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(wrong("the long query did not reach Postgres"))
}

async fn is_running(watcher: &Client, query: &str) -> Result<bool, Failure> {
    let found = watcher
        .query("select 1 from pg_stat_activity where state = 'active' and query = $1", &[&query])
        .await
        .map_err(|error| refused("ask Postgres", &error))?;
    Ok(!found.is_empty())
}

fn refused(what: &str, error: &tokio_postgres::Error) -> Failure {
    let reason = error
        .as_db_error()
        .map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned());
    Failure::Refused(format!("cannot {what}: {reason}"))
}

fn wrong(what: &str) -> Failure {
    Failure::Refused(what.to_owned())
}
