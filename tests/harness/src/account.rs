//! The unprivileged account that clusters and fleets run as.
//! It never changes the account of the test itself and needs nothing when the developer is not root.
//! Whatever starts a server program calls it.

use std::{os::unix::process::CommandExt, path::Path, process::Command, sync::OnceLock};

use nix::unistd::{Gid, Uid, User, chown, geteuid};

/// Who runs the servers; none means the account of the test.
fn servant() -> Option<&'static (Uid, Gid)> {
    static SERVANT: OnceLock<Option<(Uid, Gid)>> = OnceLock::new();
    SERVANT
        .get_or_init(|| {
            if !geteuid().is_root() {
                return None;
            }
            let found =
                ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
            let user = found.expect(
                "root needs an unprivileged account to run servers as: add the user postgres",
            );
            Some((user.uid, user.gid))
        })
        .as_ref()
}

/// Makes the command run as the unprivileged account, if the test is root.
pub fn unprivileged(command: &mut Command) -> &mut Command {
    match servant() {
        Some((uid, gid)) => command.uid(uid.as_raw()).gid(gid.as_raw()),
        None => command,
    }
}

/// Gives the file or directory to that account.
pub fn give(path: &Path) {
    if let Some((uid, gid)) = servant() {
        chown(path, Some(*uid), Some(*gid)).expect("root can give files away");
    }
}

/// The name of the account that servers run as.
pub fn name() -> String {
    let uid = servant().map_or_else(geteuid, |(uid, _)| *uid);
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}
