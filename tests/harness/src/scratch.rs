//! The one directory that a test binary leaves its files in, and the guardian that removes it.
//! It never outlives the test binary: the guardian ends what still runs from it, however the binary ended.
//! Clusters and fleets make their directories in it.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::account;

/// Waits until the test binary is gone, ends the servers whose pid files are still there, and removes everything.
const GUARDIAN: &str = r#"
cat >/dev/null
pids=$(for file in "$1"/*/data/postmaster.pid "$1"/*/pid; do [ -f "$file" ] && head -n 1 "$file"; done)
for pid in $pids; do kill -QUIT "$pid"; done
for pid in $pids; do
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$pid" || break; sleep 0.1; done
done
rm -rf "$1"
"#;

/// Where this binary's files are; made, and guarded, on first use.
fn root() -> &'static Path {
    static ROOT: OnceLock<(PathBuf, Child)> = OnceLock::new();
    &ROOT.get_or_init(make_root).0
}

fn make_root() -> (PathBuf, Child) {
    let dir = tempfile::Builder::new()
        .prefix("pgfleet-")
        .tempdir()
        .expect("a temporary directory can be made");
    let path = dir.keep();
    // Servers of the unprivileged account go through it.
    fs::set_permissions(&path, Permissions::from_mode(0o755))
        .expect("own directories can be opened to others");
    let guardian = Command::new("sh")
        .args(["-c", GUARDIAN, "guardian"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A Ctrl-C at the terminal ends the tests, not the one who cleans up after them.
        .process_group(0)
        .spawn()
        .expect("sh can be started");
    (path, guardian)
}

/// A new directory of the unprivileged account, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes `NAME-N`; the name is short since Unix sockets below it have 107 bytes in all.
    pub fn make(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = root().join(format!("{name}-{number}"));
        fs::create_dir(&path).expect("a directory can be made in the temporary directory");
        account::give(&path);
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory in it, of the same account and with this mode.
    pub fn dir(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(&path).expect("a directory can be made in the temporary directory");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("modes can be set");
        account::give(&path);
        path
    }

    /// Writes a file in it, of the same account and with this mode.
    pub fn write(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).expect("files can be written in the temporary directory");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("modes can be set");
        account::give(&path);
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is left to the guardian.
        drop(fs::remove_dir_all(&self.path));
    }
}
