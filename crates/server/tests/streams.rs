//! Event streams: a snapshot, then every durable update once and in order, even if updates are lost on the way; and
//! an end with a reason.

use std::sync::Arc;
use std::time::Duration;

use agent::changes::{Changes, CommitKind, CommitOutcome, Idle, Settlement};
use agent::event::EventState;
use agent::id::{CycleId, MessageId};
use agent::life::{IdleReason, IdleUntil, Lease};
use agent::limits;
use agent::run::Ending;
use agent::update::{AgentState, Topic, Update};
use axum::body::{Body, BodyDataStream};
use axum::http::{Method, Request};
use futures_util::{FutureExt, StreamExt};
use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{ADMIN, World, open_cycle};

const MESSAGES: &str = "/v1/spaces/home/messages";
const HOME: &str = "/v1/spaces/home/stream";
const AGENT: &str = "/v1/agents/muhammad/stream";

/// One event of a stream; a comment is an event with the name `:`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Event {
    name: String,
    id: Option<u64>,
    data: Value,
}

struct Stream {
    body: BodyDataStream,
    text: String,
    /// The schema of its frames in the document.
    frames: jsonschema::Validator,
}

impl Stream {
    async fn open(world: &World, path: &str, key: &str, last: Option<u64>) -> Self {
        let mut request =
            Request::get(path).header("host", "localhost").header("authorization", format!("Bearer {key}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = world.open(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body = response.into_body().into_data_stream();
        Self { body, text: String::new(), frames: world.frames(path) }
    }

    /// The next event; `None` at the end of the stream. Panics if neither comes in time.
    async fn next(&mut self) -> Option<Event> {
        let bound = tokio::time::timeout(Duration::from_secs(20), self.wait());
        bound.await.expect("an event comes, or the stream ends")
    }

    async fn wait(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let event = parse(&event);
                let frame = json!({"event": event.name, "data": event.data});
                assert!(event.name == ":" || self.frames.is_valid(&frame), "not as documented: {frame}");
                return Some(event);
            }
            let bytes = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn named(&mut self, name: &str) -> Event {
        let event = self.next().await.expect("the stream continues");
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// All events up to the end of the stream.
    async fn rest(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.split_once(':').unwrap() {
            ("", _) => event.name = ":".to_owned(),
            ("id", id) => event.id = Some(id.trim().parse().unwrap()),
            ("event", name) => event.name = name.trim().to_owned(),
            ("data", data) => event.data = serde_json::from_str(data).unwrap(),
            (other, _) => panic!("a field `{other}` in {text}"),
        }
    }
    event
}

async fn post_message(world: &World, text: &str) -> Value {
    let posted = world.post(MESSAGES, json!({"text": text, "sender": "you"})).await;
    assert_eq!(posted.status, 201);
    posted.json
}

/// Lets all ready tasks run.
async fn settle(world: &World) {
    world.clock.pass(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_lists_agents_that_back_off_only_in_spaces_with_waiting_events() {
    let world = World::new().await;
    assert_eq!(
        world.post("/v1/spaces", json!({"handle": "other", "members": ["muhammad"]})).await.status,
        201
    );
    post_message(&world, "hello?").await;
    let cycle = CycleId(Uuid::from_u128(5));
    open_cycle(&world, cycle, &[1]).await;
    let now = world.ports.clock.now();
    let until = now.checked_add(SignedDuration::from_secs(60)).unwrap();
    let mut back = Changes::new(CommitKind::Close, cycle, 0, 1, now);
    back.settle = vec![Settlement { seq: 1, state: EventState::Waiting }];
    back.idle = Some(Idle { not_before: Some(until), reason: Some(IdleReason::Provider) });
    let lease = Lease { agent: world.agent, epoch: 1 };
    let (outcome, _) = world.ports.store.commit(lease, back).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    let idle_agents = async |path: &str, key: &str| {
        let snapshot = Stream::open(&world, path, key, None).await.named("snapshot").await;
        snapshot.data["idle"].clone()
    };
    let expected = json!([{"agent": world.agent, "reason": "provider", "until": until}]);
    assert_eq!(idle_agents(HOME, ADMIN).await, expected);
    assert_eq!(idle_agents("/v1/spaces/other/stream", ADMIN).await, Value::Null);
    // Operators also get the reason as text, as long as the node knows it.
    let (live, rest) = (&world.ports.live, IdleUntil { reason: IdleReason::Provider, until });
    live.back_off(world.agent, "auth: no such key".to_owned(), rest, &[world.home]);
    let update =
        json!([{"agent": world.agent, "reason": "provider", "until": until, "why": "auth: no such key"}]);
    assert_eq!(idle_agents(HOME, ADMIN).await, update);
    assert_eq!(idle_agents(HOME, &world.your_key().await).await, expected);
    let card = world.get("/v1/agents/muhammad").await.json;
    assert_eq!((&card["reason"], &card["why"]), (&json!("provider"), &json!("auth: no such key")));
    let own = Stream::open(&world, "/v1/agents/muhammad/stream", ADMIN, None).await.named("snapshot").await;
    assert_eq!(own.data["why"], "auth: no such key");
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(idle_agents(HOME, ADMIN).await, Value::Null, "it tries again now");
    assert_eq!(world.get("/v1/agents/muhammad").await.json["why"], Value::Null);
}

#[tokio::test]
async fn a_stream_begins_with_a_snapshot_and_continues_with_updates() {
    let world = World::new().await;
    post_message(&world, "before").await;
    let (cycle, draft) = (CycleId(Uuid::from_u128(5)), MessageId(Uuid::from_u128(6)));
    let live = &world.ports.live;
    live.enter(world.agent, cycle, AgentState::Thinking, &[world.home]);
    live.draft(world.agent, world.home, draft, "Sal");
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    let snapshot = stream.named("snapshot").await;
    assert_eq!(snapshot.id, None);
    let rev = snapshot.data["rev"].as_u64().unwrap();
    assert_eq!((&snapshot.data["space"]["handle"], &snapshot.data["head_seq"]), (&json!("home"), &json!(1)));
    assert_eq!(
        snapshot.data["drafts"],
        json!([{"space": world.home, "message": draft, "agent": world.agent, "text": "Sal"}])
    );
    assert_eq!(snapshot.data["agents"][0]["state"], "thinking");
    assert_eq!(snapshot.data["members"].as_array().unwrap().len(), 2);

    live.draft(world.agent, world.home, draft, "am");
    let delta = stream.named("draft").await;
    assert_eq!((delta.id, &delta.data["delta"], &delta.data["chars"]), (None, &json!("am"), &json!(5)));
    let posted = post_message(&world, "after").await;
    let message = stream.named("message").await;
    assert_eq!((message.id, &message.data["type"]), (Some(rev + 1), &json!("message")));
    assert_eq!(message.data["message"], posted, "the same form as in the response to the sender");
    world.post("/v1/entities", json!({"handle": "ahmad"})).await;
    world.post("/v1/spaces/home/members", json!({"entity": "ahmad"})).await;
    let member = stream.named("member").await;
    assert_eq!((member.id, &member.data["joined"]), (Some(rev + 2), &json!(true)));
    live.idle(world.agent, None);
    stream.named("draft.reset").await;
    assert_eq!(stream.named("agent.state").await.data["state"], "sleeping");
}

#[tokio::test]
async fn a_client_that_reconnects_gets_each_missed_message_once() {
    let world = World::new().await;
    let first = post_message(&world, "1").await["rev"].as_u64().unwrap();
    for i in 2..=120 {
        world.post_unpublished(&i.to_string()).await;
    }
    let mut stream = Stream::open(&world, HOME, ADMIN, Some(first)).await;
    stream.named("snapshot").await;
    for i in 2..=120 {
        let message = stream.named("message").await;
        assert_eq!(
            (message.id, &message.data["message"]["text"]),
            (Some(first + i - 1), &json!(i.to_string()))
        );
        let names = ["sender_display_name", "sender_handle", "sender_kind"];
        let names = names.map(|name| message.data["message"][name].clone());
        assert_eq!(names, ["You", "you", "human"], "replayed messages have the sender's name too");
    }
    post_message(&world, "live").await;
    let live = stream.named("message").await.data["message"].clone();
    assert_eq!((&live["text"], &live["sender_handle"]), (&json!("live"), &json!("you")));
}

#[tokio::test]
async fn a_last_event_id_that_cannot_be_replayed_yields_a_gap_and_a_snapshot() {
    let world = World::new().await;
    let old = post_message(&world, "1").await["rev"].as_u64().unwrap();
    for i in 0..=limits::STREAM_REPLAY_MAX {
        world.post_unpublished(&i.to_string()).await;
    }
    let now = old + limits::STREAM_REPLAY_MAX + 1;
    for last in [old, now + 1, u64::MAX] {
        let mut stream = Stream::open(&world, HOME, ADMIN, Some(last)).await;
        assert_eq!(stream.named("gap").await.data, json!({"from": last, "to": now}));
        assert_eq!(stream.named("snapshot").await.data["rev"], now);
    }
}

#[tokio::test]
async fn durable_updates_arrive_once_and_in_order_even_if_published_out_of_order_or_never() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    stream.named("snapshot").await;
    let mut posted = Vec::new();
    for text in ["a", "b", "c", "d"] {
        posted.push(world.post_unpublished(text).await);
    }
    for i in [1, 0, 3, 3, 2] {
        world.publish(world.message_update(posted[i].clone()));
    }
    post_message(&world, "e").await;
    for text in ["a", "b", "c", "d", "e"] {
        assert_eq!(stream.named("message").await.data["message"]["text"], text);
    }
    settle(&world).await;
    assert!(stream.next().now_or_never().is_none(), "nothing is sent twice");
}

#[tokio::test]
async fn snapshots_of_agent_and_server_streams_contain_the_drafts_so_far() {
    let world = World::new().await;
    let (cycle, draft) = (CycleId(Uuid::from_u128(5)), MessageId(Uuid::from_u128(6)));
    let live = &world.ports.live;
    live.enter(world.agent, cycle, AgentState::Thinking, &[world.home]);
    live.draft(world.agent, world.home, draft, "Sal");
    let expected = json!([{"space": world.home, "message": draft, "agent": world.agent, "text": "Sal"}]);
    for path in [format!("/v1/agents/{}/stream", world.agent), "/v1/stream".to_owned()] {
        let mut stream = Stream::open(&world, &path, ADMIN, None).await;
        assert_eq!(stream.named("snapshot").await.data["drafts"], expected, "{path}");
    }
}

#[tokio::test]
async fn an_agents_stream_reports_accepted_and_canceled_events() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, &format!("/v1/agents/{}/stream", world.agent), ADMIN, None).await;
    stream.named("snapshot").await;
    let posted = post_message(&world, "never mind").await;
    let id = posted["id"].as_str().unwrap();
    world.post(&format!("/v1/agents/{}/events/{id}/cancel", world.agent), json!({})).await;
    for progress in ["waiting", "canceled"] {
        let update = stream.named("event.progress").await;
        assert_eq!((&update.data["event"], &update.data["progress"]), (&json!(id), &json!(progress)));
    }
}

#[tokio::test]
async fn a_late_member_update_has_the_current_membership() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    let rev = stream.named("snapshot").await.data["rev"].as_u64().unwrap();
    let message = world.post_unpublished("a").await;
    world.publish(world.message_update(message));
    world.publish(Update::Member { space: world.home, entity: world.you, joined: false, rev });
    stream.named("message").await;
    let member = stream.named("member").await;
    assert_eq!((member.id, &member.data["joined"]), (Some(rev + 1), &json!(true)));
}

#[tokio::test]
async fn a_slow_reader_loses_drafts_but_no_durable_update() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    stream.named("snapshot").await;
    let live = &world.ports.live;
    let draft = MessageId(Uuid::from_u128(6));
    // Far more than the buffers of the client and of its subscription hold.
    for i in 0..3_000 {
        live.draft(world.agent, world.home, draft, "x");
        if i % 5 == 0 {
            let message = world.post_unpublished(&i.to_string()).await;
            world.publish(world.message_update(message));
        }
    }
    settle(&world).await;
    let (mut texts, mut drafts, mut snapshots) = (Vec::new(), 0, 0);
    while texts.len() < 600 {
        settle(&world).await;
        let event = stream.next().await.unwrap();
        match event.name.as_str() {
            "message" => texts.push(event.data["message"]["text"].as_str().unwrap().to_owned()),
            "draft" => drafts += 1,
            "snapshot" => snapshots += 1,
            other => panic!("{other}"),
        }
    }
    let all: Vec<String> = (0..3_000).step_by(5).map(|i: u32| i.to_string()).collect();
    assert_eq!(texts, all);
    assert!(drafts < 3_000, "{drafts}");
    assert!(snapshots > 0, "a snapshot replaces other lost updates");
}

#[tokio::test]
async fn drafts_that_a_client_has_not_read_yet_are_merged() {
    let world = World::new().await;
    let [mut slow, mut quick] =
        [Stream::open(&world, HOME, ADMIN, None).await, Stream::open(&world, HOME, ADMIN, None).await];
    slow.named("snapshot").await;
    quick.named("snapshot").await;
    let (live, draft) = (&world.ports.live, MessageId(Uuid::from_u128(6)));
    for (delta, chars) in [("Sal", 3), ("a", 4), ("m", 5)] {
        live.draft(world.agent, world.home, draft, delta);
        let event = quick.named("draft").await;
        assert_eq!((&event.data["delta"], &event.data["chars"]), (&json!(delta), &json!(chars)));
    }
    live.reset_drafts(world.agent);
    let event = slow.named("draft").await;
    assert_eq!((&event.data["delta"], &event.data["chars"]), (&json!("Salam"), &json!(5)));
    slow.named("draft.reset").await;
}

#[tokio::test]
async fn with_many_clients_drafts_are_merged_and_sent_in_batches() {
    let world = World::new().await;
    let mut streams = Vec::new();
    for _ in 0..=limits::STREAM_CROWD {
        let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
        stream.named("snapshot").await;
        streams.push(stream);
    }
    let (live, draft) = (&world.ports.live, MessageId(Uuid::from_u128(6)));
    live.draft(world.agent, world.home, draft, "S");
    for stream in &mut streams {
        assert_eq!(stream.named("draft").await.data["delta"], "S", "the first is sent at once");
    }
    for delta in ["al", "am"] {
        live.draft(world.agent, world.home, draft, delta);
        settle(&world).await;
    }
    assert!(streams[0].next().now_or_never().is_none(), "the others are delayed and merged");
    world.clock.pass(Duration::from_millis(limits::STREAM_GATHER_MS)).await.unwrap();
    for stream in &mut streams {
        let event = stream.named("draft").await;
        assert_eq!((&event.data["delta"], &event.data["chars"]), (&json!("alam"), &json!(5)));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected_with_its_last_id() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    stream.named("snapshot").await;
    let rev = post_message(&world, "read").await["rev"].as_u64().unwrap();
    stream.named("message").await;
    for i in 0..10 {
        post_message(&world, &format!("unread {i}")).await;
    }
    world.clock.pass(Duration::from_millis(2 * limits::STREAM_PING_MS)).await.unwrap();
    let closed = stream.rest().await;
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(closed[0].name, "closed");
    assert_eq!(closed[0].data, json!({"reason": "slow_reader", "last_id": rev}));
    let mut again = Stream::open(&world, HOME, ADMIN, Some(rev)).await;
    again.named("snapshot").await;
    assert_eq!(again.named("message").await.data["message"]["text"], "unread 0");
}

#[tokio::test]
async fn a_stream_without_updates_sends_pings_and_stays_open() {
    let world = World::new().await;
    let mut stream = Stream::open(&world, HOME, ADMIN, None).await;
    stream.named("snapshot").await;
    for _ in 0..100 {
        world.clock.pass(Duration::from_millis(limits::STREAM_PING_MS)).await.unwrap();
        stream.named(":").await;
    }
}

#[tokio::test]
async fn a_removed_member_gets_no_message_posted_after_the_removal() {
    let world = World::new().await;
    let key = world.your_key().await;
    world.post("/v1/entities", json!({"handle": "ahmad"})).await;
    world.post("/v1/spaces/home/members", json!({"entity": "ahmad"})).await;
    let mut stream = Stream::open(&world, HOME, &key, None).await;
    stream.named("snapshot").await;
    world.ask(Method::DELETE, "/v1/spaces/home/members/you", ADMIN, None).await;
    let posted = world.post(MESSAGES, json!({"text": "secret", "sender": "ahmad"})).await;
    assert_eq!(posted.status, 201);
    let events = stream.rest().await;
    assert_eq!(events.last().unwrap().data["reason"], "not_member", "{events:?}");
    assert!(events.iter().all(|event| event.name != "message"), "{events:?}");
}

#[tokio::test]
async fn members_get_no_reasons_and_space_streams_have_no_thoughts() {
    let world = World::new().await;
    let key = world.your_key().await;
    let mut stream = Stream::open(&world, HOME, &key, None).await;
    stream.named("snapshot").await;
    let (agent, cycle) = (world.agent, CycleId(Uuid::from_u128(5)));
    world.publish(Update::Thought { agent, cycle, step: 0, reasoning: true, delta: "hm".to_owned() });
    let reason = Some("not my business".to_owned());
    world.publish(Update::CycleEnded { agent, cycle, ending: Ending::Skipped, reason, spent: None });
    let reason = Some("nor this".to_owned());
    let state = AgentState::Sleeping;
    world.publish(Update::State { agent, state, cycle: None, reason, idle: None });
    assert_eq!(stream.named("cycle.ended").await.data["reason"], Value::Null);
    assert_eq!(stream.named("agent.state").await.data["reason"], Value::Null);
}

#[tokio::test]
async fn shutdown_ends_streams_at_once() {
    let world = World::new().await;
    let mut home = Stream::open(&world, HOME, ADMIN, None).await;
    let mut agent = Stream::open(&world, AGENT, ADMIN, None).await;
    home.named("snapshot").await;
    agent.named("snapshot").await;
    world.shutdown.cancel();
    for stream in [&mut home, &mut agent] {
        let rest = stream.rest().await;
        assert_eq!(rest.len(), 1);
        assert_eq!((rest[0].name.as_str(), &rest[0].data["reason"]), ("closed", &json!("shutdown")));
    }
}

#[tokio::test]
async fn an_agents_stream_replays_its_commits_and_shows_its_thoughts() {
    let world = World::new().await;
    let (agent, cycle) = (world.agent, CycleId(Uuid::from_u128(5)));
    open_cycle(&world, cycle, &[]).await;
    let mut stream = Stream::open(&world, AGENT, ADMIN, Some(0)).await;
    let snapshot = stream.named("snapshot").await;
    assert_eq!((&snapshot.data["cycle"], &snapshot.data["commit_n"]), (&json!(cycle), &json!(1)));
    let commit = stream.named("commit").await;
    assert_eq!((commit.id, &commit.data["kind"]), (Some(1), &json!("open")));
    let thought = Update::Thought { agent, cycle, step: 0, reasoning: false, delta: "hm".to_owned() };
    world.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(thought));
    let thought = stream.named("thought").await;
    assert_eq!((thought.id, &thought.data["delta"]), (None, &json!("hm")));
}

#[tokio::test]
async fn the_server_stream_has_updates_of_all_spaces_and_agents_but_no_thoughts() {
    let world = World::new().await;
    let (agent, cycle) = (world.agent, CycleId(Uuid::from_u128(5)));
    world.ports.live.enter(agent, cycle, AgentState::Thinking, &[world.home]);
    let mut stream = Stream::open(&world, "/v1/stream", ADMIN, None).await;
    let snapshot = stream.named("snapshot").await;
    assert_eq!(snapshot.data["agents"][0]["agent"], json!(agent));
    let thought = Update::Thought { agent, cycle, step: 0, reasoning: false, delta: "hm".to_owned() };
    world.ports.live.bus().publish(&[Topic::Agent(agent)], Arc::new(thought));
    let posted = world.post(MESSAGES, json!({"text": "hello", "sender": "you"})).await;
    assert_eq!(posted.status, 201);
    let message = stream.next().await.unwrap();
    assert_eq!((message.name.as_str(), message.id), ("message", None), "{message:?}");
    let progress = stream.next().await.unwrap();
    assert_eq!((progress.name.as_str(), &progress.data["progress"]), ("event.progress", &json!("waiting")));
    world.ports.live.idle(agent, None);
    assert_eq!(stream.next().await.unwrap().data["state"], "sleeping");
    let key = world.your_key().await;
    let request = Request::get("/v1/stream").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {key}")).body(Body::empty()).unwrap();
    assert_eq!(world.open(request).await.status(), 403);
}

#[tokio::test]
async fn the_open_streams_of_a_revoked_key_end_at_once_and_no_others() {
    let world = World::new().await;
    let (id, key) = world.key(json!({"scope": "person", "entity": "you"})).await;
    let mut others = Stream::open(&world, HOME, ADMIN, None).await;
    let mut yours =
        [Stream::open(&world, HOME, &key, None).await, Stream::open(&world, HOME, &key, None).await];
    for stream in yours.iter_mut().chain([&mut others]) {
        stream.named("snapshot").await;
    }
    world.ask(Method::DELETE, &format!("/v1/keys/{id}"), ADMIN, None).await;
    // The clock stands still: no stream waits for its next check.
    for stream in &mut yours {
        let events = stream.rest().await;
        assert_eq!(events.last().unwrap().data["reason"], "key_revoked", "{events:?}");
    }
    world.post(MESSAGES, json!({"text": "still here", "sender": "you"})).await;
    others.named("message").await;
}

#[tokio::test]
async fn the_open_streams_of_a_key_end_when_it_expires_and_those_of_its_successor_do_not() {
    let world = World::new().await;
    let expires_at = world.ports.clock.now().checked_add(Duration::from_secs(5)).unwrap().to_string();
    let (_, brief) = world.key(json!({"scope": "operator:read", "expires_at": expires_at})).await;
    let (id, old) = world.key(json!({"scope": "admin"})).await;
    let [mut brief, mut old] =
        [Stream::open(&world, HOME, &brief, None).await, Stream::open(&world, HOME, &old, None).await];
    for stream in [&mut brief, &mut old] {
        stream.named("snapshot").await;
    }
    let rotated = world.post(&format!("/v1/keys/{id}/rotate"), json!({"overlap_seconds": 7})).await;
    let mut next = Stream::open(&world, HOME, rotated.json["secret"].as_str().unwrap(), None).await;
    next.named("snapshot").await;
    for stream in [&mut brief, &mut old] {
        let events = world.clock.run_until(stream.rest()).await.unwrap();
        assert_eq!(events.last().unwrap().data["reason"], "key_expired", "{events:?}");
    }
    let passed = world.ports.clock.now().duration_since("2026-11-21T14:00:00Z".parse().unwrap());
    assert!(passed.as_secs() < 8, "they ended by their expiry and not by a later check: {passed}");
    world.post(MESSAGES, json!({"text": "still here", "sender": "you"})).await;
    next.named("message").await;
}
