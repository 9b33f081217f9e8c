//! What is recorded of each life that can happen: a file that can be read, that passes, and what it leaves out by name.

use std::collections::HashMap;

use agent::config::{AgentConfig, WakeOn};
use agent::event::{EventData, EventKind};
use agent::id::{CallId, CycleId, EntityId, MessageId, PlanId, SpaceId};
use agent::message::{ModelMessage, Part, Role};
use agent::port::Toolbox as _;
use agent::run::Ending;
use jiff::Timestamp;
use scenario::record::{RecordedAnswer, RecordedCycle, RecordedEvent, RecordedMessage, Recording};
use scenario::scene::{PersonReply, Room, SceneOutcome, SceneTool};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::{played, read};

const LOBBY: SpaceId = SpaceId(Uuid::from_u128(9));

fn call_id(step: u32) -> CallId {
    let (agent, cycle) = (EntityId(Uuid::from_u128(1)).agent(), CycleId(Uuid::from_u128(2)));
    CallId::derive(agent, cycle, step, 0)
}

fn event(seq: u64, kind: EventKind, data: EventData) -> RecordedEvent {
    RecordedEvent { seq, kind, data, of_hook: false, urgent: false }
}

fn message(seq: u64) -> RecordedEvent {
    let message = MessageId(Uuid::from_u128(seq.into()));
    event(seq, EventKind::SpaceMessage, EventData::Message { space: LOBBY, seq, message })
}

fn plan(seq: u64) -> RecordedEvent {
    let (plan, slots) = (PlanId(Uuid::nil()), Vec::new());
    let (name, instruction) = ("look: \"around\"".to_owned(), "Look,\naround.".to_owned());
    event(seq, EventKind::Plan, EventData::Plan { plan, name, instruction, slots })
}

fn late(seq: u64) -> RecordedEvent {
    let (call, tool, text) = (call_id(0), "roll_back".to_owned(), "rolled back".to_owned());
    event(seq, EventKind::ToolResult, EventData::ToolResult { call, tool, text, error: false, status: None })
}

/// A cycle that calls a tool with these arguments, and is done.
fn cycle(ordinal: u64, events: Vec<RecordedEvent>, call: Option<(&str, &str)>) -> RecordedCycle {
    let reply = |id: CallId, name: &str, arguments: &str| ModelMessage {
        role: Role::Assistant,
        parts: vec![Part::ToolCall { id, name: name.into(), arguments: arguments.into() }],
        native: None,
    };
    let first = call.map(|(name, arguments)| reply(call_id(0), name, arguments));
    let replies: Vec<ModelMessage> = first.into_iter().chain([reply(call_id(1), "done", "{}")]).collect();
    RecordedCycle {
        ordinal,
        opened_at: Timestamp::UNIX_EPOCH,
        ending: Ending::Completed,
        steps: replies.len(),
        processed: u32::try_from(events.len()).unwrap(),
        events,
        replies,
        outcomes: Vec::new(),
        answers: Vec::new(),
        posted: Vec::new(),
    }
}

fn outcome(text: &str, failed: bool) -> Vec<(String, SceneOutcome)> {
    vec![("roll_back".to_owned(), SceneOutcome { text: text.to_owned(), failed })]
}

fn answered(who: Option<&str>, reply: PersonReply) -> Vec<RecordedAnswer> {
    let (call, who, tool) = (call_id(0), who.map(str::to_owned), Some("roll_back".to_owned()));
    vec![RecordedAnswer { call, who, tool, reply }]
}

/// What the file of these cycles is, and what is left out. It can be read, and it passes.
async fn recorded(config: Value, cycles: Vec<RecordedCycle>) -> (String, Vec<String>) {
    let said = |seq: u64| {
        let text = format!("message {seq}");
        let message = RecordedMessage { sender: "husam".into(), space: LOBBY, text, call: None };
        (MessageId(Uuid::from_u128(seq.into())), message)
    };
    let room = Room {
        name: "lobby".into(),
        members: vec!["husam".into(), "ada".into()],
        wake_on: WakeOn::default(),
    };
    let mut recording = Recording {
        agent: "ada".into(),
        display_name: "Ada".into(),
        config: AgentConfig::from_json(&config).unwrap(),
        rooms: vec![(LOBBY, room)],
        messages: (1..=3).map(said).collect(),
        handles: HashMap::new(),
        prebuilt: tools::prebuilt().names(),
        tools: vec![SceneTool { name: "roll_back".into(), ..SceneTool::default() }],
        cycles,
    };
    let (_, left_out, text) = recording.fitting().unwrap();
    read(&text).unwrap_or_else(|flaws| panic!("{flaws:?}\n{text}"));
    let result = played(&text).await;
    assert!(result.passed(), "{:?} {:?}\n{text}", result.broken_off, result.unmet);
    (text, left_out)
}

fn config(more: Value) -> Value {
    let mut config = json!({"tools": ["roll_back", "send_message", "done"], "guard": "off"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[tokio::test]
async fn a_call_of_any_kind_is_recorded_in_a_file_that_can_be_read_and_passes() {
    let asks = || config(json!({"approve": ["roll_back"], "approvers": ["mira"]}));
    let whole = || cycle(1, vec![message(1)], Some(("roll_back", "{}")));
    let plain = config(json!({}));
    for (name, arguments) in [
        ("files__write_file", "{}"),
        ("a b", r#"{"x": 1}"#),
        ("", "{}"),
        ("über: {x}", "no json"),
        ("- call done\n", "[1]"),
        ("miscall", "{}"),
        ("roll_back", "{\"x\": "),
        ("roll_back", "[1, 2]"),
        ("roll_back", "\"a: b\\n# c\""),
        ("send_message", "{\"space\": 7}"),
        ("set_plans", "{}"),
    ] {
        let (_, left_out) =
            recorded(plain.clone(), vec![cycle(1, vec![message(1)], Some((name, arguments)))]).await;
        assert!(left_out.is_empty(), "{name} {arguments}: {left_out:?}");
    }
    for (config, one, part) in [
        (
            plain.clone(),
            RecordedCycle { outcomes: outcome("canceled", true), ..whole() },
            "\"error\":\"canceled\"",
        ),
        (
            plain.clone(),
            RecordedCycle { outcomes: outcome("it is unknown whether it ran", true), ..whole() },
            "unknown whether",
        ),
        (
            asks(),
            RecordedCycle {
                outcomes: outcome("rolled back", false),
                answers: answered(Some("mira"), PersonReply::Approves),
                ..whole()
            },
            "mira approves roll_back of ada",
        ),
        (
            asks(),
            RecordedCycle {
                answers: answered(None, PersonReply::Refuses("no: \"not\"\nnow".into())),
                ..whole()
            },
            "operator refuses roll_back of ada",
        ),
    ] {
        let (text, left_out) = recorded(config, vec![one]).await;
        assert!(text.contains(part) && left_out.is_empty(), "{part}: {left_out:?}\n{text}");
    }
    // A tool that the agent does not have any more.
    let mut gone = whole();
    gone.outcomes = vec![("restart".to_owned(), SceneOutcome { text: "ok".to_owned(), failed: false })];
    let (text, _) = recorded(plain, vec![gone]).await;
    assert!(text.contains("  restart: {"), "{text}");
}

#[tokio::test]
async fn what_an_answer_and_a_plan_cause_is_recorded_and_what_nothing_causes_is_left_out_by_name() {
    let deferring = config(json!({"approve": ["roll_back"], "limits": {"pause": 0}}));
    let mut first = cycle(1, vec![message(1)], Some(("roll_back", "{}")));
    (first.outcomes, first.answers) = (outcome("rolled back", false), answered(None, PersonReply::Approves));
    let (text, left_out) = recorded(deferring, vec![first, cycle(2, vec![late(2)], None)]).await;
    assert!(
        left_out.is_empty() && text.contains("operator approves roll_back of ada"),
        "{left_out:?}\n{text}"
    );

    let (text, left_out) = recorded(
        config(json!({})),
        vec![cycle(7, vec![plan(1)], None), cycle(8, vec![message(2), plan(3)], None)],
    )
    .await;
    assert!(left_out.is_empty() && text.matches("ada is due:").count() == 2, "{left_out:?}\n{text}");

    let beat = event(2, EventKind::Heartbeat, EventData::Heartbeat);
    let cycles = vec![
        cycle(1, vec![message(1)], None),
        cycle(2, vec![beat.clone()], None),
        cycle(3, vec![message(3), beat], None),
        cycle(4, vec![late(4)], None),
        cycle(5, Vec::new(), None),
    ];
    let (text, left_out) = recorded(config(json!({})), cycles).await;
    assert_eq!(
        left_out,
        [
            "the event 2 of cycle 3, a `heartbeat`",
            "cycle 2: no story causes a `heartbeat`",
            "cycle 4: no story causes a `tool_result`",
            "cycle 5: none of its events was processed",
        ],
        "{text}"
    );
}
