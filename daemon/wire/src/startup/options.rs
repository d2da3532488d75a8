//! The `options` startup parameter: settings as on the command line of `postgres`.
//! It knows `-c name=value`, `-cname=value` and `--name=value`, and nothing else.
//! `startup` calls it.

use std::iter::Peekable;
use std::str::Chars;

/// The settings in order; `None` if anything else is in the text.
///
/// White space separates words and a backslash takes the next character as it is
/// (manual: "options" in "Parameter Key Words"); a `-` in a long name stands for `_`.
pub(super) fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let mut chars = text.chars().peekable();
    let mut settings = Vec::new();
    while let Some(word) = word(&mut chars) {
        let setting = if word == "-c" {
            self::word(&mut chars)?
        } else {
            word.strip_prefix("-c").or_else(|| word.strip_prefix("--"))?.to_owned()
        };
        let (name, value) = setting.split_once('=')?;
        if name.is_empty() {
            return None;
        }
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Some(settings)
}

fn word(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    while chars.next_if(char::is_ascii_whitespace).is_some() {}
    chars.peek()?;
    let mut word = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_ascii_whitespace()) {
        match c {
            '\\' => word.extend(chars.next()),
            _ => word.push(c),
        }
    }
    Some(word)
}
