//! The guard: which outward calls are refused, or need a person, while strangers' text is in what the model reads.
//!
//! A model does what a text tells it, whoever wrote it. Harm needs three things: a stranger's text (the view is
//! tainted), something that is not public (a `private` tool was used), and a way out (a tool that `exfiltrates`). Two
//! of them may meet, all three may not. Must not know how a tool is run, nor who labelled it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::call::Effect;
use crate::changes::{Changes, CommitKind, GoalChange, PlanChange};
use crate::compaction;
use crate::entry::Entry;
use crate::event::Trust;
use crate::id::CycleId;
use crate::life::{Activation, Goal, Window};
use crate::plan::Plan;
use crate::tool::{ToolLabel, ToolLabels, ToolSpec};

/// How an agent's outward calls are guarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum GuardMode {
    /// What is private and a way out do not meet while the view is tainted, and no unsafe call is run.
    Strict,
    /// What is private and a way out meet while the view is tainted only if a person approves the call.
    #[default]
    Ask,
    /// Nothing is refused.
    Off,
}

impl GuardMode {
    /// All names.
    pub const NAMES: [&str; 3] = ["strict", "ask", "off"];
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
}

/// Takes strangers' text out of what an agent's model reads, and forgets which tools it has used. The log stays as it is. For an
/// agent without an open cycle.
pub fn clear(activation: &Activation, now: Timestamp) -> Clearing {
    let Activation { life, view, window, facts, .. } = activation;
    let window = match window {
        Window::Loaded(window) => window.as_slice(),
        Window::Unchanged => &[],
    };
    let last = window.last().map_or(CycleId(uuid::Uuid::nil()), |entry| entry.cycle);
    let mut changes = Changes::new(CommitKind::View, last, 0, life.commit_n, now);
    changes.view = compaction::cleared(view, window);
    changes.forget_used = true;
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
    Clearing { changes, entries, goals, plans, memories }
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

/// What an agent's next call could do harm with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The lowest trust of what the model reads.
    pub trust: Trust,
    /// What the outward tools that the agent has called do.
    pub used: ToolLabels,
}

impl Exposure {
    /// Whether strangers' text is in what the model reads.
    pub fn is_tainted(&self) -> bool {
        self.trust == Trust::Outside
    }

    /// Whether a call of this tool may run.
    pub fn verdict(&self, mode: GuardMode, tool: &ToolSpec) -> GuardVerdict {
        if mode == GuardMode::Off || !self.is_tainted() || tool.effect == Effect::Inward {
            return GuardVerdict::Free;
        }
        let name = &tool.name;
        if mode == GuardMode::Strict && tool.effect == Effect::Unsafe {
            let why = "it cannot be undone, and the agent's guard is `strict`";
            return GuardVerdict::Refused(refused(name, why));
        }
        // A call that reads what is private and sends it is both at once.
        let after = self.used.with(tool.labels);
        let meets = after.has(ToolLabel::Private) && after.has(ToolLabel::Exfiltrates);
        let (own, why) = match (tool.labels.has(ToolLabel::Private), tool.labels.has(ToolLabel::Exfiltrates))
        {
            (true, true) => ("it reads what is not public and can send it out", ""),
            (false, true) => ("it can send out what was read before", ", and what is not public was read"),
            (true, false) => ("it reads what is not public", ", and a tool was used that can send it out"),
            (false, false) => return GuardVerdict::Free,
        };
        match mode {
            _ if !meets => GuardVerdict::Free,
            GuardMode::Strict => GuardVerdict::Refused(refused(name, &format!("{own}{why}"))),
            GuardMode::Ask | GuardMode::Off => {
                GuardVerdict::Asks(format!("the agent has read text of strangers; `{name}`: {own}{why}"))
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
    fn what_is_private_and_a_way_out_never_meet_while_strangers_text_is_read() {
        use ToolLabel::{Exfiltrates, Outside, Private};
        let all = [
            &[][..],
            &[Private],
            &[Exfiltrates],
            &[Outside],
            &[Private, Exfiltrates],
            &[Exfiltrates, Outside],
            &[Private, Outside],
            &[Private, Exfiltrates, Outside],
        ];
        for used in all {
            for labels in all {
                for trust in [Trust::Outside, Trust::Agent, Trust::Member, Trust::Operator] {
                    let exposure = Exposure { trust, used: used.iter().copied().collect() };
                    let tool = tool(Effect::ReadOnly, labels);
                    let has = |label| labels.contains(&label) || used.contains(&label);
                    let adds = labels.contains(&Private) || labels.contains(&Exfiltrates);
                    let expected = trust == Trust::Outside && adds && has(Private) && has(Exfiltrates);
                    let asks = matches!(exposure.verdict(GuardMode::Ask, &tool), GuardVerdict::Asks(_));
                    assert_eq!(asks, expected, "{used:?} then {labels:?} with {trust:?}");
                    let refused = exposure.verdict(GuardMode::Strict, &tool);
                    assert_eq!(matches!(refused, GuardVerdict::Refused(_)), expected);
                    assert_eq!(exposure.verdict(GuardMode::Off, &tool), GuardVerdict::Free);
                }
            }
        }
    }

    #[test]
    fn a_strict_guard_refuses_what_cannot_be_undone_and_no_guard_refuses_an_inward_call() {
        let tainted = Exposure { trust: Trust::Outside, used: ToolLabels::all() };
        let clean = Exposure { trust: Trust::Agent, ..tainted };
        let harmless = tool(Effect::Unsafe, &[]);
        assert!(matches!(tainted.verdict(GuardMode::Strict, &harmless), GuardVerdict::Refused(_)));
        assert_eq!(tainted.verdict(GuardMode::Ask, &harmless), GuardVerdict::Free);
        assert_eq!(clean.verdict(GuardMode::Strict, &harmless), GuardVerdict::Free);
        let inward = tool(Effect::Inward, &ToolLabel::ALL);
        assert_eq!(tainted.verdict(GuardMode::Strict, &inward), GuardVerdict::Free);
    }
}
