//! Years of a fleet in seconds: random crashes, hangs, scales and restarts against the pure core.
//!
//! It owns a small world of made-up processes that obey the fleet's actions with random delays, and checks
//! after every step what must always hold. It starts nothing real. A failure names its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pgfleet_config::share::Share;

use super::action::Action;
use super::event::{Event, Pace};
use super::fleet::Fleet;
use super::seats::{COVER_AFTER, Seat};
use super::slot::{Cause, Stage, State, Stop};
use crate::link::message::{Drain, WorkerId};

/// A linear congruential generator (Knuth's constants): the same seed gives the same world.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below.max(1)
    }

    fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(1 + self.roll(below))
    }
}

/// A made-up process.
#[derive(Default)]
struct Process {
    greeted: bool,
    introduced: bool,
    granted: bool,
    hung: bool,
    leaves: Option<u64>,
}

/// What will happen in the world.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Greet(WorkerId),
    /// Shares reach the workers.
    Shares,
    Say(Event),
    Die(WorkerId, Cause),
    /// The clients of a draining worker have left, if this is still the drain that it is in.
    Leave(WorkerId, u64),
}

struct World {
    dice: Dice,
    now: Instant,
    fleet: Fleet,
    processes: BTreeMap<WorkerId, Process>,
    plans: BTreeMap<(Instant, u64), Plan>,
    serial: u64,
    division: Vec<(WorkerId, Option<Share>)>,
    held: BTreeMap<Seat, BTreeSet<WorkerId>>,
    unheld: BTreeMap<Seat, Instant>,
    /// Of a hundred workers, how many die while they start.
    sickness: u64,
    scaling: bool,
    rolling: bool,
    stopped: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Instant::now();
        let pace = Pace {
            heartbeat_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(20),
        };
        Self {
            dice: Dice(seed),
            now,
            fleet: Fleet::new(pace, now),
            processes: BTreeMap::new(),
            plans: BTreeMap::new(),
            serial: 0,
            division: Vec::new(),
            held: BTreeMap::new(),
            unheld: BTreeMap::new(),
            sickness: 0,
            scaling: false,
            rolling: false,
            stopped: false,
        }
    }

    fn plan(&mut self, delay: Duration, plan: Plan) {
        self.serial += 1;
        self.plans.insert((self.now + delay, self.serial), plan);
    }

    fn decide(&mut self, event: Event) {
        self.scaling |= matches!(event, Event::Scale(_));
        self.rolling |= event == Event::Restart;
        for action in self.fleet.decide(event, self.now) {
            self.obey(action);
        }
        self.check();
    }

    fn obey(&mut self, action: Action) {
        match action {
            Action::Start(worker) => {
                self.processes.insert(worker, Process::default());
                let delay = self.dice.millis(60);
                if self.dice.roll(100) < self.sickness {
                    self.plan(delay, Plan::Die(worker, Cause::Died));
                } else {
                    self.plan(delay, Plan::Greet(worker));
                }
            }
            Action::Undrain(worker) => {
                if let Some(process) = self.processes.get_mut(&worker) {
                    process.leaves = None;
                }
            }
            Action::Give(seat, worker) => {
                self.held.entry(seat).or_default().insert(worker);
            }
            Action::Take(seat, worker) => {
                self.held.entry(seat).or_default().remove(&worker);
            }
            Action::Drain(worker, drain) => {
                let most = match drain {
                    Drain::WhenClientsLeave | Drain::WhenServersLeave => 120_000,
                    Drain::BetweenTransactions(time) => {
                        u64::try_from(time.as_millis()).unwrap() + 4000
                    }
                };
                let delay = self.dice.millis(most);
                self.leave(worker, delay);
            }
            Action::Quit(worker) => self.leave(worker, Duration::from_millis(20)),
            Action::Kill(worker, _) => {
                let delay = self.dice.millis(20);
                self.plan(delay, Plan::Die(worker, Cause::Died));
            }
            Action::Ping(worker) => {
                if self.processes.get(&worker).is_some_and(|process| !process.hung) {
                    self.plan(Duration::from_millis(1), Plan::Say(Event::Pong(worker)));
                }
            }
            Action::Divide(division) => {
                self.division = division;
                self.plan(Duration::from_millis(2), Plan::Shares);
            }
            Action::Scaled => self.scaling = false,
            Action::Restarted(_) => self.rolling = false,
            Action::Stopped => self.stopped = true,
            Action::CloseListeners | Action::Note(_) | Action::Relieve(_) => {}
        }
    }

    fn leave(&mut self, worker: WorkerId, delay: Duration) {
        self.serial += 1;
        let serial = self.serial;
        if let Some(process) = self.processes.get_mut(&worker).filter(|process| !process.hung) {
            process.leaves = Some(serial);
            self.plan(delay, Plan::Leave(worker, serial));
        }
    }

    fn happen(&mut self, plan: Plan) {
        match plan {
            Plan::Greet(worker) => {
                if let Some(process) =
                    self.processes.get_mut(&worker).filter(|process| !process.hung)
                {
                    process.greeted = true;
                    self.decide(Event::Greeted(worker));
                    self.plan(Duration::from_millis(2), Plan::Shares);
                }
            }
            Plan::Shares => self.spread_shares(),
            Plan::Say(event) => self.decide(event),
            Plan::Die(worker, cause) => {
                if self.processes.remove(&worker).is_some() {
                    self.held.values_mut().for_each(|holders| {
                        holders.remove(&worker);
                    });
                    self.decide(Event::Gone(worker, cause));
                }
            }
            Plan::Leave(worker, serial) => {
                if self.processes.get(&worker).is_some_and(|process| process.leaves == Some(serial))
                {
                    self.happen(Plan::Die(worker, Cause::Died));
                }
            }
        }
    }

    fn spread_shares(&mut self) {
        let mut said = Vec::new();
        for (worker, share) in self.division.clone() {
            let Some(process) = self.processes.get_mut(&worker) else { continue };
            if !process.greeted || process.hung {
                continue;
            }
            if !process.introduced {
                process.introduced = true;
                said.extend([Event::Introduced(worker), Event::Ready(worker)]);
            }
            if share.is_some() && !process.granted {
                said.push(Event::Granted(worker));
            }
            process.granted = share.is_some();
        }
        for event in said {
            self.decide(event);
        }
    }

    /// Lets the world run for a while.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let planned = self.plans.first_key_value().map(|(key, _)| *key);
            let due = self.fleet.due();
            let next = planned.map(|(at, _)| at).into_iter().chain(due).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            match planned.filter(|(at, _)| *at <= self.now) {
                Some(key) => {
                    let plan = self.plans.remove(&key).unwrap();
                    self.happen(plan);
                }
                None => self.decide(Event::Tick),
            }
        }
    }

    fn misfortune(&mut self) {
        let victim = {
            let count = self.processes.len() as u64;
            let nth = usize::try_from(self.dice.roll(count)).unwrap();
            self.processes.keys().nth(nth).copied()
        };
        match (self.dice.roll(10), victim) {
            (0..=3, Some(worker)) => self.happen(Plan::Die(worker, Cause::Died)),
            (4, Some(worker)) => {
                if let Some(process) = self.processes.get_mut(&worker) {
                    process.hung = true;
                }
            }
            (5 | 6, _) => {
                let count = u16::try_from(1 + self.dice.roll(9)).unwrap();
                self.decide(Event::Scale(count));
            }
            (7, _) if !self.fleet.is_rolling() => self.decide(Event::Restart),
            (8, _) => self.sickness = self.dice.roll(90),
            (9, _) => self.sickness = 0,
            _ => {}
        }
    }

    fn check(&mut self) {
        self.check_slots();
        self.check_division();
        self.check_seats();
    }

    /// Two processes in a slot only when one of them takes the other's place or is on its way out.
    fn check_slots(&self) {
        for (number, slot) in &self.fleet.slots {
            let alive = self.processes.keys().filter(|worker| worker.slot == *number).count();
            let (first, second) = slot.workers();
            let known = [first, second, slot.departing.map(|departing| departing.worker)];
            assert!(
                alive <= known.iter().flatten().count(),
                "slot {number}: {alive} processes, {slot:?}"
            );
            if !matches!(slot.state, State::Replacing { .. }) && slot.departing.is_none() {
                assert!(alive <= 1, "slot {number}: {alive} processes, {slot:?}");
            }
        }
    }

    /// The parts of all workers are parts of one whole, and no part is given twice.
    fn check_division(&self) {
        let shares: Vec<Share> = self.division.iter().filter_map(|(_, share)| *share).collect();
        let places: BTreeSet<u16> = shares.iter().map(|share| share.index).collect();
        assert_eq!(places.len(), shares.len(), "{:?}", self.division);
        assert!(shares.windows(2).all(|pair| pair[0].of == pair[1].of), "{:?}", self.division);
        assert!(shares.iter().all(|share| share.index < share.of), "{:?}", self.division);
    }

    /// While anyone serves, no queue is left alone for longer than it takes to lend it.
    fn check_seats(&mut self) {
        let serving: BTreeSet<WorkerId> = self
            .fleet
            .slots
            .values()
            .filter(|slot| {
                matches!(
                    slot.state,
                    State::Serving { .. } | State::Replacing { stage: Stage::Preparing, .. }
                )
            })
            .filter_map(|slot| slot.workers().0)
            .collect();
        if serving.is_empty() || self.fleet.is_stopping() {
            self.unheld.clear();
            return;
        }
        let alone: BTreeSet<Seat> = self.fleet.seats.unheld(&serving).into_iter().collect();
        self.unheld.retain(|seat, _| alone.contains(seat));
        for seat in alone {
            let holders = self.held.get(&seat).map_or(0, BTreeSet::len);
            let since = *self.unheld.entry(seat).or_insert(self.now);
            let waited = self.now.duration_since(since);
            assert!(
                waited <= COVER_AFTER,
                "{seat:?} is left alone for {waited:?}, {holders} holders"
            );
        }
        for slot in self.fleet.slots.values() {
            let drains = matches!(slot.state, State::Draining { .. });
            let worker = slot.workers().0.filter(|_| drains);
            let holds =
                worker.is_some_and(|worker| self.held.values().any(|held| held.contains(&worker)));
            assert!(!holds, "a draining worker still accepts: {slot:?}");
        }
    }
}

#[test]
fn a_fleet_survives_years_of_misfortune() {
    for seed in 1..=12 {
        let mut world = World::new(seed);
        world.decide(Event::Scale(4));
        for _ in 0..250 {
            let pause = world.dice.millis(30_000);
            world.run(pause);
            world.misfortune();
        }
        // Without new misfortune everything that was begun comes to its end.
        world.sickness = 0;
        world.run(Duration::from_secs(400));
        assert!(!world.scaling, "seed {seed}: a scale did not end: {:?}", world.fleet.slots);
        assert!(!world.rolling, "seed {seed}: a restart did not end: {:?}", world.fleet);
        assert_eq!(
            world.fleet.serving(),
            usize::from(world.fleet.wanted()),
            "seed {seed}: {:?}",
            world.fleet.slots
        );
        world.decide(Event::Stop(Stop::Drain(Drain::BetweenTransactions(Duration::from_secs(20)))));
        world.run(Duration::from_secs(60));
        assert!(world.stopped, "seed {seed}: the shutdown did not end: {:?}", world.fleet.slots);
        assert!(world.processes.is_empty());
    }
}

#[test]
fn a_supervisor_that_was_away_kills_no_one() {
    let mut world = World::new(7);
    world.decide(Event::Scale(3));
    world.run(Duration::from_secs(5));
    let before: Vec<WorkerId> = world.processes.keys().copied().collect();
    // Nothing is heard and nothing is decided for a minute.
    world.plans.clear();
    world.now += Duration::from_secs(60);
    world.decide(Event::Tick);
    world.run(Duration::from_secs(30));
    assert_eq!(world.processes.keys().copied().collect::<Vec<_>>(), before);
}

#[test]
fn a_hung_worker_is_replaced_after_the_heartbeat_timeout() {
    let mut world = World::new(3);
    world.decide(Event::Scale(2));
    world.run(Duration::from_secs(5));
    let victim = WorkerId { slot: 1, generation: 1 };
    world.processes.get_mut(&victim).unwrap().hung = true;
    world.run(Duration::from_secs(4));
    assert!(world.processes.contains_key(&victim));
    world.run(Duration::from_secs(4));
    assert!(!world.processes.contains_key(&victim));
    assert_eq!(world.fleet.serving(), 2);
}
