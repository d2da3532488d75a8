//! One line of `auth_hba_file` as a rule.
//! It finds every fault of a line, not the first one alone, and never repeats a secret of its options.
//! `read_rules` calls it for each line.

use std::path::Path;

use super::{
    Method, Name, Rule, Transport, address, ldap,
    tokens::{Field, Line, Token},
};
use crate::{Problem, fault::Fault, nearest::nearest};

const TRANSPORTS: [&str; 4] = ["local", "host", "hostssl", "hostnossl"];
const METHODS: [&str; 9] =
    ["trust", "reject", "md5", "password", "scram-sha-256", "peer", "cert", "ldap", "pam"];
const FORM: &str = "write local DATABASE USER METHOD, or host DATABASE USER ADDRESS METHOD";

/// The rule of a line; nothing where there was a problem.
pub(super) fn rule(file: &Path, line: Line, problems: &mut Vec<Problem>) -> Option<Rule> {
    let mut draft = Draft { file, line: &line, problems: Vec::new() };
    let rule = draft.rule();
    let faulty = !draft.problems.is_empty();
    problems.append(&mut draft.problems);
    if faulty { None } else { rule }
}

/// `name=value` of an option.
///
/// # Errors
/// It is not written so.
pub(super) fn option(field: &Field) -> Result<(String, String), Fault> {
    // A comma in a value that is not quoted has split it.
    let text = field.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(",");
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Fault::new(
            "an option is not of the form name=value",
            "write, for example, map=people",
        )),
    }
}

struct Draft<'a> {
    file: &'a Path,
    line: &'a Line,
    problems: Vec<Problem>,
}

impl Draft<'_> {
    fn add(&mut self, column: usize, fault: Fault) {
        self.problems.push(self.line.problem(self.file, column, fault));
    }

    /// The only word of a field.
    fn word(&mut self, at: usize, what: &str) -> Option<Token> {
        let line = self.line;
        match line.fields.get(at).map(Vec::as_slice) {
            Some([token]) => Some(token.clone()),
            Some([first, ..]) => {
                let reason = format!("there may be only one {what}");
                self.add(first.column, Fault::new(reason, "write one line for each"));
                None
            }
            Some([]) | None => {
                self.add(line.end(), Fault::new(format!("the {what} is missing"), FORM));
                None
            }
        }
    }

    fn rule(&mut self) -> Option<Rule> {
        let transport = self.transport()?;
        let databases = self.names(1, "database", database);
        let users = self.names(2, "user", user);
        let mut at = 3;
        let mut networks = Vec::new();
        if transport != Transport::Unix {
            let address = self.word(at, "address")?;
            let next = self.line.fields.get(at + 1).and_then(|field| field.first());
            match address::networks(&address, next) {
                Ok(found) => {
                    networks = found.networks;
                    at += usize::from(found.took_mask);
                }
                Err(fault) => self.add(address.column, fault),
            }
            at += 1;
        }
        let method = self.word(at, "method")?;
        let (method, map) = self.method(&method, transport, at + 1)?;
        Some(Rule { line: self.line.number, transport, databases, users, networks, method, map })
    }

    fn transport(&mut self) -> Option<Transport> {
        let word = self.word(0, "type of connection")?;
        let transport = match word.text.as_str() {
            "local" => Transport::Unix,
            "host" => Transport::Tcp,
            "hostssl" => Transport::Encrypted,
            "hostnossl" => Transport::Unencrypted,
            other => {
                let reason = format!("unknown type of connection \"{other}\"");
                self.add(word.column, Fault::new(reason, remedy(other, &TRANSPORTS)));
                return None;
            }
        };
        Some(transport)
    }

    fn names(
        &mut self,
        at: usize,
        what: &str,
        read: fn(&Token) -> Result<Name, Fault>,
    ) -> Vec<Name> {
        let line = self.line;
        let Some(field) = line.fields.get(at).filter(|field| !field.is_empty()) else {
            self.add(line.end(), Fault::new(format!("the {what} is missing"), FORM));
            return Vec::new();
        };
        let mut names = Vec::new();
        for token in field {
            match read(token) {
                Ok(name) => names.push(name),
                Err(fault) => self.add(token.column, fault),
            }
        }
        names
    }

    fn method(
        &mut self,
        word: &Token,
        transport: Transport,
        options: usize,
    ) -> Option<(Method, Option<String>)> {
        let method = match word.text.as_str() {
            "trust" => Method::Trust,
            "reject" => Method::Reject,
            "md5" => Method::Md5,
            "password" => Method::Password,
            "scram-sha-256" => Method::ScramSha256,
            "peer" if transport == Transport::Unix => Method::Peer,
            "peer" => {
                let fault =
                    Fault::new("peer is for Unix sockets alone", "begin the line with local");
                self.add(word.column, fault);
                return None;
            }
            "cert" if transport == Transport::Encrypted => Method::Cert,
            "cert" => {
                let fault = Fault::new("cert needs TLS", "begin the line with hostssl");
                self.add(word.column, fault);
                return None;
            }
            "ldap" => return self.ldap(word, options),
            "pam" => Method::Pam,
            other => {
                let reason = format!("unknown method \"{other}\"");
                self.add(word.column, Fault::new(reason, remedy(other, &METHODS)));
                return None;
            }
        };
        let map = self.map(&method, options);
        Some((method, map))
    }

    fn options(&mut self, from: usize) -> Vec<(usize, String, String)> {
        let line = self.line;
        let mut options = Vec::new();
        for field in line.fields.iter().skip(from) {
            let column = field.first().map_or(line.end(), |token| token.column);
            match option(field) {
                Ok((name, value)) => options.push((column, name, value)),
                Err(fault) => self.add(column, fault),
            }
        }
        options
    }

    fn map(&mut self, method: &Method, from: usize) -> Option<String> {
        let takes_map = matches!(method, Method::Peer | Method::Cert);
        let mut map = None;
        for (column, name, value) in self.options(from) {
            match name.as_str() {
                "map" if takes_map => map = Some(value),
                "map" => {
                    let fault = Fault::new("map= is for peer and cert alone", "remove it");
                    self.add(column, fault);
                }
                "clientcert" => {
                    let fault = Fault::new(
                        "clientcert= is not known here",
                        "set client_tls_sslmode to verify-full, or use the method cert",
                    );
                    self.add(column, fault);
                }
                other => {
                    let reason = format!("unknown option \"{other}\"");
                    self.add(column, Fault::new(reason, "remove it"));
                }
            }
        }
        map
    }

    fn ldap(&mut self, word: &Token, from: usize) -> Option<(Method, Option<String>)> {
        let mut draft = ldap::Draft::default();
        for (column, name, value) in self.options(from) {
            if let Err(fault) = draft.set(&name, &value) {
                self.add(column, fault);
            }
        }
        match draft.finish() {
            Ok(options) => Some((Method::Ldap(Box::new(options)), None)),
            Err(fault) => {
                self.add(word.column, fault);
                None
            }
        }
    }
}

fn remedy(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(known) => format!("did you mean {known}?"),
        None => format!("use one of {}", known.join(", ")),
    }
}

fn database(token: &Token) -> Result<Name, Fault> {
    Ok(match token.text.as_str() {
        _ if token.quoted => Name::Is(token.text.clone()),
        "all" => Name::All,
        "sameuser" => Name::SameUser,
        "replication" => Name::Replication,
        word @ ("samerole" | "samegroup") => {
            return Err(Fault::new(
                format!("{word} is not supported: only Postgres knows who is in which role"),
                "name the databases and the users, or write sameuser",
            ));
        }
        name => Name::Is(name.to_owned()),
    })
}

fn user(token: &Token) -> Result<Name, Fault> {
    Ok(match token.text.as_str() {
        _ if token.quoted => Name::Is(token.text.clone()),
        "all" => Name::All,
        group if group.starts_with('+') => {
            return Err(Fault::new(
                format!("{group} is not supported: only Postgres knows who is in which role"),
                "name the users, or put them into a file and write @FILE",
            ));
        }
        name => Name::Is(name.to_owned()),
    })
}
