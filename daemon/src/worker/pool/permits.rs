//! The one object that every server and every client is permitted by.
//!
//! It counts what this worker holds under each limit and knows the worker's part of it. It never
//! closes anything: who is above the part is told, and gives back when it can. Shared limits will
//! stand behind the same questions.

use std::collections::HashMap;
use std::rc::Rc;

use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use crate::link::limit;
use crate::link::message::LimitKey;

/// Settings and share that a part is computed from.
#[derive(Clone)]
struct Ground {
    settings: Rc<Settings>,
    share: Option<Share>,
    minus: HashMap<LimitKey, u32>,
}

impl Ground {
    fn part(&self, key: &LimitKey) -> Option<u32> {
        let part = limit::part(&self.settings, self.share, key)?;
        Some(part.saturating_sub(self.minus.get(key).copied().unwrap_or(0)))
    }
}

/// A permission, or the limit that denies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Granted,
    Denied(LimitKey),
}

/// Counts and parts of one worker.
#[derive(Default)]
pub(crate) struct Permits {
    held: HashMap<LimitKey, u32>,
    /// Of those, what is on its way out already.
    leaving: HashMap<LimitKey, u32>,
    /// What was in force before the last commit; `None` at the start: nothing was.
    before: Option<Ground>,
    now: Option<Ground>,
    granted: bool,
}

impl Permits {
    /// New settings or a new share. Until [`Permits::grant`], the smaller of old and new counts.
    pub(crate) fn commit(&mut self, settings: Rc<Settings>, share: Option<Share>) {
        if self.granted || self.before.is_none() {
            self.before = self.now.take();
        }
        self.now = Some(Ground { settings, share, minus: HashMap::new() });
        self.granted = false;
    }

    /// The whole new part counts, less what others still hold of it.
    pub(crate) fn grant(&mut self, minus: Vec<(LimitKey, u32)>) {
        if let Some(now) = &mut self.now {
            now.minus = minus.into_iter().collect();
        }
        self.before = None;
        self.granted = true;
    }

    /// Whether the new part counts as a whole.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    /// This worker's part of a limit now; `None` where there is none.
    pub(crate) fn part(&self, key: &LimitKey) -> Option<u32> {
        let Some(now) = &self.now else { return Some(0) };
        if self.granted {
            return now.part(key);
        }
        match (&self.before, now.part(key)) {
            // A limit that is new counts at once; one that is gone counts until the grant.
            (None, None) => None,
            (None, Some(_)) => Some(0),
            (Some(before), part) => match (before.part(key), part) {
                (Some(old), Some(new)) => Some(old.min(new)),
                (old, new) => old.or(new),
            },
        }
    }

    /// How many are held under a limit.
    pub(crate) fn held(&self, key: &LimitKey) -> u32 {
        self.held.get(key).copied().unwrap_or(0)
    }

    /// Takes one under all of `keys`, or none.
    pub(crate) fn take(&mut self, keys: &[LimitKey]) -> Permit {
        for key in keys {
            if self.part(key).is_some_and(|part| self.held(key) >= part) {
                return Permit::Denied(key.clone());
            }
        }
        self.take_anyway(keys);
        Permit::Granted
    }

    /// Takes one under all of `keys`, also above the part: a worker that is leaving, and so has no part
    /// any more, still serves those whom it has accepted.
    pub(crate) fn take_anyway(&mut self, keys: &[LimitKey]) {
        for key in keys {
            *self.held.entry(key.clone()).or_default() += 1;
        }
    }

    /// One under all of `keys` is to be given back, and still counts.
    pub(crate) fn start_leaving(&mut self, keys: &[LimitKey]) {
        for key in keys {
            *self.leaving.entry(key.clone()).or_default() += 1;
        }
    }

    /// Gives one back that was leaving.
    pub(crate) fn leave(&mut self, keys: &[LimitKey]) {
        lower(&mut self.leaving, keys);
        self.give_back(keys);
    }

    /// Gives one back under all of `keys`.
    pub(crate) fn give_back(&mut self, keys: &[LimitKey]) {
        lower(&mut self.held, keys);
    }

    /// What is held above the part, by key.
    pub(crate) fn excess(&self) -> Vec<(LimitKey, u32)> {
        let mut excess: Vec<_> = self
            .held
            .iter()
            .filter_map(|(key, &held)| {
                let over = held.saturating_sub(self.part(key)?);
                (over > 0).then(|| (key.clone(), over))
            })
            .collect();
        excess.sort();
        excess
    }

    /// Whether one limit is exceeded, also when all that is leaving will have left.
    pub(crate) fn is_over(&self, key: &LimitKey) -> bool {
        let leaving = self.leaving.get(key).copied().unwrap_or(0);
        self.part(key).is_some_and(|part| self.held(key).saturating_sub(leaving) > part)
    }

    /// The part of `pool_size` alone, without the reserve.
    pub(crate) fn regular_part(&self, database: &str, user: &str) -> Option<u32> {
        let now = self.now.as_ref()?;
        let entry = now.settings.database(database)?;
        let size = now.settings.pool_size(&entry, user);
        let share = now.share?;
        (size > 0).then(|| share.part(size))
    }
}

fn lower(counts: &mut HashMap<LimitKey, u32>, keys: &[LimitKey]) {
    for key in keys {
        if let Some(count) = counts.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Rc<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pgfleet.toml");
        let text = format!("listen_addr = '127.0.0.1'\nauth_type = 'trust'\n{text}");
        std::fs::write(&path, text).unwrap();
        Rc::new(pgfleet_config::load(&path).unwrap())
    }

    fn share(index: u16, of: u16) -> Option<Share> {
        Some(Share { index, of })
    }

    #[test]
    fn nothing_is_permitted_before_the_first_grant() {
        let mut permits = Permits::default();
        assert_eq!(permits.take(&[LimitKey::Clients]), Permit::Denied(LimitKey::Clients));
        permits.commit(settings("max_client_conn = 10"), share(0, 2));
        assert_eq!(permits.take(&[LimitKey::Clients]), Permit::Denied(LimitKey::Clients));
        permits.grant(vec![(LimitKey::Clients, 2)]);
        assert_eq!(permits.part(&LimitKey::Clients), Some(3));
        for _ in 0..3 {
            assert_eq!(permits.take(&[LimitKey::Clients]), Permit::Granted);
        }
        assert_eq!(permits.take(&[LimitKey::Clients]), Permit::Denied(LimitKey::Clients));
    }

    #[test]
    fn between_commit_and_grant_the_smaller_part_counts() {
        let mut permits = Permits::default();
        permits.commit(settings("max_client_conn = 10"), share(0, 1));
        permits.grant(vec![]);
        for _ in 0..8 {
            permits.take(&[LimitKey::Clients]);
        }
        permits.commit(settings("max_client_conn = 10"), share(0, 2));
        assert_eq!(permits.part(&LimitKey::Clients), Some(5));
        assert_eq!(permits.excess(), vec![(LimitKey::Clients, 3)]);
        permits.commit(settings("max_client_conn = 100"), share(0, 2));
        assert_eq!(permits.part(&LimitKey::Clients), Some(10));
        permits.grant(vec![]);
        assert_eq!(permits.part(&LimitKey::Clients), Some(50));
    }

    #[test]
    fn all_keys_are_taken_or_none() {
        let mut permits = Permits::default();
        permits
            .commit(settings("max_client_conn = 10\nmax_user_client_connections = 1"), share(0, 1));
        permits.grant(vec![]);
        let keys = [LimitKey::Clients, LimitKey::ClientsOfUser("app".into())];
        assert_eq!(permits.take(&keys), Permit::Granted);
        assert_eq!(permits.take(&keys), Permit::Denied(keys[1].clone()));
        assert_eq!(permits.held(&LimitKey::Clients), 1);
        permits.give_back(&keys);
        assert_eq!(permits.held(&LimitKey::Clients), 0);
    }
}
