//! The sample file loads as it is.

use super::{Ground, good};
use crate::{AuthType, KEYS, PoolMode, SampleOptions, Settings, Workers, sample};

#[test]
fn a_bare_sample_loads_with_the_defaults() {
    let settings = good("pgfleet.toml", &sample(&SampleOptions::default()));
    let Settings { global, notes, .. } = good("pgfleet.toml", "");
    assert!(notes.is_empty() && settings.notes.is_empty());
    for key in KEYS.iter().filter(|key| key.name != "conffile") {
        assert_eq!(settings.global.show(key.name), global.show(key.name), "{}", key.name);
    }
}

#[test]
fn what_the_options_say_is_set() {
    let ground = Ground::new();
    let options = SampleOptions {
        databases: vec![
            ("my app".to_owned(), "host=h password='a\"b\\c'".to_owned()),
            ("*".to_owned(), "host=z".to_owned()),
        ],
        listen: Some(("127.0.0.1".to_owned(), 7432)),
        workers: Some(Workers::Percent(50)),
        auth_type: AuthType::ScramSha256,
        auth_file: Some(ground.path("users.txt")),
        admin_users: vec!["anna".to_owned(), "bert".to_owned()],
        runtime_dir: Some("/run/elsewhere".into()),
        pool_mode: PoolMode::Transaction,
    };
    let settings = ground.load("pgfleet.toml", &sample(&options)).unwrap();
    let global = &settings.global;
    assert_eq!(
        (global.listen_port, global.workers, global.pool_mode),
        (7432, Workers::Percent(50), PoolMode::Transaction)
    );
    assert_eq!((global.admin_users.len(), global.auth_type), (2, AuthType::ScramSha256));
    assert_eq!(settings.databases["my app"].password.as_ref().unwrap().expose(), "a\"b\\c");
    assert_eq!(settings.fallback.unwrap().hosts, ["z"]);
}

#[test]
fn every_default_in_it_is_valid() {
    let text = sample(&SampleOptions::default());
    for key in KEYS.iter().filter(|key| text.contains(&format!("\n#{} = ", key.name))) {
        let line =
            text.lines().find(|line| line.starts_with(&format!("#{} = ", key.name))).unwrap();
        good("pgfleet.toml", &line[1..]);
    }
    assert!(text.contains("\n#listen_port = 6432\n") && text.contains("\n#workers = \"auto\"\n"));
}
