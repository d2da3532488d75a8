//! The did-you-mean of unknown names.
//! It never suggests a name that is further off than a third of its letters.
//! The faults about unknown keys, sections and words call it.

/// The known name that is closest to `name`, if one is close; letter case and `-` for `_` cost nothing.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = plain(name);
    let bound = (name.chars().count() / 3).clamp(1, 4);
    known
        .map(|word| (distance(&name, &plain(word)), word))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

fn plain(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// The Levenshtein distance in characters; names are short, so one row is enough.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().take(200).enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        for (cell, r) in row.iter_mut().skip(1).zip(&right) {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_name_is_suggested() {
        let known = ["max_client_conn", "pool_mode", "user"];
        assert_eq!(nearest("max_client_con", known.into_iter()), Some("max_client_conn"));
        assert_eq!(nearest("Pool-Mode", known.into_iter()), Some("pool_mode"));
        assert_eq!(nearest("colour", known.into_iter()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
