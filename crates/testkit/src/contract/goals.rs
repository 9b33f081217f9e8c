//! What a store promises about goals: versions, order, and whose they are.

use agent::changes::{CommitKind, CommitOutcome, GoalChange};
use agent::id::GoalId;
use agent::life::{Goal, GoalStatus};

use super::Backend;
use super::world::{fresh, world};

fn goal(id: GoalId, parent: Option<GoalId>, priority: i32) -> Goal {
    Goal { id, parent, description: format!("priority {priority}"), priority, status: GoalStatus::Active }
}

/// Highest priority first, deleted ones gone, untouched ones as they were; a repeat within one
/// commit leaves one row.
pub async fn goals_are_versioned_and_the_last_word_stands(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    let [a, b, c, d] = [(); 4].map(|()| GoalId(fresh()));
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    let set = |id, parent, priority| GoalChange::Set(goal(id, parent, priority));
    // A sub-goal may be written before its goal.
    decision.inward.goals = vec![set(b, Some(a), 2), set(a, None, 1), set(a, None, 9), set(c, Some(b), 5)];
    living.done(&w, decision).await;
    let wanted = vec![goal(a, None, 9), goal(c, Some(b), 5), goal(b, Some(a), 2)];
    let facts = w.facts(living.lease).await;
    assert_eq!(facts.goals, wanted);
    let known = facts.known();
    // What is known is not read again, until it changed.
    assert_eq!(w.b.store.glance(living.lease, known).await.unwrap().unwrap().facts, None);
    let mut decide = living.changes(CommitKind::Decide);
    let over = Goal { status: GoalStatus::Completed, parent: None, ..goal(b, None, 2) };
    decide.inward.goals = vec![
        GoalChange::Delete(c),
        GoalChange::Set(over.clone()),
        set(d, None, 7),
        GoalChange::Delete(d),
        GoalChange::Delete(GoalId(fresh())),
    ];
    living.done(&w, decide).await;
    let goals = w.b.reader.facts(w.ada).await.unwrap().unwrap().goals;
    let news = w.b.store.glance(living.lease, known).await.unwrap().unwrap();
    assert_eq!(news.facts.unwrap().goals, goals);
    assert_eq!(goals, [goal(a, None, 9), over]);
    assert_eq!(w.wake(w.ada).await.facts.goals, goals);
    assert_eq!(w.b.reader.facts(w.bob).await.unwrap().unwrap().goals, []);
}

/// Nobody hangs a goal below one of another agent, and the call that tried is named.
pub async fn a_sub_goal_of_another_agents_goal_is_refused(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "hello").await;
    let hers = goal(GoalId(fresh()), None, 1);
    let mut ada = w.open(w.ada).await;
    let mut decision = ada.decision();
    decision.inward.goals = vec![GoalChange::Set(hers.clone())];
    ada.done(&w, decision).await;
    let bob = w.open(w.bob).await;
    let mut decision = bob.decision();
    decision.inward.goals = vec![GoalChange::Set(goal(GoalId(fresh()), Some(hers.id), 1))];
    let mut call = bob.call(1);
    call.arguments = format!(r#"{{"parent_id":"{}"}}"#, hers.id);
    decision.calls = vec![bob.call(0), call];
    let outcome = w.commit(bob.lease, decision).await;
    let CommitOutcome::Refused(refusals) = outcome else { panic!("wanted a refusal, got {outcome:?}") };
    assert_eq!(refusals.iter().map(|refusal| &refusal.call).collect::<Vec<_>>(), [&bob.call(1).id]);
    assert!(refusals[0].reason.contains("you have no goal"), "{refusals:?}");
    assert_eq!(w.b.reader.facts(w.bob).await.unwrap().unwrap().goals, []);
    assert_eq!(w.b.reader.facts(w.ada).await.unwrap().unwrap().goals, [hers]);
}
