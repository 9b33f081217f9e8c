//! What every command may use of the current opening of the store.

use std::sync::Arc;

use agent::port::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::configs::Configs;
use super::opening::Opening;
use super::queue::Signal;
use super::totals::Counted;
use super::waits::Lead;
use crate::sqlite::engine::writer::Memory;

/// What every command may use of the current opening of the store.
pub(crate) struct Session {
    /// The number of this opening, stored in rows that are accepted during it.
    pub(crate) boot: i64,
    /// Whether the store was closed cleanly before this opening.
    pub(crate) clean: bool,
    /// Parsed configs by revision.
    pub(crate) configs: Configs,
    /// How many agents and spaces have been counted.
    pub(crate) counted: Counted,
    /// How far the wall clock is ahead of the monotonic one: shows when it is set back.
    pub(crate) lead: Lead,
    pub(crate) clock: Arc<dyn Clock>,
    /// What the search index waits for.
    pub(crate) index: Arc<Signal>,
    /// Told of every commit, for who sends what targets are told.
    pub(crate) committed: Arc<Notify>,
}

impl Session {
    /// The current time for comparison with stored times. After the clock is set back, this continues the old time
    /// until the stored times are shifted.
    pub(crate) fn now(&self) -> Timestamp {
        let (now, back) = (self.clock.now(), self.lead.set_back(&*self.clock).unwrap_or(0));
        now.checked_add(SignedDuration::from_millis(back)).unwrap_or(now)
    }

    /// A session of this opening; nothing is cached yet.
    pub(crate) fn new(opening: Opening, clock: Arc<dyn Clock>) -> Self {
        let (boot, clean, lead) = (opening.boot, opening.clean, Lead::new(&*clock));
        let (configs, counted, index) = (Configs::default(), Counted::default(), Arc::default());
        Self { boot, clean, configs, counted, lead, clock, index, committed: Arc::default() }
    }
}

impl Memory for Session {
    fn committed(&self) {
        self.lead.committed();
        self.index.wake();
        self.committed.notify_one();
    }

    fn rolled_back(&self) {
        self.lead.rolled_back();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use agent::port::StoreError;
    use rusqlite::Connection;
    use scenario::clock::SimClock;

    use super::*;
    use crate::sqlite::engine::fault::Fault;
    use crate::sqlite::engine::mutex::lock;
    use crate::sqlite::engine::schema::open_memory;
    use crate::sqlite::engine::writer::{Counters, command, serve};
    use crate::sqlite::tables::{opening, waits};

    #[test]
    fn a_command_that_runs_again_sees_the_same_clock() {
        let clock = SimClock::new(Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_secs(100));
        let db = open_memory().unwrap();
        let opening = opening::begin(&db, Some(clock.now())).unwrap();
        let session = Arc::new(Session::new(opening, Arc::new(clock.clone())));
        let before = session.now();
        clock.jump_wall(SignedDuration::from_secs(-50));
        let after = clock.now();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let look = || {
            let (session, seen) = (Arc::clone(&session), Arc::clone(&seen));
            command(move |_: &Connection| {
                lock(&seen).push(session.now());
                Ok(())
            })
            .0
        };
        let follow = || {
            let session = Arc::clone(&session);
            command(move |db| {
                let back = session.lead.set_back(&*session.clock).unwrap();
                waits::shift(db, back, Timestamp::UNIX_EPOCH)?;
                session.lead.shifted(back);
                Ok(())
            })
        };
        let fail = || command::<(), _>(|_| Err(Fault::Store(StoreError::Damaged("by a test".into())))).0;
        let serve = |works| {
            serve(&db, &Counters::default(), &*session, works).unwrap();
            std::mem::take(&mut *lock(&seen))
        };
        let fails_and_follows = command({
            let session = Arc::clone(&session);
            move |_| {
                session.lead.shifted(50_000);
                Err::<(), _>(Fault::Store(StoreError::Damaged("by a test".into())))
            }
        });
        assert_eq!(serve(vec![fails_and_follows.0, look()]), [before]);
        assert_eq!(
            serve(vec![look(), follow().0, look(), fail(), look()]),
            [before, after, before, after, after]
        );
        assert_eq!(serve(vec![fail(), look()]), [after], "what is on disk stays");
    }
}
