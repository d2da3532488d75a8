//! Every kind of problem in TOML, each with its line.

use super::{Ground, bad, one, permit};

fn toml(text: &str, start: &str, part: &str) {
    one("pgfleet.toml", text, start, part);
}

#[test]
fn unknown_names_come_with_a_guess() {
    toml(
        "\ndefault_pol_size = 5\n",
        "2 default_pol_size unknown key",
        "did you mean default_pool_size?",
    );
    toml("Pool-Mode = \"session\"\n", "1 Pool-Mode unknown key", "did you mean pool_mode?");
    toml("colour = 1\n", "1 colour unknown key", "remove it");
    toml("[database]\nx = \"\"\n", "1 database unknown section", "did you mean [databases]?");
    toml("[pgbouncer]\npool_mode = \"session\"\n", "1 pgbouncer unknown section", "at the top");
    toml(
        "[users.u]\npool_sise = 1\n",
        "2 users.u.pool_sise unknown key",
        "did you mean pool_size?",
    );
    toml(
        "pool_mode = \"transction\"\n",
        "1 pool_mode must be one of",
        "did you mean \"transaction\"?",
    );
}

#[test]
fn contradictions_are_found() {
    toml(
        "unix_socket_dir = \"\"\n",
        "- listen_addr there is nothing to listen on",
        "set listen_addr",
    );
    toml(
        "\nmin_pool_size = 21\n",
        "2 min_pool_size 21 is more than default_pool_size = 20",
        "20 or less",
    );
    let own = "auth_file = \"users.txt\"\n[databases]\na = \"pool_size=5 min_pool_size=6\"\n";
    toml(own, "3 databases.a.min_pool_size the minimum of 6 is more than the pool size of 5", "");
    toml(
        "auth_type = \"any\"\n[databases]\na = \"host=h\"\nb = \"user=u\"\n",
        "3 databases.a with auth_type any",
        "user=",
    );
    toml(
        "[databases]\na = \"host=h\"\n",
        "- auth_file auth_type md5 needs a file",
        "set auth_file",
    );
    let reserved = "auth_file = \"users.txt\"\n[databases.pgfleet]\n";
    toml(reserved, "2 databases.pgfleet this name is reserved", "dbname=");
    let long = format!("runtime_dir = \"/{}\"\nunix_socket_dir = \"/tmp\"\n", "x".repeat(90));
    toml(
        &long,
        "1 runtime_dir the path of the socket .s.PGSQL.6432 in it has 113 bytes",
        "shorter",
    );
    toml(
        "workers = 30\n",
        "- default_pool_size 20 cannot be divided over 30 workers",
        "use at most 20 workers, or set it to 0",
    );
}

#[test]
fn a_minimum_without_a_limit_is_fine() {
    super::good("pgfleet.toml", "default_pool_size = 0\nmin_pool_size = 50\n");
}

#[test]
fn invalid_toml_is_one_problem_with_its_line() {
    toml("verbose = 1\npool_mode = session\n", "2 - not valid TOML", "quotes");
    toml("verbose = 1\nverbose = 2\n", "2 - not valid TOML", "");
    toml("[databases\n", "1 - not valid TOML", "");
}

#[test]
fn connection_strings_are_refused_without_their_secrets() {
    let text = "auth_file = \"users.txt\"\n[databases]\na = \"host=h password='hush\"\n";
    toml(text, "3 databases.a the quoted value of password does not end", "");
    let url = "auth_file = \"users.txt\"\n[databases]\na = \"postgres://u:hush@h/d\"\n";
    toml(url, "3 databases.a must be keys and values, not a URL", "host=...");
    let number = "auth_file = \"users.txt\"\n[databases.a]\npassword = 12345\n";
    toml(number, "3 databases.a.password must be a string, not a number", "");
    assert!(!bad("pgfleet.toml", text).concat().contains("hush"));
    assert!(!bad("pgfleet.toml", number).concat().contains("12345"));
}

#[test]
fn a_file_with_a_password_must_not_be_open_to_others() {
    let ground = Ground::new();
    let text = "auth_file = \"users.txt\"\n[databases]\n\na = \"password=x\"\nb = \"password=y\"\n";
    let path = ground.file("pgfleet.toml", text);
    permit(&path, 0o640);
    assert!(crate::load(&path).is_ok());
    permit(&path, 0o644);
    let problems = crate::load(&path).unwrap_err();
    assert_eq!((problems.len(), problems[0].line), (1, Some(4)));
    assert!(problems[0].remedy.contains("chmod 640"));
    let open = ground.file("open.toml", "auth_file = \"users.txt\"\n[databases]\na = \"host=h\"\n");
    permit(&open, 0o644);
    assert!(crate::load(&open).is_ok());
}

#[test]
fn all_problems_come_at_once_and_in_order() {
    let text = "verbos = 1\nlisten_port = 0\nlimit_mode = \"shared\"\nmin_pool_size = 99\n[databases]\npgbouncer = \"\"\na = \"port=x colour=red\"\n";
    let found = bad("pgfleet.toml", text);
    let starts: Vec<_> =
        found.iter().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "- auth_file",
        "1 verbos",
        "2 listen_port",
        "3 limit_mode",
        "4 min_pool_size",
        "6 databases.pgbouncer",
        "7 databases.a.colour",
        "7 databases.a.port",
    ];
    assert_eq!(starts, expected, "{found:#?}");
}

#[test]
fn a_problem_prints_as_one_line() {
    let problems = Ground::new().load("pgfleet.toml", "\nverbose = \"loud\"\n").unwrap_err();
    let text = problems[0].to_string();
    let expected = "pgfleet.toml:2: verbose: must be a whole number from 0 to 2147483647, not \"loud\"; write, for example, 20";
    assert!(text.ends_with(expected) && text.starts_with('/'), "{text}");
}
