//! The entries of an ini file where PgBouncer reads them in a way of its own.
//! It cuts decimals of seconds and looks at peers, which have no meaning here; it never fills in a database or a user.
//! The ini reader calls it for each line of these sections.

use crate::{
    conninfo::{self, pair},
    fault::Fault,
};

/// The keys of a peer.
const PEER_KEYS: [&str; 3] = ["host", "port", "pool_size"];

/// The keys of databases and users that are whole seconds in PgBouncer.
const SECONDS: [&str; 6] = [
    "server_lifetime",
    "query_wait_timeout",
    "query_timeout",
    "idle_transaction_timeout",
    "transaction_timeout",
    "client_idle_timeout",
];

/// The entry with whole seconds, as PgBouncer reads it, and a line on each that was cut. What is no entry stays as it is.
pub(crate) fn whole_seconds(text: &str) -> (String, Vec<String>) {
    let mut cut = Vec::new();
    let Ok(pairs) = conninfo::pairs(text) else {
        return (text.to_owned(), cut);
    };
    let mut whole = |(key, value): &(String, String)| {
        let seconds = value.split_once('.').map(|(seconds, _)| seconds);
        let seconds = seconds
            .filter(|_| SECONDS.contains(&key.as_str()))
            .filter(|_| value.parse::<f64>().is_ok_and(|seconds| seconds.fract() > 0.0))
            .map(|seconds| if seconds.is_empty() { "0" } else { seconds })?;
        cut.push(format!(
            "{key}: {value} counts as {seconds}: as in PgBouncer, entries take whole seconds"
        ));
        Some(pair(key, seconds))
    };
    let pairs: Vec<_> =
        pairs.iter().map(|it| whole(it).unwrap_or_else(|| pair(&it.0, &it.1))).collect();
    if cut.is_empty() { (text.to_owned(), cut) } else { (pairs.join(" "), cut) }
}

/// Looks at a line of `[peers]`.
pub(crate) fn peer(id: &str, text: &str) -> Result<(), Fault> {
    if !id.parse::<u16>().is_ok_and(|id| id > 0) {
        return Err(Fault::new("a peer has a number", "write, for example, 1 = host=/tmp/peer1"));
    }
    for (key, _) in conninfo::pairs(text)? {
        if !PEER_KEYS.contains(&key.as_str()) {
            return Err(Fault::unknown(&format!("key {key}"), &key, PEER_KEYS.into_iter()));
        }
    }
    Ok(())
}
