//! The table of the header, walked pair by pair.

use super::*;

const DRAIN: Duration = Duration::from_secs(20);

fn worker(generation: u32) -> WorkerId {
    WorkerId { slot: 1, generation }
}

/// A slot in the state that these inputs lead to.
fn slot(inputs: &[Input], now: Instant) -> Slot {
    let mut slot = Slot::new(1);
    for input in inputs {
        slot.step(*input, now, DRAIN, &mut Vec::new());
    }
    slot
}

fn serving(generation: u32) -> [Input; 2] {
    [Input::Granted(worker(generation)), Input::Ready(worker(generation))]
}

/// How to reach each state, by name.
fn ways() -> Vec<(&'static str, Vec<Input>)> {
    let to_serving: Vec<Input> = [Input::Want].into_iter().chain(serving(1)).collect();
    let then = |more: &[Input]| to_serving.iter().chain(more).copied().collect::<Vec<_>>();
    let relieving = [Input::Roll, Input::Introduced(worker(2))];
    vec![
        ("empty", vec![]),
        ("starting", vec![Input::Want]),
        ("serving", to_serving.clone()),
        ("preparing", then(&relieving[..1])),
        ("relieving", then(&relieving)),
        ("draining", then(&[Input::Unwant])),
        (
            "backoff",
            [Input::Want, Input::Gone(worker(1), Cause::Died), Input::Gone(worker(2), Cause::Died)]
                .to_vec(),
        ),
        ("leaving", vec![Input::Want, Input::Unwant]),
    ]
}

fn name(state: &State) -> &'static str {
    match state {
        State::Empty => "empty",
        State::Starting { .. } => "starting",
        State::Serving { .. } => "serving",
        State::Replacing { stage: Stage::Preparing, .. } => "preparing",
        State::Replacing { stage: Stage::Relieving { .. }, .. } => "relieving",
        State::Replacing { stage: Stage::Switching, .. } => "switching",
        State::Draining { .. } => "draining",
        State::Backoff { .. } => "backoff",
        State::Leaving { .. } => "leaving",
    }
}

/// State by state: what Want, Unwant, Roll, Gone of its worker, and a late look at the clock lead to.
const TABLE: [(&str, [&str; 5]); 8] = [
    ("empty", ["starting", "empty", "empty", "empty", "empty"]),
    ("starting", ["starting", "leaving", "starting", "starting", "starting"]),
    ("serving", ["serving", "draining", "preparing", "starting", "serving"]),
    ("preparing", ["preparing", "draining", "preparing", "starting", "preparing"]),
    ("relieving", ["relieving", "draining", "relieving", "starting", "switching"]),
    ("draining", ["serving", "draining", "draining", "empty", "draining"]),
    ("backoff", ["backoff", "empty", "backoff", "backoff", "starting"]),
    ("leaving", ["leaving", "leaving", "leaving", "empty", "leaving"]),
];

#[test]
fn every_state_meets_every_input() {
    let now = Instant::now();
    for ((state, way), (named, expected)) in ways().into_iter().zip(TABLE) {
        assert_eq!(state, named);
        let reached = slot(&way, now);
        assert_eq!(name(&reached.state), state);
        let own = reached.workers().0.unwrap_or(worker(9));
        let inputs =
            [Input::Want, Input::Unwant, Input::Roll, Input::Gone(own, Cause::Died), Input::Time];
        for (input, expected) in inputs.into_iter().zip(expected) {
            let mut slot = reached.clone();
            let late = if input == Input::Time { now + Duration::from_secs(10) } else { now };
            slot.step(input, late, DRAIN, &mut Vec::new());
            assert_eq!(name(&slot.state), expected, "{state} + {input:?}");
        }
    }
}

#[test]
fn every_state_comes_to_an_end_when_stopped() {
    let now = Instant::now();
    for (state, way) in ways() {
        let mut slot = slot(&way, now);
        let mut orders = Vec::new();
        slot.step(Input::Stop(Stop::Now), now, DRAIN, &mut orders);
        assert!(matches!(slot.state, State::Empty | State::Leaving { .. }), "{state}");
        slot.step(Input::Time, now + Duration::from_secs(60), DRAIN, &mut orders);
        for order in orders.clone() {
            if let Order::Kill(worker, _) = order {
                slot.step(Input::Gone(worker, Cause::Died), now, DRAIN, &mut orders);
            }
        }
        assert_eq!((&slot.state, slot.departing), (&State::Empty, None), "{state}");
    }
}

#[test]
fn strangers_and_the_long_gone_change_nothing() {
    let now = Instant::now();
    for (state, way) in ways() {
        let stranger = worker(77);
        let inputs = [
            Input::Introduced(stranger),
            Input::Granted(stranger),
            Input::Ready(stranger),
            Input::Gone(stranger, Cause::Died),
        ];
        for input in inputs {
            let mut slot = slot(&way, now);
            let before = slot.state.clone();
            let mut orders = Vec::new();
            slot.step(input, now, DRAIN, &mut orders);
            assert_eq!((slot.state, orders), (before, Vec::new()), "{state} + {input:?}");
        }
    }
}

/// The way of a rolling restart up to its switch.
fn to_switching(now: Instant) -> (Slot, Instant, Vec<Order>) {
    let way: Vec<Input> = [Input::Want].into_iter().chain(serving(1)).collect();
    let (mut slot, mut orders) = (slot(&way, now), Vec::new());
    let later = now + RELIEF;
    slot.step(Input::Roll, now, DRAIN, &mut orders);
    slot.step(Input::Introduced(worker(2)), now, DRAIN, &mut orders);
    slot.step(Input::Time, later, DRAIN, &mut orders);
    (slot, later, orders)
}

#[test]
fn a_rolling_restart_relieves_the_old_worker_then_switches_then_drains() {
    let (mut slot, now, mut orders) = to_switching(Instant::now());
    assert_eq!(orders, [Order::Start(worker(2)), Order::Relieve(worker(1))]);
    assert_eq!(name(&slot.state), "switching");
    for input in serving(2) {
        slot.step(input, now, DRAIN, &mut orders);
    }
    let drain = Order::Drain(worker(1), Drain::BetweenTransactions(DRAIN));
    assert_eq!(orders.last(), Some(&drain));
    assert_eq!(slot.state, State::Serving { worker: worker(2), since: now });
    assert_eq!(slot.departing.map(|departing| departing.worker), Some(worker(1)));
    slot.step(Input::Time, now + DRAIN + Duration::from_secs(3), DRAIN, &mut orders);
    assert!(matches!(orders.last(), Some(Order::Kill(killed, _)) if *killed == worker(1)));
}

#[test]
fn a_successor_that_dies_leaves_the_old_worker_serving() {
    let (mut slot, now, _) = to_switching(Instant::now());
    let mut orders = Vec::new();
    slot.step(Input::Gone(worker(2), Cause::Died), now, DRAIN, &mut orders);
    let failed = Order::Note(Note::RollFailed { worker: worker(2) });
    assert_eq!(orders, [Order::Undrain(worker(1)), failed]);
    assert_eq!(name(&slot.state), "serving");
    assert_eq!(slot.workers().0, Some(worker(1)));
}

#[test]
fn an_old_worker_that_dies_leaves_the_successor_starting() {
    let (mut slot, now, _) = to_switching(Instant::now());
    slot.step(Input::Gone(worker(1), Cause::Died), now, DRAIN, &mut Vec::new());
    assert_eq!((name(&slot.state), slot.workers().0), ("starting", Some(worker(2))));
    for input in serving(2) {
        slot.step(input, now, DRAIN, &mut Vec::new());
    }
    assert_eq!(name(&slot.state), "serving");
}

#[test]
fn living_generations_of_a_slot_differ_in_parity() {
    let (mut slot, now, _) = to_switching(Instant::now());
    for input in serving(2) {
        slot.step(input, now, DRAIN, &mut Vec::new());
    }
    // Generation 1 departs; generation 2 dies; 3 would share a row of the ledger with 1.
    let mut orders = Vec::new();
    slot.step(Input::Gone(worker(2), Cause::Died), now, DRAIN, &mut orders);
    assert_eq!(orders.last(), Some(&Order::Start(worker(4))));
}
