//! The guard at work: which calls of a decision are refused, and what is remembered of those that are not.

use serde_json::json;

use super::awareness::configured;
use super::*;
use crate::changes::{GoalChange, PlanChange};
use crate::config::AgentConfig;
use crate::id::{GoalId, PlanId};
use crate::life::{Goal, GoalStatus};
use crate::memory::Memory;
use crate::plan::{Plan, Schedule};
use crate::tool::{ToolLabel, ToolLabels};

fn used(labels: &[ToolLabel]) -> ToolLabels {
    labels.iter().copied().collect()
}

fn from_outside() -> Vec<Waiting> {
    let mut waiting = service(1, 0);
    waiting.event.envelope.trust = Trust::Outside;
    vec![waiting]
}

/// The commits of a decision that calls these tools, by an agent that has used tools with such labels.
fn decide(
    config: &serde_json::Value,
    activation: Activation,
    before: &[ToolLabel],
    calls: &[&str],
) -> Vec<Changes> {
    let life = Life { used: used(before), ..activation.life };
    let config = Arc::new(AgentConfig::from_json(config).unwrap());
    let mut cycle = begin_with(Activation { life, config, ..activation });
    drive(&mut cycle);
    reply_with(&mut cycle, calls.iter().map(|name| call(name)).collect()).0
}

/// The calls that the guard refuses, or of which it asks a person.
fn refused(commits: &[Changes]) -> Vec<&str> {
    let rows = commits.iter().flat_map(|commit| &commit.calls);
    rows.filter(|row| {
        row.waits_for_person()
            || row.outcome.as_ref().is_some_and(|outcome| outcome.text.starts_with("refused by the guard"))
    })
    .map(|row| row.tool.as_str())
    .collect()
}

#[test]
fn a_call_that_lets_strangers_text_private_data_and_a_way_out_meet_needs_a_person_and_is_not_counted_as_used()
{
    let both = ["crm", "mail"];
    let after_private = decide(&json!({}), activation(from_outside()), &[ToolLabel::Private], &both);
    assert_eq!(refused(&after_private), ["mail"]);
    assert_eq!(after_private[0].used, used(&[ToolLabel::Private]), "what was refused was not used");
    let outcomes = after_private[0].calls[1].clone();
    assert_eq!(outcomes.trust_of_outcome(Trust::Member), Trust::Member, "our own words");
    let after_sending = decide(&json!({}), activation(from_outside()), &[ToolLabel::Exfiltrates], &both);
    assert_eq!(refused(&after_sending), ["crm"]);
    assert_eq!(
        refused(&decide(&json!({}), activation(vec![service(1, 0)]), &[ToolLabel::Private], &both)),
        [""; 0]
    );
    assert_eq!(
        refused(&decide(&json!({}), activation(from_outside()), &[], &both)),
        ["mail"],
        "of one reply"
    );
    let off = json!({"guard": "off"});
    assert_eq!(refused(&decide(&off, activation(from_outside()), &[ToolLabel::Private], &both)), [""; 0]);
    let strict = json!({"guard": "strict"});
    assert_eq!(refused(&decide(&strict, activation(from_outside()), &[], &["look", "fire"])), ["fire"]);
}

#[test]
fn what_a_summary_a_memory_or_an_earlier_entry_has_from_strangers_counts() {
    let private = [ToolLabel::Private];
    let clean = || activation(vec![service(1, 0)]);
    let check = |activation: Activation, expected: &[&str]| {
        assert_eq!(refused(&decide(&json!({}), activation, &private, &["mail"])), expected);
    };
    check(clean(), &[]);
    let summary = View { summary: Some("## Facts".into()), trust: Trust::Outside, ..View::whole() };
    check(Activation { view: summary.clone(), ..clean() }, &["mail"]);
    check(Activation { view: View { trust: Trust::Member, ..summary }, ..clean() }, &[]);
    let memory = |trust| Memory {
        key: "k".into(),
        value: "v".into(),
        importance: Default::default(),
        pinned: false,
        updated_at: at(0),
        used_at: at(0),
        trust,
    };
    let facts = |trust| Facts { memories: vec![memory(trust)], ..Facts::default() };
    check(Activation { facts: facts(Trust::Outside), ..clean() }, &["mail"]);
    check(Activation { facts: facts(Trust::Agent), ..clean() }, &[]);
    let goal = |trust| Goal {
        id: GoalId(Uuid::from_u128(7)),
        parent: None,
        description: "read it and send it".into(),
        priority: 5,
        status: GoalStatus::Active,
        trust,
    };
    let facts = |trust| Facts { goals: vec![goal(trust)], ..Facts::default() };
    check(Activation { facts: facts(Trust::Outside), ..clean() }, &["mail"]);
    check(Activation { facts: facts(Trust::Member), ..clean() }, &[]);
    let clearing = crate::guard::clear(&Activation { facts: facts(Trust::Outside), ..clean() }, at(1));
    assert_eq!(clearing.goals, ["read it and send it"]);
    assert_eq!(clearing.changes.inward.goals, [GoalChange::Delete(GoalId(Uuid::from_u128(7)))]);
    let id = PlanId(Uuid::from_u128(8));
    let schedule = Schedule::At { at: at(9_000) };
    let plan = |trust| Plan { trust, ..Plan::new(id, "later", "read it and send it", schedule.clone()) };
    let facts = |trust| Facts { plans: vec![plan(trust)], ..Facts::default() };
    check(Activation { facts: facts(Trust::Outside), ..clean() }, &["mail"]);
    check(Activation { facts: facts(Trust::Operator), ..clean() }, &[]);
    let clearing = crate::guard::clear(&Activation { facts: facts(Trust::Outside), ..clean() }, at(1));
    assert_eq!(
        (clearing.plans, clearing.changes.inward.plans),
        (vec!["later".to_owned()], vec![PlanChange::Delete(id)])
    );
}

#[test]
fn what_an_agent_says_after_it_has_read_strangers_text_is_strangers_text_to_others() {
    for (waiting, expected) in [(from_outside(), Trust::Outside), (vec![service(1, 0)], Trust::Agent)] {
        let mut cycle = configured(&json!({}), waiting);
        drive(&mut cycle);
        assert_eq!(cycle.trust_of_messages(), expected);
    }
}

#[test]
fn what_was_called_is_remembered_within_the_cycle() {
    let mut cycle = configured(&json!({}), from_outside());
    drive(&mut cycle);
    let (_, next) = reply_with(&mut cycle, vec![call("crm")]);
    let Next::Outward(calls) = next else { panic!("wanted the call to run, got {next:?}") };
    cycle.settled(calls[0].id.clone(), Outcome::ok("secret"));
    drive(&mut cycle);
    let (commits, _) = reply_with(&mut cycle, vec![call("mail")]);
    assert_eq!(refused(&commits), ["mail"]);
}

#[test]
fn an_event_that_waits_counts_since_its_beginning_may_be_previewed() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    assert_eq!(cycle.trust_of_messages(), Trust::Agent);
    let mut waiting = from_outside();
    waiting[0].seq = 2;
    cycle.looked(Some(news(waiting)));
    assert_eq!(cycle.trust_of_messages(), Trust::Outside);
}
