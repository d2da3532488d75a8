//! The settings of a session that Postgres reports and the pooler keeps for each client.
//!
//! A set of values is interned, so that the usual comparison of a client's with a server's is that
//! of two pointers. It never talks to a server: the pool asks what differs, and sends it.

use std::collections::HashMap;
use std::rc::Rc;

/// The names that are tracked, in the order in which they are set: `client_encoding` first, since it
/// says how the values that follow are read.
pub(crate) struct Tracked {
    names: Vec<String>,
}

/// Always tracked, as PgBouncer does.
const ALWAYS: [&str; 5] =
    ["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name"];

/// At most this many names are tracked: a client's own ones are a bit set.
const MOST: usize = 32;

impl Tracked {
    /// The five that are always tracked and those of `track_extra_parameters`.
    pub(crate) fn new(extra: &[String]) -> Self {
        let mut names: Vec<String> = ALWAYS.iter().map(|&name| name.to_owned()).collect();
        for name in extra {
            if names.len() < MOST && !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name.clone());
            }
        }
        Self { names }
    }

    /// The position of a name, whatever its case.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    pub(crate) fn name(&self, position: usize) -> &str {
        self.names.get(position).map_or("", String::as_str)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// One value for each tracked name; `None` where the server has not reported it.
pub(crate) type Values = Rc<[Option<Rc<str>>]>;

/// Which tracked values a client has set itself, by startup parameter or SET.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own(u32);

impl Own {
    pub(crate) fn set(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    pub(crate) fn clear(&mut self, position: usize) {
        self.0 &= !(1 << position);
    }

    pub(crate) fn has(self, position: usize) -> bool {
        self.0 & (1 << position) != 0
    }
}

/// All sets of values in use.
#[derive(Default)]
pub(crate) struct Interner {
    sets: HashMap<Values, ()>,
    limit: usize,
}

impl Interner {
    /// The one `Rc` for this set of values.
    pub(crate) fn intern(&mut self, values: Vec<Option<Rc<str>>>) -> Values {
        let values: Values = values.into();
        if let Some((known, ())) = self.sets.get_key_value(&values) {
            return Rc::clone(known);
        }
        if self.sets.len() >= self.limit.max(64) {
            self.sets.retain(|set, ()| Rc::strong_count(set) > 1);
            self.limit = self.sets.len() * 2;
        }
        self.sets.insert(Rc::clone(&values), ());
        values
    }

    /// `base` with one value replaced.
    pub(crate) fn with(&mut self, base: &Values, position: usize, value: &str) -> Values {
        let mut values = base.to_vec();
        if let Some(slot) = values.get_mut(position) {
            *slot = Some(value.into());
        }
        self.intern(values)
    }
}

/// What a server must be told before a client may use it: position and value.
pub(crate) fn differences(
    wanted: &Values,
    own: Own,
    defaults: &Values,
    server: &Values,
) -> Vec<(usize, Rc<str>)> {
    let mut found = Vec::new();
    for position in 0..server.len() {
        let want = if own.has(position) { &wanted[position] } else { &defaults[position] };
        if let Some(want) = want
            && server[position].as_ref() != Some(want)
        {
            found.push((position, Rc::clone(want)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(interner: &mut Interner, values: &[&str]) -> Values {
        interner.intern(values.iter().map(|&value| Some(value.into())).collect())
    }

    #[test]
    fn equal_sets_are_the_same_pointer() {
        let mut interner = Interner::default();
        let one = set(&mut interner, &["UTF8", "ISO"]);
        let two = set(&mut interner, &["UTF8", "ISO"]);
        assert!(Rc::ptr_eq(&one, &two));
        let other = interner.with(&one, 1, "German");
        assert!(!Rc::ptr_eq(&one, &other));
        assert!(Rc::ptr_eq(&one, &interner.with(&other, 1, "ISO")));
    }

    #[test]
    fn only_own_values_are_carried_and_the_rest_follows_the_server_s_defaults() {
        let mut interner = Interner::default();
        let client = set(&mut interner, &["LATIN1", "old default", "mine"]);
        let defaults = set(&mut interner, &["UTF8", "new default", "app"]);
        let server = set(&mut interner, &["UTF8", "left by another", "app"]);
        let mut own = Own::default();
        own.set(2);
        let told = differences(&client, own, &defaults, &server);
        assert_eq!(told, vec![(1, "new default".into()), (2, "mine".into())]);
    }

    #[test]
    fn values_differ_by_case_too() {
        let mut interner = Interner::default();
        let client = set(&mut interner, &["App"]);
        let server = set(&mut interner, &["app"]);
        let mut own = Own::default();
        own.set(0);
        assert_eq!(differences(&client, own, &server, &server), vec![(0, "App".into())]);
    }

    #[test]
    fn names_are_found_whatever_their_case_and_client_encoding_is_first() {
        let tracked = Tracked::new(&["IntervalStyle".into(), "timezone".into()]);
        assert_eq!(tracked.len(), 6);
        assert_eq!(tracked.position("CLIENT_ENCODING"), Some(0));
        assert_eq!(tracked.position("intervalstyle"), Some(5));
    }

    #[test]
    fn sets_that_nobody_uses_are_forgotten() {
        let mut interner = Interner::default();
        for number in 0..10_000 {
            drop(set(&mut interner, &[&number.to_string()]));
        }
        assert!(interner.sets.len() <= 130);
    }
}
