//! The statements of the console, as text.
//!
//! It reads a statement: which command, about what. It never runs one and does not know who asks. `command`
//! calls it.

use pgfleet_config::Workers;

use super::input::Refusal;
use crate::link::switches::Scope;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Show(Show),
    Set { key: String, value: String },
    Reload,
    Scale(Workers),
    Restart,
    Shutdown(Wait),
    Pause(Scope),
    Resume(Scope),
    Suspend,
    Disable(String),
    Enable(String),
    Reconnect(Scope),
    WaitClose(Scope),
    Kill(Scope),
    KillClient(i64),
}

/// What SHUTDOWN waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Nothing,
    Servers,
    Clients,
    /// Ours: like servers, but a session does not keep its server beyond a transaction.
    Transactions,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Help,
    Version,
    Fleet,
    Workers,
    Databases,
    Pools,
    PeerPools,
    Peers,
    Clients,
    Servers,
    Sockets,
    ActiveSockets,
    Fds,
    Stats,
    StatsTotals,
    StatsAverages,
    Totals,
    Lists,
    Config,
    Users,
    Mem,
    DnsHosts,
    DnsZones,
    State,
}

const SHOWS: [(&str, Show); 24] = [
    ("help", Show::Help),
    ("version", Show::Version),
    ("fleet", Show::Fleet),
    ("workers", Show::Workers),
    ("databases", Show::Databases),
    ("pools", Show::Pools),
    ("peer_pools", Show::PeerPools),
    ("peers", Show::Peers),
    ("clients", Show::Clients),
    ("servers", Show::Servers),
    ("sockets", Show::Sockets),
    ("active_sockets", Show::ActiveSockets),
    ("fds", Show::Fds),
    ("stats", Show::Stats),
    ("stats_totals", Show::StatsTotals),
    ("stats_averages", Show::StatsAverages),
    ("totals", Show::Totals),
    ("lists", Show::Lists),
    ("config", Show::Config),
    ("users", Show::Users),
    ("mem", Show::Mem),
    ("dns_hosts", Show::DnsHosts),
    ("dns_zones", Show::DnsZones),
    ("state", Show::State),
];

/// The commands that only an admin may give.
const COMMANDS: [&str; 14] = [
    "set",
    "reload",
    "scale",
    "restart",
    "shutdown",
    "pause",
    "resume",
    "suspend",
    "disable",
    "enable",
    "reconnect",
    "wait_close",
    "kill",
    "kill_client",
];

/// Whether the first word is a command that changes something.
pub(crate) fn is_command(text: &str) -> bool {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let bare = first.trim_end_matches(';').to_ascii_lowercase();
    COMMANDS.contains(&bare.as_str())
}

/// Reads a statement: any case, with or without its semicolon, at most one word after the command. A word may
/// stand in quotes, and keeps its case then and otherwise.
pub(crate) fn parse(text: &str) -> Result<Statement, Refusal> {
    let bare = text.trim().trim_end_matches(';').trim_end();
    let (command, rest) = bare.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((bare, ""));
    let command = command.to_ascii_lowercase();
    let rest = rest.trim();
    if command == "set" {
        return set(rest).ok_or_else(|| invalid(text));
    }
    let word = if rest.is_empty() { None } else { Some(word(rest).ok_or_else(|| invalid(text))?) };
    named(&command, word).unwrap_or_else(|| Err(invalid(text)))
}

fn invalid(text: &str) -> Refusal {
    let shown: String = text.trim().chars().take(200).collect();
    Refusal::protocol(format!("invalid command '{shown}', use SHOW HELP;"))
}

/// `None`: there is no such command.
fn named(command: &str, word: Option<String>) -> Option<Result<Statement, Refusal>> {
    let scope = |word: Option<String>| word.map_or(Scope::All, Scope::Database);
    let named = |make: fn(String) -> Statement, word: Option<String>| {
        word.map(make).ok_or_else(|| Refusal::protocol("a database is required"))
    };
    let statement = match (command, word) {
        ("show" | "select", Some(what)) => return Some(show(&what)),
        ("show", None) => Statement::Show(Show::Help),
        ("reload", None) => Statement::Reload,
        ("restart", None) => Statement::Restart,
        ("suspend", None) => Statement::Suspend,
        ("scale", Some(count)) => return Some(scale(&count.to_ascii_lowercase())),
        ("scale", None) => {
            let text = "a number of workers is required: SCALE n, or SCALE auto";
            return Some(Err(Refusal::protocol(text)));
        }
        ("shutdown", mode) => return Some(shutdown(mode)),
        ("pause", word) => Statement::Pause(scope(word)),
        ("resume", word) => Statement::Resume(scope(word)),
        ("reconnect", word) => Statement::Reconnect(scope(word)),
        ("wait_close", word) => Statement::WaitClose(scope(word)),
        ("kill", word) => Statement::Kill(scope(word)),
        ("disable", word) => return Some(named(Statement::Disable, word)),
        ("enable", word) => return Some(named(Statement::Enable, word)),
        ("kill_client", word) => return Some(client(word)),
        _ => return None,
    };
    Some(Ok(statement))
}

fn show(what: &str) -> Result<Statement, Refusal> {
    let found = SHOWS.iter().find(|(name, _)| name.eq_ignore_ascii_case(what));
    let (_, show) =
        found.ok_or_else(|| Refusal::protocol("bad SHOW arg, use SHOW HELP for usage"))?;
    Ok(Statement::Show(*show))
}

fn shutdown(mode: Option<String>) -> Result<Statement, Refusal> {
    let wait = match mode.map(|mode| mode.to_ascii_lowercase()).as_deref() {
        None => Wait::Nothing,
        Some("wait_for_servers") => Wait::Servers,
        Some("wait_for_clients") => Wait::Clients,
        Some("wait_for_transactions") => Wait::Transactions,
        Some(_) => {
            let text = "invalid SHUTDOWN mode; use SHUTDOWN, SHUTDOWN WAIT_FOR_SERVERS, SHUTDOWN WAIT_FOR_CLIENTS or SHUTDOWN WAIT_FOR_TRANSACTIONS";
            return Err(Refusal::protocol(text));
        }
    };
    Ok(Statement::Shutdown(wait))
}

/// The number of a client as SHOW CLIENTS has it, in `id` or in `ptr`.
fn client(word: Option<String>) -> Result<Statement, Refusal> {
    let number = word.as_deref().and_then(|word| match word.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    });
    let number = number.filter(|number| *number >= 0);
    let invalid = || Refusal::protocol("invalid client pointer supplied");
    number.map(Statement::KillClient).ok_or_else(invalid)
}

/// One word, or one quoted text whose quotes are doubled inside.
fn word(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''));
    match quote {
        Some(quote) => unquoted(text, quote),
        None => {
            let plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | ';' | '=');
            text.chars().all(plain).then(|| text.to_owned())
        }
    }
}

fn unquoted(text: &str, quote: char) -> Option<String> {
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let doubled = format!("{quote}{quote}");
    let pieces = inside.split(doubled.as_str());
    (!pieces.clone().any(|piece| piece.contains(quote)))
        .then(|| inside.replace(&doubled, &quote.to_string()))
}

/// `key = value`, `key TO value`; the value may stand in quotes.
fn set(rest: &str) -> Option<Statement> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = rest.find(|c: char| !is_letter(c))?;
    let (key, rest) = rest.split_at_checked(end).filter(|(key, _)| !key.is_empty())?;
    let after = rest.trim_start();
    let value = match after.strip_prefix('=') {
        Some(value) => value,
        None => {
            let (to, value) = after.split_once(|c: char| c.is_ascii_whitespace())?;
            to.eq_ignore_ascii_case("to").then_some(value)?
        }
    };
    let value = value.trim();
    let value = if value.starts_with('\'') {
        unquoted(value, '\'')?
    } else if value.contains(['\'', ';']) {
        return None;
    } else {
        value.to_owned()
    };
    Some(Statement::Set { key: key.to_ascii_lowercase(), value })
}

fn scale(count: &str) -> Result<Statement, Refusal> {
    let most = Workers::MOST;
    match count.parse::<i64>() {
        Ok(0) => Err(Refusal::protocol(format!(
            "cannot scale to 0 workers: no one would serve; use SHUTDOWN to stop the fleet, or a number from 1 to {most}"
        ))),
        Ok(number) if number < 0 || number > i64::from(most) => Err(Refusal::protocol(format!(
            "cannot scale to {number} workers: a fleet has 1 to {most}; use a number in that range, or auto"
        ))),
        Ok(_) | Err(_) => count
            .parse()
            .map(Statement::Scale)
            .map_err(|reason: String| Refusal::protocol(format!("SCALE {count}: {reason}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().message
    }

    fn setting(key: &str, value: &str) -> Statement {
        Statement::Set { key: key.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn statements_are_read_in_any_case_with_or_without_semicolon() {
        assert_eq!(parse("  Show  POOLS ; ").unwrap(), Statement::Show(Show::Pools));
        assert_eq!(parse("select stats").unwrap(), Statement::Show(Show::Stats));
        assert_eq!(parse("SCALE 4;").unwrap(), Statement::Scale(Workers::Count(4)));
        assert_eq!(parse("scale Auto").unwrap(), Statement::Scale(Workers::Auto));
        assert_eq!(parse("SHUTDOWN WAIT_FOR_SERVERS").unwrap(), Statement::Shutdown(Wait::Servers));
        assert_eq!(parse("suspend;").unwrap(), Statement::Suspend);
    }

    #[test]
    fn names_of_databases_keep_their_case_and_may_be_quoted() {
        let named = |name: &str| Scope::Database(name.to_owned());
        assert_eq!(parse("PAUSE").unwrap(), Statement::Pause(Scope::All));
        assert_eq!(parse("pause App;").unwrap(), Statement::Pause(named("App")));
        assert_eq!(
            parse("KILL \"my \"\"db\"\" 1\"").unwrap(),
            Statement::Kill(named("my \"db\" 1"))
        );
        assert_eq!(parse("resume my-db").unwrap(), Statement::Resume(named("my-db")));
        assert_eq!(parse("disable 'x'").unwrap(), Statement::Disable("x".to_owned()));
        assert!(refusal("pause a b").starts_with("invalid command 'pause a b'"));
        assert!(refusal("pause \"a").starts_with("invalid command"));
    }

    #[test]
    fn settings_are_read_in_every_form() {
        assert_eq!(parse("SET query_timeout = 5").unwrap(), setting("query_timeout", "5"));
        assert_eq!(parse("set Query_Timeout=5;").unwrap(), setting("query_timeout", "5"));
        assert_eq!(parse("set pool_mode TO 'session'").unwrap(), setting("pool_mode", "session"));
        assert_eq!(parse("set a = 'it''s; so'").unwrap(), setting("a", "it's; so"));
        assert_eq!(parse("set a = ''").unwrap(), setting("a", ""));
        assert!(refusal("set a").starts_with("invalid command"));
        assert!(refusal("set a 5").starts_with("invalid command"));
        assert!(refusal("set a = 'x").starts_with("invalid command"));
    }

    #[test]
    fn clients_are_named_by_number_or_pointer() {
        assert_eq!(parse("kill_client 17").unwrap(), Statement::KillClient(17));
        assert_eq!(parse("KILL_CLIENT 0x11").unwrap(), Statement::KillClient(17));
        for wrong in ["kill_client", "kill_client x", "kill_client -1", "kill_client 0x"] {
            assert_eq!(refusal(wrong), "invalid client pointer supplied");
        }
    }

    #[test]
    fn what_is_no_statement_gets_pgbouncers_text() {
        assert_eq!(refusal("drop table x"), "invalid command 'drop table x', use SHOW HELP;");
        assert_eq!(refusal("show nothing"), "bad SHOW arg, use SHOW HELP for usage");
        assert_eq!(refusal("enable"), "a database is required");
        assert_eq!(refusal("disable;"), "a database is required");
    }

    #[test]
    fn commands_are_known_by_their_first_word() {
        assert!(is_command("PAUSE;") && is_command("set x") && is_command(" kill_client zz"));
        assert!(!is_command("show pools") && !is_command("select 1") && !is_command("fly"));
    }

    #[test]
    fn a_scale_out_of_range_is_refused_with_the_way_out() {
        assert!(refusal("scale 0").contains("use SHUTDOWN"));
        assert!(refusal("scale 100000").contains("1 to 128"));
        assert!(refusal("scale -1").contains("1 to 128"));
        assert!(refusal("scale many").contains("auto"));
    }
}
