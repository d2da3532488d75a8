//! The rows of SHOW SOCKETS, SHOW ACTIVE_SOCKETS and SHOW FDS.
//!
//! They are those of SHOW CLIENTS and SHOW SERVERS with what is buffered, and every descriptor with what
//! belongs to it. No secret is in any of them: where PgBouncer shows passwords, cancel keys and SCRAM keys,
//! there is nothing here. `tables` calls it.

use std::os::fd::{AsRawFd, OwnedFd};

use super::client::{Client, Stage};
use super::outbox::Outbox;
use super::server::{Phase, Server};
use super::state::Worker;
use super::tables::{count, text};
use super::vars::Values;
use crate::link::table::{Row, Value};

/// What is buffered for one socket.
struct Buffered<'a> {
    input: &'a [u8],
    body_left: usize,
    outbox: &'a Outbox,
}

impl Buffered<'_> {
    /// From `recv_pos` to `send_avail`, as PgBouncer counts its buffers.
    fn values(&self) -> [Value; 7] {
        let unsent = self.outbox.len();
        [
            count(self.input.len()),
            count(0),
            count(self.body_left),
            count(0),
            count(unsent),
            count(self.input.len()),
            count(unsent),
        ]
    }
}

impl Worker {
    /// All sockets.
    pub(super) fn sockets_table(&self) -> Vec<Row> {
        self.sockets(|_| true, |_| true)
    }

    /// Clients and servers that have to do with each other.
    pub(super) fn active_sockets_table(&self) -> Vec<Row> {
        let is_active = |client: &Client| {
            client.lease.is_some() || matches!(client.stage, Stage::Session | Stage::Console(_))
        };
        self.sockets(is_active, |server| server.client.is_some())
    }

    fn sockets(
        &self,
        of_clients: impl Fn(&Client) -> bool,
        of_servers: impl Fn(&Server) -> bool,
    ) -> Vec<Row> {
        let clients = self.clients.iter().map(|(_, client)| client);
        let clients = clients.filter(|client| of_clients(client)).filter_map(|client| {
            let Client { input, body_left, outbox, .. } = client;
            let buffered = Buffered { input, body_left: *body_left, outbox };
            Some(with_buffers(self.client_row(client)?, &buffered))
        });
        let servers = self.servers.iter().map(|(_, server)| server);
        let servers = servers.filter(|server| of_servers(server)).map(|server| {
            let Server { input, body_left, outbox, .. } = server;
            let buffered = Buffered { input, body_left: *body_left, outbox };
            with_buffers(self.server_row(server), &buffered)
        });
        clients.chain(servers).collect()
    }

    /// Every descriptor of a listener, a client or a server.
    pub(super) fn fds_table(&self) -> Vec<Row> {
        let listeners = self.listeners.values().map(|listener| {
            let about = ["pooler", "", ""].map(text);
            self.fd_row(&listener.fd, about, text(listener.address.as_str()), None, None)
        });
        let clients = self.clients.iter().map(|(_, client)| client);
        let clients = clients.filter(|client| client.identity.is_some()).map(|client| {
            let about = ["client", client.user(), client.database()].map(text);
            let server = client.lease.and_then(|lease| self.servers.get(lease.index as usize));
            let addr = text(client.origin.to_string());
            let link = server.map(|server| &server.fd);
            self.fd_row(&client.fd, about, addr, link, client.vars.as_ref())
        });
        let logged_in = self.servers.iter().map(|(_, server)| server).filter(|server| {
            !matches!(server.phase, Phase::Connecting | Phase::Login(_) | Phase::Retiring)
        });
        let servers = logged_in.map(|server| {
            let pool = self.pools.get(server.pool);
            let about = [
                text("server"),
                text(pool.map_or("", |pool| &pool.user)),
                text(pool.map_or("", |pool| &pool.name)),
            ];
            let client = server.client.and_then(|client| self.clients.get(client.index as usize));
            let link = client.map(|client| &client.fd);
            let addr = text(server.address.to_string());
            self.fd_row(&server.fd, about, addr, link, Some(&server.vars))
        });
        listeners.chain(clients).chain(servers).collect()
    }

    fn fd_row(
        &self,
        fd: &OwnedFd,
        [task, user, database]: [Value; 3],
        addr: Value,
        link: Option<&OwnedFd>,
        vars: Option<&Values>,
    ) -> Row {
        let number = |fd: &OwnedFd| Value::Int(fd.as_raw_fd().into());
        let var = |name: &str| {
            let at = self.tracked.position(name);
            let value = at.and_then(|at| vars?.get(at)?.as_deref());
            value.map_or(Value::Null, text)
        };
        let (addr, port) = apart(addr);
        vec![
            number(fd),
            task,
            user,
            database,
            addr,
            port,
            Value::Int(0),
            link.map_or(Value::Int(0), number),
            var("client_encoding"),
            var("standard_conforming_strings"),
            var("DateStyle"),
            var("TimeZone"),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ]
    }
}

/// An address and its port; one without a port is shown whole.
fn apart(address: Value) -> (Value, Value) {
    if let Value::Text(whole) = &address
        && let Some((host, port)) = whole.rsplit_once(':')
        && let Ok(port) = port.parse()
    {
        return (text(host.trim_matches(['[', ']'])), Value::Int(port));
    }
    (address, Value::Int(0))
}

/// Puts what is buffered before the last column, which is the worker's name.
fn with_buffers(mut row: Row, buffered: &Buffered<'_>) -> Row {
    let worker = row.pop();
    row.extend(buffered.values());
    row.extend(worker);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_at_its_port() {
        assert_eq!(apart(text("[::1]:6432")), (text("::1"), Value::Int(6432)));
        assert_eq!(apart(text("127.0.0.1:5")), (text("127.0.0.1"), Value::Int(5)));
        assert_eq!(apart(text("/run/s")), (text("/run/s"), Value::Int(0)));
    }
}
