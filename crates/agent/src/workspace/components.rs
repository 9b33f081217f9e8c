//! The components of the workspace: one row each in [`COMPONENTS`], and a function from the facts of the moment to items. Ids
//! are shown next to names, so that the model can pass them to tools.

use crate::config::{WakeOn, WorkspacePart};
use crate::goals::{self, Branch};
use crate::inbox::sender;
use crate::life::{GoalStatus, PendingCall, SpaceFacts};
use crate::limits;
use crate::memory::Memory;
use crate::plan::{Plan, PlanSource, Schedule};
use crate::quote::{self, quoted, quoted_name};

use super::Moment;

/// One component. A new one needs a part in the config, a row in [`COMPONENTS`] and a function.
pub(super) struct Component {
    /// Its name in the config.
    pub(super) part: WorkspacePart,
    /// Its heading.
    pub(super) title: &'static str,
    /// The share of the workspace in percent that it gets in any case. What others do not use is added, in the order
    /// of the rows.
    pub(super) share: usize,
    /// Its items, the most important first.
    pub(super) items: fn(&Moment<'_>) -> Vec<Fact>,
}

/// An item of a component, shown whole or not at all.
pub(super) struct Fact {
    /// One line or more, without a line end.
    pub(super) text: String,
    /// What stands for it if there is no room for it, quoted.
    pub(super) name: Option<String>,
    /// Whether it is shown in any case. Such items come first, and their size is bounded.
    pub(super) pinned: bool,
}

impl Fact {
    fn new(text: String) -> Self {
        Self { text, name: None, pinned: false }
    }
}

/// The heading of messages that the agent was not shown.
const RECENT: &str = "Earlier messages that you were not shown";
const RECENT_SHARE: usize = 17;

/// All components, in the order in which they are shown.
pub(super) const COMPONENTS: [Component; 7] = [
    Component { part: WorkspacePart::Clock, title: "Now", share: 1, items: clock },
    Component { part: WorkspacePart::Spaces, title: "Your spaces", share: 21, items: spaces },
    Component { part: WorkspacePart::Goals, title: "Your goals", share: 16, items: goals },
    Component { part: WorkspacePart::Memories, title: "Your memories", share: 31, items: memories },
    Component { part: WorkspacePart::Plans, title: "Your plans", share: 9, items: plans },
    Component { part: WorkspacePart::Calls, title: "Your pending calls", share: 5, items: pending },
    Component { part: WorkspacePart::Messages, title: RECENT, share: RECENT_SHARE, items: recent },
];

fn clock(now: &Moment<'_>) -> Vec<Fact> {
    vec![Fact::new(now.now.to_string())]
}

fn spaces(now: &Moment<'_>) -> Vec<Fact> {
    let Moment { me, facts, active, .. } = *now;
    let mut items = Vec::new();
    for SpaceFacts { space, members, more_members } in &facts.spaces {
        let marks = match (active == Some(space.id), space.closed) {
            (true, _) => ", active",
            (false, true) => ", closed",
            (false, false) => "",
        };
        let rule = match space.wake_on {
            WakeOn::All => "",
            WakeOn::Mention => "; your messages wake other agents here only if they name them as @handle",
        };
        let head = format!("- {}{}{marks}{rule}", space.name, other_name(&space.display_name, &space.name));
        let members: Vec<String> = members
            .iter()
            .map(|member| {
                let entity = &member.entity;
                if entity.id == me.id {
                    return "you".to_owned();
                }
                format!("{} (@{}, {})", quoted_name(&entity.display_name), entity.name, entity.kind.as_str())
            })
            .collect();
        let more = match more_members {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        items.push(Fact::new(format!("{head}\n  members: {}{more}", members.join(", "))));
    }
    if facts.more_spaces > 0 {
        let at_least = if facts.spaces.len() + facts.more_spaces < limits::SPACES_COUNTED_MAX {
            ""
        } else {
            "at least "
        };
        items.push(Fact::new(format!("({at_least}{} more: name one by its handle)", facts.more_spaces)));
    }
    if items.is_empty() {
        let nobody = "none; nobody can read your messages until you are a member of a space";
        items.push(Fact::new(nobody.to_owned()));
    }
    items
}

/// The display name in parentheses, unless it equals the handle.
fn other_name(display_name: &str, handle: &str) -> String {
    match display_name.eq_ignore_ascii_case(handle) {
        true => String::new(),
        false => format!(" ({})", quoted_name(display_name)),
    }
}

fn goals(now: &Moment<'_>) -> Vec<Fact> {
    let line = |Branch { goal, depth }: Branch<'_>| {
        let indent = "  ".repeat(depth);
        let text = quoted(&goal.description);
        let state = match goal.status {
            GoalStatus::Active => format!("priority {}", goal.priority),
            finished => format!("{}, but sub-goals are active", finished.as_str()),
        };
        Fact::new(format!("{indent}- {text} | id: {} | {state}", goal.id))
    };
    goals::pursued(&now.facts.goals).into_iter().map(line).collect()
}

fn memories(now: &Moment<'_>) -> Vec<Fact> {
    let line = |memory: &Memory| {
        let (key, mark) = (quoted(&memory.key), if memory.pinned { " (pinned)" } else { "" });
        let text = format!("- {key}{mark}: {}", quoted(&memory.value));
        Fact { text, name: Some(key), pinned: memory.pinned }
    };
    now.facts.memories.iter().map(line).collect()
}

fn plans(now: &Moment<'_>) -> Vec<Fact> {
    let line = |plan: &Plan| {
        let when = quoted(&plan.schedule.to_string());
        let next = plan.next_at.filter(|_| !matches!(plan.schedule, Schedule::At { .. }));
        let next = next.map(|at| format!(", next {at}")).unwrap_or_default();
        let (name, instruction) = (quoted(&plan.name), quoted(&plan.instruction));
        Fact::new(format!("- {name} | id: {} | {when}{next}: {instruction}", plan.id))
    };
    // A heartbeat says nothing that the agent could use.
    now.facts.plans.iter().filter(|plan| plan.source != PlanSource::Heartbeat).map(line).collect()
}

/// The newest messages, oldest first, and how many older ones have no room. A long one takes at most half of the room that
/// is left; the newest is shown in any case. Their times are absolute: the same messages are always the same text.
fn recent(now: &Moment<'_>) -> Vec<Fact> {
    let mut room = (now.room * RECENT_SHARE / 100).min(limits::RECENT_MAX_BYTES);
    room = room.saturating_sub(RECENT.len() + 4 + limits::WORKSPACE_REMARK_BYTES);
    let mut lines = Vec::new();
    for message in now.recent.iter().rev() {
        let head = format!("- [space {}] {}, {}: ", message.space_handle, sender(message), message.at);
        let text = (room / 2)
            .saturating_sub(head.len())
            .clamp(limits::RECENT_TEXT_MIN_BYTES, limits::RECENT_TEXT_MAX_BYTES);
        let text = quote::within(&message.text, text);
        let left = room.checked_sub(head.len() + text.len() + 1);
        if left.is_none() && !lines.is_empty() {
            break;
        }
        room = left.unwrap_or(0);
        lines.push(Fact { text: format!("{head}{text}"), name: None, pinned: true });
    }
    let more = now.recent.len() - lines.len();
    if more > 0 {
        lines.push(Fact { text: format!("({more} earlier ones left out)"), name: None, pinned: true });
    }
    lines.reverse();
    lines
}

/// Calls whose outcomes will arrive as events.
fn pending(now: &Moment<'_>) -> Vec<Fact> {
    let line = |call: &PendingCall| Fact::new(format!("- {} | call: {}", quoted(&call.tool), call.id));
    now.facts.pending.iter().map(line).collect()
}
