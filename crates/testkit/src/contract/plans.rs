//! Promises about plans: when they fire, once for each slot, and who may change them.

use agent::changes::{CommitKind, CommitOutcome, GoalChange, MemoryChange, PlanChange};
use agent::config::AgentConfig;
use agent::event::{Cause, Envelope, EventData, Trust};
use agent::id::{EventId, GoalId, PlanId, RootId};
use agent::life::{Goal, GoalStatus, Standing};
use agent::limits;
use agent::plan::{Missed, Plan, PlanSource, Schedule};
use agent::port::{Denial, DueFired, LatePlan, RegistryError};
use jiff::Timestamp;
use serde_json::json;

use super::Backend;
use super::world::{CycleDriver, World, at, fresh, service, world, world_with};

/// An hourly plan that Ada sets in a cycle.
async fn planned(w: &World) -> Plan {
    w.post(w.family, "remind me").await;
    let mut driver = w.open(w.ada).await;
    let schedule = Schedule::Every { every_ms: HOUR as u64, from: at(0) };
    let plan = Plan { next_at: Some(at(HOUR)), ..Plan::new(PlanId(fresh()), "health", "check", schedule) };
    let mut decision = driver.decision();
    decision.inward.plans = vec![PlanChange::Set(plan.clone())];
    decision.cause = Cause { root: RootId("asked".into()), hop: 3, trust: Trust::Agent };
    driver.commit(w, decision).await;
    let plan = Plan { trust: Trust::Agent, ..plan };
    assert!(w.facts(driver.lease).await.plans.contains(&plan));
    let closing = driver.closing();
    driver.commit(w, closing).await;
    plan
}

const HOUR: i64 = 3_600_000;

/// The number of slots in each waiting plan event.
async fn slots(w: &World, now: Timestamp) -> Vec<usize> {
    let waiting = w.b.store.wake(w.ada, now, None).await.unwrap().unwrap().waiting;
    let slots = waiting.into_iter().map(|waiting| match waiting.event.data {
        EventData::Plan { slots, .. } => slots.len(),
        other => panic!("wanted a plan's event, got {other:?}"),
    });
    slots.collect()
}

/// Missed slots become one event. Slots that are due while it waits are added to it. Firing again adds nothing.
pub async fn a_due_plan_fires_one_event_once(b: Backend) {
    let w = world(b).await;
    planned(&w).await;
    assert_eq!(w.b.store.next_due(at(0)).await.unwrap().first(), Some(at(HOUR)));
    assert_eq!(w.b.store.fire_due(at(HOUR - 1), 10).await.unwrap().wake, []);
    let now = at(3 * HOUR + 60_000);
    let woken = w.b.store.fire_due(now, 10).await.unwrap().wake;
    assert_eq!(woken.iter().map(|wakeup| wakeup.agent).collect::<Vec<_>>(), [w.ada]);
    assert_eq!(w.b.store.fire_due(now, 10).await.unwrap().wake, []);
    assert_eq!(slots(&w, now).await, [3]);
    let waiting = w.b.store.wake(w.ada, now, None).await.unwrap().unwrap().waiting;
    let Envelope { root, hop, trust, .. } = &waiting[0].event.envelope;
    assert_eq!(
        (root.0.as_str(), *hop, *trust),
        ("asked", 3, Trust::Agent),
        "from the cycle that set the plan"
    );
    let pending = w.b.reader.facts(w.ada).await.unwrap().unwrap().plans;
    assert!(pending[0].next_at > Some(now), "{pending:?}");
    let later = at(5 * HOUR);
    assert_eq!(w.b.store.fire_due(later, 10).await.unwrap().wake, []);
    assert_eq!(slots(&w, later).await, [5]);
}

/// Until then they are not due.
pub async fn plans_of_a_suspended_agent_fire_once_when_it_is_resumed(b: Backend) {
    let w = world(b).await;
    planned(&w).await;
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(20)).await.unwrap();
    for hours in 1..4 {
        assert_eq!(w.b.store.fire_due(at(hours * HOUR), 10).await.unwrap().wake, []);
        assert_eq!(w.b.store.next_due(at(hours * HOUR)).await.unwrap().first(), None);
    }
    let now = at(4 * HOUR);
    w.b.registry.set_standing(w.ada, Standing::Active, now).await.unwrap();
    assert_eq!(w.b.store.fire_due(now, 10).await.unwrap().wake.len(), 1);
    assert_eq!(slots(&w, now).await, [4]);
}

/// It fires once there is room, with all slots until then.
pub async fn a_plan_that_finds_the_inbox_full_fires_later(b: Backend) {
    let config = AgentConfig::from_json(&serde_json::json!({"limits": {"inbox_max": 10}})).unwrap();
    let w = world_with(b, config).await;
    planned(&w).await;
    for n in 0..10 {
        w.event(w.ada, service(&format!("bell-{n}"))).await;
    }
    assert_eq!(w.b.store.fire_due(at(HOUR), 10).await.unwrap().wake, []);
    for n in 0..10 {
        w.b.registry.cancel_event(w.ada, EventId(format!("bell-{n}"))).await.unwrap();
    }
    assert_eq!(w.b.store.fire_due(at(HOUR + 1), 10).await.unwrap().wake, []);
    assert_eq!(w.b.store.fire_due(at(2 * HOUR), 10).await.unwrap().wake.len(), 1);
    assert_eq!(slots(&w, at(2 * HOUR)).await, [2]);
}

/// A plan that an operator sets, every hour.
fn hourly(name: &str) -> Plan {
    let schedule = Schedule::Every { every_ms: HOUR as u64, from: at(0) };
    let plan = Plan::new(PlanId(fresh()), name, "check", schedule);
    Plan { next_at: Some(at(HOUR)), source: PlanSource::Operator, trust: Trust::Operator, ..plan }
}

async fn set(w: &World, plan: Plan) -> Result<Option<Plan>, RegistryError> {
    w.b.registry.change_plan(w.ada, PlanChange::Set(plan)).await
}

async fn plans(w: &World) -> Vec<Plan> {
    w.b.reader.plans(w.ada).await.unwrap()
}

/// Late slots are dropped. With the next slot it fires as always.
pub async fn a_plan_that_skips_what_it_missed_fires_for_no_late_slot(b: Backend) {
    let w = world(b).await;
    let plan = Plan { missed: Missed::Skip, ..hourly("skip") };
    assert_eq!(set(&w, plan.clone()).await.unwrap(), Some(plan.clone()));
    let late = at(3 * HOUR + 30 * 60_000);
    let dropped = LatePlan { agent: w.ada, plan: plan.id, name: "skip".into(), slot: at(HOUR) };
    let fired = DueFired { wake: vec![], late: vec![dropped], shifting: false };
    assert_eq!(w.b.store.fire_due(late, 10).await.unwrap(), fired);
    assert_eq!(plans(&w).await, [Plan { next_at: Some(at(4 * HOUR)), ..plan }]);
    assert_eq!(w.b.store.fire_due(at(4 * HOUR), 10).await.unwrap().wake.len(), 1);
    assert_eq!(slots(&w, at(4 * HOUR)).await, [1]);
}

/// Each is an event of its own, also while the one before waits. They come after what other plans have to fire.
pub async fn a_plan_that_wants_all_its_slots_gets_an_event_for_each(b: Backend) {
    let w = world(b).await;
    set(&w, Plan { missed: Missed::All, ..hourly("all") }).await.unwrap();
    let mut now = at(3 * HOUR);
    for _ in 0..3 {
        assert_eq!(w.b.store.fire_due(now, 10).await.unwrap().wake.len(), 1);
        now = w.b.store.next_due(now).await.unwrap().first().unwrap();
    }
    assert_eq!(slots(&w, now).await, [1, 1, 1]);
    assert_eq!(now, at(4 * HOUR));
}

/// It is no longer listed, but found by its id: a repeated request learns what became of it.
pub async fn a_plan_that_has_fired_for_the_last_time_has_ended(b: Backend) {
    let w = world(b).await;
    let schedule = Schedule::At { at: at(HOUR) };
    let once = Plan { schedule, ..hourly("once") };
    set(&w, once.clone()).await.unwrap();
    assert_eq!(w.b.store.fire_due(at(HOUR), 10).await.unwrap().wake.len(), 1);
    assert_eq!(plans(&w).await, []);
    let ended = Plan { next_at: None, ..once.clone() };
    assert_eq!(w.b.reader.plan(w.ada, once.id).await.unwrap(), Some(ended));
    assert_eq!(w.b.reader.plan(w.bob, once.id).await.unwrap(), None);
    assert_eq!(w.b.store.next_due(at(HOUR)).await.unwrap().first(), None);
}

/// Its events have the trust of an operator, and each is a root of its own.
pub async fn an_operator_sets_and_deletes_plans_within_the_limit(b: Backend) {
    let w = world(b).await;
    let delete = |plan: &Plan| w.b.registry.change_plan(w.ada, PlanChange::Delete(plan.id));
    let first = set(&w, hourly("first")).await.unwrap().unwrap();
    for n in 1..limits::PLANS_MAX {
        set(&w, hourly(&n.to_string())).await.unwrap();
    }
    let refused = set(&w, hourly("one more")).await;
    assert!(matches!(refused, Err(RegistryError::Denied(Denial::PlansFull(_)))), "{refused:?}");
    set(&w, Plan { name: "renamed".into(), ..first.clone() }).await.unwrap();
    assert_eq!(plans(&w).await.len(), limits::PLANS_MAX);
    delete(&first).await.unwrap();
    let gone = delete(&first).await;
    assert!(matches!(gone, Err(RegistryError::Denied(Denial::NotFound { what: "plan", .. }))), "{gone:?}");
    w.b.store.fire_due(at(HOUR), 1).await.unwrap();
    let waiting = w.b.store.wake(w.ada, at(HOUR), None).await.unwrap().unwrap().waiting;
    let envelope = &waiting[0].event.envelope;
    assert_eq!((&envelope.root.0, envelope.hop), (&waiting[0].event.id.0, 0));
    assert_eq!(envelope.trust, Trust::Operator);
    w.b.registry.set_standing(w.ada, Standing::Retired, at(HOUR)).await.unwrap();
    let refused = set(&w, hourly("late")).await;
    assert!(matches!(refused, Err(RegistryError::Denied(Denial::Retired(_)))), "{refused:?}");
}

/// It ends the one before, also where no more fit; plans of the agent itself and of its config have names of their own.
pub async fn an_operators_plan_replaces_the_one_of_its_name(b: Backend) {
    let config = json!({"plans": [{"name": "water", "instruction": "look", "cron": "0 9 * * *"}]});
    let w = world_with(b, AgentConfig::from_json(&config).unwrap()).await;
    let own = planned(&w).await;
    let other = set(&w, hourly(&own.name)).await.unwrap().unwrap();
    let before = set(&w, hourly("water")).await.unwrap().unwrap();
    for n in 3..limits::PLANS_MAX {
        set(&w, hourly(&n.to_string())).await.unwrap();
    }
    let count = plans(&w).await.len();
    let after = set(&w, Plan { instruction: "twice".into(), ..hourly("water") }).await.unwrap().unwrap();
    let all = plans(&w).await;
    let ids =
        |name: &str| all.iter().filter(|plan| plan.name == name).map(|plan| plan.id).collect::<Vec<_>>();
    assert_eq!((all.len(), ids("water").len(), ids(&own.name).len()), (count, 2, 2));
    assert!(ids("water").contains(&after.id) && !ids("water").contains(&before.id));
    assert!(ids(&own.name).contains(&own.id) && ids(&own.name).contains(&other.id));
    assert_eq!(w.b.reader.plan(w.ada, before.id).await.unwrap(), Some(Plan { next_at: None, ..before }));
}

/// The call is refused as for another agent's plan.
pub async fn an_agent_cannot_change_a_plan_that_an_operator_has_set(b: Backend) {
    let w = world(b).await;
    let plan = set(&w, hourly("theirs")).await.unwrap().unwrap();
    w.post(w.family, "hello").await;
    let driver = w.open(w.ada).await;
    for change in [PlanChange::Delete(plan.id), PlanChange::Set(Plan { name: "mine".into(), ..plan.clone() })]
    {
        let mut decision = driver.decision();
        decision.calls = vec![driver.call(0)];
        decision.inward.plans = vec![change];
        let outcome = w.commit(driver.lease, decision).await;
        assert!(matches!(&outcome, CommitOutcome::Refused(refusals) if refusals.len() == 1), "{outcome:?}");
    }
    assert_eq!(plans(&w).await, [plan]);
}

/// Changed terms change the plan, removed ones end it; the agent's own plans stay, and a plan whose terms are the same
/// keeps its next slot.
pub async fn the_plans_of_a_config_follow_it(b: Backend) {
    let plan = |name: &str, cron: &str| json!({"name": name, "instruction": "look", "cron": cron});
    let config = json!({"plans": [plan("hourly", "0 * * * *"), plan("daily", "0 9 * * *")]});
    let w = world_with(b, AgentConfig::from_json(&config).unwrap()).await;
    let own = planned(&w).await;
    let named = |plans: Vec<Plan>| plans.into_iter().map(|plan| plan.name).collect::<Vec<_>>();
    assert_eq!(named(plans(&w).await), ["hourly", "health", "daily"].map(str::to_owned));
    let hourly = plans(&w).await.into_iter().find(|plan| plan.name == "hourly").unwrap();
    assert_eq!((hourly.source, hourly.trust), (PlanSource::Config, Trust::Operator));
    let denied = w.b.registry.change_plan(w.ada, PlanChange::Delete(hourly.id)).await;
    assert!(matches!(denied, Err(RegistryError::Denied(Denial::PlanOfConfig(_)))), "{denied:?}");
    let now = at(30 * 60_000);
    let patch = json!({"plans": [plan("hourly", "0 * * * *"), plan("weekly", "0 9 * * 1")]});
    w.b.registry.amend_agent(w.ada, None, Some(patch), now).await.unwrap();
    let kept = plans(&w).await;
    assert_eq!(named(kept.clone()), ["hourly", "health", "weekly"].map(str::to_owned));
    assert!(kept.contains(&hourly) && kept.contains(&own), "{kept:?}");
    w.b.registry.amend_agent(w.ada, None, Some(json!({"plans": []})), now).await.unwrap();
    assert_eq!(plans(&w).await, [own]);
}

/// Nothing waits, nothing changed and no goal is open: then no model needs to look.
pub async fn a_heartbeat_fires_only_if_its_agent_has_something_to_look_at(b: Backend) {
    let w = world(b).await;
    let patch = json!({"heartbeat": {"every": "1h"}});
    w.b.registry.amend_agent(w.ada, None, Some(patch), at(0)).await.unwrap();
    let fires = async |hour: i64| !w.b.store.fire_due(at(hour * HOUR), 10).await.unwrap().wake.is_empty();
    assert!(!fires(1).await, "she has never lived");
    let patch = json!({"heartbeat": {"every": "1h"}});
    w.b.registry.amend_agent(w.bob, None, Some(patch), at(HOUR)).await.unwrap();
    let note = MemoryChange::set("look", "at the mail");
    w.b.registry.change_memory(w.bob, note, at(HOUR)).await.unwrap();
    let woken = w.b.store.fire_due(at(2 * HOUR), 10).await.unwrap().wake;
    assert_eq!(woken.iter().map(|wakeup| wakeup.agent).collect::<Vec<_>>(), [w.bob], "he was given a note");
    w.post(w.family, "hello").await;
    assert!(!fires(3).await, "she is awake for what waits");
    let lives = async |goals: Vec<GoalChange>| {
        let activation = w.b.store.wake(w.ada, at(100 * HOUR), None).await.unwrap().unwrap();
        let mut driver = CycleDriver::about_to_open(w.ada, &activation);
        let open = driver.changes(CommitKind::Open);
        driver.commit(&w, open).await;
        let mut decision = driver.decision();
        decision.inward.goals = goals;
        driver.commit(&w, decision).await;
        let closing = driver.closing();
        driver.commit(&w, closing).await;
    };
    lives(Vec::new()).await;
    assert!(!fires(4).await && !fires(5).await, "nothing has changed since");
    w.b.registry.add_member(w.family, w.bob.entity(), "guest".into(), at(5 * HOUR + 1)).await.unwrap();
    assert!(fires(6).await, "somebody joined a space of hers");
    assert!(!fires(7).await, "the last one waits");
    let waiting = w.b.store.wake(w.ada, at(7 * HOUR), None).await.unwrap().unwrap().waiting;
    assert_eq!(
        waiting.iter().map(|waiting| &waiting.event.data).collect::<Vec<_>>(),
        [&EventData::Heartbeat]
    );
    let goal = Goal {
        id: GoalId(fresh()),
        parent: None,
        description: "tidy up".into(),
        priority: 1,
        status: GoalStatus::Active,
        trust: Trust::Member,
    };
    lives(vec![GoalChange::Set(goal.clone())]).await;
    assert!(fires(8).await, "she has an open goal");
    lives(vec![GoalChange::Set(Goal { status: GoalStatus::Completed, ..goal })]).await;
    assert!(!fires(9).await, "the goal is reached");
    w.b.registry.amend_agent(w.ada, None, Some(json!({"heartbeat": null})), at(9 * HOUR)).await.unwrap();
    w.b.registry.remove_member(w.family, w.bob.entity()).await.unwrap();
    assert!(!fires(10).await, "she has none any more");
}
