//! Unix sockets to listen on: the clients' one, and the console's.
//!
//! It owns the file of such a socket: a stale one is replaced, a live one is refused, and it is removed at
//! the end. It never accepts. The listeners and the console bind with it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group};
use pgfleet_config::Settings;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{Copy, ListenError};
use crate::link::message::ListenerKind;
use crate::supervisor::runtime_dir;

/// The number under which workers know the Unix socket.
pub(super) const ID: u32 = 0;

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) mode: u32,
    pub(crate) group: Option<Gid>,
}

/// A path and who may connect to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    access: Access,
}

/// A bound and listening Unix socket.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    path: PathBuf,
    shown: String,
    socket: Socket,
}

impl UnixSocket {
    pub(crate) fn address(&self) -> &str {
        &self.shown
    }

    pub(super) fn copy(&self) -> Result<Copy, ListenError> {
        let failed = |source| ListenError::Socket { path: self.path.clone(), source };
        let socket = self.socket.as_fd().try_clone_to_owned().map_err(failed)?;
        Ok(Copy { id: ID, kind: ListenerKind::Unix, address: self.shown.clone(), socket })
    }

    /// Stops listening and removes the file.
    pub(super) fn close(self) {
        if let Err(error) = self.socket.shutdown(std::net::Shutdown::Both) {
            log::debug!("cannot stop listening on {}: {error}", self.shown);
        }
        remove(&self.path);
    }
}

/// The clients' Unix socket that the settings ask for.
pub(super) fn of(settings: &Settings, runtime: &Path) -> Result<Option<Place>, ListenError> {
    let global = &settings.global;
    let Some(dir) = &global.unix_socket_dir else { return Ok(None) };
    let dir = if dir == Path::new("auto") { runtime } else { dir.as_path() };
    let path = runtime_dir::socket_path(dir, global.listen_port)?;
    let group = global.unix_socket_group.as_ref().map(|name| group(name, &path)).transpose()?;
    Ok(Some(Place { path, access: Access { mode: global.unix_socket_mode, group } }))
}

fn group(name: &str, path: &Path) -> Result<Gid, ListenError> {
    let found = Group::from_name(name).ok().flatten().map(|group| group.gid);
    found.or_else(|| name.parse().ok().map(Gid::from_raw)).ok_or_else(|| ListenError::Socket {
        path: path.to_owned(),
        source: io::Error::other(format!("there is no group {name}")),
    })
}

impl Place {
    pub(crate) fn new(path: PathBuf, access: Access) -> Self {
        Self { path, access }
    }
}

/// Binds and listens. A socket file that no one answers at is replaced.
pub(crate) fn bind(place: Place, backlog: i32) -> Result<UnixSocket, ListenError> {
    let Place { path, access } = place;
    let shown = path.display().to_string();
    let failed = |source| ListenError::Socket { path: path.clone(), source };
    if let Some(name) = shown.strip_prefix('@') {
        let address = SockAddr::unix(format!("\0{name}")).map_err(failed)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
        socket.bind(&address).map_err(|source| {
            if source.kind() == io::ErrorKind::AddrInUse {
                ListenError::SocketInUse { path: path.clone() }
            } else {
                failed(source)
            }
        })?;
        return listening(socket, path.clone(), shown.clone(), backlog).map_err(failed);
    }
    make_way(&path)?;
    let address = SockAddr::unix(&path).map_err(failed)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.bind(&address).map_err(failed)?;
    // Nobody can connect before `listen`, so the permissions are in time.
    fs::set_permissions(&path, fs::Permissions::from_mode(access.mode)).map_err(failed)?;
    if let Some(group) = access.group {
        std::os::unix::fs::lchown(&path, None, Some(group.as_raw())).map_err(failed)?;
    }
    listening(socket, path.clone(), shown, backlog).map_err(failed)
}

fn listening(socket: Socket, path: PathBuf, shown: String, backlog: i32) -> io::Result<UnixSocket> {
    socket.set_nonblocking(true)?;
    socket.listen(backlog)?;
    Ok(UnixSocket { path, shown, socket })
}

/// Removes a stale socket file; refuses one that is answered, and anything else.
fn make_way(path: &Path) -> Result<(), ListenError> {
    let path = || path.to_owned();
    let found = match fs::symlink_metadata(path()) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ListenError::Socket { path: path(), source }),
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket { path: path() });
    }
    match std::os::unix::net::UnixStream::connect(path()) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path()).map_err(|source| ListenError::Socket { path: path(), source })
        }
        Ok(_) | Err(_) => Err(ListenError::SocketInUse { path: path() }),
    }
}

/// Removes a socket file, if it has not been removed already.
pub(crate) fn remove(path: &Path) {
    if path.as_os_str().as_encoded_bytes().starts_with(b"@") {
        return;
    }
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        log::warn!("cannot remove {}: {error}", path.display());
    }
}

/// The descriptor of a socket.
impl From<UnixSocket> for OwnedFd {
    fn from(unix: UnixSocket) -> Self {
        unix.socket.into()
    }
}
