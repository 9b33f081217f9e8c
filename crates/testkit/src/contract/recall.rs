//! Promises about an agent's archive: what is found, by whom, and that no query is too strange to be answered.

use std::time::Duration;

use agent::changes::MemoryChange;
use agent::entry::EntryKind;
use agent::event::Trust;
use agent::id::{AgentId, CycleId};
use agent::limits;
use agent::port::{CycleRef, Excerpt, RecallError, RecallKind, RecallQuery};
use agent::space::NewMessage;

use super::Backend;
use super::world::{CycleDriver, World, at, world};

/// Longer than any index may be behind.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn query(text: &str) -> RecallQuery {
    RecallQuery { text: text.into(), limit: 10, ..RecallQuery::default() }
}

/// The excerpts for a query, once there are `count`.
pub(super) async fn found(w: &World, agent: AgentId, query: RecallQuery, count: usize) -> Vec<Excerpt> {
    let mut last = None;
    let search = async {
        loop {
            let found = w.b.lookup.recall(agent, query.clone()).await.unwrap();
            last = Some(found.clone());
            if found.excerpts.len() == count && !found.building {
                return found.excerpts;
            }
            tokio::task::yield_now().await;
        }
    };
    match tokio::time::timeout(PATIENCE, search).await {
        Ok(found) => found,
        Err(_) => panic!("wanted {count} excerpts for {query:?} within {PATIENCE:?}, got {last:?}"),
    }
}

/// A cycle of the agent that processes what waits and appends these two texts; then it is closed.
pub(super) async fn lived(w: &World, agent: AgentId, shown: &str, written: &str) -> CycleDriver {
    let mut driver = w.open(agent).await;
    let mut decision = driver.decision();
    decision.entries =
        vec![driver.entry(1, EntryKind::Inbox, shown), driver.entry(2, EntryKind::Assistant, written)];
    driver.commit(w, decision).await;
    let closing = driver.closing();
    driver.commit(w, closing).await;
    driver.cycles += 1;
    driver
}

fn texts(found: &[Excerpt]) -> Vec<&str> {
    found.iter().map(|excerpt| excerpt.text.as_str()).collect()
}

/// Each with its cycle, space, trust and time.
pub async fn an_agent_finds_what_it_was_shown_what_it_wrote_and_what_it_remembers(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "the boiler leaks").await;
    let driver =
        lived(&w, w.ada, "1. [space family] Husam: \"the boiler leaks\"", "I called a plumber").await;
    let change = MemoryChange::set("plumber", "Karim, +963");
    w.b.registry.change_memory(w.ada, change, at(5_000)).await.unwrap();

    // Until the entry is in the index, the message alone is found.
    found(&w, w.ada, RecallQuery { kind: Some(RecallKind::Inbox), ..query("boiler") }, 1).await;
    let shown = found(&w, w.ada, query("boiler"), 1).await;
    let wanted = Excerpt {
        at: at(1_000),
        kind: RecallKind::Inbox,
        cycle: Some(driver.open.id),
        key: None,
        space: Some(w.family),
        space_handle: Some("family".into()),
        trust: Some(Trust::Member),
        text: "1. [space family] Husam: \"the boiler leaks\"".into(),
    };
    assert_eq!(shown, [wanted]);
    let both = found(&w, w.ada, query("PLUMBER"), 2).await;
    let kinds: Vec<_> = both.iter().map(|excerpt| excerpt.kind).collect();
    assert!(kinds.contains(&RecallKind::Assistant) && kinds.contains(&RecallKind::Memory), "{kinds:?}");
    let memory =
        found(&w, w.ada, RecallQuery { kind: Some(RecallKind::Memory), ..query("plumber") }, 1).await;
    assert_eq!((memory[0].key.as_deref(), memory[0].cycle), (Some("plumber"), None));
    assert_eq!(memory[0].text, "plumber: Karim, +963");

    let change = MemoryChange::set("plumber", "Layla");
    w.b.registry.change_memory(w.ada, change, at(6_000)).await.unwrap();
    assert_eq!(texts(&found(&w, w.ada, query("layla"), 1).await), ["plumber: Layla"]);
    found(&w, w.ada, query("karim"), 0).await;
    w.b.registry
        .change_memory(w.ada, MemoryChange::Delete { key: "plumber".into() }, at(7_000))
        .await
        .unwrap();
    found(&w, w.ada, query("layla"), 0).await;
}

/// It has them before its eyes.
pub async fn a_cycle_does_not_find_the_events_that_it_was_woken_for(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "the boiler leaks").await;
    let mut driver = w.open(w.ada).await;
    let asking = RecallQuery { asking: Some(driver.open.id), ..query("boiler") };
    found(&w, w.ada, query("boiler"), 1).await;
    found(&w, w.ada, asking.clone(), 0).await;
    let mut decision = driver.decision();
    decision.entries = vec![
        driver.entry(1, EntryKind::Inbox, "1. Husam: \"the boiler leaks\""),
        driver.entry(2, EntryKind::Assistant, "let me look for a boiler"),
    ];
    driver.commit(&w, decision).await;
    found(&w, w.ada, query("boiler"), 2).await;
    assert_eq!(texts(&found(&w, w.ada, asking.clone(), 1).await), ["let me look for a boiler"]);
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    let later = RecallQuery { asking: Some(CycleId(super::world::fresh())), ..asking };
    found(&w, w.ada, later, 2).await;
}

/// Not even by its words' rarity.
pub async fn an_agent_finds_nothing_of_another_agent(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "hello").await;
    let ada = lived(&w, w.ada, "saffron", "I like saffron").await;
    let bob = lived(&w, w.bob, "pepper", "I like pepper").await;
    found(&w, w.ada, query("saffron"), 2).await;
    found(&w, w.bob, query("pepper"), 2).await;
    found(&w, w.ada, query("pepper"), 0).await;
    found(&w, w.bob, query("saffron"), 0).await;
    assert_eq!(w.b.lookup.cycle(w.ada, CycleRef::Id(bob.open.id)).await.unwrap(), []);
    let own = w.b.lookup.cycle(w.ada, CycleRef::Id(ada.open.id)).await.unwrap();
    assert_eq!(own.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [1, 2]);
    let nobody = AgentId(super::world::fresh());
    assert!(w.b.lookup.recall(nobody, query("pepper")).await.unwrap().excerpts.is_empty());
    assert_eq!(w.b.lookup.cycle(nobody, CycleRef::Id(ada.open.id)).await.unwrap(), []);
    for unknown in [CycleRef::Id(CycleId(super::world::fresh())), CycleRef::Number(0), CycleRef::Number(2)] {
        assert_eq!(w.b.lookup.cycle(w.ada, unknown).await.unwrap(), [], "{unknown:?}");
    }
    assert_eq!(w.b.lookup.cycle(w.ada, CycleRef::Number(1)).await.unwrap(), own, "by its run's number");
    assert_eq!(w.b.lookup.cycle(nobody, CycleRef::Number(1)).await.unwrap(), []);
}

/// What was posted there without it is not found.
pub async fn of_a_space_that_it_left_an_agent_finds_what_it_processed(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "the password of the router is cedar").await;
    lived(&w, w.ada, "the password of the router is cedar", "noted").await;
    w.b.registry.remove_member(w.team, w.ada.entity()).await.unwrap();
    w.post(w.team, "now the password is maple").await;
    lived(&w, w.bob, "now the password is maple", "noted").await;
    found(&w, w.bob, query("maple"), 1).await;
    assert_eq!(found(&w, w.ada, query("password"), 1).await[0].space_handle.as_deref(), Some("team"));
    found(&w, w.ada, query("maple"), 0).await;
}

/// What it processed is found once, in the text of the cycle; a message that it never saw is found as posted.
pub async fn messages_of_its_spaces_are_found_and_those_of_other_spaces_are_not(b: Backend) {
    let w = world(b).await;
    w.post(w.team, "the router is in the cellar").await;
    w.post(w.family, "the router is in the attic").await;
    lived(&w, w.ada, "the router is in the attic", "ok").await;
    lived(&w, w.bob, "hello", "hello").await;

    // Before her cycle is indexed the message alone is found.
    found(&w, w.ada, query("ok"), 1).await;
    assert_eq!(texts(&found(&w, w.ada, query("attic"), 1).await), ["the router is in the attic"]);
    let posted = found(&w, w.bob, query("router"), 1).await;
    assert_eq!(
        (texts(&posted)[0], posted[0].kind),
        ("@husam: the router is in the cellar", RecallKind::Message)
    );
    assert_eq!((posted[0].space_handle.as_deref(), posted[0].trust), (Some("team"), Some(Trust::Member)));
    found(&w, w.bob, query("attic"), 0).await;
    let all = RecallQuery { kind: Some(RecallKind::Message), ..query("router") };
    assert!(found(&w, w.ada, all.clone(), 2).await.iter().all(|message| message.cycle.is_some()));
    found(&w, w.ada, RecallQuery { space: Some("family".into()), ..all.clone() }, 1).await;

    w.b.registry.remove_member(w.team, w.bob.entity()).await.unwrap();
    found(&w, w.bob, all, 0).await;
    w.b.registry.add_member(w.family, w.bob.entity(), "member".into(), at(50)).await.unwrap();
    assert_eq!(texts(&found(&w, w.bob, query("router"), 1).await), ["@husam: the router is in the attic"]);
}

/// Alone and together.
pub async fn a_search_can_be_limited_to_a_time_a_space_and_a_kind(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "one").await;
    lived(&w, w.ada, "tea at home", "tea is ready").await;
    w.accept(NewMessage { at: at(20), ..super::world::message_from(w.husam, w.team, "two") }).await;
    lived(&w, w.ada, "tea at work", "no tea").await;
    let all = query("tea");
    found(&w, w.ada, all.clone(), 4).await;
    let space = |space: &str| RecallQuery { space: Some(space.into()), ..all.clone() };
    assert!(
        found(&w, w.ada, space("family"), 2)
            .await
            .iter()
            .all(|e| e.space_handle.as_deref() == Some("family"))
    );
    found(&w, w.ada, space(&w.team.to_string()), 2).await;
    let kind = RecallKind::Inbox;
    let both = found(&w, w.ada, RecallQuery { kind: Some(kind), ..space("team") }, 1).await;
    assert_eq!(texts(&both), ["tea at work"]);
    found(&w, w.ada, RecallQuery { from: Some(at(1_000)), to: Some(at(1_001)), ..all.clone() }, 4).await;
    found(&w, w.ada, RecallQuery { from: Some(at(1_001)), ..all.clone() }, 0).await;
    found(&w, w.ada, RecallQuery { to: Some(at(1_000)), ..all.clone() }, 0).await;
    found(&w, w.ada, RecallQuery { limit: 3, ..all }, 3).await;
}

/// Instead of an empty answer: with the spaces that it can search, those with the newest messages first.
pub async fn a_search_in_a_space_that_the_agent_never_knew_is_refused(b: Backend) {
    let w = world(b).await;
    let refused = async |agent: AgentId, space: &str| {
        let query = RecallQuery { space: Some(space.into()), ..query("tea") };
        match w.b.lookup.recall(agent, query).await {
            Err(RecallError::NoSuchSpace { named, searchable }) => (named, searchable),
            other => panic!("wanted a refusal, got {other:?}"),
        }
    };
    w.accept(NewMessage { at: at(10), ..super::world::message_from(w.husam, w.family, "one") }).await;
    lived(&w, w.ada, "tea at home", "tea is ready").await;
    w.accept(NewMessage { at: at(20), ..super::world::message_from(w.husam, w.team, "two") }).await;
    lived(&w, w.ada, "tea at work", "no tea").await;
    found(&w, w.ada, query("tea"), 4).await;
    assert_eq!(refused(w.ada, "nowhere").await, ("nowhere".into(), vec!["team".into(), "family".into()]));
    assert_eq!(refused(w.bob, "family").await, ("family".into(), vec!["team".into()]));
    assert_eq!(refused(w.bob, &w.family.to_string()).await.1, ["team"]);

    // What it processed of a space that it left stays searchable; what it never processed does not.
    w.b.registry.remove_member(w.family, w.ada.entity()).await.unwrap();
    w.b.registry.remove_member(w.team, w.bob.entity()).await.unwrap();
    let family = RecallQuery { space: Some("family".into()), ..query("tea") };
    found(&w, w.ada, family, 2).await;
    assert_eq!(refused(w.ada, "nowhere").await.1, ["team", "family"]);
    assert_eq!(refused(w.bob, "team").await.1, [""; 0]);
}

/// Of an agent in very many spaces.
pub async fn a_search_says_when_only_the_newest_spaces_are_searched(b: Backend) {
    let w = world(b).await;
    let most = limits::RECALL_SPACES;
    for n in 0..most - 2 {
        super::world::space(&w.b, &format!("room-{n}"), &[w.husam, w.ada.entity()]).await;
    }
    let is_partial =
        async |query: RecallQuery| w.b.lookup.recall(w.ada, query).await.unwrap().newest_spaces_only;
    found(&w, w.ada, query("tea"), 0).await;
    assert!(!is_partial(query("tea")).await, "{most} spaces are searched");
    super::world::space(&w.b, "attic", &[w.husam, w.ada.entity()]).await;
    assert!(is_partial(query("tea")).await);
    assert!(is_partial(RecallQuery { kind: Some(RecallKind::Message), ..query("tea") }).await);
    assert!(!is_partial(RecallQuery { kind: Some(RecallKind::Memory), ..query("tea") }).await);
    assert!(!is_partial(RecallQuery { space: Some("attic".into()), ..query("tea") }).await);
}

/// Marks, forms of letters, the article and missing spaces do not matter.
pub async fn words_are_found_in_every_script(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "one").await;
    lived(&w, w.ada, "وصلتِ الفاتورةُ إلى مكتب أحمد", "明日の会議は東京駅です").await;
    for (asked, count) in [
        ("فاتورة", 1),
        ("والفاتوره", 1),
        ("الـفـاتـورة", 1),
        ("احمد", 1),
        ("東京", 1),
        ("会議", 1),
        ("駅", 1),
        ("大阪", 0),
        ("ﻣﻜﺘﺐ", 1),
    ] {
        found(&w, w.ada, query(asked), count).await;
    }
    lived_after_a_message(&w, "Ｃａｆé crème", "ok").await;
    found(&w, w.ada, query("CAFE creme"), 1).await;
}

async fn lived_after_a_message(w: &World, shown: &str, written: &str) {
    w.post(w.family, "next").await;
    lived(w, w.ada, shown, written).await;
}

/// They mean nothing, whatever they mean to a search engine.
pub async fn a_strange_query_finds_words_or_nothing(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "one").await;
    lived(&w, w.ada, "near the column text", "fine").await;
    found(&w, w.ada, query("near column"), 1).await;
    let nothing = ["", " ", "\0", "*", "\"", "\"\"\"", "()", "^", "-", "\u{202e}\u{feff}", "🦀", "''; --"];
    for text in nothing {
        found(&w, w.ada, query(text), 0).await;
    }
    let something = [
        "\"near",
        "NEAR(column text, 5)",
        "text:column",
        "column*",
        "{column text} : near",
        "near AND",
        "NOT near",
        "near\0column",
        "near' OR 1=1 --",
        "+near ^column",
        "near\u{7}\u{1b}[31m",
    ];
    for text in something {
        let found = w.b.lookup.recall(w.ada, query(text)).await.unwrap();
        assert_eq!(found.excerpts.first().map(|best| best.kind), Some(RecallKind::Inbox), "{text}");
    }
    let long =
        ["near ".repeat(200_000), "x".repeat(1_000_000), "\" OR \"".repeat(170_000), "ا".repeat(500_000)];
    for text in long {
        w.b.lookup.recall(w.ada, query(&text)).await.unwrap();
    }
    let every_word = (0..5_000).map(|n| format!("w{n} ")).collect::<String>();
    w.b.lookup.recall(w.ada, RecallQuery { limit: u32::MAX, ..query(&every_word) }).await.unwrap();
    w.b.lookup.recall(w.ada, RecallQuery { limit: 0, ..query("near") }).await.unwrap();
}

/// The best is first, and words that stand everywhere are not ranked.
pub async fn the_rarest_words_decide_what_is_found_first(b: Backend) {
    let w = world(b).await;
    let count = limits::RECALL_COMMON_MIN + 20;
    for n in 0..count / 2 {
        let status = |state: &str| format!("the status of the order {n} is {state}");
        lived_after_a_message(&w, &status("asked"), &status("open")).await;
    }
    lived_after_a_message(&w, "the status of the order of a velvet chair", "ok").await;
    let best = found(&w, w.ada, query("status of the velvet order"), 1).await;
    assert!(best[0].text.contains("velvet"));
    let common = w.b.lookup.recall(w.ada, RecallQuery { limit: 50, ..query("order") }).await.unwrap();
    assert_eq!(common.excerpts.len(), 50);
    assert!(common.excerpts[0].text.contains("order"));
    // A word that is nowhere, such as a typing error, does not hide what the others find.
    let beside = RecallQuery { limit: 50, ..query("order unknownword") };
    assert_eq!(w.b.lookup.recall(w.ada, beside).await.unwrap().excerpts.len(), 50);
}

/// Those that say something else come first.
pub async fn texts_that_say_almost_the_same_do_not_hide_another_one(b: Backend) {
    let w = world(b).await;
    let told =
        "many words of many other things, as people write them, and the gate of Marlow has the number seven";
    w.post(w.family, "one").await;
    lived(&w, w.ada, told, "noted").await;
    for who in ["Fennel", "Birk", "Juniper", "Wexford"] {
        let asked = format!("a question for you: which number has the gate of {who} in the end");
        lived_after_a_message(&w, &asked, "unknown").await;
    }
    let which = "which number has the gate of Marlow";
    let all = found(&w, w.ada, query(which), 5).await;
    assert!(all[..2].iter().any(|excerpt| excerpt.text == told), "{all:?}");
    assert!(all[2..].iter().all(|excerpt| excerpt.text.starts_with("a question")), "{all:?}");
    found(&w, w.ada, RecallQuery { limit: 2, ..query(which) }, 2).await;
}

/// Also right after a crash, and what was committed just before it.
pub async fn the_archive_is_found_after_a_crash(b: Backend) {
    let w = world(b).await;
    w.post(w.family, "one").await;
    lived(&w, w.ada, "the boiler leaks", "ok").await;
    found(&w, w.ada, query("boiler"), 1).await;
    lived_after_a_message(&w, "the roof leaks", "ok").await;
    let w = World { b: w.b.crashed(), ..w };
    found(&w, w.ada, query("roof"), 1).await;
    found(&w, w.ada, query("leaks"), 2).await;
    let w = World { b: w.b.reopened().await, ..w };
    found(&w, w.ada, query("leaks"), 2).await;
}
