//! SHOW CONFIG and SHOW VERSION.
//!
//! It lists every key of the one table with its value; secrets show as stars there already. It changes nothing.
//! `show` calls it.

use pgfleet_config::{KEYS, Reload, Settings};

use super::table::{Table, text};
use crate::link::table::Type;

/// SHOW CONFIG.
pub(super) fn config(settings: &Settings) -> Table {
    let columns = ["key", "value", "default", "changeable"].map(|name| (name, Type::Text));
    let mut table = Table::new(&columns);
    for key in KEYS {
        let changeable = match key.reload {
            Reload::Live => "yes",
            Reload::Restart => "no",
        };
        let value = settings.global.show(key.name).unwrap_or_default();
        table.push(vec![text(key.name), text(value), text(key.default), text(changeable)]);
    }
    table
}

/// SHOW VERSION.
pub(super) fn version() -> Table {
    let mut table = Table::new(&[("version", Type::Text)]);
    table.push(vec![text(concat!("pgfleet ", env!("CARGO_PKG_VERSION")))]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::table::Outcome;

    #[test]
    fn every_key_is_shown_with_its_value_and_default() {
        let Outcome::Table { columns, rows, .. } = config(&Settings::default()).into_outcome()
        else {
            panic!("no table")
        };
        assert_eq!(
            columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["key", "value", "default", "changeable"]
        );
        assert_eq!(rows.len(), KEYS.len());
        let port = rows.iter().find(|row| row[0].as_deref() == Some("listen_port")).unwrap();
        assert_eq!(
            port[1..],
            [Some("6432".to_owned()), Some("6432".to_owned()), Some("no".to_owned())]
        );
    }
}
