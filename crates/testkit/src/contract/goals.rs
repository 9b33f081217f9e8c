//! Promises about goals: versions, order and ownership.

use agent::changes::{CommitKind, CommitOutcome, GoalChange, GoalEdit};
use agent::event::Trust;
use agent::id::GoalId;
use agent::life::{Goal, GoalStatus};
use agent::port::{Denial, RegistryError};

use super::Backend;
use super::world::{fresh, world};

fn goal(id: GoalId, parent: Option<GoalId>, priority: i32) -> Goal {
    Goal {
        id,
        parent,
        description: format!("priority {priority}"),
        priority,
        status: GoalStatus::Active,
        trust: Default::default(),
    }
}

/// The highest priority comes first, deleted goals are gone, untouched ones are unchanged. Several writes of
/// one goal in a commit leave one row.
pub async fn goals_are_versioned_and_the_last_write_wins(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let [a, b, c, d] = [(); 4].map(|()| GoalId(fresh()));
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    let set = |id, parent, priority| GoalChange::Set(goal(id, parent, priority));
    // A sub-goal may be written before its goal.
    decision.inward.goals = vec![set(b, Some(a), 2), set(a, None, 1), set(a, None, 9), set(c, Some(b), 5)];
    driver.commit(&w, decision).await;
    let wanted = vec![goal(a, None, 9), goal(c, Some(b), 5), goal(b, Some(a), 2)];
    let facts = w.facts(driver.lease).await;
    assert_eq!(facts.goals, wanted);
    let known = facts.known_rev();
    // Known facts are not read again until they change.
    assert_eq!(w.b.store.glance(driver.lease, known).await.unwrap().unwrap().facts, None);
    let mut decide = driver.changes(CommitKind::Decide);
    let over = Goal { status: GoalStatus::Completed, parent: None, ..goal(b, None, 2) };
    decide.inward.goals = vec![
        GoalChange::Delete(c),
        GoalChange::Set(over.clone()),
        set(d, None, 7),
        GoalChange::Delete(d),
        GoalChange::Delete(GoalId(fresh())),
    ];
    driver.commit(&w, decide).await;
    let goals = w.b.reader.facts(w.ada).await.unwrap().unwrap().goals;
    let news = w.b.store.glance(driver.lease, known).await.unwrap().unwrap();
    assert_eq!(news.facts.unwrap().goals, goals);
    assert_eq!(goals, [goal(a, None, 9), over]);
    assert_eq!(w.wake(w.ada).await.facts.goals, goals);
    assert_eq!(w.b.reader.facts(w.bob).await.unwrap().unwrap().goals, []);
}

/// The refusal names the call that tried to add the sub-goal.
pub async fn a_sub_goal_of_another_agents_goal_is_refused(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let hers = goal(GoalId(fresh()), None, 1);
    let mut ada = w.open(w.ada).await;
    let mut decision = ada.decision();
    decision.inward.goals = vec![GoalChange::Set(hers.clone())];
    ada.commit(&w, decision).await;
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

/// A text that an operator wrote is the operator's, whatever the agent changes around it; one that the agent writes is
/// of what the agent had read. Operators change any goal.
pub async fn a_goal_is_of_whoever_has_written_its_text(b: Backend) {
    let w = world(b).await;
    let [own, theirs] = [(); 2].map(|()| GoalId(fresh()));
    let edit = async |edit| w.b.registry.change_goal(w.ada, edit).await;
    let set = edit(GoalEdit::Set(goal(theirs, None, 3))).await.unwrap().unwrap();
    assert_eq!((set.trust, set.priority), (Trust::Operator, 3));
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.cause.trust = Trust::Agent;
    let done = Goal { status: GoalStatus::Completed, ..set.clone() };
    decision.inward.goals = vec![GoalChange::Set(done.clone()), GoalChange::Set(goal(own, Some(theirs), 7))];
    driver.commit(&w, decision).await;
    let goals = async || w.b.reader.facts(w.ada).await.unwrap().unwrap().goals;
    let written = Goal { trust: Trust::Agent, ..goal(own, Some(theirs), 7) };
    assert_eq!(goals().await, [written, done]);
    let change = |id, description: Option<&str>| GoalEdit::Change {
        id,
        description: description.map(ToOwned::to_owned),
        priority: Some(1),
        status: None,
    };
    assert_eq!(edit(change(own, None)).await.unwrap().unwrap().trust, Trust::Agent);
    assert_eq!(edit(change(own, Some("anew"))).await.unwrap().unwrap().trust, Trust::Operator);
    let mut decide = driver.changes(CommitKind::Decide);
    decide.cause.trust = Trust::Outside;
    let rewritten = Goal { description: "of a stranger".into(), ..set };
    decide.inward.goals = vec![GoalChange::Set(rewritten)];
    driver.commit(&w, decide).await;
    let trust = goals().await.into_iter().find(|goal| goal.id == theirs).map(|goal| goal.trust);
    assert_eq!(trust, Some(Trust::Outside));
    assert_eq!(edit(GoalEdit::Delete(theirs)).await.unwrap(), None);
    assert_eq!(goals().await, [], "with its sub-goals");
    let missing = edit(GoalEdit::Delete(theirs)).await;
    assert!(
        matches!(missing, Err(RegistryError::Denied(Denial::NotFound { what: "goal", .. }))),
        "{missing:?}"
    );
}
