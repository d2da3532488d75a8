//! Logins at an LDAP server, by rule and by `auth_ldap_options`, against a real slapd.
//! Each test names people that are also users of Postgres, or has the fleet log in as one of its own.
//! `make test` runs them over a real Postgres.

use std::{thread, time::Instant};

use pgfleet_harness::{
    address::Address,
    client::Client,
    cluster::{Cluster, Database},
    directory::{BASE, Directory, SEARCHER},
    failure::Failure,
    fleet::{Fleet, Setup},
    port, wait,
};

const PEOPLE: [(&str, &str); 3] = [("alice", "al1ce"), ("bob", "b0b"), ("alina", "al1na")];

/// A fleet with these options of LDAP, which logs in to Postgres by trust.
fn fleet(database: &Database<'_>, options: &str) -> Setup {
    Fleet::of(database)
        .set("auth_type", "ldap")
        .set("auth_ldap_options", options)
        .database_keys("user=raw")
}

fn simple(directory: &Directory) -> String {
    format!(
        "ldapserver=127.0.0.1 ldapport={} ldapprefix=\"uid=\" ldapsuffix=\",ou=people,{BASE}\"",
        directory.port()
    )
}

fn search(directory: &Directory) -> String {
    let (name, password) = SEARCHER;
    format!(
        "ldapurl=\"ldap://127.0.0.1:{}/{BASE}?uid?sub\" ldapbinddn=\"{name}\" ldapbindpasswd={password}",
        directory.port()
    )
}

fn login(fleet: &Fleet, user: &str, password: &str) -> Result<String, Failure> {
    let escaped = user.replace('\\', "\\\\").replace('\'', "\\'");
    let address = Address { user: escaped, password: Some(password.to_owned()), ..fleet.address() };
    Client::connect(&address).map(|client| client.value("select current_user"))
}

fn refused() -> Result<String, Failure> {
    Err(Failure::new("FATAL", "08P01", "LDAP authentication failed"))
}

#[test]
fn the_password_is_tried_as_the_entry_of_the_user() {
    let (database, directory) = (Cluster::shared().database(), Directory::start(&PEOPLE));
    for options in [simple(&directory), search(&directory)] {
        let fleet = fleet(&database, &options).start();
        assert_eq!(login(&fleet, "alice", "al1ce"), Ok("raw".to_owned()), "{options}");
        assert_eq!(login(&fleet, "alice", "b0b"), refused(), "{options}");
        assert_eq!(login(&fleet, "nobody", "al1ce"), refused(), "{options}");
        let shown = fleet.console("show config");
        let shown = shown.find("key", "auth_ldap_options").expect("it is a setting");
        assert!(!shown.text("value").contains(SEARCHER.1), "{options}");
        let empty = login(&fleet, "alice", "").expect_err("an empty password proves nothing");
        assert_eq!(empty.message, "empty password returned by client");
    }
}

#[test]
fn a_name_can_only_name_itself() {
    let (database, directory) = (Cluster::shared().database(), Directory::start(&PEOPLE));
    for options in [simple(&directory), search(&directory)] {
        let fleet = fleet(&database, &options).start();
        for name in [
            "alice,ou=people",
            "*",
            "al*",
            "alice)(uid=*",
            "alice+cn=alice",
            "\\61lice",
            "#616c696365",
        ] {
            assert_eq!(login(&fleet, name, "al1ce"), refused(), "{name} {options}");
        }
    }
}

#[test]
fn a_filter_of_one_s_own_must_find_one_entry() {
    let (database, directory) = (Cluster::shared().database(), Directory::start(&PEOPLE));
    let (name, password) = SEARCHER;
    let options = |filter: &str| {
        format!(
            "ldapserver=127.0.0.1 ldapport={} ldapbasedn=\"{BASE}\" ldapbinddn=\"{name}\" ldapbindpasswd={password} ldapsearchfilter=\"{filter}\"",
            directory.port()
        )
    };
    let exact = fleet(&database, &options("(&(uid=$username)(objectClass=person))")).start();
    assert_eq!(login(&exact, "bob", "b0b"), Ok("raw".to_owned()));
    let vague = fleet(&database, &options("(uid=$username*)")).start();
    assert_eq!(login(&vague, "bob", "b0b"), Ok("raw".to_owned()));
    assert_eq!(login(&vague, "ali", "al1ce"), refused(), "two entries are found");
}

#[test]
fn a_rule_says_who_logs_in_so_and_the_password_serves_for_postgres_too() {
    let (database, directory) = (Cluster::shared().database(), Directory::start(&PEOPLE));
    database.direct().run("create role bob login password 'b0b'");
    let rules =
        format!("host all bob all ldap {}\nhost all all all scram-sha-256\n", simple(&directory));
    let entry =
        format!("host=127.0.0.1 port={} dbname={}", database.cluster().port(), database.name());
    let fleet = Fleet::of(&database)
        .set("auth_type", "hba")
        .set("verbose", 3)
        .file("auth_hba_file", &rules)
        .database(database.name(), &entry)
        .start();
    for _ in 0..4 {
        assert_eq!(login(&fleet, "bob", "b0b"), Ok("bob".to_owned()));
        assert!(fleet.client().value("select current_user") == "app");
    }
    assert_eq!(login(&fleet, "bob", "al1ce"), refused());
    assert!(!fleet.log().contains("b0b"), "no password is in the log");
}

#[test]
fn a_server_that_is_away_is_passed_over_and_holds_up_nobody_else() {
    let (database, directory) = (Cluster::shared().database(), Directory::start(&PEOPLE));
    let two =
        simple(&directory).replace("ldapserver=127.0.0.1", "ldapserver=\"127.0.0.2 127.0.0.1\"");
    let fleet = fleet(&database, &two).start();
    assert_eq!(login(&fleet, "alice", "al1ce"), Ok("raw".to_owned()));
    let away = format!("ldapserver=127.0.0.1 ldapport={} ldapprefix=x", port::free());
    let fleet = Fleet::of(&database)
        .set("auth_type", "hba")
        .file("auth_hba_file", &format!("host all alice all ldap {away}\nhost all all all trust\n"))
        .start();
    assert_eq!(login(&fleet, "alice", "al1ce"), refused());
    wait::until_true("the reason is logged", || {
        fleet.log().contains("user \"alice\" cannot be checked: LDAP server ldap://127.0.0.1:")
    });
}

#[test]
fn a_server_that_does_not_answer_keeps_no_other_client_waiting() {
    let database = Cluster::shared().database();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port can be bound");
    let port = silent.local_addr().expect("it has an address").port();
    let rules = format!(
        "host all alice all ldap ldapserver=127.0.0.1 ldapport={port} ldapprefix=x\nhost all all all trust\n"
    );
    let fleet = Fleet::of(&database)
        .workers(1)
        .set("auth_type", "hba")
        .set("client_login_timeout", 2)
        .file("auth_hba_file", &rules)
        .start();
    let address = fleet.address().as_user("alice", "al1ce");
    let waiting = thread::spawn(move || Client::connect(&address).map(drop));
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(fleet.client().value("select 1"), "1");
    }
    assert!(begun.elapsed().as_secs() < 2);
    let failure = waiting.join().expect("the login ends").expect_err("nobody answers");
    assert_eq!(failure.message, "client_login_timeout");
}
