//! What `init` writes starts as it is, and nothing is lost by running it twice.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use clap::Parser;

use super::*;
use crate::args::{Args, Command};

/// A directory that root's daemon can enter as another user.
fn open_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn run_in(dir: &Path, words: &[&str]) -> Result<(), Failure> {
    let config = dir.join("pgfleet.toml");
    let line = ["pgfleet", "--format", "json", "--config", config.to_str().unwrap(), "init"];
    let args = Args::try_parse_from(line.iter().chain(words)).unwrap();
    let Command::Init(init) = args.command else { panic!("not init") };
    run(&init, &args.global, &Screen::new(&args.global))
}

#[test]
fn what_is_written_has_no_problems_and_belongs_to_its_owner_alone() {
    let dir = open_dir();
    run_in(dir.path(), &["--database", "app=host=10.0.0.5 password='a b'", "--listen", "*:7000"])
        .unwrap();
    let settings = load(&dir.path().join("pgfleet.toml")).unwrap();
    assert_eq!((settings.global.listen_port, settings.databases.len()), (7000, 1));
    assert_eq!(settings.global.logfile, Some(dir.path().join("pgfleet.log")));
    assert_eq!(settings.userlist.keys().collect::<Vec<_>>(), [ADMIN]);
    for name in ["pgfleet.toml", "userlist.txt"] {
        assert_eq!(fs::metadata(dir.path().join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_file_that_is_there_is_replaced_only_with_force_and_a_user_list_never() {
    let dir = open_dir();
    run_in(dir.path(), &[]).unwrap();
    let before = fs::read_to_string(dir.path().join("userlist.txt")).unwrap();
    assert_eq!(run_in(dir.path(), &[]).unwrap_err().code(), 1);
    run_in(dir.path(), &["--force", "--listen", "127.0.0.1:7001"]).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("userlist.txt")).unwrap(), before);
    assert_eq!(load(&dir.path().join("pgfleet.toml")).unwrap().global.listen_port, 7001);
}

#[test]
fn a_database_with_a_problem_leaves_no_file_behind() {
    let dir = open_dir();
    let failure = run_in(dir.path(), &["--database", "app=hots=10.0.0.5"]).unwrap_err();
    assert_eq!(failure.code(), 78);
    assert!(failure.to_string().contains("pgfleet.toml"), "{failure}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_value_is_set_where_its_comment_stands() {
    let text = "# About it.\n#user = \"\"\n\n#users = \"\"\n";
    assert_eq!(set(text, "user", "a\"b"), "# About it.\nuser = \"a\\\"b\"\n\n#users = \"\"\n");
}

#[test]
fn passwords_differ() {
    assert_ne!(password().unwrap(), password().unwrap());
}

#[test]
fn a_directory_that_the_daemon_cannot_enter_is_refused() {
    if !geteuid().is_root() {
        return;
    }
    let dir = open_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let failure = run_in(dir.path(), &[]).unwrap_err();
    assert!(failure.to_string().contains("who cannot enter"), "{failure}");
    assert_eq!((failure.code(), fs::read_dir(dir.path()).unwrap().count()), (1, 0));
}

#[test]
fn an_ini_becomes_a_configuration_with_the_same_settings() {
    let dir = open_dir();
    let users = dir.path().join("users.txt");
    new_file(&users).unwrap().write_all(b"\"app\" \"x\"\n").unwrap();
    let ini = dir.path().join("old.ini");
    let text = format!(
        "[databases]\napp = host=h password=hush\n[pgbouncer]\nunix_socket_dir=/tmp\nauth_file = {}\nmax_client_conn = 250\n",
        users.display()
    );
    new_file(&ini).unwrap().write_all(text.as_bytes()).unwrap();
    run_in(dir.path(), &["--from", ini.to_str().unwrap(), "--from-processes", "4"]).unwrap();
    let made = dir.path().join("pgfleet.toml");
    let settings = load(&made).unwrap();
    assert_eq!(settings.global.max_client_conn, 1000);
    assert_eq!(settings.databases["app"].password.as_ref().unwrap().expose(), "hush");
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o600);
    let again = run_in(dir.path(), &["--from", ini.to_str().unwrap()]).unwrap_err();
    assert!(again.to_string().contains("--force"), "{again}");
}

#[test]
fn an_ini_with_problems_is_not_converted() {
    let dir = open_dir();
    let ini = dir.path().join("old.ini");
    new_file(&ini).unwrap().write_all(b"[pgbouncer]\nSO_REUSEPORT_LB = 1\n").unwrap();
    let failure = run_in(dir.path(), &["--from", ini.to_str().unwrap()]).unwrap_err();
    assert_eq!(failure.code(), 78);
    let told = "old.ini:2: SO_REUSEPORT_LB: unknown key; did you mean so_reuseport?";
    assert!(failure.to_string().contains(told), "{failure}");
    assert!(!dir.path().join("pgfleet.toml").exists());
}
