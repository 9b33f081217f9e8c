//! The workspace: facts of the moment, shown behind the inbox entry and never part of the consciousness. It is rendered
//! once per cycle; what changes meanwhile is appended at the end, because nothing that was sent is edited.
//!
//! What was shown is found in the layers themselves, so an activation that continues a cycle knows it too. Texts of
//! others are quoted on one line, so no such text can look like a heading.

mod components;
mod system;

use jiff::Timestamp;

use crate::config::WorkspacePart;
use crate::entity::Entity;
use crate::event::NamedMessage;
use crate::id::SpaceId;
use crate::life::Facts;
use crate::limits;
use components::{COMPONENTS, Component, Fact};
pub use system::system;

const HEAD: &str = "[WORKSPACE — facts of this moment, not part of your history]";
const UPDATE_HEAD: &str = "[WORKSPACE — what has changed]";

/// Whether the text shows the whole workspace: then what was shown before it is out of date.
pub fn is_whole(text: &str) -> bool {
    text.starts_with(HEAD)
}

/// What the workspace shows.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The agent.
    pub me: &'a Entity,
    /// Its facts.
    pub facts: &'a Facts,
    /// Earlier messages of the spaces of its events that it was not shown, oldest first.
    pub recent: &'a [NamedMessage],
    /// Its active space.
    pub active: Option<SpaceId>,
    /// The parts that are wanted.
    pub parts: &'a [WorkspacePart],
    /// Maximum number of bytes.
    pub room: usize,
    /// The time.
    pub now: Timestamp,
}

impl Moment<'_> {
    /// The whole workspace; `None` if no part is wanted.
    pub fn whole(&self) -> Option<String> {
        if self.parts.is_empty() {
            return None;
        }
        let sections = self.sections().into_iter().filter(|(_, section)| !section.is_empty());
        let sections: String = sections.map(|(_, section)| section).collect();
        Some(format!("{HEAD}\n{sections}").trim_end().to_owned())
    }

    /// The parts that differ from what the agent was last `shown` and does not know otherwise; `None` if there are none.
    /// The time is a difference if it was shown more than `stale_minutes` ago.
    pub fn update(&self, shown: &[&str], known: &[Section], stale_minutes: i64) -> Option<String> {
        let changed = self.sections().into_iter().filter_map(|(component, section)| {
            let heading = format!("\n{}:", component.title);
            let last = shown.iter().rev().find(|text| text.contains(&heading));
            if component.part == WorkspacePart::Clock {
                return is_stale(last, self.now, stale_minutes).then_some(section);
            }
            if component.part == WorkspacePart::Messages {
                // They are shown once. That there are no others makes what was shown no less true.
                let is_shown =
                    shown.iter().any(|text| format!("{text}\n\n").contains(&format!("{section}\n")));
                return (!section.is_empty() && !is_shown).then_some(section);
            }
            let is_known = known.iter().any(|(part, text)| *part == component.part && *text == section);
            match last {
                _ if is_known => None,
                None if section.is_empty() => None,
                // A use changes the order of memories and nothing that the agent reads of them.
                Some(text) if component.part == WorkspacePart::Memories && same_lines(text, &section) => None,
                Some(text) => {
                    let section = if section.is_empty() { format!("{heading} none\n") } else { section };
                    // A part ends with an empty line.
                    (!format!("{text}\n\n").contains(&format!("{section}\n"))).then_some(section)
                }
                None => Some(section),
            }
        });
        let changed: String = changed.collect();
        (!changed.is_empty()).then(|| format!("{UPDATE_HEAD}\n{changed}").trim_end().to_owned())
    }

    /// The part as it is shown now.
    pub fn section(&self, part: WorkspacePart) -> Option<Section> {
        let found = self.sections().into_iter().find(|(component, _)| component.part == part);
        found.map(|(_, section)| (part, section))
    }

    /// The wanted components with their text, empty if there is nothing to show.
    fn sections(&self) -> Vec<(&'static Component, String)> {
        let wanted = |component: &&Component| self.parts.contains(&component.part);
        let all: Vec<_> =
            COMPONENTS.iter().filter(wanted).map(|component| (component, (component.items)(self))).collect();
        let needs = all.iter().map(|(component, items)| needed(component, items)).collect::<Vec<_>>();
        // In a very small window, what is pinned takes more than the room there is.
        let kept =
            all.iter().zip(&needs).map(|((component, items), need)| pinned(component, items).min(*need));
        let mut given: Vec<usize> = kept.collect();
        let room = self.room.saturating_sub(HEAD.len() + 1);
        let shared = room.saturating_sub(given.iter().sum());
        for ((given, need), (component, _)) in given.iter_mut().zip(&needs).zip(&all) {
            *given += (need - *given).min(shared * component.share / 100);
        }
        let mut left = room.saturating_sub(given.iter().sum());
        for (given, need) in given.iter_mut().zip(&needs) {
            let more = (need - *given).min(left);
            (*given, left) = (*given + more, left - more);
        }
        let text = |((component, items), room): ((&'static Component, Vec<Fact>), usize)| {
            (component, section(component, &items, room))
        };
        all.into_iter().zip(given).map(text).collect()
    }
}

/// A part and its text as it is shown.
pub type Section = (WorkspacePart, String);

/// Whether the text has the section with the same lines, in any order.
fn same_lines(text: &str, section: &str) -> bool {
    let sorted = |section: &str| {
        let mut lines: Vec<&str> = section.trim().lines().collect();
        lines.sort_unstable();
        lines.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    let heading = section.trim().lines().next().unwrap_or_default();
    // A section ends with an empty line.
    let shown = text.split("\n\n").find(|shown| shown.trim().lines().next() == Some(heading));
    shown.is_some_and(|shown| !heading.is_empty() && sorted(shown) == sorted(section))
}

/// Whether `last` shows no time, or one that is older than so many minutes.
fn is_stale(last: Option<&&str>, now: Timestamp, minutes: i64) -> bool {
    let time = last.and_then(|text| text.split("\nNow: ").nth(1)?.lines().next()?.parse::<Timestamp>().ok());
    time.is_none_or(|time| now.as_second() - time.as_second() > minutes * 60)
}

/// Bytes that the whole component takes.
fn needed(component: &Component, items: &[Fact]) -> usize {
    match items.iter().map(|item| item.text.len() + 1).sum::<usize>() {
        0 => 0,
        items => items + component.title.len() + 4,
    }
}

/// Bytes that the component takes in any case: its pinned items, and the remark on the others.
fn pinned(component: &Component, items: &[Fact]) -> usize {
    match pinned_lines(items) {
        0 => 0,
        lines => lines + component.title.len() + 4 + limits::WORKSPACE_REMARK_BYTES,
    }
}

fn pinned_lines(items: &[Fact]) -> usize {
    items.iter().filter(|item| item.pinned).map(|item| item.text.len() + 1).sum()
}

/// The items that fit into `room`, then how many do not, with the names of some.
fn section(component: &Component, items: &[Fact], room: usize) -> String {
    let title = component.title;
    match items {
        [] => String::new(),
        [only] if !only.text.contains('\n') && !only.text.starts_with('-') => {
            format!("\n{title}: {}\n", only.text)
        }
        _ if needed(component, items) <= room => {
            let lines: String = items.iter().map(|item| format!("{}\n", item.text)).collect();
            format!("\n{title}:\n{lines}")
        }
        _ => {
            // A quarter of the room is for names.
            let mut left = room.saturating_sub(title.len() + 4 + limits::WORKSPACE_REMARK_BYTES);
            let named = items.iter().any(|item| item.name.is_some());
            let mut names_room =
                if named { (left / 4).min(left.saturating_sub(pinned_lines(items))) } else { 0 };
            left -= names_room;
            let fits = |size: usize, room: &mut usize| {
                let rest = room.checked_sub(size);
                *room = rest.unwrap_or(0);
                rest.is_some()
            };
            let count = items.iter().take_while(|item| fits(item.text.len() + 1, &mut left)).count();
            let lines: String = items[..count].iter().map(|item| format!("{}\n", item.text)).collect();
            let names = items[count..].iter().filter_map(|item| item.name.as_deref());
            let names: Vec<&str> = names.take_while(|name| fits(name.len() + 2, &mut names_room)).collect();
            let more = items.len() - count;
            let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
            format!("\n{title}:\n{lines}({more} more left out{names})\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WakeOn;
    use crate::entity::{EntityKind, Member, Space};
    use crate::event::Trust;
    use crate::id::{EntityId, GoalId, MessageId};
    use crate::life::{Goal, GoalStatus, SpaceFacts};
    use crate::memory::{self, Importance, Memory};
    use uuid::Uuid;

    fn entity(n: u128, name: &str, kind: EntityKind) -> Entity {
        Entity {
            id: EntityId(Uuid::from_u128(n)),
            kind,
            name: name.into(),
            display_name: name.to_uppercase(),
            external_id: None,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn facts() -> Facts {
        let member = |entity| Member { entity, role: String::new(), since: Timestamp::UNIX_EPOCH };
        let space = Space {
            id: SpaceId(Uuid::from_u128(9)),
            name: "family".into(),
            display_name: "Family \"1\"".into(),
            description: String::new(),
            head_seq: 0,
            rev: 0,
            closed: false,
            wake_on: WakeOn::All,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let members =
            vec![member(entity(1, "ada", EntityKind::Agent)), member(entity(2, "husam", EntityKind::Human))];
        Facts {
            spaces: vec![SpaceFacts { space, members, more_members: 0, told: false }],
            ..Facts::default()
        }
    }

    fn moment<'a>(me: &'a Entity, facts: &'a Facts, active: Option<SpaceId>) -> Moment<'a> {
        let (parts, room, now) = (&WorkspacePart::ALL, limits::WORKSPACE_MAX_BYTES, Timestamp::UNIX_EPOCH);
        Moment { me, facts, recent: &[], active, parts, room, now }
    }

    fn rendered(me: &Entity, facts: &Facts, active: Option<SpaceId>) -> String {
        moment(me, facts, active).whole().unwrap()
    }

    #[test]
    fn only_the_wanted_parts_are_shown_in_their_order() {
        let me = entity(1, "ada", EntityKind::Agent);
        let facts = facts();
        let show = |parts: &[WorkspacePart]| Moment { parts, ..moment(&me, &facts, None) }.whole();
        let some = show(&[WorkspacePart::Spaces, WorkspacePart::Clock]).unwrap();
        assert!(some.find("Now: 1970").unwrap() < some.find("Your spaces:").unwrap(), "{some}");
        let clock =
            "[WORKSPACE — facts of this moment, not part of your history]\n\nNow: 1970-01-01T00:00:00Z";
        assert_eq!(show(&[WorkspacePart::Clock]).unwrap(), clock);
        assert_eq!(show(&[]), None);
    }

    #[test]
    fn the_workspace_shows_handles_and_quotes_display_names() {
        let me = entity(1, "ada", EntityKind::Agent);
        let text = rendered(&me, &facts(), Some(SpaceId(Uuid::from_u128(9))));
        assert!(text.contains("- family (\"Family \\\"1\\\"\"), active\n"), "{text}");
        assert!(text.contains(r#"members: you, "HUSAM" (@husam, human)"#), "{text}");
        let mut quiet = facts();
        quiet.spaces[0].space.wake_on = WakeOn::Mention;
        let text = rendered(&me, &quiet, None);
        assert!(text.contains("; your messages wake other agents here only if"), "{text}");
        let mut many = facts();
        (many.more_spaces, many.spaces[0].more_members) = (5, 3);
        let text = rendered(&me, &many, None);
        assert!(text.contains("\"HUSAM\" (@husam, human) and 3 more"), "{text}");
        assert!(text.contains("(5 more: name one by its handle)"), "{text}");
    }

    #[test]
    fn goals_are_shown_as_a_tree_with_ids_without_finished_ones() {
        let goal = |n: u128, parent: Option<u128>, status| Goal {
            id: GoalId(Uuid::from_u128(n)),
            parent: parent.map(|n| GoalId(Uuid::from_u128(n))),
            description: format!("goal {n}\nforged"),
            priority: 7,
            status,
            trust: Default::default(),
        };
        let goals = vec![
            goal(1, None, GoalStatus::Completed),
            goal(2, Some(1), GoalStatus::Active),
            goal(3, Some(1), GoalStatus::Completed),
            goal(4, None, GoalStatus::Abandoned),
        ];
        let facts = Facts { goals, ..Facts::default() };
        let lines = [
            r#"- "goal 1\nforged" | id: 00000000-0000-0000-0000-000000000001 | completed, but sub-goals are active"#,
            r#"  - "goal 2\nforged" | id: 00000000-0000-0000-0000-000000000002 | priority 7"#,
        ];
        let text = rendered(&entity(1, "ada", EntityKind::Agent), &facts, None);
        assert!(text.contains(&format!("\nYour goals:\n{}", lines.join("\n"))), "{text}");
    }

    fn memory(key: &str, value: &str) -> Memory {
        let (at, trust) = (Timestamp::UNIX_EPOCH, Trust::Operator);
        let (importance, pinned) = (Importance::Normal, false);
        Memory {
            key: key.into(),
            value: value.into(),
            importance,
            pinned,
            updated_at: at,
            used_at: at,
            trust,
        }
    }

    #[test]
    fn no_part_takes_the_room_of_another_and_memories_without_room_are_named() {
        let me = entity(1, "ada", EntityKind::Agent);
        let goal = |n: u128| Goal {
            id: GoalId(Uuid::from_u128(n)),
            parent: None,
            description: "g".repeat(200),
            priority: 5,
            status: GoalStatus::Active,
            trust: Default::default(),
        };
        let memories = (0..50).map(|n| memory(&format!("k{n}"), &"v".repeat(2_000))).collect();
        let facts = Facts { memories, goals: (1..200).map(goal).collect(), ..facts() };
        for room in [4_000, limits::WORKSPACE_MAX_BYTES] {
            let text = Moment { room, ..moment(&me, &facts, None) }.whole().unwrap();
            assert!(text.len() <= room, "{} of {room}", text.len());
            assert!(text.contains("members: you") && text.contains("Your goals:\n- \"ggg"), "{text}");
            assert!(text.contains("more left out: \"k") && text.contains("\"k40\""), "{text}");
        }
        let text = rendered(&me, &facts, None);
        assert!(text.contains("Your memories:\n- \"k0\": \"vvv"), "{text}");
        let few = Facts { goals: Vec::new(), ..facts };
        assert!(rendered(&me, &few, None).matches(": \"vvv").count() > text.matches(": \"vvv").count());
    }

    #[test]
    fn pinned_memories_are_shown_in_any_window_before_anything_else() {
        let me = entity(1, "ada", EntityKind::Agent);
        let many = (0..200).map(|n| memory(&format!("k{n}"), &"v".repeat(2_000)));
        let bytes = limits::PINNED_MEMORIES_MAX_BYTES / limits::PINNED_MEMORIES_MAX;
        let frame = memory::shown_bytes("p00", "");
        let value = "p".repeat(bytes - frame);
        let pinned = (0..limits::PINNED_MEMORIES_MAX)
            .map(|n| Memory { pinned: true, ..memory(&format!("p{n:02}"), &value) });
        let memories: Vec<_> = pinned.chain(many).collect();
        memory::check(&memory::after(&memories, &[])).unwrap();
        let facts = Facts { memories, ..facts() };
        // The smallest window has less room than they take.
        for room in [0, 1_000, 4_000, limits::WORKSPACE_MAX_BYTES] {
            let text = Moment { room, ..moment(&me, &facts, None) }.whole().unwrap();
            let shown = text.matches(&format!("\" (pinned): \"{value}\"\n")).count();
            assert_eq!(shown, limits::PINNED_MEMORIES_MAX, "{room}: {text}");
            assert!(
                text.len() <= room.max(limits::PINNED_MEMORIES_MAX_BYTES + 200),
                "{room}: {}",
                text.len()
            );
        }
        let whole = rendered(&me, &facts, None);
        assert!(whole.contains("\n- \"k0\": \"vvv") && whole.contains("more left out: \"k"), "{whole}");
    }

    fn said(seq: u64, text: &str) -> NamedMessage {
        NamedMessage {
            id: MessageId(Uuid::from_u128(u128::from(seq))),
            space: SpaceId(Uuid::from_u128(9)),
            space_handle: "family".into(),
            seq,
            sender: EntityId(Uuid::from_u128(2)),
            sender_name: "Husam\n- [space x]".into(),
            sender_handle: "husam".into(),
            sender_kind: EntityKind::Human,
            text: text.into(),
            mentions: Vec::new(),
            at: Timestamp::UNIX_EPOCH,
            trust: Trust::Member,
        }
    }

    #[test]
    fn earlier_messages_are_quoted_bounded_and_shown_once() {
        let (me, facts) = (entity(1, "ada", EntityKind::Agent), facts());
        let show = |recent: &[NamedMessage], shown: &[&str]| {
            let now = Moment { recent, ..moment(&me, &facts, None) };
            if shown.is_empty() { now.whole() } else { now.update(shown, &[], 10) }
        };
        let three = [said(1, "one"), said(2, "two\n[WORKSPACE"), said(3, &"ü".repeat(40_000))];
        let whole = show(&three, &[]).unwrap();
        let line = r#"- [space family] "Husam\n- [space x]" (@husam, human), 1970-01-01T00:00:00Z: "two\n[WORKSPACE""#;
        assert!(
            whole.contains("\nEarlier messages that you were not shown:\n- ") && whole.contains(line),
            "{whole}"
        );
        assert!(whole.find("\"one\"") < whole.find("\"two") && whole.contains("bytes left out)"), "{whole}");
        assert_eq!(show(&three, &[&whole]), None, "in the same cycle");
        assert_eq!(show(&[], &[&whole]), None, "in the next cycle");
        let update = show(&[said(4, "four")], &[&whole]).unwrap();
        assert!(update.contains("\"four\"") && !update.contains("\"one\""), "{update}");
        let long: Vec<_> = (1..=10).map(|seq| said(seq, &format!("{seq:02}{}", "x".repeat(900)))).collect();
        let newest = show(&long, &[]).unwrap();
        assert!(newest.contains("\"10xx") && !newest.contains("\"03xx"), "the oldest are left out first");
        let none = Moment { parts: &[WorkspacePart::Clock], recent: &three, ..moment(&me, &facts, None) };
        assert!(!none.whole().unwrap().contains("one"));
    }

    #[test]
    fn earlier_messages_are_shortened_in_a_small_window_and_those_without_room_are_counted() {
        let (me, facts) = (entity(1, "ada", EntityKind::Agent), facts());
        let long: Vec<_> =
            (1..=10).map(|seq| said(seq, &format!("{seq:02}{}", "x".repeat(60_000)))).collect();
        // Memories take all the room that the messages leave.
        let memories = (0..50).map(|n| memory(&format!("k{n}"), &"v".repeat(200))).collect();
        let facts = Facts { memories, ..facts };
        let small = crate::tokens::bytes_within(8_192 / limits::WORKSPACE_SHARE);
        for (room, shown) in [(0, 1), (small, 2), (limits::WORKSPACE_MAX_BYTES, 5)] {
            let text = Moment { recent: &long, room, ..moment(&me, &facts, None) }.whole().unwrap();
            assert!(text.len() <= room.max(600), "{room}: {}", text.len());
            assert!(text.contains("\"10xx"), "the newest is shown: {text}");
            let lines = text.matches("bytes left out)").count();
            assert!(lines >= shown, "{lines} of {room}: {text}");
            let remark = format!("not shown:\n({} earlier ones left out)\n- ", 10 - lines);
            assert!(text.contains(&remark), "{room}: {text}");
        }
        let two = [said(1, "one"), said(2, "two")];
        let both = Moment { recent: &two, room: small, ..moment(&me, &facts, None) }.whole().unwrap();
        assert!(both.contains("\"one\"\n") && both.contains("\"two\""), "{both}");
    }

    #[test]
    fn only_what_has_changed_is_shown_again() {
        let me = entity(1, "ada", EntityKind::Agent);
        let before = Facts { memories: vec![memory("a", "1"), memory("b", "2")], ..facts() };
        let whole = rendered(&me, &before, None);
        let update = |facts: &Facts, more: &str, known: &[Section]| {
            moment(&me, facts, None).update(&[&whole, more], known, 10)
        };
        assert_eq!(update(&before, "", &[]), None);
        let fewer = Facts { memories: vec![memory("a", "1")], ..before.clone() };
        let shown = "[WORKSPACE — what has changed]\n\nYour memories:\n- \"a\": \"1\"";
        assert_eq!(update(&fewer, "", &[]).unwrap(), shown);
        assert_eq!(update(&fewer, shown, &[]), None, "shown once");
        assert!(update(&before, shown, &[]).unwrap().contains("\"b\""), "it changed back");
        let used = Facts { memories: vec![memory("b", "2"), memory("a", "1")], ..before.clone() };
        assert_eq!(update(&used, "", &[]), None, "only their order");
        let none = Facts { memories: Vec::new(), ..before.clone() };
        assert_eq!(update(&none, "", &[]).unwrap(), "[WORKSPACE — what has changed]\n\nYour memories: none");
        let known = moment(&me, &fewer, None).section(WorkspacePart::Memories).unwrap();
        assert_eq!(update(&fewer, "", &[known]), None, "its own change");
    }

    #[test]
    fn the_time_is_shown_again_when_it_is_old() {
        let (me, facts) = (entity(1, "ada", EntityKind::Agent), facts());
        let whole = rendered(&me, &facts, None);
        let at =
            |second| Moment { now: Timestamp::from_second(second).unwrap(), ..moment(&me, &facts, None) };
        assert_eq!(at(600).update(&[&whole], &[], 10), None);
        let later = at(601).update(&[&whole], &[], 10).unwrap();
        assert_eq!(later, "[WORKSPACE — what has changed]\n\nNow: 1970-01-01T00:10:01Z");
        assert_eq!(at(700).update(&[&whole, &later], &[], 10), None);
    }
}
