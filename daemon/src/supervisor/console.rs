//! The console socket: who may connect, and one task for each connection.
//!
//! It owns the socket in the runtime directory and judges its clients by the kernel's word on who they are. It
//! never lets a slow or hostile client hold up the loop: bytes, time and connections are bounded. The entry
//! binds it and starts it; statements run at the desk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Group, Uid, User};
use pgfleet_config::Settings;
use pgfleet_wire::back;
use pgfleet_wire::back::ErrorFields;
use pgfleet_wire::key::CancelKey;
use pgfleet_wire::startup::{self, First, Startup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::desk::Desk;
use super::listeners::{self, Access, ListenError, Place};
use super::runtime_dir::{self, Owner};
use super::switchboard::CONSOLE;
use super::{command, privileges};
use crate::console::{self, Session, Step};
use crate::link::message::Role;

const CONNECTIONS: usize = 64;
const BACKLOG: i32 = 128;
/// How long a client may take for its startup packet, and to read what it is sent.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many encryption requests are answered before a startup packet must come.
const ENCRYPTION_REQUESTS: u32 = 2;
/// PgBouncer's SQLSTATE for refusals.
const PROTOCOL: &str = "08P01";

/// The bound console socket.
#[derive(Debug)]
pub(crate) struct Console {
    listener: std::os::unix::net::UnixListener,
    path: std::path::PathBuf,
    group: Gid,
}

impl Console {
    /// Binds the socket in the console directory, for its owner and for the group `pgfleet`.
    pub(crate) fn bind(
        settings: &Settings,
        runtime: &Path,
        owner: Owner,
    ) -> Result<Self, ListenError> {
        let dir = pgfleet_config::console_dir(runtime);
        let path = runtime_dir::socket_path(&dir, settings.global.listen_port)?;
        let found = privileges::console_group();
        let group = found.unwrap_or(owner.gid);
        let bind = |group| {
            let place = Place::new(path.clone(), Access { mode: 0o660, group });
            listeners::bind_unix(place, BACKLOG)
        };
        // Without root's rights only our own groups can be given; without that group we do.
        let socket = bind(found).or_else(|error| match (found, error) {
            (Some(_), ListenError::Socket { .. }) => bind(None),
            (_, error) => Err(error),
        })?;
        std::os::unix::fs::lchown(&path, Some(owner.uid.as_raw()), None)
            .map_err(|source| ListenError::Socket { path: path.clone(), source })?;
        Ok(Self { listener: std::os::fd::OwnedFd::from(socket).into(), path, group })
    }

    /// Accepts from now on; must be called within the supervisor's `LocalSet`.
    pub(crate) fn serve(self, desk: Desk) -> io::Result<Serving> {
        let listener = UnixListener::from_std(self.listener)?;
        let group = self.group;
        drop(tokio::task::spawn_local(accept(listener, group, desk)));
        Ok(Serving { path: self.path })
    }
}

/// A console that accepts; its socket file is removed when this ends.
#[derive(Debug)]
pub(crate) struct Serving {
    path: std::path::PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        listeners::remove_unix(&self.path);
    }
}

async fn accept(listener: UnixListener, group: Gid, desk: Desk) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Whoever comes when all places are taken waits in the queue of the socket.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                drop(tokio::task::spawn_local(async move {
                    if let Err(error) = session(stream, group, &desk).await {
                        log::debug!("console connection ended: {error}");
                    }
                    drop(place);
                }));
            }
            Err(error) => {
                log::warn!(
                    "cannot accept console connections: {error}; the next try is in a second"
                );
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn session(mut stream: UnixStream, group: Gid, desk: &Desk) -> io::Result<()> {
    let started = timeout(STARTUP_TIMEOUT, start(&mut stream)).await;
    let (startup, ahead) = match started {
        Ok(Ok(Some(started))) => started,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(StartError::Io(error))) => return Err(error),
        Ok(Err(StartError::Refused(reason))) => return refuse(&mut stream, &reason).await,
        Err(_) => return refuse(&mut stream, "client_login_timeout").await,
    };
    let peer = stream.peer_cred()?;
    let Some(role) = role(Uid::from_raw(peer.uid()), Gid::from_raw(peer.gid()), group) else {
        let reason = format!(
            "uid {} may not use the console socket: it is for root, for the user of the fleet, and for members of group {group}; connect through the fleet as one of admin_users or stats_users",
            peer.uid()
        );
        return refuse(&mut stream, &reason).await;
    };
    let database = startup.database.as_ref().unwrap_or(&startup.user);
    if !CONSOLE.contains(&database.as_str()) {
        return refuse(&mut stream, &format!("no such database: {database}")).await;
    }
    let mut out = Vec::new();
    if startup.negotiates() {
        back::negotiate(&mut out, startup.spoken(), &startup.unknown_options);
    }
    back::auth_ok(&mut out);
    console::greeting(&mut out, &key());
    send(&mut stream, &mut out).await?;
    converse(stream, ahead, role, desk).await
}

/// Nobody can cancel a console statement, so any key will do that is not always the same.
fn key() -> CancelKey {
    let mut random = [0; 6];
    // Without random bytes it is zeros, which open nothing.
    let _zeros = getrandom::fill(&mut random);
    CancelKey::new(1, 0, random)
}

/// Statements until the client leaves.
async fn converse(
    mut stream: UnixStream,
    ahead: Vec<u8>,
    role: Role,
    desk: &Desk,
) -> io::Result<()> {
    let (mut session, mut out) = (Session::new(), Vec::new());
    let mut step = session.input(&ahead, &mut out);
    let mut buffer = vec![0; 16 << 10];
    loop {
        send(&mut stream, &mut out).await?;
        step = match step {
            Step::Close => return Ok(()),
            Step::Ask(text) => {
                let reply = command::run(desk, role, &text).await;
                session.answer(reply, &mut out)
            }
            Step::NeedMore => {
                let length = stream.read(&mut buffer).await?;
                if length == 0 {
                    return Ok(());
                }
                session.input(buffer.get(..length).unwrap_or_default(), &mut out)
            }
        };
    }
}

async fn send(stream: &mut UnixStream, out: &mut Vec<u8>) -> io::Result<()> {
    if !out.is_empty() {
        let sent = timeout(WRITE_TIMEOUT, stream.write_all(out)).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        out.clear();
    }
    Ok(())
}

async fn refuse(stream: &mut UnixStream, reason: &str) -> io::Result<()> {
    let mut out = Vec::new();
    back::error(&mut out, &ErrorFields::fatal(PROTOCOL, reason));
    send(stream, &mut out).await
}

/// Why there is no session.
enum StartError {
    Io(io::Error),
    Refused(String),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads up to the startup message; gives back what came after it. `None`: the client left, or wanted a cancel.
async fn start(stream: &mut UnixStream) -> Result<Option<(Startup, Vec<u8>)>, StartError> {
    let mut buffer = Vec::new();
    let mut requests = 0;
    loop {
        match startup::first(&buffer).map_err(|error| StartError::Refused(error.to_string()))? {
            Some((First::Startup(startup), length)) => {
                return Ok(Some((startup, buffer.split_off(length))));
            }
            Some((First::Cancel(_), _)) => return Ok(None),
            Some((First::Ssl | First::Gss, length)) => {
                requests += 1;
                if buffer.len() > length || requests > ENCRYPTION_REQUESTS {
                    return Ok(None);
                }
                buffer.clear();
                stream.write_all(b"N").await?;
            }
            None => {}
        }
        // `first` refuses packets that are too long, so this is bounded.
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// What a client of the socket may do.
fn role(peer: Uid, gid: Gid, group: Gid) -> Option<Role> {
    if peer.is_root() || peer == nix::unistd::geteuid() {
        return Some(Role::Admin);
    }
    (gid == group || is_member(peer, group)).then_some(Role::Stats)
}

fn is_member(peer: Uid, group: Gid) -> bool {
    let (user, group) =
        (User::from_uid(peer).ok().flatten(), Group::from_gid(group).ok().flatten());
    match (user, group) {
        (Some(user), Some(group)) => group.mem.contains(&user.name),
        (None, _) | (_, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_own_user_are_admins_the_group_sees_and_others_are_refused() {
        let me = nix::unistd::geteuid();
        let (group, stranger) = (Gid::from_raw(4_000_001), Uid::from_raw(4_000_002));
        assert_eq!(role(me, group, group), Some(Role::Admin));
        assert_eq!(role(Uid::from_raw(0), Gid::from_raw(0), group), Some(Role::Admin));
        assert_eq!(role(stranger, group, group), Some(Role::Stats));
        assert_eq!(role(stranger, Gid::from_raw(4_000_003), group), None);
    }
}
