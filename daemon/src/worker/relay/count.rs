//! What the relay adds to the statistics of a client's database.
//!
//! It reads no bytes and decides nothing; `request` calls it for what it forwards.

use crate::worker::ids::ClientId;
use crate::worker::state::Worker;

impl Worker {
    pub(super) fn count_received(&mut self, id: ClientId, bytes: usize) {
        if let Some(totals) = self.totals_of(id) {
            totals.received += bytes as u64;
        }
    }

    pub(super) fn count_server_parse(&mut self, id: ClientId) {
        if let Some(totals) = self.totals_of(id) {
            totals.server_parses += 1;
        }
    }

    pub(super) fn count_statement(&mut self, id: ClientId, tag: u8) {
        if let Some(totals) = self.totals_of(id) {
            match tag {
                b'P' => {
                    totals.client_parses += 1;
                    totals.server_parses += 1;
                }
                b'B' => totals.binds += 1,
                _ => {}
            }
        }
    }
}
