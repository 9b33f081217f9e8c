//! Feeds updates to a log and checks the rows.

use agent::entity::EntityKind;
use agent::id::EntityId;
use agent::run::Usage;
use agent::space::{Message, MessageKind, PostedMessage};
use serde_json::json;
use uuid::Uuid;

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

fn log(width: Option<usize>, brief: bool) -> Log {
    let screen = screen(width, true);
    let mut log = Log::new(screen, TimeZone::UTC, brief);
    log.names.entity(&screen, EntityId(uuid(1)), "husam");
    log.names.entity(&screen, EntityId(uuid(ADA)), "ada");
    log.names.space(&screen, SpaceId(uuid(HOME)), "home");
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
    Update::Message { message: PostedMessage { message, sender_name: sender_name.to_owned(), sender_kind } }
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
        insta::assert_snapshot!(format!("story_{name}"), rendered(log(width, false), &story()));
    }
    insta::assert_snapshot!("story_brief", rendered(log(Some(80), true), &story()));
}

#[test]
fn a_draft_never_exceeds_the_width() {
    for text in ["a long line of plain words", "漢字漢字漢字漢字漢字漢字", "👩‍👩‍👧 ❤️ ❤️ ❤️ ❤️ ❤️ ❤️ ❤️"]
    {
        for width in 8..60 {
            let mut log = log(Some(width), false);
            for n in [7, 8, 9] {
                log.update(at(0), &draft(n, text, text.chars().count() as u64));
                let row = log.unfinished(at(1), width).unwrap();
                assert!(columns(&row) <= width, "{width} columns, got {}: {row}", columns(&row));
                assert!(
                    row.ends_with(text.chars().last().unwrap()) || row.ends_with(" writing)"),
                    "{width}: the newest words are missing in {row}"
                );
            }
        }
    }
}

#[test]
fn without_utf8_the_output_is_ascii() {
    let mut log = log(Some(80), false);
    log.screen.utf8 = false;
    let rows = rendered(log, &[message(1, 1, "straße")]);
    assert_eq!(rows, "13:46:40 husam > home: strasse");
}

#[test]
fn a_draft_is_the_last_row_and_only_its_message_stays() {
    let mut log = log(Some(40), false);
    log.update(at(0), &draft(3, "I think ", 8));
    log.update(at(0), &draft(3, "that tea is good for everybody", 38));
    assert_eq!(log.take_rows(), [""; 0]);
    let row = log.unfinished(at(1), 39).unwrap();
    assert_eq!(row, "13:46:41 ada → home: ...d for everybody");
    assert_eq!(columns(&row), 39);
    log.update(at(1), &message(3, ADA, "I think so"));
    assert_eq!(log.take_rows(), ["13:46:41 ada → home: I think so"]);
    assert_eq!(log.unfinished(at(1), 39), None);
    log.update(at(2), &draft(3, "late", 12));
    log.update(at(2), &draft(4, "void", 4));
    let (space, message) = (SpaceId(uuid(HOME)), MessageId(uuid(4)));
    log.update(at(2), &Update::DraftReset { space, message, agent: ada() });
    assert_eq!(log.take_rows(), ["13:46:42 ada discarded its draft"]);
}

#[test]
fn a_long_call_is_shown_when_it_starts() {
    let mut log = log(Some(80), false);
    log.update(at(0), &started("a", "look", r#"{"at": "it"}"#));
    log.tick(at(0));
    assert_eq!(log.take_rows(), [""; 0]);
    log.tick(at(1));
    log.tick(at(2));
    log.update(at(3), &done("a", "look", OutcomeStatus::Error, 3_000));
    assert_eq!(
        log.take_rows(),
        ["13:46:40 ada look ... {\"at\": \"it\"}", "13:46:43 ada look: failed, 3.0 s"]
    );
}

#[test]
fn a_cycle_without_visible_actions_is_one_short_row() {
    let reason = Some("agents talking among themselves");
    let updates = [
        state(AgentState::Thinking, Some(5), None),
        started("a", "skip", "{}"),
        done("a", "skip", OutcomeStatus::Ok, 0),
        state(AgentState::Sleeping, None, None),
        ended(Ending::Skipped, reason),
    ];
    for brief in [false, true] {
        assert_eq!(
            rendered(log(Some(80), brief), &updates),
            "13:46:44 ada skipped (agents talking among themselves)"
        );
    }
    let completed = [state(AgentState::Thinking, Some(5), None), ended(Ending::Completed, None)];
    assert_eq!(rendered(log(Some(80), false), &completed), "13:46:41 ada completed");
    // A failure is shown in full.
    let failed = [state(AgentState::Thinking, Some(5), None), ended(Ending::Failed, Some("no key"))];
    assert!(rendered(log(Some(120), false), &failed).contains("ada failed: 2 steps"));
    // The message may arrive on another stream, after the end.
    let posted = [
        state(AgentState::Thinking, Some(5), None),
        started("a", "send_message", "{}"),
        ended(Ending::Completed, None),
    ];
    let rows = rendered(log(Some(80), false), &posted);
    assert!(rows.starts_with("13:46:40 ada thinking\n") && rows.contains("ada completed: 2 steps"), "{rows}");
}

#[test]
fn the_ending_of_a_cycle_with_an_old_message_is_shown_in_full() {
    let mut log = log(Some(80), true);
    assert!(!log.shown_before(&message(3, ADA, "an old word")));
    log.update(at(0), &ended(Ending::Completed, None));
    assert_eq!(log.take_rows(), ["13:46:40 ada completed: 2 steps, 1.8 s, 12k in (900 cached), ? out"]);
}

#[test]
fn items_read_twice_are_shown_once() {
    let mut log = log(None, false);
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
    let rows = rendered(log(Some(120), false), &updates);
    assert!(!rows.contains('\x1b') && !rows.contains('\u{9b}'), "{rows:?}");
}

#[test]
fn thoughts_are_shown_in_full_when_they_end() {
    let mut log = log(Some(80), false);
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
        [
            "13:46:41 ada reasons: tea matters",
            "13:46:42 ada notes: so I say so",
            "13:46:42 ada skipped: 2 steps, 1.8 s, 12k in (900 cached), ? out",
        ]
    );
}
