//! Promises about commits: fencing, idempotence, refusals, cancels, and what others see.

use agent::call::{CallState, Outcome};
use agent::changes::{
    CallChange, CommitKind, CommitOutcome, Glance, GoalChange, MemoryChange, Notifications, PlanChange,
    Refusal,
};
use agent::config::AgentConfig;
use agent::entity::EntityKind;
use agent::entry::EntryKind;
use agent::event::{Event, EventData, EventState, Trust, Waiting};
use agent::id::{CallId, EntityId, GoalId, PlanId};
use agent::life::{Goal, GoalStatus, Lease, Standing};
use agent::plan::{Plan, Schedule};
use agent::port::{Accepted, InboxFilter, InboxRow, MessageFilter, PageRequest, RunFilter};
use agent::run::Usage;
use agent::space::NewMessage;
use futures_util::future::join;

use super::Backend;
use super::world::{CycleDriver, World, at, everything, fresh, message_from, service, space, world};

/// After another node has opened the agent, every commit of the old node is lost.
pub async fn an_outdated_node_is_refused_and_writes_nothing(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let outdated = w.open(w.ada).await;
    let mut successor = w.open(w.ada).await;
    let before = w.dump(w.ada).await;
    let mut decision = outdated.decision();
    decision.inward.messages = vec![outdated.message(0, w.family, "boo")];
    for expect in [outdated.n, successor.n] {
        decision.expect = expect;
        assert_eq!(w.commit(outdated.lease, decision.clone()).await, CommitOutcome::Lost);
    }
    assert_eq!(w.b.store.glance(outdated.lease, None).await.unwrap(), None);
    assert_eq!(w.dump(w.ada).await, before);
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items.len(), 1);
    let decision = successor.decision();
    successor.commit(&w, decision).await;
    // An opening also fails with any epoch but the next one, or if it is based on an outdated state.
    let mut open = successor.changes(CommitKind::Open);
    for (epoch, expect) in [
        (successor.lease.epoch, successor.n),
        (successor.lease.epoch + 2, successor.n),
        (successor.lease.epoch + 1, 1),
    ] {
        open.expect = expect;
        let lease = Lease { agent: w.ada, epoch };
        assert_eq!(w.commit(lease, open.clone()).await, CommitOutcome::Lost);
    }
}

/// If the answer to a commit was lost, sending it again finds that it was done.
pub async fn a_repeated_commit_is_recognized_and_written_once(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    let lease = driver.lease;
    let mut decision = driver.decision();
    decision.inward.messages = vec![driver.message(0, w.team, "hi")];
    driver.commit(&w, decision.clone()).await;
    let before = w.dump(w.ada).await;
    for _ in 0..2 {
        let (again, notifications) = w.b.store.commit(lease, decision.clone()).await.unwrap();
        let CommitOutcome::Committed { n, .. } = again else { panic!("wanted it done, got {again:?}") };
        assert_eq!((n, notifications), (driver.n, Notifications::default()));
    }
    assert_eq!(w.dump(w.ada).await, before);
    assert_eq!(w.b.reader.messages_of_cycle(driver.open.id).await.unwrap().len(), 1);
    // Another commit with the same expected number is not a repeat.
    let mut other = decision;
    other.kind = CommitKind::Settle;
    assert_eq!(w.commit(lease, other).await, CommitOutcome::Lost);
}

/// Two nodes that find the same open cycle try to open the same epoch. One wins, the other is lost, and only
/// the winner is recognized when it sends its opening again.
pub async fn two_takeovers_of_one_cycle_have_one_winner(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut dead = w.open(w.ada).await;
    let decision = dead.decision();
    dead.commit(&w, decision).await;
    let take_over = || {
        let mut changes = dead.changes(CommitKind::Open);
        changes.open.as_mut().unwrap().opening = Some(agent::id::CycleId(fresh()));
        (Lease { epoch: dead.lease.epoch + 1, ..dead.lease }, changes)
    };
    let (first, second) = (take_over(), take_over());
    for _ in 0..2 {
        let done = w.commit(first.0, first.1.clone()).await;
        assert!(matches!(done, CommitOutcome::Committed { .. }), "{done:?}");
        assert_eq!(w.commit(second.0, second.1.clone()).await, CommitOutcome::Lost);
    }
}

/// If a membership is revoked, or a space is closed or unknown, the calls are named and nothing is written.
pub async fn a_refused_commit_names_the_calls_and_writes_nothing(b: Backend) {
    let w = world(b).await;
    let closed = space(&w.b, "closed", &[w.ada.entity()]).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    w.b.registry.set_space_closed(closed, true).await.unwrap();
    w.b.registry.remove_member(w.team, w.ada.entity()).await.unwrap();
    let before = w.dump(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.memories = vec![MemoryChange::set("k", "v")];
    decision.inward.messages = vec![
        driver.message(0, w.family, "this one may"),
        driver.message(1, w.team, "not a member any more"),
        driver.message(2, closed, "closed meanwhile"),
        driver.message(3, agent::id::SpaceId(fresh()), "nowhere"),
    ];
    decision.calls = (0..4).map(|index| driver.call(index)).collect();
    let CommitOutcome::Refused(refusals) = w.commit(driver.lease, decision.clone()).await else {
        panic!("wanted a refusal")
    };
    let calls: Vec<CallId> = refusals.iter().map(|Refusal { call, .. }| call.clone()).collect();
    assert_eq!(calls, (1..4).map(|index| driver.call(index).id).collect::<Vec<_>>());
    assert!(refusals[0].reason.contains("not a member"), "{refusals:?}");
    assert!(refusals[1].reason.contains("closed"), "{refusals:?}");
    assert_eq!(w.dump(w.ada).await, before);
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items, []);
    assert_eq!(w.b.reader.facts(w.ada).await.unwrap().unwrap().memories, []);
    // Without those calls the same commit succeeds.
    decision.inward.messages.truncate(1);
    decision.calls.truncate(1);
    driver.commit(&w, decision).await;
    assert_eq!(w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items.len(), 1);
}

fn goal(id: GoalId, description: &str) -> Goal {
    Goal {
        id,
        parent: None,
        description: description.into(),
        priority: 1,
        status: GoalStatus::Active,
        trust: Default::default(),
    }
}

/// An agent cannot change rows of another agent.
pub async fn a_goal_or_plan_of_another_agent_is_refused(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let (goal_id, plan_id) = (GoalId(fresh()), PlanId(fresh()));
    let plan =
        Plan { next_at: Some(at(9_000)), ..Plan::new(plan_id, "mine", "do", Schedule::At { at: at(9_000) }) };
    let mut ada = w.open(w.ada).await;
    let mut decision = ada.decision();
    decision.inward.goals = vec![GoalChange::Set(goal(goal_id, "hers"))];
    decision.inward.plans = vec![PlanChange::Set(plan.clone())];
    ada.commit(&w, decision).await;
    let bob = w.open(w.bob).await;
    let steals: [fn(&mut agent::changes::Inward, &Plan, GoalId); 4] = [
        |inward, _, id| inward.goals = vec![GoalChange::Set(goal(id, "his"))],
        |inward, _, id| inward.goals = vec![GoalChange::Delete(id)],
        |inward, plan, _| inward.plans = vec![PlanChange::Set(plan.clone())],
        |inward, plan, _| inward.plans = vec![PlanChange::Delete(plan.id)],
    ];
    for steal in steals {
        let mut decision = bob.decision();
        steal(&mut decision.inward, &plan, goal_id);
        decision.calls = vec![bob.call(0)];
        let outcome = w.commit(bob.lease, decision).await;
        assert!(matches!(&outcome, CommitOutcome::Refused(r) if r[0].call == bob.call(0).id), "{outcome:?}");
    }
    let facts = w.b.reader.facts(w.ada).await.unwrap().unwrap();
    assert_eq!((facts.goals, facts.plans), (vec![goal(goal_id, "hers")], vec![plan]));
}

/// Decide and start are refused, settle is allowed, and closing clears the cancel.
pub async fn a_canceled_cycle_may_settle_and_close_but_not_decide_or_start(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision_with(vec![driver.outward(0, true)]);
    let call = decision.calls[0].id.clone();
    driver.commit(&w, decision).await;
    assert_eq!(w.b.registry.cancel(w.ada, None).await.unwrap(), driver.open.id);
    assert!(w.news(driver.lease).await.glance.cancel);
    assert_eq!(w.wake(w.ada).await.cancel, Some(driver.open.id));
    let mut decide = driver.changes(CommitKind::Decide);
    decide.entries = vec![driver.entry(1, EntryKind::Assistant, "no")];
    assert_eq!(w.commit(driver.lease, decide).await, CommitOutcome::Canceled);
    let start = driver.changes(CommitKind::Start);
    assert_eq!(w.commit(driver.lease, start).await, CommitOutcome::Canceled);
    let mut settle = driver.changes(CommitKind::Settle);
    let outcome = Some(Outcome::ok("came all the same"));
    settle.call_changes =
        vec![CallChange { id: call.clone(), state: CallState::Done, outcome: outcome.clone() }];
    let (glance, _) = driver.commit(&w, settle).await;
    assert!(glance.cancel);
    let found = w.b.lookup.call(w.ada, call.clone()).await.unwrap();
    assert_eq!(found.unwrap().outcome, outcome, "an agent can look its own call up");
    assert_eq!(w.b.lookup.call(w.bob, call).await.unwrap(), None, "and no other agent's");
    assert_eq!(w.wake(w.ada).await.calls[0].outcome, outcome);
    let closing = driver.canceled();
    driver.commit(&w, closing).await;
    assert_eq!(w.wake(w.ada).await.cancel, None);
    w.post(w.family, "next").await;
    let mut next = w.open(w.ada).await;
    let decision = next.decision();
    let (glance, _) = next.commit(&w, decision).await;
    assert!(!glance.cancel);
}

/// The messages, their numbers, the events and the wake-ups come with the decision. The sender gets no event.
pub async fn messages_of_an_agent_are_posted_with_its_decision(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.messages =
        vec![driver.message(0, w.team, "hi @bob"), driver.message(1, w.family, "all well")];
    decision.inward.active_space = Some(w.family);
    decision.calls = vec![driver.call(0), driver.call(1)];
    let (_, notifications) = driver.commit(&w, decision).await;
    let texts: Vec<_> =
        notifications.messages.iter().map(|message| (message.seq, message.text.as_str())).collect();
    assert_eq!(texts, [(2, "hi @bob"), (1, "all well")]);
    assert_eq!(notifications.wake.iter().map(|wakeup| wakeup.agent).collect::<Vec<_>>(), [w.bob]);
    let stored: Vec<_> = notifications.messages.iter().map(|spoken| spoken.message.clone()).collect();
    assert_eq!(w.b.reader.messages_of_cycle(driver.open.id).await.unwrap(), stored);
    let names: Vec<_> = notifications
        .messages
        .iter()
        .map(|said| (said.sender_display_name.as_str(), said.sender_kind))
        .collect();
    assert!(names.iter().all(|name| *name == ("ADA", EntityKind::Agent)), "{names:?}");
    assert!(notifications.messages.iter().all(|said| said.sender_handle == "ada"));
    let waiting = w.wake(w.bob).await.waiting;
    assert_eq!((waiting.len(), waiting[1].event.envelope.trust), (2, Trust::Agent));
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.waiting.len(), activation.life.active_space), (0, Some(w.family)));
}

/// The newest comes first, deleted ones are gone, untouched ones are unchanged.
pub async fn memories_are_versioned_and_the_last_write_wins(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    let set = |key: &str, value: &str| MemoryChange::set(key, value);
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.memories = vec![set("a", "1"), set("a", "2"), set("b", "1"), set("c", "1")];
    driver.commit(&w, decision).await;
    assert_eq!(w.facts(driver.lease).await.memories.len(), 3);
    let mut decide = driver.changes(CommitKind::Decide);
    decide.at = at(2_000);
    let delete = |key: &str| MemoryChange::Delete { key: key.into() };
    decide.inward.memories = vec![delete("b"), set("c", "2"), set("d", "1"), delete("d"), delete("zzz")];
    driver.commit(&w, decide).await;
    let memories = w.b.reader.facts(w.ada).await.unwrap().unwrap().memories;
    let kept: Vec<_> = memories.iter().map(|m| (m.key.as_str(), m.value.as_str(), m.updated_at)).collect();
    assert_eq!(kept, [("c", "2", at(2_000)), ("a", "2", at(1_000))]);
    assert_eq!(w.wake(w.ada).await.facts.memories, memories);
}

/// A commit returns counts and flags: other waiting events, changed members, a requested stop. A separate
/// glance returns the details.
pub async fn a_glance_shows_what_others_did_meanwhile(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let mut driver = w.open(w.ada).await;
    let calm = w.news(driver.lease).await;
    let known = calm.facts.unwrap().rev;
    let nothing = Glance { newest: 1, facts_rev: known, ..Glance::default() };
    assert_eq!((calm.glance, calm.oldest.len()), (nothing, 0));
    for n in 0..12 {
        w.accept(message_from(w.bob.entity(), w.team, &format!("more {n}"))).await;
    }
    w.b.registry.add_member(w.family, w.bob.entity(), "guest".into(), at(20)).await.unwrap();
    w.b.registry.set_standing(w.ada, Standing::Suspended, at(30)).await.unwrap();
    let seen = w.news(driver.lease).await;
    let decision = driver.decision();
    let (brought, _) = driver.commit(&w, decision).await;
    assert_eq!(seen.glance, brought);
    assert_eq!((brought.waiting, brought.newest, brought.suspended), (12, 13, true));
    assert!(!brought.urgent && brought.facts_rev > known, "somebody joined a space of hers");
    assert_eq!((seen.oldest.len(), seen.oldest[0].text()), (10, "more 0"));
    let facts = seen.facts.unwrap();
    assert_eq!((seen.urgent.len(), facts.rev), (0, brought.facts_rev));
    assert_eq!(facts.space(w.family).unwrap().members.len(), 3);
    let settle = driver.changes(CommitKind::Settle);
    let (glance, _) = driver.commit(&w, settle).await;
    assert_eq!(glance, brought, "nothing happened meanwhile");
}

/// The person whose message is being processed can interrupt; earlier messages of that person are shown too.
/// Messages of others wait.
pub async fn an_urgent_message_of_the_requester_is_shown_in_full(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "deploy").await;
    let driver = w.open(w.ada).await;
    w.post(w.team, "elsewhere").await;
    w.accept(message_from(w.bob.entity(), w.team, "from another")).await;
    w.post(w.family, "stop!").await;
    w.post(w.team, "afterwards").await;
    let news = w.news(driver.lease).await;
    let urgent: Vec<_> = news.urgent.iter().map(|waiting| waiting.text()).collect();
    assert_eq!((news.glance.waiting, news.glance.urgent, urgent), (4, true, vec!["elsewhere", "stop!"]));
}

/// A call that cannot be repeated does not start after an urgent message of the requester. Messages of others, messages that are
/// not urgent, and those from before a person has approved the call do not stop it.
pub async fn a_start_with_a_barrier_is_refused_after_an_urgent_message_of_the_requester(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "deploy").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision_with(vec![driver.outward(0, true)]);
    let requester =
        agent::life::Requester { principal: agent::event::Principal::Entity(w.husam), space: Some(w.family) };
    driver.open.requesters = vec![requester.clone()];
    decision.open.as_mut().unwrap().requesters = vec![requester];
    driver.commit(&w, decision).await;
    w.accept(message_from(w.bob.entity(), w.team, "from another")).await;
    let mut start = driver.changes(CommitKind::Start);
    start.barrier = true;
    driver.commit(&w, start).await;
    w.post(w.family, "stop!").await;
    let mut start = driver.changes(CommitKind::Start);
    start.barrier = true;
    assert_eq!(w.commit(driver.lease, start.clone()).await, CommitOutcome::Barred);
    let posted = w.news(driver.lease).await.urgent.pop().unwrap().event.at;
    let approved = |ms| Some(posted.checked_add(jiff::SignedDuration::from_millis(ms)).unwrap());
    start.barrier_since = approved(0);
    assert_eq!(w.commit(driver.lease, start.clone()).await, CommitOutcome::Barred);
    start.barrier_since = approved(1);
    driver.commit(&w, start).await;
}

/// An urgent message is shown despite a backlog of other senders. If the backlog of its own sender is longer
/// than one glance returns, the first part of that backlog is shown, and the message still stops the call.
pub async fn an_urgent_message_is_shown_despite_any_backlog_after_earlier_ones_of_its_sender(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "deploy").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision_with(vec![driver.outward(0, true)]);
    let requester =
        agent::life::Requester { principal: agent::event::Principal::Entity(w.husam), space: Some(w.family) };
    driver.open.requesters = vec![requester.clone()];
    decision.open.as_mut().unwrap().requesters = vec![requester];
    driver.commit(&w, decision).await;
    w.post(w.family, "first").await;
    let more = agent::limits::URGENT_MAX + 20;
    for n in 0..agent::limits::URGENT_LOOK_MAX + 20 {
        w.event(w.ada, service(&format!("alarm {n}"))).await;
    }
    let held = async || {
        let mut start = driver.changes(CommitKind::Start);
        start.barrier = true;
        assert_eq!(w.commit(driver.lease, start).await, CommitOutcome::Barred);
        let news = w.news(driver.lease).await;
        news.urgent.iter().map(|waiting| waiting.text().to_owned()).collect::<Vec<_>>()
    };
    w.post(w.family, "stop!").await;
    assert_eq!(held().await, ["first", "stop!"]);
    for n in 0..more {
        w.post(w.team, &format!("elsewhere {n}")).await;
    }
    w.post(w.family, "stop now!").await;
    let urgent = held().await;
    assert_eq!(urgent.len(), agent::limits::URGENT_MAX as usize);
    assert_eq!(urgent[..3], ["first", "stop!", "elsewhere 0"]);
    assert_eq!(urgent[99], "elsewhere 97", "from the first message of its sender on, without a gap");
}

/// If many large payloads wait, no read exceeds the limit, and all are processed in order.
pub async fn waiting_events_are_read_up_to_a_byte_limit_and_processed_in_order(b: Backend) {
    const EVENTS: usize = 100;
    let w = world(b).await;
    let payload = serde_json::json!("x".repeat(250_000));
    let sent: Vec<String> = (0..EVENTS).map(|n| format!("large {n}")).collect();
    for id in &sent {
        let data = EventData::Service { name: "jira".into(), payload: payload.clone() };
        w.event(w.ada, Event { data, ..service(id) }).await;
    }
    let ids =
        |events: &[Waiting]| events.iter().map(|waiting| waiting.event.id.0.clone()).collect::<Vec<_>>();
    let fits = |events: &[Waiting]| events.len() * 250_000 <= agent::limits::WAITING_READ_MAX_BYTES;
    let mut processed = Vec::new();
    while processed.len() < EVENTS {
        let activation = w.wake(w.ada).await;
        assert!(fits(&activation.waiting) && !activation.waiting.is_empty());
        let mut driver = w.open(w.ada).await;
        assert_eq!(driver.open.taken.len(), activation.waiting.len());
        // A takeover of the cycle reads everything that the cycle took.
        let again = w.wake(w.ada).await.waiting;
        assert_eq!(ids(&again), ids(&activation.waiting));
        processed.extend(ids(&activation.waiting));
        let (glance, _) = driver.commit(&w, driver.decision()).await;
        assert_eq!(
            glance.waiting as usize,
            EVENTS - processed.len(),
            "events that are not read still count as waiting"
        );
        let news = w.news(driver.lease).await;
        assert!(fits(&news.oldest) && ids(&news.oldest) == sent[processed.len()..][..news.oldest.len()]);
        assert!(!news.oldest.is_empty() || processed.len() == EVENTS);
        driver.commit(&w, driver.closing()).await;
    }
    assert_eq!(processed, sent);
    // The same holds for urgent events of two senders: each is shown from its first event on.
    w.post(w.family, "go").await;
    let mut driver = w.open(w.ada).await;
    driver.commit(&w, driver.decision()).await;
    for n in 0..EVENTS {
        let data = EventData::Service { name: "jira".into(), payload: payload.clone() };
        w.event(w.ada, Event { data, urgent: true, ..service(&format!("urgent {n}")) }).await;
    }
    w.post(w.family, "stop!").await;
    let urgent = w.news(driver.lease).await.urgent;
    let (words, large): (Vec<_>, Vec<_>) = urgent.iter().partition(|waiting| waiting.message.is_some());
    assert!(words.len() == 1 && large.len() > 1, "{}", urgent.len());
    assert!(large.len() * 250_000 <= agent::limits::WAITING_READ_MAX_BYTES);
    let first = large.iter().enumerate().all(|(n, waiting)| waiting.event.id.0 == format!("urgent {n}"));
    assert!(first, "from the first event on, without a gap");
    let one = Event {
        data: EventData::Service { name: "jira".into(), payload: "x".repeat(5_000_000).into() },
        ..service("one")
    };
    w.event(w.bob, one).await;
    assert_eq!(ids(&w.wake(w.bob).await.waiting), ["one"], "the first event is read whatever its size");
}

/// For random messages and events, a glance shows each sender's events from the first waiting one, without a gap.
pub async fn a_glance_shows_the_earliest_waiting_events_of_each_sender(b: Backend) {
    let w = world(b).await;
    let mut dice = 7u64;
    let mut throw = |bound: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % bound
    };
    let mut agents = Vec::new();
    for round in 0..12u64 {
        let agent = super::world::agent(&w.b, &format!("listener-{round}"), AgentConfig::default()).await;
        let room = space(&w.b, &format!("room-{round}"), &[w.husam, w.bob.entity(), agent.entity()]).await;
        let hall = space(&w.b, &format!("hall-{round}"), &[w.husam, w.bob.entity(), agent.entity()]).await;
        w.accept(message_from(w.husam, room, "begin")).await;
        let driver = w.open(agent).await;
        for n in 0..round * 25 {
            let (target, urgent) = (if throw(3) == 0 { hall } else { room }, throw(20) == 0);
            match throw(3) {
                0 => {
                    w.event(agent, Event { urgent, ..service(&format!("s-{round}-{n}")) }).await;
                }
                by => {
                    let by = if by == 1 { w.husam } else { w.bob.entity() };
                    w.accept(NewMessage { urgent, ..message_from(by, target, &format!("word {n}")) }).await;
                }
            }
        }
        agents.push((agent, driver));
    }
    for (agent, driver) in agents {
        let brought = w.b.store.glance(driver.lease, None).await.unwrap().unwrap().urgent;
        assert!(brought.len() <= agent::limits::URGENT_MAX as usize);
        let (mut rows, mut page) = (Vec::new(), Some(everything()));
        while let Some(asked) = page {
            let found = w.b.reader.inbox(agent, InboxFilter::in_state("waiting"), asked).await.unwrap();
            rows.extend(found.items);
            page = found.next.map(|next| PageRequest { cursor: Some(next), ..everything() });
        }
        rows.retain(|row| !driver.open.taken.contains(&row.seq));
        rows.reverse();
        assert_eq!(rows.iter().any(|row| row.event.urgent), !brought.is_empty());
        for row in &brought {
            let speaker = &row.event.envelope.principal;
            let of = |by: &&InboxRow| by.event.envelope.principal == *speaker;
            let before = rows.iter().filter(of).take_while(|other| other.seq < row.seq);
            for earlier in before {
                let there = brought.iter().any(|other| other.seq == earlier.seq);
                assert!(there, "{agent}: {} without {} of the same sender", row.seq, earlier.seq);
            }
        }
    }
}

/// All tokens of an agent: of each run once, and of skips.
pub async fn totals_count_runs_and_skips(b: Backend) {
    let w = world(b).await;
    for cost in [None, Some(7), Some(5)] {
        w.post(w.family, "hello").await;
        let mut driver = w.open(w.ada).await;
        let mut decision = driver.decision();
        decision.open.as_mut().unwrap().usage = Usage { input: Some(10), ..Usage::default() };
        driver.commit(&w, decision).await;
        let mut closing = driver.closing();
        closing.run.as_mut().unwrap().cost_micros = cost;
        driver.commit(&w, closing).await;
    }
    let card = w.b.reader.agent(w.ada).await.unwrap().unwrap();
    assert_eq!((card.usage.input, card.usage.output, card.usage.cached), (Some(30), Some(15), None));
    assert_eq!((card.cycles, card.skips, card.commit_n), (3, 0, 9));
    assert_eq!((card.cost_micros, card.unpriced), (Some(12), 1));
    let last = card.last.unwrap();
    assert_eq!(
        last.id,
        w.b.reader.runs(w.ada, RunFilter::default(), everything()).await.unwrap().items[0].id
    );
}

/// There is no deadlock, no lost message and no gap, because locks are always taken in the same order.
pub async fn two_agents_post_to_shared_spaces_at_once(b: Backend) {
    let w = world(b).await;
    let hall = space(&w.b, "hall", &[w.ada.entity(), w.bob.entity()]).await;
    w.post(w.team, "talk").await;
    let (ada, bob) = (w.open(w.ada).await, w.open(w.bob).await);
    let talk = |mut driver: CycleDriver, first, second| {
        let w = &w;
        async move {
            let decision = driver.decision();
            driver.commit(w, decision).await;
            for _ in 0..50 {
                let mut decide = driver.changes(CommitKind::Decide);
                decide.inward.messages =
                    vec![driver.message(0, first, "one"), driver.message(1, second, "two")];
                decide.open.as_mut().unwrap().step += 1;
                driver.commit(w, decide).await;
            }
        }
    };
    join(talk(ada, w.team, hall), talk(bob, hall, w.team)).await;
    check_seqs(&w, w.team, 101).await;
    check_seqs(&w, hall, 100).await;
}

async fn check_seqs(w: &World, space: agent::id::SpaceId, expected: u64) {
    let messages = w.b.reader.messages(space, MessageFilter::after(0), 200).await.unwrap().items;
    let seqs: Vec<_> = messages.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, (1..=expected).collect::<Vec<_>>());
    let by_agents: Vec<EntityId> = messages.iter().map(|message| message.sender).collect();
    assert!(by_agents.contains(&w.ada.entity()) && by_agents.contains(&w.bob.entity()));
    let stranger = message_from(EntityId(fresh()), space, "x");
    assert!(matches!(w.accept(stranger).await, Accepted::Denied(_)));
    assert_ne!(w.state(w.ada, "no such event").await, EventState::Waiting.as_str());
}
