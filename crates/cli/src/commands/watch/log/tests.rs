//! Feeds updates to a log and checks the rows.

use agent::entity::EntityKind;
use agent::id::{CycleId, EventId, MessageId};
use agent::run::Usage;
use agent::space::{Message, MessageKind, PostedMessage};
use serde_json::json;

use super::*;

const ADA: u128 = 2;
const HOME: u128 = 9;

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn ada() -> AgentId {
    AgentId(uuid(ADA))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn screen(width: Option<usize>, utf8: bool) -> Screen {
    Screen::plain(width, utf8)
}

fn log(width: Option<usize>, style: LogStyle) -> Log {
    let screen = screen(width, true);
    let mut log = Log::new(screen, TimeZone::UTC, style);
    log.names.add(&screen, uuid(1), "husam");
    log.names.add(&screen, uuid(ADA), "ada");
    log.names.add(&screen, uuid(HOME), "home");
    log
}

fn message(n: u128, sender: u128, text: &str) -> Update {
    let cycle = (sender == ADA).then(|| uuid(5));
    let message = json!({
        "id": uuid(n), "space": uuid(HOME), "seq": n, "rev": n, "sender": uuid(sender), "kind": "text",
        "text": text, "mentions": [], "urgent": false, "at": at(0), "cycle": cycle, "call": null,
        "data": null, "root": "r", "hop": 0,
    });
    let message: Message = serde_json::from_value(message).unwrap();
    assert_eq!(message.kind, MessageKind::Text);
    let (sender_name, sender_kind) =
        if sender == ADA { ("Ada", EntityKind::Agent) } else { ("Husam", EntityKind::Human) };
    Update::Message { message: PostedMessage::new(message, sender_name, sender_kind) }
}

fn draft(n: u128, delta: &str, chars: u64) -> Update {
    let (space, message) = (SpaceId(uuid(HOME)), MessageId(uuid(n)));
    Update::Draft { space, message, agent: ada(), delta: delta.to_owned(), chars }
}

fn state(state: AgentState, cycle: Option<u128>, reason: Option<&str>) -> Update {
    let cycle = cycle.map(|n| CycleId(uuid(n)));
    Update::State { agent: ada(), state, cycle, reason: reason.map(str::to_owned), idle: None }
}

fn started(call: &str, tool: &str, arguments: &str) -> Update {
    let (call, tool, arguments) = (CallId(call.into()), tool.to_owned(), arguments.to_owned());
    Update::ToolStarted { agent: ada(), cycle: CycleId(uuid(5)), call, tool, arguments }
}

fn done(call: &str, tool: &str, status: OutcomeStatus, ms: u64) -> Update {
    let (agent, cycle) = (ada(), CycleId(uuid(5)));
    let (call, tool, ms) = (CallId(call.into()), tool.to_owned(), Some(ms));
    match status {
        OutcomeStatus::Error => Update::ToolError { agent, cycle, call, tool, reason: None, ms },
        _ => Update::ToolDone { agent, cycle, call, tool, status, ms },
    }
}

fn ended(ending: Ending, reason: Option<&str>) -> Update {
    let usage = Usage { input: Some(12_345), cached: Some(900), output: None, reasoning: None };
    let spent = Some(Spent { steps: 2, ms: 1_849, usage, cost_micros: None });
    Update::CycleEnded {
        agent: ada(),
        cycle: CycleId(uuid(5)),
        ending,
        reason: reason.map(str::to_owned),
        spent,
    }
}

fn story() -> Vec<Update> {
    vec![
        message(1, 1, "remember that I like tea"),
        state(AgentState::Thinking, Some(5), None),
        started("a", "set_memories", r#"{"memories":[{"key":"tea","value":"husam likes tea very much"}]}"#),
        done("a", "set_memories", OutcomeStatus::Ok, 3),
        started("b", "send_message", r#"{"text":"I noted"}"#),
        done("b", "send_message", OutcomeStatus::Ok, 0),
        state(AgentState::Processing, Some(5), None),
        message(2, ADA, "I noted that you like tea.\nGreen or black?"),
        state(AgentState::Sleeping, None, None),
        ended(Ending::Completed, None),
        state(AgentState::Thinking, Some(6), Some("asks the model again: overloaded")),
        state(AgentState::Sleeping, None, Some("provider")),
    ]
}

fn rendered(mut log: Log, updates: &[Update]) -> String {
    for (i, update) in updates.iter().enumerate() {
        log.update(at(i64::try_from(i).unwrap()), update);
    }
    log.take_rows().join("\n")
}

#[test]
fn the_updates_of_a_cycle_are_readable_rows() {
    for (name, width) in [("80", Some(80)), ("120", Some(120)), ("40", Some(40)), ("piped", None)] {
        insta::assert_snapshot!(format!("story_{name}"), rendered(log(width, LogStyle::Full), &story()));
    }
    insta::assert_snapshot!("story_brief", rendered(log(Some(80), LogStyle::Brief), &story()));
}

#[test]
fn a_draft_never_exceeds_the_width() {
    for text in ["a long line of plain words", "漢字漢字漢字漢字漢字漢字", "👩‍👩‍👧 ❤️ ❤️ ❤️ ❤️ ❤️ ❤️ ❤️"]
    {
        for width in 8..60 {
            let mut log = log(Some(width + 1), LogStyle::Full);
            for n in [7, 8, 9] {
                log.update(at(0), &draft(n, text, text.chars().count() as u64));
                let row = log.live(at(1), 1).remove(0);
                assert!(columns(&row) <= width, "{width} columns, got {}: {row}", columns(&row));
                let newest = text.chars().last().unwrap();
                assert!(row.ends_with(newest), "{width}: the newest words are missing in {row}");
            }
        }
    }
}

#[test]
fn without_utf8_the_output_is_ascii() {
    let mut log = log(Some(80), LogStyle::Full);
    log.screen.utf8 = false;
    let rows = rendered(log, &[message(1, 1, "straße")]);
    assert_eq!(rows, "13:46:40 husam > home: strasse");
}

#[test]
fn a_draft_is_the_last_row_and_only_its_message_stays() {
    let mut log = log(Some(40), LogStyle::Full);
    log.update(at(0), &draft(3, "I think ", 8));
    log.update(at(0), &draft(3, "that tea is good for everybody", 38));
    assert_eq!(log.take_rows(), [""; 0]);
    let row = log.live(at(1), 1).remove(0);
    assert_eq!(row, "13:46:41 ada → home: ...d for everybody");
    assert_eq!(columns(&row), 39);
    log.update(at(1), &message(3, ADA, "I think so"));
    assert_eq!(log.take_rows(), ["13:46:41 ada → home: I think so"]);
    assert!(log.live(at(1), 1).is_empty());
    log.update(at(2), &draft(3, "late", 12));
    log.update(at(2), &draft(4, "void", 4));
    let (space, message) = (SpaceId(uuid(HOME)), MessageId(uuid(4)));
    log.update(at(2), &Update::DraftReset { space, message, agent: ada() });
    assert_eq!(log.take_rows(), ["13:46:42 ada discarded its draft"]);
}

#[test]
fn a_call_is_one_row_with_its_arguments() {
    let mut log = log(Some(80), LogStyle::Full);
    log.update(at(0), &started("a", "look", r#"{"at": "it"}"#));
    assert_eq!(log.take_rows(), [""; 0]);
    log.update(at(3), &done("a", "look", OutcomeStatus::Error, 3_000));
    assert_eq!(log.take_rows(), ["13:46:43 ada look: failed, 3.00 s {\"at\": \"it\"}"]);
}

#[test]
fn a_skipped_cycle_is_one_short_row() {
    let reason = Some("agents talking among themselves");
    let updates = [
        state(AgentState::Thinking, Some(5), None),
        started("a", "skip", "{}"),
        done("a", "skip", OutcomeStatus::Ok, 0),
        state(AgentState::Sleeping, None, None),
        ended(Ending::Skipped, reason),
    ];
    for style in [LogStyle::Full, LogStyle::Brief] {
        let wanted = "13:46:44 ada skipped (agents talking among themselves)";
        assert_eq!(rendered(log(Some(80), style), &updates), wanted);
    }
    let failed = [state(AgentState::Thinking, Some(5), None), ended(Ending::Failed, Some("no key"))];
    assert!(rendered(log(Some(120), LogStyle::Full), &failed).contains("ada failed: 2 steps"));
}

#[test]
fn items_read_twice_are_shown_once() {
    let mut log = log(None, LogStyle::Full);
    let (message, ended) = (message(1, 1, "once"), ended(Ending::Completed, None));
    assert!(!log.shown_before(&message) && !log.shown_before(&ended));
    assert!(log.shown_before(&message) && log.shown_before(&ended));
    let thinking = state(AgentState::Thinking, Some(5), None);
    assert!(!log.shown_before(&thinking) && !log.shown_before(&thinking));
}

#[test]
fn foreign_text_cannot_control_the_terminal() {
    let evil = "a\x1b[2J\u{9b}31m";
    let updates = [
        message(1, 1, evil),
        started("a", evil, evil),
        done("a", evil, OutcomeStatus::Error, 1),
        state(AgentState::Sleeping, None, Some(evil)),
        ended(Ending::Failed, Some(evil)),
    ];
    let rows = rendered(log(Some(120), LogStyle::Full), &updates);
    assert!(!rows.contains('\x1b') && !rows.contains('\u{9b}'), "{rows:?}");
}

#[test]
fn thoughts_are_shown_in_full_when_they_end() {
    let mut log = log(Some(80), LogStyle::Full);
    let thought = |delta: &str, reasoning| Update::Thought {
        agent: ada(),
        cycle: CycleId(uuid(5)),
        step: 0,
        reasoning,
        delta: delta.to_owned(),
    };
    log.update(at(0), &thought("tea ", true));
    log.update(at(0), &thought("matters", true));
    log.update(at(1), &thought("so I say so", false));
    log.update(at(2), &ended(Ending::Skipped, None));
    assert_eq!(
        log.take_rows(),
        ["13:46:41 ada reasons: tea matters", "13:46:42 ada notes: so I say so", "13:46:42 ada skipped",]
    );
}

/// A conversation as `chat` shows it.
fn chat(width: usize) -> Log {
    let mut log = log(Some(width + 1), LogStyle::Chat);
    log.names.add(&screen(None, true), uuid(3), "bob");
    log
}

fn piece_of_bob(n: u128, text: &str) -> Update {
    let (space, message, agent) = (SpaceId(uuid(HOME)), MessageId(uuid(n)), AgentId(uuid(3)));
    Update::Draft { space, message, agent, delta: text.to_owned(), chars: text.chars().count() as u64 }
}

#[test]
fn a_chat_shows_messages_and_in_parentheses_what_else_a_person_has_to_know() {
    let mut story = story();
    story.extend([
        started("c", "read_messages", "{}"),
        done("c", "read_messages", OutcomeStatus::Error, 3),
        ended(Ending::Skipped, None),
        ended(Ending::Canceled, None),
        ended(Ending::Failed, Some("no key")),
    ]);
    let rows = rendered(chat(80), &story);
    let wanted = [
        "husam: remember that I like tea",
        "(ada set_memories: ok, 3 ms {\"memories\":[{\"key\":\"tea\",\"value\":\"husam likes tea",
        "  very m...)",
        "ada: I noted that you like tea.",
        "  Green or black?",
        "(ada asks the model again: overloaded)",
        "(ada sleeps: provider)",
        "(ada read_messages: failed, 3 ms)",
        "(ada skipped it)",
        "(ada stopped: canceled)",
        "(ada failed (no key))",
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn a_message_takes_the_place_of_its_draft() {
    let mut log = chat(40);
    log.update(at(0), &draft(3, "I think ", 8));
    log.update(at(0), &message(4, 1, "and?"));
    assert_eq!(log.take_rows(), ["husam: and?"]);
    log.update(at(0), &draft(3, "that tea", 16));
    assert_eq!(log.live(at(1), 10), ["ada: I think that tea"]);
    log.update(at(1), &message(3, ADA, "I think that tea is good"));
    assert_eq!(log.take_rows(), ["ada: I think that tea is good"]);
    assert!(log.live(at(1), 10).is_empty());
}

#[test]
fn agents_that_write_at_once_have_rows_of_their_own() {
    let mut log = chat(39);
    let long = "words that go on and on until the last row is full, and then some";
    log.update(at(0), &state(AgentState::Thinking, Some(5), None));
    log.update(at(0), &draft(5, long, long.chars().count() as u64));
    log.update(at(0), &piece_of_bob(6, "two"));
    let status = "(ada is thinking; Ctrl-C cancels)";
    let all = ["ada: words that go on and on until the", "  last row is full, and then some", "bob: two"];
    assert_eq!(log.live(at(1), 20), [&all[..], &[status]].concat());
    let newest = "ada: last row is full, and then some";
    assert_eq!(log.live(at(1), 3), [newest, "bob: two", status], "the newest words");
    assert_eq!(log.live(at(1), 2), [newest, status]);
    log.update(at(2), &message(6, 3, "two"));
    assert_eq!(log.live(at(2), 3).len(), 3, "ada's rows are still there");
}

#[test]
fn what_agents_do_is_one_row_and_a_lost_connection_ends_it() {
    let mut log = chat(80);
    log.update(at(0), &state(AgentState::Thinking, Some(5), None));
    assert_eq!(log.live(at(0), 9), ["(ada is thinking; Ctrl-C cancels)"]);
    log.update(at(0), &started("a", "look", "{}"));
    assert_eq!(log.live(at(0), 9), ["(ada uses look; Ctrl-C cancels)"]);
    log.lost();
    assert!(log.live(at(0), 9).is_empty());
}

#[test]
fn no_row_is_wider_than_a_narrow_terminal() {
    for style in [LogStyle::Full, LogStyle::Brief, LogStyle::Chat] {
        let mut log = log(Some(20), style);
        log.names.add(&screen(None, true), uuid(ADA), "a-handle-longer-than-the-whole-row");
        let mut updates = story();
        updates.push(message(7, 1, "漢字漢字漢字漢字漢字漢字"));
        updates.iter().for_each(|update| log.update(at(0), update));
        log.note(at(0), "connection lost; reconnecting, Ctrl-C quits");
        log.update(at(0), &state(AgentState::Thinking, Some(9), None));
        log.update(at(0), &draft(9, "Somethingthatislongerthanarow", 29));
        let mut rows = log.take_rows();
        rows.extend(log.live(at(0), 4));
        let wide: Vec<&String> = rows.iter().filter(|row| columns(row) > 20).collect();
        assert!(wide.is_empty() && rows.len() > 5, "{style:?}: {wide:#?}");
    }
}

#[test]
fn a_dead_event_has_its_reason_and_the_command_before_its_id() {
    let id = "0192d3e4-0000-7000-8000-00000000dead";
    let dead = Update::EventProgress {
        agent: ada(),
        event: EventId(id.to_owned()),
        progress: EventProgress::Dead,
        cycle: None,
        step: None,
        reason: Some("invalid request".to_owned()),
    };
    let row = rendered(log(Some(80), LogStyle::Brief), std::slice::from_ref(&dead));
    assert!(row.contains("ada has a dead event, see `viv ps`: invalid request"), "{row}");
    let rows = rendered(log(None, LogStyle::Full), &[dead]);
    assert!(rows.ends_with(&format!("invalid request (event {id})")), "{rows}");
}

#[test]
fn a_chat_says_that_a_cycle_ended_without_a_message() {
    let begun = || state(AgentState::Thinking, Some(5), None);
    let end = || ended(Ending::Completed, None);
    let of = |updates: &[Update]| rendered(chat(80), updates);
    assert_eq!(of(&[begun(), end()]), "(ada ended without a message)");
    // It posted something, also if it waited in between.
    assert_eq!(of(&[begun(), message(2, ADA, "yes"), end()]), "ada: yes");
    let waited = [begun(), message(2, ADA, "yes"), state(AgentState::Sleeping, None, None), begun(), end()];
    assert_eq!(of(&waited), "ada: yes");
    // Not seen from its beginning, or not without a gap.
    assert_eq!(of(&[end()]), "");
    let mut log = chat(80);
    log.update(at(0), &begun());
    log.missed();
    assert_eq!(rendered(log, &[end()]), "");
    // Elsewhere the end is shown anyway.
    assert!(rendered(self::log(Some(80), LogStyle::Full), &[begun(), end()]).contains("completed"));
    let mut log = chat(80);
    log.names.add_handle(&screen(None, true), uuid(ADA), "ada-of-home");
    log.update(at(0), &begun());
    log.wrote(log.ends_silently(&end()).unwrap());
    let words = "(ada wrote text that was not sent: `viv runs show ada-of-home`)";
    assert_eq!(rendered(log, &[end()]), words);
}
