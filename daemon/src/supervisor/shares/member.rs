//! What one worker was granted, and the most that it can hold.
//!
//! It owns one worker's place in the flow and its bound for each limit. It knows no other worker and
//! sends nothing. Only `Shares` calls it.

use std::rc::Rc;

use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use super::Counts;
use crate::link::limit;
use crate::link::message::LimitKey;

/// Settings and the share of their limits.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) settings: Rc<Settings>,
    pub(super) share: Option<Share>,
}

impl Terms {
    /// Its part of a limit; where these settings have none, more than anyone can hold.
    fn part(&self, key: &LimitKey) -> u32 {
        limit::part(&self.settings, self.share, key).unwrap_or(u32::MAX)
    }
}

/// What a worker may use: the parts of its terms, less what others still hold of them.
#[derive(Clone, Debug)]
struct Grant {
    /// None before the first flow, when there is nothing that it may use.
    terms: Option<Terms>,
    minus: Counts,
}

impl Grant {
    fn part(&self, key: &LimitKey) -> u32 {
        let part = self.terms.as_ref().map_or(0, |terms| terms.part(key));
        part.saturating_sub(count(&self.minus, key))
    }
}

/// Where a worker is in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Settled,
    Preparing,
    Prepared,
    Committed,
    Held,
}

/// One worker.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) phase: Phase,
    /// The flow that it committed last.
    pub(super) epoch: u64,
    force: Grant,
    /// The flow that it is in, and what that brings.
    next: Option<(u64, Terms)>,
    /// What was in force before the last commit: `Held` counts from the smaller of that and the new.
    before: Grant,
    /// The most that it holds, for limits of which it holds more than that smaller part.
    holds: Counts,
}

impl Member {
    pub(super) fn new() -> Self {
        let nothing = Grant { terms: None, minus: Counts::new() };
        let before = nothing.clone();
        Self {
            phase: Phase::Settled,
            epoch: 0,
            force: nothing,
            next: None,
            before,
            holds: Counts::new(),
        }
    }

    /// Whether it has been through a flow.
    pub(super) fn is_introduced(&self) -> bool {
        self.force.terms.is_some()
    }

    pub(super) fn has_share(&self) -> bool {
        self.force.terms.as_ref().is_some_and(|terms| terms.share.is_some())
    }

    /// Whether it acts on these settings.
    pub(super) fn has_settings(&self, settings: &Rc<Settings>) -> bool {
        self.force.terms.as_ref().is_some_and(|terms| Rc::ptr_eq(&terms.settings, settings))
    }

    pub(super) fn differs_from(&self, terms: &Terms) -> bool {
        let share = self.force.terms.as_ref().map(|own| own.share);
        !self.has_settings(&terms.settings) || share != Some(terms.share)
    }

    /// Enters a flow.
    pub(super) fn begin(&mut self, epoch: u64, terms: Terms) {
        self.phase = Phase::Preparing;
        self.next = Some((epoch, terms));
    }

    /// The flow was called off.
    pub(super) fn discard(&mut self) {
        self.phase = Phase::Settled;
        self.next = None;
    }

    /// The flow's terms are committed: the worker now keeps to the smaller of its parts.
    pub(super) fn commit(&mut self) {
        self.phase = Phase::Committed;
        self.before = self.force.clone();
        if let Some((epoch, _)) = &self.next {
            self.epoch = *epoch;
        }
    }

    /// The worker has said what it holds above the smaller of its parts.
    pub(super) fn hold(&mut self, excess: impl IntoIterator<Item = (LimitKey, u32)>) {
        let excess = excess.into_iter().filter(|(_, excess)| *excess > 0);
        let holds = excess.map(|(key, excess)| {
            let most = self.floor(&key).saturating_add(excess);
            (key, most)
        });
        self.holds = holds.collect();
    }

    /// The flow is over: the new terms are in force, less `minus`.
    pub(super) fn settle(&mut self, minus: Counts) {
        if let Some((_, terms)) = self.next.take() {
            self.force = Grant { terms: Some(terms), minus };
        }
        self.phase = Phase::Settled;
    }

    /// Lets it use more; says whether anything changed.
    pub(super) fn lessen(&mut self, shortfall: &Counts) -> bool {
        let before = self.force.minus.clone();
        for (key, minus) in &mut self.force.minus {
            *minus = count(shortfall, key).min(*minus);
        }
        self.force.minus.retain(|_, minus| *minus > 0);
        self.force.minus != before
    }

    pub(super) fn minus(&self) -> Vec<(LimitKey, u32)> {
        self.force.minus.iter().map(|(key, minus)| (key.clone(), *minus)).collect()
    }

    /// The limits of which something is known beyond the plain parts.
    pub(super) fn named_keys(&self) -> impl Iterator<Item = &LimitKey> {
        self.force.minus.keys().chain(self.before.minus.keys()).chain(self.holds.keys())
    }

    /// The part that it keeps to between commit and grant.
    fn floor(&self, key: &LimitKey) -> u32 {
        let new = match (&self.next, &self.force.terms) {
            (Some((_, terms)), _) | (None, Some(terms)) => terms.part(key),
            (None, None) => 0,
        };
        self.before.part(key).min(new)
    }

    /// The most that it can hold now.
    pub(super) fn bound(&self, key: &LimitKey) -> u32 {
        let may = match self.phase {
            Phase::Settled | Phase::Preparing | Phase::Prepared | Phase::Committed => {
                self.force.part(key)
            }
            Phase::Held => self.floor(key),
        };
        may.max(count(&self.holds, key))
    }

    /// How much more it could be granted now.
    pub(super) fn growth(&self, key: &LimitKey) -> u32 {
        match (self.phase, &self.next) {
            (Phase::Settled, _) => count(&self.force.minus, key),
            (Phase::Held, Some((_, terms))) => terms.part(key).saturating_sub(self.floor(key)),
            (Phase::Held, None) => 0,
            (Phase::Preparing | Phase::Prepared | Phase::Committed, _) => 0,
        }
    }
}

fn count(counts: &Counts, key: &LimitKey) -> u32 {
    counts.get(key).copied().unwrap_or(0)
}
