//! The text of a query as SQL sees it: statements, words, quotes and comments.
//!
//! It owns the little SQL that a console needs to know where one statement ends. It never knows
//! what a word means. The session cuts scripts with it, and finds its small talk.

use std::collections::VecDeque;

/// The statements of a script without comments, surrounding space and empty ones.
pub(super) fn statements(script: &str) -> VecDeque<String> {
    let mut found = VecDeque::new();
    let mut text = String::new();
    for piece in pieces(script) {
        match piece {
            Piece::Semicolon => finish(&mut text, &mut found),
            Piece::Space => text.push(' '),
            Piece::Text(piece) => text.push_str(piece),
        }
    }
    finish(&mut text, &mut found);
    found
}

fn finish(text: &mut String, found: &mut VecDeque<String>) {
    let statement = std::mem::take(text);
    let statement = statement.trim();
    if !statement.is_empty() {
        found.push_back(statement.to_owned());
    }
}

/// The first words of a statement, in lower case: names, numbers, quoted strings with their quotes,
/// and single signs. At most `most` of them, so that a long text is not taken apart in vain.
pub(super) fn words(statement: &str, most: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for piece in pieces(statement) {
        let text = match piece {
            Piece::Semicolon | Piece::Space => {
                open = false;
                continue;
            }
            Piece::Text(text) => text,
        };
        let letter = text.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let full = words.len() == most;
        match words.last_mut() {
            Some(word) if open && letter => word.push_str(&text.to_lowercase()),
            Some(_) | None if full => break,
            Some(_) | None => words.push(text.to_lowercase()),
        }
        open = letter;
    }
    words
}

enum Piece<'a> {
    Semicolon,
    /// White space or a comment.
    Space,
    /// One character, or one quoted string.
    Text(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let (piece, length) = match first {
            ';' => (Piece::Semicolon, 1),
            '\'' | '"' => {
                let length = quoted(rest, first);
                (Piece::Text(rest.get(..length)?), length)
            }
            '-' if rest.starts_with("--") => {
                let length = rest.find('\n').unwrap_or(rest.len());
                (Piece::Space, length)
            }
            '/' if rest.starts_with("/*") => (Piece::Space, comment(rest)),
            other if other.is_whitespace() => (Piece::Space, other.len_utf8()),
            other => {
                let length = other.len_utf8();
                (Piece::Text(rest.get(..length)?), length)
            }
        };
        rest = rest.get(length..)?;
        Some(piece)
    })
}

/// The length of the quoted string at the front; a doubled quote is two strings side by side,
/// which is the same for us. Without an end it goes to the end of the text.
fn quoted(text: &str, quote: char) -> usize {
    let end = text.char_indices().skip(1).find(|&(_, character)| character == quote);
    end.map_or(text.len(), |(at, character)| at + character.len_utf8())
}

/// The length of the comment at the front; comments nest.
fn comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}
