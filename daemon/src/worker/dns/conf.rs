//! What `resolv.conf` and `/etc/hosts` say.
//!
//! It reads texts and never files or sockets. Unknown lines and options are passed over, as the system's
//! resolver does; a name server may have a port behind its address, as c-ares allows it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const PORT: u16 = 53;

/// The bounds that the system's resolver has.
const MOST_SERVERS: usize = 3;
const MOST_DOMAINS: usize = 6;
const MOST_SECONDS: u64 = 30;
const MOST_ATTEMPTS: u32 = 5;
const MOST_DOTS: usize = 15;

/// How to ask for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conf {
    pub(crate) servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// A name with so many dots is asked for as it is first.
    ndots: usize,
    /// How long one server may take.
    pub(crate) timeout: Duration,
    /// How often all servers are asked.
    pub(crate) attempts: u32,
}

impl Conf {
    /// Reads a `resolv.conf`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().and_then(server)),
                Some("domain") => conf.search = words.take(1).map(str::to_owned).collect(),
                Some("search") => {
                    conf.search = words.take(MOST_DOMAINS).map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|word| conf.option(word)),
                Some(_) | None => {}
            }
        }
        conf.servers.truncate(MOST_SERVERS);
        if conf.servers.is_empty() {
            conf.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        conf
    }

    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "ndots" => self.ndots = usize::try_from(value).unwrap_or(MOST_DOTS).min(MOST_DOTS),
            "timeout" => {
                self.timeout = Duration::from_secs(u64::from(value).clamp(1, MOST_SECONDS));
            }
            "attempts" => self.attempts = value.clamp(1, MOST_ATTEMPTS),
            _ => {}
        }
    }

    /// The names to ask for, one after the other, until one exists.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(absolute) = name.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let searched = self.search.iter().map(|domain| match domain.trim_end_matches('.') {
            "" => name.to_owned(),
            domain => format!("{name}.{domain}"),
        });
        let plain = [name.to_owned()];
        if name.matches('.').count() >= self.ndots {
            plain.into_iter().chain(searched).collect()
        } else {
            searched.chain(plain).collect()
        }
    }
}

fn server(text: &str) -> Option<SocketAddr> {
    let address = text.split('%').next().unwrap_or(text);
    let plain = address.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    plain.or_else(|| text.parse().ok())
}

/// The addresses that a hosts file has for a name: those of IPv4, else those of IPv6.
pub(crate) fn hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let mut found: Vec<IpAddr> = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(Ok(ip)) = words.next().map(str::parse) else { continue };
        if words.any(|word| word.eq_ignore_ascii_case(name)) && !found.contains(&ip) {
            found.push(ip);
        }
    }
    if found.is_empty() && name.eq_ignore_ascii_case("localhost") {
        return vec![Ipv4Addr::LOCALHOST.into()];
    }
    let four: Vec<IpAddr> = found.iter().copied().filter(IpAddr::is_ipv4).collect();
    if four.is_empty() { found } else { four }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolv_conf_is_read_as_the_system_reads_it() {
        let conf = Conf::parse(
            "# comment\n; another\nnameserver 10.0.0.1 \nnameserver 127.0.0.1:5353\nnameserver ::1\n\
             nameserver 10.0.0.4\nnameserver nonsense\ndomain old.example\nsearch a.example b.example.\n\
             options ndots:2 timeout:3 attempts:9 rotate edns0 timeout:x\nsortlist 1.2.3.4\n",
        );
        let servers = ["10.0.0.1:53", "127.0.0.1:5353", "[::1]:53"];
        assert_eq!(conf.servers, servers.map(|server| server.parse().unwrap()));
        assert_eq!(
            (conf.ndots, conf.timeout, conf.attempts),
            (2, Duration::from_secs(3), MOST_ATTEMPTS)
        );
        assert_eq!(conf.candidates("db"), ["db.a.example", "db.b.example", "db"]);
        assert_eq!(conf.candidates("db.x.y"), ["db.x.y", "db.x.y.a.example", "db.x.y.b.example"]);
        assert_eq!(conf.candidates("db."), ["db"]);
    }

    #[test]
    fn an_empty_resolv_conf_means_this_host() {
        let conf = Conf::parse("");
        assert_eq!(conf.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(conf.candidates("db"), ["db"]);
    }

    #[test]
    fn a_hosts_file_is_read_as_the_system_reads_it() {
        let text = "127.0.0.1 localhost\n::1 localhost six # db\n\
                    10.0.0.1\tDB.example db # first\n10.0.0.2 db\n::2 db\nnonsense db\n";
        let four = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert_eq!(hosts(text, "db"), [four(1), four(2)]);
        assert_eq!(hosts(text, "db.EXAMPLE."), [four(1)]);
        assert_eq!(hosts(text, "six"), ["::1".parse::<IpAddr>().unwrap()]);
        assert_eq!(hosts(text, "first"), [] as [IpAddr; 0]);
        assert_eq!(hosts("", "localhost"), [IpAddr::from([127, 0, 0, 1])]);
    }
}
