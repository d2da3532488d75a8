//! Reads the auth file: `"user" "secret"` on each line.
//! It never repeats a line in an error, and refuses a file that others can read.
//! `load` calls it for the file that `auth_file` names.

use std::{collections::BTreeMap, fs, path::Path};

use crate::{Problem, check::open_to_others, fault::Fault};

/// The users and their secrets as they stand in the file; the last line of a user counts.
pub(crate) fn read(file: &Path, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let mut users = BTreeMap::new();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            let fault = Fault::new(
                format!("cannot read the auth file: {error}"),
                "make the file, let the user that runs pgfleet read it, or set auth_file to another one",
            );
            problems.push(Problem::in_file(file, None, fault));
            return users;
        }
    };
    if open_to_others(file) {
        let fault = Fault::new(
            "others can read the secrets in it",
            format!("run chmod 600 {}", file.display()),
        );
        problems.push(Problem::in_file(file, None, fault));
    }
    for (index, line) in text.lines().enumerate() {
        match entry(line.trim()) {
            Ok(Some((user, secret))) => {
                users.insert(user, secret);
            }
            Ok(None) => {}
            Err(reason) => {
                let fault = Fault::new(
                    reason,
                    "write \"user\" \"secret\" on each line, \"\" for a quote inside, and ; before a comment",
                );
                problems.push(Problem::in_file(file, Some(index + 1), fault));
            }
        }
    }
    users
}

/// The user and the secret of a line; nothing for comments and empty lines. What follows the secret is ignored, as in PgBouncer.
fn entry(line: &str) -> Result<Option<(String, String)>, &'static str> {
    if line.is_empty() || line.starts_with(';') {
        return Ok(None);
    }
    let (user, rest) = quoted(line).ok_or("there is no user name in double quotes")?;
    let (secret, _) = quoted(rest.trim_start())
        .ok_or("there is no secret in double quotes after the user name")?;
    if user.is_empty() {
        return Err("the user name is empty");
    }
    Ok(Some((user, secret)))
}

/// The quoted text at the start, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut value = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return Some((value, after)),
        }
    }
}
