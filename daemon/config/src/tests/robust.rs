//! Whatever stands in a file, the loader answers and never panics.

use proptest::prelude::*;

use crate::{conninfo, ini, raw::Raw, toml};
use std::path::Path;

/// Lines made of what the grammars are made of.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[pgbouncer]",
        "[databases]",
        "[users.",
        "]",
        "[[",
        "\n",
        "\r\n",
        " ",
        "=",
        "'",
        "''",
        "\"",
        "\"\"\"",
        ";",
        "#",
        "%include",
        "%include ",
        "pool_mode",
        "listen_port",
        "databases",
        "*",
        "host=",
        "password",
        "-1",
        "99999999999999999999",
        "1e999",
        "0o9",
        "{",
        "}",
        ",",
        "\u{feff}",
        "\u{0}",
        "é",
        "🐘",
        "5min",
        "auto",
        "1979-05-27",
        "inf",
        "true",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_read(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn any_soup_is_read(text in soup()) {
        read(&text);
    }

    #[test]
    fn what_is_quoted_reads_back(value in any::<String>()) {
        let text = conninfo::pair("password", &value);
        prop_assert_eq!(conninfo::pairs(&text).unwrap(), vec![("password".to_owned(), value)]);
    }

    #[test]
    fn any_value_is_read_or_refused(text in any::<String>(), number in any::<f64>()) {
        for key in crate::KEYS {
            let mut global = crate::Global::default();
            for raw in [Raw::text(&text), Raw::Number(number.to_string()), Raw::List(vec![text.clone()])] {
                if global.set(key.name, &raw).is_ok() {
                    prop_assert!(global.show(key.name).is_some());
                }
            }
        }
    }
}

fn read(text: &str) {
    let layer = ini::read(Path::new("p.ini"), text);
    assert!(!layer.files.is_empty());
    let layer = toml::read(Path::new("p.toml"), text);
    assert!(!layer.broken || layer.problems.len() == 1);
    let _pairs = conninfo::pairs(text);
}
