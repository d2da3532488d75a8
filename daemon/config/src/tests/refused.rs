//! What this version does not do: refused where pretending would harm, else noted.

use super::{good, one};

#[test]
fn what_would_weaken_security_is_refused() {
    let cases = [
        ("client_tls_sslmode = \"require\"", "client_tls_sslmode require"),
        ("server_tls_sslmode = \"verify-full\"", "server_tls_sslmode verify-full"),
        ("server_tls_sslmode = \"require\"", "server_tls_sslmode require"),
        ("limit_mode = \"shared\"", "limit_mode shared"),
        ("pool_mode = \"statement\"", "pool_mode pool_mode statement"),
    ];
    for (line, start) in cases {
        one("pgfleet.toml", line, &format!("1 {start} is not supported in this version"), "");
    }
}

#[test]
fn statement_mode_is_refused_wherever_it_is_set() {
    for (text, start) in [
        ("auth_file = \"users.txt\"\n[databases]\na = \"pool_mode=statement\"\n", "3 databases.a"),
        ("[users]\nu = \"pool_mode=statement\"\n", "2 users.u"),
    ] {
        let reason = format!("{start}.pool_mode pool_mode statement is not supported");
        one("pgfleet.toml", text, &reason, "transaction or session");
    }
}

#[test]
fn what_only_has_no_effect_is_noted_once() {
    let cases = [
        ("dns_max_ttl = 60", None),
        ("dns_max_ttl = 15", None),
        ("server_tls_sslmode = \"disable\"", None),
        ("server_tls_sslmode = \"prefer\"", None),
        (
            "peer_id = 1",
            Some("peer_id: accepted without effect: the workers of a fleet know each other"),
        ),
        ("service_name = \"x\"", Some("job_name: accepted without effect")),
        ("pkt_buf = 8192", Some("pkt_buf: accepted without effect")),
        ("query_timeout = 5", None),
    ];
    for (line, start) in cases {
        let notes = good("pgfleet.toml", line).notes;
        assert_eq!(notes.len(), usize::from(start.is_some()), "{line}: {notes:?}");
        let line = format!("pgfleet.toml:1: {}", start.unwrap_or_default());
        assert!(notes.iter().all(|note| note.contains(&line)), "{notes:?}");
    }
}
