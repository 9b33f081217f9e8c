//! What happens to stored times when the wall clock is set back: they are shifted, so that the rest of every wait stays the
//! same. Agent by agent and a few of them in one command, since a store may have a million that wait. A command about an agent
//! shifts it before anything else, so what it writes is never shifted twice, and who is not shifted yet waits too long
//! for a moment, never too short. If the process dies in between, the next start bounds the waits of the others by their own
//! lengths (`waits`), as all that began while the clock was ahead.
//!
//! Plans are not shifted: most are meant by the wall clock, and those with a length are bounded by it.

use agent::news;
use rusqlite::{Connection, params};

use super::rows::{all, ms, run};
use super::session::Session;
use super::waits::bound;
use crate::sqlite::engine::fault::Outcome;

/// How much one command shifts.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Agents that it looks at.
    pub(crate) agents: u32,
    /// Rows of theirs after which it ends. One agent is always shifted whole.
    pub(crate) rows: i64,
}

/// What one command shifts beside its other work: a few milliseconds.
pub(crate) const PIECE: Piece = Piece { agents: 500, rows: 500 };

/// What an agent waits for, in the order of the agents: how many rows have times to shift.
const WAITING: &str = "SELECT agent, (due_at IS NOT NULL OR hold_until IS NOT NULL) + waiting + held + \
    (SELECT count(*) FROM call c INDEXED BY call_asked WHERE c.agent = h.agent AND c.ask_at IS NOT NULL), \
    (SELECT count(*) FROM plan p INDEXED BY plan_now WHERE p.agent = h.agent AND p.to_commit IS NULL) \
    FROM inbox_head h WHERE agent > ? ORDER BY agent LIMIT ?";
/// The times of one agent.
const TIMES: [&str; 4] = [
    "UPDATE inbox_head SET due_at = due_at - ?1, hold_until = hold_until - ?1 \
     WHERE agent = ?2 AND (due_at IS NOT NULL OR hold_until IS NOT NULL)",
    "UPDATE waiting SET not_before = not_before - ?1 WHERE agent = ?2",
    "UPDATE event INDEXED BY event_held SET release_at = release_at - ?1 \
     WHERE agent = ?2 AND state = 1 AND release_at IS NOT NULL",
    "UPDATE call INDEXED BY call_asked SET ask_at = ask_at - ?1 WHERE agent = ?2 AND ask_at IS NOT NULL",
];
/// The next delivery of each target: no other one waits for a time.
const OUTGOING: &str = "UPDATE outgoing SET next_at = min(next_at - ?1, ?2) WHERE next_at > 0 AND n IN \
    (SELECT (SELECT min(n) FROM outgoing INDEXED BY outgoing_of WHERE target = t.id AND dead = 0) FROM target t)";

/// Shifts the times of an agent if the clock was set back since they were stored: before a command reads them in order to change
/// them. Returns whether it did.
pub(crate) fn settle(db: &Connection, session: &Session, agent: i64) -> Outcome<bool> {
    let Some(by) = session.lead.behind(&*session.clock, agent) else { return Ok(false) };
    shift(db, agent, by)?;
    session.lead.settled(agent, by);
    Ok(true)
}

/// Settles all agents of a space.
pub(crate) fn settle_members(db: &Connection, session: &Session, space: i64) -> Outcome<()> {
    if !session.lead.is_behind(&*session.clock) {
        return Ok(());
    }
    let sql = "SELECT m.entity FROM member m JOIN inbox_head h ON h.agent = m.entity WHERE m.space = ?";
    let members = all(db, sql, [space], |row| Ok(row.get::<_, i64>(0)?))?;
    members.into_iter().try_for_each(|agent| settle(db, session, agent).map(drop))
}

/// Shifts the next agents after the wall clock was set back. Returns whether more are left.
pub(crate) fn next(db: &Connection, session: &Session, piece: Piece) -> Outcome<bool> {
    let Some((after, back)) = session.lead.next(&*session.clock) else { return Ok(false) };
    let now = session.now();
    if after == 0 {
        run(db, OUTGOING, params![back, ms(news::latest_attempt(now))])?;
    }
    let found = all(db, WAITING, params![after, piece.agents], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    let (mut until, mut rows, mut left) = (None, 0, found.len() == piece.agents as usize);
    for (agent, times, plans) in found {
        rows += times + plans;
        if until.is_some() && rows > piece.rows {
            left = true;
            break;
        }
        let by = session.lead.turn(agent);
        if times > 0 && by > 0 {
            shift(db, agent, by)?;
        }
        until = Some(agent);
    }
    if let Some(until) = until {
        bound(db, now, after, until)?;
    }
    session.lead.shifted(until.filter(|_| left));
    Ok(left || session.lead.is_behind(&*session.clock))
}

fn shift(db: &Connection, agent: i64, by: i64) -> Outcome<()> {
    TIMES.into_iter().try_for_each(|sql| run(db, sql, [by, agent]).map(drop))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use agent::config::AgentConfig;
    use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
    use agent::id::{AgentId, EventId, RootId};
    use agent::limits;
    use agent::port::{Accept, Clock, NewAgent, Registry, Store, StoreError};
    use jiff::{SignedDuration, Timestamp};
    use scenario::clock::SimClock;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::fault::Fault;
    use crate::sqlite::engine::schema::open_memory;
    use crate::sqlite::engine::writer::{Counters, command, serve};
    use crate::sqlite::ports::{Caller, Sqlite};
    use crate::sqlite::tables::opening;

    const HOUR: i64 = 3_600_000;
    const SMALL: Piece = Piece { agents: 3, rows: 4 };
    const AGENTS: i64 = 24;
    /// For each kind of agent: what it waits for.
    const COLUMNS: [&str; 4] = [
        "SELECT hold_until FROM inbox_head WHERE agent = ?",
        "SELECT min(not_before) FROM waiting WHERE agent = ?",
        "SELECT release_at FROM event WHERE agent = ? AND state = 1",
        "SELECT ask_at FROM call WHERE agent = ?",
    ];

    /// Agents of four kinds in turn: one backs off, one waits for more events, one holds an event, one waits for a person.
    struct World {
        store: Sqlite,
        clock: SimClock,
        /// How long each waits from the first moment on.
        length: Vec<i64>,
        began: u64,
        events: u32,
        random: u64,
    }

    fn column(agent: i64) -> &'static str {
        COLUMNS[usize::try_from(agent % 4).unwrap()]
    }

    impl World {
        async fn new(seed: u64) -> Self {
            let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
            let store = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
            let began = clock.monotonic_ms();
            let (length, random) = (vec![0], seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            let mut world = Self { store, clock, length, began, events: 0, random };
            for agent in 1..=AGENTS {
                let length = world.below(3 * 60_000) + 60_000;
                let debounce = if agent % 4 == 1 { length.unsigned_abs() } else { 0 };
                let config = AgentConfig { debounce, ..AgentConfig::default() };
                let (id, now) = (AgentId(Uuid::from_u128(agent.unsigned_abs().into())), world.clock.now());
                let name = format!("agent-{agent}");
                let new = NewAgent { id, name, display_name: String::new(), config, at: now };
                world.store.create_agent(new).await.unwrap();
                world.touch(agent).await;
                let until = ms(now) + length;
                let sql = match agent % 4 {
                    0 => format!(
                        "UPDATE inbox_head SET due_at = {until}, hold_until = {until}, idle_reason = 1 WHERE agent = {agent}"
                    ),
                    1 => String::new(),
                    2 => format!(
                        "UPDATE event SET state = 1, release_at = {until} WHERE agent = {agent}; DELETE FROM waiting WHERE agent = {agent}; \
                         UPDATE inbox_head SET waiting = 0, held = 1, due_at = NULL WHERE agent = {agent}"
                    ),
                    _ => format!(
                        "INSERT INTO call (agent, cycle, step, idx, id, tool, effect, tool_version, awaited, state, arguments, ask_at) \
                         VALUES ({agent}, x'01', 0, 0, 'call-{agent}', 't', 'unsafe', '1', 1, 'planned', '', {until})"
                    ),
                };
                world.store.write(move |db, _| Ok(db.execute_batch(&sql)?)).await.unwrap();
                world.length.push(length);
            }
            world
        }

        fn below(&mut self, n: i64) -> i64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random % n.unsigned_abs()).cast_signed()
        }

        /// A command about an agent: it gets an event.
        async fn touch(&mut self, agent: i64) {
            self.events += 1;
            let name = format!("e{}", self.events);
            let envelope = Envelope {
                principal: Principal::Own,
                channel: Channel::Api,
                trust: Trust::Outside,
                root: RootId(name.clone()),
                hop: 0,
            };
            let data = EventData::Service { name: "bell".into(), payload: serde_json::json!({}) };
            let (kind, at) = (EventKind::Service, self.clock.now());
            let event = Event { id: EventId(name), kind, urgent: false, at, envelope, data, cites: None };
            let id = AgentId(Uuid::from_u128(agent.unsigned_abs().into()));
            self.store.accept(Accept::Event(id, event), None).await.unwrap();
        }

        async fn piece(&self) -> bool {
            self.store.write(|db, session| next(db, session, SMALL)).await.unwrap()
        }

        /// How much longer an agent waits than it is to wait.
        async fn too_long(&self, agent: i64) -> i64 {
            let read = self.store.read(Caller::Agents, move |db, _| {
                Ok(db.query_row(column(agent), [agent], |row| row.get::<_, i64>(0))?)
            });
            let rest = read.await.unwrap() - ms(self.clock.now());
            let passed = (self.clock.monotonic_ms() - self.began).cast_signed();
            rest - (self.length[usize::try_from(agent).unwrap()] - passed)
        }
    }

    #[tokio::test]
    async fn no_wait_is_ever_too_short_and_each_has_its_length_once_its_agent_is_shifted() {
        for seed in 1..=60 {
            let mut world = World::new(seed).await;
            for step in 0..60 {
                let told = format!("seed {seed}, step {step}");
                match world.below(8) {
                    0 => {
                        let back = world.below(48 * HOUR) + limits::CLOCK_NOISE_MS + 1;
                        world.clock.jump_wall(SignedDuration::from_millis(-back));
                    }
                    1 => {
                        let passes = world.below(500).unsigned_abs();
                        world.clock.advance(Duration::from_millis(passes));
                    }
                    2 | 3 => {
                        let agent = world.below(AGENTS) + 1;
                        world.touch(agent).await;
                        assert_eq!(
                            world.too_long(agent).await,
                            0,
                            "{told}: a command shifts agent {agent} first"
                        );
                    }
                    _ => _ = world.piece().await,
                }
                for agent in 1..=AGENTS {
                    assert!(world.too_long(agent).await >= 0, "{told}: agent {agent} waits too short");
                }
            }
            while world.piece().await {}
            for agent in 1..=AGENTS {
                assert_eq!(world.too_long(agent).await, 0, "seed {seed}: agent {agent} at the end");
            }
        }
    }

    #[tokio::test]
    async fn a_process_that_dies_between_two_pieces_leaves_no_wait_too_short_and_none_longer_than_it_may_be()
    {
        for pieces in 0..8 {
            let mut world = World::new(7).await;
            world.clock.jump_wall(SignedDuration::from_millis(-48 * HOUR));
            for _ in 0..pieces {
                assert!(world.piece().await);
            }
            let mut shifted = Vec::new();
            for agent in 1..=AGENTS {
                shifted.push(world.too_long(agent).await == 0);
            }
            world.store = world.store.restarted(false).unwrap();
            while world.piece().await {}
            for agent in 1..=AGENTS {
                let (longer, was) =
                    (world.too_long(agent).await, shifted[usize::try_from(agent - 1).unwrap()]);
                // Events from before a start are due at it; an operator's question without a record is left as it is.
                match agent % 4 {
                    0 | 2 => assert!(longer >= 0 && (!was || longer == 0), "{pieces} pieces: agent {agent}"),
                    _ => assert!(!was || longer == 0, "{pieces} pieces: agent {agent}"),
                }
                let most = [limits::PARK_MAX_MS, 0, limits::HELD_MS][usize::try_from(agent % 4 % 3).unwrap()];
                if agent % 2 == 0 {
                    assert!(
                        longer <= most.cast_signed(),
                        "{pieces} pieces: agent {agent} waits {longer} ms too long"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn one_command_changes_few_rows_however_many_wait() {
        let mut world = World::new(3).await;
        for agent in [5; 9] {
            world.touch(agent).await;
        }
        world.clock.jump_wall(SignedDuration::from_hours(-1));
        let mut commands = 0;
        loop {
            let piece = world.store.write(|db, session| {
                let before = db.total_changes();
                let more = next(db, session, SMALL)?;
                Ok((more, db.total_changes() - before))
            });
            let (more, changed) = piece.await.unwrap();
            // The last agent of a piece is shifted whole.
            assert!(changed <= SMALL.rows.unsigned_abs() + 11, "{changed} rows");
            commands += 1;
            if !more {
                break;
            }
        }
        assert!(commands >= AGENTS / i64::from(SMALL.agents), "{commands} commands");
    }

    #[test]
    fn a_shift_that_is_rolled_back_is_done_again_and_one_on_disk_is_not() {
        let clock = SimClock::new(Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_secs(100_000));
        let db = open_memory().unwrap();
        let sql = "INSERT INTO entity (id, kind, uuid, name, display_name, created_at) VALUES (1, 1, zeroblob(16), 'a', '', 0); \
                   INSERT INTO inbox_head (agent, due_at) VALUES (1, 200000000)";
        db.execute_batch(sql).unwrap();
        let opened = opening::begin(&db, None).unwrap();
        let session = Arc::new(Session::new(opened, Arc::new(clock.clone())));
        let due = || db.query_row("SELECT due_at FROM inbox_head", [], |row| row.get::<_, i64>(0)).unwrap();
        let settles = || {
            let session = Arc::clone(&session);
            command(move |db| settle(db, &session, 1).map(drop)).0
        };
        let piece = || {
            let session = Arc::clone(&session);
            command(move |db| next(db, &session, PIECE).map(drop)).0
        };
        let fails_after = |piece_first: bool| {
            let session = Arc::clone(&session);
            command(move |db| {
                if piece_first {
                    next(db, &session, PIECE)?
                } else {
                    settle(db, &session, 1)?
                };
                Err::<(), _>(Fault::Store(StoreError::Damaged("by a test".into())))
            })
            .0
        };
        let serve = |works| serve(&db, &Counters::default(), &*session, works).unwrap();
        for (n, piece_first) in [false, true].into_iter().enumerate() {
            let wanted = 200_000_000 - (i64::try_from(n).unwrap() + 1) * 50_000;
            clock.jump_wall(SignedDuration::from_secs(-50));
            serve(vec![fails_after(piece_first)]);
            assert_eq!(due(), wanted + 50_000, "it was rolled back");
            serve(vec![settles(), fails_after(piece_first), piece()]);
            serve(vec![settles(), piece(), fails_after(piece_first)]);
            assert_eq!(due(), wanted, "once");
        }
    }

    #[test]
    fn what_is_shifted_is_found_by_index() {
        let db = open_memory().unwrap();
        for sql in [&TIMES[..], &[WAITING, OUTGOING]].concat() {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps = plan.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            let scans = steps.iter().filter(|step| step.starts_with("SCAN") && !step.starts_with("SCAN t "));
            assert_eq!(scans.count(), 0, "{sql}: {steps:?}");
        }
    }
}
