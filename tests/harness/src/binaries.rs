//! Where the programs are: pgfleet's own, Postgres' and the drivers'.
//! It never builds or installs anything; what is missing is said with the way to get it.
//! Whatever starts a program asks it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{account, scratch::Scratch};

/// Variables that would change what the programs under test read.
const OUR_VARIABLES: [&str; 4] =
    ["PGFLEET_CONFIG", "PGFLEET_BIN_DIR", "PGFLEET_PYTHON", "PGFLEET_REFERENCE"];

/// The operator's command, run as the unprivileged account. `PGFLEET_BIN_DIR` names an installed one.
pub fn pgfleet() -> Command {
    let mut command = Command::new(own_dir().join("pgfleet"));
    account::unprivileged(&mut command);
    for variable in OUR_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// The directory with `pgfleet` and `pgfleetd`, in a place that the unprivileged account can reach.
fn own_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = env::var_os("PGFLEET_BIN_DIR").map_or_else(build_dir, PathBuf::from);
        for name in ["pgfleet", "pgfleetd"] {
            let path = dir.join(name);
            assert!(
                path.is_file(),
                "{} is missing: run cargo build first, or set PGFLEET_BIN_DIR",
                path.display()
            );
        }
        if is_reachable(&dir) { dir } else { copied(&dir) }
    })
}

/// `target/debug` or the like: the tests' own executable is in `deps` below it.
fn build_dir() -> PathBuf {
    let test = env::current_exe().expect("the test knows its own path");
    test.ancestors().nth(2).expect("tests run from target/PROFILE/deps").to_owned()
}

fn is_reachable(dir: &Path) -> bool {
    let mut command = Command::new(dir.join("pgfleet"));
    account::unprivileged(&mut command).arg("--version").current_dir("/").output().is_ok()
}

/// A copy for accounts that may not enter the build directory.
fn copied(dir: &Path) -> PathBuf {
    static COPY: OnceLock<Scratch> = OnceLock::new();
    let copy = COPY.get_or_init(|| Scratch::make("bin")).path();
    for name in ["pgfleet", "pgfleetd"] {
        fs::copy(dir.join(name), copy.join(name)).expect("programs can be copied");
    }
    copy.to_owned()
}

/// A program of Postgres, of the newest version that is installed.
pub fn postgres(name: &str) -> PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let number = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().ok();
        let newest = versions
            .filter_map(|entry| number(&entry).map(|version| (version, entry.path().join("bin"))));
        newest
            .filter(|(_, bin)| bin.join("initdb").is_file())
            .max()
            .map(|(_, bin)| bin)
            .unwrap_or_else(from_path)
    });
    dir.join(name)
}

fn from_path() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).find(|dir| dir.join("initdb").is_file());
    found.expect("there is no initdb: run make setup, or install the package postgresql")
}

/// The Python that has the drivers of `tests/requirements.txt`.
pub fn python() -> PathBuf {
    let given = env::var_os("PGFLEET_PYTHON").map(PathBuf::from);
    let path = given.unwrap_or_else(|| build_dir().with_file_name("venv").join("bin/python"));
    assert!(path.exists(), "{} is missing: run make setup, or set PGFLEET_PYTHON", path.display());
    path
}
