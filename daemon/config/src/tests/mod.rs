//! Tests of loading as a whole, over files in a directory of their own.
//! They call the loader with an environment of their own and never touch that of the process.
//! One file for each subject; this page holds the ground that they stand on.

mod auth;
mod convert;
mod corpus;
mod environment;
mod ini;
mod limits;
mod overrides;
mod pgbouncer;
mod problems;
mod refused;
mod robust;
mod sample;
mod table;
mod toml;
mod userlist;
mod values;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Problem, Settings, load::load_with};

/// A directory with files of one test.
struct Ground {
    dir: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() };
        ground.file("users.txt", "\"app\" \"secret\"\n");
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file with the permissions 0600.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text.replace("$DIR", self.dir.path().to_str().unwrap())).unwrap();
        permit(&path, 0o600);
        path
    }

    fn load(&self, name: &str, text: &str) -> Result<Settings, Vec<Problem>> {
        let path = self.file(name, text);
        let variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        load_with(&path, &variables)
    }
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Settings of a file that has no problem.
fn good(name: &str, text: &str) -> Settings {
    Ground::new().load(name, text).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"))
}

/// The problems of a file as `line key reason; remedy`.
fn bad(name: &str, text: &str) -> Vec<String> {
    let problems = Ground::new().load(name, text).expect_err(text);
    problems.iter().map(brief).collect()
}

fn brief(problem: &Problem) -> String {
    let line = problem.line.map_or("-".to_owned(), |line| line.to_string());
    let key = problem.key.as_deref().unwrap_or("-");
    format!("{line} {key} {}; {}", problem.reason, problem.remedy)
}

/// Asserts that the one problem of the file starts and ends like this.
#[track_caller]
fn one(name: &str, text: &str, start: &str, part: &str) {
    let found = bad(name, text);
    assert!(
        found.len() == 1 && found[0].starts_with(start) && found[0].contains(part),
        "{text}\n{found:#?}"
    );
}
