//! How many workers someone asked for, as it is written.
//! It never looks at the machine; `limits` turns it into a number.
//! The key `workers`, `--workers` and `SCALE` use it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A wanted number of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workers {
    /// One for each core that this process may use.
    #[default]
    Auto,
    /// This part of those cores, 1 to 100.
    Percent(u8),
    /// This many, 1 to 128.
    Count(u16),
}

impl Workers {
    /// The most workers that a fleet can have.
    pub const MOST: u16 = 128;
}

impl FromStr for Workers {
    type Err = String;

    /// Reads `auto`, `4` or `50%`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match (text, text.strip_suffix('%')) {
            ("auto", _) => Some(Self::Auto),
            (_, Some(percent)) => {
                percent.trim().parse().ok().filter(|p| (1..=100).contains(p)).map(Self::Percent)
            }
            (_, None) => {
                text.parse().ok().filter(|count| (1..=Self::MOST).contains(count)).map(Self::Count)
            }
        };
        parsed.ok_or_else(|| format!("must be {}", crate::Kind::Workers.expects()))
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_workers_reads_and_shows() {
        for text in ["auto", "1", "128", "50%", "100%"] {
            assert_eq!(text.parse::<Workers>().unwrap().to_string(), text);
        }
        for text in ["", "0", "129", "-1", "0%", "101%", "300%", "Auto", "4 workers", "99999"] {
            assert!(text.parse::<Workers>().is_err(), "{text}");
        }
    }
}
