//! What is wrong with one value, and the way out, before it is known where the value stands.
//! It never holds a secret: the forms of text values name the shape alone.
//! The forms make it; the loaders add file, line and key and so make a `Problem` of it.

use crate::{key::Kind, nearest::nearest, raw::Raw};

/// The way out where a template has been left as it is.
pub(crate) const PLACEHOLDER: &str =
    "fill in the placeholder first, with envsubst or whatever the template is for";

/// Whether the text looks like `${NAME}` or `{{ name }}`, which somebody should have filled in.
pub(crate) fn is_placeholder(text: &str) -> bool {
    text.contains("${") && text.contains('}') || text.contains("{{") && text.contains("}}")
}

/// A reason and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Fault {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }

    /// A value that is not what its key takes.
    pub(crate) fn expected(kind: Kind, raw: &Raw) -> Self {
        let found = if kind.is_text() { raw.shape().to_owned() } else { raw.to_string() };
        let guess = match kind {
            Kind::Choice(words) => raw.word().and_then(|word| nearest(word, words.iter().copied())),
            Kind::Flag
            | Kind::Count
            | Kind::Port
            | Kind::Mode
            | Kind::Seconds
            | Kind::Millis
            | Kind::Size
            | Kind::Text
            | Kind::Secret
            | Kind::File
            | Kind::List
            | Kind::Workers => None,
        };
        let commented = raw.word().is_some_and(|text| text.contains(" ;") || text.contains(" #"));
        let placeholder = raw.word().is_some_and(is_placeholder);
        let remedy = match guess {
            _ if placeholder => PLACEHOLDER.to_owned(),
            _ if commented => "put the comment on a line of its own".to_owned(),
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("write, for example, {}", kind.example()),
        };
        Self::new(format!("must be {}, not {found}", kind.expects()), remedy)
    }

    /// A key that does not exist, among those that do.
    pub(crate) fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let remedy = match nearest(name, known) {
            Some(known) => format!("did you mean {known}?"),
            None => "remove it; pgfleet config show lists the keys that there are".to_owned(),
        };
        Self::new(format!("unknown {what}"), remedy)
    }
}
