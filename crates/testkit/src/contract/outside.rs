//! Promises about calls that are answered from outside, what an agent may read, and paged lists.

use agent::call::{CallState, Outcome};
use agent::config::AgentConfig;
use agent::event::{EventData, EventKind};
use agent::id::{CallId, CycleId, EntityId, SpaceId};
use agent::limits;
use agent::port::{
    CallError, Finish, FinishedCall, InboxFilter, MessageFilter, NewHuman, PageRequest, RecentItem, Wakeup,
};

use super::Backend;
use super::world::{CycleDriver, World, at, everything, fresh, message_from, world};

/// A cycle with one outward call that has not started.
pub(super) async fn cycle_with_call(w: &World, awaited: bool) -> (CycleDriver, CallId) {
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision_with(vec![driver.outward(0, awaited)]);
    let id = decision.calls[0].id.clone();
    driver.commit(w, decision).await;
    (driver, id)
}

fn answer(id: &CallId, text: &str) -> FinishedCall {
    FinishedCall { id: id.clone(), outcome: Outcome::ok(text), at: at(2_000), claim: None, if_claimed: None }
}

/// The first answer wins, also of two concurrent ones.
pub async fn a_call_is_answered_once(b: Backend) {
    let w = world(b).await;
    let (_, id) = cycle_with_call(&w, true).await;
    let (first, second) = futures_util::future::join(
        w.b.calls.finish(answer(&id, "first")),
        w.b.calls.finish(answer(&id, "second")),
    )
    .await;
    let finishes = [first.unwrap(), second.unwrap()];
    let first = finishes.iter().filter(|how| matches!(how, Finish::Awaited(agent, _) if *agent == w.ada));
    assert!(first.count() == 1 && finishes.contains(&Finish::Already));
    let unknown = CallId("c-nothing".into());
    assert!(matches!(w.b.calls.finish(answer(&unknown, "x")).await, Err(CallError::Unknown(_))));
}

/// A parked cycle continues when the answer arrives. The outcome waits in the call row.
pub async fn an_awaited_answer_makes_its_agent_due(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let mut park = driver.changes(agent::changes::CommitKind::Park);
    park.idle = Some(agent::changes::Idle { not_before: Some(at(900_000)), reason: None });
    driver.commit(&w, park).await;
    assert_eq!(w.due(10_000).await, []);
    let finished = w.b.calls.finish(answer(&id, "yes")).await.unwrap();
    let Finish::Awaited(agent, notifications) = finished else {
        panic!("wanted it awaited, got {finished:?}")
    };
    assert_eq!(
        (agent, notifications.wake),
        (w.ada, vec![Wakeup { agent: w.ada, at: at(2_000), urgent: false }])
    );
    assert_eq!(w.due(2_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.calls[0].state, activation.waiting.len()), (CallState::Done, 0));
    assert_eq!(activation.calls[0].outcome, Some(Outcome::ok("yes")));
}

/// The ledger recognizes repeats, as for any other event.
pub async fn a_late_answer_becomes_an_event(b: Backend) {
    let w = world(b).await;
    let (mut driver, id) = cycle_with_call(&w, true).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let Finish::Late(agent, notifications) = w.b.calls.finish(answer(&id, "at last")).await.unwrap() else {
        panic!("wanted it late")
    };
    assert_eq!(
        (agent, notifications.wake),
        (w.ada, vec![Wakeup { agent: w.ada, at: at(2_000), urgent: false }])
    );
    assert_eq!(w.b.calls.finish(answer(&id, "again")).await.unwrap(), Finish::Already);
    let waiting = w.b.store.wake(w.ada, at(2_000), None).await.unwrap().unwrap().waiting;
    assert_eq!((waiting.len(), waiting[0].event.kind), (1, EventKind::ToolResult));
    assert_eq!(waiting[0].event.id.0, format!("result:{id}"));
    let EventData::ToolResult { text, error, .. } = &waiting[0].event.data else {
        panic!("wanted an outcome")
    };
    assert_eq!((text.as_str(), *error), ("at last", false));
    // The answer to a call that is never awaited is always late.
    let (_, detached) = cycle_with_call(&w, false).await;
    assert!(matches!(w.b.calls.finish(answer(&detached, "x")).await.unwrap(), Finish::Late(..)));
}

/// If it is not a member, it reads nothing.
pub async fn an_agent_reads_only_spaces_it_is_a_member_of(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "hello").await;
    for n in 0..4 {
        w.accept(message_from(w.husam, w.family, &format!("more {n}"))).await;
    }
    assert_eq!(w.b.lookup.messages(w.bob, w.family, None, 10).await.unwrap(), None);
    let nowhere = SpaceId(fresh());
    assert_eq!(w.b.lookup.messages(w.ada, nowhere, None, 10).await.unwrap(), None);
    let (said, total) = w.b.lookup.messages(w.ada, w.family, Some(5), 2).await.unwrap().unwrap();
    let texts: Vec<_> = said.iter().map(|said| (said.seq, said.text.as_str())).collect();
    assert_eq!((texts, total), (vec![(3, "more 1"), (4, "more 2")], 5));
    w.b.registry.remove_member(w.family, w.ada.entity()).await.unwrap();
    assert_eq!(w.b.lookup.messages(w.ada, w.family, None, 10).await.unwrap(), None);
}

/// It is given the active space, the spaces with the newest messages, and the number of the others.
pub async fn an_agent_in_many_spaces_is_given_the_most_active_and_can_look_up_the_others(b: Backend) {
    let w = world(b).await;
    let members = [w.husam, w.ada.entity()];
    let mut rooms = Vec::new();
    for n in 0..limits::SPACES_SHOWN_MAX + 5 {
        rooms.push(super::world::space(&w.b, &format!("room-{n}"), &members).await);
    }
    // The oldest rooms get the newest messages. The active space has none.
    let mut said = message_from(w.husam, w.team, "hello");
    said.at = at(1_000);
    w.accept(said).await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.active_space = Some(w.family);
    driver.commit(&w, decision).await;
    for (n, room) in rooms.iter().take(3).enumerate() {
        let mut said = message_from(w.husam, *room, "hello");
        said.at = at(2_000 + n as i64);
        w.accept(said).await;
    }
    let facts = w.wake(w.ada).await.facts;
    let known: Vec<SpaceId> = facts.spaces.iter().map(|facts| facts.space.id).collect();
    assert_eq!((known.len(), facts.more_spaces), (limits::SPACES_SHOWN_MAX, 7));
    assert_eq!(known[..5], [w.family, rooms[2], rooms[1], rooms[0], w.team]);
    assert!(facts.spaces.iter().all(|facts| facts.more_members == 0 && facts.members.len() >= 2));
    let unknown = rooms.iter().find(|room| !known.contains(room)).unwrap();
    for text in [unknown.to_string(), format!("ROOM-{}", limits::SPACES_SHOWN_MAX + 4)] {
        let found = w.b.lookup.space(w.ada, text.clone()).await.unwrap().unwrap();
        assert_eq!((found.members.len(), found.more_members), (2, 0), "{text}");
    }
    assert_eq!(w.b.lookup.space(w.bob, unknown.to_string()).await.unwrap(), None, "he is not a member");
    assert_eq!(w.b.lookup.space(w.ada, "nowhere".into()).await.unwrap(), None);
    assert!(w.b.reader.share_a_space(w.husam, w.ada.entity()).await.unwrap());
    w.b.registry.remove_member(w.team, w.bob.entity()).await.unwrap();
    assert!(!w.b.reader.share_a_space(w.husam, w.bob.entity()).await.unwrap());
}

/// The agent itself is always among them.
pub async fn an_agent_is_given_the_first_members_of_a_large_space_and_can_look_up_all(b: Backend) {
    let w = world(b).await;
    let mut crowd = vec![w.husam];
    for n in 0..limits::MEMBERS_SHOWN_MAX + 8 {
        let id = EntityId(fresh());
        let (name, display_name, at) = (format!("guest-{n}"), format!("Guest {n}"), at(0));
        w.b.registry.create_human(NewHuman { id, name, display_name, external_id: None, at }).await.unwrap();
        crowd.push(id);
    }
    let late = super::world::agent(&w.b, "late", AgentConfig::default()).await;
    crowd.push(late.entity());
    let hall = super::world::space(&w.b, "hall", &crowd).await;
    let facts = w.b.store.wake(late, at(1), None).await.unwrap().unwrap().facts;
    let known = &facts.spaces[0];
    assert_eq!(known.members.len(), limits::MEMBERS_SHOWN_MAX + 1);
    assert_eq!(known.members.len() + known.more_members, crowd.len());
    assert!(known.members.iter().any(|member| member.entity.id == late.entity()));
    let whole = w.b.lookup.space(late, hall.to_string()).await.unwrap().unwrap();
    assert_eq!((whole.members.len(), whole.more_members), (crowd.len(), 0));
}

/// In order, for any page size.
pub async fn pages_return_every_row_once(b: Backend) {
    let w = world(b).await;
    let page = |cursor| PageRequest { cursor, limit: 2 };
    let first = w.b.reader.entities(None, page(None)).await.unwrap();
    let second = w.b.reader.entities(None, page(first.next.clone())).await.unwrap();
    let names: Vec<_> = first.items.iter().chain(&second.items).map(|entity| entity.name.as_str()).collect();
    assert_eq!((names, second.next), (vec!["ada", "bob", "husam"], None));
    let agents = w.b.reader.agents(None, everything()).await.unwrap().items;
    assert_eq!(agents.iter().map(|card| card.id).collect::<Vec<_>>(), [w.ada, w.bob]);
    let spaces = w.b.reader.spaces(Some(w.bob.entity()), None, everything()).await.unwrap().items;
    assert_eq!(spaces.iter().map(|space| space.id).collect::<Vec<_>>(), [w.team]);
    assert_eq!(w.b.reader.members(w.team).await.unwrap().len(), 3);
    for n in 0..5 {
        w.post(w.family, &format!("{n}")).await;
    }
    let newest = w.b.reader.inbox(w.ada, InboxFilter::in_state("waiting"), page(None)).await.unwrap();
    let rest = w.b.reader.inbox(w.ada, InboxFilter::default(), page(newest.next.clone())).await.unwrap();
    let previews: Vec<_> = newest.items.iter().chain(&rest.items).map(|row| row.preview.as_str()).collect();
    assert_eq!(previews, ["4", "3", "2", "1"]);
    assert_eq!(
        w.b.reader.inbox(w.ada, InboxFilter::in_state("processed"), page(None)).await.unwrap().items,
        []
    );
    let seqs = |messages: Vec<agent::space::Message>| -> Vec<u64> {
        messages.iter().map(|message| message.seq).collect()
    };
    let read = |after, before| {
        w.b.reader.messages(w.family, MessageFilter { after, before, ..MessageFilter::default() }, 2)
    };
    assert_eq!(seqs(read(None, None).await.unwrap().items), [4, 5]);
    assert_eq!(seqs(read(Some(1), None).await.unwrap().items), [2, 3]);
    assert_eq!(seqs(read(None, Some(4)).await.unwrap().items), [2, 3]);
    let totals = w.b.reader.totals().await.unwrap();
    assert_eq!((totals.agents, totals.spaces, totals.messages, totals.waiting), (2, 2, 5, 5));
    assert_eq!(w.b.reader.run(CycleId(fresh())).await.unwrap(), None);
}

/// The newest items of all spaces, oldest first, optionally only of some agents or after a time.
pub async fn recent_items_are_read_across_spaces_and_agents(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "to the team").await;
    w.post(w.family, "to the family").await;
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let texts = |found: Vec<RecentItem>| -> Vec<String> {
        let texts = |item| match item {
            RecentItem::Message(message) => message.text,
            RecentItem::Run(run) => format!("run {}", run.ordinal),
        };
        found.into_iter().map(texts).collect()
    };
    let recent = |agents, since, limit| w.b.reader.recent(agents, since, limit);
    let all = recent(None, None, 10).await.unwrap();
    let since = all[0].at();
    let mut sorted = texts(all);
    sorted.sort();
    assert_eq!(sorted, ["run 1", "to the family", "to the team"]);
    assert_eq!(recent(None, None, 2).await.unwrap().len(), 2);
    assert_eq!(texts(recent(Some(vec![w.bob]), None, 10).await.unwrap()), ["to the team"]);
    assert_eq!(texts(recent(Some(Vec::new()), None, 10).await.unwrap()), [""; 0]);
    assert!(recent(None, Some(since), 10).await.unwrap().iter().all(|item| item.at() > since));
}
