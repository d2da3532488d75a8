//! What one worker learns of a server, all workers know: whether logins fail, and that they work again.
//!
//! So the second client is told at once on whichever worker it lands, and an outage is probed by one
//! worker after the other instead of by all. A worker that has servers of its own believes them.

use crate::link::message::{Failure, Lesson, ToSupervisor};
use crate::worker::ids::PoolId;
use crate::worker::pool::backoff::Failed;
use crate::worker::state::Worker;

impl Worker {
    /// Tells the others.
    pub(crate) fn teach(&mut self, id: PoolId, failure: Option<Failure>) {
        let Some(pool) = self.pools.get(id) else { return };
        let lesson = Lesson { database: pool.name.clone(), user: pool.user.clone(), failure };
        self.say(&ToSupervisor::Learned(lesson), None);
    }

    /// Another worker has tried.
    pub(crate) fn learn(&mut self, lesson: Lesson) {
        let Some(database) = self.settings.database(&lesson.database) else { return };
        let (now, retry) = (self.now, self.settings.global.server_login_retry);
        if lesson.failure.is_none() && self.pools.find(&lesson.database, &lesson.user).is_none() {
            return;
        }
        let id = self.find_pool(&lesson.database, database, &lesson.user);
        let Some(pool) = self.pool(id) else { return };
        match lesson.failure {
            Some(_) if pool.connected > 0 => {}
            Some(Failure::Connect(reason)) => {
                pool.backoff.fail(Failed::Connect, reason, retry, now)
            }
            Some(Failure::Login(reason)) => pool.backoff.fail(Failed::Login, reason, retry, now),
            None => {
                pool.backoff.succeed();
                self.feed_the_hungry();
            }
        }
    }
}
