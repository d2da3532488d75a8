//! The files of a fleet: its configuration in either form, and its auth file.
//! It never checks what it writes, since a test may want it wrong.
//! Start and reload write them.

use std::fmt::Write as _;

use super::{
    reference,
    setup::{Format, Setup},
};
use crate::scratch::Scratch;

/// Writes all of them, readable by the account of the fleet alone.
pub(super) fn write(scratch: &Scratch, setup: &Setup) {
    let users = scratch.write("users.txt", 0o600, &auth_file(setup));
    let place = |name: &str| scratch.path().join(name).display().to_string();
    let places = [
        ("auth_file", users.display().to_string()),
        ("unix_socket_dir", place("sock")),
        ("runtime_dir", place("run")),
        ("pidfile", place("pid")),
        ("logfile", place("log")),
    ];
    let mut setup = setup.clone();
    for (key, path) in places {
        let is_theirs = key != "runtime_dir" || !reference::is_set();
        if is_theirs && !setup.keys.iter().any(|(known, _)| known == key) {
            setup = setup.set(key, path);
        }
    }
    for (key, text) in setup.files.clone() {
        let file = scratch.write(&key, 0o600, &text);
        setup = setup.set(&key, file.display());
    }
    let text = match setup.format {
        Format::Toml => toml(&setup),
        Format::Ini => ini(&setup),
    };
    scratch.write(setup.config_name(), 0o600, &text);
}

fn auth_file(setup: &Setup) -> String {
    setup.secrets.iter().fold(String::new(), |mut text, (user, secret)| {
        let quoted = |text: &str| text.replace('"', "\"\"");
        writeln!(text, "\"{}\" \"{}\"", quoted(user), quoted(secret)).expect("strings take text");
        text
    })
}

fn toml(setup: &Setup) -> String {
    let line = |(key, value): &(String, String)| format!("{key} = {}\n", toml_value(value));
    let entry =
        |(name, value): &(String, String)| format!("{} = {}\n", toml_text(name), toml_text(value));
    let keys: String = setup.keys.iter().map(line).collect();
    let databases: String = setup.databases.iter().map(entry).collect();
    let users: String = setup.users.iter().map(entry).collect();
    format!("{keys}\n[databases]\n{databases}\n[users]\n{users}")
}

/// Numbers and flags are bare, all else is quoted.
fn toml_value(value: &str) -> String {
    let is_number = value.parse::<u64>().is_ok_and(|number| number.to_string() == value);
    if is_number || matches!(value, "true" | "false") { value.to_owned() } else { toml_text(value) }
}

fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn ini(setup: &Setup) -> String {
    let line = |(key, value): &(String, String)| format!("{key} = {value}\n");
    let keys: String = setup.keys.iter().map(line).collect();
    let databases: String = setup.databases.iter().map(line).collect();
    let users: String = setup.users.iter().map(line).collect();
    format!("[databases]\n{databases}\n[users]\n{users}\n[pgbouncer]\n{keys}")
}
