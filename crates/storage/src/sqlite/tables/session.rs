//! What every command may know of this opening of the store.

use std::sync::Arc;

use agent::port::Clock;
use jiff::{SignedDuration, Timestamp};

use super::configs::Configs;
use super::opening::Opening;
use super::totals::Counted;
use super::waits::Lead;
use crate::sqlite::engine::writer::Memory;

/// What every command may know of this opening of the store.
pub(crate) struct Session {
    /// Counts the openings; rows accepted during this one carry it.
    pub(crate) boot: i64,
    /// Whether the store was closed cleanly before this opening.
    pub(crate) clean: bool,
    /// Configs by revision: they never change.
    pub(crate) configs: Configs,
    /// What was counted already.
    pub(crate) counted: Counted,
    /// How far the wall clock is ahead, so that it is noticed when it is set back.
    pub(crate) lead: Lead,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Session {
    /// Now, on the clock that the stored times were written with: until they are shifted after the clock was set
    /// back, this is the time before that.
    pub(crate) fn now(&self) -> Timestamp {
        let (now, back) = (self.clock.now(), self.lead.set_back(&*self.clock).unwrap_or(0));
        now.checked_add(SignedDuration::from_millis(back)).unwrap_or(now)
    }

    /// Nothing is known yet but how it began.
    pub(crate) fn new(opening: Opening, clock: Arc<dyn Clock>) -> Self {
        let (boot, clean, lead) = (opening.boot, opening.clean, Lead::new(&*clock));
        Self { boot, clean, configs: Configs::default(), counted: Counted::default(), lead, clock }
    }
}

impl Memory for Session {
    fn kept(&self) {
        self.lead.kept();
    }

    fn taken_back(&self) {
        self.lead.taken_back();
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
    fn a_command_that_runs_again_goes_by_the_clock_that_it_went_by_before() {
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
                waits::follow(db, back)?;
                session.lead.followed(back);
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
                session.lead.followed(50_000);
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
