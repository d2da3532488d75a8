//! A value as a file or the environment has it, before anyone knows what it should be.
//! It keeps the shape (string, number, flag, list), so that a wrong type can be told from a bad value; it never judges.
//! The loaders make it, and the forms read it.

use std::fmt;

use config::ValueKind;

/// One value with its shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Raw {
    /// A string, which in an ini file and the environment everything is.
    Text(String),
    /// A TOML integer or float.
    Number(String),
    /// A TOML boolean.
    Flag(bool),
    /// A TOML array of scalars.
    List(Vec<String>),
    /// Something that no key takes.
    Other,
}

impl Raw {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The text, if this is a string.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.trim()),
            Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// The text, if this is a string or a number.
    pub(crate) fn digits(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text.trim()),
            Self::Flag(_) | Self::List(_) | Self::Other => None,
        }
    }

    /// What it is, in a word, without its value.
    pub(crate) fn shape(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::List(_) => "an array",
            Self::Other => "a table or a date",
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Number(text) => f.write_str(text),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(_) | Self::Other => f.write_str(self.shape()),
        }
    }
}

impl From<&config::Value> for Raw {
    fn from(value: &config::Value) -> Self {
        match &value.kind {
            ValueKind::String(text) => Self::Text(text.clone()),
            ValueKind::Boolean(flag) => Self::Flag(*flag),
            ValueKind::I64(number) => Self::Number(number.to_string()),
            ValueKind::I128(number) => Self::Number(number.to_string()),
            ValueKind::U64(number) => Self::Number(number.to_string()),
            ValueKind::U128(number) => Self::Number(number.to_string()),
            ValueKind::Float(number) => Self::Number(number.to_string()),
            ValueKind::Array(items) => {
                items.iter().map(item).collect::<Option<_>>().map_or(Self::Other, Self::List)
            }
            ValueKind::Nil | ValueKind::Table(_) => Self::Other,
        }
    }
}

fn item(value: &config::Value) -> Option<String> {
    match Raw::from(value) {
        Raw::Text(text) | Raw::Number(text) => Some(text),
        Raw::Flag(_) | Raw::List(_) | Raw::Other => None,
    }
}
