//! The `key=value key='quo''ted'` strings of databases and users.
//! It never repeats a value in an error, for one may be a password.
//! The loaders split entries with it, and `redacted` prints them.

use crate::fault::Fault;

/// Splits a connection string into its keys and values, in order.
pub(crate) fn pairs(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut rest = text.trim_start();
    if rest.starts_with("postgres://") || rest.starts_with("postgresql://") {
        return Err(Fault::new(
            "must be keys and values, not a URL",
            "write host=... port=... dbname=...",
        ));
    }
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(after) = after.trim_start().strip_prefix('=').filter(|_| !key.is_empty()) else {
            let remedy = match rest.starts_with([';', '#']) {
                true => "put the comment on a line of its own",
                false => {
                    "write key=value pairs with blanks between them; quote values that have blanks: key='some value'"
                }
            };
            let nth = ordinal(pairs.len() + 1);
            return Err(Fault::new(
                format!("there is no key=value at the place of the {nth}"),
                remedy,
            ));
        };
        let (value, after) = value(after.trim_start(), key)?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn ordinal(nth: usize) -> String {
    match nth {
        1 => "first pair".to_owned(),
        2 => "second pair".to_owned(),
        3 => "third pair".to_owned(),
        _ => format!("{nth}th pair"),
    }
}

/// The value at the start of the text, and the rest; in quotes, two of them mean one.
fn value<'a>(text: &'a str, key: &str) -> Result<(String, &'a str), Fault> {
    let Some(mut rest) = text.strip_prefix('\'') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.to_owned(), rest));
    };
    let mut value = String::new();
    while let Some((part, after)) = rest.split_once('\'') {
        value.push_str(part);
        match after.strip_prefix('\'') {
            Some(more) => {
                value.push('\'');
                rest = more;
            }
            None => return Ok((value, after)),
        }
    }
    Err(Fault::new(
        format!("the quoted value of {key} does not end"),
        "end it with a single quote; write '' for one inside",
    ))
}

/// One pair as a connection string has it, quoted where needed.
pub(crate) fn pair(key: &str, value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c == '\'');
    if plain { format!("{key}={value}") } else { format!("{key}='{}'", value.replace('\'', "''")) }
}

/// The keys that have a value.
pub(crate) fn set<const N: usize>(
    all: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    all.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))).collect()
}

/// A connection string of these keys and values.
pub(crate) fn joined(pairs: &[(&'static str, String)]) -> String {
    pairs.iter().map(|(key, value)| pair(key, value)).collect::<Vec<_>>().join(" ")
}

/// The connection string with `***` in place of the password; all of it, if it cannot be read.
pub fn redacted(conninfo: &str) -> String {
    let Ok(pairs) = pairs(conninfo) else {
        return "***".to_owned();
    };
    let shown =
        pairs.iter().map(|(key, value)| pair(key, if key == "password" { "***" } else { value }));
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(String, String)> {
        pairs(text).unwrap()
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn pairs_are_split_as_pgbouncer_splits_them() {
        assert_eq!(split(""), owned(&[]));
        assert_eq!(split("host=a  port = 1"), owned(&[("host", "a"), ("port", "1")]));
        assert_eq!(
            split("password='it''s' dbname=x"),
            owned(&[("password", "it's"), ("dbname", "x")])
        );
        assert_eq!(split("password='' user=u"), owned(&[("password", ""), ("user", "u")]));
        assert_eq!(
            split("connect_query='select 1 where a=''b'''"),
            owned(&[("connect_query", "select 1 where a='b'")])
        );
        assert_eq!(split("password=a=b"), owned(&[("password", "a=b")]));
    }

    #[test]
    fn what_is_no_pair_is_refused_without_repeating_it() {
        for text in
            ["secret", "host=a secret", "=secret", "password='secret", "postgres://u:secret@h/d"]
        {
            let fault = pairs(text).unwrap_err();
            assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        assert_eq!(
            redacted("host=h password='s p' dbname='a b'"),
            "host=h password=*** dbname='a b'"
        );
        assert_eq!(redacted("password='s"), "***");
    }
}
