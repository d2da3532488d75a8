//! The command line is parsed as the help says, and every help reads well.

use clap::{CommandFactory, error::ErrorKind};

use super::*;

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(line.split_whitespace())
}

/// The commands that an operator sees, with those below `config`, as they are typed.
fn commands() -> Vec<Vec<&'static str>> {
    let mut lines: Vec<Vec<&'static str>> = vec![vec![], vec!["config"]];
    for name in [
        "init",
        "start",
        "stop",
        "status",
        "show",
        "scale",
        "reload",
        "restart",
        "pause",
        "resume",
        "enable",
        "disable",
        "reconnect",
        "kill",
        "completions",
        "demo",
    ] {
        lines.push(vec![name]);
    }
    lines.push(vec!["config", "check"]);
    lines.push(vec!["config", "show"]);
    lines
}

fn help(words: &[&str]) -> String {
    let line = std::iter::once("pgfleet").chain(words.iter().copied()).chain(["-h"]);
    let error = Args::try_parse_from(line).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{words:?}");
    error.to_string()
}

#[test]
fn the_definition_is_sound() {
    Args::command().debug_assert();
}

#[test]
fn every_help_has_a_usage_the_global_options_and_examples() {
    for words in commands() {
        let text = help(&words);
        for part in
            ["Usage: pgfleet", "--config <FILE>", "--format <FORMAT>", "--quiet", "--no-color"]
        {
            assert!(text.contains(part), "{words:?} lacks {part}:\n{text}");
        }
        if words != ["config"] {
            assert!(text.contains("Examples:\n  "), "{words:?} has no examples:\n{text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 115),
            "{words:?} is too wide:\n{text}"
        );
    }
}

#[test]
fn commands_that_do_not_exist_yet_are_not_offered() {
    for later in ["top", "bench", "doctor"] {
        assert_eq!(
            parse(&format!("pgfleet {later}")).unwrap_err().kind(),
            ErrorKind::InvalidSubcommand
        );
        assert!(!help(&[]).contains(&format!("\n  {later}")));
    }
    assert!(!help(&[]).contains("detach"));
}

#[test]
fn global_options_stand_before_and_after_the_command() {
    for line in
        ["pgfleet --format json --quiet show pools", "pgfleet show pools --quiet --format json"]
    {
        let args = parse(line).unwrap();
        assert!(args.global.quiet && args.global.format == Format::Json, "{line}");
        assert!(matches!(args.command, Command::Show(Show { what }) if what == "pools"));
    }
}

#[test]
fn init_takes_several_databases() {
    let args = Args::try_parse_from([
        "pgfleet",
        "init",
        "--database",
        "a=host=x",
        "--database",
        "*=",
        "--listen",
        "*:1",
    ]);
    let Command::Init(init) = args.unwrap().command else {
        panic!("not init");
    };
    assert_eq!(init.database.len(), 2);
    assert_eq!((init.listen.port, init.workers), (1, Workers::Auto));
}

#[test]
fn stop_is_fast_and_patient_by_default() {
    let Command::Stop(stop) = parse("pgfleet stop").unwrap().command else {
        panic!("not stop");
    };
    assert_eq!((stop.mode, stop.timeout), (StopMode::Fast, Duration::from_secs(30)));
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let lines = [
        "pgfleet start --workers 0",
        "pgfleet start --workers many",
        "pgfleet stop --mode gently",
        "pgfleet stop --timeout soon",
        "pgfleet scale",
        "pgfleet disable",
        "pgfleet enable a b",
        "pgfleet completions powershell",
        "pgfleet demo --seconds 0",
        "pgfleet init --listen nowhere",
        "pgfleet status --format xml",
        "pgfleet strat",
    ];
    for line in lines {
        let error = parse(line).unwrap_err();
        assert!(error.use_stderr(), "{line}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}
