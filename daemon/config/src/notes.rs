//! What the operator should read once in the log: accepted keys that do nothing here.
//! Notes never stop anything; what must stop is a problem.
//! The draft makes them when everything else was fine.

use crate::{
    AuthType, Global, KEYS, Settings,
    fault::{PLACEHOLDER, is_placeholder},
    hba::Method,
    key::Standing,
    layer::Format,
    problem::{Place, Places},
};

/// One line for each accepted key without effect, in the order of the table.
pub(crate) fn notes(settings: &Settings, places: &Places, format: Format) -> Vec<String> {
    let defaults = Global::default();
    let mut notes = Vec::new();
    for key in KEYS.iter().filter(|key| places.is_set(key.name)) {
        let shown = settings.global.show(key.name);
        match key.standing {
            Standing::Honoured => {}
            Standing::Meaningless(why) => {
                notes.push(at(places, key.name, &format!("accepted without effect: {why}")));
            }
            // No TLS is what this version does.
            Standing::NotYet(_) if shown.as_deref() == Some("disable") => {}
            Standing::NotYet(why) if shown != defaults.show(key.name) => {
                notes.push(at(places, key.name, &format!("accepted, no effect yet: {why}")));
            }
            Standing::NotYet(_) => {}
        }
    }
    notes.extend(md5_secrets(settings));
    notes.extend(placeholders(settings));
    if places.is_set("peers") {
        let why = "accepted without effect: the workers of a fleet know each other";
        notes.push(at(places, "peers", why));
    }
    if format == Format::Ini && !places.is_set("unix_socket_dir") {
        let dir = settings.global.show("unix_socket_dir").unwrap_or_default();
        notes.push(format!("unix_socket_dir: not set; it is {dir} here and was /tmp in PgBouncer"));
    }
    notes
}

/// A note of a key, with where it stands.
fn at(places: &Places, key: &str, text: &str) -> String {
    match places.of(key) {
        Place::Line(file, Some(line)) => format!("{}:{line}: {key}: {text}", file.display()),
        Place::Environment => format!("PGFLEET_{}: {text}", key.to_uppercase()),
        Place::Line(_, None) | Place::Nowhere => format!("{key}: {text}"),
    }
}

/// Hosts that a template has left as they are.
fn placeholders(settings: &Settings) -> impl Iterator<Item = String> {
    let all = settings.databases.values().chain(&settings.fallback);
    let left = all.filter(|db| db.hosts.iter().any(|host| is_placeholder(host)));
    left.map(|db| format!("databases.{}.host: looks like a placeholder; {PLACEHOLDER}", db.name))
}

/// Users whose secret is of no use to the method of their login.
fn md5_secrets(settings: &Settings) -> Option<String> {
    let uses_scram = match settings.global.auth_type {
        AuthType::ScramSha256 => true,
        AuthType::Hba => settings.hba.iter().any(|rule| rule.method == Method::ScramSha256),
        AuthType::Any
        | AuthType::Trust
        | AuthType::Plain
        | AuthType::Md5
        | AuthType::Cert
        | AuthType::Ldap
        | AuthType::Pam => false,
    };
    let is_md5 = |secret: &str| secret.len() == 35 && secret.starts_with("md5");
    let users = settings.userlist.iter().filter(|(_, secret)| uses_scram && is_md5(secret));
    let names: Vec<_> = users.map(|(user, _)| user.as_str()).collect();
    let first = names.iter().take(10).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 10 { ", and more" } else { "" };
    (!names.is_empty()).then(|| {
        format!("auth_file: md5 secrets are of no use to scram-sha-256; give SCRAM secrets to {first}{more}")
    })
}
