//! The table of keys: what holds for every row.

use std::path::PathBuf;

use super::{Ground, good};
use crate::{
    Database, Global, KEYS, Key, Password, PoolMode, Settings, changed_needing_restart, raw::Raw,
};

#[test]
fn each_default_parses_and_shows_back() {
    let defaults = Global::default();
    for key in KEYS {
        let mut global = Global::default();
        global
            .set(key.name, &Raw::text(key.default))
            .unwrap_or_else(|fault| panic!("{}: {fault:?}", key.name));
        let expected = if key.name == "unix_socket_mode" { "511" } else { key.default };
        assert_eq!(global.show(key.name).as_deref(), Some(expected), "{}", key.name);
        assert_eq!(global, defaults);
        assert!(!key.text.is_empty() && key.text.ends_with('.'), "{}", key.name);
    }
    assert_eq!(defaults.show("no_such_key"), None);
}

#[test]
fn what_is_shown_reads_back() {
    let mut global = Global::default();
    let values = [
        ("unix_socket_mode", "0640"),
        ("query_timeout", "1.5min"),
        ("workers", "50%"),
        ("listen_addr", "a,b"),
    ];
    for (key, value) in values {
        global.set(key, &Raw::text(value)).unwrap();
        let shown = global.show(key).unwrap();
        let before = global.clone();
        global.set(key, &Raw::text(&shown)).unwrap();
        assert_eq!(global, before);
    }
    assert_eq!(global.show("query_timeout").as_deref(), Some("90"));
    assert_eq!(global.show("log_stats").as_deref(), Some("1"));
}

#[test]
fn names_are_unique_and_limits_are_marked() {
    for (index, key) in KEYS.iter().enumerate() {
        assert!(KEYS.iter().skip(index + 1).all(|other| other.name != key.name), "{}", key.name);
    }
    let limits: Vec<_> = KEYS.iter().filter(|key| key.limit).map(|key| key.name).collect();
    assert_eq!(limits.len(), 8, "{limits:?}");
    assert_eq!(Key::of("query_timeout").unwrap().unit, "s");
    assert_eq!(Key::of("tcp_user_timeout").unwrap().unit, "ms");
}

#[test]
fn settings_travel_over_the_link() {
    let settings = good(
        "pgfleet.toml",
        "auth_file = \"users.txt\"\nquery_timeout = \"250ms\"\n[databases]\na = \"host=h password=x\"\n\"*\" = \"\"\n[users.u]\npool_size = 3\n",
    );
    let bytes = postcard::to_stdvec(&settings).unwrap();
    assert_eq!(postcard::from_bytes::<Settings>(&bytes).unwrap(), settings);
}

#[test]
fn secrets_are_never_printed() {
    let ground = Ground::new();
    let text = "auth_file = \"users.txt\"\nauth_ldap_options = \"ldapbindpasswd=hush\"\n[databases]\na = \"host=h password=hush\"\n";
    ground.file("users.txt", "\"app\" \"hush\"\n");
    let settings = ground.load("pgfleet.toml", text).unwrap();
    assert_eq!(settings.databases["a"].password.as_ref().map(Password::expose), Some("hush"));
    assert_eq!(settings.userlist["app"], "hush");
    assert!(!format!("{settings:?}").contains("hush"));
    assert_eq!(settings.global.show("auth_ldap_options").as_deref(), Some("***"));
}

#[test]
fn only_changes_that_need_a_restart_are_named() {
    let old = Settings::default();
    let mut new = old.clone();
    new.global.listen_port = 7000;
    new.global.pool_mode = PoolMode::Transaction;
    new.global.runtime_dir = Some(PathBuf::from("/elsewhere"));
    let waiting: Vec<_> =
        changed_needing_restart(&old, &new).iter().map(ToString::to_string).collect();
    let later = "it takes effect when the fleet is started anew";
    let expected = [
        format!("listen_port has changed from \"6432\" to \"7000\"; {later}"),
        format!("runtime_dir has changed from \"auto\" to \"/elsewhere\"; {later}"),
    ];
    assert_eq!(waiting, expected);
    assert!(changed_needing_restart(&old, &old).is_empty());
}

#[test]
fn a_listed_database_key_can_be_set() {
    for key in Database::KEYS {
        let value = match *key {
            "pool_mode" => "session",
            "load_balance_hosts" => "disable",
            _ => "1",
        };
        assert!(Database::new("d").set(key, &Raw::text(value)).is_ok(), "{key}");
    }
    for key in crate::User::KEYS {
        let value = if *key == "pool_mode" { "session" } else { "1" };
        assert!(crate::User::new("u").set(key, &Raw::text(value)).is_ok(), "{key}");
    }
}
