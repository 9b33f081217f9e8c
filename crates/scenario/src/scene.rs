//! A scenario as data: a world, a story and expectations. `file` reads it, `write` writes it, `play` runs it;
//! this module knows none of them.

use std::fmt;
use std::time::Duration;

use agent::call::Effect;
use agent::config::{AgentConfig, WakeOn};
use agent::plan::PlanTerms;
use agent::port::HookKind;
use agent::run::Ending;
use agent::tool::ToolLabels;
use serde_json::{Value, json};

use crate::flaw::FilePosition;

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What it shows, as a sentence.
    pub name: String,
    /// A longer description.
    pub about: String,
    /// Handles of people.
    pub people: Vec<String>,
    /// Tools that only this scenario has.
    pub tools: Vec<SceneTool>,
    /// Agents.
    pub agents: Vec<Actor>,
    /// Spaces.
    pub spaces: Vec<Room>,
    /// Hooks.
    pub hooks: Vec<SceneHook>,
    /// The story: what happens, in order.
    pub story: Vec<StoryEvent>,
    /// What must be true at the end.
    pub expect: Vec<Expectation>,
}

/// A tool of a scenario. It counts how often it runs, and does nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneTool {
    /// Its name.
    pub name: String,
    /// What repeating a call would do; never inward.
    pub effect: Effect,
    /// What it does with what the agent knows.
    pub labels: ToolLabels,
    /// Description for a real model.
    pub description: String,
    /// JSON Schema of its arguments; `None`: any object.
    pub input: Option<Value>,
    /// What its calls return, in order; after the last one always that.
    pub outcomes: Vec<SceneOutcome>,
}

/// What a call of a scenario's tool returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SceneOutcome {
    /// What the agent reads.
    pub text: String,
    /// Whether the call fails.
    pub failed: bool,
}

impl Default for SceneTool {
    /// As a declared tool that says nothing.
    fn default() -> Self {
        let (name, description) = (String::new(), String::new());
        let (effect, labels) = (Effect::Unsafe, ToolLabels::all());
        Self { name, effect, labels, description, input: None, outcomes: Vec::new() }
    }
}

/// An agent of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actor {
    /// Its handle.
    pub name: String,
    /// Its config.
    pub config: AgentConfig,
    /// Its scripted replies; `None` if only a model can play the agent.
    pub script: Option<Vec<Rule>>,
    /// Its position in the file.
    pub place: FilePosition,
}

/// A space of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Its handle.
    pub name: String,
    /// Handles of its first members.
    pub members: Vec<String>,
    /// Which agents' messages wake its agents.
    pub wake_on: WakeOn,
}

/// A hook of a scenario. What delivers to it has a key of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SceneHook {
    /// Its name.
    pub name: String,
    /// Handles of the agents that get its events.
    pub to: Vec<String>,
    /// The template of what they read; `None`: the whole body.
    pub template: Option<String>,
    /// The expression without which nobody reads it.
    pub only_if: Option<String>,
    /// The expression that says whether it is urgent.
    pub urgent: Option<String>,
    /// Whether the plain fields that the template takes are no text of strangers.
    pub trusted: bool,
}

impl SceneHook {
    /// The declaration, as `viv hooks add` makes it.
    pub(crate) fn declaration(&self) -> Value {
        let mut declaration = json!({"kind": HookKind::Key, "trusted": self.trusted});
        for (key, value) in
            [("template", &self.template), ("only_if", &self.only_if), ("urgent", &self.urgent)]
        {
            if let Some(value) = value {
                declaration[key] = value.as_str().into();
            }
        }
        declaration
    }
}

/// What a scripted agent does in a cycle that meets the condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// The condition.
    pub when: Condition,
    /// The steps, in order. After the last one the agent is done.
    pub steps: Vec<Vec<Act>>,
}

/// When a rule applies. All named conditions must hold; an empty condition always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Texts that the inbox of the cycle must contain.
    pub inbox: Vec<String>,
    /// Texts that the cycle must have been shown since it began, in an injection or a preview. The steps of the
    /// rule count from there.
    pub shown: Vec<String>,
    /// Texts that must be anywhere in what the agent still sees.
    pub knows: Vec<String>,
    /// The number of the agent's cycle, from 1 on.
    pub cycle: Option<u64>,
}

/// One thing that a scripted agent does in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Writes private text.
    Think(String),
    /// Waits.
    Wait(Duration),
    /// Posts a message; if no space is named, in the space of the first message in its inbox.
    Say {
        /// The space's handle.
        space: Option<String>,
        /// The text.
        text: String,
    },
    /// Calls a tool.
    Call {
        /// Its name.
        tool: String,
        /// The arguments: a value, or a raw text that is sent unchanged.
        arguments: Value,
    },
    /// Calls a tool that there is not, as models do.
    Miscall {
        /// The name.
        tool: String,
        /// The arguments, as in a call.
        arguments: Value,
    },
    /// Skips the inbox.
    Skip(Option<String>),
    /// Ends the cycle.
    Done(Option<String>),
}

/// One entry of the story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryEvent {
    /// The time.
    pub when: When,
    /// What happens, all at the same moment.
    pub what: Vec<StoryAction>,
    /// How often it happens, all at that moment.
    pub times: usize,
    /// Its position in the file.
    pub place: FilePosition,
}

/// When something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// As soon as all agents are idle.
    #[default]
    Quiet,
    /// This long after the start of the story.
    At(Duration),
    /// This long after the previous entry.
    After(Duration),
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum StoryAction {
    /// A person or agent posts a message.
    Says {
        /// The sender.
        who: String,
        /// The space.
        space: String,
        /// The text.
        text: String,
        /// A name for the message, to send the same message again or to check its state.
        id: Option<String>,
    },
    /// A service sends an event to an agent.
    Calls {
        /// The service.
        service: String,
        /// The agent.
        agent: String,
        /// The payload.
        payload: Value,
        /// A name for the event.
        id: Option<String>,
    },
    /// A service delivers to a hook.
    Delivers {
        /// The hook.
        hook: String,
        /// The body.
        body: Value,
        /// A name for the delivery, to deliver it again or to check the state of its event.
        id: Option<String>,
    },
    /// An operator sets a plan for an agent.
    Plans {
        /// The agent.
        agent: String,
        /// The plan.
        terms: PlanTerms,
    },
    /// A plan of an agent is due now, whatever its times are.
    Due {
        /// The agent.
        agent: String,
        /// The plan's name.
        name: String,
        /// What the agent reads.
        instruction: String,
    },
    /// A person or agent becomes a member of a space.
    Joins {
        /// The new member.
        who: String,
        /// The space.
        space: String,
    },
    /// A member leaves a space.
    Leaves {
        /// The member.
        who: String,
        /// The space.
        space: String,
    },
    /// An agent is suspended.
    Suspended(String),
    /// An agent is resumed.
    Resumed(String),
    /// The open cycle of an agent is canceled.
    Canceled(String),
    /// A person answers a call that waits for one.
    Answers {
        /// Who: a person, or [`OPERATOR`].
        who: String,
        /// The agent.
        agent: String,
        /// The tool that is called; `None`: whatever waits.
        tool: Option<String>,
        /// What is said.
        reply: PersonReply,
        /// Whether that person may say it; `false`: the server has to refuse it, and the call goes on waiting.
        may: bool,
    },
    /// The server stops or starts.
    Server(Server),
    /// The provider of all models starts to fail, or works again.
    Provider(ProviderState),
    /// Only waits until all agents are idle.
    Quiet,
}

/// Who answers for an operator, unless somebody in the scenario has this handle.
pub const OPERATOR: &str = "operator";

/// What a person says to a call that waits.
#[derive(Clone, Debug, PartialEq)]
pub enum PersonReply {
    /// It may run.
    Approves,
    /// It may not, for this reason.
    Refuses(String),
    /// The answer to a question.
    Says(Value),
}

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It stops gracefully.
    Stops,
    /// It dies at once, as in a crash.
    Killed,
    /// It starts again on the durable state.
    Starts,
    /// It stops gracefully and starts again.
    Restarts,
}

/// The state of the provider of all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderState {
    /// Every request fails.
    Fails,
    /// It works again.
    Works,
}

/// Something that must be true at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The expectation.
    pub what: Expected,
    /// The sentence in the file, without its value.
    pub sentence: String,
    /// Its position in the file.
    pub place: FilePosition,
}

/// What is expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// A person or agent posted matching messages in a space.
    Said {
        /// The sender.
        who: String,
        /// The space.
        space: String,
        /// The pattern of the text.
        words: TextPattern,
        /// How many messages must match.
        times: Amount,
    },
    /// All messages of a space, in order.
    Heard {
        /// The space.
        space: String,
        /// The sender and the pattern of each message.
        messages: Vec<(String, TextPattern)>,
    },
    /// A tool was called.
    Called {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// Texts that its arguments must contain.
        with: Vec<String>,
        /// How many calls must match.
        times: Amount,
    },
    /// A tool of the scenario ran.
    Ran {
        /// The tool.
        tool: String,
        /// How often.
        times: Amount,
    },
    /// Activations were skipped.
    Skipped {
        /// The agent.
        agent: String,
        /// How many.
        times: Amount,
    },
    /// A number of cycles ran.
    Cycles {
        /// The agent.
        agent: String,
        /// How many.
        times: Amount,
    },
    /// Each cycle that ran.
    CycleList {
        /// The agent.
        agent: String,
        /// What each cycle must be like.
        cycles: Vec<CycleShape>,
    },
    /// The state of named events.
    Ids {
        /// The agent that received the events.
        agent: String,
        /// `processed` or `skipped`.
        state: String,
        /// The names.
        ids: Vec<String>,
    },
    /// The input and output tokens of all cycles.
    Tokens {
        /// The agent.
        agent: String,
        /// How many.
        count: Amount,
    },
    /// An agent has a memory.
    Remembers {
        /// The agent.
        agent: String,
        /// Its key.
        key: String,
        /// The pattern of its value.
        words: TextPattern,
    },
    /// An agent does not have a memory.
    Forgot {
        /// The agent.
        agent: String,
        /// Its key.
        key: String,
    },
}

/// A pattern that texts are matched against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPattern {
    /// The text contains all of these, ignoring case.
    pub all: Vec<String>,
    /// The text contains one of these, ignoring case. An empty list is no condition.
    pub any: Vec<String>,
    /// The text is exactly this.
    pub equals: Option<String>,
}

impl TextPattern {
    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        let holds = |part: &String| lower.contains(&part.to_lowercase());
        self.all.iter().all(holds)
            && (self.any.is_empty() || self.any.iter().any(holds))
            && self.equals.as_ref().is_none_or(|whole| whole == text)
    }

    /// Whether every text matches.
    pub fn matches_all(&self) -> bool {
        *self == Self::default()
    }

    /// An example of a matching text, to show a difference.
    pub fn example(&self) -> Option<&str> {
        let first = self.all.first().or(self.any.first()).map(String::as_str);
        self.equals.as_deref().or(first)
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let listed = |all: &[String], word: &str| {
            let all: Vec<String> = all.iter().map(|text| format!("`{text}`")).collect();
            all.join(word)
        };
        if let Some(whole) = &self.equals {
            parts.push(format!("that is exactly `{whole}`"));
        }
        if !self.all.is_empty() {
            parts.push(format!("with {} in it", listed(&self.all, " and ")));
        }
        if !self.any.is_empty() {
            parts.push(format!("with {} in it", listed(&self.any, " or ")));
        }
        f.write_str(&parts.join(" and "))
    }
}

/// A wanted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this number.
    Exactly(u64),
    /// This number or fewer.
    AtMost(u64),
    /// This number or more.
    AtLeast(u64),
}

impl Amount {
    /// Whether a number is as wanted.
    pub fn fits(self, n: u64) -> bool {
        match self {
            Self::Exactly(wanted) => n == wanted,
            Self::AtMost(most) => n <= most,
            Self::AtLeast(least) => n >= least,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n) => write!(f, "{n}"),
            Self::AtMost(n) => write!(f, "at most {n}"),
            Self::AtLeast(n) => write!(f, "at least {n}"),
        }
    }
}

/// The expected properties of a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleShape {
    /// Number of events that it processed.
    pub events: Option<Amount>,
    /// Number of steps.
    pub steps: Option<Amount>,
    /// How it ended.
    pub ended: Option<Ending>,
}

impl fmt::Display for CycleShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(count) = self.events {
            parts.push(format!("events: {count}"));
        }
        if let Some(count) = self.steps {
            parts.push(format!("steps: {count}"));
        }
        if let Some(ending) = self.ended {
            parts.push(format!("ended: {}", ending.as_str()));
        }
        write!(f, "{{{}}}", parts.join(", "))
    }
}
