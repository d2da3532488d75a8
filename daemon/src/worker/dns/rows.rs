//! The rows of SHOW DNS_HOSTS and SHOW DNS_ZONES.
//!
//! They are read from what this worker knows now; nothing is changed and nobody is asked.

use crate::link::table::{Row, Value};
use crate::worker::dns::zones::zone_of;
use crate::worker::state::Worker;

impl Worker {
    /// hostname, ttl, addrs.
    pub(crate) fn dns_hosts_table(&self) -> Vec<Row> {
        self.names
            .iter(self.now)
            .map(|(name, left, addresses)| {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                vec![
                    Value::Text(name.to_owned()),
                    Value::Int(i64::try_from(left.as_secs()).unwrap_or(i64::MAX)),
                    Value::Text(addresses.join(",")),
                ]
            })
            .collect()
    }

    /// zonename, serial, count of names.
    pub(crate) fn dns_zones_table(&self) -> Vec<Row> {
        self.zones
            .iter()
            .map(|(zone, serial)| {
                let in_it = |name: &str| zone_of(name) == Some(zone);
                let count = self.names.iter(self.now).filter(|(name, ..)| in_it(name)).count();
                vec![
                    Value::Text(zone.to_owned()),
                    Value::Int(serial.map_or(0, i64::from)),
                    Value::Int(i64::try_from(count).unwrap_or(i64::MAX)),
                ]
            })
            .collect()
    }
}
