//! The rules of `auth_hba_file` and the maps of `auth_ident_file`: what they say yes to, and what is wrong with them.

use std::{fs, path::Path};

use super::*;

fn rules(text: &str) -> Vec<Rule> {
    let mut problems = Vec::new();
    let lines = tokens::lines(Path::new("hba"), text, &mut problems);
    let rules = lines
        .into_iter()
        .filter_map(|line| line::rule(Path::new("hba"), line, &mut problems))
        .collect();
    assert_eq!(problems, [], "{text}");
    rules
}

fn problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for line in tokens::lines(Path::new("hba"), text, &mut problems) {
        let rule = line::rule(Path::new("hba"), line, &mut problems);
        assert_eq!(rule, None, "{text}");
    }
    problems.iter().map(ToString::to_string).collect()
}

fn maps(text: &str) -> Vec<IdentMap> {
    let mut problems = Vec::new();
    let lines = tokens::lines(Path::new("ident"), text, &mut problems);
    let maps = lines
        .into_iter()
        .filter_map(|line| ident::map(Path::new("ident"), line, &mut problems))
        .collect();
    assert_eq!(problems, [], "{text}");
    maps
}

fn peer(text: &str) -> Peer {
    match text.split_once(' ') {
        None => Peer::Unix,
        Some(("tls", address)) => Peer::Tls(address.parse().unwrap()),
        Some((_, address)) => Peer::Tcp(address.parse().unwrap()),
    }
}

/// Rules, where from, database (none for physical replication), user, and the line that is for it.
#[test]
fn the_first_rule_that_is_for_a_client_counts() {
    let lab = "host all raw 127.0.0.1/32 trust\nhost replication raw 127.0.0.1/32 trust\nlocal all all trust\nhost all all 0.0.0.0/0 scram-sha-256\nhost replication all 0.0.0.0/0 scram-sha-256\n";
    let mixed = "hostssl a,\"all\" u 10.0.0.0 255.0.0.0 cert map=m\nhostnossl all all all reject\nhost sameuser all ::1/128 md5\n# nothing\nhost all \"u 2\" 0.0.0.0/0 password\n";
    let table = [
        (lab, "tcp 127.0.0.1", Some("bench"), "raw", Some(1)),
        (lab, "tcp 127.0.0.2", Some("bench"), "raw", Some(4)),
        (lab, "tcp 127.0.0.1", None, "raw", Some(2)),
        (lab, "tcp 127.0.0.1", None, "app", Some(5)),
        (lab, "unix", Some("bench"), "app", Some(3)),
        (lab, "unix", None, "app", None),
        (lab, "tcp ::1", Some("bench"), "app", None),
        (lab, "tcp ::ffff:127.0.0.1", Some("bench"), "raw", Some(1)),
        (mixed, "tls 10.9.8.7", Some("a"), "u", Some(1)),
        (mixed, "tls 10.9.8.7", Some("all"), "u", Some(1)),
        (mixed, "tls 10.9.8.7", Some("b"), "u", None),
        (mixed, "tls 11.9.8.7", Some("a"), "u", None),
        (mixed, "tcp 10.9.8.7", Some("a"), "u", Some(2)),
        (mixed, "tls ::1", Some("u"), "u", Some(3)),
        (mixed, "tls ::1", Some("v"), "u", None),
        (mixed, "tls 1.2.3.4", Some("x"), "u 2", Some(5)),
        (mixed, "unix", Some("x"), "u", None),
    ];
    for (text, from, database, user, line) in table {
        let request = Request { peer: peer(from), database, user };
        let found = rule_for(&rules(text), &request).map(|rule| rule.line);
        assert_eq!(found, line, "{from} {database:?} {user}");
    }
}

#[test]
fn a_mask_may_be_bits_or_an_address_and_own_addresses_have_a_word() {
    let in_rule = |address: &str, from: &str| {
        let rules = rules(&format!("host all all {address} trust"));
        rule_for(&rules, &Request { peer: peer(from), database: Some("d"), user: "u" }).is_some()
    };
    for (address, inside, outside) in [
        ("192.168.4.0/22", "tcp 192.168.7.255", "tcp 192.168.8.0"),
        ("192.168.4.0 255.255.252.0", "tcp 192.168.7.255", "tcp 192.168.8.0"),
        ("2001:db8::/33", "tcp 2001:db8:7fff::1", "tcp 2001:db8:8000::"),
        ("samehost", "tcp 127.0.0.1", "tcp 127.0.0.2"),
        ("samenet", "tcp 127.3.2.1", "tcp 203.0.113.77"),
        ("0.0.0.0/0", "tcp 9.9.9.9", "tcp ::1"),
    ] {
        assert!(in_rule(address, inside), "{address} {inside}");
        assert!(!in_rule(address, outside), "{address} {outside}");
    }
    assert!(in_rule("all", "tcp ::1") && in_rule("all", "tcp 1.1.1.1"));
}

#[test]
fn every_problem_has_line_column_reason_and_remedy() {
    let text = "locl all all trust\nhost all all 10.0.0.0/33 trust\nhost all all 10.0.0.1 trust\nlocal all\nlocal all all trst\nhost all all all peer\nlocal samerole +staff trust\nlocal all all trust map=x\nlocal all \"u trust\nhost all all h.example.com md5\nlocal all all ldap ldapserver=h\n";
    let expected = [
        "hba:9: column 11: the quote is not closed; write the second \"",
        "hba:1: column 1: unknown type of connection \"locl\"; did you mean local?",
        "hba:2: column 14: \"10.0.0.0/33\" is no address; write",
        "hba:3: column 14: address 10.0.0.1 has no mask; write 10.0.0.1/32",
        "hba:4: column 10: the user is missing; write local DATABASE USER METHOD",
        "hba:4: column 10: the method is missing; write local",
        "hba:5: column 15: unknown method \"trst\"; did you mean trust?",
        "hba:6: column 18: peer is for Unix sockets alone; begin the line with local",
        "hba:7: column 7: samerole is not supported: only Postgres knows",
        "hba:7: column 16: +staff is not supported: only Postgres knows",
        "hba:8: column 21: map= is for peer and cert alone; remove it",
        "hba:10: column 14: \"h.example.com\" is no address; write an address",
        "hba:11: column 15: the method ldap does not say how a user's entry is named; write",
    ];
    let found = problems(text);
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
}

#[test]
fn names_come_from_files_too_and_no_file_includes_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hba");
    fs::write(&file, "local @dbs @users trust\nlocal x,@loop all trust\n").unwrap();
    fs::write(dir.path().join("dbs"), "a, b # no c\n\"all\"\n").unwrap();
    fs::write(dir.path().join("users"), "u\n@dbs\n").unwrap();
    fs::write(dir.path().join("loop"), "@loop\n").unwrap();
    let mut problems = Vec::new();
    let rules = read_rules(&file, &mut problems);
    let is_for = |database, user| {
        rule_for(&rules, &Request { peer: Peer::Unix, database: Some(database), user }).is_some()
    };
    assert!(is_for("a", "u") && is_for("b", "a") && is_for("all", "b"));
    assert!(!is_for("c", "u") && !is_for("a", "c") && is_for("x", "u"));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].reason.contains("included more than 10 files deep"), "{problems:?}");
}

#[test]
fn a_map_says_who_may_be_whom() {
    let maps = maps(
        "m alice app\nm \"bob b\" \"all\"\nm /^(.*)@example\\.com$ \\1\nadmin root all\nodd /^x(y)?$ u\\1\n",
    );
    let table = [
        (Some("m"), "alice", "app", true),
        (Some("m"), "alice", "alice", false),
        (Some("m"), "bob b", "all", true),
        (Some("m"), "bob b", "app", false),
        (Some("m"), "carol@example.com", "carol", true),
        (Some("m"), "carol@example.com", "app", false),
        (Some("m"), "carol@example.org", "carol", false),
        (Some("admin"), "root", "anyone", true),
        (Some("odd"), "x", "u", true),
        (Some("missing"), "alice", "app", false),
        (None, "app", "app", true),
        (None, "alice", "app", false),
    ];
    for (map, system, user, allowed) in table {
        assert_eq!(IdentMap::allows(&maps, map, system, user), allowed, "{map:?} {system} {user}");
    }
}

#[test]
fn faults_of_a_map_are_told() {
    let mut problems = Vec::new();
    for line in tokens::lines(Path::new("i"), "m /( u\nm /a \\1\nm a\n", &mut Vec::new()) {
        assert_eq!(ident::map(Path::new("i"), line, &mut problems), None);
    }
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(texts[0].starts_with("i:1: column 3: the pattern is not understood: unclosed group; "));
    assert!(texts[1].starts_with("i:2: column 6: \\1 is used, but the pattern captures nothing; "));
    assert!(texts[2].starts_with("i:3: column 4: there are 2 words where three belong; "));
}

#[test]
fn ldap_options_say_where_and_how() {
    let simple =
        read_ldap_options("ldapserver=h ldapport=3890 ldapprefix=\"uid=\" ldapsuffix=\",dc=x\"")
            .unwrap();
    assert_eq!(simple.urls, ["ldap://h:3890"]);
    let LdapFind::Simple { prefix, suffix } = simple.find else { unreachable!() };
    assert_eq!((prefix.as_str(), suffix.as_str()), ("uid=", ",dc=x"));
    let url = read_ldap_options(
        "ldapurl=\"ldap://127.0.0.1:12345/dc=x,dc=y?cn?sub\" ldapbinddn=\"cn=a\" ldapbindpasswd=s3",
    )
    .unwrap();
    assert_eq!(url.urls, ["ldap://127.0.0.1:12345"]);
    let shown = format!("{url:?}");
    assert!(!shown.contains("s3"), "{shown}");
    let LdapFind::Search { base, scope, filter, bind } = url.find else { unreachable!() };
    assert_eq!(
        (base.as_str(), scope, filter.as_str()),
        ("dc=x,dc=y", LdapScope::Subtree, "(cn=$username)")
    );
    assert_eq!(bind.unwrap().0, "cn=a");
    for (text, reason) in [
        ("ldapserver=h", "the method ldap does not say how a user's entry is named"),
        ("ldapprefix=a", "the method ldap needs a server"),
        ("ldapserver=h ldapprefix=a ldapbasedn=b", "ldapprefix and ldapsuffix cannot be combined"),
        ("ldapurl=http://x", "the scheme of ldapurl must be ldap or ldaps"),
        ("ldapport=x", "the LDAP port is no number"),
        ("colour=red", "unknown LDAP option \"colour\""),
    ] {
        let fault = read_ldap_options(text).unwrap_err();
        assert!(fault.reason.starts_with(reason), "{text}: {}", fault.reason);
    }
}
