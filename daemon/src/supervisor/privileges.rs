//! Who the fleet runs as, and how many files it may open.
//!
//! It resolves `user`, drops root's rights for good, and raises the soft limit of open files to the
//! hard one. It never goes on as root. The entry calls it: listeners are bound before, workers start after.

use std::ffi::CString;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{self, Gid, Uid, User};
use pgfleet_config::Settings;

use super::runtime_dir::Owner;

/// Why the fleet cannot run as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivilegesError {
    #[error(
        "pgfleet does not run as root; set user in the configuration to the user that it should run as, or start it as that user"
    )]
    Root,
    #[error(
        "user {0} of the configuration does not exist; create it, or set user to one that does"
    )]
    UnknownUser(String),
    #[error("user {0} of the configuration has the uid of root; set user to another one")]
    RootUser(String),
    #[error("cannot become user {0}: {1}")]
    Become(String, Errno),
}

/// What to run as.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// As we are: not root.
    Own(Owner),
    /// Root becomes this user once everything is bound.
    Become(User),
}

impl Identity {
    /// Finds out what to run as.
    pub(crate) fn of(settings: &Settings) -> Result<Self, PrivilegesError> {
        if !unistd::geteuid().is_root() {
            return Ok(Self::Own(Owner { uid: unistd::geteuid(), gid: unistd::getegid() }));
        }
        let name = settings.global.user.as_ref().ok_or(PrivilegesError::Root)?;
        let user = User::from_name(name)
            .ok()
            .flatten()
            .ok_or_else(|| PrivilegesError::UnknownUser(name.clone()))?;
        if user.uid.is_root() {
            return Err(PrivilegesError::RootUser(name.clone()));
        }
        Ok(Self::Become(user))
    }

    /// Whom the fleet's files belong to.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Self::Own(owner) => *owner,
            Self::Become(user) => Owner { uid: user.uid, gid: user.gid },
        }
    }

    /// Gives up root's rights, if we have them.
    pub(crate) fn assume(&self) -> Result<(), PrivilegesError> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Become(user) => {
                become_user(user).map_err(|errno| PrivilegesError::Become(user.name.clone(), errno))
            }
        }
    }
}

fn become_user(user: &User) -> nix::Result<()> {
    let name = CString::new(user.name.as_str()).map_err(|_| Errno::EINVAL)?;
    unistd::initgroups(&name, user.gid)?;
    unistd::setgid(user.gid)?;
    unistd::setuid(user.uid)?;
    // A second way back would be a hole: make sure that there is none.
    if unistd::setuid(Uid::from_raw(0)).is_ok()
        || unistd::geteuid() != user.uid
        || unistd::getegid() != user.gid
    {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The group of the console socket: `pgfleet` where there is one that we may give it to.
pub(crate) fn console_group() -> Option<Gid> {
    unistd::Group::from_name("pgfleet").ok().flatten().map(|group| group.gid)
}

/// Raises the soft limit of open files to the hard one, and warns if it is too low for the limits
/// of the configuration.
pub(crate) fn raise_open_files(settings: &Settings, workers: u16) {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        log::warn!("cannot raise the limit of open files to {hard}: {errno}");
    }
    let need = open_files_needed(settings, workers);
    if hard < need {
        log::warn!(
            "a process may open {hard} files, but max_client_conn and the servers may need {need}; raise the limit (LimitNOFILE, ulimit -n) or lower max_client_conn"
        );
    }
}

/// What the fullest process needs: a worker with every client (they are dealt out, but may all stay with one
/// survivor), or the supervisor with a copy of each server.
fn open_files_needed(settings: &Settings, workers: u16) -> u64 {
    let global = &settings.global;
    let pools = settings.databases.len().max(1) as u64;
    let per_pool = u64::from(global.default_pool_size) + u64::from(global.reserve_pool_size);
    let servers = match u64::from(global.max_db_connections) {
        0 => pools * per_pool,
        most => pools * most.min(per_pool.max(1)),
    };
    let clients = u64::from(global.max_client_conn).div_ceil(u64::from(workers.max(1)));
    clients + servers + 64 + 4 * u64::from(workers)
}
