//! The cancel key that pgfleet gives to a client: it names the slot and the generation that own it.
//! It makes no random numbers and shows none: the caller brings the random bits, and `Debug` hides them.
//! The worker makes keys at login and reads them from cancel requests.

use std::fmt;

/// Random bytes behind the head of a long key.
pub const TAIL: usize = 28;

/// What a client sends back to have its query ended (manual: "Canceling Requests in Progress").
///
/// The head, as a big-endian `u64`, is a zero bit, 7 bits of slot - 1, 8 bits of generation and 48 random bits. Its
/// first half is what clients call the process id; the zero bit keeps that positive, as clients expect it. A client
/// of protocol 3.2 has a secret of 32 bytes, as Postgres gives it: the rest of the head, and the tail.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CancelKey {
    head: [u8; 8],
    tail: Option<[u8; TAIL]>,
}

impl CancelKey {
    /// A key for `slot` (1..=128) and `generation` (kept modulo 256), with the four bytes of secret of protocol 3.0.
    pub fn new(slot: u16, generation: u32, random: [u8; 6]) -> Self {
        let [slot, ..] = (slot.wrapping_sub(1) & 0x7f).to_le_bytes();
        let [generation, ..] = generation.to_le_bytes();
        let [a, b, c, d, e, f] = random;
        Self { head: [slot, generation, a, b, c, d, e, f], tail: None }
    }

    /// The same key with the longer secret of protocol 3.2.
    #[must_use]
    pub fn lengthened(self, random: [u8; TAIL]) -> Self {
        Self { tail: Some(random), ..self }
    }

    /// The key in a `CancelRequest` or `BackendKeyData`; `None` if it has a length that no key of ours has.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = bytes.split_first_chunk()?;
        let tail = if tail.is_empty() { None } else { Some(tail.try_into().ok()?) };
        Some(Self { head: *head, tail })
    }

    /// The slot that made the key, 1..=128. A forged key may name a slot that does not exist.
    pub fn slot(&self) -> u16 {
        u16::from(self.head[0] & 0x7f) + 1
    }

    /// The low 8 bits of the generation of the worker that made the key.
    pub fn generation(&self) -> u8 {
        self.head[1]
    }

    /// The half of the head that clients call the process id.
    pub fn pid(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.head;
        [a, b, c, d]
    }

    /// The key as it is sent: the process id, then the secret.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.to_vec();
        bytes.extend_from_slice(self.tail.as_ref().map_or(&[], |tail| tail));
        bytes
    }
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelKey")
            .field("slot", &self.slot())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}
