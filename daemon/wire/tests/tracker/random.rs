//! Random conversations with the model: of clients that pipeline, fail, copy and send too late, and of the pooler's own requests.
//! Reading, doing and answering are interleaved at random, so that every race between the two sides comes up.

use pgfleet_wire::tracker::{Copy, Forward, Note, Tracker};
use proptest::prelude::*;

use crate::model::{Model, Request, Who};

struct Race {
    tracker: Tracker,
    model: Model,
    sent: u64,
    /// In COPY the client sends only what belongs there, and it waits to see whether COPY begins.
    polite: bool,
}

impl Race {
    fn new(polite: bool) -> Self {
        Self { tracker: Tracker::new(), model: Model::new(), sent: 0, polite }
    }

    fn act(&mut self, action: u8, plan: u8) {
        match action {
            0..20 => self.any_client(usize::from(action), plan),
            20 => "PBES".bytes().for_each(|tag| self.client(tag, plan)),
            21 => "Edc".bytes().for_each(|tag| self.client(tag, plan)),
            22 => self.own_batch(["Q", "PBES"][usize::from(plan) % 2], plan / 2),
            23 => self.own_in_batch(plan),
            24 => "dS".bytes().for_each(|tag| self.client(tag, plan)),
            25..35 => self.model.step(),
            _ => self.deliver(),
        }
        self.check();
    }

    fn any_client(&mut self, choice: usize, plan: u8) {
        if !self.polite {
            return self.client(b"PBDECSQFHdcfS"[choice % 13], plan);
        }
        if self.tracker.copy() == Copy::In {
            return self.client(b"dSdcHdfdSdc"[choice % 11], plan);
        }
        let tag = b"PBDECSQFHEQES"[choice % 13];
        self.client(tag, plan);
        if matches!(tag, b'E' | b'Q') {
            self.drain();
        }
    }

    fn client(&mut self, tag: u8, plan: u8) {
        self.sent += 1;
        let note = Note::Statement(self.sent);
        match self.tracker.client(tag, note).expect("known tag") {
            Forward::Discard => assert!(!self.model.may_copy() || self.tracker.doubtful()),
            Forward::Pass => self.send(tag, plan, Who::Client, note),
        }
    }

    fn send(&mut self, tag: u8, plan: u8, who: Who, note: Note) {
        self.model.input.push_back(Request { tag, plan, who, note });
    }

    fn own(&mut self, tag: u8, plan: u8, who: Who) {
        self.tracker.own(tag);
        self.send(tag, plan, who, Note::None);
    }

    /// As the worker does when it lends a server.
    fn own_batch(&mut self, tags: &str, plan: u8) {
        if self.tracker.busy() || self.tracker.in_batch() || self.tracker.doubtful() {
            return;
        }
        tags.bytes().for_each(|tag| self.own(tag, plan, Who::OwnBatch));
    }

    /// As the worker does before a Bind to a statement that the server does not have.
    fn own_in_batch(&mut self, plan: u8) {
        let copying = self.tracker.copy() != Copy::None;
        if self.tracker.skipping() || copying || self.tracker.doubtful() {
            return;
        }
        self.own(b'C', plan, Who::OwnInClientsBatch);
        self.own(b'P', plan, Who::OwnInClientsBatch);
        self.client(b'B', plan / 4);
    }

    fn deliver(&mut self) {
        let Some(answer) = self.model.output.pop_front() else {
            return;
        };
        let sure = !self.tracker.doubtful();
        let seen = self.tracker.server(answer.tag, answer.body);
        let seen = seen.unwrap_or_else(|e| unreachable!("{e}: {answer:?} {:?}", self.tracker));
        if sure && !self.tracker.doubtful() {
            let expected = (answer.swallow, answer.done);
            assert_eq!((seen.swallow, seen.done), expected, "{answer:?}");
        }
    }

    fn check(&self) {
        let idle = self.model.idle() && !self.tracker.doubtful();
        assert_eq!(self.tracker.may_release(), idle, "{:?}\n{:?}", self.tracker, self.model);
    }

    /// Lets everything arrive, and ends whatever the client has begun.
    fn settle(&mut self) {
        self.drain();
        while matches!(self.tracker.copy(), Copy::In | Copy::Both) && !self.model.closed {
            self.client(b'c', 0);
            self.drain();
        }
        for _ in 0..2 {
            self.client(b'S', 0);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while !self.model.input.is_empty() && !self.model.closed {
            self.model.step();
            self.check();
        }
        while !self.model.output.is_empty() {
            self.deliver();
            self.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_lease_ends_exactly_when_the_server_is_idle(
        actions in prop::collection::vec((0_u8..45, any::<u8>()), 1..120),
        polite: bool,
    ) {
        let mut race = Race::new(polite);
        for (action, plan) in actions {
            race.act(action, plan);
            if race.model.closed { break; }
        }
        race.settle();
        if race.tracker.doubtful() {
            prop_assert!(race.model.closed || race.model.copy_failed, "doubtful without need");
        } else {
            prop_assert!(!race.tracker.busy() && !race.tracker.in_batch());
        }
    }

    #[test]
    fn no_messages_make_it_panic_or_free_a_busy_server(
        events in prop::collection::vec((0_u8..3, any::<prop::sample::Index>(), any::<bool>()), 0..200),
    ) {
        let mut tracker = Tracker::new();
        for (side, index, ready) in events {
            let tags = b"QPBDECSFHdcfXZTIGHWVnts123NAK";
            let tag = *index.get(tags);
            match side {
                0 => { let _ = tracker.client(tag, Note::None); }
                1 => { let _ = tracker.server(tag, if ready { b"I" } else { b"T" }); }
                _ => tracker.own(tag),
            }
            prop_assert!(!tracker.may_release() || !tracker.busy());
            prop_assert!(tracker.own_pending() <= tracker.outstanding());
        }
    }
}
