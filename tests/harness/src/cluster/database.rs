//! One test's own database.
//! It never outlives its test: what is connected to it when it is dropped is thrown out.
//! `Cluster::database` makes it.

use crate::{address::Address, client::Client, cluster::Cluster, wait};

/// A database of the user `app`, dropped with its value.
#[derive(Debug)]
pub struct Database<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> Database<'a> {
    pub(super) fn new(cluster: &'a Cluster, name: String) -> Self {
        Self { cluster, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster that it is in.
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// The superuser's way to it, past any pooler.
    pub fn address(&self) -> Address {
        self.cluster.address().in_database(&self.name)
    }

    /// The superuser, connected to it past any pooler.
    pub fn direct(&self) -> Client {
        wait::until("the superuser can connect", || Client::connect(&self.address()).ok())
    }

    /// Sets the most connections that Postgres itself allows to it; -1 is no limit.
    pub fn limit(&self, connections: i32) {
        let name = &self.name;
        self.cluster
            .superuser()
            .run(&format!("alter database {name} connection limit {connections}"));
    }

    /// How many backends work for it, that of the question not counted.
    pub fn backends(&self) -> usize {
        let name = &self.name;
        let sql = format!("select count(*) from pg_stat_activity where datname = '{name}'");
        self.cluster.superuser().value(&sql).parse().expect("count gives a number")
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        // Its cluster may be stopped, and goes away with it.
        if let Ok(superuser) = Client::connect(&self.cluster.address()) {
            drop(superuser.rows(&format!("drop database if exists {} with (force)", self.name)));
        }
    }
}
