//! A client by way of tokio-postgres, for tests that wait for one answer after the other.
//! It never hides an error: each call gives back what the other side said.
//! The suites use it where the driver's own way of speaking is what an application would use.

use std::{
    future,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use tokio::runtime::{Builder, Handle};
use tokio_postgres::{AsyncMessage, CancelToken, NoTls, Row, SimpleQueryMessage, types::ToSql};

use crate::{address::Address, failure::Failure, wait};

/// How long one answer may take before the test is told that it hangs.
const ANSWER: Duration = Duration::from_secs(90);

/// The runtime that drives all connections of this process, on a thread of its own.
pub fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(future::pending::<()>()));
        handle
    })
}

/// What a connection said outside of any answer.
#[derive(Debug, Default)]
struct Heard {
    notices: Vec<String>,
    notifications: Vec<(String, String)>,
}

/// A logged-in client.
#[derive(Debug)]
pub struct Client {
    client: tokio_postgres::Client,
    heard: Arc<Mutex<Heard>>,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// What the other side refused it with.
    pub fn connect(address: &Address) -> Result<Self, Failure> {
        let config: tokio_postgres::Config =
            address.to_string().parse().expect("addresses are connection strings");
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (client, mut connection) = within(config.connect(NoTls))?;
        let ear = Arc::clone(&heard);
        runtime().spawn(async move {
            // Ends when the client is dropped or the connection is lost; the client's next call tells which.
            while let Some(Ok(message)) =
                future::poll_fn(|context| connection.poll_message(context)).await
            {
                let mut heard = ear.lock().unwrap_or_else(PoisonError::into_inner);
                match message {
                    AsyncMessage::Notice(notice) => heard.notices.push(notice.message().to_owned()),
                    AsyncMessage::Notification(note) => {
                        heard
                            .notifications
                            .push((note.channel().to_owned(), note.payload().to_owned()));
                    }
                    // The driver's enum is open.
                    _ => {}
                }
            }
        });
        Ok(Self { client, heard })
    }

    /// Runs statements by the simple protocol and gives back all rows.
    ///
    /// # Errors
    /// The first error that came back.
    pub fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        let messages = within(self.client.simple_query(sql))?;
        let rows = messages.iter().filter_map(|message| {
            let SimpleQueryMessage::Row(row) = message else { return None };
            Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
        });
        Ok(rows.collect())
    }

    /// Runs statements and expects no error.
    pub fn run(&self, sql: &str) {
        self.rows(sql).unwrap_or_else(|failure| fail(sql, &failure));
    }

    /// The first value of the first row, by the simple protocol.
    pub fn value(&self, sql: &str) -> String {
        let rows = self.rows(sql).unwrap_or_else(|failure| fail(sql, &failure));
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        value.unwrap_or_else(|| fail(sql, &Failure::new("", "", "no value came back")))
    }

    /// The error that the statements end in.
    pub fn failure(&self, sql: &str) -> Failure {
        self.rows(sql).expect_err("the statement should have failed")
    }

    /// Runs a statement with parameters by the extended protocol.
    ///
    /// # Errors
    /// The error that came back.
    pub fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        Ok(within(self.client.query(sql, parameters))?)
    }

    /// What ends this client's query from another connection.
    pub fn canceller(&self) -> Canceller {
        Canceller { token: self.client.cancel_token() }
    }

    /// The driver itself, for what has no short form here; its futures run on [`runtime`].
    pub fn driver(&self) -> &tokio_postgres::Client {
        &self.client
    }

    /// The texts of the notices so far.
    pub fn notices(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).notices.clone()
    }

    /// Waits for the notification and gives back its payload.
    pub fn notification(&self, channel: &str) -> String {
        wait::until(&format!("a notification comes on {channel}"), || {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard
                .notifications
                .iter()
                .find(|(name, _)| name == channel)
                .map(|(_, payload)| payload.clone())
        })
    }
}

/// Ends the query of the client that it came from.
#[derive(Clone)]
pub struct Canceller {
    token: CancelToken,
}

impl Canceller {
    /// Sends the cancel request over a connection of its own, and waits until that is closed.
    ///
    /// # Errors
    /// When the connection could not be made.
    pub fn cancel(&self) -> Result<(), Failure> {
        Ok(within(self.token.cancel_query(NoTls))?)
    }
}

/// Runs the future to its end, or fails the test when it hangs.
fn within<T>(future: impl Future<Output = T>) -> T {
    runtime()
        .block_on(async { tokio::time::timeout(ANSWER, future).await })
        .expect("an answer comes within 90 seconds")
}

#[expect(clippy::panic, reason = "an unexpected answer fails the test")]
fn fail(sql: &str, failure: &Failure) -> ! {
    panic!("{sql}: {failure}")
}
