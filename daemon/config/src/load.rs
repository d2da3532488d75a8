//! Loading: file, environment, auth file and checks, in this order, to one snapshot or to all problems at once.
//! It never stops at the first problem unless the file cannot be read at all, and changes nothing outside of its result.
//! The CLI and the supervisor call `load`, at the start and on each reload.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use config::{Config, ConfigError, Map, Value};

use crate::{
    Problem, Settings,
    draft::Draft,
    environment,
    fault::Fault,
    ini,
    layer::{Format, Layer},
    toml,
};

/// Loads and checks the configuration in `path`, an ini file by name or content, else TOML, with the environment above it.
///
/// # Errors
/// Every problem that there is, in the order of files and lines.
pub fn load(path: &Path) -> Result<Settings, Vec<Problem>> {
    load_with(path, &environment::variables())
}

/// The log file that the configuration names, if so much of it can be read: where a failed start is to be noted.
pub fn logfile(path: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(path).ok()?;
    let layer = read(path, &text);
    let named = merged(layer, environment::source(&environment::variables()).0).ok()?;
    let file = named.get("logfile")?.clone().into_string().ok()?;
    (!file.is_empty()).then(|| PathBuf::from(file))
}

/// Loads as `load` does, with these environment variables.
pub(crate) fn load_with(
    path: &Path,
    variables: &[(OsString, OsString)],
) -> Result<Settings, Vec<Problem>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let fault = Fault::new(
            format!("cannot read the configuration: {error}"),
            "give the path of a readable file with --config, or make one with pgfleet init",
        );
        vec![Problem::in_file(path, None, fault)]
    })?;
    let layer = read(path, &text);
    if layer.broken {
        return Err(layer.problems);
    }
    let format = layer.format;
    let mut draft = Draft::new(path, &layer);
    let (variables, noted) = environment::source(variables);
    let notes = [layer.notes.clone(), noted].concat();
    match merged(layer, variables) {
        Ok(values) => draft.fill(&values),
        Err(error) => {
            let fault = Fault::new(
                format!("cannot be merged with the environment: {error}"),
                "unset the PGFLEET_ variables",
            );
            return Err(vec![Problem::in_file(path, None, fault)]);
        }
    }
    draft.finish(format, notes)
}

pub(crate) fn read(path: &Path, text: &str) -> Layer {
    let format = match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) if extension.eq_ignore_ascii_case("ini") => Format::Ini,
        Some(extension) if extension.eq_ignore_ascii_case("toml") => Format::Toml,
        _ if ini::looks_like_one(text) => Format::Ini,
        _ => Format::Toml,
    };
    match format {
        Format::Ini => ini::read(path, text),
        Format::Toml => toml::read(path, text),
    }
}

/// The file with the environment above it.
fn merged(layer: Layer, variables: config::Environment) -> Result<Map<String, Value>, ConfigError> {
    Config::builder().add_source(layer).add_source(variables).build()?.cache.into_table()
}
