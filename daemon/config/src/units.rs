//! Numbers with and without units, and back.
//! It never overflows and never guesses a unit; what does not fit is `None`.
//! The forms call it.

use std::time::Duration;

/// The longest duration that a setting may have; what is longer breaks clocks.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// PgBouncer's integers are C's `int`.
const LARGEST: u32 = 0x7fff_ffff;

/// A whole number from 0 to 2147483647.
pub(crate) fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= LARGEST)
}

/// Permissions as `strtol` reads them with base 0, and as TOML writes octal; at most 0777.
pub(crate) fn mode(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0o").or_else(|| text.strip_prefix('0')) {
        Some("") => Some(0),
        Some(octal) => u32::from_str_radix(octal, 8).ok(),
        None => text.parse().ok(),
    };
    number.filter(|mode| *mode <= 0o777)
}

/// A duration; a plain number is in seconds.
pub(crate) fn seconds(text: &str) -> Option<Duration> {
    duration(text, 1.0).filter(|duration| *duration <= LONGEST)
}

/// A duration in whole milliseconds; so is a plain number.
pub(crate) fn millis(text: &str) -> Option<u32> {
    let duration = duration(text, 0.001)?;
    u32::try_from(duration.as_millis()).ok().filter(|millis| *millis <= LARGEST)
}

fn duration(text: &str, plain: f64) -> Option<Duration> {
    let (number, unit) = split(text);
    let unit = match unit {
        "" => plain,
        "us" => 0.000_001,
        "ms" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

/// A size in bytes; units are powers of 1024 whether written `kB` or `KiB`, as in Postgres.
pub(crate) fn size(text: &str) -> Option<u32> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    u32::try_from(bytes).ok().filter(|bytes| *bytes <= LARGEST)
}

/// The number and its unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number.trim(), unit.trim())
}

/// Seconds as a plain number, with decimals only where there are some.
pub(crate) fn show_seconds(duration: &Duration) -> String {
    let micros = duration.subsec_micros();
    if micros == 0 {
        return duration.as_secs().to_string();
    }
    let text = format!("{}.{micros:06}", duration.as_secs());
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_units_and_plain_numbers() {
        let cases = [
            ("0", Some(0)),
            ("30", Some(30_000)),
            ("0.5", Some(500)),
            ("30s", Some(30_000)),
            ("5min", Some(300_000)),
            ("5 min", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("2d", Some(172_800_000)),
            ("250ms", Some(250)),
            ("", None),
            ("-1", None),
            ("s", None),
            ("inf", None),
            ("nan", None),
            ("5 parsecs", None),
            ("99999999999999999999", None),
            ("4000000000", None),
        ];
        for (text, millis) in cases {
            assert_eq!(seconds(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_plain_timeout_in_milliseconds_stays_so() {
        assert_eq!(millis("250"), Some(250));
        assert_eq!(millis("2s"), Some(2000));
        assert_eq!(millis("9999999999"), None);
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        let cases = [
            ("64MiB", Some(64 << 20)),
            ("64 kB", Some(65_536)),
            ("1G", Some(1 << 30)),
            ("17", Some(17)),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), bytes, "{text}");
        }
        for text in ["2GiB", "1.5MiB", "-1", "64 pages", "99999999999999999999 GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn permissions_are_octal_or_what_pgbouncer_shows() {
        for (text, mode_) in
            [("0777", Some(0o777)), ("0o640", Some(0o640)), ("511", Some(0o777)), ("0", Some(0))]
        {
            assert_eq!(mode(text), mode_, "{text}");
        }
        for text in ["777", "0888", "01777", "rwx", "-1"] {
            assert_eq!(mode(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_are_shown_as_plain_numbers() {
        for (millis, text) in [(0, "0"), (30_000, "30"), (500, "0.5"), (1_250, "1.25")] {
            assert_eq!(show_seconds(&Duration::from_millis(millis)), text);
        }
    }
}
