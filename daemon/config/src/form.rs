//! How each kind of value is read and shown.
//! One marker for each kind, with one reader and one printer that are inverse to each other; it never touches a file.
//! The table of keys and the database and user entries name the markers.

use std::{path::PathBuf, time::Duration};

use crate::{Workers, fault::Fault, key::Kind, raw::Raw, secret::Password, units};

/// Reads and shows values of type `T`.
pub(crate) trait Form<T> {
    const KIND: Kind;

    fn read(raw: &Raw) -> Result<T, Fault>;
    fn show(value: &T) -> String;
}

macro_rules! form {
    ($(#[$doc:meta])* $name:ident: $type:ty, $kind:expr, $read:expr, $show:expr) => {
        $(#[$doc])*
        pub(crate) enum $name {}

        impl Form<$type> for $name {
            const KIND: Kind = $kind;

            fn read(raw: &Raw) -> Result<$type, Fault> {
                let read: fn(&Raw) -> Option<$type> = $read;
                read(raw).ok_or_else(|| Fault::expected($kind, raw))
            }

            fn show(value: &$type) -> String {
                let show: fn(&$type) -> String = $show;
                show(value)
            }
        }
    };
}

form!(Flag: bool, Kind::Flag, flag, |value| u8::from(*value).to_string());
form!(Count: u32, Kind::Count, |raw| units::count(raw.digits()?), u32::to_string);
form!(
    /// A limit of a database or user, where -1 means the global one, as not writing it does.
    Limit: Option<u32>, Kind::Count, limit, |value| value.map_or_else(|| "-1".to_owned(), |value| value.to_string())
);
form!(Port: u16, Kind::Port, |raw| raw.digits()?.parse().ok().filter(|port| *port > 0), u16::to_string);
form!(
    /// Permissions, in the bases that C takes: PgBouncer shows `0777` as 511, and takes both.
    Mode: u32, Kind::Mode, |raw| units::mode(raw.digits()?), u32::to_string
);
form!(Seconds: Duration, Kind::Seconds, |raw| units::seconds(raw.digits()?), units::show_seconds);
form!(Millis: u32, Kind::Millis, |raw| units::millis(raw.digits()?), u32::to_string);
form!(Size: u32, Kind::Size, |raw| units::size(raw.digits()?), u32::to_string);
form!(Text: String, Kind::Text, text, String::clone);
form!(
    /// A text where empty means unset.
    Optional: Option<String>, Kind::Text, |raw| Some(filled(text(raw)?)), |value| value.clone().unwrap_or_default()
);
form!(
    /// A text that is never shown.
    Secret: Option<Password>, Kind::Secret, |raw| Some(filled(text(raw)?).map(Password::new)), |value| {
        if value.is_some() { "***".to_owned() } else { String::new() }
    }
);
form!(
    /// A path where empty means unset.
    File: Option<PathBuf>, Kind::File, |raw| Some(filled(raw.word()?.to_owned()).map(PathBuf::from)), |value| {
        value.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }
);
form!(List: Vec<String>, Kind::List, list, |value| value.join(", "));

impl Form<Workers> for Workers {
    const KIND: Kind = Kind::Workers;

    fn read(raw: &Raw) -> Result<Workers, Fault> {
        raw.digits()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Fault::expected(Self::KIND, raw))
    }

    fn show(value: &Workers) -> String {
        value.to_string()
    }
}

fn flag(raw: &Raw) -> Option<bool> {
    match raw {
        Raw::Flag(flag) => Some(*flag),
        Raw::Text(text) | Raw::Number(text) => match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Some(true),
            "0" | "false" | "off" | "no" => Some(false),
            // PgBouncer's are integers: files say tcp_defer_accept = 45, as its manual once did.
            other if matches!(raw, Raw::Text(_)) => units::count(other).map(|number| number != 0),
            _ => None,
        },
        Raw::List(_) | Raw::Other => None,
    }
}

fn limit(raw: &Raw) -> Option<Option<u32>> {
    match raw.digits()? {
        "-1" => Some(None),
        text => units::count(text).map(Some),
    }
}

/// Text is taken as it stands, blanks included: quotes in a connection string mean it so.
fn text(raw: &Raw) -> Option<String> {
    match raw {
        Raw::Text(text) => Some(text.clone()),
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) | Raw::Other => None,
    }
}

fn filled(text: String) -> Option<String> {
    if text.is_empty() { None } else { Some(text) }
}

fn list(raw: &Raw) -> Option<Vec<String>> {
    let items: Vec<&str> = match raw {
        Raw::Text(text) => text.split(',').collect(),
        Raw::List(items) => items.iter().map(String::as_str).collect(),
        Raw::Number(_) | Raw::Flag(_) | Raw::Other => return None,
    };
    Some(
        items
            .iter()
            .map(|item| item.trim())
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}
