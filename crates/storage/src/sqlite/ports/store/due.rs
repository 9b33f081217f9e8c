//! Finds by index what is due: agents with work, plans that become events, held events to release.

use agent::delivery::is_urgent;
use agent::event::{Cause, Event, EventData, EventState};
use agent::id::{AgentId, RootId};
use agent::limits;
use agent::plan::{self, Fired, Firing, Plan, PlanSource};
use agent::port::{Due, DueFired, LatePlan, NextDue, Wakeup};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use crate::sqlite::engine::fault::{Fault, Outcome, damaged_agent};
use crate::sqlite::tables::events::{Head, admit};
use crate::sqlite::tables::facts::touch;
use crate::sqlite::tables::held::release;
use crate::sqlite::tables::plans::{PLAN, end_plan, plan_at, put_plan};
use crate::sqlite::tables::rows::{
    agent_row, all, bytes, first, from_json, key_at, ms, run, time, time_at, to_json, u32_at, u64_at, uuid_at,
};
use crate::sqlite::tables::session::Session;

/// Due agents after a given one, by the partial index over agents with a due time.
const DUE: &str = "SELECT e.uuid, h.due_at FROM inbox_head h JOIN entity e ON e.id = h.agent \
    WHERE h.due_at <= ?1 AND (h.due_at, h.agent) > (?2, ?3) ORDER BY h.due_at, h.agent LIMIT ?4";
/// When the next agent is due, by the same index.
const NEXT_AGENT: &str = "SELECT min(due_at) FROM inbox_head WHERE due_at > ?";
/// When the next plan is due.
const NEXT_PLAN: &str = "SELECT min(fire_at) FROM plan WHERE to_commit IS NULL AND fire_at > ?";
/// Due plans of agents that may run.
const PLANS: &str = "FROM plan p JOIN entity e ON e.id = p.agent JOIN life l ON l.agent = p.agent \
    WHERE p.to_commit IS NULL AND p.fire_at <= ? ORDER BY p.fire_at LIMIT ?";

/// When the next held event is released by itself.
const NEXT_RELEASE: &str = "SELECT min(release_at) FROM event WHERE release_at > ?";
/// A held event whose release time has come, earliest first.
pub(super) const RELEASE: &str = "SELECT e.agent, a.uuid, e.space FROM event e JOIN entity a ON a.id = e.agent \
    JOIN agent g ON g.id = e.agent AND g.damage IS NULL WHERE e.release_at <= ? ORDER BY e.release_at LIMIT 1";

pub(super) fn due(db: &Connection, now: Timestamp, after: Option<Due>, limit: u32) -> Outcome<Vec<Due>> {
    let (at, agent) = match after {
        Some(Due { agent, at }) => (ms(at), agent_row(db, agent.0)?.unwrap_or(0)),
        None => (i64::MIN, 0),
    };
    all(db, DUE, params![ms(now), at, agent, limit], |row| {
        let agent = AgentId(uuid_at(row, 0)?);
        Ok(Due { agent, at: time_at(row, 1).map_err(damaged_agent(agent))? })
    })
}

pub(super) fn next_due(db: &Connection, now: Timestamp) -> Outcome<NextDue> {
    let read = |sql| first(db, sql, [ms(now)], |row| Ok(row.get::<_, Option<i64>>(0)?)).map(Option::flatten);
    let firing = [read(NEXT_PLAN)?, read(NEXT_RELEASE)?].into_iter().flatten().min();
    let at = |ms: Option<i64>| ms.and_then(|at| time(at).ok());
    Ok(NextDue { agent: at(read(NEXT_AGENT)?), firing: at(firing) })
}

/// Turns due plans into events of their agents, and releases held events whose time has come. If there is more
/// than one command may do, the rest is due at once.
pub(super) fn fire_due(db: &Connection, session: &Session, now: Timestamp, limit: u32) -> Outcome<DueFired> {
    let most = limit.min(limits::PLANS_FIRED_MAX);
    let sql = format!("SELECT p.agent, e.uuid, l.commit_n, p.root, p.hop, p.fired, {PLAN} {PLANS}");
    let mut plans = all(db, &sql, params![ms(now), most + 1], |row| {
        let agent = AgentId(uuid_at(row, 1)?);
        DuePlan::at(row, agent).map_err(damaged_agent(agent))
    })?;
    let left = if plans.len() > most as usize { plans.pop() } else { None };
    left.map_or(Ok(()), |due_plan| due_plan.postpone(db, ms(now) + 1))?;
    // Postponed plans come first: later ones would fill their inboxes.
    plans.sort_by_key(|due_plan| due_plan.plan.next_at);
    let DueFired { mut wake, mut late, .. } = DueFired::default();
    for due_plan in &plans {
        let fired = due_plan.fire(db, session, now, &mut late);
        wake.extend(fired.map_err(damaged_agent(due_plan.agent))?);
    }
    if !wake.is_empty() {
        failpoint::hit!("firing.before");
    }
    let fired = u32::try_from(plans.len()).unwrap_or(u32::MAX);
    let mut room = limit.saturating_sub(fired).min(limits::RELEASE_MAX);
    while room > 0 {
        let next = first(db, RELEASE, [ms(now)], |row| {
            Ok((row.get::<_, i64>(0)?, AgentId(uuid_at(row, 1)?), row.get::<_, i64>(2)))
        })?;
        let Some((row, agent, space)) = next else { break };
        let release = || release(db, session, &mut Head::read(db, session, row)?, space?, now, &mut room);
        if let Some(at) = release().map_err(damaged_agent(agent))? {
            wake.push(Wakeup { agent, at: time(at)?, urgent: false });
        }
    }
    Ok(DueFired { wake, late, shifting: false })
}

/// A plan that is due.
struct DuePlan {
    row: i64,
    agent: AgentId,
    /// The agent's newest commit, from which the new row is valid.
    n: u64,
    plan: Plan,
    cause: Cause,
    /// The seq of its last event.
    fired: Option<i64>,
}

impl DuePlan {
    fn at(row: &Row<'_>, agent: AgentId) -> Outcome<Self> {
        let plan = plan_at(row, 6)?;
        let cause = Cause { root: RootId(key_at(row, 3)?), hop: u32_at(row, 4)?, trust: plan.trust };
        Ok(Self { row: row.get(0)?, agent, n: u64_at(row, 2)?, plan, cause, fired: row.get(5)? })
    }

    fn fire(
        &self,
        db: &Connection,
        session: &Session,
        now: Timestamp,
        late: &mut Vec<LatePlan>,
    ) -> Outcome<Option<Wakeup>> {
        let Some(Fired { event, plan: after, late: dropped }) = plan::fire(&self.plan, &self.cause, now)
        else {
            // It is not due yet.
            return self.postpone(db, self.plan.next_at.map_or(i64::MAX, ms)).map(|()| None);
        };
        let nothing_new = self.plan.source == PlanSource::Heartbeat && !has_news(db, self.row)?;
        let dropped = dropped.map(|slot| LatePlan {
            agent: self.agent,
            plan: self.plan.id,
            name: self.plan.name.clone(),
            slot,
        });
        let Some(event) = event.filter(|_| !nothing_new) else {
            self.put(db, &after, self.fired, now)?;
            late.extend(dropped);
            return Ok(None);
        };
        let mut head = Head::read(db, session, self.row)?;
        let waits = self.fired.map(|seq| waiting(db, self.row, seq)).transpose()?.flatten();
        let (mut fired, mut wake) = (self.fired, None);
        match (Firing::of(self.plan.missed, waits.is_some(), head.waiting, head.inbox_max), waits) {
            (Firing::Postpone, _) => {
                return self.postpone(db, ms(now) + limits::PLAN_POSTPONED_MS).map(|()| None);
            }
            (Firing::Extend, Some(waits)) => {
                let data = to_json(&plan::extended(waits, event.data))?;
                let sql = "UPDATE event SET data = ? WHERE agent = ? AND seq = ?";
                run(db, sql, params![data, self.row, fired])?;
            }
            _ => {
                let urgent = is_urgent(&event, &head.urgency);
                let (event, before) = (Event { urgent, ..event }, head.head_seq);
                let due = admit(db, session, &mut head, &event, None, &EventState::Waiting)?;
                fired = Some(head.head_seq).filter(|seq| *seq > before);
                wake = due
                    .map(|at| Ok::<_, Fault>(Wakeup { agent: self.agent, at: time(at)?, urgent }))
                    .transpose()?;
            }
        }
        self.put(db, &after, fired, now)?;
        late.extend(dropped);
        Ok(wake)
    }

    /// Writes the plan as it is after firing.
    fn put(&self, db: &Connection, after: &Plan, fired: Option<i64>, now: Timestamp) -> Outcome<()> {
        // The agent is not shown its heartbeat.
        if self.plan.source != PlanSource::Heartbeat {
            touch(db, self.row)?;
        }
        let Some(next) = after.next_at else { return end_plan(db, self.row, self.n, after.id) };
        put_plan(db, self.row, self.n, after, &self.cause, fired)?;
        // It is due again at once, after the others.
        if next <= now { self.postpone(db, ms(now) + 1) } else { Ok(()) }
    }

    /// Postpones the plan to that time.
    fn postpone(&self, db: &Connection, at: i64) -> Outcome<()> {
        let sql = "UPDATE plan SET fire_at = ?1 WHERE agent = ?2 AND id = ?3 AND to_commit IS NULL \
                   AND from_commit = (SELECT max(from_commit) FROM plan WHERE agent = ?2 AND id = ?3)";
        run(db, sql, params![at, self.row, bytes(self.plan.id.0)]).map(drop)
    }
}

/// Whether an agent that sleeps has something to look at: an open goal, or facts that changed since its last cycle; before its
/// first one, a note that somebody has given it. Whoever has waiting events is awake for those.
fn has_news(db: &Connection, agent: i64) -> Outcome<bool> {
    let sql = "SELECT h.waiting = 0 AND (ifnull(a.facts_rev <> l.facts_seen, EXISTS (SELECT 1 FROM memory m \
               WHERE m.agent = a.id AND m.to_commit IS NULL)) OR EXISTS (SELECT 1 FROM goal g \
               WHERE g.agent = a.id AND g.to_commit IS NULL AND g.status = 'active')) \
               FROM agent a JOIN life l ON l.agent = a.id JOIN inbox_head h ON h.agent = a.id WHERE a.id = ?";
    Ok(first(db, sql, [agent], |row| Ok(row.get(0)?))?.unwrap_or(false))
}

/// The data of an event, if it waits and no cycle has taken it.
fn waiting(db: &Connection, agent: i64, seq: i64) -> Outcome<Option<EventData>> {
    let sql = "SELECT e.data FROM waiting w JOIN event e ON e.agent = w.agent AND e.seq = w.seq \
               WHERE w.agent = ? AND w.seq = ? AND w.taken = 0";
    let data = first(db, sql, params![agent, seq], |row| Ok(row.get::<_, String>(0)?))?;
    data.map(|data| from_json(&data, "an event's data")).transpose()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use agent::config::AgentConfig;
    use agent::event::Trust;
    use agent::id::PlanId;
    use agent::life::Standing;
    use agent::plan::Schedule;
    use agent::port::{Clock, InboxFilter, NewAgent, PageRequest, Reader, Registry, Store};
    use scenario::clock::SimClock;
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::engine::mutex::lock;
    use crate::sqlite::ports::tests::count_steps;
    use crate::sqlite::ports::{Mode, Sqlite};
    use crate::sqlite::tables::approvals::{LAPSED, NEXT_LAPSE, QUESTIONS};
    use crate::sqlite::tables::calls::DETACHED;
    use crate::sqlite::tables::held::HELD;

    const ADA: AgentId = AgentId(Uuid::from_u128(1));
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn due_rows_are_found_by_index_and_never_by_a_scan() {
        let db = crate::sqlite::engine::schema::open_memory().unwrap();
        for (sql, index) in [
            (DUE, "inbox_due"),
            (NEXT_AGENT, "inbox_due"),
            (NEXT_PLAN, "plan_due"),
            (&format!("SELECT 1 {PLANS}"), "plan_due"),
            (NEXT_RELEASE, "event_release"),
            (RELEASE, "event_release"),
            (HELD, "event_held_in"),
            (DETACHED, "call_detached"),
            (QUESTIONS, "call_asked_in"),
            (LAPSED, "call_lapse"),
            (NEXT_LAPSE, "call_lapse"),
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let blanks = vec![1i64; plan.parameter_count()];
            let steps: Vec<String> = plan
                .query_map(rusqlite::params_from_iter(blanks), |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(steps[0].contains(index), "{sql}: {steps:?}");
            assert!(!steps.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{steps:?}");
        }
    }

    /// Ada, whose inbox is small, and her plans, each of which fires every minute.
    struct World {
        store: Sqlite,
        clock: SimClock,
    }

    impl World {
        async fn new(plans: u128) -> Self {
            let clock = SimClock::new("2026-11-21T14:00:00Z".parse().unwrap());
            let store = Sqlite::in_memory(Arc::new(clock.clone())).unwrap();
            let config: AgentConfig = serde_json::from_value(json!({"limits": {"inbox_max": 10}})).unwrap();
            let (name, at) = ("ada".to_owned(), clock.now());
            let new = NewAgent { id: ADA, name, display_name: String::new(), config, at };
            store.create_agent(new).await.unwrap();
            let world = Self { store, clock };
            for n in 0..plans {
                world.set_plan(n).await;
            }
            world
        }

        async fn set_plan(&self, n: u128) {
            let schedule = Schedule::Cron { expression: "* * * * *".into(), zone: "UTC".into() };
            let next_at = plan::next_after(&schedule, self.clock.now()).ok();
            let id = PlanId(Uuid::from_u128(n));
            let plan = Plan { next_at, ..Plan::new(id, "look", "look out", schedule) };
            let cause = Cause { root: RootId("asked".into()), hop: 3, trust: Trust::Agent };
            self.store.write(move |db, _| put_plan(db, 1, 0, &plan, &cause, None)).await.unwrap();
        }

        /// Advances the clock and fires what is due.
        async fn after(&self, time: Duration) -> Vec<Wakeup> {
            self.clock.advance(time);
            self.store.fire_due(self.clock.now(), 256).await.unwrap().wake
        }

        async fn sql(&self, sql: &'static str) {
            self.store.write(move |db, _| Ok(db.execute_batch(sql)?)).await.unwrap();
        }

        /// The slots of each event that waits, the oldest first.
        async fn slots(&self) -> Vec<usize> {
            let page = PageRequest { cursor: None, limit: 200 };
            let rows = self.store.inbox(ADA, InboxFilter::in_state("waiting"), page).await.unwrap().items;
            let slots = |data: EventData| match data {
                EventData::Plan { slots, .. } => slots.len(),
                _ => 0,
            };
            rows.into_iter().rev().map(|row| slots(row.event.data)).collect()
        }

        async fn set_standing(&self, standing: Standing) {
            self.store.set_standing(ADA, standing, self.clock.now()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_plan_extends_its_waiting_event_until_a_cycle_has_taken_that() {
        let world = World::new(1).await;
        assert_eq!(world.after(MINUTE).await.len(), 1);
        assert_eq!((world.after(MINUTE * 2).await, world.slots().await), (vec![], vec![3]));
        world.sql("UPDATE waiting SET taken = 1; UPDATE inbox_head SET taken = 1").await;
        assert_eq!((world.after(MINUTE).await.len(), world.slots().await), (1, vec![3, 1]));
        let page = PageRequest { cursor: None, limit: 200 };
        let envelope = world.store.inbox(ADA, InboxFilter::default(), page).await.unwrap().items[0]
            .event
            .envelope
            .clone();
        assert_eq!((envelope.root.0.as_str(), envelope.hop, envelope.trust), ("asked", 3, Trust::Agent));
        // The plan was changed: the waiting event keeps the old instruction.
        world.set_plan(0).await;
        assert_eq!((world.after(MINUTE).await.len(), world.slots().await), (1, vec![3, 1, 1]));
    }

    #[tokio::test]
    async fn plans_of_a_suspended_agent_cost_nothing_and_one_event_lists_the_missed_times() {
        for quarantined in [false, true] {
            let world = World::new(1).await;
            world.set_standing(Standing::Suspended).await;
            if quarantined {
                world.store.quarantine(ADA, "torn".into()).await.unwrap();
            }
            world.set_plan(1).await;
            for _ in 0..10 {
                assert_eq!(world.after(MINUTE * 150).await, []);
                assert_eq!(
                    world.store.next_due(world.clock.now()).await.unwrap().first(),
                    None,
                    "nothing is due"
                );
            }
            assert_eq!(world.slots().await, [] as [usize; 0]);
            world.set_standing(Standing::Active).await;
            assert_eq!(world.after(Duration::ZERO).await.len(), 2);
            assert_eq!(world.slots().await, [100, 100]);
            assert_eq!(world.after(Duration::ZERO).await, []);
            assert_eq!((world.after(MINUTE).await, world.slots().await), (vec![], vec![100, 100]));
        }
    }

    #[tokio::test]
    async fn a_plan_that_finds_a_full_inbox_fires_a_little_later_for_all_times_until_then() {
        let world = World::new(12).await;
        assert_eq!(world.after(MINUTE).await.len(), 10);
        assert_eq!(world.slots().await, [1; 10]);
        world.sql("DELETE FROM waiting WHERE seq <= 2; UPDATE inbox_head SET waiting = 8").await;
        assert_eq!(world.after(MINUTE / 2).await, []);
        let next = world.store.next_due(world.clock.now()).await.unwrap().first();
        assert_eq!(next, Some(world.clock.now() + MINUTE / 2));
        assert_eq!(world.after(MINUTE / 2).await.len(), 2);
        assert_eq!(world.slots().await, [2; 10]);
    }

    #[tokio::test]
    async fn a_sweep_costs_the_same_for_any_size_of_the_ledger() {
        let mut efforts = Vec::new();
        for settled in [100, 100_000] {
            let world = World::new(20).await;
            let sql = format!(
                "UPDATE agent SET inbox_max = 100; UPDATE inbox_head SET head_seq = {settled}; \
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {settled}) \
                 INSERT INTO event (agent, seq, id, kind, urgent, at, state, principal_kind, channel, trust, root, hop, data) \
                 SELECT 1, i, 'old-' || i, 2, 0, 0, 2, 3, 1, 0, 'old', 0, '{{}}' FROM n"
            );
            world.store.write(move |db, _| Ok(db.execute_batch(&sql)?)).await.unwrap();
            let Mode::Inline { db, .. } = &world.store.inner.mode else {
                panic!("a store in memory is inline")
            };
            let steps = count_steps(lock(db).as_mut().unwrap());
            for fired in [20, 0] {
                assert_eq!(world.after(MINUTE).await.len(), fired);
            }
            efforts.push(steps.load(Ordering::Relaxed));
        }
        assert!(efforts[1] < efforts[0] + efforts[0] / 10, "{efforts:?}");
    }

    #[tokio::test]
    async fn a_sweep_fires_a_limited_number_of_plans_and_the_next_one_fires_the_rest_at_once() {
        let world = World::new(50).await;
        world.sql("UPDATE agent SET inbox_max = 100").await;
        let mut sizes = Vec::new();
        world.clock.advance(MINUTE);
        loop {
            let now = world.clock.now();
            sizes.push(world.store.fire_due(now, 256).await.unwrap().wake.len());
            match world.store.next_due(now).await.unwrap().first() {
                Some(at) if at.as_millisecond() == now.as_millisecond() + 1 => {
                    world.clock.advance(Duration::from_millis(1))
                }
                next => break assert!(next > Some(now), "{next:?}"),
            }
        }
        assert_eq!(sizes, [20, 20, 10]);
    }
    #[tokio::test]
    async fn ten_thousand_plans_of_a_hundred_agents_at_one_instant_fire_once_each_within_half_a_second() {
        let world = World::new(0).await;
        let agents: Vec<i64> = {
            for n in 2..=100_u128 {
                let config: AgentConfig =
                    serde_json::from_value(json!({"limits": {"inbox_max": 200}})).unwrap();
                let (id, name, at) = (AgentId(Uuid::from_u128(n)), format!("agent-{n}"), world.clock.now());
                world
                    .store
                    .create_agent(NewAgent { id, name, display_name: String::new(), config, at })
                    .await
                    .unwrap();
            }
            (1..=100).collect()
        };
        world.sql("UPDATE agent SET inbox_max = 200").await;
        let next_at = Some(world.clock.now() + MINUTE);
        world
            .store
            .write(move |db, _| {
                for (agent, n) in agents.iter().flat_map(|agent| (0..100_u128).map(move |n| (*agent, n))) {
                    let id = PlanId(Uuid::from_u128(agent as u128 * 1_000 + n));
                    let schedule = Schedule::Cron { expression: "* * * * *".into(), zone: "UTC".into() };
                    let plan = Plan { next_at, ..Plan::new(id, "look", "look out", schedule) };
                    put_plan(db, agent, 0, &plan, &Cause::default(), None)?;
                }
                Ok(())
            })
            .await
            .unwrap();
        world.clock.advance(MINUTE);
        let mut woken = 0;
        for _ in 0..500 {
            let found = world.store.fire_due(world.clock.now(), 256).await.unwrap().wake.len();
            assert!(found <= limits::PLANS_FIRED_MAX as usize);
            woken += found;
            world.clock.advance(Duration::from_millis(1));
        }
        assert_eq!(woken, 10_000);
        let sql = "SELECT count(*), count(DISTINCT id || '/' || agent) FROM event WHERE state = 0";
        let counts = world
            .store
            .write(move |db, _| first(db, sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))));
        assert_eq!(counts.await.unwrap(), Some((10_000, 10_000)));
    }
}
