//! What the operator should read once in the log: accepted keys that do nothing here.
//! Notes never stop anything; what must stop is a problem.
//! The draft makes them when everything else was fine.

use crate::{Global, KEYS, Settings, key::Standing, layer::Format, problem::Places};

/// One line for each accepted key without effect, in the order of the table.
pub(crate) fn notes(settings: &Settings, places: &Places, format: Format) -> Vec<String> {
    let defaults = Global::default();
    let mut notes = Vec::new();
    for key in KEYS.iter().filter(|key| places.is_set(key.name)) {
        let shown = settings.global.show(key.name);
        match key.standing {
            Standing::Honoured => {}
            Standing::Meaningless(why) => {
                notes.push(format!("{}: accepted without effect: {why}", key.name))
            }
            // No TLS is what this version does.
            Standing::NotYet(_) if shown.as_deref() == Some("disable") => {}
            Standing::NotYet(why) if shown != defaults.show(key.name) => {
                notes.push(format!("{}: accepted, no effect yet: {why}", key.name));
            }
            Standing::NotYet(_) => {}
        }
    }
    if places.is_set("peers") {
        notes.push(
            "[peers]: accepted without effect: the workers of a fleet know each other".to_owned(),
        );
    }
    if format == Format::Ini && !places.is_set("unix_socket_dir") {
        let dir = settings.global.show("unix_socket_dir").unwrap_or_default();
        notes.push(format!("unix_socket_dir: not set; it is {dir} here and was /tmp in PgBouncer"));
    }
    notes
}
