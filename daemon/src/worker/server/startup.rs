//! The startup packet of a server: who logs in where, in which version of the protocol.
//!
//! It is sent as soon as the connection is there; what the server says to it is `login`'s. It asks for
//! protocol 3.0 unless `server_protocol` says otherwise, and takes 3.0 for an answer to anything.

use pgfleet_config::ServerProtocol;
use pgfleet_wire::back;
use pgfleet_wire::startup::{Protocol, startup_packet};

use super::Phase;
use crate::worker::ids::ServerId;
use crate::worker::state::Worker;

impl Worker {
    /// The connection is there: introduce ourselves.
    pub(crate) fn begin_server_login(&mut self, id: ServerId) {
        let now = self.now;
        let protocol = match self.settings.global.server_protocol {
            ServerProtocol::V3_0 => Protocol::V3_0,
            ServerProtocol::V3_2 => Protocol::V3_2,
        };
        self.dedicate(id);
        let Some(server) = self.server(id) else { return };
        server.enter(Phase::Login(Box::default()), now);
        let (pool, client) = (server.pool, server.client);
        let Some(pool) = self.pools.get(pool) else { return };
        let database = &pool.database;
        let mut parameters =
            vec![("user", pool.user.as_str()), ("database", database.dbname.as_str())];
        let client = client.and_then(|id| self.clients.get(id.index as usize));
        let asked = client.and_then(|client| client.replication.as_deref());
        if let Some(asked) = asked {
            let pairs = asked.parameters.iter();
            parameters.extend(pairs.map(|(name, value)| (name.as_str(), value.as_str())));
        }
        let own = [
            ("client_encoding", &database.client_encoding),
            ("DateStyle", &database.datestyle),
            ("TimeZone", &database.timezone),
            ("application_name", &database.application_name),
        ];
        for (name, value) in own {
            if let Some(value) = value
                && asked.is_none_or(|asked| asked.value(name).is_none())
            {
                parameters.push((name, value));
            }
        }
        let packet = startup_packet(protocol, &parameters);
        self.server_say(id, &packet);
    }
}

/// What a `NegotiateProtocolVersion` of a server may say: that it speaks 3.0 only.
pub(super) fn check_negotiation(body: &[u8]) -> Result<(), String> {
    let Ok(answer) = back::parse_negotiation(body) else {
        return Err("malformed NegotiateProtocolVersion in server login".into());
    };
    if answer.unknown > 0 {
        return Err("server does not know options that were not sent".into());
    }
    if answer.version != Protocol::V3_0.number() {
        let (major, minor) = (answer.version >> 16, answer.version & 0xffff);
        return Err(format!("server wants to speak protocol {major}.{minor}, not 3.0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, unknown: &[String]) -> Result<(), String> {
        let mut out = Vec::new();
        back::negotiate(&mut out, protocol, unknown);
        check_negotiation(out.get(5..).unwrap_or_default())
    }

    #[test]
    fn a_server_may_step_down_to_3_0_and_nowhere_else() {
        assert_eq!(said(Protocol::V3_0, &[]), Ok(()));
        assert_eq!(
            said(Protocol::V3_2, &[]),
            Err("server wants to speak protocol 3.2, not 3.0".into())
        );
        let unknown = said(Protocol::V3_0, &["_pq_.x".into()]);
        assert_eq!(unknown, Err("server does not know options that were not sent".into()));
        assert!(check_negotiation(b"\0\x03\0").is_err());
    }
}
