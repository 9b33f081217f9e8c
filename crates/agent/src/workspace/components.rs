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
    /// Its name or id as its text shows it. A later text with the same one replaces this.
    pub(super) item: String,
    /// One line or more, without a line end.
    pub(super) text: String,
    /// Its text where the items around it are not shown, if that differs.
    pub(super) alone: Option<String>,
    /// Whether its name stands for it if there is no room for it.
    pub(super) named: bool,
    /// Whether it is shown in any case. Such items come first, and their size is bounded.
    pub(super) pinned: bool,
}

impl Fact {
    fn new(item: String, text: String) -> Self {
        Self { item, text, alone: None, named: false, pinned: false }
    }

    /// Its text where it is shown by itself.
    pub(super) fn alone(&self) -> &str {
        self.alone.as_deref().unwrap_or(&self.text)
    }
}

/// The name of a memory in the workspace.
pub(super) fn memory_item(key: &str) -> String {
    quoted(key)
}

/// The name of a plan or goal in the workspace.
pub(super) fn id_item(id: impl std::fmt::Display) -> String {
    format!("id: {id}")
}

/// The item that says that further ones have no room.
const MORE: &str = "";

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
    vec![Fact::new(MORE.to_owned(), now.now.to_string())]
}

fn spaces(now: &Moment<'_>) -> Vec<Fact> {
    let Moment { me, facts, active, .. } = *now;
    let mut items = Vec::new();
    for SpaceFacts { space, members, more_members, told: _ } in &facts.spaces {
        let marks = if space.closed { ", closed" } else { "" };
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
        let text = format!("{head}\n  members: {}{more}", members.join(", "));
        items.push(Fact::new(space.name.clone(), text));
    }
    if facts.more_spaces > 0 {
        let at_least = if facts.spaces.len() + facts.more_spaces < limits::SPACES_COUNTED_MAX {
            ""
        } else {
            "at least "
        };
        let text = format!("({at_least}{} more: name one by its handle)", facts.more_spaces);
        items.push(Fact::new(MORE.to_owned(), text));
    }
    // A line of its own, because it changes more often than the spaces.
    let active = facts.spaces.iter().find(|space| active == Some(space.space.id));
    if let Some(SpaceFacts { space, .. }) = active.filter(|_| facts.spaces.len() + facts.more_spaces > 1) {
        items.push(Fact::new("active".to_owned(), format!("(active: {})", space.name)));
    }
    if items.is_empty() {
        let nobody = "none; nobody can read your messages until you are a member of a space";
        items.push(Fact::new(MORE.to_owned(), nobody.to_owned()));
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
        let (indent, item) = ("  ".repeat(depth), id_item(goal.id));
        let state = match goal.status {
            GoalStatus::Active => format!("priority {}", goal.priority),
            finished => format!("{}, but sub-goals are active", finished.as_str()),
        };
        let text = format!("- {} | {item} | {state}", quoted(&goal.description));
        let parent = goal.parent.filter(|_| depth > 0);
        let alone = parent.map(|parent| format!("{text} | sub-goal of {parent}"));
        Fact { alone, ..Fact::new(item, format!("{indent}{text}")) }
    };
    goals::pursued(&now.facts.goals).into_iter().map(line).collect()
}

fn memories(now: &Moment<'_>) -> Vec<Fact> {
    let line = |memory: &Memory| {
        let fact = Fact::new(memory_item(&memory.key), memory_line(memory));
        Fact { named: true, pinned: memory.pinned, ..fact }
    };
    now.facts.memories.iter().map(line).collect()
}

/// The line of a memory.
pub(super) fn memory_line(memory: &Memory) -> String {
    let (key, mark) = (memory_item(&memory.key), if memory.pinned { " (pinned)" } else { "" });
    format!("- {key}{mark}: {}", quoted(&memory.value))
}

fn plans(now: &Moment<'_>) -> Vec<Fact> {
    let line = |plan: &Plan| {
        let when = quoted(&plan.schedule.to_string());
        let next =
            plan.next_at.filter(|_| !matches!(plan.schedule, Schedule::At { .. } | Schedule::After { .. }));
        let next = next.map(|at| format!(", next {at}")).unwrap_or_default();
        let (name, instruction, item) = (quoted(&plan.name), quoted(&plan.instruction), id_item(plan.id));
        let text = format!("- {name} | {item} | {when}{next}: {instruction}");
        Fact::new(item, text)
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
        let item = message.id.to_string();
        lines.push(Fact { pinned: true, ..Fact::new(item, format!("{head}{text}")) });
    }
    let more = now.recent.len() - lines.len();
    if more > 0 {
        let text = format!("({more} earlier ones left out)");
        lines.push(Fact { pinned: true, ..Fact::new(MORE.to_owned(), text) });
    }
    lines.reverse();
    lines
}

/// Calls whose outcomes will arrive as events.
fn pending(now: &Moment<'_>) -> Vec<Fact> {
    let line = |call: &PendingCall| {
        let item = format!("call: {}", call.id);
        let text = format!("- {} | {item}", quoted(&call.tool));
        Fact::new(item, text)
    };
    now.facts.pending.iter().map(line).collect()
}
