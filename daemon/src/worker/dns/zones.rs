//! The zones of the names in use, and their serial numbers.
//!
//! A zone is what stands behind the first dot of a name. Each is looked at once in
//! `dns_zone_check_period`; a changed serial number makes its names stale. It asks nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// One zone.
#[derive(Debug)]
struct Zone {
    serial: Option<u32>,
    checked: Instant,
}

/// All zones.
#[derive(Debug, Default)]
pub(crate) struct Zones(BTreeMap<String, Zone>);

/// The zone of a name, if it has one.
pub(crate) fn zone_of(name: &str) -> Option<&str> {
    let (_, zone) = name.trim_end_matches('.').split_once('.')?;
    (!zone.is_empty()).then_some(zone)
}

impl Zones {
    /// The zones to be looked at now; those without a name are forgotten. A period of 0 is never.
    pub(crate) fn due<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        period: Duration,
        now: Instant,
    ) -> Vec<String> {
        let wanted: BTreeSet<&str> = names.filter_map(zone_of).collect();
        self.0.retain(|zone, _| !period.is_zero() && wanted.contains(zone.as_str()));
        if period.is_zero() {
            return Vec::new();
        }
        let mut due = Vec::new();
        for zone in wanted {
            match self.0.get_mut(zone) {
                Some(known) if now.saturating_duration_since(known.checked) < period => continue,
                Some(known) => known.checked = now,
                None => {
                    self.0.insert(zone.to_owned(), Zone { serial: None, checked: now });
                }
            }
            due.push(zone.to_owned());
        }
        due
    }

    /// The serial number that a zone has now. Returns whether it is another than before.
    pub(crate) fn heard(&mut self, zone: &str, serial: u32) -> bool {
        let Some(known) = self.0.get_mut(zone) else { return false };
        known.serial.replace(serial).is_some_and(|before| before != serial)
    }

    /// Each zone with its serial number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.0.iter().map(|(name, zone)| (name.as_str(), zone.serial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    #[test]
    fn a_zone_is_what_stands_behind_the_first_dot() {
        assert_eq!(zone_of("db.a.example"), Some("a.example"));
        assert_eq!(zone_of("db.example."), Some("example"));
        assert_eq!(zone_of("db"), None);
        assert_eq!(zone_of("db."), None);
    }

    #[test]
    fn each_zone_is_looked_at_once_in_a_period() {
        let (mut zones, now) = (Zones::default(), Instant::now());
        let names = ["a.example", "b.example", "db.other.example", "localhost"];
        let names = || names.into_iter();
        assert_eq!(zones.due(names(), PERIOD, now), ["example", "other.example"]);
        assert_eq!(zones.due(names(), PERIOD, now), [""; 0]);
        assert_eq!(zones.due(names(), PERIOD, now + PERIOD), ["example", "other.example"]);
        assert_eq!(zones.due(names(), Duration::ZERO, now), [""; 0]);
        assert_eq!(zones.iter().count(), 0);
    }

    #[test]
    fn a_changed_serial_number_is_told_once() {
        let (mut zones, now) = (Zones::default(), Instant::now());
        zones.due(["a.example"].into_iter(), PERIOD, now);
        let heard = [7, 7, 8, 8].map(|serial| zones.heard("example", serial));
        assert_eq!(heard, [false, false, true, false]);
        assert!(!zones.heard("unknown", 1));
        assert_eq!(zones.iter().collect::<Vec<_>>(), [("example", Some(8))]);
    }
}
