//! Queries and commands of a node must not cost more because more agents sleep in its store. The cost is counted in
//! steps of SQLite's virtual machine, in a small store and in one with a hundred times as many agents. A query that
//! scans a table takes steps for each of its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::config::{AgentConfig, WakeOn};
use agent::entity::EntityKind;
use agent::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use agent::id::{AgentId, EntityId, EventId, MessageId, RootId, SpaceId};
use agent::limits;
use agent::port::{
    Accept, Accepted, BoxFuture, Due, NewAgent, NewHuman, NewSpace, PageRequest, Reader, Registry, Store,
};
use agent::space::NewMessage;
use jiff::Timestamp;
use runtime::clock::SystemClock;
use rusqlite::Connection;
use uuid::Uuid;

use super::{Caller, Mode, Sqlite};
use crate::sqlite::engine::file::FILE;
use crate::sqlite::engine::mutex::lock;
use crate::sqlite::engine::schema;
use crate::sqlite::tables::opening;

const FEW: u128 = 30;
const MANY: u128 = 3_000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap()
}

fn agent(n: u128) -> AgentId {
    AgentId(Uuid::from_u128(0xA000_0000 + n))
}

fn space(n: u128) -> SpaceId {
    SpaceId(Uuid::from_u128(0x5000_0000 + n))
}

/// Creates a person, and so many agents that sleep, each in a space with that person.
async fn populate(store: &Sqlite, agents: u128) {
    let you = EntityId(Uuid::from_u128(1));
    let human =
        NewHuman { id: you, name: "you".into(), display_name: "You".into(), external_id: None, at: at(0) };
    store.create_human(human).await.unwrap();
    for n in 0..agents {
        create_agent(store, n).await;
        let new = NewSpace {
            id: space(n),
            name: format!("space-{n}"),
            display_name: String::new(),
            description: String::new(),
            wake_on: WakeOn::All,
            members: vec![you, agent(n).entity()],
            at: at(0),
        };
        store.open_space(new).await.unwrap();
    }
}

async fn create_agent(store: &Sqlite, n: u128) {
    let (name, display_name, config) = (format!("agent-{n}"), String::new(), AgentConfig::default());
    let new = NewAgent { id: agent(n), name, display_name, config, at: at(0) };
    store.create_agent(new).await.unwrap();
}

fn message_in(n: u128) -> Accept {
    let id = MessageId(Uuid::from_u128(0xE000_0000 + n));
    Accept::Message(NewMessage {
        id,
        space: space(n),
        sender: EntityId(Uuid::from_u128(1)),
        text: "hello".into(),
        mentions: Vec::new(),
        urgent: false,
        at: at(10),
        cycle: None,
        call: None,
        data: None,
        principal: Principal::Entity(EntityId(Uuid::from_u128(1))),
        trust: Trust::Member,
        root: RootId(id.to_string()),
        hop: 0,
    })
}

fn service_event(n: u128) -> Accept {
    let envelope = Envelope {
        principal: Principal::Credential("key".into()),
        channel: Channel::Api,
        trust: Trust::Outside,
        root: RootId(format!("bell-{n}")),
        hop: 0,
    };
    let data = EventData::Service { name: "bell".into(), payload: serde_json::json!({}) };
    let (id, kind, urgent) = (EventId(format!("bell-{n}")), EventKind::Service, false);
    Accept::Event(agent(n), Event { id, kind, urgent, at: at(10), envelope, data, cites: None })
}

fn page() -> PageRequest {
    PageRequest { cursor: None, limit: 10 }
}

type Operation = fn(&Sqlite) -> BoxFuture<'_, ()>;

/// What a node does while it runs, each with a name.
const OPERATIONS: [(&str, Operation); 13] = [
    ("accept a message", |s| Box::pin(async { accepted(s, message_in(17)).await })),
    ("accept an event", |s| Box::pin(async { accepted(s, service_event(18)).await })),
    ("due", |s| Box::pin(async { assert_eq!(s.due(at(100), None, 256).await.unwrap().len(), 2) })),
    ("due, a page behind", |s| {
        Box::pin(async {
            let after = Due { agent: agent(17), at: at(10) };
            assert_eq!(s.due(at(100), Some(after), 256).await.unwrap().len(), 1);
        })
    }),
    ("next due", |s| Box::pin(async { assert_eq!(s.next_due(at(0)).await.unwrap().first(), Some(at(10))) })),
    ("fire due", |s| Box::pin(async { drop(s.fire_due(at(100), 256).await.unwrap().wake) })),
    ("wake", |s| Box::pin(async { assert!(s.wake(agent(17), at(100), None).await.unwrap().is_some()) })),
    ("a credential", |s| Box::pin(async { drop(s.credential("hash".into()).await.unwrap()) })),
    ("a page of agents", |s| {
        Box::pin(async { assert_eq!(s.agents(None, page()).await.unwrap().items.len(), 10) })
    }),
    ("a page of agents' names", |s| {
        Box::pin(async { drop(s.entities(Some(EntityKind::Agent), page()).await.unwrap()) })
    }),
    ("a page of spaces", |s| Box::pin(async { drop(s.spaces(None, None, page()).await.unwrap()) })),
    ("a page of an agent's spaces", |s| {
        Box::pin(async {
            let found = s.spaces(Some(agent(17).entity()), None, page()).await.unwrap();
            assert_eq!(found.items.len(), 1);
        })
    }),
    ("a card", |s| Box::pin(async { assert!(s.agent(agent(17)).await.unwrap().is_some()) })),
];

async fn accepted(store: &Sqlite, what: Accept) {
    assert!(
        matches!(store.accept(what, None).await.unwrap(), Accepted::Fresh { wake, .. } if wake.len() == 1)
    );
}

pub(crate) fn count_steps(db: &mut Connection) -> Arc<AtomicU64> {
    let steps = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&steps);
    let count = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    };
    db.progress_handler(1, Some(count)).unwrap();
    steps
}

/// The steps of each operation in a store with so many agents.
async fn costs(agents: u128) -> Vec<u64> {
    let store = Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap();
    populate(&store, agents).await;
    let Mode::Inline { db, .. } = &store.inner.mode else { panic!("a store in memory is inline") };
    let steps = count_steps(lock(db).as_mut().unwrap());
    let mut costs = Vec::new();
    for (_, operation) in OPERATIONS {
        steps.store(0, Ordering::Relaxed);
        operation(&store).await;
        costs.push(steps.load(Ordering::Relaxed));
    }
    costs
}

#[tokio::test]
async fn no_query_or_command_of_a_node_costs_more_if_more_agents_sleep() {
    let (few, many) = (costs(FEW).await, costs(MANY).await);
    for ((name, _), (few, many)) in OPERATIONS.iter().zip(few.into_iter().zip(many)) {
        assert!(many <= few + few / 4 + 8, "{name}: {few} steps among {FEW} agents, {many} among {MANY}");
    }
}

#[tokio::test]
async fn a_member_of_very_many_spaces_gets_all_of_them_by_name_in_pages() {
    const SPACES: u128 = 1_200;
    let store = Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap();
    populate(&store, SPACES).await;
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageRequest { cursor, limit: 100 };
        let found = store.spaces(Some(EntityId(Uuid::from_u128(1))), None, page).await.unwrap();
        names.extend(found.items.into_iter().map(|space| space.name));
        cursor = found.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names.len() as u128, SPACES);
    assert!(names.is_sorted());
    let stranger = store.spaces(Some(EntityId(Uuid::from_u128(2))), None, page()).await.unwrap();
    assert_eq!(stranger.items.len(), 0);
}

#[tokio::test]
async fn agents_that_were_counted_once_are_not_counted_again() {
    let store = Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap();
    let Mode::Inline { db, .. } = &store.inner.mode else { panic!("a store in memory is inline") };
    let steps = count_steps(lock(db).as_mut().unwrap());
    let mut costs = Vec::new();
    for n in 0..MANY {
        create_agent(&store, n).await;
        if n % 1_000 == 500 {
            let totals = store.totals().await.unwrap();
            assert_eq!(u128::from(totals.agents), n + 1);
            steps.store(0, Ordering::Relaxed);
            assert_eq!(store.totals().await.unwrap(), totals);
            costs.push(steps.load(Ordering::Relaxed));
        }
    }
    assert_eq!(costs, [costs[0]; 3]);
}

/// The steps of an activation of an agent in so many spaces, each with a new message.
async fn activation(spaces: u128) -> u64 {
    let store = Sqlite::in_memory(Arc::new(SystemClock::new())).unwrap();
    populate(&store, spaces).await;
    create_agent(&store, spaces).await;
    let busy = agent(spaces);
    for n in 0..spaces {
        store.add_member(space(n), busy.entity(), "member".into(), at(0)).await.unwrap();
        accepted_by_two(&store, message_in(n)).await;
    }
    let Mode::Inline { db, .. } = &store.inner.mode else { panic!("a store in memory is inline") };
    let steps = count_steps(lock(db).as_mut().unwrap());
    let facts = store.wake(busy, at(100), None).await.unwrap().unwrap().facts;
    assert_eq!(facts.spaces.len(), limits::SPACES_SHOWN_MAX);
    steps.load(Ordering::Relaxed)
}

async fn accepted_by_two(store: &Sqlite, what: Accept) {
    let accepted = store.accept(what, None).await.unwrap();
    assert!(matches!(accepted, Accepted::Fresh { wake, .. } if wake.len() == 2));
}

#[tokio::test]
async fn an_activation_costs_no_more_in_thousands_of_spaces_than_in_hundreds() {
    let (few, many) = (activation(2 * limits::SPACES_LOOK as u128).await, activation(4_000).await);
    // Counting the spaces that are not shown takes a step or two each, up to a limit.
    let counted = 8 * limits::SPACES_COUNTED_MAX as u64;
    assert!(many <= few + few / 4 + counted, "{few} steps, then {many}");
}

async fn opening(agents: u128) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path(), Arc::new(SystemClock::new())).unwrap();
    populate(&store, agents).await;
    // As after a crash: no clean end is recorded.
    drop(store);
    let file = dir.path().join(FILE);
    let mut db = Connection::open(&file).unwrap();
    let steps = count_steps(&mut db);
    schema::prepare(&db, &file).unwrap();
    let opening = opening::begin(&db, Some(at(0))).unwrap();
    assert_eq!((opening.boot, opening.clean), (2, false));
    steps.load(Ordering::Relaxed)
}

#[tokio::test]
async fn an_opening_reads_no_sleeping_agent() {
    let (few, many) = (opening(FEW).await, opening(10 * FEW).await);
    assert_eq!(few, many, "steps of an opening among {FEW} agents and ten times as many");
}

#[tokio::test]
async fn long_queries_of_the_api_do_not_block_activations() {
    let dir = tempfile::tempdir().unwrap();
    let store = Sqlite::open(dir.path(), Arc::new(SystemClock::new())).unwrap();
    populate(&store, 1).await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let long = || {
        let held = Arc::clone(&held);
        tokio::spawn(store.read(Caller::Api, move |_, _| {
            // Ends when the sender is dropped.
            let _ = lock(&held).recv();
            Ok(())
        }))
    };
    let asked: Vec<_> = (0..3 * limits::READERS_API).map(|_| long()).collect();
    while !matches!(&store.inner.mode, Mode::Threaded { api, .. } if api.are_busy()) {
        tokio::task::yield_now().await;
    }
    assert!(store.wake(agent(0), at(100), None).await.unwrap().is_some());
    assert_eq!(store.due(at(100), None, 10).await.unwrap(), []);
    drop(release);
    for question in asked {
        assert!(question.await.unwrap().is_ok());
    }
}

/// Makes every change of `meta` fail for lack of room, until [`empty`] is called.
pub(crate) fn fill(db: &Connection) {
    let trigger = "CREATE TRIGGER filling AFTER UPDATE ON meta BEGIN \
                   INSERT INTO request (principal, key, body_hash) VALUES (hex(randomblob(16)), '', hex(zeroblob(100000))); END";
    db.execute_batch(trigger).unwrap();
    db.pragma_update(None, "max_page_count", 1).unwrap();
}

/// Makes room again.
pub(crate) fn empty(db: &Connection) {
    db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
}
