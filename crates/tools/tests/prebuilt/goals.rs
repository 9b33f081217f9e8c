//! `set_goals` and `delete_goals`: ids, partial changes, the tree, all-or-nothing calls.

use agent::changes::GoalChange;
use agent::id::GoalId;
use agent::life::{Goal, GoalStatus};
use agent::limits;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::World;

fn id(n: u128) -> GoalId {
    GoalId(Uuid::from_u128(n))
}

fn goal(n: u128, parent: Option<u128>) -> Goal {
    let (parent, description) = (parent.map(id), format!("goal {n}"));
    Goal {
        id: id(n),
        parent,
        description,
        priority: 5,
        status: GoalStatus::Active,
        trust: Default::default(),
    }
}

fn with(goals: Vec<Goal>) -> World {
    let mut world = World::new();
    world.facts.goals = goals;
    world
}

fn set(world: &World) -> Vec<Goal> {
    let goals = world.pending.goals.iter();
    goals
        .map(|change| match change {
            GoalChange::Set(goal) => goal.clone(),
            GoalChange::Delete(id) => panic!("`{id}` was deleted"),
        })
        .collect()
}

fn goals(goals: Value) -> Value {
    json!({ "goals": goals })
}

#[tokio::test]
async fn a_goal_and_its_sub_goals_are_created_in_one_call() {
    let mut world = World::new();
    // A sub-goal may come before its parent.
    let reply = world
        .reply(
            "set_goals",
            goals(json!([
                {"description": "write the tests", "parent_id": "ship"},
                {"description": " ship it ", "ref": "ship", "priority": 9},
                {"description": "tell everyone", "parent_id": "ship", "status": "abandoned"},
            ])),
        )
        .await;
    let made = set(&world);
    let wanted = json!({"success": true, "total": 3, "created": [
        {"id": made[0].id, "description": "write the tests"},
        {"id": made[1].id, "ref": "ship"},
        {"id": made[2].id, "description": "tell everyone"},
    ]});
    assert_eq!(reply, wanted);
    let parents: Vec<_> = made.iter().map(|goal| goal.parent).collect();
    assert_eq!(parents, [Some(made[1].id), None, Some(made[1].id)]);
    assert_eq!((made[1].description.as_str(), made[1].priority, made[0].priority), ("ship it", 9, 5));
    assert_eq!((made[0].status, made[2].status), (GoalStatus::Active, GoalStatus::Abandoned));
}

#[tokio::test]
async fn ids_of_new_goals_derive_from_the_call() {
    let make = goals(json!([{"description": "a"}, {"description": "b"}]));
    let (mut one, mut two) = (World::new(), World::new());
    one.ask("set_goals", make.clone()).await.unwrap();
    two.ask("set_goals", make.clone()).await.unwrap();
    assert_eq!(set(&one), set(&two));
    one.ask("set_goals", make).await.unwrap();
    let mut ids: Vec<_> = set(&one).iter().map(|goal| goal.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn an_update_keeps_the_fields_that_it_leaves_out() {
    let mut world = with(vec![goal(1, None), Goal { priority: 8, ..goal(2, Some(1)) }]);
    let reply = world.reply("set_goals", goals(json!([{"id": id(2), "status": "completed"}]))).await;
    assert_eq!(reply, json!({"success": true, "updated": [id(2)], "total": 2}));
    assert_eq!(set(&world), [Goal { priority: 8, status: GoalStatus::Completed, ..goal(2, Some(1)) }]);
    // A call sees the changes of earlier calls in the same step; empty texts count as left out.
    let change = json!([{"id": id(2), "parent_id": "none", "ref": "", "description": "new"}]);
    world.reply("set_goals", goals(change)).await;
    let after =
        Goal { priority: 8, status: GoalStatus::Completed, description: "new".into(), ..goal(2, None) };
    assert_eq!(set(&world)[1], after);
    world.reply("set_goals", goals(json!([{"id": id(2), "parent_id": null, "priority": 1}]))).await;
    assert_eq!(set(&world)[2], Goal { priority: 1, ..after });
}

#[tokio::test]
async fn one_invalid_goal_refuses_the_whole_call() {
    let mut world = with(vec![goal(1, None), goal(2, Some(1))]);
    let long = "x".repeat(limits::GOAL_DESCRIPTION_MAX_BYTES + 1);
    for (wrong, why) in [
        (
            json!({"id": id(9), "description": "x"}),
            "no goal of yours has the id `00000000-0000-0000-0000-000000000009`",
        ),
        (
            json!({"id": "goal-1", "description": "x"}),
            "(leave `id` out to make a goal); your goals: `00000000-",
        ),
        (json!({"description": "x", "parent_id": "ship"}), "wanted as `parent_id`; your goals: "),
        (json!({"description": "x", "parent_id": id(9)}), "none of this call the `ref`"),
        (json!({"priority": 3}), "a new goal needs a `description`"),
        (json!({"id": id(1), "description": "  "}), "got only white space"),
        (json!({"description": long}), "at most 1024 bytes, got 1025"),
        (json!({"description": "x", "ref": "fine"}), "two goals have the `ref` `fine`"),
        (json!({"id": id(1), "parent_id": id(2)}), "would be a sub-goal of itself"),
        (json!({"id": id(1), "parent_id": id(1)}), "would be a sub-goal of itself"),
        (json!({"description": "x", "ref": "me", "parent_id": "me"}), "would be a sub-goal of itself"),
    ] {
        let error =
            world.refusal("set_goals", goals(json!([{"description": "a", "ref": "fine"}, wrong]))).await;
        assert!(error.starts_with("nothing was set: ") && error.contains(why), "{error}");
        assert!(world.pending.is_empty());
    }
    let none = World::new().refusal("set_goals", goals(json!([{"id": id(1)}]))).await;
    assert!(none.ends_with("you have no goals"), "{none}");
}

#[tokio::test]
async fn an_error_names_what_the_schema_forbids() {
    let mut world = World::new();
    let many: Vec<_> = (0..=limits::GOALS_PER_CALL).map(|n| json!({"description": n.to_string()})).collect();
    for (list, why) in [
        (json!([]), "wanted at least 1 items, got 0"),
        (json!(many), "wanted at most 20 items, got 21"),
        (json!([{"description": "a", "priority": 11}]), "`/goals/0/priority`"),
        (json!([{"description": "a", "priority": 0}]), "`/goals/0/priority`"),
        (json!([{"description": "a", "status": "done"}]), "`/goals/0/status`"),
        (json!([{"description": "a", "parent": "b"}]), "wanted no others, got `parent`"),
    ] {
        let error = world.refusal("set_goals", goals(list)).await;
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn errors_for_too_many_goals_or_levels_say_what_to_do() {
    let levels = u128::try_from(limits::GOAL_LEVELS_MAX).unwrap();
    let chain = (1..=levels).map(|n| goal(n, (n > 1).then(|| n - 1))).collect();
    let error =
        with(chain).refusal("set_goals", goals(json!([{"description": "x", "parent_id": id(levels)}]))).await;
    assert!(error.contains("wanted at most 5 levels of goals"), "{error}");

    let mut all: Vec<_> = (1..=100).map(|n| goal(n, None)).collect();
    let one_more = goals(json!([{"description": "x"}]));
    let error = with(all.clone()).refusal("set_goals", one_more.clone()).await;
    assert!(error.contains("at most 100 goals in all, these would make 101; delete some"), "{error}");
    all[6].status = GoalStatus::Completed;
    let mut world = with(all);
    let error = world.refusal("set_goals", one_more.clone()).await;
    assert!(
        error.ends_with("these are over: `00000000-0000-0000-0000-000000000007` (\"goal 7\", completed)"),
        "{error}"
    );
    world.ask("delete_goals", json!({"ids": [id(7)]})).await.unwrap();
    assert_eq!(world.reply("set_goals", one_more).await["total"], 100);
}

#[tokio::test]
async fn a_goal_is_deleted_with_all_its_sub_goals() {
    let mut world = with(vec![goal(1, None), goal(2, Some(1)), goal(3, Some(2)), goal(4, None)]);
    let reply = world.reply("delete_goals", json!({"ids": [id(3), id(1), "nope", id(1)]})).await;
    let wanted =
        json!({"success": true, "deleted": [id(3), id(1), id(2)], "not_found": ["nope"], "total": 1});
    assert_eq!(reply, wanted);
    assert_eq!(world.pending.goals, [3, 1, 2].map(|n| GoalChange::Delete(id(n))));
    let error = world.refusal("delete_goals", json!({"ids": [id(1)]})).await;
    let wanted = "; your goals: `00000000-0000-0000-0000-000000000004` (\"goal 4\")";
    assert!(error.starts_with("no goal of yours has the id `") && error.ends_with(wanted), "{error}");
}
