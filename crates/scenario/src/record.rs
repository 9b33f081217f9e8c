//! Turns what an agent did into a scenario: the messages and events that it received, its model's replies as a
//! script, and the messages that it posted as expectations. Ids of a server mean nothing elsewhere, so they
//! become handles. This module must not know where the records come from.

use std::collections::HashMap;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::event::{EventData, EventKind};
use agent::id::{CallId, MessageId, SpaceId};
use agent::message::{ModelMessage, Part};
use agent::run::Ending;
use jiff::Timestamp;
use serde_json::Value;

use crate::bounds;
use crate::flaw::FilePosition;
use crate::scene::{
    Act, Actor, Amount, Condition, CycleShape, Expectation, Expected, OPERATOR, PersonReply, Room, Rule,
    Scenario, SceneHook, SceneOutcome, SceneTool, StoryAction, StoryEvent, TextPattern, When,
};
use crate::write::written;

/// The outcome of a tool that the recorded cycles never called.
const NEVER_CALLED: &str = "ok";

/// What an agent did in some of its cycles.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The agent's handle.
    pub agent: String,
    /// Its name for people.
    pub display_name: String,
    /// Its config. The model is left out, because it is chosen when the scenario is run.
    pub config: AgentConfig,
    /// The agent's spaces.
    pub rooms: Vec<(SpaceId, Room)>,
    /// The messages that its events refer to.
    pub messages: HashMap<MessageId, RecordedMessage>,
    /// Each id that texts may contain, with the handle that replaces it.
    pub handles: HashMap<String, String>,
    /// The tools that every server has.
    pub prebuilt: Vec<String>,
    /// The tools that it has and that only its server has. What they returned is in the cycles.
    pub tools: Vec<SceneTool>,
    /// The cycles, oldest first.
    pub cycles: Vec<RecordedCycle>,
}

/// A message in a recording.
#[derive(Clone, Debug)]
pub struct RecordedMessage {
    /// The handle of its sender.
    pub sender: String,
    /// Its space.
    pub space: SpaceId,
    /// Its text.
    pub text: String,
    /// The call that posted it.
    pub call: Option<CallId>,
}

/// A cycle in a recording.
#[derive(Clone, Debug)]
pub struct RecordedCycle {
    /// Its number among the agent's cycles.
    pub ordinal: u64,
    /// When it opened.
    pub opened_at: Timestamp,
    /// How it ended.
    pub ending: Ending,
    /// Number of its steps.
    pub steps: usize,
    /// Number of events that it processed.
    pub processed: u32,
    /// These events, in order, as far as they are known.
    pub events: Vec<RecordedEvent>,
    /// Its model's replies, step by step.
    pub replies: Vec<ModelMessage>,
    /// What its calls returned, in order: the tool and the outcome.
    pub outcomes: Vec<(String, SceneOutcome)>,
    /// What people answered, in order.
    pub answers: Vec<RecordedAnswer>,
    /// The texts that it posted.
    pub posted: Vec<RecordedMessage>,
}

/// An answer of a person in a recording.
#[derive(Clone, Debug)]
pub struct RecordedAnswer {
    /// The call.
    pub call: CallId,
    /// The handle of the person; `None`: an operator.
    pub who: Option<String>,
    /// The tool of the call; `None` for a question.
    pub tool: Option<String>,
    /// What the person said.
    pub reply: PersonReply,
}

/// An event in a recording.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Its position in the inbox.
    pub seq: u64,
    /// Its kind.
    pub kind: EventKind,
    /// Its content.
    pub data: EventData,
    /// Whether a hook made it of a delivery that is a stranger's text.
    pub of_hook: bool,
    /// Whether it may interrupt a cycle.
    pub urgent: bool,
}

impl Recording {
    /// The scenario as a file that can be read again: without the oldest cycles, as far as there is no room for them.
    /// `None` if there is no room for the newest one either.
    pub fn fitting(&mut self) -> Option<(Scenario, Vec<String>, String)> {
        let before = self.cycles.len();
        loop {
            let (scenario, mut left_out) = self.scenario();
            let text = written(&scenario);
            let lines = scenario.story.len().max(scenario.expect.len());
            if text.len() <= bounds::FILE_MAX_BYTES && lines <= bounds::LINES_MAX {
                let gone = before - self.cycles.len();
                if gone > 0 {
                    left_out
                        .push(format!("the oldest {gone} of these cycles: a scenario has no room for them"));
                }
                return Some((scenario, left_out, text));
            }
            if self.cycles.len() <= 1 {
                return None;
            }
            self.cycles.remove(0);
        }
    }

    /// The scenario, and a description of each event and cycle that a story cannot express. The story is empty if it can
    /// express none.
    pub fn scenario(&self) -> (Scenario, Vec<String>) {
        let (told, untold): (Vec<_>, Vec<_>) = self.cycles.iter().partition(|cycle| self.has_cause(cycle));
        let mut rooms: Vec<Room> = self.rooms.iter().map(|(_, room)| room.clone()).collect();
        let mut hooks: Vec<SceneHook> = Vec::new();
        let (mut story, mut left_out) = (Vec::new(), Vec::new());
        for cycle in &told {
            let mut when = When::Quiet;
            for event in &cycle.events {
                if let Some(what) = self.action(event, &mut rooms, &mut hooks) {
                    story.push(line(when, what));
                    when = When::After(Duration::ZERO);
                } else if !self.is_answered(event) {
                    let kind = event.kind.as_str();
                    left_out.push(format!("the event {} of cycle {}, a `{kind}`", event.seq, cycle.ordinal));
                }
            }
            // The agent waits for each of them, so everything else is idle.
            let answers = cycle.answers.iter().map(|answer| line(When::Quiet, self.answer(answer)));
            story.extend(answers);
        }
        left_out.extend(untold.iter().map(|cycle| {
            let kinds: Vec<&str> = cycle.events.iter().map(|event| event.kind.as_str()).collect();
            match kinds.is_empty() {
                true => format!("cycle {}: none of its events was processed", cycle.ordinal),
                false => format!("cycle {}: no story causes a `{}`", cycle.ordinal, kinds.join("`, `")),
            }
        }));
        let mut people: Vec<String> = rooms.iter().flat_map(|room| room.members.clone()).collect();
        // Some of them may be in no space of the agent.
        people.extend(told.iter().flat_map(|cycle| &cycle.answers).filter_map(|answer| answer.who.clone()));
        people.sort();
        people.dedup();
        people.retain(|name| *name != self.agent);
        let count = told.len();
        let cycles = if count == 1 { "a cycle".to_owned() } else { format!("{count} cycles") };
        let from = told.first().map(|cycle| cycle.opened_at.to_string()).unwrap_or_default();
        let scenario = Scenario {
            name: format!("What {} did in {cycles}", self.display_name),
            about: format!(
                "Recorded; the first cycle began at {from}. The script contains its model's replies.\n"
            ),
            people,
            tools: self.own_tools(&told),
            agents: vec![Actor {
                name: self.agent.clone(),
                config: self.config.clone(),
                script: Some(self.script(&told)),
                place: FilePosition::default(),
            }],
            spaces: rooms,
            hooks,
            story,
            expect: self.expectations(&told),
        };
        (scenario, left_out)
    }

    /// Whether something in a story makes this cycle happen.
    fn has_cause(&self, cycle: &RecordedCycle) -> bool {
        cycle.events.iter().any(|event| self.is_told(event) || self.is_answered(event))
    }

    /// Whether a sentence of a story expresses this event.
    fn is_told(&self, event: &RecordedEvent) -> bool {
        match &event.data {
            EventData::Message { message, .. } => {
                self.messages.get(message).is_some_and(|message| self.space(message.space).is_some())
            }
            EventData::Service { .. } | EventData::Plan { .. } => true,
            EventData::ToolResult { .. } | EventData::Heartbeat => false,
        }
    }

    /// Whether this event comes of an answer that the story has: the result of a call that somebody allowed, or did not.
    fn is_answered(&self, event: &RecordedEvent) -> bool {
        let EventData::ToolResult { call, .. } = &event.data else { return false };
        self.cycles.iter().flat_map(|cycle| &cycle.answers).any(|answer| answer.call == *call)
    }

    /// What happened when an event arrived; `None` if no sentence of a story can express it.
    fn action(
        &self,
        event: &RecordedEvent,
        rooms: &mut [Room],
        hooks: &mut Vec<SceneHook>,
    ) -> Option<StoryAction> {
        match &event.data {
            EventData::Plan { name, instruction, .. } => Some(StoryAction::Due {
                agent: self.agent.clone(),
                name: name.clone(),
                instruction: instruction.clone(),
            }),
            EventData::Message { message, .. } => {
                let RecordedMessage { sender, space, text, .. } = self.messages.get(message)?.clone();
                let space = self.space(space)?.to_owned();
                // A sender who has left since was a member then.
                let room = rooms.iter_mut().find(|room| room.name == space)?;
                if !room.members.contains(&sender) {
                    room.members.push(sender.clone());
                }
                Some(StoryAction::Says { who: sender, space, text, id: None })
            }
            // What its template made of the body is the body of the story's delivery.
            EventData::Service { name, payload } if event.of_hook => {
                let urgent = event.urgent.then(|| "true".to_owned());
                match hooks.iter_mut().find(|hook| hook.name == *name) {
                    Some(hook) => hook.urgent = hook.urgent.take().filter(|_| event.urgent),
                    None => hooks.push(SceneHook {
                        name: name.clone(),
                        to: vec![self.agent.clone()],
                        urgent,
                        ..SceneHook::default()
                    }),
                }
                Some(StoryAction::Delivers { hook: name.clone(), body: payload.clone(), id: None })
            }
            EventData::Service { name, payload } => {
                let service = name.split_whitespace().collect::<Vec<_>>().join("-");
                let payload = payload.clone();
                Some(StoryAction::Calls { service, agent: self.agent.clone(), payload, id: None })
            }
            _ => None,
        }
    }

    fn answer(&self, answer: &RecordedAnswer) -> StoryAction {
        let RecordedAnswer { who, tool, reply, .. } = answer.clone();
        let who = who.unwrap_or_else(|| OPERATOR.to_owned());
        StoryAction::Answers { who, agent: self.agent.clone(), tool, reply, may: true }
    }

    /// Its tools with what they returned in these cycles. One that ran, or was asked about, and that it does not have any more
    /// is as a tool of which nothing is known.
    fn own_tools(&self, told: &[&RecordedCycle]) -> Vec<SceneTool> {
        let mut tools = self.tools.clone();
        let ran = told.iter().flat_map(|cycle| cycle.outcomes.iter().map(|(tool, _)| tool));
        let asked =
            told.iter().flat_map(|cycle| cycle.answers.iter().filter_map(|answer| answer.tool.as_ref()));
        for name in ran.chain(asked) {
            if !self.prebuilt.contains(name) && !tools.iter().any(|tool| tool.name == *name) {
                tools.push(SceneTool { name: name.clone(), ..SceneTool::default() });
            }
        }
        let with_outcomes = |tool: SceneTool| {
            let all = told.iter().flat_map(|cycle| &cycle.outcomes);
            let mut outcomes: Vec<SceneOutcome> =
                all.filter(|(name, _)| *name == tool.name).map(|(_, outcome)| outcome.clone()).collect();
            if outcomes.is_empty() {
                outcomes.push(SceneOutcome { text: NEVER_CALLED.to_owned(), failed: false });
            }
            SceneTool { outcomes, ..tool }
        };
        tools.into_iter().map(with_outcomes).collect()
    }

    fn space(&self, id: SpaceId) -> Option<&str> {
        self.rooms.iter().find(|(known, _)| *known == id).map(|(_, room)| room.name.as_str())
    }

    /// One rule for each cycle: its model's replies, step by step.
    fn script(&self, told: &[&RecordedCycle]) -> Vec<Rule> {
        let own: Vec<String> = self.own_tools(told).into_iter().map(|tool| tool.name).collect();
        let is_there = |tool: &str| own.iter().chain(&self.prebuilt).any(|there| there == tool);
        let rule = |(index, cycle): (usize, &&RecordedCycle)| Rule {
            when: Condition { cycle: Some(index as u64 + 1), ..Condition::default() },
            steps: cycle.replies.iter().map(|reply| self.step(cycle, reply, &is_there)).collect(),
        };
        told.iter().enumerate().map(rule).collect()
    }

    fn step(&self, cycle: &RecordedCycle, reply: &ModelMessage, is_there: &dyn Fn(&str) -> bool) -> Vec<Act> {
        let act = |part: &Part| match part {
            Part::Text { text } if !text.trim().is_empty() => Some(Act::Think(text.clone())),
            Part::ToolCall { id, name, arguments } => match self.call(cycle, id, name, arguments) {
                Act::Call { tool, arguments } if !is_there(&tool) => Some(Act::Miscall { tool, arguments }),
                act => Some(act),
            },
            _ => None,
        };
        let acts: Vec<Act> = reply.parts.iter().filter_map(act).collect();
        if acts.is_empty() { vec![Act::Think("(nothing)".to_owned())] } else { acts }
    }

    fn call(&self, cycle: &RecordedCycle, id: &CallId, tool: &str, arguments: &str) -> Act {
        let raw = self.handles.iter().fold(arguments.to_owned(), |text, (id, name)| text.replace(id, name));
        let value: Option<Value> = serde_json::from_str(&raw).ok();
        let text = |key: &str| value.as_ref()?.get(key)?.as_str().map(str::to_owned);
        let only = |keys: &[&str]| {
            let given = value.as_ref().and_then(Value::as_object);
            given.is_some_and(|given| given.keys().all(|key| keys.contains(&key.as_str())))
        };
        let special = match tool {
            "send_message" if only(&["space", "text"]) => {
                // Name the space: where the agent posts by default may differ when the scenario is run.
                let message = cycle.posted.iter().find(|message| message.call.as_ref() == Some(id));
                let space = message.and_then(|message| self.space(message.space)).map(str::to_owned);
                space.zip(text("text")).map(|(space, text)| Act::Say { space: Some(space), text })
            }
            "done" if only(&["summary"]) => {
                Some(Act::Done(text("summary").filter(|text| !text.trim().is_empty())))
            }
            "skip" if only(&["reason"]) => {
                Some(Act::Skip(text("reason").filter(|text| !text.trim().is_empty())))
            }
            _ => None,
        };
        // Any other call is kept as the model wrote it; arguments that are not JSON are kept as text.
        special.unwrap_or_else(|| Act::Call {
            tool: tool.to_owned(),
            arguments: value.filter(Value::is_object).unwrap_or(Value::String(raw)),
        })
    }

    /// Expectations about the texts, how often each was posted, and the cycles.
    fn expectations(&self, told: &[&RecordedCycle]) -> Vec<Expectation> {
        let me = &self.agent;
        let mut expect: Vec<Expectation> = Vec::new();
        let mut add = |what: Expected, sentence: String| {
            expect.push(Expectation { what, sentence, place: FilePosition::default() });
        };
        let all = || told.iter().flat_map(|cycle| &cycle.posted);
        let mut known: Vec<(SpaceId, &str)> = Vec::new();
        for message in all() {
            let this = (message.space, message.text.as_str());
            let Some(space) = self.space(message.space).filter(|_| !known.contains(&this)) else { continue };
            known.push(this);
            let same = all().filter(|other| (other.space, other.text.as_str()) == this).count();
            let words = TextPattern { equals: Some(message.text.clone()), ..TextPattern::default() };
            let times = if same > 1 { Amount::Exactly(same as u64) } else { Amount::AtLeast(1) };
            let expected = Expected::Said { who: me.clone(), space: space.to_owned(), words, times };
            add(expected, format!("{me} said in {space}"));
        }
        let untold = |event: &&RecordedEvent| !self.is_told(event) && !self.is_answered(event);
        let events = |cycle: &RecordedCycle| {
            u64::from(cycle.processed).saturating_sub(cycle.events.iter().filter(untold).count() as u64)
        };
        let shape = |cycle: &&RecordedCycle| CycleShape {
            events: Some(Amount::Exactly(events(cycle))),
            steps: (cycle.ending == Ending::Completed).then_some(Amount::Exactly(cycle.steps as u64)),
            ended: None,
        };
        let cycles = told.iter().map(shape).collect();
        add(Expected::CycleList { agent: me.clone(), cycles }, format!("{me} ran cycles"));
        expect
    }
}

/// A line of a story.
fn line(when: When, what: StoryAction) -> StoryEvent {
    StoryEvent { when, what: vec![what], times: 1, place: FilePosition::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recording(cycles: usize, bytes: usize) -> Recording {
        let cycle = |ordinal: usize| RecordedCycle {
            ordinal: ordinal as u64,
            opened_at: Timestamp::UNIX_EPOCH,
            ending: Ending::Completed,
            steps: 1,
            processed: 1,
            events: vec![RecordedEvent {
                seq: ordinal as u64,
                kind: EventKind::Service,
                data: EventData::Service {
                    name: "disk".into(),
                    payload: json!(["x".repeat(bytes), ordinal]),
                },
                of_hook: true,
                urgent: false,
            }],
            replies: Vec::new(),
            outcomes: Vec::new(),
            answers: Vec::new(),
            posted: Vec::new(),
        };
        Recording {
            agent: "ada".into(),
            display_name: "Ada".into(),
            config: AgentConfig::default(),
            rooms: Vec::new(),
            messages: HashMap::new(),
            handles: HashMap::new(),
            prebuilt: Vec::new(),
            tools: Vec::new(),
            cycles: (1..=cycles).map(cycle).collect(),
        }
    }

    #[test]
    fn of_more_than_a_scenario_can_hold_the_newest_cycles_are_recorded() {
        let (scenario, left_out, text) = recording(6, 1_000_000).fitting().unwrap();
        assert!(text.len() <= bounds::FILE_MAX_BYTES && text.contains("hook disk delivers"));
        assert_eq!((scenario.story.len(), left_out.len()), (4, 1));
        assert!(left_out[0].starts_with("the oldest 2 of these cycles"), "{left_out:?}");
        let last = scenario.story.last().map(|event| event.what.clone());
        assert!(matches!(&last.unwrap()[0], StoryAction::Delivers { body, .. } if body[1] == 6));
        let (_, left_out, _) = recording(6, 10).fitting().unwrap();
        assert!(left_out.is_empty(), "{left_out:?}");
        assert!(recording(2, bounds::FILE_MAX_BYTES).fitting().is_none());
        let (scenario, _, _) = recording(bounds::LINES_MAX + 5, 10).fitting().unwrap();
        assert_eq!(scenario.story.len(), bounds::LINES_MAX);
    }
}
