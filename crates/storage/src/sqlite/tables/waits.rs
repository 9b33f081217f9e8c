//! Changes the times until which agents wait: at a start, and when an operator or an answer ends the wait. `agent::waits`
//! decides the new times. What happens when the wall clock is set back stands in `shift`.

use agent::approval::Approval;
use agent::life::{IdleReason, Standing};
use agent::waits::{self, Waits};
use agent::{news, plan};
use jiff::Timestamp;
use rusqlite::{Connection, Row, ToSql, params};

use super::plans::{PLAN, plan_at};
use super::rows::{
    bytes, code_of, first, from_json, ms, reason_or_none, run, time_at, time_or_none, to_json,
};
use crate::sqlite::engine::fault::{Outcome, damaged};

/// Plans ahead of some agents that have a length of their own.
const PLANS_AHEAD: &str = "FROM plan p INDEXED BY plan_now WHERE p.to_commit IS NULL AND p.agent > ?2 AND p.agent <= ?3 \
    AND p.fire_at > ?1 AND (p.schedule LIKE '{\"kind\":\"after\"%' OR p.schedule LIKE '{\"kind\":\"every\"%')";
/// Calls of some agents for which a person is waited.
const ASKED: &str =
    "SELECT id, approval FROM call INDEXED BY call_asked WHERE agent > ?2 AND agent <= ?3 AND ask_at > ?1";
/// Shortens the pauses of targets that are too far ahead.
const PAUSED: &str = "UPDATE outgoing SET next_at = ?1 WHERE next_at > ?1";

/// Shortens waits of the agents after one and up to another that began while the clock was ahead to their own lengths: plans that
/// have one, and questions to people. What cannot be read is left as it is.
pub(crate) fn bound(db: &Connection, now: Timestamp, after: i64, until: i64) -> rusqlite::Result<()> {
    let sql = format!("SELECT p.agent, {PLAN} {PLANS_AHEAD}");
    let which = params![ms(now), after, until];
    let found = |row: &Row<'_>| {
        let plan = plan_at(row, 1).ok().and_then(|plan| plan::bounded(&plan, now));
        Ok(plan.map(|plan| Ok::<_, rusqlite::Error>((row.get::<_, i64>(0)?, plan))))
    };
    let plans: Vec<_> = db.prepare_cached(&sql)?.query_map(which, found)?.collect::<Result<_, _>>()?;
    for plan in plans.into_iter().flatten() {
        let (agent, plan) = plan?;
        let sql = "UPDATE plan SET next_at = ?1, fire_at = ?1, schedule = ?2 WHERE agent = ?3 AND id = ?4 AND to_commit IS NULL \
                   AND from_commit = (SELECT max(from_commit) FROM plan WHERE agent = ?3 AND id = ?4)";
        let Ok(schedule) = to_json(&plan.schedule) else { continue };
        db.execute(sql, params![plan.next_at.map(ms), schedule, agent, bytes(plan.id.0)])?;
    }
    let found = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?));
    let asked: Vec<_> = db.prepare_cached(ASKED)?.query_map(which, found)?.collect::<Result<_, _>>()?;
    for (call, approval) in asked {
        let approval: Option<Approval> = approval.and_then(|text| from_json(&text, "an approval").ok());
        let Some(approval) = approval.and_then(|approval| approval.rebased(now)) else { continue };
        let (next_at, Ok(approval)) = (approval.next_at().map(ms), to_json(&approval)) else { continue };
        db.execute(
            "UPDATE call SET approval = ?, ask_at = ? WHERE id = ?",
            params![approval, next_at, call],
        )?;
    }
    Ok(())
}

/// Agents that wait at a start, found by the indexes over agents that are due and over those that wait for a provider.
const AT_START: &str = "SELECT h.agent, h.due_at, h.hold_until, h.idle_reason, \
    (SELECT min(not_before) FROM waiting w WHERE w.agent = h.agent) FROM inbox_head h WHERE h.due_at > ?1 \
    UNION ALL SELECT h.agent, h.due_at, h.hold_until, h.idle_reason, \
    (SELECT min(not_before) FROM waiting w WHERE w.agent = h.agent) FROM inbox_head h \
    WHERE h.idle_reason = 0 AND NOT coalesce(h.due_at > ?1, 0)";
/// The first waiting event, found by index: events accepted before this start come first.
const FIRST: &str = "SELECT not_before, boot < ? FROM waiting INDEXED BY waiting_first WHERE agent = ? \
    ORDER BY boot, not_before LIMIT 1";
const FROM_BEFORE: &str =
    "SELECT 1 FROM waiting INDEXED BY waiting_first WHERE agent = ? AND boot < ? LIMIT 1";
const DUE_BEFORE: &str =
    "SELECT 1 FROM waiting INDEXED BY waiting_first WHERE agent = ? AND boot < ? AND taken = 0 LIMIT 1";
const DUE_SINCE: &str = "SELECT 1 FROM waiting INDEXED BY waiting_first WHERE agent = ? AND boot = ? \
    AND not_before <= ? AND taken = 0 LIMIT 1";
const GIVE_BACK: &str = "UPDATE waiting INDEXED BY waiting_taken SET taken = 0 WHERE agent = ? AND taken = 1";
/// Shortens release times of held events that are too far ahead, by the index over them.
const HELD_AT_START: &str = "UPDATE event SET release_at = ?1 WHERE release_at > ?1";

/// At a start of the store, shortens waits that would last too long. An agent with an invalid time is skipped here,
/// and quarantined when it is read for work.
pub(crate) fn begin(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let mut ask = db.prepare(AT_START)?;
    let mut rows = ask.query([ms(now)])?;
    let mut changed: Vec<(i64, Waits)> = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok((waits, first)) = waits_at(row, 1).and_then(|waits| Ok((waits, time_or_none(row, 4)?))) else {
            continue;
        };
        // Most wait rightly, as those that are paused: they are only read.
        let after = waits::at_start(waits, first, now);
        if after != waits {
            changed.push((row.get(0)?, after));
        }
    }
    for (agent, waits) in changed {
        write(db, agent, waits)?;
    }
    let latest = ms(waits::latest_release(now));
    db.execute(HELD_AT_START, [latest])?;
    db.execute(PAUSED, [ms(news::latest_attempt(now))])?;
    bound(db, now, 0, i64::MAX)
}

/// Ends all waits of an agent, which is settled, on an operator's request. `open`: whether it has an open cycle.
pub(crate) fn end(db: &Connection, agent: i64, open: bool, now: Timestamp) -> Outcome<()> {
    let sql = "SELECT due_at, hold_until, idle_reason, waiting FROM inbox_head WHERE agent = ?";
    let found = first(db, sql, [agent], |row| Ok((waits_at(row, 0)?, row.get::<_, i64>(3)? > 0)))?;
    let (waits, waiting) = found.ok_or_else(|| damaged("it has no `inbox_head` row"))?;
    run(
        db,
        "UPDATE waiting SET not_before = ?1 WHERE agent = ?2 AND not_before > ?1",
        params![ms(now), agent],
    )?;
    Ok(write(db, agent, waits::resumed(waits, open || waiting, now))?)
}

/// Handles an outcome that the open cycle of the agent, which is settled, waits for; returns whether the agent is due now.
pub(crate) fn answer(db: &Connection, agent: i64, standing: Standing, at: Timestamp) -> Outcome<bool> {
    let sql = "SELECT due_at, hold_until, idle_reason FROM inbox_head WHERE agent = ?";
    let waits = first(db, sql, [agent], |row| waits_at(row, 0))?
        .ok_or_else(|| damaged("it has no `inbox_head` row"))?;
    let ended = waits::answered(waits, standing, at);
    ended.map_or(Ok(()), |waits| write(db, agent, waits))?;
    Ok(ended.is_some())
}

/// Reads `due_at`, `hold_until` and `idle_reason` from three columns from `at` on.
pub(crate) fn waits_at(row: &Row<'_>, at: usize) -> Outcome<Waits> {
    let (due_at, hold_until) = (time_or_none(row, at)?, time_or_none(row, at + 1)?);
    Ok(Waits { due_at, hold_until, reason: reason_or_none(row, at + 2)? })
}

fn write(db: &Connection, agent: i64, waits: Waits) -> rusqlite::Result<()> {
    let Waits { due_at, hold_until, reason } = waits;
    let reason = reason.map(|reason| code_of(&IdleReason::ALL, &reason));
    let sql = "UPDATE inbox_head SET due_at = ?, hold_until = ?, idle_reason = ? WHERE agent = ?";
    db.prepare_cached(sql)?.execute(params![due_at.map(ms), hold_until.map(ms), reason, agent]).map(drop)
}

/// The time at which an agent without an open cycle has something to do; not before `hold`.
pub(crate) fn due_at(
    db: &Connection,
    boot: i64,
    agent: i64,
    standing: Standing,
    hold: Option<Timestamp>,
    now: Timestamp,
) -> Outcome<Option<Timestamp>> {
    let waits_from = first(db, FIRST, params![boot, agent], |row| {
        Ok(waits::first_due(time_at(row, 0)?, row.get(1)?, now))
    })?;
    Ok(waits::due(standing, waits_from, hold))
}

/// Whether an event that no cycle has taken is due, by the same rule as [`due_at`].
pub(crate) fn is_due(db: &Connection, boot: i64, agent: i64, now: Timestamp) -> Outcome<bool> {
    let due = |sql, params: &[&dyn ToSql]| db.prepare_cached(sql)?.exists(params);
    Ok(due(DUE_BEFORE, &[&agent, &boot])? || due(DUE_SINCE, &[&agent, &boot, &ms(now)])?)
}

/// Whether an event waits that was accepted before this start of the store.
pub(crate) fn is_from_before(db: &Connection, boot: i64, agent: i64) -> Outcome<bool> {
    Ok(db.prepare_cached(FROM_BEFORE)?.exists(params![agent, boot])?)
}

/// Gives back the events that the open cycle took.
pub(crate) fn give_back(db: &Connection, agent: i64) -> Outcome<()> {
    run(db, GIVE_BACK, [agent]).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use agent::config::AgentConfig;
    use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
    use agent::id::{AgentId, EventId, RootId};
    use agent::life::{IdleReason, Standing};
    use agent::limits;
    use agent::port::{Accept, Accepted, Clock, NewAgent, Reader, Registry, Store};
    use jiff::SignedDuration;
    use scenario::clock::SimClock;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::ports::{Caller, Sqlite};
    use crate::sqlite::tables::session::Session;

    const DAY: i64 = 86_400_000;
    const DEBOUNCE: i64 = 30_000;

    /// Agents that each wait for a different reason.
    struct World {
        store: Sqlite,
        clock: SimClock,
    }

    const DEBOUNCED: u128 = 1;
    const REFUSED: u128 = 2;
    const FAILED: u128 = 3;
    const HELD: u128 = 4;
    const ALL: [u128; 4] = [DEBOUNCED, REFUSED, FAILED, HELD];
    const HOUR: i64 = 3_600_000;

    /// How long an agent is to wait.
    fn length(who: u128) -> i64 {
        match who {
            DEBOUNCED => DEBOUNCE,
            REFUSED => HOUR,
            FAILED => limits::PARK_MAX_MS.cast_signed(),
            _ => limits::HELD_MS.cast_signed(),
        }
    }

    fn id(who: u128) -> AgentId {
        AgentId(Uuid::from_u128(who))
    }

    impl World {
        async fn new() -> Self {
            let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
            let store = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
            let world = Self { store, clock };
            for who in ALL {
                let debounce = if who == DEBOUNCED { DEBOUNCE.unsigned_abs() } else { 0 };
                let config = AgentConfig { debounce, ..AgentConfig::default() };
                let (name, display_name) = (format!("agent-{who}"), String::new());
                let new = NewAgent { id: id(who), name, display_name, config, at: world.clock.now() };
                world.store.create_agent(new).await.unwrap();
                world.accept(who, "first").await;
            }
            let until = |who| ms(world.clock.now()) + length(who);
            world.backs_off(REFUSED, until(REFUSED), "0").await;
            world.backs_off(FAILED, until(FAILED), "1").await;
            let held = format!(
                "UPDATE event SET state = 1, space = 1, release_at = {} WHERE agent = 4; DELETE FROM waiting WHERE agent = 4; \
                 UPDATE inbox_head SET waiting = 0, held = 1, due_at = NULL WHERE agent = 4",
                until(HELD)
            );
            world.sql(held).await;
            world
        }

        async fn sql(&self, sql: String) {
            self.store.write(move |db, _| Ok(db.execute_batch(&sql)?)).await.unwrap();
        }

        async fn backs_off(&self, who: u128, until: i64, reason: &str) {
            let sql = format!(
                "UPDATE inbox_head SET due_at = {until}, hold_until = {until}, idle_reason = {reason} WHERE agent = {who}"
            );
            self.sql(sql).await;
        }

        async fn accept(&self, who: u128, name: &str) {
            self.accept_at(who, name, self.clock.now()).await;
        }

        async fn accept_at(&self, who: u128, name: &str, at: Timestamp) {
            let envelope = Envelope {
                principal: Principal::Own,
                channel: Channel::Api,
                trust: Trust::Outside,
                root: RootId(name.to_owned()),
                hop: 0,
            };
            let data = EventData::Service { name: "bell".into(), payload: serde_json::json!({}) };
            let (id_, kind) = (EventId(format!("{name}-{who}")), EventKind::Service);
            let event = Event { id: id_, kind, urgent: false, at, envelope, data, cites: None };
            let accepted = self.store.accept(Accept::Event(id(who), event), None).await.unwrap();
            assert!(matches!(accepted, Accepted::Fresh { .. }));
        }

        /// Does what the keeper does from time to time; returns the agents that are due.
        async fn due(&self) -> Vec<AgentId> {
            let now = self.clock.now();
            self.store.fire_due(now, 256).await.unwrap();
            self.store.due(now, None, 256).await.unwrap().into_iter().map(|due| due.agent).collect()
        }

        /// Whether the agent is due, and its activation gets the waiting events.
        async fn is_served(&self, who: u128) -> bool {
            let due = self.due().await.contains(&id(who));
            let activation = self.store.wake(id(who), self.clock.now(), None).await.unwrap().unwrap();
            let backing_off = activation.life.not_before.is_some_and(|until| until > self.clock.now());
            due && !backing_off && !activation.waiting.is_empty()
        }

        fn pass(&self, ms: i64) {
            self.clock.advance(Duration::from_millis(ms.unsigned_abs()));
        }

        fn jump(&self, ms: i64) {
            self.clock.jump_wall(SignedDuration::from_millis(ms));
        }
    }

    #[test]
    fn due_and_taken_events_are_found_by_index_for_any_backlog() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let first = [FIRST, FROM_BEFORE, DUE_BEFORE, DUE_SINCE].map(|sql| (sql, "waiting_first"));
        for (sql, index) in first.into_iter().chain([(GIVE_BACK, "waiting_taken")]) {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps = plan.query_map(rusqlite::params_from_iter(blanks), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            assert!(steps[0].contains(index), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{steps:?}");
        }
    }

    #[tokio::test]
    async fn no_clock_change_makes_an_agent_wait_longer_than_planned() {
        for jumps in [&[-DAY][..], &[DAY, -DAY], &[-DAY, DAY, -DAY, -HOUR], &[-900, -900, -900]] {
            for who in ALL {
                let world = World::new().await;
                for jump in jumps {
                    world.jump(*jump);
                    world.due().await;
                }
                world.pass(length(who) + jumps.iter().filter(|jump| **jump > -1_000).count() as i64 * 3_000);
                assert!(world.is_served(who).await, "{who} after {jumps:?}");
            }
        }
    }

    #[tokio::test]
    async fn setting_the_clock_back_shortens_no_wait_and_moves_no_plan() {
        let world = World::new().await;
        let plan = r#"INSERT INTO plan (agent, id, from_commit, next_at, name, schedule, instruction, root, hop, trust)
            VALUES (1, zeroblob(16), 0, 9999999999999, '', '{"kind":"at","at":"2286-11-20T17:46:39.999Z"}', '', '', 0, 0)"#;
        world.sql(plan.to_owned()).await;
        world.jump(-DAY);
        for who in ALL {
            assert!(!world.is_served(who).await, "{who}");
        }
        world.pass(DEBOUNCE - 1);
        assert!(!world.is_served(DEBOUNCED).await);
        let next = world.store.read(Caller::Agents, |db, _| {
            first(db, "SELECT next_at FROM plan", [], |row| Ok(row.get::<_, i64>(0)?))
        });
        assert_eq!(next.await.unwrap(), Some(9_999_999_999_999));
    }

    #[tokio::test]
    async fn a_damaged_plan_delays_no_other_agent_after_the_clock_was_set_back() {
        let world = World::new().await;
        let plan = format!(
            "INSERT INTO plan (agent, id, from_commit, next_at, fire_at, name, schedule, instruction, root, hop, trust) \
             VALUES ({HELD}, zeroblob(16), 0, 1, 1, '', 'no schedule', '', '', 0, 0)"
        );
        world.sql(plan).await;
        world.jump(-HOUR);
        world.due().await;
        let held = world.store.agent(id(HELD)).await.unwrap().unwrap();
        assert_eq!(held.standing, Standing::Suspended, "it is quarantined");
        world.pass(length(REFUSED).max(length(DEBOUNCED)));
        for who in [DEBOUNCED, REFUSED] {
            assert!(world.is_served(who).await, "{who}");
        }
    }

    #[tokio::test]
    async fn an_event_sent_before_the_clock_was_set_back_and_written_after_the_shift_waits_no_longer_than_planned()
     {
        let world = World::new().await;
        let sent_at = world.clock.now();
        world.jump(-HOUR);
        world.due().await;
        for who in ALL {
            world.sql(format!("DELETE FROM waiting WHERE agent = {who}; UPDATE inbox_head SET waiting = 0, due_at = NULL, hold_until = NULL, idle_reason = NULL WHERE agent = {who}")).await;
        }
        world.accept_at(DEBOUNCED, "late", sent_at).await;
        assert!(!world.is_served(DEBOUNCED).await);
        world.pass(DEBOUNCE);
        assert!(world.is_served(DEBOUNCED).await);
        // An operator resumes the agent.
        world.accept(FAILED, "late").await;
        world.backs_off(FAILED, ms(sent_at) + HOUR, "1").await;
        world.store.set_standing(id(FAILED), Standing::Active, sent_at).await.unwrap();
        assert!(world.is_served(FAILED).await);
    }

    #[tokio::test]
    async fn an_event_sent_before_the_clock_was_set_back_and_written_before_the_shift_waits_as_long_as_planned()
     {
        let world = World::new().await;
        world.sql("DELETE FROM waiting WHERE agent = 1; UPDATE inbox_head SET waiting = 0, due_at = NULL WHERE agent = 1".into()).await;
        let sent_at = world.clock.now();
        world.jump(-HOUR);
        world.accept_at(DEBOUNCED, "late", sent_at).await;
        assert!(!world.is_served(DEBOUNCED).await);
        world.pass(DEBOUNCE - 1);
        assert!(!world.is_served(DEBOUNCED).await);
        world.pass(1);
        assert!(world.is_served(DEBOUNCED).await);
    }

    #[tokio::test]
    async fn an_event_accepted_while_the_clock_was_ahead_is_due_at_once_after_a_start() {
        let mut world = World::new().await;
        world.jump(-2 * HOUR);
        world.store = world.store.restarted(false).unwrap();
        for who in [DEBOUNCED, REFUSED] {
            assert!(world.is_served(who).await, "{who}");
        }
        assert!(!world.is_served(FAILED).await && !world.is_served(HELD).await);
        world.pass(length(FAILED));
        assert!(world.is_served(FAILED).await);
        world.pass(length(HELD) - length(FAILED));
        assert!(world.is_served(HELD).await);
    }

    #[tokio::test]
    async fn an_event_given_back_after_a_start_is_due_however_far_ahead_the_clock_was_when_it_arrived() {
        let mut world = World::new().await;
        world.jump(-2 * HOUR);
        world.store = world.store.restarted(true).unwrap();
        let db = |db: &Connection, session: &Session| {
            due_at(db, session.boot, 1, Standing::Active, None, session.clock.now())
        };
        assert_eq!(world.store.read(Caller::Agents, db).await.unwrap(), Some(world.clock.now()));
    }

    #[tokio::test]
    async fn resuming_an_agent_ends_any_wait_of_it_and_of_no_other() {
        for standing in [Standing::Active, Standing::Suspended] {
            let world = World::new().await;
            world.accept(HELD, "second").await;
            world.backs_off(HELD, ms(world.clock.now()) + DAY, "NULL").await;
            for who in ALL {
                assert!(!world.is_served(who).await, "{who}");
                world.store.set_standing(id(who), standing, world.clock.now()).await.unwrap();
                world.store.set_standing(id(who), Standing::Active, world.clock.now()).await.unwrap();
                assert!(world.is_served(who).await, "{who} {standing:?}");
                world.sql(format!("DELETE FROM waiting WHERE agent = {who}; UPDATE inbox_head SET waiting = 0, due_at = NULL WHERE agent = {who}")).await;
                world.store.set_standing(id(who), Standing::Active, world.clock.now()).await.unwrap();
                assert!(!world.due().await.contains(&id(who)), "{who} has nothing to do");
            }
        }
    }

    #[tokio::test]
    async fn the_card_of_a_waiting_agent_shows_why_and_until_when() {
        let world = World::new().await;
        let now = ms(world.clock.now());
        for (who, reason) in [
            (DEBOUNCED, IdleReason::Debounce),
            (REFUSED, IdleReason::Provider),
            (FAILED, IdleReason::Backoff),
        ] {
            let card = world.store.agent(id(who)).await.unwrap().unwrap();
            assert_eq!((card.idle_reason, card.not_before.map(ms)), (Some(reason), Some(now + length(who))));
        }
        let card = world.store.agent(id(HELD)).await.unwrap().unwrap();
        assert_eq!((card.idle_reason, card.not_before, card.held), (None, None, 1));
    }

    /// Every column with a time is a wait that a start and a clock set back bound, or a fact that nobody waits for.
    #[test]
    fn every_stored_time_is_known_as_a_wait_or_as_a_fact() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        let sql = "SELECT t.name || '.' || c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c \
                   WHERE t.schema = 'main' AND (c.name LIKE '%\\_at' ESCAPE '\\' OR c.name IN ('at', 'not_before', 'hold_until', 'until')) \
                   ORDER BY 1";
        let mut columns = db.prepare(sql).unwrap();
        let columns: Vec<String> =
            columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let waits = [
            "call.ask_at",
            "event.release_at",
            "inbox_head.due_at",
            "inbox_head.hold_until",
            "outgoing.next_at",
            "plan.fire_at",
            "plan.next_at",
            "waiting.not_before",
        ];
        // Times at which something happened, and ends of what people have given for a time.
        let facts: &[&str] = &[
            "alert.at",
            "approval_rule.at",
            "approval_rule.until",
            "commits.at",
            "config_rev.at",
            "credential.created_at",
            "credential.expires_at",
            "credential.revoked_at",
            "credential.used_at",
            "entity.created_at",
            "entry.at",
            "event.at",
            "hook.at",
            "hook_delivery.at",
            "index_queue.at",
            "memory.at",
            "memory.used_at",
            "message.at",
            "outgoing.at",
            "request.at",
            "run.ended_at",
            "run.opened_at",
            "space.active_at",
            "space.created_at",
            "target.arrived_at",
            "target.at",
            "target.failed_at",
            "tool.at",
        ];
        for column in &columns {
            let known = waits.contains(&&**column) || facts.contains(&&**column);
            assert!(
                known,
                "`{column}`: is it a wait? then bound it in `bound` or `at_start`, and test that below"
            );
        }
        assert!(
            waits.iter().chain(facts).all(|known| columns.iter().any(|column| column == known)),
            "{columns:?}"
        );
    }

    #[tokio::test]
    async fn plans_questions_and_pauses_that_began_while_the_clock_was_ahead_keep_their_lengths() {
        for restarts in [true, false] {
            let mut world = World::new().await;
            world.jump(2 * DAY);
            world.due().await;
            let now = world.clock.now();
            let later = now + Duration::from_secs(3_600);
            let after = plan::Schedule::After { at: later, after_ms: HOUR.unsigned_abs() };
            let every = plan::Schedule::Every {
                every_ms: HOUR.unsigned_abs(),
                from: now - Duration::from_secs(3 * 86_400),
            };
            let at = plan::Schedule::At { at: later };
            let plans = [after, every, at].into_iter().zip(1_u128..).map(|(schedule, n)| plan::Plan {
                next_at: Some(later),
                ..plan::Plan::new(agent::id::PlanId(Uuid::from_u128(n)), "p", "do", schedule)
            });
            let plans: Vec<_> = plans.collect();
            let set = move |db: &Connection, _: &Session| {
                plans.iter().try_for_each(|plan| {
                    crate::sqlite::tables::plans::put_plan(
                        db,
                        1,
                        0,
                        plan,
                        &agent::event::Cause::default(),
                        None,
                    )
                })
            };
            world.store.write(set).await.unwrap();
            world.sql("INSERT INTO target (id, name, url, secrets, allow, kinds, at) VALUES (1, 't', '', '', '', 1, 0)".into()).await;
            world
                .sql(format!("INSERT INTO outgoing (n, target, id, body, at, next_at) VALUES (1, 1, 'o', '{{}}', 0, {})", ms(later)))
                .await;
            world.jump(-2 * DAY);
            if restarts {
                world.store = world.store.restarted(true).unwrap();
            }
            world.due().await;
            let right = ms(world.clock.now());
            let sql = "SELECT group_concat(fire_at, ',') || ',' || (SELECT next_at FROM outgoing) FROM (SELECT fire_at FROM plan ORDER BY id)";
            let found = world
                .store
                .read(Caller::Agents, move |db, _| first(db, sql, [], |row| Ok(row.get::<_, String>(0)?)));
            let found = found.await.unwrap().unwrap();
            let found: Vec<i64> = found.split(',').map(|at| at.parse::<i64>().unwrap() - right).collect();
            assert!(found[..2].iter().all(|ahead| (0..=HOUR).contains(ahead)), "{restarts} {found:?}");
            assert_eq!(found[2], 2 * DAY + HOUR, "a named time stays");
            assert!(found[3] <= limits::TARGET_PAUSE_MAX_MS.cast_signed(), "{restarts} {found:?}");
        }
    }

    #[test]
    fn a_start_finds_waiting_agents_by_index() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        for (sql, indexes) in
            [(AT_START, &["inbox_due", "inbox_idle"][..]), (HELD_AT_START, &["event_release"])]
        {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let steps = plan.query_map([1], |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.map(Result::unwrap).collect();
            for index in indexes {
                assert!(steps.iter().any(|step| step.contains(index)), "{steps:?}");
            }
            let tables = steps.iter().filter(|step| step.starts_with("SCAN") || step.starts_with("SEARCH"));
            assert!(tables.into_iter().all(|step| step.contains(" USING ")), "{steps:?}");
        }
    }
}
