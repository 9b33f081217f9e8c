//! Promises about lists: filters, and pages that are bounded in bytes and in the rows that they look at.

use agent::event::{EventKind, EventState};
use agent::life::Standing;
use agent::limits;
use agent::port::{InboxFilter, KnownRequest, MessageFilter, PageRequest, RequestKey, RunFilter};
use agent::run::Ending;
use agent::space::{Message, MessageKind, NewMessage};

use super::Backend;
use super::world::{at, everything, fresh, message_from, service, world};

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.text.as_str()).collect()
}

/// Each filter alone and together with a position.
pub async fn lists_return_only_what_their_filters_want(b: Backend) {
    let w = world(b).await;
    for (ms, text) in [(10, "one"), (20, "two"), (30, "three")] {
        let message = NewMessage { at: at(ms), ..message_from(w.husam, w.family, text) };
        w.accept(message).await;
    }
    w.event(w.ada, service("ring")).await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.inward.messages = vec![driver.message(0, w.family, "hello")];
    decision.calls = vec![driver.call(0)];
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;

    let messages = async |filter| w.b.reader.messages(w.family, filter, 10).await.unwrap();
    let all = MessageFilter::default();
    let by_person = messages(MessageFilter { sender: Some(w.husam), ..all.clone() }).await;
    assert_eq!((texts(&by_person.items), by_person.next), (vec!["one", "two", "three"], None));
    let since = messages(MessageFilter { sender: Some(w.husam), since: Some(at(20)), ..all.clone() }).await;
    assert_eq!(texts(&since.items), ["two", "three"]);
    let after = messages(MessageFilter { sender: Some(w.ada.entity()), after: Some(1), ..all.clone() }).await;
    assert_eq!(texts(&after.items), ["hello"]);
    assert_eq!(messages(MessageFilter { kind: Some(MessageKind::Tool), ..all.clone() }).await.items, []);
    assert_eq!(messages(MessageFilter { kind: Some(MessageKind::Text), ..all }).await.items.len(), 4);

    let inbox = async |filter| w.b.reader.inbox(w.ada, filter, everything()).await.unwrap().items;
    let kind = InboxFilter { kind: Some(EventKind::Service), ..InboxFilter::default() };
    assert_eq!(inbox(kind.clone()).await.len(), 1);
    let processed = inbox(InboxFilter { state: Some("processed".into()), ..kind.clone() }).await;
    assert!(
        matches!(&*processed, [row] if matches!(row.state, EventState::Processed { .. })),
        "{processed:?}"
    );
    assert_eq!(inbox(InboxFilter { state: Some("dead".into()), ..kind }).await, []);
    let late =
        InboxFilter { since: Some(at(30)), kind: Some(EventKind::SpaceMessage), ..InboxFilter::default() };
    assert_eq!(inbox(late).await.iter().map(|row| row.preview.as_str()).collect::<Vec<_>>(), ["three"]);

    let runs = async |filter| w.b.reader.runs(w.ada, filter, everything()).await.unwrap().items.len();
    assert_eq!(runs(RunFilter::default()).await, 1);
    assert_eq!(runs(RunFilter { ending: Some(Ending::Completed), ..RunFilter::default() }).await, 1);
    assert_eq!(runs(RunFilter { ending: Some(Ending::Failed), ..RunFilter::default() }).await, 0);
    assert_eq!(runs(RunFilter { since: Some(at(1_000_000)), ..RunFilter::default() }).await, 0);

    w.b.registry.set_standing(w.bob, Standing::Suspended, at(50)).await.unwrap();
    let agents = async |standing| {
        let found = w.b.reader.agents(Some(standing), everything()).await.unwrap().items;
        found.iter().map(|card| card.id).collect::<Vec<_>>()
    };
    assert_eq!(agents(Standing::Active).await, [w.ada]);
    assert_eq!(agents(Standing::Suspended).await, [w.bob]);
    assert_eq!(agents(Standing::Retired).await, []);

    w.b.registry.set_space_closed(w.team, true).await.unwrap();
    let spaces = async |closed| {
        let found = w.b.reader.spaces(Some(w.husam), Some(closed), everything()).await.unwrap().items;
        found.iter().map(|space| space.id).collect::<Vec<_>>()
    };
    assert_eq!((spaces(true).await, spaces(false).await), (vec![w.team], vec![w.family]));
}

/// The pages of a list with large rows end early, and together they have every row once.
pub async fn a_page_ends_before_it_has_too_many_bytes(b: Backend) {
    let w = world(b).await;
    let text = "x".repeat(limits::MESSAGE_MAX_BYTES);
    let many = 2 * limits::PAGE_MAX_BYTES / limits::MESSAGE_MAX_BYTES;
    for _ in 0..many {
        w.post(w.family, &text).await;
    }
    let (mut seqs, mut after, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = w.b.reader.messages(w.family, MessageFilter::after(after), 200).await.unwrap();
        let bytes: usize = page.items.iter().map(|message| message.text.len()).sum();
        assert!(bytes <= limits::PAGE_MAX_BYTES && !page.items.is_empty());
        seqs.extend(page.items.iter().map(|message| message.seq));
        pages += 1;
        match page.next {
            Some(next) => after = next.parse().unwrap(),
            None => break,
        }
    }
    assert!(pages >= 2);
    assert_eq!(seqs, (1..=many as u64).collect::<Vec<_>>());
    let newest = w.b.reader.messages(w.family, MessageFilter::default(), 200).await.unwrap();
    assert_eq!(newest.items.last().unwrap().seq, many as u64);
    assert_eq!(newest.next, Some(newest.items[0].seq.to_string()));
    let recent = w.b.reader.recent(None, None, 200).await.unwrap();
    assert!((1..many).contains(&recent.len()), "{}", recent.len());
    let missed = w.b.reader.messages_since_rev(w.family, 0, 50, 1).await.unwrap();
    assert_eq!(missed.items.len(), 1, "one row is returned, whatever its size");
    assert_eq!(missed.next, Some(missed.items[0].rev.to_string()));
}

/// The last page has no `next`, even if it is full.
pub async fn a_last_page_that_is_exactly_full_names_no_next_one(b: Backend) {
    let w = world(b).await;
    for n in 0..4 {
        w.post(w.family, &format!("{n}")).await;
    }
    let newest = w.b.reader.messages(w.family, MessageFilter::default(), 2).await.unwrap();
    assert_eq!((texts(&newest.items), newest.next.as_deref()), (vec!["2", "3"], Some("3")));
    let older = MessageFilter { before: Some(3), ..MessageFilter::default() };
    let older = w.b.reader.messages(w.family, older, 2).await.unwrap();
    assert_eq!((texts(&older.items), older.next), (vec!["0", "1"], None));
    let from = w.b.reader.messages(w.family, MessageFilter::after(2), 2).await.unwrap();
    assert_eq!((texts(&from.items), from.next), (vec!["2", "3"], None));
    let page = PageRequest { cursor: None, limit: 4 };
    assert_eq!(w.b.reader.inbox(w.ada, InboxFilter::default(), page).await.unwrap().next, None);
}

/// A message that was composed earlier, or by a clock that was set back, gets the time of the one before it.
pub async fn times_of_messages_never_decrease_within_a_space(b: Backend) {
    let w = world(b).await;
    for (ms, text) in [(500, "first"), (100, "second"), (700, "third")] {
        w.accept(NewMessage { at: at(ms), ..message_from(w.husam, w.family, text) }).await;
    }
    let read = w.b.reader.messages(w.family, MessageFilter::default(), 10).await.unwrap().items;
    assert_eq!(texts(&read), ["first", "second", "third"]);
    assert_eq!(read.iter().map(|message| message.at).collect::<Vec<_>>(), [at(500), at(500), at(700)]);
}

/// The first subject stays; keys of another principal are its own.
pub async fn a_request_is_noted_once_with_its_subject(b: Backend) {
    let w = world(b).await;
    let key = |principal: &str, body: &str| RequestKey {
        principal: principal.into(),
        key: "k-1".into(),
        body_hash: body.into(),
        at: at(0),
    };
    let (first, other) = (fresh(), fresh());
    let registry = &w.b.registry;
    assert_eq!(registry.known_request(key("admin", "a")).await.unwrap(), KnownRequest::New);
    assert_eq!(registry.note_request(key("admin", "a"), first).await.unwrap(), KnownRequest::New);
    let repeated = KnownRequest::Repeated(first);
    assert_eq!(registry.known_request(key("admin", "a")).await.unwrap(), repeated);
    assert_eq!(registry.note_request(key("admin", "a"), other).await.unwrap(), repeated);
    assert_eq!(registry.note_request(key("admin", "b"), other).await.unwrap(), KnownRequest::Conflict);
    assert_eq!(registry.note_request(key("husam", "b"), other).await.unwrap(), KnownRequest::New);
    let (reserved, nobody) = (KnownRequest::Repeated(uuid::Uuid::nil()), uuid::Uuid::nil());
    assert_eq!(registry.note_request(key("nur", "a"), nobody).await.unwrap(), KnownRequest::New);
    assert_eq!(registry.note_request(key("nur", "b"), other).await.unwrap(), KnownRequest::Conflict);
    assert_eq!(registry.note_request(key("nur", "a"), first).await.unwrap(), reserved);
    assert_eq!(registry.note_request(key("nur", "a"), nobody).await.unwrap(), repeated);
    let answer = KnownRequest::Answered("[1]".to_owned());
    registry.answer_request(key("nur", "b"), "[2]".to_owned()).await.unwrap();
    assert_eq!(registry.known_request(key("nur", "a")).await.unwrap(), repeated, "that was another request");
    registry.answer_request(key("nur", "a"), "[1]".to_owned()).await.unwrap();
    assert_eq!(registry.known_request(key("nur", "a")).await.unwrap(), answer);
    assert_eq!(registry.note_request(key("nur", "a"), other).await.unwrap(), answer);
    assert_eq!(registry.note_request(key("nur", "b"), other).await.unwrap(), KnownRequest::Conflict);
}

/// A key is kept for its time, and is then new again. What is too old is forgotten, a few keys with each new one.
pub async fn a_request_is_forgotten_after_its_time(b: Backend) {
    let w = world(b).await;
    let kept = i64::try_from(limits::REQUEST_KEY_MS).unwrap();
    let key = |n: i64, body: &str, ms: i64| RequestKey {
        principal: "admin".into(),
        key: format!("k-{n}"),
        body_hash: body.into(),
        at: at(ms),
    };
    let registry = &w.b.registry;
    let (first, other) = (fresh(), fresh());
    let many = i64::from(limits::REQUEST_KEYS_FORGOTTEN) + 2;
    for n in 0..many {
        assert_eq!(registry.note_request(key(n, "a", n), first).await.unwrap(), KnownRequest::New);
    }
    let last = registry.known_request(key(0, "a", kept)).await.unwrap();
    assert_eq!(last, KnownRequest::Repeated(first), "it is kept for the whole time");
    assert_eq!(registry.known_request(key(0, "b", kept + 1)).await.unwrap(), KnownRequest::New);
    assert_eq!(registry.note_request(key(0, "b", kept + 1), other).await.unwrap(), KnownRequest::New);
    let again = registry.known_request(key(0, "b", kept + 1)).await.unwrap();
    assert_eq!(again, KnownRequest::Repeated(other), "a key that is too old can be used anew");
    // Read as of an earlier time, to see what is there.
    assert_eq!(registry.note_request(key(-1, "a", 2 * kept), first).await.unwrap(), KnownRequest::New);
    let mut left = 0;
    for n in 1..many {
        let known = registry.known_request(key(n, "a", kept)).await.unwrap();
        left += usize::from(known != KnownRequest::New);
    }
    assert_eq!(left, 1, "a few at once");
}
