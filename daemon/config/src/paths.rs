//! Where the configuration and the sockets are found.
//! It only computes paths: nothing is made, and of the file system it asks no more than whether a file is there.
//! The CLI and the supervisor call it and so agree.

use std::{
    env,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use crate::Settings;

/// The file to load: `explicit` if given, else the first that is there of `./pgfleet.toml`, `pgfleet/pgfleet.toml` in the
/// user's XDG configuration directory, and `/etc/pgfleet/pgfleet.toml`.
pub fn find(explicit: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = explicit {
        return Some(path.to_owned());
    }
    let own =
        directory("XDG_CONFIG_HOME").or_else(|| directory("HOME").map(|home| home.join(".config")));
    let candidates = [
        Some(PathBuf::from("pgfleet.toml")),
        own.map(|own| own.join("pgfleet/pgfleet.toml")),
        Some(PathBuf::from("/etc/pgfleet/pgfleet.toml")),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// The runtime directory: what `runtime_dir` says, else `/run/pgfleet` for root and for a configuration with `user`
/// (which root starts), else `pgfleet` in the XDG runtime directory, else `pgfleet-UID` among the temporary files.
pub fn runtime_dir(settings: &Settings) -> PathBuf {
    match &settings.global.runtime_dir {
        Some(dir) if !is_auto(dir) => dir.clone(),
        _ if geteuid().is_root() || settings.global.user.is_some() => PathBuf::from("/run/pgfleet"),
        _ => own_runtime_dir(),
    }
}

fn own_runtime_dir() -> PathBuf {
    if let Some(dir) = directory("XDG_RUNTIME_DIR") {
        return dir.join("pgfleet");
    }
    let temporary = directory("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    temporary.join(format!("pgfleet-{}", geteuid()))
}

/// The directory of the console socket `.s.PGSQL.<listen_port>`.
pub fn console_dir(runtime: &Path) -> PathBuf {
    runtime.join("console")
}

/// Whether the value leaves the path to us.
pub(crate) fn is_auto(path: &Path) -> bool {
    path == Path::new("auto")
}

/// A directory from the environment; relative ones do not count, as the XDG specification says.
fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
