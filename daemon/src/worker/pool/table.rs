//! The pools of one worker, by id and by name.
//!
//! An id names one pool for ever: a place that is used again has another serial. Names are hashed when
//! a client logs in and never after. Nothing here opens, lends or closes anything.

use std::collections::HashMap;

use slab::Slab;

use super::Pool;
use crate::worker::ids::PoolId;
use crate::worker::memory;

/// All pools.
#[derive(Default)]
pub(crate) struct Pools {
    slab: Slab<Pool>,
    ids: HashMap<(String, String), PoolId>,
    serial: u32,
}

impl Pools {
    /// The pool, if it is still there.
    pub(crate) fn get(&self, id: PoolId) -> Option<&Pool> {
        self.slab.get(id.index as usize).filter(|pool| pool.id == id)
    }

    /// The pool, if it is still there, to be changed.
    pub(crate) fn get_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.slab.get_mut(id.index as usize).filter(|pool| pool.id == id)
    }

    /// The pool of a database and a server user.
    pub(crate) fn find(&self, database: &str, user: &str) -> Option<PoolId> {
        self.ids.get(&(database.to_owned(), user.to_owned())).copied()
    }

    /// Puts in what `make` makes of a fresh id.
    pub(crate) fn add(&mut self, make: impl FnOnce(PoolId) -> Pool) -> PoolId {
        self.serial = self.serial.wrapping_add(1);
        let entry = self.slab.vacant_entry();
        let index = u32::try_from(entry.key()).unwrap_or(u32::MAX);
        let id = PoolId { index, serial: self.serial };
        let pool = entry.insert(make(id));
        self.ids.insert((pool.name.clone(), pool.user.clone()), id);
        id
    }

    /// Takes a pool out; its id names nothing any more.
    pub(crate) fn remove(&mut self, id: PoolId) -> Option<Pool> {
        self.get(id)?;
        let pool = self.slab.remove(id.index as usize);
        self.ids.remove(&(pool.name.clone(), pool.user.clone()));
        Some(pool)
    }

    /// Returns memory that only many more pools would need.
    pub(crate) fn release_memory(&mut self) {
        if memory::is_oversized(self.slab.capacity(), self.slab.len()) {
            self.slab.shrink_to_fit();
            self.ids.shrink_to_fit();
        }
    }

    /// All pools, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.slab.iter().map(|(_, pool)| pool)
    }

    /// The ids of all pools, for a walk that changes them.
    pub(crate) fn ids(&self) -> Vec<PoolId> {
        self.iter().map(|pool| pool.id).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use pgfleet_config::{Database, PoolMode};

    use super::*;

    fn add(pools: &mut Pools, name: &str, user: &str) -> PoolId {
        let database = Database::new(name);
        pools.add(|id| Pool::new(id, user, database, PoolMode::Session, 0, Instant::now()))
    }

    #[test]
    fn a_pool_is_found_by_id_and_by_name() {
        let mut pools = Pools::default();
        let id = add(&mut pools, "db", "app");
        assert_eq!(pools.find("db", "app"), Some(id));
        assert_eq!(pools.find("db", "other"), None);
        assert_eq!(pools.get(id).map(|pool| pool.user.as_str()), Some("app"));
        assert_eq!((pools.ids(), pools.len()), (vec![id], 1));
    }

    #[test]
    fn the_id_of_a_pool_that_is_gone_names_no_other() {
        let mut pools = Pools::default();
        let first = add(&mut pools, "db", "app");
        assert!(pools.remove(first).is_some());
        let second = add(&mut pools, "db", "app");
        assert_eq!(first.index, second.index);
        assert!(pools.get(first).is_none() && pools.get_mut(first).is_none());
        assert!(pools.remove(first).is_none());
        assert_eq!(pools.find("db", "app"), Some(second));
    }
}
