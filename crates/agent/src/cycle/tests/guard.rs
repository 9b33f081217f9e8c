//! The guard at work: which calls of a decision wait for a person or are refused, by what their request shows.

use serde_json::json;

use super::awareness::{configured, space_of_three};
use super::*;
use crate::changes::{GoalChange, PlanChange};
use crate::config::AgentConfig;
use crate::id::{GoalId, PlanId};
use crate::life::{Goal, GoalStatus, SpaceFacts};
use crate::memory::Memory;
use crate::plan::{Plan, Schedule};

fn from_outside() -> Vec<Waiting> {
    let mut waiting = service(1, 0);
    waiting.event.envelope.trust = Trust::Outside;
    vec![waiting]
}

/// The commits of a decision with these calls.
fn decide_with(config: &serde_json::Value, activation: Activation, calls: Vec<ReplyPart>) -> Vec<Changes> {
    let config = Arc::new(AgentConfig::from_json(config).unwrap());
    let mut cycle = begin_with(Activation { config, ..activation });
    drive(&mut cycle);
    reply_with(&mut cycle, calls).0
}

fn decide(config: &serde_json::Value, activation: Activation, calls: &[&str]) -> Vec<Changes> {
    decide_with(config, activation, calls.iter().map(|name| call(name)).collect())
}

/// The calls that the guard refuses, or of which it asks a person.
fn refused(commits: &[Changes]) -> Vec<&str> {
    let rows = commits.iter().flat_map(|commit| &commit.calls);
    rows.filter(|row| {
        row.waits_for_person()
            || row.outcome.as_ref().is_some_and(|outcome| {
                ["refused by the guard", "not posted: "].iter().any(|start| outcome.text.starts_with(start))
            })
    })
    .map(|row| row.tool.as_str())
    .collect()
}

#[test]
fn after_strangers_text_every_way_out_needs_a_person_and_what_only_reads_does_not() {
    let all = ["crm", "mail", "look"];
    let asked = decide(&json!({}), activation(from_outside()), &all);
    assert_eq!(
        refused(&asked),
        ["mail"],
        "what was sent to the agent is private, whoever labelled which tool"
    );
    let why = &asked[0].calls[1].approval.as_ref().unwrap().why;
    assert!(why.contains("`mail`: it can send out what it was told"), "{why}");
    assert_eq!(refused(&decide(&json!({}), activation(vec![service(1, 0)]), &all)), [""; 0]);
    assert_eq!(refused(&decide(&json!({"guard": "off"}), activation(from_outside()), &all)), [""; 0]);
    let strict = json!({"guard": "strict"});
    let calls = ["look", "fire", "mail", "crm"];
    assert_eq!(refused(&decide(&strict, activation(from_outside()), &calls)), ["fire", "mail"]);
}

#[test]
fn what_the_runtime_says_about_a_call_adds_no_strangers_text() {
    let clean = decide(&json!({"guard": "strict"}), activation(from_outside()), &["mail"]);
    assert_eq!(clean[0].calls[0].outcome.as_ref().unwrap().trust, Some(Trust::Operator), "our own words");
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("look")]);
    cycle.settled(cycle_call(&cycle), Outcome::interrupted());
    drive(&mut cycle);
    assert_eq!(refused(&reply_with(&mut cycle, vec![call("mail")]).0), [""; 0], "unknown, but ours");
}

fn cycle_call(cycle: &Cycle) -> CallId {
    CallId::derive(cycle.lease().agent, cycle.id(), cycle.step(), 0)
}

#[test]
fn what_the_model_writes_is_worth_what_it_has_read() {
    let outside = View { summary: Some("## Facts".into()), trust: Trust::Outside, ..View::whole() };
    let decided =
        decide(&json!({}), Activation { view: outside, ..activation(vec![service(1, 0)]) }, &["look"]);
    let trusts: Vec<_> = decided[0].entries.iter().map(|entry| (entry.kind, entry.trust)).collect();
    assert_eq!(trusts, [(EntryKind::Inbox, Trust::Operator), (EntryKind::Assistant, Trust::Outside)]);
    assert_eq!(decided[0].calls[0].trust, Trust::Outside, "its outcome may repeat its arguments");
}

#[test]
fn what_a_request_has_shown_counts_although_it_is_gone_when_the_reply_comes() {
    let memory = Memory {
        key: "k".into(),
        value: "v".into(),
        importance: Default::default(),
        pinned: false,
        updated_at: at(0),
        used_at: at(0),
        trust: Trust::Outside,
    };
    let facts = Facts { memories: vec![memory], ..Facts::default() };
    let mut cycle = begin_with(Activation { facts, ..activation(vec![service(1, 0)]) });
    drive(&mut cycle);
    cycle.looked(Some(News { facts: Some(Facts { rev: 2, ..Facts::default() }), ..news(Vec::new()) }));
    assert_eq!(refused(&reply_with(&mut cycle, vec![call("mail")]).0), ["mail"]);
}

/// In a space of which a server outside is told, and in one of which none is.
fn told_and_not() -> Facts {
    let [told, home] = [7, 8].map(|n| SpaceId(Uuid::from_u128(n)));
    let (told, mut home) = (SpaceFacts { told: true, ..space_of_three(told) }, space_of_three(home));
    home.space.name = "quiet".into();
    Facts { spaces: vec![told, home], ..Facts::default() }
}

fn say(arguments: serde_json::Value) -> ReplyPart {
    ReplyPart::Call { name: names::SEND_MESSAGE.into(), arguments: arguments.to_string() }
}

#[test]
fn a_message_into_a_space_of_which_a_server_outside_is_told_is_a_way_out() {
    let facts = told_and_not();
    let loud = facts.spaces[0].space.name.clone();
    let within = |waiting, facts: &Facts, active: Option<u128>| {
        let before = activation(waiting);
        let active_space = active.map(|n| SpaceId(Uuid::from_u128(n)));
        Activation { facts: facts.clone(), life: Life { active_space, ..before.life }, ..before }
    };
    let asks = |activation, calls| {
        let commits = decide_with(&json!({}), activation, calls);
        refused(&commits).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (here, there) = (json!({"text": "hi"}), json!({"space": loud, "text": "hi"}));
    let quiet = json!({"space": "quiet", "text": "hi"});
    for (arguments, active, expected) in [
        (&there, None, true),
        (&there, Some(8), true),
        (&here, Some(7), true),
        (&json!({"space": " ", "text": "hi"}), Some(7), true),
        (&here, None, true),
        (&here, Some(8), false),
        (&quiet, Some(7), false),
        (&json!({"space": "no such", "text": "hi"}), Some(7), false),
    ] {
        let found = asks(within(from_outside(), &facts, active), vec![say(arguments.clone())]);
        assert_eq!(!found.is_empty(), expected, "{arguments} in {active:?}");
        let clean = asks(within(vec![service(1, 0)], &facts, active), vec![say(arguments.clone())]);
        assert_eq!(clean, [""; 0], "nobody is asked where no stranger said anything");
    }
    // What it enters first counts.
    let enter = |name: &str| ReplyPart::Call {
        name: names::ENTER_SPACE.into(),
        arguments: json!({"space": name}).to_string(),
    };
    for (active, entered, expected) in [(8, loud.as_str(), true), (7, "quiet", false), (8, "no such", true)] {
        let calls = vec![enter(entered), say(here.clone())];
        let found = asks(within(from_outside(), &facts, Some(active)), calls);
        assert_eq!(!found.is_empty(), expected, "{entered}");
    }
    // A target of the agent is told what it posts anywhere, and one of a space that the facts leave out may be meant.
    let everywhere = Facts { told: true, ..facts.clone() };
    assert_eq!(asks(within(from_outside(), &everywhere, Some(8)), vec![say(here.clone())]), ["send_message"]);
    let more = Facts { more_told: true, more_spaces: 9, ..facts.clone() };
    let unlisted = vec![say(json!({"space": "unlisted", "text": "hi"}))];
    assert_eq!(asks(within(from_outside(), &more, Some(8)), unlisted), ["send_message"]);
    let strict = json!({"guard": "strict"});
    let commits = decide_with(&strict, within(from_outside(), &facts, Some(7)), vec![say(here.clone())]);
    assert!(commits[0].calls[0].outcome.as_ref().unwrap().text.starts_with("refused by the guard"));
    // Where no space is active it could go anywhere that the agent enters until somebody answers.
    let unplaced =
        decide_with(&json!({}), within(from_outside(), &facts, None), vec![say(here.clone()), enter(&loud)]);
    let row = &unplaced[0].calls[0];
    assert!(
        row.approval.is_none() && row.outcome.as_ref().unwrap().text.contains("handle in `space`"),
        "{row:?}"
    );
    // Whoever is asked reads where it goes, and it is posted once, however often the call is run.
    let commits = decide_with(&json!({}), within(from_outside(), &facts, Some(7)), vec![say(here)]);
    let row = &commits[0].calls[0];
    assert_eq!(row.arguments, json!({"space": loud, "text": "hi"}).to_string());
    assert_eq!((row.effect, row.outcome.clone()), (Effect::Idempotent, None));
    assert!(commits[0].inward.messages.is_empty());
}

#[test]
fn a_text_that_would_be_posted_without_a_call_is_a_way_out_too() {
    let space = SpaceId(Uuid::from_u128(7));
    let posted = |told: bool, guard: &str, trust: Trust| {
        let mut waiting = service(1, 0);
        let message = crate::id::MessageId(Uuid::from_u128(1));
        waiting.event.kind = EventKind::SpaceMessage;
        waiting.event.envelope.principal = Principal::Entity(EntityId(Uuid::from_u128(3)));
        waiting.event.envelope.trust = Trust::Member;
        waiting.event.data = EventData::Message { space, seq: 1, message };
        let facts = Facts { spaces: vec![SpaceFacts { told, ..space_of_three(space) }], ..Facts::default() };
        let view = View { summary: Some("## Facts".into()), trust, ..View::whole() };
        let config = json!({"reply": "text", "guard": guard});
        let config = Arc::new(AgentConfig::from_json(&config).unwrap());
        let activation = Activation { facts, view, config, ..activation(vec![waiting]) };
        let mut cycle = begin_with(activation);
        drive(&mut cycle);
        let (commits, _) = reply_with(&mut cycle, vec![text("the code is 4711")]);
        commits.iter().map(|commit| commit.inward.messages.len()).sum::<usize>()
    };
    assert_eq!(posted(true, "ask", Trust::Outside), 0);
    assert_eq!(posted(true, "strict", Trust::Outside), 0);
    assert_eq!(posted(true, "off", Trust::Outside), 1);
    assert_eq!(posted(true, "ask", Trust::Member), 1);
    assert_eq!(posted(false, "ask", Trust::Outside), 1, "nobody outside is told");
}

#[test]
fn an_address_that_a_person_gave_is_read_without_a_question_and_no_other_one() {
    let given = "https://a.example/x";
    let read = |url: &str| ReplyPart::Call {
        name: names::FETCH_PAGE.into(),
        arguments: json!({"url": url}).to_string(),
    };
    let said = |trust: Trust| {
        let mut first = service(1, 0);
        first.event.envelope.trust = trust;
        first.event.data = EventData::Service { name: "s".into(), payload: json!({"read": [given, "this"]}) };
        first
    };
    let outside = View { summary: Some("## From strangers".into()), trust: Trust::Outside, ..View::whole() };
    let asks = |config: &serde_json::Value, trust, url: &str| {
        let activation = Activation { view: outside.clone(), ..activation(vec![said(trust)]) };
        !refused(&decide_with(config, activation, vec![read(url)])).is_empty()
    };
    let config = json!({});
    assert!(!asks(&config, Trust::Operator, given) && !asks(&config, Trust::Member, given));
    assert!(asks(&config, Trust::Agent, given) && asks(&config, Trust::Outside, given));
    for built in ["https://a.example/x?q=4711", "https://a.example/", "https://evil.example/x", "this"] {
        assert!(asks(&config, Trust::Operator, built), "{built}");
    }
    let instructed = json!({"instructions": "Read https://b.example/news daily."});
    assert!(!asks(&instructed, Trust::Outside, "https://b.example/news"));
    assert!(asks(&instructed, Trust::Outside, "https://b.example/news?q=4711"));
}

#[test]
fn what_a_summary_a_memory_or_an_earlier_entry_has_from_strangers_counts() {
    let clean = || activation(vec![service(1, 0)]);
    let check = |activation: Activation, expected: &[&str]| {
        assert_eq!(refused(&decide(&json!({}), activation, &["mail"])), expected);
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
fn an_event_that_waits_counts_since_its_beginning_may_be_previewed() {
    let mut cycle = configured(&json!({}), vec![service(1, 0)]);
    drive(&mut cycle);
    assert_eq!(cycle.trust_of_messages(), Trust::Agent);
    let mut waiting = from_outside();
    waiting[0].seq = 2;
    cycle.looked(Some(news(waiting)));
    assert_eq!(cycle.trust_of_messages(), Trust::Outside);
}
