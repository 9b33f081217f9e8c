//! Calls answered from outside, what an agent may read, and the pages of the console.

use agent::call::{CallState, Outcome};
use agent::config::AgentConfig;
use agent::event::{EventData, EventKind};
use agent::id::{CallId, CycleId, EntityId, SpaceId};
use agent::limits;
use agent::port::{CallError, Finish, FinishedCall, NewHuman, PageRequest, RecentItem, Wakeup};

use super::Backend;
use super::world::{Living, World, at, everything, fresh, saying, world};

/// A cycle with one outward call that nobody has begun.
pub(super) async fn asked(w: &World, awaited: bool) -> (Living, CallId) {
    w.say(w.family, "hello").await;
    let mut living = w.open(w.ada).await;
    let decision = living.asking(vec![living.outward(0, awaited)]);
    let id = decision.calls[0].id.clone();
    living.done(w, decision).await;
    (living, id)
}

fn answer(id: &CallId, text: &str) -> FinishedCall {
    FinishedCall { id: id.clone(), outcome: Outcome::ok(text), at: at(2_000) }
}

/// Whoever is first wins, also of two at once.
pub async fn a_call_is_answered_once(b: Backend) {
    let w = world(b).await;
    let (_, id) = asked(&w, true).await;
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

/// A paused cycle goes on when its answer comes; the outcome waits in the call row.
pub async fn an_awaited_answer_makes_its_agent_due(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    let mut park = living.changes(agent::changes::CommitKind::Park);
    park.idle = Some(agent::changes::Idle { not_before: Some(at(900_000)), reason: None });
    living.done(&w, park).await;
    assert_eq!(w.due(10_000).await, []);
    let finished = w.b.calls.finish(answer(&id, "yes")).await.unwrap();
    let Finish::Awaited(agent, echo) = finished else { panic!("wanted it awaited, got {finished:?}") };
    assert_eq!((agent, echo.wake), (w.ada, vec![Wakeup { agent: w.ada, at: at(2_000), urgent: false }]));
    assert_eq!(w.due(2_000).await, [w.ada]);
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.calls[0].state, activation.waiting.len()), (CallState::Done, 0));
    assert_eq!(activation.calls[0].outcome, Some(Outcome::ok("yes")));
}

/// With the ledger as its dedupe, like any other.
pub async fn a_late_answer_becomes_an_event(b: Backend) {
    let w = world(b).await;
    let (mut living, id) = asked(&w, true).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    let Finish::Late(agent, echo) = w.b.calls.finish(answer(&id, "at last")).await.unwrap() else {
        panic!("wanted it late")
    };
    assert_eq!((agent, echo.wake), (w.ada, vec![Wakeup { agent: w.ada, at: at(2_000), urgent: false }]));
    assert_eq!(w.b.calls.finish(answer(&id, "again")).await.unwrap(), Finish::Already);
    let waiting = w.b.store.wake(w.ada, at(2_000), None).await.unwrap().unwrap().waiting;
    assert_eq!((waiting.len(), waiting[0].event.kind), (1, EventKind::ToolResult));
    assert_eq!(waiting[0].event.id.0, format!("result:{id}"));
    let EventData::ToolResult { text, error, .. } = &waiting[0].event.data else {
        panic!("wanted an outcome")
    };
    assert_eq!((text.as_str(), *error), ("at last", false));
    // One that no cycle ever waits for is late at once.
    let (_, detached) = asked(&w, false).await;
    assert!(matches!(w.b.calls.finish(answer(&detached, "x")).await.unwrap(), Finish::Late(..)));
}

/// Not a member: nothing.
pub async fn an_agent_reads_only_what_is_its_own(b: Backend) {
    let w = world(b).await;
    w.say(w.family, "hello").await;
    for n in 0..4 {
        w.accept(saying(w.husam, w.family, &format!("more {n}"))).await;
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

/// The active one and those in which something was said last; of the others it knows how many there are.
pub async fn an_agent_of_many_spaces_knows_the_liveliest_and_finds_the_others(b: Backend) {
    let w = world(b).await;
    let members = [w.husam, w.ada.entity()];
    let mut rooms = Vec::new();
    for n in 0..limits::SPACES_SHOWN_MAX + 5 {
        rooms.push(super::world::space(&w.b, &format!("room-{n}"), &members).await);
    }
    // Something is said last in the oldest ones; where it lives now is older still.
    let mut said = saying(w.husam, w.team, "hello");
    said.at = at(1_000);
    w.accept(said).await;
    let mut living = w.open(w.ada).await;
    let mut decision = living.decision();
    decision.inward.active_space = Some(w.family);
    living.done(&w, decision).await;
    for (n, room) in rooms.iter().take(3).enumerate() {
        let mut said = saying(w.husam, *room, "hello");
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
    assert_eq!(w.b.lookup.space(w.bob, unknown.to_string()).await.unwrap(), None, "it is none of his");
    assert_eq!(w.b.lookup.space(w.ada, "nowhere".into()).await.unwrap(), None);
    assert!(w.b.reader.share_a_space(w.husam, w.ada.entity()).await.unwrap());
    w.b.registry.remove_member(w.team, w.bob.entity()).await.unwrap();
    assert!(!w.b.reader.share_a_space(w.husam, w.bob.entity()).await.unwrap());
}

/// Itself among them.
pub async fn of_a_crowded_space_the_first_members_are_known_and_all_can_be_found(b: Backend) {
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

/// Every row once, in order, whatever the size of a page.
pub async fn pages_lead_through_everything_once(b: Backend) {
    let w = world(b).await;
    let page = |cursor| PageRequest { cursor, limit: 2 };
    let first = w.b.reader.entities(None, page(None)).await.unwrap();
    let second = w.b.reader.entities(None, page(first.next.clone())).await.unwrap();
    let names: Vec<_> = first.items.iter().chain(&second.items).map(|entity| entity.name.as_str()).collect();
    assert_eq!((names, second.next), (vec!["ada", "bob", "husam"], None));
    let agents = w.b.reader.agents(everything()).await.unwrap().items;
    assert_eq!(agents.iter().map(|card| card.id).collect::<Vec<_>>(), [w.ada, w.bob]);
    let spaces = w.b.reader.spaces(Some(w.bob.entity()), everything()).await.unwrap().items;
    assert_eq!(spaces.iter().map(|space| space.id).collect::<Vec<_>>(), [w.team]);
    assert_eq!(w.b.reader.members(w.team).await.unwrap().len(), 3);
    for n in 0..5 {
        w.say(w.family, &format!("{n}")).await;
    }
    let newest = w.b.reader.inbox(w.ada, Some("waiting".into()), page(None)).await.unwrap();
    let rest = w.b.reader.inbox(w.ada, None, page(newest.next.clone())).await.unwrap();
    let previews: Vec<_> = newest.items.iter().chain(&rest.items).map(|row| row.preview.as_str()).collect();
    assert_eq!(previews, ["4", "3", "2", "1"]);
    assert_eq!(w.b.reader.inbox(w.ada, Some("processed".into()), page(None)).await.unwrap().items, []);
    let seqs = |messages: Vec<agent::space::Message>| -> Vec<u64> {
        messages.iter().map(|message| message.seq).collect()
    };
    let read = |after, before| w.b.reader.messages(w.family, after, before, 2);
    assert_eq!(seqs(read(None, None).await.unwrap()), [4, 5]);
    assert_eq!(seqs(read(Some(1), None).await.unwrap()), [2, 3]);
    assert_eq!(seqs(read(None, Some(4)).await.unwrap()), [2, 3]);
    let totals = w.b.reader.totals().await.unwrap();
    assert_eq!((totals.agents, totals.spaces, totals.messages, totals.waiting), (2, 2, 5, 5));
    assert_eq!(w.b.reader.run(CycleId(fresh())).await.unwrap(), None);
}

/// The newest things of all places, oldest first; of some agents, and after a moment, where asked.
pub async fn the_recent_past_is_read_across_spaces_and_agents(b: Backend) {
    let w = world(b).await;
    w.say(w.team, "to the team").await;
    w.say(w.family, "to the family").await;
    let mut living = w.open(w.ada).await;
    let decision = living.decision();
    living.done(&w, decision).await;
    let closing = living.closing();
    living.done(&w, closing).await;
    let told = |found: Vec<RecentItem>| -> Vec<String> {
        let told = |happening| match happening {
            RecentItem::Message(message) => message.text,
            RecentItem::Run(run) => format!("run {}", run.ordinal),
        };
        found.into_iter().map(told).collect()
    };
    let recent = |agents, since, limit| w.b.reader.recent(agents, since, limit);
    let all = recent(None, None, 10).await.unwrap();
    let since = all[0].at();
    let mut sorted = told(all);
    sorted.sort();
    assert_eq!(sorted, ["run 1", "to the family", "to the team"]);
    assert_eq!(recent(None, None, 2).await.unwrap().len(), 2);
    assert_eq!(told(recent(Some(vec![w.bob]), None, 10).await.unwrap()), ["to the team"]);
    assert_eq!(told(recent(Some(Vec::new()), None, 10).await.unwrap()), [""; 0]);
    assert!(recent(None, Some(since), 10).await.unwrap().iter().all(|happening| happening.at() > since));
}
