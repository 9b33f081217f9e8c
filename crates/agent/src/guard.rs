//! The guard: which calls are refused, or need a person, while strangers' text is in what the model reads.
//!
//! A model does what a text tells it, whoever wrote it. Harm needs three things: a stranger's text (the view is
//! tainted), something that is not for everyone (nearly always: `shown` says what), and a way out (a tool that
//! `exfiltrates`, or a message into a space of which a server outside is told). While the first two are in what a request
//! shows, nothing takes the third without a person. Must not know how a tool is run, nor who labelled it.

use std::sync::Arc;

use jiff::Timestamp;

use crate::call::Effect;
use crate::changes::{Changes, CommitKind, GoalChange, PlanChange};
use crate::compaction;
use crate::entry::Entry;
use crate::event::Trust;
use crate::id::CycleId;
use crate::life::{Activation, Goal, Window};
use crate::plan::Plan;
use crate::tool::{ToolLabel, ToolSpec};

mod given;
mod shown;
mod vouched;

pub use given::{address, names_address};
pub use shown::{InView, Private, of_facts};
pub use vouched::{Vouched, check_field, trust_of_delivery};

names! {
    /// How an agent's outward calls are guarded.
    #[derive(Default)]
    pub enum GuardMode {
        /// What is private and a way out do not meet while the view is tainted, and no unsafe call is run.
        Strict,
        /// What is private and a way out meet while the view is tainted only if a person approves the call.
        #[default]
        Ask,
        /// Nothing is refused.
        Off,
    }
}

/// What clearing an agent's guard leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct Clearing {
    /// The commit that clears it.
    pub changes: Changes,
    /// Entries that the view no longer shows.
    pub entries: usize,
    /// Goals that were written after strangers' text was read, and are deleted with it: only their agent could do that.
    pub goals: Vec<String>,
    /// Names of plans that were set after strangers' text was read, and are deleted with it.
    pub plans: Vec<String>,
    /// Keys of memories that were written after strangers' text was read: they are still shown.
    pub memories: Vec<String>,
    /// Whether a summary that was written after strangers' text was read is still shown, without what it says of them.
    pub summary: bool,
}

/// Takes strangers' text out of what an agent's model reads. The log stays as it is, and what the view still shows counts as
/// before. For an agent without an open cycle.
pub fn clear(activation: &Activation, now: Timestamp) -> Clearing {
    let Activation { life, view, window, facts, .. } = activation;
    let window = match window {
        Window::Loaded(window) => window.as_slice(),
        Window::Unchanged => &[],
    };
    let last = window.last().map_or(CycleId(uuid::Uuid::nil()), |entry| entry.cycle);
    let mut changes = Changes::new(CommitKind::View, last, 0, life.commit_n, now);
    changes.view = compaction::cleared(view, window);
    let gone = |entry: &&Arc<Entry>| changes.view.as_ref().is_some_and(|view| !view.shows(entry.seq));
    let entries = window.iter().filter(gone).count();
    let goals: Vec<&Goal> = facts.goals.iter().filter(|goal| goal.trust == Trust::Outside).collect();
    changes.inward.goals = goals.iter().map(|goal| GoalChange::Delete(goal.id)).collect();
    let goals = goals.into_iter().map(|goal| goal.description.clone()).collect();
    let plans: Vec<&Plan> = facts.plans.iter().filter(|plan| plan.trust == Trust::Outside).collect();
    changes.inward.plans = plans.iter().map(|plan| PlanChange::Delete(plan.id)).collect();
    let plans = plans.into_iter().map(|plan| plan.name.clone()).collect();
    let outside = facts.memories.iter().filter(|memory| memory.trust == Trust::Outside);
    let memories = outside.map(|memory| memory.key.clone()).collect();
    let is_outside = view.trust == Trust::Outside;
    let summary = is_outside && changes.view.as_ref().is_some_and(|view| view.summary.is_some());
    Clearing { changes, entries, goals, plans, memories, summary }
}

/// What the guard says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardVerdict {
    /// It may run.
    Free,
    /// It may run if a person approves it, who reads why.
    Asks(String),
    /// It may not run; the model reads why.
    Refused(String),
}

/// What the next request of an agent with these tools shows.
pub fn exposure(activation: &Activation, tools: &[ToolSpec]) -> Exposure {
    let Activation { view, window, facts, recent, waiting, .. } = activation;
    let window = match window {
        Window::Loaded(window) => window.as_slice(),
        Window::Unchanged => &[],
    };
    let entries = window.iter().map(|entry| InView::Entry(entry));
    let facts = of_facts(facts, recent).chain(waiting.iter().map(InView::Waiting));
    Exposure::of(std::iter::once(InView::Summary(view)).chain(entries).chain(facts), tools)
}

/// How what a call is given leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// It does not, or a person gave exactly what leaves.
    None,
    /// The tool can send it out.
    Tool,
    /// It is posted in a space of which a server outside is told.
    Space,
}

/// What an agent's next call could do harm with: what its request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The lowest trust of it.
    pub trust: Trust,
    /// What in it is not for everyone.
    pub private: Option<Private>,
}

impl Exposure {
    /// Of a request that shows all this, and these tools, to an agent. The config does not count: its operator wrote it.
    pub fn of<'a>(shown: impl IntoIterator<Item = InView<'a>>, tools: &'a [ToolSpec]) -> Self {
        let nothing = Self { trust: Trust::Operator, private: None };
        shown.into_iter().chain(tools.iter().map(InView::Tool)).fold(nothing, |known, piece| Self {
            trust: piece.trust().map_or(known.trust, |trust| known.trust.min(trust)),
            private: known.private.or_else(|| piece.private(tools)),
        })
    }

    /// Whether strangers' text is in what the model reads.
    pub fn is_tainted(&self) -> bool {
        self.trust == Trust::Outside
    }

    /// Whether a call of this tool may run.
    pub fn verdict(&self, mode: GuardMode, tool: &ToolSpec, way_out: WayOut) -> GuardVerdict {
        if mode == GuardMode::Off || !self.is_tainted() {
            return GuardVerdict::Free;
        }
        let name = &tool.name;
        if mode == GuardMode::Strict && tool.effect == Effect::Unsafe {
            let why = "it cannot be undone, and the agent's guard is `strict`";
            return GuardVerdict::Refused(refused(name, why));
        }
        // A call that reads what is private and sends it is both at once.
        let reads = || tool.labels.has(ToolLabel::Private).then_some(Private::Outcome);
        let Some(private) = self.private.or_else(reads) else { return GuardVerdict::Free };
        let private = private.as_words();
        let why = match way_out {
            WayOut::None => return GuardVerdict::Free,
            WayOut::Tool => format!("it can send out {private}"),
            WayOut::Space => {
                format!("a server outside is told what is posted there, which could be {private}")
            }
        };
        match mode {
            GuardMode::Strict => GuardVerdict::Refused(refused(name, &why)),
            GuardMode::Ask | GuardMode::Off => {
                GuardVerdict::Asks(format!("the agent has read text of strangers; `{name}`: {why}"))
            }
        }
    }
}

fn refused(tool: &str, why: &str) -> String {
    format!(
        "refused by the guard, and not run: you have read text of strangers, so `{tool}` is not available now: {why}. \
         Do not try another way; say what you wanted to do and why, so that a person can do it"
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use super::*;

    fn tool(effect: Effect, labels: &[ToolLabel]) -> ToolSpec {
        ToolSpec {
            name: "t".into(),
            description: String::new(),
            schema: Arc::default(),
            effect,
            visible: false,
            timeout: Duration::ZERO,
            asynchronous: false,
            version: String::new(),
            labels: labels.iter().copied().collect(),
            worker: None,
            foreign: false,
            counted: OnceLock::new(),
        }
    }

    #[test]
    fn what_is_private_takes_no_way_out_while_strangers_text_is_read() {
        use ToolLabel::{Exfiltrates, Outside, Private as Reads};
        let all: [&[ToolLabel]; 8] = [
            &[],
            &[Reads],
            &[Exfiltrates],
            &[Outside],
            &[Reads, Exfiltrates],
            &[Exfiltrates, Outside],
            &[Reads, Outside],
            &[Reads, Exfiltrates, Outside],
        ];
        let kinds = [Private::Summary, Private::Told, Private::Own, Private::Outcome, Private::Notes];
        for private in kinds.map(Some).into_iter().chain([None]) {
            for labels in all {
                for trust in [Trust::Outside, Trust::Agent, Trust::Member, Trust::Operator] {
                    for way_out in [WayOut::None, WayOut::Tool, WayOut::Space] {
                        let (exposure, tool) = (Exposure { trust, private }, tool(Effect::ReadOnly, labels));
                        let has = private.is_some() || labels.contains(&Reads);
                        let expected = trust == Trust::Outside && has && way_out != WayOut::None;
                        let asks = exposure.verdict(GuardMode::Ask, &tool, way_out);
                        assert_eq!(matches!(asks, GuardVerdict::Asks(_)), expected, "{labels:?}, {trust:?}");
                        let refused = exposure.verdict(GuardMode::Strict, &tool, way_out);
                        assert_eq!(matches!(refused, GuardVerdict::Refused(_)), expected);
                        assert_eq!(exposure.verdict(GuardMode::Off, &tool, way_out), GuardVerdict::Free);
                    }
                }
            }
        }
    }

    #[test]
    fn a_strict_guard_refuses_what_cannot_be_undone() {
        let tainted = Exposure { trust: Trust::Outside, private: Some(Private::Told) };
        let clean = Exposure { trust: Trust::Agent, ..tainted };
        let harmless = tool(Effect::Unsafe, &[]);
        let strict = |exposure: Exposure| exposure.verdict(GuardMode::Strict, &harmless, WayOut::None);
        assert!(matches!(strict(tainted), GuardVerdict::Refused(_)));
        assert_eq!(tainted.verdict(GuardMode::Ask, &harmless, WayOut::None), GuardVerdict::Free);
        assert_eq!(strict(clean), GuardVerdict::Free);
        let inward = tool(Effect::Inward, &[]);
        assert_eq!(tainted.verdict(GuardMode::Strict, &inward, WayOut::None), GuardVerdict::Free);
    }
}
