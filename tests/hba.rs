//! Who gets in by the rules of `auth_hba_file`, and what those who do not are told.
//! What each rule is for is tested with the parser; here the rules meet sockets, workers and reloads.
//! `make test` runs them over a real Postgres.

use std::process::Command;

use pgfleet_harness::{
    address::Address,
    client::Client,
    cluster::{Cluster, Database, PASSWORD},
    failure::Failure,
    fleet::{Fleet, Setup},
    wait,
};

/// A fleet with these rules, which logs in to Postgres by trust.
fn fleet(database: &Database<'_>, rules: &str) -> Setup {
    Fleet::of(database)
        .set("auth_type", "hba")
        .file("auth_hba_file", rules)
        .database_keys("user=raw")
}

fn login(address: &Address) -> Result<String, Failure> {
    Client::connect(address).map(|client| client.value("select 'in'"))
}

fn refused(text: &str) -> Result<String, Failure> {
    Err(Failure::new("FATAL", "08P01", text))
}

fn inside() -> Result<String, Failure> {
    Ok("in".to_owned())
}

/// Waits for the log to say so.
fn logged(fleet: &Fleet, text: &str) {
    wait::until_true(&format!("it is logged that {text}"), || fleet.log().contains(text));
}

/// The user that runs this test.
fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id says who runs this");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn each_rule_has_its_method_and_the_first_one_counts() {
    let database = Cluster::shared().database();
    let rules = "host all raw 127.0.0.1/32 trust\nhost all stats all reject\nlocal all all trust\n\
                 host all plain 0.0.0.0/0 password\nhost all md5user all md5\n\
                 host all app 127.0.0.0 255.0.0.0 scram-sha-256\n";
    let fleet = fleet(&database, rules).start();
    let tcp = fleet.address();
    for (user, password, expected) in [
        ("raw", "anything", inside()),
        ("stats", "st4ts", refused("login rejected")),
        ("plain", PASSWORD, inside()),
        ("plain", "wrong", refused("password authentication failed")),
        ("md5user", PASSWORD, inside()),
        ("md5user", "wrong", refused("password authentication failed")),
        ("app", PASSWORD, inside()),
        ("app", "wrong", refused("SASL authentication failed")),
        ("admin", "adm1n", refused("no authentication method is found")),
    ] {
        assert_eq!(login(&tcp.as_user(user, password)), expected, "{user} {password}");
    }
    assert_eq!(login(&fleet.unix_address().as_user("stats", "")), inside());
    logged(&fleet, "login rejected: no rule of auth_hba_file is for it");
}

#[test]
fn trust_needs_a_known_user_here_too() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "host all all all trust\n").start();
    let stranger = fleet.address().as_user("nobody_knows", "x");
    assert_eq!(login(&stranger), refused("\"trust\" authentication failed"));
}

#[test]
fn databases_are_told_apart() {
    let database = Cluster::shared().database();
    let rules =
        format!("host {} app all scram-sha-256\nhost sameuser all all trust\n", database.name());
    let app = format!(
        "{} user=raw",
        pgfleet_harness::fleet::setup::entry(database.cluster(), database.name())
    );
    let fleet = fleet(&database, &rules).database("raw", &app).database("other", &app).start();
    let address = fleet.address();
    assert_eq!(login(&address), inside());
    assert_eq!(login(&address.in_database("other")), refused("no authentication method is found"));
    assert_eq!(login(&address.in_database("raw").as_user("raw", "x")), inside());
    assert_eq!(
        login(&address.in_database("other").as_user("raw", "x")),
        refused("no authentication method is found")
    );
}

#[test]
fn a_peer_is_who_runs_it_or_who_a_map_lets_it_be() {
    let database = Cluster::shared().database();
    let me = me();
    let maps = format!("people {me} app\npeople /^{}(.*)$ raw\\1\n", me);
    let fleet = fleet(&database, "local all plain peer\nlocal all all peer map=people\n")
        .file("auth_ident_file", &maps)
        .secret(&me, "")
        .start();
    let unix = fleet.unix_address();
    assert_eq!(login(&unix.as_user("app", "")), inside());
    assert_eq!(login(&unix.as_user("raw", "")), inside());
    assert_eq!(login(&unix.as_user("md5user", "")), refused("unix socket login rejected"));
    assert_eq!(login(&unix.as_user("plain", "")), refused("unix socket login rejected"));
    logged(&fleet, &format!("peer \"{me}\" may not log in as \"plain\""));
}

#[test]
fn the_console_is_a_database_like_others() {
    let database = Cluster::shared().database();
    let fleet =
        fleet(&database, "host pgbouncer admin all scram-sha-256\nhost all all all reject\n")
            .start();
    let console = fleet.address().in_database("pgbouncer");
    assert_eq!(login(&console.as_user("admin", "wrong")), refused("SASL authentication failed"));
    let stats = login(&console.as_user("stats", "st4ts"));
    assert_eq!(stats, refused("login rejected"));
    let admin =
        Client::connect(&console.as_user("admin", "adm1n")).expect("the rule lets admin in");
    assert!(!admin.rows("show version").expect("the console answers").is_empty());
}

#[test]
fn rules_change_with_a_reload_on_every_worker() {
    let database = Cluster::shared().database();
    let mut fleet = fleet(&database, "host all all all scram-sha-256\n").workers(3).start();
    assert_eq!(login(&fleet.address()), inside());
    fleet.rewrite(|setup| setup.file("auth_hba_file", "host all app all reject\n"));
    fleet.reload();
    for _ in 0..9 {
        assert_eq!(login(&fleet.address()), refused("login rejected"));
    }
}

#[test]
fn a_faulty_file_changes_nothing_and_is_told_with_line_and_column() {
    let database = Cluster::shared().database();
    let mut fleet = fleet(&database, "host all all all scram-sha-256\n").start();
    fleet.rewrite(|setup| {
        setup.file("auth_hba_file", "host all all all trst\nhost all all 10.0.0.300/8 md5\n")
    });
    let printed = fleet.command(&["reload"]);
    let text = format!("{}{}", printed.out, printed.err) + &fleet.log();
    assert!(
        text.contains("auth_hba_file:1: column 18: unknown method \"trst\"; did you mean trust?"),
        "{text}"
    );
    assert!(text.contains("auth_hba_file:2: column 14: \"10.0.0.300/8\" is no address"), "{text}");
    assert_eq!(
        login(&fleet.address().as_user("app", "wrong")),
        refused("SASL authentication failed")
    );
    assert_eq!(login(&fleet.address()), inside());
}

#[test]
fn a_database_that_is_not_there_is_told_by_rule_and_after_login() {
    let database = Cluster::shared().database();
    let fleet = fleet(&database, "host all all all scram-sha-256\n").start();
    let nowhere = fleet.address().in_database("nowhere");
    assert_eq!(login(&nowhere), refused("no such database: nowhere"));
    assert_eq!(login(&nowhere.as_user("app", "wrong")), refused("SASL authentication failed"));
}
