//! A scenario as it is meant: a world, what happens in it, what is expected of it. `file` reads it,
//! `write` writes it, `play` plays it; this module knows none of them.

use std::fmt;
use std::time::Duration;

use agent::config::{AgentConfig, WakeOn};
use agent::run::Ending;
use serde_json::Value;

use crate::flaw::FilePosition;

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// What it shows, in a sentence.
    pub name: String,
    /// More about it, for people.
    pub about: String,
    /// Handles of people.
    pub people: Vec<String>,
    /// Agents.
    pub agents: Vec<Actor>,
    /// Spaces.
    pub spaces: Vec<Room>,
    /// What happens, in order.
    pub story: Vec<StoryEvent>,
    /// What must be true in the end.
    pub expect: Vec<Expectation>,
}

/// An agent of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actor {
    /// Its handle.
    pub name: String,
    /// How it lives.
    pub config: AgentConfig,
    /// What it thinks where no model does; `None` where only a model can play it.
    pub script: Option<Vec<Rule>>,
    /// Where it stands in the file.
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

/// What a scripted agent does in a cycle that its condition fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// When it is this rule's turn.
    pub when: Condition,
    /// Its steps, in order; behind the last one it is done.
    pub steps: Vec<Vec<Act>>,
}

/// When a rule fits. All that is named must be so; nothing named fits always.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Words that the inbox of the cycle must hold.
    pub inbox: Vec<String>,
    /// Words that the cycle must have been shown since it began, in an injection or a preview. The
    /// rule's steps count from there.
    pub shown: Vec<String>,
    /// Words that must be found anywhere in what the agent still sees.
    pub knows: Vec<String>,
    /// Which of its cycles it must be, from 1 on.
    pub cycle: Option<u64>,
}

/// One thing that a scripted agent does in a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Writes to itself.
    Think(String),
    /// Takes its time.
    Wait(Duration),
    /// Says something; where no space is named, where it was spoken to.
    Say {
        /// The space's handle.
        space: Option<String>,
        /// The words.
        text: String,
    },
    /// Calls a tool.
    Call {
        /// Its name.
        tool: String,
        /// The arguments: a value, or a text that is sent as it is.
        arguments: Value,
    },
    /// Lets the inbox pass.
    Skip(Option<String>),
    /// Ends the cycle.
    Done(Option<String>),
}

/// Something that happens.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryEvent {
    /// When.
    pub when: When,
    /// What, all at one moment.
    pub what: Vec<What>,
    /// How often, all at that moment.
    pub times: usize,
    /// Where it stands in the file.
    pub place: FilePosition,
}

/// When something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Once everyone is quiet.
    #[default]
    Quiet,
    /// So long after the beginning of the story.
    At(Duration),
    /// So long after what overrides.
    After(Duration),
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Somebody says something.
    Says {
        /// Who.
        who: String,
        /// Where.
        space: String,
        /// The words.
        text: String,
        /// A name for the message, to send the very same again or to ask for its fate.
        id: Option<String>,
    },
    /// A service calls an agent.
    Calls {
        /// The service.
        service: String,
        /// The agent.
        agent: String,
        /// What it sends.
        payload: Value,
        /// A name for the event.
        id: Option<String>,
    },
    /// Somebody becomes a member.
    Joins {
        /// Who.
        who: String,
        /// Where.
        space: String,
    },
    /// Somebody is no member any more.
    Leaves {
        /// Who.
        who: String,
        /// Where.
        space: String,
    },
    /// An agent is held still.
    Suspended(String),
    /// It may live again.
    Resumed(String),
    /// Its open cycle is taken back.
    Canceled(String),
    /// Something happens to the server.
    Server(Server),
    /// The provider of all models fails from now on, or works again.
    Provider(ProviderState),
    /// Nothing but the waiting until everyone is quiet.
    Quiet,
}

/// What happens to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It is stopped in good order.
    Stops,
    /// It is gone at once, as in a crash.
    Killed,
    /// It begins again on what is durable.
    Starts,
    /// It stops in good order and starts again.
    Restarts,
}

/// What happens to the provider of all models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderState {
    /// Every request fails.
    Fails,
    /// It serves again.
    Works,
}

/// Something that must be true in the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What.
    pub what: Expected,
    /// As it is written, without its value.
    pub sentence: String,
    /// Where it stands in the file.
    pub place: FilePosition,
}

/// What is expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// Somebody said something in a space.
    Said {
        /// Who.
        who: String,
        /// Where.
        space: String,
        /// What.
        words: TextPattern,
        /// How many messages must be so.
        times: Amount,
    },
    /// All that was said in a space, in order: who, and words within.
    Heard {
        /// Where.
        space: String,
        /// Each message.
        messages: Vec<(String, TextPattern)>,
    },
    /// A tool was called.
    Called {
        /// By whom.
        agent: String,
        /// Which.
        tool: String,
        /// Words that its arguments must hold.
        with: Vec<String>,
        /// How many calls must be so.
        times: Amount,
    },
    /// Activations were skipped.
    Skipped {
        /// By whom.
        agent: String,
        /// How many.
        times: Amount,
    },
    /// So many cycles were processed.
    Cycles {
        /// By whom.
        agent: String,
        /// How many.
        times: Amount,
    },
    /// The cycles that ran, one by one.
    CycleList {
        /// By whom.
        agent: String,
        /// Each, as far as it matters.
        cycles: Vec<CycleShape>,
    },
    /// What became of events that have names.
    Ids {
        /// Whose events.
        agent: String,
        /// `processed` or `skipped`.
        state: String,
        /// The names.
        ids: Vec<String>,
    },
    /// Tokens of all its cycles, sent and generated.
    Tokens {
        /// Whose.
        agent: String,
        /// How many.
        count: Amount,
    },
    /// A memory is kept.
    Remembers {
        /// By whom.
        agent: String,
        /// Its key.
        key: String,
        /// Its value.
        words: TextPattern,
    },
    /// A memory is not kept.
    Forgot {
        /// By whom.
        agent: String,
        /// Its key.
        key: String,
    },
}

/// Which texts are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPattern {
    /// All of these are found in it, in any case.
    pub all: Vec<String>,
    /// One of these is found in it, in any case; nothing named is no condition.
    pub any: Vec<String>,
    /// It is exactly this.
    pub equals: Option<String>,
}

impl TextPattern {
    /// Whether a text is meant.
    pub fn fit(&self, text: &str) -> bool {
        let lower = text.to_lowercase();
        let holds = |part: &String| lower.contains(&part.to_lowercase());
        self.all.iter().all(holds)
            && (self.any.is_empty() || self.any.iter().any(holds))
            && self.equals.as_ref().is_none_or(|whole| whole == text)
    }

    /// Whether every text is meant.
    pub fn is_anything(&self) -> bool {
        *self == Self::default()
    }

    /// The text that comes nearest to what is meant, for a difference.
    pub fn model(&self) -> Option<&str> {
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

/// How many are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Exactly(u64),
    /// So many or fewer.
    AtMost(u64),
    /// So many or more.
    AtLeast(u64),
}

impl Amount {
    /// Whether a number is wanted.
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

/// A cycle as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleShape {
    /// Events that it lived.
    pub events: Option<Amount>,
    /// Steps that it thought.
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
