//! From a server to its client.
//!
//! It reads headers and the few bodies that mean something to a pooler, cuts out what answers the
//! pooler itself, and writes the rest in one go. When the tracker says so, the lease ends here.

use log::warn;
use pgfleet_wire::back::{self, ErrorFields};
use pgfleet_wire::frame::{self, Header};
use pgfleet_wire::tracker::{Done, Note, Seen};

use super::HEAD;
use crate::worker::client::statements::REPLAYED;
use crate::worker::ids::{ClientId, ServerId};
use crate::worker::outbox::Sent;
use crate::worker::server::Phase;
use crate::worker::state::Worker;
use crate::worker::stats::micros;

/// What a server's bytes come to.
struct Batch<'a> {
    input: &'a [u8],
    at: usize,
    /// From here to `at` goes to the client.
    from: usize,
    /// Written before `from`: something was cut out.
    cut: Vec<u8>,
}

/// How one message ended.
enum Next {
    Go,
    /// More bytes are needed.
    Stop,
    /// The lease has ended, or the pooler's own batch: the owner goes on.
    Over,
    /// The server is out of step.
    Broken(&'static str),
}

/// What a server's answer led to.
pub(crate) enum Answered {
    /// Consumed so many bytes; more may follow.
    Partly(usize),
    /// Consumed so many bytes, and a request of the pooler or the lease is done.
    Over(usize),
    /// In PgBouncer's words.
    Broken(&'static str),
}

impl Worker {
    /// Takes a server's `input` as far as it goes.
    pub(crate) fn answer(&mut self, id: ServerId, input: &[u8]) -> Answered {
        let mut batch = Batch { input, at: 0, from: 0, cut: Vec::new() };
        let end = loop {
            match self.next_answer(id, &mut batch) {
                Next::Go => {}
                Next::Stop => break Answered::Partly(batch.at),
                Next::Over => break Answered::Over(batch.at),
                Next::Broken(why) => break Answered::Broken(why),
            }
        };
        // Counted before it is said: a worker that is killed in between has not lost the count.
        self.stats.publish();
        self.send_back(id, &batch);
        end
    }

    fn next_answer(&mut self, id: ServerId, batch: &mut Batch<'_>) -> Next {
        let rest = batch.input.get(batch.at..).unwrap_or_default();
        let most = usize::try_from(self.settings.global.max_packet_size).unwrap_or(usize::MAX);
        let Some(server) = self.server(id) else { return Next::Over };
        if server.body_left > 0 {
            let part = server.body_left.min(rest.len());
            server.body_left -= part;
            let swallow = server.swallowing;
            step_over(batch, part, swallow);
            return if part == 0 { Next::Stop } else { Next::Go };
        }
        let header = match frame::header(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Next::Stop,
            Err(error) => {
                warn!("a server is out of step: {error}");
                return Next::Broken("bad pkt header");
            }
        };
        if header.len > most {
            warn!("a server sent a message of {} bytes (max_packet_size)", header.len);
            return Next::Broken("bad pkt header");
        }
        let here = rest.len().min(header.len);
        let whole = here == header.len;
        let wanted = matches!(header.tag, b'Z' | b'S' | b'E' | b'C');
        if wanted && !whole && rest.len() < HEAD {
            return Next::Stop;
        }
        let body = rest.get(frame::HEADER..here).unwrap_or_default();
        let seen = match server.tracker.server(header.tag, body) {
            Ok(seen) => seen,
            Err(error) => {
                warn!("a server is out of step: {error}");
                return Next::Broken("unknown pkt");
            }
        };
        self.seen(id, batch, header, body, seen, here)
    }

    fn seen(
        &mut self,
        id: ServerId,
        batch: &mut Batch<'_>,
        header: Header,
        body: &[u8],
        seen: Seen,
        here: usize,
    ) -> Next {
        let mut swallow = seen.swallow;
        match header.tag {
            b'A' => swallow = swallow || self.is_stray_notification(id),
            b'S' => self.parameter(id, body),
            b'E' => self.error_seen(id, body),
            b'C' => self.tag_seen(id, body),
            _ => {}
        }
        if let Some(server) = self.server(id) {
            server.body_left = header.len - here;
            server.swallowing = swallow;
        }
        step_over(batch, here, swallow);
        if let Some(done) = seen.done {
            self.done(id, done);
        }
        if header.tag == b'Z' { self.ready(id) } else { Next::Go }
    }

    /// What a finished request means for the client's statements.
    fn done(&mut self, id: ServerId, done: Done) {
        let Some(client_id) = self.server(id).and_then(|server| server.client) else { return };
        let Some(client) = self.client(client_id) else { return };
        match done {
            Done::Parse(Note::Statement(REPLAYED)) | Done::Close(Note::Statement(REPLAYED)) => {
                let version = client.statements.version();
                if let Some(server) = self.server(id) {
                    server.unnamed_of = Some((client_id.serial, version));
                }
            }
            Done::Parse(Note::Statement(ticket)) => {
                let is_unnamed = client.statements.done(ticket);
                let version = client.statements.version();
                if is_unnamed && let Some(server) = self.server(id) {
                    server.unnamed_of = Some((client_id.serial, version));
                }
            }
            Done::Close(Note::Statement(ticket)) => {
                client.statements.done(ticket);
            }
            Done::Failed(b'P' | b'C', Note::Statement(ticket)) => {
                client.statements.failed(ticket);
                if let Some(server) = self.server(id) {
                    server.unnamed_of = None;
                }
            }
            Done::OwnFailed(tag) => {
                if let Some(server) = self.server(id) {
                    server.unnamed_of = None;
                    server.refused |= tag != b'Q';
                    server.check_failed |= tag == b'Q';
                }
            }
            Done::Query(_) | Done::Failed(b'Q', _) => client.statements.query_ran(),
            Done::Parse(Note::None)
            | Done::Close(Note::None)
            | Done::Bind(_)
            | Done::Describe(_)
            | Done::Execute(_)
            | Done::Function(_)
            | Done::Sync(_)
            | Done::Failed(_, _) => {}
        }
    }

    /// A ParameterStatus of a tracked setting: the server's value is another now, and if it is
    /// leased, the client's.
    fn parameter(&mut self, id: ServerId, body: &[u8]) {
        let Ok((name, value)) = back::parse_parameter_status(body) else {
            // What cannot be read cannot be restored for the next client.
            if let Some(server) = self.server(id) {
                server.close_needed = true;
            }
            return;
        };
        let Some(position) = self.tracked.position(name) else { return };
        let Some(server) = self.servers.get_mut(id.index as usize).filter(|server| server.id == id)
        else {
            return;
        };
        server.vars = self.vars.with(&server.vars, position, value);
        if matches!(server.phase, Phase::Idle | Phase::Held) {
            // Nobody asked: the server's configuration was changed.
            server.defaults = self.vars.with(&server.defaults, position, value);
        }
        if !matches!(server.phase, Phase::Leased) {
            return;
        }
        let is_default = server.defaults[position].as_deref() == Some(value);
        let vars = std::rc::Rc::clone(&server.vars);
        if let Some(client) = server.client
            && let Some(client) = self.client(client)
        {
            client.vars = Some(vars);
            if is_default { client.own.clear(position) } else { client.own.set(position) }
        }
    }

    /// Between clients that share servers nobody can tell whose LISTEN a notification answers.
    fn is_stray_notification(&mut self, id: ServerId) -> bool {
        let client = self.server(id).and_then(|server| server.client);
        client.is_none_or(|client| self.shares_servers(client))
    }

    fn error_seen(&mut self, id: ServerId, body: &[u8]) {
        let Ok(fields) = ErrorFields::parse(body) else { return };
        let Some(server) = self.server(id) else { return };
        if fields.is_fatal() {
            server.explained = true;
            server.close_needed = true;
        }
        let what = match server.phase {
            Phase::Setup => "connect_query",
            Phase::Resetting => "server_reset_query",
            Phase::Preparing => "settings of a client",
            Phase::Idle | Phase::Held => "while idle",
            Phase::Connecting
            | Phase::Login(_)
            | Phase::Lookup(_)
            | Phase::Leased
            | Phase::Retiring => return,
        };
        warn!("{server} {what}: {}: {}", fields.severity, fields.message);
    }

    fn tag_seen(&mut self, id: ServerId, body: &[u8]) {
        let Ok(tag) = back::parse_command_tag(body) else { return };
        if tag != "DEALLOCATE ALL" && tag != "DISCARD ALL" {
            return;
        }
        if let Some(client) = self.server(id).and_then(|server| server.client)
            && let Some(client) = self.client(client)
        {
            client.statements.deallocated();
        }
    }

    /// ReadyForQuery: a query, perhaps a transaction, perhaps the lease is over.
    fn ready(&mut self, id: ServerId) -> Next {
        let now = self.now;
        let Some(server) = self.server(id) else { return Next::Over };
        let busy = server.tracker.busy();
        let idle = server.tracker.status() == b'I';
        if !matches!(server.phase, Phase::Leased) {
            return if busy { Next::Go } else { Next::Over };
        }
        server.next_round();
        let Some(client_id) = server.client else { return Next::Over };
        let Some(client) = self.client(client_id) else { return Next::Over };
        let started = client.query_started.take();
        if busy {
            client.query_started = started.map(|_| now);
        } else {
            client.statements.settled();
            client.stalled = false;
            client.answered = Some(now);
        }
        let xact = if idle { client.xact_started.replace(now) } else { None };
        if let Some(totals) = self.totals_of(client_id) {
            totals.queries += 1;
            totals.query_time += started.map_or(0, |at| micros(now.saturating_duration_since(at)));
            if idle {
                totals.xacts += 1;
                totals.xact_time += xact.map_or(0, |at| micros(now.saturating_duration_since(at)));
            }
        }
        if busy { Next::Go } else { Next::Over }
    }

    /// Writes to the client what is for it.
    fn send_back(&mut self, id: ServerId, batch: &Batch<'_>) {
        let rest = batch.input.get(batch.from..batch.at).unwrap_or_default();
        if rest.is_empty() && batch.cut.is_empty() {
            return;
        }
        let Some(client) = self.server(id).and_then(|server| server.client) else { return };
        if batch.cut.is_empty() {
            self.deliver(id, client, rest);
        } else {
            let all = [batch.cut.as_slice(), rest].concat();
            self.deliver(id, client, &all);
        }
    }

    fn deliver(&mut self, id: ServerId, client_id: ClientId, bytes: &[u8]) {
        let Some(client) = self.client(client_id) else { return };
        match client.outbox.write(&client.fd, bytes) {
            Sent::All => {}
            Sent::Blocked => {
                self.client_interest(client_id, None, Some(true));
                self.server_interest(id, Some(false), None);
            }
            // Its end of file tells; until then the rest of the answer is dropped on the floor.
            Sent::Broken => {}
        }
        if let Some(totals) = self.totals_of(client_id) {
            totals.sent += bytes.len() as u64;
        }
    }
}

fn step_over(batch: &mut Batch<'_>, length: usize, swallow: bool) {
    if swallow {
        batch.cut.extend_from_slice(batch.input.get(batch.from..batch.at).unwrap_or_default());
    }
    batch.at += length;
    if swallow {
        batch.from = batch.at;
    }
}
