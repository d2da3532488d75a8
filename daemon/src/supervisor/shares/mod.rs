//! Who may use how much of each limit, and the flow by which that changes.
//!
//! It owns what each worker was granted and what it may still hold beyond that, and drives
//! `Prepare → Prepared → Commit → Held → Grant` so that grants, excesses and the servers of dead workers
//! never add up to more than a limit. It never does I/O; `act` calls it and sends what comes out.
//!
//! One flow runs at a time and takes in only those workers for whom something changes, so that a worker
//! that comes up waits for no one. A reload takes in all, and either all commit or none does.

mod member;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use pgfleet_config::Settings;
use pgfleet_config::share::Share;

use self::member::{Member, Phase, Terms};
use crate::link::limit;
use crate::link::message::{LimitKey, WorkerId};

/// Counts for each limit.
pub(crate) type Counts = BTreeMap<LimitKey, u32>;

/// What is to be sent, or has happened.
#[derive(Debug)]
pub(crate) enum Step {
    Prepare {
        worker: WorkerId,
        epoch: u64,
        settings: Option<Rc<Settings>>,
        share: Option<Share>,
    },
    Commit {
        worker: WorkerId,
        epoch: u64,
    },
    Discard {
        worker: WorkerId,
        epoch: u64,
    },
    Grant {
        worker: WorkerId,
        epoch: u64,
        minus: Vec<(LimitKey, u32)>,
    },
    /// Its first epoch is in force.
    Introduced(WorkerId),
    /// It has a share in force.
    Granted(WorkerId),
    /// It cannot use the settings that all others use.
    Unfit(WorkerId, String),
    Reloaded(Result<Rc<Settings>, Unprepared>),
}

/// Why a reload changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unprepared {
    #[error("worker {0} cannot use the new settings: {1}")]
    Refused(WorkerId, String),
    #[error(
        "worker {0} did not prepare the new settings in time; repeat RELOAD, a hung worker is replaced meanwhile"
    )]
    Late(WorkerId),
}

/// One change under way.
#[derive(Debug)]
struct Flow {
    epoch: u64,
    members: BTreeSet<WorkerId>,
    stage: Stage,
    reload: Option<Rc<Settings>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Committed,
}

/// The shares of all workers.
#[derive(Debug)]
pub(crate) struct Shares {
    settings: Rc<Settings>,
    next_settings: Option<Rc<Settings>>,
    members: BTreeMap<WorkerId, Member>,
    aims: BTreeMap<WorkerId, Option<Share>>,
    ghosts: Counts,
    flow: Option<Flow>,
    epoch: u64,
}

impl Shares {
    pub(crate) fn new(settings: Rc<Settings>) -> Self {
        Self {
            settings,
            next_settings: None,
            members: BTreeMap::new(),
            aims: BTreeMap::new(),
            ghosts: Counts::new(),
            flow: None,
            epoch: 0,
        }
    }

    /// The number of the last flow that began.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A worker that can be sent messages from now on. Until its first grant all its parts are 0.
    pub(crate) fn join(&mut self, worker: WorkerId) -> Vec<Step> {
        self.members.insert(worker, Member::new());
        self.proceed()
    }

    /// A worker is gone; `ghosts` are the servers of dead workers, now with its own.
    pub(crate) fn leave(&mut self, worker: WorkerId, ghosts: Counts) -> Vec<Step> {
        self.ghosts = ghosts;
        self.members.remove(&worker);
        if let Some(flow) = &mut self.flow {
            flow.members.remove(&worker);
        }
        let mut steps = self.proceed();
        self.regrant(&mut steps);
        steps
    }

    /// Sets the shares that the workers should have; unknown workers get theirs when they join.
    pub(crate) fn aim(&mut self, aims: Vec<(WorkerId, Option<Share>)>) -> Vec<Step> {
        self.aims = aims.into_iter().collect();
        self.proceed()
    }

    /// Brings new settings to all workers; ends in [`Step::Reloaded`].
    pub(crate) fn reload(&mut self, settings: Rc<Settings>) -> Vec<Step> {
        self.next_settings = Some(settings);
        self.proceed()
    }

    /// The time for preparing a reload is over.
    pub(crate) fn expire_reload(&mut self) -> Vec<Step> {
        let Some(flow) = &self.flow else { return Vec::new() };
        let waits = |worker: &&WorkerId| {
            !self.is_in(**worker, Phase::Prepared) && !self.is_in(**worker, Phase::Held)
        };
        let Some(late) = flow.members.iter().find(waits).copied() else { return Vec::new() };
        if self.next_settings.take().is_some() {
            // It never began, since an earlier flow hangs in that worker.
            return vec![Step::Reloaded(Err(Unprepared::Late(late)))];
        }
        if flow.reload.is_none() || flow.stage != Stage::Preparing {
            return Vec::new();
        }
        self.discard(Unprepared::Late(late))
    }

    /// A worker has prepared an epoch, or cannot.
    pub(crate) fn prepared(
        &mut self,
        worker: WorkerId,
        epoch: u64,
        result: Result<(), String>,
    ) -> Vec<Step> {
        let Some(flow) = &self.flow else { return Vec::new() };
        if flow.epoch != epoch || flow.stage != Stage::Preparing || !flow.members.contains(&worker)
        {
            return Vec::new();
        }
        let is_reload = flow.reload.is_some();
        match (result, self.members.get_mut(&worker)) {
            (Ok(()), Some(member)) => {
                member.phase = Phase::Prepared;
                self.proceed()
            }
            (Err(why), _) if is_reload => self.discard(Unprepared::Refused(worker, why)),
            (Err(why), _) => {
                if let Some(flow) = &mut self.flow {
                    flow.members.remove(&worker);
                }
                let mut steps = vec![Step::Unfit(worker, why)];
                steps.extend(self.proceed());
                steps
            }
            (Ok(()), None) => Vec::new(),
        }
    }

    /// A worker says what it holds above the smaller of its old and new parts.
    pub(crate) fn held(
        &mut self,
        worker: WorkerId,
        epoch: u64,
        excess: Vec<(LimitKey, u32)>,
    ) -> Vec<Step> {
        let Some(member) = self.members.get_mut(&worker) else { return Vec::new() };
        if member.epoch != epoch
            || !matches!(member.phase, Phase::Committed | Phase::Held | Phase::Settled)
        {
            return Vec::new();
        }
        if member.phase == Phase::Committed {
            member.phase = Phase::Held;
        }
        member.hold(excess);
        let mut steps = self.proceed();
        self.regrant(&mut steps);
        steps
    }

    /// The servers of dead workers that are not gone yet.
    pub(crate) fn haunt(&mut self, ghosts: Counts) -> Vec<Step> {
        self.ghosts = ghosts;
        let mut steps = Vec::new();
        self.regrant(&mut steps);
        steps
    }

    fn is_in(&self, worker: WorkerId, phase: Phase) -> bool {
        self.members.get(&worker).is_some_and(|member| member.phase == phase)
    }

    /// Does whatever can be done now: commit, grant, begin the next flow.
    fn proceed(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let Some(flow) = &self.flow else {
                if !self.begin(&mut steps) {
                    return steps;
                }
                continue;
            };
            let awaited = match flow.stage {
                Stage::Preparing => Phase::Prepared,
                Stage::Committed => Phase::Held,
            };
            if !flow.members.iter().all(|worker| self.is_in(*worker, awaited)) {
                return steps;
            }
            match flow.stage {
                Stage::Preparing => self.commit(&mut steps),
                Stage::Committed => self.grant(&mut steps),
            }
        }
    }

    /// Begins a flow if there is something to change; says whether one is under way now.
    fn begin(&mut self, steps: &mut Vec<Step>) -> bool {
        let reload = self.next_settings.take();
        let settings = reload.clone().unwrap_or_else(|| Rc::clone(&self.settings));
        let mut members = BTreeSet::new();
        let epoch = self.epoch + 1;
        for (worker, member) in &mut self.members {
            let share = self.aims.get(worker).copied().flatten();
            let terms = Terms { settings: Rc::clone(&settings), share };
            if !member.differs_from(&terms) {
                continue;
            }
            let with_settings = !member.has_settings(&settings);
            member.begin(epoch, terms);
            members.insert(*worker);
            let settings = with_settings.then(|| Rc::clone(&settings));
            steps.push(Step::Prepare { worker: *worker, epoch, settings, share });
        }
        if members.is_empty() && reload.is_none() {
            return false;
        }
        self.epoch = epoch;
        self.flow = Some(Flow { epoch, members, stage: Stage::Preparing, reload });
        true
    }

    fn commit(&mut self, steps: &mut Vec<Step>) {
        let Some(flow) = &mut self.flow else { return };
        flow.stage = Stage::Committed;
        for worker in &flow.members {
            if let Some(member) = self.members.get_mut(worker) {
                member.commit();
                steps.push(Step::Commit { worker: *worker, epoch: flow.epoch });
            }
        }
        if let Some(settings) = &flow.reload {
            self.settings = Rc::clone(settings);
        }
    }

    /// Ends a reload that cannot be; what the shares need begins anew.
    fn discard(&mut self, why: Unprepared) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(flow) = self.flow.take() {
            for worker in flow.members {
                if let Some(member) = self.members.get_mut(&worker) {
                    member.discard();
                    steps.push(Step::Discard { worker, epoch: flow.epoch });
                }
            }
        }
        steps.push(Step::Reloaded(Err(why)));
        steps.extend(self.proceed());
        steps
    }

    /// All members of the flow hold to the smaller of their parts: what is free can be granted.
    fn grant(&mut self, steps: &mut Vec<Step>) {
        let Some(flow) = self.flow.take() else { return };
        if let Some(settings) = flow.reload {
            steps.push(Step::Reloaded(Ok(settings)));
        }
        let minus = self.shortfall();
        for worker in flow.members {
            let Some(member) = self.members.get_mut(&worker) else { continue };
            let is_new = !member.is_introduced();
            member.settle(minus.get(&worker).cloned().unwrap_or_default());
            // Without a share nothing can be granted, and a worker takes a grant as leave to accept.
            if member.has_share() {
                let (epoch, minus) = (member.epoch, member.minus());
                steps.push(Step::Grant { worker, epoch, minus });
                steps.push(Step::Granted(worker));
            }
            if is_new {
                steps.push(Step::Introduced(worker));
            }
        }
        self.regrant(steps);
    }

    /// Grants more to settled workers where something has become free.
    fn regrant(&mut self, steps: &mut Vec<Step>) {
        let mut shortfall = self.shortfall();
        for (worker, member) in &mut self.members {
            if member.phase == Phase::Settled
                && member.lessen(&shortfall.remove(worker).unwrap_or_default())
            {
                steps.push(Step::Grant {
                    worker: *worker,
                    epoch: member.epoch,
                    minus: member.minus(),
                });
            }
        }
    }

    /// For each worker what it must go without, so that no limit is exceeded.
    ///
    /// Only keys that some excess, ghost or earlier shortfall names can be short: the parts of all
    /// others add up to their limit by themselves.
    fn shortfall(&self) -> BTreeMap<WorkerId, Counts> {
        let mut keys: BTreeSet<&LimitKey> = self.ghosts.keys().collect();
        keys.extend(self.members.values().flat_map(Member::named_keys));
        let mut shortfall: BTreeMap<WorkerId, Counts> = BTreeMap::new();
        for key in keys {
            let Some(whole) = limit::part(&self.settings, Some(Share { index: 0, of: 1 }), key)
            else {
                continue;
            };
            let bounds = self.members.values().map(|member| u64::from(member.bound(key)));
            let used = bounds.sum::<u64>() + u64::from(self.ghosts.get(key).copied().unwrap_or(0));
            let mut free = u64::from(whole).saturating_sub(used);
            let mut wants: Vec<(WorkerId, u32)> =
                self.members.iter().map(|(worker, member)| (*worker, member.growth(key))).collect();
            wants.retain(|(_, growth)| *growth > 0);
            // The smallest wants first, each with an equal part of what is left: no one starves.
            wants.sort_by_key(|(_, growth)| *growth);
            let mut left = wants.len() as u64;
            for (worker, growth) in wants {
                let given = (free.div_ceil(left.max(1))).min(u64::from(growth));
                free -= given;
                left -= 1;
                let missing = u64::from(growth) - given;
                if let Ok(missing @ 1..) = u32::try_from(missing) {
                    shortfall.entry(worker).or_default().insert(key.clone(), missing);
                }
            }
        }
        shortfall
    }
}
