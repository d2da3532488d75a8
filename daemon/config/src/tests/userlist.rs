//! The auth file.

use super::{Ground, brief, permit};

const TOML: &str = "auth_file = \"users.txt\"\n";

#[test]
fn users_are_read_as_in_pgbouncer() {
    let ground = Ground::new();
    let text = "; comment\n\n\"a\" \"plain\"\n  \"b\"\t\"md5abc\"  ignored\n\"q\"\"uote\" \"se\"\"cret\"\n\"a\" \"later\"\n\"none\" \"\"\n";
    ground.file("users.txt", text);
    let users = ground.load("p.toml", TOML).unwrap().userlist;
    assert_eq!(users.len(), 4);
    assert_eq!((users["a"].as_str(), users["b"].as_str()), ("later", "md5abc"));
    assert_eq!((users["q\"uote"].as_str(), users["none"].as_str()), ("se\"cret", ""));
}

#[test]
fn each_bad_line_is_named_without_its_secret() {
    let ground = Ground::new();
    ground.file(
        "users.txt",
        "a hush\n\"ok\" \"x\"\n\"b\" hush\n\"c\" \"hush\n\"\" \"hush\"\n# hush\n",
    );
    let problems = ground.load("p.toml", TOML).unwrap_err();
    assert_eq!(
        problems.iter().map(|problem| problem.line).collect::<Vec<_>>(),
        [1, 3, 4, 5, 6].map(Some)
    );
    assert!(problems.iter().all(|problem| problem.file == Some(ground.path("users.txt"))));
    assert!(!problems.iter().map(brief).collect::<String>().contains("hush"));
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let ground = Ground::new();
    for (mode, fine) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
        permit(&ground.path("users.txt"), mode);
        assert_eq!(ground.load("p.toml", TOML).is_ok(), fine, "{mode:o}");
    }
    let problems = ground.load("p.toml", TOML).unwrap_err();
    assert_eq!(problems[0].remedy, format!("run chmod 600 {}", ground.path("users.txt").display()));
}

#[test]
fn a_missing_file_is_a_problem() {
    let problems = Ground::new().load("p.toml", "auth_file = \"none.txt\"\n").unwrap_err();
    assert!(
        problems[0].to_string().contains("none.txt: cannot read the auth file"),
        "{problems:?}"
    );
}
