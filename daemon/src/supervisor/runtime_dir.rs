//! The runtime directory: where the console socket, the lock and the pid of a fleet are.
//!
//! It makes the directories and checks those that are there already, so that no one else's files are
//! trusted or written. It never removes a directory. The entry calls it before anything is bound.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};

/// The longest path that a Unix socket address takes.
const LONGEST_SOCKET_PATH: usize = 107;

/// Why the runtime directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeDirError {
    #[error(
        "cannot make {path}: {source}; make it yourself for the user that runs the fleet, or set runtime_dir"
    )]
    Make { path: PathBuf, source: io::Error },
    #[error(
        "{0} is a symbolic link or no directory; remove it, or set runtime_dir to another path"
    )]
    NotADirectory(PathBuf),
    #[error(
        "{path} belongs to uid {found}, not to uid {wanted}; remove it, or set runtime_dir to another path"
    )]
    Foreign { path: PathBuf, found: u32, wanted: u32 },
    #[error(
        "{path} has mode {found:04o}, others may write there; run chmod {wanted:04o} on it, or set runtime_dir to another path"
    )]
    Open { path: PathBuf, found: u32, wanted: u32 },
    #[error("the socket path {0} is longer than 107 bytes; set a shorter directory")]
    LongPath(PathBuf),
}

/// Who the files of the fleet belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

/// Makes and checks the runtime directory, `private` and `console` in it.
pub(crate) fn prepare(path: &Path, owner: Owner) -> Result<(), RuntimeDirError> {
    directory(path, 0o755, owner)?;
    directory(&private_dir(path), 0o700, owner)?;
    directory(&pgfleet_config::console_dir(path), 0o755, owner)
}

/// The directory of the lock and the pid.
pub(crate) fn private_dir(runtime: &Path) -> PathBuf {
    runtime.join("private")
}

/// The path of a Postgres socket in a directory, if an address can hold it.
pub(crate) fn socket_path(dir: &Path, port: u16) -> Result<PathBuf, RuntimeDirError> {
    let path = dir.join(format!(".s.PGSQL.{port}"));
    if path.as_os_str().len() > LONGEST_SOCKET_PATH {
        return Err(RuntimeDirError::LongPath(path));
    }
    Ok(path)
}

fn directory(path: &Path, mode: u32, owner: Owner) -> Result<(), RuntimeDirError> {
    let failed = |source| RuntimeDirError::Make { path: path.to_owned(), source };
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {
            // The umask may have taken bits away, and root makes it for the user to come.
            fs::set_permissions(path, PermissionsOf(mode).into()).map_err(failed)?;
            nix::unistd::chown(path, Some(owner.uid), Some(owner.gid))
                .map_err(|errno| failed(errno.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(path, mode, owner),
        Err(error) => Err(failed(error)),
    }
}

fn check(path: &Path, wanted: u32, owner: Owner) -> Result<(), RuntimeDirError> {
    let path = || path.to_owned();
    let found = fs::symlink_metadata(path())
        .map_err(|source| RuntimeDirError::Make { path: path(), source })?;
    if !found.file_type().is_dir() {
        return Err(RuntimeDirError::NotADirectory(path()));
    }
    if found.uid() != owner.uid.as_raw() {
        return Err(RuntimeDirError::Foreign {
            path: path(),
            found: found.uid(),
            wanted: owner.uid.as_raw(),
        });
    }
    let mode = found.mode() & 0o7777;
    let is_open = mode & 0o022 != 0 || (wanted == 0o700 && mode & 0o077 != 0);
    if is_open {
        return Err(RuntimeDirError::Open { path: path(), found: mode, wanted });
    }
    Ok(())
}

/// Permission bits.
struct PermissionsOf(u32);

impl From<PermissionsOf> for fs::Permissions {
    fn from(bits: PermissionsOf) -> Self {
        std::os::unix::fs::PermissionsExt::from_mode(bits.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn me() -> Owner {
        Owner { uid: nix::unistd::geteuid(), gid: nix::unistd::getegid() }
    }

    #[test]
    fn a_new_directory_gets_its_parts_and_a_second_start_accepts_them() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        prepare(&path, me()).unwrap();
        prepare(&path, me()).unwrap();
        assert_eq!(fs::metadata(private_dir(&path)).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_a_file_and_an_open_directory_are_refused_with_the_way_out() {
        let temporary = tempfile::tempdir().unwrap();
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(temporary.path(), &link).unwrap();
        assert!(matches!(prepare(&link, me()), Err(RuntimeDirError::NotADirectory(_))));
        let open = temporary.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let error = prepare(&open, me()).unwrap_err().to_string();
        assert!(error.contains("chmod 0755"), "{error}");
    }

    #[test]
    fn someone_elses_directory_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let other = Owner { uid: Uid::from_raw(me().uid.as_raw() + 1), gid: me().gid };
        let path = temporary.path().join("run");
        fs::create_dir(&path).unwrap();
        assert!(matches!(prepare(&path, other), Err(RuntimeDirError::Foreign { .. })));
    }

    #[test]
    fn a_socket_path_of_more_than_107_bytes_is_refused() {
        let dir = PathBuf::from(format!("/{}", "d".repeat(95)));
        assert!(matches!(socket_path(&dir, 6432), Err(RuntimeDirError::LongPath(_))));
        assert!(socket_path(Path::new("/tmp"), 6432).is_ok());
    }
}
