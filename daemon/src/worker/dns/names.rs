//! What is known of names: their addresses, how long they count, who waits for them.
//!
//! One question for a name is under way at a time, whoever waits. An answer counts for `dns_max_ttl`,
//! a failure for `dns_nxdomain_ttl`; the clock and the answers come from outside. It asks nobody.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::query::LookupError;
use crate::worker::ids::PoolId;

/// No address is passed over for less after a failed connect.
const LEAST: Duration = Duration::from_millis(10);

/// How long answers count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) found: Duration,
    pub(crate) failed: Duration,
}

/// What can be done for someone who needs an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(IpAddr),
    /// It does not resolve, for now.
    Failed(String),
    /// To be asked for, by whoever got this.
    Unasked,
    /// Somebody has asked already.
    Asked,
}

/// One name.
#[derive(Debug)]
struct Name {
    addresses: Vec<IpAddr>,
    /// Addresses that could not be connected to, and until when they are passed over.
    down: Vec<(IpAddr, Instant)>,
    turn: usize,
    failure: Option<String>,
    /// What is known counts until then.
    until: Instant,
    asking: bool,
    waiting: Vec<(PoolId, u16)>,
}

/// What an answer changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Those who waited, with the port that they want.
    pub(crate) waiting: Vec<(PoolId, u16)>,
    /// Addresses that the name no longer has.
    pub(crate) gone: Vec<IpAddr>,
}

/// All names.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<Rc<str>, Name>);

impl Names {
    /// An address for a new connection, or what to do to get one.
    pub(crate) fn wanted(&mut self, name: &Rc<str>, now: Instant) -> Found {
        let entry = self.0.entry(Rc::clone(name)).or_insert_with(|| Name::new(now));
        if entry.asking {
            return Found::Asked;
        }
        if now < entry.until {
            return entry.pick(now);
        }
        entry.asking = true;
        Found::Unasked
    }

    /// A pool waits for the answer.
    pub(crate) fn wait(&mut self, name: &str, pool: PoolId, port: u16) {
        if let Some(entry) = self.0.get_mut(name) {
            entry.waiting.push((pool, port));
        }
    }

    /// The answer is here. A server that cannot be asked does not make a known address wrong.
    pub(crate) fn answered(
        &mut self,
        name: &str,
        result: Result<Vec<IpAddr>, LookupError>,
        lifetimes: Lifetimes,
        now: Instant,
    ) -> Change {
        let Some(entry) = self.0.get_mut(name) else { return Change::default() };
        entry.asking = false;
        let waiting = std::mem::take(&mut entry.waiting);
        let mut gone = Vec::new();
        match result {
            Ok(addresses) => {
                gone = entry.addresses.clone();
                gone.retain(|known| !addresses.contains(known));
                entry.down.retain(|(known, _)| addresses.contains(known));
                entry.addresses = addresses;
                entry.failure = None;
                entry.until = now + lifetimes.found;
            }
            Err(error) => {
                if error == LookupError::NotFound {
                    entry.addresses.clear();
                }
                entry.failure = Some(error.to_string());
                entry.until = now + lifetimes.failed;
            }
        }
        Change { waiting, gone }
    }

    /// An address for those who waited for the answer that has just come.
    pub(crate) fn pick(&mut self, name: &str, now: Instant) -> Found {
        let missing = || Found::Failed("the name is not known any more".to_owned());
        self.0.get_mut(name).map_or_else(missing, |entry| entry.pick(now))
    }

    /// A connect to one address failed. Returns whether the name has another one to try at once.
    pub(crate) fn failed(&mut self, name: &str, ip: IpAddr, retry: Duration, now: Instant) -> bool {
        let Some(entry) = self.0.get_mut(name) else { return false };
        entry.down.retain(|(known, until)| *known != ip && now < *until);
        if entry.addresses.contains(&ip) {
            entry.down.push((ip, now + retry.max(LEAST)));
        }
        entry.addresses.iter().any(|known| entry.down.iter().all(|(down, _)| down != known))
    }

    /// Marks the names that are due and `used` as asked, and gives them back; forgets those that nobody
    /// has used since they ran out.
    pub(crate) fn due(&mut self, used: impl Fn(&str) -> bool, now: Instant) -> Vec<Rc<str>> {
        self.0.retain(|name, entry| entry.asking || now < entry.until || used(name));
        let mut due = Vec::new();
        for (name, entry) in &mut self.0 {
            if !entry.asking && now >= entry.until {
                entry.asking = true;
                due.push(Rc::clone(name));
            }
        }
        due
    }

    /// The names of this zone are to be asked for again.
    pub(crate) fn expire_zone(&mut self, zone: &str, now: Instant) {
        for (name, entry) in &mut self.0 {
            if super::zones::zone_of(name) == Some(zone) {
                entry.until = entry.until.min(now);
            }
        }
    }

    /// Each name with what is left of its time, and its addresses.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = (&str, Duration, &[IpAddr])> {
        self.0.iter().map(move |(name, entry)| {
            (&**name, entry.until.saturating_duration_since(now), entry.addresses.as_slice())
        })
    }

    /// Questions under way.
    pub(crate) fn asked(&self) -> usize {
        self.0.values().filter(|entry| entry.asking).count()
    }

    /// New connections that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.0.values().map(|entry| entry.waiting.len()).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Name {
    fn new(now: Instant) -> Self {
        Self {
            addresses: Vec::new(),
            down: Vec::new(),
            turn: 0,
            failure: None,
            until: now,
            asking: false,
            waiting: Vec::new(),
        }
    }

    /// The next address in turn that is not down; if all are, the next one.
    fn pick(&mut self, now: Instant) -> Found {
        let count = self.addresses.len();
        let is_up =
            |ip: &&IpAddr| self.down.iter().all(|(down, until)| down != *ip || now >= *until);
        let first = self.turn;
        let in_turn = || (0..count).filter_map(|step| self.addresses.get((first + step) % count));
        match in_turn().find(is_up).or_else(|| in_turn().next()).copied() {
            Some(ip) => {
                let place = self.addresses.iter().position(|known| *known == ip);
                self.turn = place.map_or(0, |place| place + 1);
                Found::At(ip)
            }
            None => Found::Failed(self.failure.clone().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIMES: Lifetimes =
        Lifetimes { found: Duration::from_secs(15), failed: Duration::from_secs(5) };

    const POOL: PoolId = PoolId { index: 1, serial: 1 };

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn known(names: &mut Names, addresses: &[u8], now: Instant) -> Rc<str> {
        let name: Rc<str> = "db.example".into();
        assert_eq!(names.wanted(&name, now), Found::Unasked);
        let addresses = addresses.iter().map(|last| ip(*last)).collect();
        names.answered(&name, Ok(addresses), LIFETIMES, now);
        name
    }

    #[test]
    fn one_question_is_under_way_whoever_waits() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name: Rc<str> = "db.example".into();
        assert_eq!(names.wanted(&name, now), Found::Unasked);
        names.wait(&name, POOL, 1);
        assert_eq!(names.wanted(&name, now), Found::Asked);
        names.wait(&name, POOL, 2);
        assert_eq!(names.asked(), 1);
        let change = names.answered(&name, Ok(vec![ip(1)]), LIFETIMES, now);
        assert_eq!(change, Change { waiting: vec![(POOL, 1), (POOL, 2)], gone: vec![] });
        assert_eq!(names.pick(&name, now), Found::At(ip(1)));
    }

    #[test]
    fn an_answer_counts_for_its_time_and_a_failure_for_its_own() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name = known(&mut names, &[1], now);
        assert_eq!(names.wanted(&name, now + Duration::from_secs(14)), Found::At(ip(1)));
        let later = now + Duration::from_secs(15);
        assert_eq!(names.wanted(&name, later), Found::Unasked);
        names.answered(&name, Err(LookupError::NotFound), LIFETIMES, later);
        let failed = Found::Failed("no such name".to_owned());
        assert_eq!(names.wanted(&name, later + Duration::from_secs(4)), failed);
        assert_eq!(names.wanted(&name, later + Duration::from_secs(5)), Found::Unasked);
    }

    #[test]
    fn a_server_that_does_not_answer_makes_no_known_address_wrong() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name = known(&mut names, &[1], now);
        let later = now + Duration::from_secs(15);
        names.wanted(&name, later);
        let failed = Err(LookupError::Failed("silence".to_owned()));
        assert_eq!(names.answered(&name, failed, LIFETIMES, later), Change::default());
        assert_eq!(names.wanted(&name, later), Found::At(ip(1)));
    }

    #[test]
    fn addresses_are_used_in_turn_and_those_that_are_down_are_passed_over() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name = known(&mut names, &[1, 2, 3], now);
        let next = |names: &mut Names| names.wanted(&name, now);
        let turns: Vec<_> = (0..4).map(|_| next(&mut names)).collect();
        assert_eq!(turns, [1, 2, 3, 1].map(|last| Found::At(ip(last))));
        let retry = Duration::from_secs(1);
        assert!(names.failed("db.example", ip(2), retry, now));
        assert_eq!([next(&mut names), next(&mut names)], [3, 1].map(|last| Found::At(ip(last))));
        assert!(names.failed("db.example", ip(1), retry, now));
        assert!(!names.failed("db.example", ip(3), retry, now));
        assert!(matches!(next(&mut names), Found::At(_)), "if all are down, one is tried");
    }

    #[test]
    fn what_a_name_no_longer_has_is_told() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name = known(&mut names, &[1, 2], now);
        let change = names.answered(&name, Ok(vec![ip(2), ip(3)]), LIFETIMES, now);
        assert_eq!(change.gone, [ip(1)]);
    }

    #[test]
    fn names_in_use_are_asked_for_again_and_others_are_forgotten() {
        let (mut names, now) = (Names::default(), Instant::now());
        let name = known(&mut names, &[1], now);
        assert_eq!(names.due(|_| true, now), [] as [Rc<str>; 0]);
        let later = now + Duration::from_secs(15);
        assert_eq!(names.due(|_| true, later), [Rc::clone(&name)]);
        assert_eq!(names.due(|_| true, later), [] as [Rc<str>; 0], "it has been asked for");
        names.answered(&name, Ok(vec![ip(1)]), LIFETIMES, later);
        names.expire_zone("example", later);
        assert_eq!(names.due(|_| false, later), [] as [Rc<str>; 0]);
        assert!(names.is_empty());
    }
}
