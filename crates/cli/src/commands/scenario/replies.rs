//! Converts a model's replies to a script and an agent's messages to expectations. Ids of a server mean
//! nothing elsewhere, so they become handles.

use std::collections::HashMap;

use agent::entry::EntryKind;
use agent::id::{CallId, EntityId, SpaceId};
use agent::message::Part;
use agent::run::Ending;
use agent::space::MessageKind;
use api::{Agent, LogEntry, MessageJson, RunJson};
use scenario::flaw::FilePosition;
use scenario::scene::{Act, Amount, Condition, CycleShape, Expectation, Expected, Rule, TextPattern};
use serde_json::Value;

/// The names of the agent, spaces and entities of a recording.
pub(super) struct NameTable<'a> {
    pub(super) agent: &'a Agent,
    pub(super) spaces: &'a [(SpaceId, String)],
    pub(super) entities: &'a HashMap<EntityId, String>,
    /// The messages that the agent posted in its runs.
    pub(super) posted: &'a [MessageJson],
}

impl NameTable<'_> {
    fn space(&self, id: SpaceId) -> Option<&str> {
        self.spaces.iter().find(|(known, _)| *known == id).map(|(_, name)| name.as_str())
    }

    /// The text with ids replaced by handles.
    fn portable(&self, text: &str) -> String {
        let spaces = self.spaces.iter().map(|(id, name)| (id.to_string(), name));
        let entities = self.entities.iter().map(|(id, name)| (id.to_string(), name));
        spaces.chain(entities).fold(text.to_owned(), |text, (id, name)| text.replace(&id, name))
    }
}

/// One rule for each run: its model's replies, step by step.
pub(super) fn script(names: &NameTable<'_>, runs: &[RunJson], entries: &[LogEntry]) -> Vec<Rule> {
    let rule = |(index, run): (usize, &RunJson)| {
        let own = entries.iter().filter(|e| e.cycle == run.id && e.kind == EntryKind::Assistant);
        let steps = own.map(|entry| step(names, entry)).collect();
        let when = Condition { cycle: Some(index as u64 + 1), ..Condition::default() };
        Rule { when, steps }
    };
    runs.iter().enumerate().map(rule).collect()
}

fn step(names: &NameTable<'_>, entry: &LogEntry) -> Vec<Act> {
    let mut acts: Vec<Act> = Vec::new();
    for part in &entry.message.parts {
        match part {
            Part::Text { text } if !text.trim().is_empty() => acts.push(Act::Think(text.clone())),
            Part::ToolCall { id, name, arguments } => acts.push(call(names, id, name, arguments)),
            _ => {}
        }
    }
    if acts.is_empty() {
        acts.push(Act::Think("(nothing)".to_owned()));
    }
    acts
}

fn call(names: &NameTable<'_>, id: &CallId, tool: &str, arguments: &str) -> Act {
    let raw = names.portable(arguments);
    let value: Option<Value> = serde_json::from_str(&raw).ok();
    let text = |key: &str| value.as_ref().and_then(|v| v.get(key)).and_then(Value::as_str).map(str::to_owned);
    let only = |keys: &[&str]| {
        let given = value.as_ref().and_then(Value::as_object);
        given.is_some_and(|given| given.keys().all(|key| keys.contains(&key.as_str())))
    };
    match tool {
        "send_message" if only(&["space", "text"]) => {
            // Name the space: where the agent posts by default may differ when the scenario is run.
            let message = names.posted.iter().find(|message| message.call.as_ref() == Some(id));
            let place = message.and_then(|message| names.space(message.space)).map(str::to_owned);
            match (place, text("text")) {
                (Some(space), Some(text)) => Act::Say { space: Some(space), text },
                _ => as_called(tool, value, raw),
            }
        }
        "done" if only(&["summary"]) => Act::Done(text("summary").filter(|text| !text.trim().is_empty())),
        "skip" if only(&["reason"]) => Act::Skip(text("reason").filter(|text| !text.trim().is_empty())),
        _ => as_called(tool, value, raw),
    }
}

/// A call as the model wrote it. Arguments that are not JSON are kept as text.
fn as_called(tool: &str, value: Option<Value>, raw: String) -> Act {
    let arguments = value.filter(Value::is_object).unwrap_or(Value::String(raw));
    Act::Call { tool: tool.to_owned(), arguments }
}

/// Expectations about the messages, how often each was posted, and the cycles.
pub(super) fn expectations(names: &NameTable<'_>, runs: &[RunJson]) -> Vec<Expectation> {
    let me = &names.agent.name;
    let mut expect: Vec<Expectation> = Vec::new();
    let mut add = |what: Expected, sentence: String| {
        expect.push(Expectation { what, sentence, place: FilePosition::default() });
    };
    let mut known: Vec<(SpaceId, &str)> = Vec::new();
    for message in names.posted.iter().filter(|message| message.kind == MessageKind::Text) {
        let this = (message.space, message.text.as_str());
        let Some(space) = names.space(message.space).filter(|_| !known.contains(&this)) else { continue };
        known.push(this);
        let same = names.posted.iter().filter(|other| (other.space, other.text.as_str()) == this).count();
        let words = TextPattern { equals: Some(message.text.clone()), ..TextPattern::default() };
        let times = if same > 1 { Amount::Exactly(same as u64) } else { Amount::AtLeast(1) };
        let expected = Expected::Said { who: me.clone(), space: space.to_owned(), words, times };
        add(expected, format!("{me} said in {space}"));
    }
    let shape = |run: &RunJson| CycleShape {
        events: Some(Amount::Exactly(run.events.into())),
        steps: (run.ending == Ending::Completed).then_some(Amount::Exactly(run.steps.len() as u64)),
        ended: None,
    };
    let cycles = runs.iter().map(shape).collect();
    add(Expected::CycleList { agent: me.clone(), cycles }, format!("{me} ran cycles"));
    expect
}
