//! The sum of what all workers can hold never exceeds a limit, whatever happens in whatever order.

use proptest::prelude::*;

use super::*;

const LIMIT: u32 = 23;

fn key() -> LimitKey {
    LimitKey::Database("app".to_owned())
}

/// The part of key `app` comes from `max_db_connections`.
fn settings(limit: u32) -> Rc<Settings> {
    let mut settings = Settings::default();
    settings.global.max_db_connections = limit;
    settings.fallback = Some(pgfleet_config::Database::new("*"));
    Rc::new(settings)
}

/// A worker as it should behave.
#[derive(Debug, Default)]
struct Model {
    part: u32,
    minus: u32,
    floor: Option<u32>,
    next: Option<(u64, u32)>,
    base_floor: u32,
    epoch: u64,
    held: u32,
}

impl Model {
    fn may(&self) -> u32 {
        self.floor.unwrap_or(self.part.saturating_sub(self.minus))
    }

    fn excess(&self) -> Vec<(LimitKey, u32)> {
        match self.held.saturating_sub(self.base_floor) {
            0 => Vec::new(),
            excess => vec![(key(), excess)],
        }
    }
}

/// The whole of it: messages that are under way, models, and the servers of the dead.
struct World {
    shares: Shares,
    settings: Rc<Settings>,
    models: BTreeMap<WorkerId, Model>,
    ghosts: u32,
    queue: Vec<Step>,
    next: u16,
}

impl World {
    fn new() -> Self {
        let settings = settings(LIMIT);
        let shares = Shares::new(Rc::clone(&settings));
        Self { shares, settings, models: BTreeMap::new(), ghosts: 0, queue: Vec::new(), next: 1 }
    }

    fn ghosts(&self) -> Counts {
        [(key(), self.ghosts)].into()
    }

    fn aim(&mut self) {
        let of = u16::try_from(self.models.len()).unwrap();
        let aims = (0..)
            .zip(self.models.keys())
            .map(|(index, worker)| (*worker, Some(Share { index, of })))
            .collect();
        let steps = self.shares.aim(aims);
        self.queue.extend(steps);
    }

    fn pick(&self, choice: usize) -> Option<WorkerId> {
        self.models.keys().nth(choice % self.models.len().max(1)).copied()
    }

    fn join(&mut self) {
        let worker = WorkerId { slot: self.next, generation: 1 };
        self.next += 1;
        self.models.insert(worker, Model::default());
        let steps = self.shares.join(worker);
        self.queue.extend(steps);
        self.aim();
    }

    fn die(&mut self, choice: usize) {
        let Some(worker) = self.pick(choice) else { return };
        let model = self.models.remove(&worker).unwrap();
        self.ghosts += model.held;
        let steps = self.shares.leave(worker, self.ghosts());
        self.queue.extend(steps);
        self.aim();
    }

    fn retire(&mut self) {
        self.ghosts = self.ghosts.saturating_sub(1);
        let steps = self.shares.haunt(self.ghosts());
        self.queue.extend(steps);
    }

    /// A worker opens a server if it may.
    fn open(&mut self, choice: usize) {
        if let Some(worker) = self.pick(choice) {
            let model = self.models.get_mut(&worker).unwrap();
            if model.held < model.may() {
                model.held += 1;
            }
        }
    }

    /// A worker closes a server, and says so if it holds too many.
    fn close(&mut self, choice: usize) {
        let Some(worker) = self.pick(choice) else { return };
        let model = self.models.get_mut(&worker).unwrap();
        let had = model.excess();
        model.held = model.held.saturating_sub(1);
        if !had.is_empty() && model.epoch > 0 {
            let (epoch, excess) = (model.epoch, model.excess());
            let steps = self.shares.held(worker, epoch, excess);
            self.queue.extend(steps);
        }
    }

    /// Delivers the oldest message, and the worker's answer to it.
    fn deliver(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        match self.queue.remove(0) {
            Step::Prepare { worker, epoch, share, .. } => {
                let part = limit::part(&self.settings, share, &key()).unwrap();
                if let Some(model) = self.models.get_mut(&worker) {
                    model.next = Some((epoch, part));
                    let steps = self.shares.prepared(worker, epoch, Ok(()));
                    self.queue.extend(steps);
                }
            }
            Step::Commit { worker, epoch } => self.commit(worker, epoch),
            Step::Grant { worker, epoch, minus } => {
                if let Some(model) = self.models.get_mut(&worker)
                    && model.epoch == epoch
                {
                    model.floor = None;
                    model.minus = minus.iter().map(|(_, minus)| *minus).sum();
                }
            }
            Step::Discard { worker, .. } => {
                if let Some(model) = self.models.get_mut(&worker) {
                    model.next = None;
                }
            }
            Step::Unfit(..) | Step::Introduced(_) | Step::Granted(_) | Step::Reloaded(_) => {}
        }
    }

    fn commit(&mut self, worker: WorkerId, epoch: u64) {
        let Some(model) = self.models.get_mut(&worker) else { return };
        let Some((prepared, part)) = model.next.take() else { return };
        assert_eq!(prepared, epoch);
        let floor = model.may().min(part);
        (model.floor, model.base_floor, model.epoch) = (Some(floor), floor, epoch);
        (model.part, model.minus) = (part, 0);
        let excess = model.excess();
        let steps = self.shares.held(worker, epoch, excess);
        self.queue.extend(steps);
    }

    fn total(&self) -> u32 {
        self.ghosts + self.models.values().map(|model| model.held).sum::<u32>()
    }

    /// Once everything is delivered and nothing is held too much, the parts are the whole again.
    fn quiesce(&mut self) {
        while self.ghosts > 0 || !self.queue.is_empty() {
            self.deliver();
            self.retire();
        }
        for _ in 0..200 {
            for choice in 0..self.models.len() {
                self.close(choice);
            }
            self.deliver();
        }
        while !self.queue.is_empty() {
            self.deliver();
        }
    }
}

proptest! {
    #[test]
    fn no_order_of_events_exceeds_a_limit(events in proptest::collection::vec((0..12_u8, 0..9_usize), 1..400)) {
        let mut world = World::new();
        world.join();
        for (kind, choice) in events {
            match kind {
                0 if world.models.len() < 9 => world.join(),
                1 => world.die(choice),
                2 => world.retire(),
                3..=5 => world.open(choice),
                6 => world.close(choice),
                _ => world.deliver(),
            }
            prop_assert!(world.total() <= LIMIT, "{} of {LIMIT}", world.total());
        }
        world.quiesce();
        if !world.models.is_empty() {
            let parts: u32 = world.models.values().map(Model::may).sum();
            prop_assert_eq!(parts, LIMIT);
        }
    }
}

#[test]
fn a_new_worker_is_granted_only_what_the_others_have_given_back() {
    let mut world = World::new();
    world.join();
    while !world.queue.is_empty() {
        world.deliver();
    }
    (0..30).for_each(|_| world.open(0));
    assert_eq!(world.total(), LIMIT);
    world.join();
    while !world.queue.is_empty() {
        world.deliver();
    }
    let second = world.pick(1).unwrap();
    assert_eq!(world.models[&second].may(), 0);
    (0..5).for_each(|_| world.close(0));
    while !world.queue.is_empty() {
        world.deliver();
    }
    assert_eq!(world.models[&second].may(), 5);
}

#[test]
fn a_reload_that_one_worker_refuses_changes_nothing() {
    let mut world = World::new();
    world.join();
    world.join();
    while !world.queue.is_empty() {
        world.deliver();
    }
    let (first, second) = (world.pick(0).unwrap(), world.pick(1).unwrap());
    let steps = world.shares.reload(settings(7));
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Prepare { .. })).count(), 2);
    let epoch = world.shares.epoch();
    assert!(world.shares.prepared(first, epoch, Ok(())).is_empty());
    let steps = world.shares.prepared(second, epoch, Err("no".to_owned()));
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Discard { .. })).count(), 2);
    let refused = steps.iter().any(
        |step| matches!(step, Step::Reloaded(Err(Unprepared::Refused(who, _))) if *who == second),
    );
    assert!(refused);
    assert_eq!(world.models.values().map(Model::may).sum::<u32>(), LIMIT);
}

#[test]
fn a_reload_that_comes_too_late_names_the_worker() {
    let mut world = World::new();
    world.join();
    world.join();
    while !world.queue.is_empty() {
        world.deliver();
    }
    let (first, second) = (world.pick(0).unwrap(), world.pick(1).unwrap());
    drop(world.shares.reload(settings(7)));
    drop(world.shares.prepared(first, world.shares.epoch(), Ok(())));
    let steps = world.shares.expire_reload();
    let named = steps
        .iter()
        .any(|step| matches!(step, Step::Reloaded(Err(Unprepared::Late(who))) if *who == second));
    assert!(named);
}
