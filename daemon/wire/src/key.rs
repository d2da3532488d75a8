//! The cancel key that pgfleet gives to a client: it names the slot and the generation that own it.
//! It makes no random numbers and shows none: the caller brings 48 random bits, and `Debug` hides them.
//! The worker makes keys at login and reads them from cancel requests.

use std::fmt;

/// Eight bytes: as a big-endian `u64` a zero bit, 7 bits of slot - 1, 8 bits of generation, 48 random bits.
///
/// On the wire it is the process id and the secret of `BackendKeyData` (manual: "Canceling Requests in Progress").
/// The zero bit keeps the process id positive, as clients expect it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CancelKey(pub [u8; 8]);

impl CancelKey {
    /// A key for `slot` (1..=128) and `generation` (kept modulo 256).
    pub fn new(slot: u16, generation: u32, random: [u8; 6]) -> Self {
        let [slot, ..] = (slot.wrapping_sub(1) & 0x7f).to_le_bytes();
        let [generation, ..] = generation.to_le_bytes();
        let [a, b, c, d, e, f] = random;
        Self([slot, generation, a, b, c, d, e, f])
    }

    /// The key whose halves stand in a `CancelRequest` or in `BackendKeyData`.
    pub fn from_parts(pid: [u8; 4], secret: [u8; 4]) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (pid, secret);
        Self([a, b, c, d, e, f, g, h])
    }

    /// The slot that made the key, 1..=128. A forged key may name a slot that does not exist.
    pub fn slot(&self) -> u16 {
        u16::from(self.0[0] & 0x7f) + 1
    }

    /// The low 8 bits of the generation of the worker that made the key.
    pub fn generation(&self) -> u8 {
        self.0[1]
    }

    /// The half that clients call the process id.
    pub fn pid(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }

    /// The half that clients call the secret key.
    pub fn secret(&self) -> [u8; 4] {
        let [.., a, b, c, d] = self.0;
        [a, b, c, d]
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
