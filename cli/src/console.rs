//! A connection to the console of the running fleet.
//!
//! It owns the connection over the console socket and the little runtime that drives it; it never guesses at an
//! answer. Every command that talks to a running fleet opens one.

use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Pid, User, geteuid};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

use crate::exit::plain;
use crate::render::{Column, Kind, Table};

/// The console lets one in at once, or something is wrong.
const CONNECT: Duration = Duration::from_secs(5);

/// A table is answered within the second that the fleet gives to its workers, and some grace.
const SHOW: Duration = Duration::from_secs(15);

/// Why the console did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody listens there, or not for us.
    #[error("cannot reach a fleet at {}: {}; {}", path.display(), plain(&reason.to_string()), remedy(reason))]
    Absent {
        /// The socket.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// Someone listens, and does not answer in time.
    #[error("the fleet at {} (pid {}) does not answer; look at its log, or end it with a signal", path.display(), named(*pid))]
    Silent {
        /// The socket.
        path: PathBuf,
        /// Who listens.
        pid: Option<Pid>,
    },
    /// The connection broke.
    #[error("the connection to the fleet at {} was lost; look at its log", .0.display())]
    Lost(PathBuf, #[source] Box<tokio_postgres::Error>),
    /// The console refused, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The daemon refused its configuration, for these reasons.
    #[error("{0}")]
    Misconfigured(String),
    /// This process cannot make what it needs to talk.
    #[error("cannot prepare the connection to the console")]
    Prepare(#[source] io::Error),
}

impl Error {
    /// Whether there is no daemon to talk to.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Absent { .. } | Self::Silent { .. } | Self::Lost(..) => true,
            Self::Refused(_) | Self::Misconfigured(_) | Self::Prepare(_) => false,
        }
    }
}

/// A process in words.
pub(crate) fn named(pid: Option<Pid>) -> String {
    pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string())
}

fn remedy(reason: &io::Error) -> &'static str {
    if reason.kind() == io::ErrorKind::PermissionDenied {
        "use root, or the user that runs it"
    } else {
        "start it with pgfleet start, or name its configuration with --config"
    }
}

/// The connection.
pub(crate) struct Console {
    runtime: Rc<Runtime>,
    client: Client,
    path: PathBuf,
    notices: UnboundedReceiver<String>,
    pid: Option<Pid>,
}

/// What a statement brought.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The rows; no columns if it has none.
    pub(crate) table: Table,
    /// What the console said besides.
    pub(crate) notices: Vec<String>,
}

impl Console {
    /// Connects to this socket.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::Prepare)?;
        Self::open_on(Rc::new(runtime), path)
    }

    /// Another connection to the same console, driven together with this one.
    pub(crate) fn second(&self) -> Result<Self, Error> {
        Self::open_on(Rc::clone(&self.runtime), &self.path)
    }

    fn open_on(runtime: Rc<Runtime>, path: &Path) -> Result<Self, Error> {
        let absent = |reason| Error::Absent { path: path.to_owned(), reason };
        let stream = UnixStream::connect(path).map_err(absent)?;
        let peer = getsockopt(&stream, sockopt::PeerCredentials);
        let pid = peer.ok().map(|peer| Pid::from_raw(peer.pid()));
        stream.set_nonblocking(true).map_err(Error::Prepare)?;
        let (said, notices) = unbounded_channel();
        let client = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(stream).map_err(Error::Prepare)?;
            match tokio::time::timeout(CONNECT, login(stream, said)).await {
                Ok(login) => login.map_err(|error| failed(path, error)),
                Err(_elapsed) => Err(Error::Silent { path: path.to_owned(), pid }),
            }
        })?;
        Ok(Self { runtime, client, path: path.to_owned(), notices, pid })
    }

    /// The supervisor, as the kernel knows it.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Runs a statement, however long it takes; its columns are taken for text.
    pub(crate) fn ask(&mut self, statement: &str) -> Result<Answer, Error> {
        let messages = self.runtime.block_on(self.client.simple_query(statement));
        let table = rows(messages.map_err(|error| failed(&self.path, error))?);
        Ok(Answer { table, notices: self.said() })
    }

    /// Runs a SHOW statement; its columns are taken for text.
    pub(crate) fn show(&mut self, what: &str) -> Result<Answer, Error> {
        self.ask_within(&format!("SHOW {what}"), SHOW)
    }

    /// Runs a statement that must be answered in this time.
    pub(crate) fn ask_within(&mut self, statement: &str, limit: Duration) -> Result<Answer, Error> {
        let asked = self.client.simple_query(statement);
        let messages = self.runtime.block_on(async { tokio::time::timeout(limit, asked).await });
        let messages = messages.map_err(|_elapsed| self.silent())?;
        let table = rows(messages.map_err(|error| failed(&self.path, error))?);
        Ok(Answer { table, notices: self.said() })
    }

    fn silent(&self) -> Error {
        Error::Silent { path: self.path.clone(), pid: self.pid }
    }

    /// Runs a SHOW statement, with the types of its columns.
    ///
    /// The simple protocol, as this client has it, does not tell types: they are asked for first.
    pub(crate) fn show_typed(&mut self, what: &str) -> Result<Answer, Error> {
        let statement = format!("SHOW {what}");
        let asked = self.client.prepare(&statement);
        let described = self.runtime.block_on(async { tokio::time::timeout(SHOW, asked).await });
        let described = described.map_err(|_elapsed| self.silent())?;
        // What was said meanwhile will be said again with the rows.
        let _said_twice = self.said();
        let mut answer = self.show(what)?;
        let described = described.map_err(|error| failed(&self.path, error))?;
        for (column, known) in answer.table.columns.iter_mut().zip(described.columns()) {
            column.kind = kind(known.type_());
        }
        Ok(answer)
    }

    /// Runs a statement that takes its time, and meanwhile shows what `look` brings on `other`, again and again.
    pub(crate) fn ask_watching(
        &mut self,
        statement: &str,
        other: &Self,
        look: &str,
        every: Duration,
        mut show: impl FnMut(&Table),
    ) -> Result<Answer, Error> {
        let asked = self.client.simple_query(statement);
        let watched = async {
            loop {
                tokio::time::sleep(every).await;
                // Whoever only watches has no failures: the statement itself will tell.
                if let Ok(messages) = other.client.simple_query(look).await {
                    show(&rows(messages));
                }
            }
        };
        // Both only wait for messages; whichever is dropped has nothing half done.
        let messages = self.runtime.block_on(async {
            tokio::select! {
                messages = asked => messages,
                never = watched => never,
            }
        });
        let table = rows(messages.map_err(|error| failed(&self.path, error))?);
        Ok(Answer { table, notices: self.said() })
    }

    fn said(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.notices.try_recv().ok()).collect()
    }
}

/// Logs in as the user of this process, and leaves a task behind that passes notices on.
async fn login(
    stream: tokio::net::UnixStream,
    said: UnboundedSender<String>,
) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config.user(os_user()).dbname("pgfleet").application_name("pgfleet");
    let (client, mut connection) = config.connect_raw(stream, NoTls).await?;
    let relay = async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message {
                // The command may have ended already.
                let _unheard = said.send(notice.message().to_owned());
            }
        }
    };
    drop(tokio::spawn(relay));
    Ok(client)
}

/// The name of the user of this process, or its number where there is no name.
fn os_user() -> String {
    let uid = geteuid();
    let user = User::from_uid(uid).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

fn failed(path: &Path, error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(refusal) => {
            let more = [refusal.detail(), refusal.hint()];
            let lines = std::iter::once(refusal.message()).chain(more.into_iter().flatten());
            let text = lines.collect::<Vec<_>>().join("\n");
            if *refusal.code() == SqlState::CONFIG_FILE_ERROR {
                Error::Misconfigured(text)
            } else {
                Error::Refused(text)
            }
        }
        None => Error::Lost(path.to_owned(), Box::new(error)),
    }
}

fn kind(of: &Type) -> Kind {
    match *of {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC => Kind::Number,
        _ => Kind::Text,
    }
}

/// The rows of the first result.
fn rows(messages: Vec<SimpleQueryMessage>) -> Table {
    let mut table = Table::default();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let text = |name: &str| Column { name: name.to_owned(), kind: Kind::Text };
                table.columns = columns.iter().map(|column| text(column.name())).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let value = |index| row.try_get(index).ok().flatten().map(str::to_owned);
                table.rows.push((0..row.len()).map(value).collect());
            }
            SimpleQueryMessage::CommandComplete(_) | _ => {}
        }
    }
    table
}
