//! Tests for every order of updates.

use super::*;
use agent::entity::EntityKind;
use agent::id::{CallId, MessageId, RootId, SpaceId};
use agent::space::PostedMessage;
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

fn posted(seq: u64, id: u128, sender: u128, text: &str) -> Update {
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
    Update::Message { message: PostedMessage { message, sender_name: "somebody".to_owned(), sender_kind } }
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

fn discard(id: u128) -> Update {
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
fn a_committed_message_takes_the_place_of_its_draft() {
    let mut talk = talk();
    assert!(rows(&mut talk, vec![piece(5, ADA, "Hello", 5), piece(5, ADA, " you", 9)]).is_empty());
    assert_eq!(talk.live(10), ["ada: Hello you"]);
    let rows = rows(&mut talk, vec![posted(1, 5, ADA, "Hello you!"), piece(5, ADA, " late", 15)]);
    assert_eq!(rows, ["ada: Hello you!"]);
    assert!(talk.live(10).is_empty());
}

#[test]
fn a_discarded_draft_is_reported() {
    let mut talk = talk();
    let rows = rows(&mut talk, vec![piece(5, ADA, "Wro", 3), discard(5), piece(6, ADA, "Ri", 2)]);
    assert_eq!(rows, ["(ada discarded its draft)"]);
    assert_eq!(talk.live(10), ["ada: Ri"]);
}

#[test]
fn lost_pieces_are_filled_in_by_the_committed_message() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "Hel", 3), piece(5, ADA, "you", 9), posted(1, 5, ADA, "Hello you")];
    assert_eq!(rows(&mut talk, updates), ["ada: Hello you"]);
}

#[test]
fn another_message_may_arrive_while_an_agent_writes() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "First", 5), posted(1, 7, 1, "and?"), piece(5, ADA, " second", 12)];
    assert_eq!(rows(&mut talk, updates), ["you: and?"]);
    assert_eq!(talk.live(10), ["ada: First second"]);
    assert_eq!(rows(&mut talk, vec![posted(2, 5, ADA, "First second")]), ["ada: First second"]);
}

#[test]
fn agents_that_write_at_once_have_rows_of_their_own() {
    let mut talk = talk();
    let long = "words that go on and on until the last row is full, and then some";
    talk.update(state(AgentState::Thinking, None));
    talk.update(piece(5, ADA, long, long.chars().count() as u64));
    talk.update(piece(6, 3, "two", 3));
    let status = "(ada is thinking; Ctrl-C cancels)";
    let all =
        ["ada: words that go on and on until the", "  last row is full, and then some", "bob: two", status];
    assert_eq!(talk.live(20), all);
    assert_eq!(
        talk.live(3),
        ["ada: ...last row is full, and then some", "bob: two", status],
        "the newest words"
    );
    let one = ["ada: ...last row is full, and then some", "(+1 writing) (ada is thinking; Ctrl-..."];
    assert_eq!(talk.live(2), one);
    assert_eq!(rows(&mut talk, vec![posted(1, 6, 3, "two")]), ["bob: two"]);
    assert_eq!(talk.live(3).len(), 3, "ada's rows are still there");
}

#[test]
fn no_row_is_wider_than_a_narrow_terminal() {
    let mut talk = talk();
    talk.resize(19);
    talk.name(EntityId(uuid(ADA)), "A name that is longer than the whole row");
    let updates = vec![
        state(AgentState::Thinking, None),
        posted(1, 7, 1, "an ordinary message of some words"),
        posted(2, 8, ADA, "漢字漢字漢字漢字漢字漢字"),
        piece(5, ADA, "Somethingthatislongerthanarow", 29),
    ];
    let mut shown = rows(&mut talk, updates);
    shown.extend(talk.live(4));
    assert!(shown.iter().all(|row| columns(row) <= 19), "{shown:#?}");
}

#[test]
fn messages_are_shown_in_their_order_even_if_some_come_late() {
    let mut talk = talk();
    assert!(talk.update(posted(3, 7, 1, "third")));
    assert!(talk.take_rows().is_empty());
    let missed = [posted(1, 5, 1, "first"), posted(2, 6, 1, "second")];
    talk.catch_up(
        missed
            .into_iter()
            .map(|update| match update {
                Update::Message { message } => message.message,
                _ => panic!("no message"),
            })
            .collect(),
    );
    assert!(!talk.update(posted(2, 6, 1, "second")));
    assert_eq!(talk.take_rows(), ["you: first", "you: second", "you: third"]);
    assert_eq!(talk.last_seq(), 3);
}

#[test]
fn a_restart_is_reported_once_and_ends_open_drafts() {
    let mut talk = talk();
    talk.update(state(AgentState::Thinking, None));
    talk.update(piece(5, ADA, "Hel", 3));
    talk.connection_lost();
    talk.connection_lost();
    assert_eq!(talk.live(10), ["ada: Hel", "(not connected; reconnecting)"]);
    assert!(!talk.snapshot(&Snapshot::default()));
    let rows = talk.take_rows();
    assert_eq!(rows.iter().filter(|row| row.starts_with("(connection lost")).count(), 1, "{rows:?}");
    assert_eq!(rows.last().unwrap(), "(reconnected)");
    assert!(talk.live(10).is_empty());
}

#[test]
fn an_agents_activity_is_one_row() {
    let mut talk = talk();
    let (agent, cycle) = (AgentId(uuid(ADA)), CycleId(uuid(4)));
    let call = CallId("c".into());
    talk.resize(60);
    talk.update(state(AgentState::Thinking, None));
    assert_eq!(talk.live(10), ["(ada is thinking; Ctrl-C cancels)"]);
    talk.update(Update::ToolStarted {
        agent,
        cycle,
        call: call.clone(),
        tool: "read_messages".into(),
        arguments: String::new(),
    });
    assert_eq!(talk.live(10), ["(ada uses read_messages; Ctrl-C cancels)"]);
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
    assert_eq!(rows, ["  * ada used read_messages: failed", "(ada skipped it)", "(ada sleeps: provider)"]);
    assert!(talk.live(10).is_empty());
}

#[test]
fn foreign_text_cannot_control_the_terminal_even_in_pieces() {
    let mut talk = talk();
    let updates = vec![piece(5, ADA, "\x1b", 1), piece(5, ADA, "[2J", 4), posted(1, 5, ADA, "\x1b[2J")];
    assert_eq!(rows(&mut talk, updates), ["ada: ^[[2J"]);
}

#[test]
fn a_backing_off_agent_is_reported_once_until_it_acts() {
    let mut talk = talk();
    let until = jiff::Timestamp::from_second(3_600).unwrap();
    let backs_off = |reason: Option<&str>| Update::State {
        agent: AgentId(uuid(ADA)),
        state: AgentState::Sleeping,
        cycle: None,
        reason: reason.map(str::to_owned),
        idle: Some(IdleUntil { reason: agent::life::IdleReason::Provider, until }),
    };
    let shown = rows(&mut talk, vec![backs_off(None), state(AgentState::Thinking, None), backs_off(None)]);
    let lines = ["(ada is backing off: its model cannot", "  be reached; retries at 01:00:00)"];
    assert_eq!(shown, lines);
    let shown = rows(&mut talk, vec![posted(1, 11, ADA, "here"), backs_off(Some("network: refused"))]);
    let lines = ["ada: here", "(ada is backing off: network: refused;", "  retries at 01:00:00)"];
    assert_eq!(shown, lines, "operators see what failed");
}
