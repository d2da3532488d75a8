//! The row of one worker: how many clients it has, and whether it takes more.
//!
//! It owns the meaning and the memory ordering of a row's words. It never knows which worker it
//! belongs to but by the generation that claimed it. Workers count in their own rows, and in
//! the row of a peer to which they hand a client.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::link::message::WorkerId;

/// Whether a worker takes clients from its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepting {
    Yes,
    No,
}

/// One row, alone on its cache line: workers write their own all the time.
///
/// All words are 0 in a new ledger: generation 0 is no one's.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Row {
    generation: AtomicU32,
    accepting: AtomicU32,
    clients: AtomicU32,
    most: AtomicU32,
}

impl Row {
    /// Takes the row for a new generation: no clients, and not accepting yet.
    pub(crate) fn claim(&self, worker: WorkerId) {
        // First nobody hands anything to the one before, then the count starts anew. A peer that
        // has already chosen the one before is off by one here, for as long as it takes to fail.
        self.accepting.store(NO, Ordering::SeqCst);
        self.clients.store(0, Ordering::SeqCst);
        self.most.store(0, Ordering::SeqCst);
        self.generation.store(worker.generation, Ordering::SeqCst);
    }

    /// The generation that claimed the row last; 0 before the first one.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Clients that the worker has or is about to get.
    pub(crate) fn clients(&self) -> u32 {
        // A count to compare by: no other memory hangs on it.
        self.clients.load(Ordering::Relaxed)
    }

    /// One client more.
    pub(crate) fn add_client(&self) {
        self.change(|clients| clients.saturating_add(1));
    }

    /// One client less; stays at 0, so that a count for a worker that is gone does no harm.
    pub(crate) fn drop_client(&self) {
        self.change(|clients| clients.saturating_sub(1));
    }

    /// Says how many clients the worker may have.
    pub(crate) fn set_most(&self, most: u32) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Whether the worker has as many clients as it may have.
    pub(crate) fn is_full(&self) -> bool {
        self.clients() >= self.most.load(Ordering::Relaxed)
    }

    /// Says whether peers may hand clients over.
    pub(crate) fn set_accepting(&self, accepting: Accepting) {
        let word = match accepting {
            Accepting::Yes => YES,
            Accepting::No => NO,
        };
        // Release: who sees the yes also sees the count that went before it.
        self.accepting.store(word, Ordering::Release);
    }

    /// Whether peers may hand clients over.
    pub(crate) fn accepting(&self) -> Accepting {
        if self.accepting.load(Ordering::Acquire) == YES { Accepting::Yes } else { Accepting::No }
    }

    /// Whether a client may be handed to this generation.
    pub(super) fn takes_clients_for(&self, generation: u32) -> bool {
        generation != 0
            && self.generation() == generation
            && self.accepting() == Accepting::Yes
            && !self.is_full()
    }

    fn change(&self, step: impl Fn(u32) -> u32) {
        let mut seen = self.clients.load(Ordering::Relaxed);
        while let Err(now) = self.clients.compare_exchange_weak(
            seen,
            step(seen),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            seen = now;
        }
    }
}

const NO: u32 = 0;
const YES: u32 = 1;
