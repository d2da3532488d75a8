//! Whole files as people have them, in `tests/corpus`, each with what comes of it.
//! What is expected stands in `NAME.expected` beside `NAME`: settings that are not defaults, entries, notes, problems.
//! Set `PGFLEET_WRITE_EXPECTED` to write those files anew, and read the difference.

use std::{
    env, fs,
    num::NonZeroU16,
    path::{Path, PathBuf},
};

use super::Ground;
use crate::{Global, KEYS, Problem, Settings, convert};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

/// The files of the corpus; those that others include are no files of their own.
fn names() -> Vec<String> {
    let entries = fs::read_dir(corpus()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".expected") && !name.starts_with("part-"));
    names.sort();
    names
}

/// A ground with the whole corpus on it.
fn ground() -> Ground {
    let ground = Ground::new();
    for entry in fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        ground.file(name, &fs::read_to_string(&path).unwrap());
    }
    ground
}

fn described(result: &Result<Settings, Vec<Problem>>) -> String {
    let lines: Vec<String> = match result {
        Ok(settings) => of_settings(settings),
        Err(problems) => problems.iter().map(|problem| format!("problem: {problem}")).collect(),
    };
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn of_settings(settings: &Settings) -> Vec<String> {
    let defaults = Global::default();
    let dependent = ["conffile", "runtime_dir"];
    let keys = KEYS.iter().filter(|key| !dependent.contains(&key.name));
    let keys = keys.filter_map(|key| {
        let shown = settings.global.show(key.name)?;
        (Some(&shown) != defaults.show(key.name).as_ref())
            .then(|| format!("{} = {shown}", key.name))
    });
    let databases = settings.databases.values().chain(&settings.fallback);
    let databases = databases.map(|it| format!("databases.{} = {}", it.name, it.shown()));
    let users = settings.users.values().map(|it| format!("users.{} = {}", it.name, it.shown()));
    // What is on its way has notes until it is there.
    let notes = settings.notes.iter().filter(|note| !note.contains("no effect yet"));
    let notes = notes.map(|note| format!("note: {note}"));
    keys.chain(databases).chain(users).chain(notes).collect()
}

#[test]
fn every_file_means_what_stands_beside_it() {
    let ground = ground();
    let mut wrong = Vec::new();
    for name in names() {
        let text = fs::read_to_string(ground.path(&name)).unwrap();
        let found = described(&ground.load(&name, &text));
        let found = found.replace(ground.dir.path().to_str().unwrap(), "$DIR");
        let expected = corpus().join(format!("{name}.expected"));
        if env::var_os("PGFLEET_WRITE_EXPECTED").is_some() {
            fs::write(&expected, &found).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names().len() >= 12);
}

#[test]
fn no_password_of_the_corpus_is_shown() {
    let ground = ground();
    for name in names() {
        let text = fs::read_to_string(ground.path(&name)).unwrap();
        let found = described(&ground.load(&name, &text));
        for secret in ["s3cret", "a;b#c'", "hidden", "пароль", "quoted"] {
            assert!(!found.contains(secret), "{name}: {found}");
        }
    }
}

#[test]
fn every_file_without_problems_becomes_toml_that_means_the_same() {
    let ground = ground();
    let mut count = 0;
    for name in names() {
        let Ok(converted) = convert(&ground.path(&name), NonZeroU16::MIN) else { continue };
        let made = ground.load("made.toml", &converted.text).unwrap();
        super::convert::assert_same(&converted.settings, &made, &converted.text);
        count += 1;
    }
    assert!(count >= 12, "{count}");
}
