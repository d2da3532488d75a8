//! From the client to its server.
//!
//! It reads headers, and the names of statements; bodies stream. Before a message that uses a
//! statement it puts what the server needs for it, so that no client ever runs another's statement.
//! What cannot be forwarded yet stays in the client's input.

use pgfleet_wire::frame::{self, Header};
use pgfleet_wire::front;
use pgfleet_wire::tracker::{Forward, Note};

use super::{ASSEMBLED, HEAD, LEND_AT, PIPELINE};
use crate::worker::client::refusal::Refusal;
use crate::worker::client::statements::{Before, OnServer, REPLAYED};
use crate::worker::ids::{ClientId, ServerId};
use crate::worker::outbox::Sent;
use crate::worker::pool::lend::Lent;
use crate::worker::server::Phase;
use crate::worker::state::Worker;

/// What the messages looked at so far come to.
struct Batch<'a> {
    input: &'a [u8],
    /// Looked at.
    at: usize,
    /// From here to `at` goes to the server as it is.
    from: usize,
}

/// How one message ended.
enum Next {
    /// Look at the next one.
    Go,
    /// More bytes, a server or an answer are needed first.
    Stop,
    /// The client is gone, or has been told off.
    Gone,
}

impl Worker {
    /// Takes a client's `input` as far as it goes now; returns how much was consumed, or `None`
    /// if the client is gone.
    pub(crate) fn request(&mut self, id: ClientId, input: &[u8]) -> Option<usize> {
        let mut batch = Batch { input, at: 0, from: 0 };
        self.assembly.clear();
        loop {
            match self.next_message(id, &mut batch) {
                Next::Go => {}
                Next::Stop => break,
                Next::Gone => return None,
            }
        }
        self.send_on(id, &batch)?;
        if batch.at > 0 {
            self.end_lease_late(id);
        }
        Some(batch.at)
    }

    /// The answer came while a message was half here: the lease ends when its rest has come.
    fn end_lease_late(&mut self, id: ClientId) {
        let Some(server) = self.client(id).and_then(|client| client.lease) else { return };
        let is_over = self.server(server).is_some_and(|server| {
            matches!(server.phase, Phase::Leased) && server.tracker.may_release()
        });
        if is_over {
            self.after_answer(server);
        }
    }

    fn next_message(&mut self, id: ClientId, batch: &mut Batch<'_>) -> Next {
        if self.assembly.len() > ASSEMBLED {
            self.resumed.push_back(id);
            return Next::Stop;
        }
        let Some(client) = self.client(id) else { return Next::Gone };
        let rest = batch.input.get(batch.at..).unwrap_or_default();
        if client.body_left > 0 {
            let part = client.body_left.min(rest.len());
            client.body_left -= part;
            let dropping = client.dropping;
            return self.pass(batch, part, dropping);
        }
        let header = match frame::header(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Next::Stop,
            Err(_) => {
                let refusal = Refusal::bad_header(rest);
                self.refuse_request(id, batch, &refusal);
                return Next::Gone;
            }
        };
        let most = usize::try_from(self.settings.global.max_packet_size).unwrap_or(usize::MAX);
        if header.len > most {
            let refusal = Refusal::bad_header(rest.get(..frame::HEADER).unwrap_or(rest));
            self.refuse_request(id, batch, &refusal);
            return Next::Gone;
        }
        if header.tag == b'Q' && self.settings.global.disable_pqexec {
            self.refuse_request(id, batch, &Refusal::SimpleQuery);
            return Next::Gone;
        }
        self.message(id, batch, header)
    }

    /// Moves on by `part` bytes of a message's body.
    fn pass(&mut self, batch: &mut Batch<'_>, part: usize, dropping: bool) -> Next {
        if dropping {
            self.cut(batch);
        }
        batch.at += part;
        if dropping {
            batch.from = batch.at;
        }
        if part == 0 { Next::Stop } else { Next::Go }
    }

    fn message(&mut self, id: ClientId, batch: &mut Batch<'_>, header: Header) -> Next {
        let rest = batch.input.get(batch.at..).unwrap_or_default();
        let whole = rest.len() >= header.len;
        let Some(client) = self.client(id) else { return Next::Gone };
        if header.tag == b'X' {
            return self.terminate(id, batch);
        }
        let server = match client.lease {
            Some(server) => server,
            None => match header.tag {
                // Postgres ignores late COPY messages, and a Flush with nothing to flush.
                b'd' | b'c' | b'f' | b'H' => return self.discard(id, batch, header),
                _ if !is_request(header.tag) => {
                    self.refuse_request(id, batch, &Refusal::UnknownMessage);
                    return Next::Gone;
                }
                _ if !whole && rest.len() < LEND_AT => return Next::Stop,
                _ => match self.lend(id) {
                    Lent::Now(server) => server,
                    Lent::Later => return Next::Stop,
                    Lent::Gone => return Next::Gone,
                },
            },
        };
        self.leased_message(id, server, batch, header)
    }

    fn leased_message(
        &mut self,
        id: ClientId,
        server: ServerId,
        batch: &mut Batch<'_>,
        header: Header,
    ) -> Next {
        let rest = batch.input.get(batch.at..).unwrap_or_default();
        let whole = rest.len() >= header.len;
        let Some(entry) = self.server(server) else { return Next::Stop };
        if !matches!(entry.phase, Phase::Leased) || entry.tracker.outstanding() >= PIPELINE {
            return Next::Stop;
        }
        let named = matches!(header.tag, b'P' | b'B' | b'D' | b'C');
        let note = if named {
            if !whole && rest.len() < HEAD {
                return Next::Stop;
            }
            let body = rest.get(frame::HEADER..rest.len().min(header.len)).unwrap_or_default();
            let message = if whole { rest.get(..header.len) } else { None };
            match self.statement(id, server, batch, header.tag, body, message) {
                Ok(Some(note)) => note,
                Ok(None) => return Next::Stop,
                Err(refusal) => {
                    self.refuse_request(id, batch, &refusal);
                    return Next::Gone;
                }
            }
        } else {
            Note::None
        };
        self.forward(id, server, batch, header, note)
    }

    fn forward(
        &mut self,
        id: ClientId,
        server: ServerId,
        batch: &mut Batch<'_>,
        header: Header,
        note: Note,
    ) -> Next {
        let Some(entry) = self.server(server) else { return Next::Stop };
        match entry.tracker.client(header.tag, note) {
            Ok(Forward::Pass) => {}
            Ok(Forward::Discard) => return self.discard(id, batch, header),
            Err(_) => {
                self.refuse_request(id, batch, &Refusal::UnknownMessage);
                return Next::Gone;
            }
        }
        match header.tag {
            b'Q' => {
                entry.unnamed_of = None;
                entry.unnamed_in_batch = false;
            }
            b'S' => entry.unnamed_in_batch = false,
            _ => {}
        }
        let now = self.now;
        let Some(client) = self.client(id) else { return Next::Gone };
        if client.query_started.is_none() {
            client.query_started = Some(now);
        }
        client.answered = None;
        if header.tag == b'S' {
            client.statements.sync();
        }
        self.begin_body(id, batch, header, false);
        Next::Go
    }

    fn begin_body(&mut self, id: ClientId, batch: &mut Batch<'_>, header: Header, dropping: bool) {
        let here = (batch.input.len() - batch.at).min(header.len);
        batch.at += here;
        if let Some(client) = self.client(id) {
            client.body_left = header.len - here;
            client.dropping = dropping;
        }
    }

    /// The message is not forwarded.
    fn discard(&mut self, id: ClientId, batch: &mut Batch<'_>, header: Header) -> Next {
        self.cut(batch);
        self.begin_body(id, batch, header, true);
        batch.from = batch.at;
        Next::Go
    }

    /// What is to be forwarded so far goes into the assembly, so that something can be put
    /// behind it or left out.
    fn cut(&mut self, batch: &mut Batch<'_>) {
        self.assembly.extend_from_slice(batch.input.get(batch.from..batch.at).unwrap_or_default());
        batch.from = batch.at;
    }

    /// Looks after the statement that a Parse, Bind, Describe or Close is about. `None`: not yet.
    fn statement(
        &mut self,
        id: ClientId,
        server: ServerId,
        batch: &mut Batch<'_>,
        tag: u8,
        body: &[u8],
        message: Option<&[u8]>,
    ) -> Result<Option<Note>, Refusal> {
        let malformed = |_| Refusal::BadMessage("invalid extended query message");
        let (uses, name) = match tag {
            b'P' => (false, front::parse_message_name(body).map_err(malformed)?),
            b'B' => (true, front::parse_bind_statement(body).map_err(malformed)?),
            _ => {
                let (kind, name) = front::parse_target(body).map_err(malformed)?;
                if kind != b'S' {
                    return Ok(Some(Note::None));
                }
                (tag == b'D', name)
            }
        };
        if self.server(server).is_some_and(|server| server.tracker.skipping()) {
            // The server ignores it, and so do we.
            return Ok(Some(Note::None));
        }
        self.count_statement(id, tag);
        if uses {
            return Ok(self.before_use(id, server, batch, name).then_some(Note::None));
        }
        let Some(client) = self.client(id) else { return Ok(None) };
        let ticket = match tag {
            b'P' => client.statements.parse(name, message),
            _ => client.statements.close(name),
        };
        Ok(Some(Note::Statement(ticket)))
    }

    /// Makes sure that `name` is this client's statement on this server. `false`: not yet known.
    fn before_use(
        &mut self,
        id: ClientId,
        server: ServerId,
        batch: &mut Batch<'_>,
        name: &[u8],
    ) -> bool {
        if !self.shares_servers(id) {
            return true;
        }
        let Some(entry) = self.server(server) else { return false };
        if entry.tracker.skipping() {
            return true;
        }
        let (in_batch, unnamed_of) = (entry.unnamed_in_batch, entry.unnamed_of);
        let Some(client) = self.client(id) else { return false };
        let is_own = in_batch || unnamed_of == Some((id.serial, client.statements.version()));
        let on_server = if is_own { OnServer::Own } else { OnServer::Another };
        match client.statements.before_use(name, on_server) {
            Before::Nothing => {}
            Before::Wait => {
                client.stalled = true;
                return false;
            }
            Before::Parse(parse) => {
                self.cut(batch);
                self.assembly.extend_from_slice(&parse);
                if let Some(entry) = self.server(server) {
                    entry.tracker.own_noted(b'P', Note::Statement(REPLAYED));
                    entry.unnamed_in_batch = true;
                }
                self.count_server_parse(id);
            }
            Before::Close => {
                self.cut(batch);
                front::close(&mut self.assembly, b'S', name);
                if let Some(entry) = self.server(server) {
                    let unnamed = name.is_empty();
                    let note = if unnamed { Note::Statement(REPLAYED) } else { Note::None };
                    entry.tracker.own_noted(b'C', note);
                    entry.unnamed_in_batch |= unnamed;
                }
            }
        }
        true
    }

    fn terminate(&mut self, id: ClientId, batch: &Batch<'_>) -> Next {
        // Requests that stand before the Terminate are carried out first, as by Postgres itself.
        if self.send_on(id, batch).is_some() {
            self.drop_client(id, "client close request");
        }
        Next::Gone
    }

    fn refuse_request(&mut self, id: ClientId, batch: &Batch<'_>, refusal: &Refusal) {
        if self.send_on(id, batch).is_some() {
            self.refuse(id, refusal);
        }
    }

    /// Sends what was looked at to the server. `None`: the client is gone with its server.
    fn send_on(&mut self, id: ClientId, batch: &Batch<'_>) -> Option<()> {
        let rest = batch.input.get(batch.from..batch.at).unwrap_or_default();
        if rest.is_empty() && self.assembly.is_empty() {
            return self.client(id).map(drop);
        }
        let server = self.client(id)?.lease?;
        let assembly = std::mem::take(&mut self.assembly);
        let bytes = if assembly.is_empty() { rest } else { &[] };
        let entry = self.server(server)?;
        let sent = if assembly.is_empty() {
            entry.outbox.write(&entry.fd, bytes)
        } else {
            let mut all = assembly;
            all.extend_from_slice(rest);
            let sent = entry.outbox.write(&entry.fd, &all);
            if all.capacity() <= 2 * ASSEMBLED {
                all.clear();
                self.assembly = all;
            }
            sent
        };
        self.count_received(id, batch.at);
        match sent {
            Sent::All => {}
            Sent::Blocked => {
                self.server_interest(server, None, Some(true));
                self.client_interest(id, Some(false), None);
            }
            // Its last words are still to be read: the read will tell.
            Sent::Broken => {}
        }
        self.client(id).map(drop)
    }
}

/// What a client may begin with.
fn is_request(tag: u8) -> bool {
    matches!(tag, b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'S' | b'F')
}
