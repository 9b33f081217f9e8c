//! `set_plans`, `delete_plans` and `set_reminder`: ids and next times, partial changes, all-or-nothing calls.

use agent::changes::PlanChange;
use agent::id::PlanId;
use agent::limits;
use agent::plan::{Plan, PlanSource, Schedule};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{World, now};

fn id(n: u128) -> PlanId {
    PlanId(Uuid::from_u128(n))
}

fn daily(n: u128) -> Plan {
    let schedule = Schedule::Cron { expression: "0 9 * * *".into(), zone: "UTC".into() };
    let next_at = agent::plan::next_after(&schedule, now()).ok();
    Plan { next_at, ..Plan::new(id(n), &format!("plan {n}"), "look", schedule) }
}

fn with(plans: Vec<Plan>) -> World {
    let mut world = World::new();
    world.facts.plans = plans;
    world
}

fn set(world: &World) -> Vec<Plan> {
    let set = |change: &PlanChange| match change {
        PlanChange::Set(plan) => plan.clone(),
        PlanChange::Delete(id) => panic!("`{id}` was deleted"),
    };
    world.pending.plans.iter().map(set).collect()
}

fn plans(plans: Value) -> Value {
    json!({ "plans": plans })
}

fn later(minutes: i64) -> Timestamp {
    now() + SignedDuration::from_mins(minutes)
}

#[tokio::test]
async fn plans_of_every_kind_are_set_in_one_call_and_the_reply_says_when_they_fire() {
    let mut world = World::new();
    let reply = world
        .reply(
            "set_plans",
            plans(json!([
                {"name": "once", "instruction": "a", "at": later(90)},
                {"name": "soon", "instruction": "b", "after": "30m"},
                {"name": "often", "instruction": "c", "every": "2h"},
                {"name": "daily", "instruction": "d", "cron": "30 9 * * *", "zone": "Europe/Berlin"},
            ])),
        )
        .await;
    let made = set(&world);
    let nexts: Vec<Timestamp> = made.iter().map(|plan| plan.next_at.unwrap()).collect();
    assert_eq!(nexts[..3], [later(90), later(30), later(120)]);
    let shown = |n: usize, name: &str| json!({"id": made[n].id, "name": name, "next": nexts[n]});
    let created = [shown(0, "once"), shown(1, "soon"), shown(2, "often"), shown(3, "daily")];
    assert_eq!(reply, json!({"success": true, "total": 4, "created": created}));
}

#[tokio::test]
async fn a_changed_plan_keeps_the_fields_that_are_left_out() {
    let mut world = with(vec![daily(1)]);
    let reply = world.reply("set_plans", plans(json!([{"id": id(1), "name": "watch"}]))).await;
    let next = daily(1).next_at;
    let updated = json!([{"id": id(1), "name": "watch", "next": next}]);
    assert_eq!(reply, json!({"success": true, "updated": updated, "total": 1}));
    // A call sees the changes of earlier calls in the same step.
    world.reply("set_plans", plans(json!([{"id": id(1), "after": "5m"}]))).await;
    let made = set(&world);
    assert_eq!(made[0], Plan { name: "watch".into(), ..daily(1) });
    assert_eq!((made[1].name.as_str(), made[1].next_at), ("watch", Some(later(5))));
}

#[tokio::test]
async fn one_wrong_plan_refuses_the_whole_call() {
    let mut operators = daily(2);
    operators.source = PlanSource::Operator;
    let mut world = with(vec![daily(1), operators]);
    for (wrong, why) in [
        (json!({"name": "x", "instruction": "y"}), "plan 2: wanted one of `at`, `after`, `every` and `cron`"),
        (json!({"instruction": "y", "after": "5m"}), "plan 2: a plan needs its `name`"),
        (json!({"name": "x", "instruction": "y", "every": "1s"}), "plan 2: `every`: wanted at least 1m"),
        (
            json!({"name": "x", "instruction": "y", "cron": "* * * * * *"}),
            "plan 2: `cron`: wanted five fields",
        ),
        (json!({"name": "x", "instruction": "y", "cron": "0 0 31 2 *"}), "plan 2: `0 0 31 2 *` never fires"),
        (
            json!({"name": "x", "instruction": "y", "cron": "0 9 * * *", "zone": "Rome"}),
            "did you mean `Europe/Rome`?",
        ),
        (
            json!({"name": "x", "instruction": "y", "at": "2020-01-01T00:00:00Z"}),
            "plan 2: `at` must be ahead",
        ),
        (json!({"id": id(9), "name": "x"}), "no plan of yours has the id"),
        (json!({"id": id(2), "name": "x"}), "was set by an operator, and only an operator changes it"),
    ] {
        let good = json!({"name": "good", "instruction": "x", "after": "5m"});
        let error = world.ask("set_plans", plans(json!([good, wrong]))).await.unwrap_err();
        assert!(error.starts_with("nothing was set: ") && error.contains(why), "{error}");
    }
    assert_eq!(set(&world), []);
}

#[tokio::test]
async fn an_agent_has_a_limited_number_of_plans_and_those_of_its_config_do_not_count() {
    let mut all: Vec<Plan> = (1..=limits::PLANS_MAX as u128).map(daily).collect();
    all[0].source = PlanSource::Config;
    let mut world = with(all);
    world.reply("set_reminder", json!({"reason": "one more", "after": "5m"})).await;
    let error = world.ask("set_reminder", json!({"reason": "too many", "after": "5m"})).await.unwrap_err();
    assert!(error.contains("wanted at most 100 plans in all, these would make 101"), "{error}");
    // One of them can still be changed.
    world.reply("set_plans", plans(json!([{"id": id(5), "name": "other"}]))).await;
}

#[tokio::test]
async fn a_reminder_is_a_plan_that_fires_once() {
    let mut world = World::new();
    let reply = world.reply("set_reminder", json!({"reason": "the tea", "after": "4m"})).await;
    let made = set(&world);
    assert_eq!((made[0].name.as_str(), made[0].instruction.as_str()), ("reminder", "the tea"));
    assert_eq!(made[0].schedule, Schedule::After { at: later(4), after_ms: 240_000 });
    let created = json!([{"id": made[0].id, "next": later(4)}]);
    assert_eq!(reply, json!({"success": true, "created": created, "total": 1}));
    let error = world.ask("set_reminder", json!({"reason": "x", "after": "tomorrow"})).await.unwrap_err();
    assert!(error.contains("wanted a span such as `30m`"), "{error}");
    let error = world.ask("set_reminder", json!({"reason": " ", "after": "5m"})).await.unwrap_err();
    assert!(error.contains("needs its `reason`"), "{error}");
}

#[tokio::test]
async fn plans_are_deleted_by_id_and_those_of_operators_stay() {
    let mut operators = daily(3);
    operators.source = PlanSource::Operator;
    let mut world = with(vec![daily(1), daily(2), operators]);
    let reply = world.reply("delete_plans", json!({"ids": [id(1), id(1), id(3), "x"]})).await;
    assert_eq!((&reply["deleted"], &reply["total"]), (&json!([id(1)]), &json!(2)));
    assert_eq!(reply["not_deleted"].as_array().unwrap().len(), 2, "{reply}");
    assert_eq!(world.pending.plans, [PlanChange::Delete(id(1))]);
    let error = world.ask("delete_plans", json!({"ids": [id(1)]})).await.unwrap_err();
    assert!(error.contains("no plan of yours has the id") && error.contains("your plans: "), "{error}");
}
