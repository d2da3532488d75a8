//! The user maps of `auth_ident_file`: which user of the system or of a certificate may log in as whom.
//! A pattern is searched with the regex crate, whose time is linear in the name; it never runs for ever.
//! `cert` and `peer` logins ask it.

use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::tokens::{Line, Token};
use crate::{Problem, fault::Fault};

/// The most memory that a pattern may take.
const LARGEST: usize = 1 << 20;

/// One line: in the map of this name, that user of the system may be this database user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentMap {
    name: String,
    system: System,
    user: Mapped,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum System {
    Is(String),
    /// A pattern, which may capture what `\1` stands for.
    Like(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Mapped {
    All,
    /// It may hold `\1` if the system's user is a pattern.
    Is(String),
}

impl IdentMap {
    /// Whether a map lets this user of the system log in as that database user; without a map they must be equal.
    pub fn allows(maps: &[Self], map: Option<&str>, system: &str, user: &str) -> bool {
        let Some(map) = map else { return system == user };
        maps.iter().any(|line| line.name == map && line.lets(system, user))
    }

    fn lets(&self, system: &str, user: &str) -> bool {
        match (&self.system, &self.user) {
            (System::Is(name), Mapped::All) => name == system,
            (System::Is(name), Mapped::Is(mapped)) => name == system && mapped == user,
            (System::Like(text), mapped) => {
                let Ok(pattern) = pattern(text) else { return false };
                let Some(found) = pattern.captures(system) else { return false };
                match mapped {
                    Mapped::All => true,
                    Mapped::Is(mapped) => {
                        let first = found.get(1).map_or("", |part| part.as_str());
                        mapped.replacen("\\1", first, 1) == user
                    }
                }
            }
        }
    }
}

fn pattern(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(LARGEST).build()
}

/// The map line of a line; nothing where there was a problem.
pub(super) fn map(file: &Path, line: Line, problems: &mut Vec<Problem>) -> Option<IdentMap> {
    let tokens: Vec<&Token> = line.fields.iter().flatten().collect();
    let [name, system, user] = tokens.as_slice() else {
        let reason = format!("there are {} words where three belong", tokens.len());
        let fault = Fault::new(reason, "write MAP SYSTEM-USER DATABASE-USER");
        problems.push(line.problem(file, line.end(), fault));
        return None;
    };
    let system = match system.text.strip_prefix('/') {
        None => System::Is(system.text.clone()),
        Some(text) => match pattern(text) {
            Ok(pattern) if user.text.contains("\\1") && pattern.captures_len() < 2 => {
                let fault = Fault::new(
                    "\\1 is used, but the pattern captures nothing",
                    "put ( ) around the part that is the user name",
                );
                problems.push(line.problem(file, user.column, fault));
                return None;
            }
            Ok(_) => System::Like(text.to_owned()),
            Err(error) => {
                let last = error.to_string().lines().last().unwrap_or_default().to_owned();
                let fault = Fault::new(
                    format!(
                        "the pattern is not understood: {}",
                        last.trim_start_matches("error: ")
                    ),
                    "write a regular expression such as /^(.*)@example\\.com$",
                );
                problems.push(line.problem(file, system.column, fault));
                return None;
            }
        },
    };
    let mapped = match user.text.as_str() {
        "all" if !user.quoted => Mapped::All,
        text => Mapped::Is(text.to_owned()),
    };
    Some(IdentMap { name: name.text.clone(), system, user: mapped })
}
