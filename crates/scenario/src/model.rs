//! A model whose replies come from the script of a scenario. A reply is a pure function of the prompt, so that
//! an interrupted cycle continues where it was. Only the pauses need a clock.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use agent::entry::{Entry, EntryKind};
use agent::limits;
use agent::port::{
    BoxStream, Clock, Model, ModelError, ModelInfo, ModelRequest, Models, PartKind, Piece, ReasoningReplay,
    Reply, ReplyPart, StopReason,
};
use agent::prompt::{Item, Prompt};
use agent::run::Usage;
use futures_util::stream;
use serde_json::{Map, Value, json};

use crate::scene::{Act, Condition, Rule, Scenario};

/// How long a step takes if the script names no time, so that causes come before their effects.
const STEP_TAKES: Duration = Duration::from_millis(100);
/// All scripts have the same provider, so that they fail together.
const PROVIDER: &str = "script";
/// The reason for skipping an activation that no rule covers.
const NO_RULE: &str = "no rule of its script fits";

/// The model name of an agent's script.
pub fn model_of(agent: &str) -> String {
    format!("script/{agent}")
}

/// The scripts of a scenario, as models.
pub struct Scripts(HashMap<String, Arc<ScriptedModel>>);

impl Scripts {
    /// One model for each agent with a script.
    pub fn of(scenario: &Scenario, clock: &Arc<dyn Clock>) -> Self {
        let scripted = scenario.agents.iter().filter_map(|actor| {
            let name = model_of(&actor.name);
            let rules = actor.script.clone()?;
            Some((name.clone(), Arc::new(ScriptedModel::new(name, rules, Arc::clone(clock)))))
        });
        Self(scripted.collect())
    }
}

impl Models for Scripts {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or_default();
        let found = self.0.get(name).ok_or_else(|| ModelError::NoModel(format!("`{name}` has no script")))?;
        Ok(Arc::clone(found) as Arc<dyn Model>)
    }
}

/// One agent's script.
struct ScriptedModel {
    info: ModelInfo,
    rules: Vec<Rule>,
    clock: Arc<dyn Clock>,
}

impl ScriptedModel {
    fn new(name: String, rules: Vec<Rule>, clock: Arc<dyn Clock>) -> Self {
        let info = ModelInfo {
            name,
            provider: PROVIDER.to_owned(),
            context_window: limits::WINDOW_HOSTED,
            max_output: 4_096,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: true,
            ..ModelInfo::default()
        };
        Self { info, rules, clock }
    }

    fn acts(&self, prompt: &Prompt) -> Vec<Act> {
        let facts = PromptFacts::of(prompt);
        let rule = self.rules.iter().find(|rule| facts.fits(&rule.when));
        match rule {
            Some(rule) => {
                rule.steps.get(facts.step_of(rule)).cloned().unwrap_or_else(|| vec![Act::Done(None)])
            }
            None if facts.step == 0 => vec![Act::Skip(Some(NO_RULE.to_owned()))],
            None => vec![Act::Done(None)],
        }
    }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let prompt = request.prompt;
        let acts = self.acts(request.prompt);
        let mut queue = VecDeque::new();
        if !acts.iter().any(|act| matches!(act, Act::Wait(_))) {
            queue.push_back(PlayItem::Pause(STEP_TAKES));
        }
        let mut parts = Vec::new();
        for act in acts {
            match act {
                Act::Wait(time) => queue.push_back(PlayItem::Pause(time)),
                other => {
                    let part = part_of(other, prompt);
                    queue.extend(pieces(u32::try_from(parts.len()).unwrap_or(u32::MAX), &part));
                    parts.push(part);
                }
            }
        }
        let usage = usage_of(prompt, &parts);
        let reply = Reply { parts, native: None, usage, stop: StopReason::End };
        queue.push_back(PlayItem::Piece(Piece::Done(reply)));
        let playback = (queue, Arc::clone(&self.clock));
        Box::pin(stream::unfold(playback, |(mut queue, clock)| async move {
            loop {
                match queue.pop_front()? {
                    PlayItem::Pause(time) => clock.sleep(time).await,
                    PlayItem::Piece(piece) => return Some((Ok(piece), (queue, clock))),
                }
            }
        }))
    }
}

enum PlayItem {
    Pause(Duration),
    Piece(Piece),
}

fn pieces(part: u32, whole: &ReplyPart) -> [PlayItem; 2] {
    let (kind, text) = match whole {
        ReplyPart::Text(text) => (PartKind::Text, text),
        ReplyPart::Reasoning(text) => (PartKind::Reasoning, text),
        ReplyPart::Call { name, arguments } => (PartKind::ToolCall { name: name.clone() }, arguments),
    };
    let delta = Piece::Delta { part, text: text.clone() };
    [PlayItem::Piece(Piece::Start { part, kind }), PlayItem::Piece(delta)]
}

fn part_of(act: Act, prompt: &Prompt) -> ReplyPart {
    let call = |name: &str, arguments: String| ReplyPart::Call { name: name.to_owned(), arguments };
    match act {
        Act::Think(text) => ReplyPart::Text(text),
        Act::Wait(_) => ReplyPart::Text(String::new()),
        Act::Say { space, text } => {
            let mut arguments = Map::new();
            if let Some(space) = space.or_else(|| PromptFacts::of(prompt).first_space()) {
                arguments.insert("space".to_owned(), space.into());
            }
            arguments.insert("text".to_owned(), text.into());
            call("send_message", Value::Object(arguments).to_string())
        }
        Act::Call { tool, arguments } | Act::Miscall { tool, arguments } => match arguments {
            Value::String(raw) => call(&tool, raw),
            arguments => call(&tool, arguments.to_string()),
        },
        Act::Skip(reason) => ending(prompt, "skip", "reason", reason),
        Act::Done(summary) => ending(prompt, "done", "summary", summary),
    }
}

/// A call that ends the cycle; if the agent does not have the tool, a text instead.
fn ending(prompt: &Prompt, tool: &str, key: &str, remark: Option<String>) -> ReplyPart {
    if !prompt.tools.iter().any(|known| known.name == tool) {
        return ReplyPart::Text(remark.unwrap_or_else(|| tool.to_owned()));
    }
    let arguments = remark.map_or_else(|| json!({}), |remark| json!({ key: remark }));
    ReplyPart::Call { name: tool.to_owned(), arguments: arguments.to_string() }
}

/// The usage, with four bytes per token as everywhere in a simulated world.
fn usage_of(prompt: &Prompt, parts: &[ReplyPart]) -> Usage {
    let items = prompt.items.iter().map(|item| match item {
        Item::Entry(entry) => entry.message.countable().len(),
        Item::Layer(text) => text.len(),
    });
    let input = prompt.system.len() + items.sum::<usize>();
    let output = parts.iter().map(|part| match part {
        ReplyPart::Text(text) | ReplyPart::Reasoning(text) => text.len(),
        ReplyPart::Call { name, arguments } => name.len() + arguments.len(),
    });
    let tokens = |bytes: usize| Some(bytes.div_ceil(4) as u64);
    Usage { input: tokens(input), cached: Some(0), output: tokens(output.sum()), reasoning: None }
}

/// The parts of a prompt that conditions are checked against.
struct PromptFacts<'a> {
    entries: Vec<&'a Entry>,
    /// Number of steps that the open cycle has completed.
    step: usize,
    /// The text of the inbox of the open cycle.
    inbox: String,
    /// The number of the cycle, from 1 on; skipped activations do not count.
    cycle: u64,
    /// Texts shown since the cycle began, each with the number of steps completed by then.
    shown: Vec<(usize, String)>,
}

impl<'a> PromptFacts<'a> {
    fn of(prompt: &'a Prompt) -> Self {
        let entries: Vec<&Entry> = prompt
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Entry(entry) => Some(&**entry),
                Item::Layer(_) => None,
            })
            .collect();
        let own = |kind: EntryKind| {
            entries.iter().filter(move |entry| entry.cycle == prompt.cycle && entry.kind == kind)
        };
        let step = own(EntryKind::Assistant).count();
        let inbox = own(EntryKind::Inbox).map(|entry| entry.message.text()).collect::<Vec<_>>().join("\n");
        let inboxes = entries.iter().filter(|entry| entry.kind == EntryKind::Inbox);
        let cycle = inboxes.map(|entry| entry.cycle).collect::<BTreeSet<_>>().len() as u64;
        Self { entries, step, inbox, cycle, shown: shown_meanwhile(prompt) }
    }

    /// The index of the rule's next step. The steps of a rule with a `shown` condition count from that point.
    fn step_of(&self, rule: &Rule) -> usize {
        self.step - self.shown_at(&rule.when).unwrap_or(0)
    }

    /// The number of steps completed when the text of the `shown` condition appeared.
    fn shown_at(&self, when: &Condition) -> Option<usize> {
        if when.shown.is_empty() {
            return None;
        }
        let holds = |text: &str| {
            let text = text.to_lowercase();
            when.shown.iter().all(|word| found_in(&text, word))
        };
        self.shown.iter().find(|(_, text)| holds(text)).map(|(step, _)| *step)
    }

    fn fits(&self, when: &Condition) -> bool {
        let holds = |text: &str, words: &[String]| {
            let text = text.to_lowercase();
            words.iter().all(|word| found_in(&text, word))
        };
        when.cycle.is_none_or(|cycle| cycle == self.cycle)
            && (when.shown.is_empty() || self.shown_at(when).is_some())
            && holds(&self.inbox, &when.inbox)
            && (when.knows.is_empty() || holds(&self.everything(), &when.knows))
    }

    fn everything(&self) -> String {
        self.entries.iter().map(|entry| entry.message.countable()).collect::<Vec<_>>().join("\n")
    }

    /// The space of the first message in the inbox.
    fn first_space(&self) -> Option<String> {
        let line = self.inbox.lines().find(|line| line.contains(". [space "))?;
        let (_, rest) = line.split_once(". [space ")?;
        rest.split_once(']').map(|(handle, _)| handle.to_owned())
    }
}

/// Injections and previews of the open cycle, and changes of the workspace; not the workspace that it began with.
fn shown_meanwhile(prompt: &Prompt) -> Vec<(usize, String)> {
    let mut shown = Vec::new();
    let mut step = None;
    for item in &prompt.items {
        match item {
            Item::Entry(entry) if entry.cycle != prompt.cycle => {}
            Item::Entry(entry) => match entry.kind {
                EntryKind::Inbox => step = Some(0),
                EntryKind::Assistant => step = step.map(|step| step + 1),
                EntryKind::Injection => shown.push((step.unwrap_or(0), entry.message.text())),
                EntryKind::Outcomes | EntryKind::Notice => {}
            },
            Item::Layer(_) if step.is_none() => {}
            Item::Layer(text) if step == Some(0) && text.starts_with("[WORKSPACE") => {}
            Item::Layer(text) => shown.push((step.unwrap_or(0), text.to_string())),
        }
    }
    shown
}

/// Whether the lower-case `text` contains the words in any case, as plain text or escaped as in JSON.
fn found_in(text: &str, words: &str) -> bool {
    let plain = words.to_lowercase();
    let quoted = Value::String(plain.clone()).to_string();
    text.contains(&plain) || text.contains(&quoted[1..quoted.len() - 1])
}
