//! Every order of updates reads well.

use super::*;
use agent::entity::EntityKind;
use agent::id::{CallId, RootId, SpaceId};
use agent::space::Spoken;
use uuid::Uuid;

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

const ADA: u128 = 2;

fn talk() -> Talk {
    let screen = Screen::plain(Some(40), true);
    let mut talk = Talk::new(screen, 39, Some(EntityId(uuid(1))), TimeZone::UTC);
    talk.name(EntityId(uuid(1)), "you");
    talk.name(EntityId(uuid(ADA)), "ada");
    talk.name(EntityId(uuid(3)), "bob");
    talk
}

fn said(seq: u64, id: u128, sender: u128, text: &str) -> Update {
    let message = Message {
        id: MessageId(uuid(id)),
        space: SpaceId(uuid(9)),
        seq,
        rev: seq,
        sender: EntityId(uuid(sender)),
        kind: MessageKind::Text,
        text: text.into(),
        mentions: Vec::new(),
        urgent: false,
        at: jiff::Timestamp::UNIX_EPOCH,
        cycle: None,
        call: None,
        data: None,
        root: RootId("r".into()),
        hop: 0,
    };
    let sender_kind = if sender == 1 { EntityKind::Human } else { EntityKind::Agent };
    Update::Message { message: Spoken { message, sender_name: "somebody".to_owned(), sender_kind } }
}

fn piece(id: u128, agent: u128, delta: &str, chars: u64) -> Update {
    Update::Draft {
        space: SpaceId(uuid(9)),
        message: MessageId(uuid(id)),
        agent: AgentId(uuid(agent)),
        delta: delta.into(),
        chars,
    }
}

fn void(id: u128) -> Update {
    Update::DraftReset { space: SpaceId(uuid(9)), message: MessageId(uuid(id)), agent: AgentId(uuid(ADA)) }
}

fn state(state: AgentState, reason: Option<&str>) -> Update {
    let cycle = (state != AgentState::Sleeping).then_some(CycleId(uuid(4)));
    Update::State { agent: AgentId(uuid(ADA)), state, cycle, reason: reason.map(str::to_owned), idle: None }
}

fn rows(talk: &mut Talk, updates: Vec<Update>) -> Vec<String> {
    for update in updates {
        talk.update(update);
    }
    talk.take_rows()
}

#[test]
fn a_committed_message_is_not_printed_twice() {
    let mut talk = talk();
    assert!(rows(&mut talk, vec![piece(5, ADA, "Hello", 5), piece(5, ADA, " you", 9)]).is_empty());
    assert_eq!(talk.unfinished().unwrap(), "ada: Hello you");
    let rows = rows(&mut talk, vec![said(1, 5, ADA, "Hello you!"), piece(5, ADA, " late", 15)]);
    assert_eq!(rows, ["ada: Hello you!"]);
    assert_eq!(talk.unfinished(), None);
}

#[test]
fn a_void_draft_is_taken_back_in_sight() {
    let mut talk = talk();
    let rows = rows(&mut talk, vec![piece(5, ADA, "Wro", 3), void(5), piece(6, ADA, "Ri", 2)]);
    assert_eq!(rows, ["ada: Wro", "(ada took that back)"]);
    assert_eq!(talk.unfinished().unwrap(), "ada: Ri");
}

#[test]
fn lost_pieces_are_filled_in_by_the_committed_message() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "Hel", 3), piece(5, ADA, "you", 9), said(1, 5, ADA, "Hello you")];
    assert_eq!(rows(&mut talk, updates), ["ada: Hello you"]);
}

#[test]
fn a_message_that_became_another_than_its_draft_is_shown_whole() {
    let mut talk = talk();
    let rows = rows(&mut talk, vec![piece(5, ADA, "Hi", 2), said(1, 5, ADA, "Good day")]);
    assert_eq!(rows, ["ada: Hi", "(it was said differently in the end:)", "ada: Good day"]);
}

#[test]
fn somebody_else_may_speak_while_an_agent_writes() {
    let mut talk = talk();
    let updates = vec![
        piece(5, ADA, "First", 5),
        said(1, 7, 1, "and?"),
        piece(5, ADA, " second", 12),
        said(2, 5, ADA, "First second"),
    ];
    assert_eq!(rows(&mut talk, updates), ["ada: First", "you: and?", "ada ...  second"]);
}

#[test]
fn two_agents_that_write_at_once_are_shown_one_after_the_other() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "one", 3), piece(6, 3, "two", 3), said(1, 5, ADA, "one")];
    assert_eq!(rows(&mut talk, updates), ["ada: one"]);
    assert_eq!(talk.unfinished().unwrap(), "bob: two");
}

#[test]
fn messages_are_shown_in_their_order_even_if_some_come_late() {
    let mut talk = talk();
    assert!(talk.update(said(3, 7, 1, "third")));
    assert!(talk.take_rows().is_empty());
    let missed = [said(1, 5, 1, "first"), said(2, 6, 1, "second")];
    talk.catch_up(
        missed
            .into_iter()
            .map(|update| match update {
                Update::Message { message } => message.message,
                _ => panic!("no message"),
            })
            .collect(),
    );
    assert!(!talk.update(said(2, 6, 1, "second")));
    assert_eq!(talk.take_rows(), ["you: first", "you: second", "you: third"]);
    assert_eq!(talk.last_seq(), 3);
}

#[test]
fn a_restart_is_said_and_what_was_begun_is_void() {
    let mut talk = talk();
    talk.update(state(AgentState::Thinking, None));
    talk.update(piece(5, ADA, "Hel", 3));
    talk.lose();
    talk.lose();
    assert_eq!(talk.status().unwrap(), "(no server; looking for it)");
    assert!(!talk.snapshot(Snapshot::default()));
    let rows = talk.take_rows();
    assert_eq!(rows[0], "ada: Hel");
    assert!(rows[1].starts_with("(the server is gone"), "{rows:?}");
    assert!(rows.iter().any(|row| row == "(the server is back)"), "{rows:?}");
    assert_eq!(rows.last().unwrap(), "(ada took that back)");
}

#[test]
fn what_an_agent_does_is_one_row() {
    let mut talk = talk();
    let (agent, cycle) = (AgentId(uuid(ADA)), CycleId(uuid(4)));
    let call = CallId("c".into());
    talk.update(state(AgentState::Thinking, None));
    assert_eq!(talk.status().unwrap(), "(ada is thinking; Ctrl-C cancels)");
    talk.update(Update::ToolStarted {
        agent,
        cycle,
        call: call.clone(),
        tool: "read_messages".into(),
        arguments: String::new(),
    });
    assert_eq!(talk.status().unwrap(), "(ada uses read_messages; Ctrl-C cancels)");
    let (tool, reason) = ("read_messages".to_owned(), Some("no such space".to_owned()));
    let done = Update::ToolError { agent, cycle, call, tool, reason, ms: None };
    let elsewhere = Update::ToolDone {
        agent,
        cycle: CycleId(uuid(5)),
        call: CallId("d".into()),
        tool: "read_messages".into(),
        status: OutcomeStatus::Ok,
        ms: None,
    };
    let ended = Update::CycleEnded { agent, cycle, ending: Ending::Skipped, reason: None, spent: None };
    let rows = rows(&mut talk, vec![done, elsewhere, ended, state(AgentState::Sleeping, Some("provider"))]);
    assert_eq!(rows, ["  * ada used read_messages: failed", "(ada let it pass)", "(ada sleeps: provider)"]);
    assert_eq!(talk.status(), None);
}

#[test]
fn foreign_text_cannot_steer_the_terminal_even_in_pieces() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "\x1b", 1), piece(5, ADA, "[2J", 4), said(1, 5, ADA, "\x1b[2J")];
    assert_eq!(rows(&mut talk, updates), ["ada: ^[[2J"]);
}

#[test]
fn what_is_written_while_messages_are_missing_stands_below_them() {
    let mut talk = talk();
    assert!(talk.snapshot(Snapshot { head_seq: 1, ..Snapshot::default() }));
    assert!(rows(&mut talk, vec![piece(5, ADA, "Hi", 2)]).is_empty());
    assert_eq!(talk.unfinished(), None);
    let Update::Message { message } = said(1, 7, 1, "back?") else { panic!("no message") };
    talk.catch_up(vec![message.message]);
    assert_eq!(talk.take_rows(), ["you: back?"]);
    assert_eq!(talk.unfinished().unwrap(), "ada: Hi");
}

#[test]
fn a_draft_interrupted_at_its_very_end_leaves_no_empty_row() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "Hi", 2), said(1, 7, 1, "and?"), said(2, 5, ADA, "Hi")];
    assert_eq!(rows(&mut talk, updates), ["ada: Hi", "you: and?"]);
}

#[test]
fn who_cannot_think_is_told_once_until_it_does_something() {
    let mut talk = talk();
    let until = jiff::Timestamp::from_second(3_600).unwrap();
    let rests = |reason: Option<&str>| Update::State {
        agent: AgentId(uuid(ADA)),
        state: AgentState::Sleeping,
        cycle: None,
        reason: reason.map(str::to_owned),
        idle: Some(IdleUntil { reason: agent::life::IdleReason::Provider, until }),
    };
    let told = rows(&mut talk, vec![rests(None), state(AgentState::Thinking, None), rests(None)]);
    let lines = ["(ada cannot think now: its model cannot", "  be reached; it tries again at", "  01:00:00)"];
    assert_eq!(told, lines);
    let told = rows(&mut talk, vec![said(1, 11, ADA, "here"), rests(Some("network: refused"))]);
    let lines = ["ada: here", "(ada cannot think now: network:", "  refused; it tries again at 01:00:00)"];
    assert_eq!(told, lines, "operators are told what failed");
}
