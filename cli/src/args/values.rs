//! The values of options that are more than a word: addresses, databases, times.
//!
//! It owns how they are written and never looks at the machine. clap calls it through `FromStr` and the parsers.

use std::str::FromStr;
use std::time::Duration;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// An address, a name, or `*`.
    pub(crate) address: String,
    /// The port.
    pub(crate) port: u16,
}

impl FromStr for Listen {
    type Err = String;

    /// Reads `127.0.0.1:6432`, `[::1]:6432`, `localhost:6432` or `*:6432`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "write ADDR:PORT, for example 127.0.0.1:6432, [::1]:6432 or *:6432".to_owned();
        let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port =
            port.parse().ok().filter(|port| *port > 0).ok_or("the port must be from 1 to 65535")?;
        let address = match address.strip_prefix('[') {
            Some(six) => six.strip_suffix(']').ok_or_else(wrong)?,
            None if address.contains(':') => return Err(wrong()),
            None => address,
        };
        if address.is_empty() {
            return Err(wrong());
        }
        Ok(Self { address: address.to_owned(), port })
    }
}

/// A database: the name that clients ask for, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Database {
    /// The name, or `*` for all others.
    pub(crate) name: String,
    /// `key=value` pairs.
    pub(crate) conninfo: String,
}

impl FromStr for Database {
    type Err = String;

    /// Reads `app=host=10.0.0.5 port=5432`: the name ends at the first `=`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write NAME=CONNINFO, for example 'app=host=10.0.0.5 dbname=app'".to_owned();
        let (name, conninfo) = text.split_once('=').ok_or_else(wrong)?;
        if name.is_empty() || name.chars().any(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), conninfo: conninfo.trim().to_owned() })
    }
}

/// A time such as `30s`, `500ms`, `10min`, `2h`, or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time, for example 30s, 500ms or 10min".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit.trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    // A year is for ever to whoever waits, and leaves room to add it to any clock.
    const YEAR: u64 = 366 * 24 * 3_600_000;
    number
        .checked_mul(millis)
        .filter(|millis| *millis <= YEAR)
        .map(Duration::from_millis)
        .ok_or_else(|| "must be a year at most".to_owned())
}

/// Whole seconds of the demo's load.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse().ok();
    number
        .filter(|seconds| (1..=3600).contains(seconds))
        .ok_or_else(|| "must be from 1 to 3600 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        let listen =
            |text: &str| text.parse::<Listen>().map(|listen| (listen.address, listen.port));
        assert_eq!(listen("127.0.0.1:6432"), Ok(("127.0.0.1".to_owned(), 6432)));
        assert_eq!(listen("[::1]:1"), Ok(("::1".to_owned(), 1)));
        assert_eq!(listen("*:65535"), Ok(("*".to_owned(), 65535)));
        for wrong in [
            "",
            "6432",
            ":6432",
            "::1:6432",
            "[::1:6432",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
        ] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_database_has_a_name_and_a_place() {
        let database: Database = "app=host=a password='x=y'".parse().unwrap();
        assert_eq!(
            (database.name.as_str(), database.conninfo.as_str()),
            ("app", "host=a password='x=y'")
        );
        assert_eq!("*=host=a".parse::<Database>().unwrap().name, "*");
        assert_eq!("app=".parse::<Database>().unwrap().conninfo, "");
        for wrong in ["", "app", "=host=a", "host = a"] {
            assert!(wrong.parse::<Database>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_take_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("10 min"), Ok(Duration::from_secs(600)));
        for wrong in
            ["", "s", "-1", "1.5s", "5 parsecs", "99999999999999999999", "18446744073709551615h"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(seconds("10"), Ok(10));
        assert!(seconds("0").is_err() && seconds("3601").is_err());
    }
}
