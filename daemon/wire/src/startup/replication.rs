//! The `replication` startup parameter: a boolean, or `database`.
//! It takes the words that Postgres takes (`parse_bool`), and nothing else.
//! `startup` calls it.

/// What a client wants to replicate (manual: "Streaming Replication Protocol").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replication {
    /// Nothing: it sends queries.
    #[default]
    None,
    /// The whole cluster; it is connected to no database.
    Physical,
    /// One database, to which it is connected.
    Logical,
}

impl Replication {
    /// The value as a client sends it; `None` if Postgres would refuse it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "database" {
            return Some(Self::Logical);
        }
        let text = text.to_ascii_lowercase();
        let is = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
        if is("true", 1) || is("yes", 1) || is("on", 2) || text == "1" {
            return Some(Self::Physical);
        }
        let is_off = is("false", 1) || is("no", 1) || is("off", 2) || text == "0";
        is_off.then_some(Self::None)
    }

    /// The value as it is sent to a server.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Physical => Some("true"),
            Self::Logical => Some("database"),
        }
    }

    /// Its name in the tables of the console.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Physical => "physical",
            Self::Logical => "logical",
        }
    }
}
