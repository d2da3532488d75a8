//! The environment above the file.

use super::{Ground, brief};
use crate::Workers;

#[test]
fn a_variable_beats_the_file() {
    let mut ground = Ground::new();
    ground.variables = vec![
        ("PGFLEET_LISTEN_PORT", "7000"),
        ("PGFLEET_WORKERS", "50%"),
        ("PGFLEET_ADMIN_USERS", "a,b"),
    ];
    for (name, text) in [
        ("p.toml", "listen_port = 6000\nverbose = 1\n"),
        ("p.ini", "[pgbouncer]\nlisten_port=6000\nverbose=1\n"),
    ] {
        let global = ground.load(name, text).unwrap().global;
        assert_eq!(
            (global.listen_port, global.verbose, global.workers),
            (7000, 1, Workers::Percent(50))
        );
        assert_eq!(global.admin_users, ["a", "b"]);
    }
}

#[test]
fn a_bad_variable_is_named_as_one() {
    let mut ground = Ground::new();
    ground.variables = vec![("PGFLEET_LISTEN_PORT", "many")];
    let problems = ground.load("p.toml", "listen_port = 6000\n").unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].file, None);
    assert!(brief(&problems[0]).starts_with("- PGFLEET_LISTEN_PORT must be a port"));
    assert!(problems[0].to_string().starts_with("PGFLEET_LISTEN_PORT: must be a port"));
}

#[test]
fn other_variables_are_left_alone() {
    let mut ground = Ground::new();
    ground.variables = vec![
        ("PGFLEET_CONFIG", "/x"),
        ("PGFLEET_BIN_DIR", "/y"),
        ("PGFLEET_SERVICE_HOST", "10.0.0.1"),
        ("PGFLEETISH", "1"),
        ("PATH", "/bin"),
        ("PGFLEET_A[99999999]", "1"),
        ("PGFLEET_LISTEN_PRT", "1"),
    ];
    let notes = ground.load("p.toml", "").unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].ends_with("did you mean PGFLEET_LISTEN_PORT?"));
}

#[test]
fn an_empty_variable_is_an_empty_value() {
    let mut ground = Ground::new();
    ground.variables = vec![("PGFLEET_SERVER_RESET_QUERY", "")];
    assert_eq!(ground.load("p.toml", "").unwrap().global.server_reset_query, "");
}
