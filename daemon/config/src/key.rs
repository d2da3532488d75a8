//! What the table says of each key, and the macro that makes table and struct from the same rows.
//! It holds no key itself and never loads anything.
//! `keys` fills it; the loaders, `SHOW CONFIG`, the man page and the sample file read it.

/// One row of the table of keys.
#[derive(Debug)]
pub struct Key {
    /// The name, as in PgBouncer.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The default, as a file would have it.
    pub default: &'static str,
    /// The unit of a plain number: `s`, `ms`, `bytes` or nothing.
    pub unit: &'static str,
    /// Whether a reload can change it.
    pub reload: Reload,
    /// Whether it is a limit of the whole fleet, divided over the workers.
    pub limit: bool,
    /// Whether this version honours it.
    pub standing: Standing,
    /// Whose key it is.
    pub origin: Origin,
    /// One line on what it does.
    pub text: &'static str,
}

impl Key {
    /// The row of `name`.
    pub fn of(name: &str) -> Option<&'static Self> {
        crate::KEYS.iter().find(|key| key.name == name)
    }
}

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A boolean.
    Flag,
    /// A whole number from 0 up.
    Count,
    /// A port from 1 to 65535.
    Port,
    /// File permissions.
    Mode,
    /// A duration; a plain number is in seconds.
    Seconds,
    /// A duration; a plain number is in milliseconds.
    Millis,
    /// A size; a plain number is in bytes.
    Size,
    /// Any text.
    Text,
    /// Any text, never shown.
    Secret,
    /// A path.
    File,
    /// A list of words.
    List,
    /// A number of workers.
    Workers,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// The unit of a plain number.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Size => "bytes",
            Self::Flag
            | Self::Count
            | Self::Port
            | Self::Mode
            | Self::Text
            | Self::Secret
            | Self::File
            | Self::List => "",
            Self::Workers | Self::Choice(_) => "",
        }
    }

    /// What a value must be, to follow the words "must be".
    pub fn expects(self) -> String {
        let text = match self {
            Self::Flag => "true or false, or 1 or 0",
            Self::Count => "a whole number from 0 to 2147483647",
            Self::Port => "a port from 1 to 65535",
            Self::Mode => "permissions in octal with a leading 0, from 0 to 0777",
            Self::Seconds => {
                "seconds, or a duration with a unit (us, ms, s, min, h, d), of at most 100 years"
            }
            Self::Millis => {
                "milliseconds, or a duration with a unit (ms, s, min, h), of at most 24 days"
            }
            Self::Size => "bytes, or a size with a unit (B, KiB, MiB, GiB), below 2 GiB",
            Self::Text | Self::Secret => "a string",
            Self::File => "a path as a string",
            Self::List => "a string with commas or an array of strings",
            Self::Workers => {
                "auto, a number from 1 to 128, or a percentage of the cores from 1% to 100%"
            }
            Self::Choice(words) => return format!("one of {}", words.join(", ")),
        };
        text.to_owned()
    }

    /// A value that fits, as TOML.
    pub fn example(self) -> String {
        let text = match self {
            Self::Flag => "true",
            Self::Count => "20",
            Self::Port => "6432",
            Self::Mode => "\"0777\"",
            Self::Seconds => "30 or \"30s\"",
            Self::Millis => "250 or \"250ms\"",
            Self::Size => "65536 or \"64KiB\"",
            Self::Text | Self::Secret => "\"text\"",
            Self::File => "\"/path/to/file\"",
            Self::List => "\"one, two\" or [\"one\", \"two\"]",
            Self::Workers => "\"auto\", 4 or \"50%\"",
            Self::Choice(words) => return format!("\"{}\"", words.first().copied().unwrap_or("")),
        };
        text.to_owned()
    }

    /// Whether any text fits, so that a fault must not repeat it.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Secret | Self::File | Self::List)
    }
}

/// Whether a reload can change a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// It can.
    Live,
    /// Only a new start can.
    Restart,
}

/// Whether this version honours a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Honoured,
    /// There is nothing that it could do in a fleet, and this is why.
    Meaningless(&'static str),
    /// It will in a later version; until then this holds.
    NotYet(&'static str),
}

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// PgBouncer has it too.
    PgBouncer,
    /// Only pgfleet has it.
    Pgfleet,
}

/// Makes `Global` and `KEYS` from rows of
/// `name: Type, Form, default, Live|Restart [limit], standing, origin, text;`.
macro_rules! keys {
    ($($name:ident: $type:ty, $form:ty, $default:literal, $reload:ident $($limit:ident)?, $standing:expr, $origin:ident, $text:literal;)+) => {
        /// The settings of the whole fleet, one field for each key and named like it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Global { $(#[doc = $text] pub $name: $type,)+ }

        /// The one table of keys, in the order of PgBouncer's `SHOW CONFIG`, then pgfleet's own.
        pub static KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            kind: <$form as Form<$type>>::KIND,
            default: $default,
            unit: <$form as Form<$type>>::KIND.unit(),
            reload: Reload::$reload,
            limit: !stringify!($($limit)?).is_empty(),
            standing: $standing,
            origin: Origin::$origin,
            text: $text,
        },)+];

        impl Default for Global {
            fn default() -> Self {
                Self { $($name: <$form as Form<$type>>::read(&Raw::text($default)).unwrap_or_default(),)+ }
            }
        }

        impl Global {
            /// The value of the key `name` as `SHOW CONFIG` prints it; none if there is no such key.
            pub fn show(&self, name: &str) -> Option<String> {
                match name {
                    $(stringify!($name) => Some(<$form as Form<$type>>::show(&self.$name)),)+
                    _ => None,
                }
            }

            /// Takes over from `booted` every key that only a start can change, so that what is
            /// shown is what is in force.
            pub fn keep_from_start(&mut self, booted: &Self) {
                $(if Reload::$reload == Reload::Restart {
                    self.$name = booted.$name.clone();
                })+
            }

            /// Sets the key `name`; whoever calls has looked the name up in the table.
            pub(crate) fn set(&mut self, name: &str, raw: &Raw) -> Result<(), Fault> {
                match name {
                    $(stringify!($name) => self.$name = <$form as Form<$type>>::read(raw)?,)+
                    _ => return Err(Fault::unknown("key", name, KEYS.iter().map(|key| key.name))),
                }
                Ok(())
            }
        }
    };
}

pub(crate) use keys;
