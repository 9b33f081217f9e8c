//! The workspace: facts of the moment, shown behind the inbox entry and never part of the consciousness. It is rendered
//! whole once per view, or once per cycle; later only the lines that have changed are added at the end, because nothing that
//! was sent is edited.
//!
//! What was shown is known from the records of the layers, so an activation that continues a cycle knows it too. Texts of
//! others are quoted on one line, so no such text can look like a heading.

mod components;
mod layout;
mod system;

use jiff::Timestamp;

use crate::changes::{GoalChange, Inward, PlanChange};
use crate::config::WorkspacePart;
use crate::entity::Entity;
use crate::event::NamedMessage;
use crate::id::SpaceId;
use crate::layer::{Known, ShownLine, ShownLines, ShownPart};
use crate::life::Facts;
use crate::memory::Memory;
use components::{Component, Fact};
use layout::PartSection;
pub use system::system;

const HEAD: &str = "[WORKSPACE — facts of this moment, not part of your history]";
const UPDATE_HEAD: &str =
    "[WORKSPACE — what has changed: these lines replace those with the same name or id]";

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

/// A text about the workspace, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// What it shows.
    pub shown: ShownLines,
}

/// What the agent has changed itself, and so knows from the outcomes of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnChange {
    /// The item of that part.
    Item(WorkspacePart, String),
    /// Anything in that part.
    Part(WorkspacePart),
}

impl OwnChange {
    /// What these changes are.
    pub fn of(inward: &Inward) -> Vec<Self> {
        let memories = inward.memories.iter().map(|change| components::memory_item(change.key()));
        let plans = inward.plans.iter().map(|change| match change {
            PlanChange::Set(plan) => components::id_item(plan.id),
            PlanChange::Delete(id) => components::id_item(id),
        });
        // With a goal its sub-goals change.
        let goals = inward.goals.first().map(|_: &GoalChange| Self::Part(WorkspacePart::Goals));
        let spaces = inward.active_space.map(|_| Self::Part(WorkspacePart::Spaces));
        let memories = memories.map(|item| Self::Item(WorkspacePart::Memories, item));
        let plans = plans.map(|item| Self::Item(WorkspacePart::Plans, item));
        memories.chain(plans).chain(goals).chain(spaces).collect()
    }

    fn covers(&self, of: WorkspacePart, name: &str) -> bool {
        match self {
            Self::Item(part, item) => *part == of && item == name,
            Self::Part(part) => *part == of,
        }
    }
}

impl Moment<'_> {
    /// The whole workspace; `None` if no part is wanted.
    pub fn whole(&self) -> Option<Rendered> {
        if self.parts.is_empty() {
            return None;
        }
        let sections = layout::sections(self, HEAD.len() + 1);
        let text: String = sections.iter().map(PartSection::text).collect();
        let mut shown = ShownLines::default();
        for section in &sections {
            if section.component.part == WorkspacePart::Clock {
                shown.clock = Some(self.now);
                continue;
            }
            let lines: Vec<_> = section.lines().map(|(fact, line)| (fact.item.clone(), line)).collect();
            if !lines.is_empty() {
                shown.parts.push(ShownPart { part: section.component.part, lines });
            }
        }
        Some(Rendered { text: format!("{HEAD}\n{text}").trim_end().to_owned(), shown })
    }

    /// The lines that differ from what the agent was shown; `None` if there are none. The time is a difference if it was
    /// shown more than `stale_minutes` ago.
    pub fn update(&self, known: &Known, stale_minutes: i64) -> Option<Rendered> {
        let (mut text, mut shown) = (String::new(), ShownLines::default());
        for section in layout::sections(self, HEAD.len() + 1) {
            let part = section.component.part;
            if part == WorkspacePart::Clock {
                let age = known.clock.map(|at| self.now.as_second() - at.as_second());
                if age.is_none_or(|age| age > stale_minutes * 60) {
                    text += &section.text();
                    shown.clock = Some(self.now);
                }
                continue;
            }
            let changed = changed(&section, known);
            if changed.lines.is_empty() {
                continue;
            }
            text += &changed.text(section.component.title, section.facts.is_empty());
            shown.parts.push(ShownPart { part, lines: changed.lines });
        }
        let text = format!("{UPDATE_HEAD}\n{text}").trim_end().to_owned();
        (!shown.is_empty()).then_some(Rendered { text, shown })
    }

    /// The lines as they are now of what the agent has changed itself. A pinned memory is not among them: it is shown in any
    /// case.
    pub fn own(&self, own: &[OwnChange], known: &Known) -> Vec<(WorkspacePart, String, ShownLine)> {
        let mut lines = Vec::new();
        for section in layout::sections(self, HEAD.len() + 1) {
            let part = section.component.part;
            let is_own = |item: &str| own.iter().any(|change| change.covers(part, item));
            let now = section.facts.iter().filter(|fact| !fact.pinned && is_own(&fact.item));
            lines.extend(now.map(|fact| (part, fact.item.clone(), ShownLine::of(fact.alone()))));
            let exists = |item: &str| section.facts.iter().any(|fact| fact.item == item);
            let gone = known.items(part).filter(|item| !exists(item) && is_own(item));
            lines.extend(gone.map(|item| (part, item.to_owned(), ShownLine::Gone)));
        }
        lines
    }
}

/// The keys of pinned memories whose line is in none of the texts.
pub fn missing_pins<'a>(memories: &[Memory], texts: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let is_missing = |memory: &&Memory| {
        let line = components::memory_line(memory);
        memory.pinned && !texts.clone().any(|text| text.contains(&line))
    };
    memories.iter().filter(is_missing).map(|memory| memory.key.clone()).collect()
}

/// What of a section is not known.
struct Changed<'a> {
    /// What is shown with it.
    lines: Vec<(String, ShownLine)>,
    facts: Vec<&'a Fact>,
    left_out: Vec<&'a Fact>,
    gone: Vec<String>,
}

fn changed<'a>(section: &'a PartSection, known: &Known) -> Changed<'a> {
    let Component { part, .. } = *section.component;
    let mut changed =
        Changed { lines: Vec::new(), facts: Vec::new(), left_out: Vec::new(), gone: Vec::new() };
    // Messages are shown once: that there are no others makes what was shown no less true.
    let once = part == WorkspacePart::Messages;
    for (fact, line) in section.lines() {
        match (known.get(part, &fact.item), line) {
            (None, ShownLine::LeftOut) => changed.left_out.push(fact),
            (None, _) => changed.facts.push(fact),
            // The remark on those left out is about the others that are new.
            (Some(_), _) if once => changed.facts.extend(fact.item.is_empty().then_some(fact)),
            // It was shown, and now that it has no room it is still true, unless it has changed.
            (Some(was @ ShownLine::Text(_)), _) if was == ShownLine::of(fact.alone()) => {}
            (Some(was), line) if was == line => {}
            (Some(_), _) => changed.facts.push(fact),
        }
    }
    if once && changed.facts.iter().all(|fact| fact.item.is_empty()) {
        changed.facts.clear();
    }
    if !once {
        let exists = |item: &str| section.facts.iter().any(|fact| fact.item == item);
        changed.gone = known.items(part).filter(|item| !exists(item)).map(str::to_owned).collect();
    }
    let facts = changed.facts.iter().map(|fact| (fact.item.clone(), ShownLine::of(fact.alone())));
    let left_out = changed.left_out.iter().map(|fact| (fact.item.clone(), ShownLine::LeftOut));
    let gone = changed.gone.iter().map(|item| (item.clone(), ShownLine::Gone));
    changed.lines = facts.chain(left_out).chain(gone).collect();
    changed
}

impl Changed<'_> {
    fn text(&self, title: &str, none: bool) -> String {
        if none {
            return format!("\n{title}: none\n");
        }
        let mut text = format!("\n{title}:\n");
        for fact in &self.facts {
            text += &format!("{}\n", fact.alone());
        }
        for item in &self.gone {
            text +=
                &if item.is_empty() { "(no others)\n".to_owned() } else { format!("- no longer: {item}\n") };
        }
        if !self.left_out.is_empty() {
            let names = self.left_out.iter().filter(|fact| fact.named).map(|fact| fact.item.as_str());
            text += &layout::remark(self.left_out.len(), &names.collect::<Vec<_>>());
        }
        text
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
    use crate::limits;
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
        moment(me, facts, active).whole().unwrap().text
    }

    #[test]
    fn only_the_wanted_parts_are_shown_in_their_order() {
        let me = entity(1, "ada", EntityKind::Agent);
        let facts = facts();
        let show = |parts: &[WorkspacePart]| {
            Moment { parts, ..moment(&me, &facts, None) }.whole().map(|whole| whole.text)
        };
        let some = show(&[WorkspacePart::Spaces, WorkspacePart::Clock]).unwrap();
        assert!(some.find("Now: 1970").unwrap() < some.find("Your spaces:").unwrap(), "{some}");
        let clock = format!("{HEAD}\n\nNow: 1970-01-01T00:00:00Z");
        assert_eq!(show(&[WorkspacePart::Clock]).unwrap(), clock);
        assert_eq!(show(&[]), None);
    }

    #[test]
    fn the_workspace_shows_handles_and_quotes_display_names() {
        let me = entity(1, "ada", EntityKind::Agent);
        let text = rendered(&me, &facts(), Some(SpaceId(Uuid::from_u128(9))));
        assert!(text.contains("- family (\"Family \\\"1\\\"\")\n") && !text.contains("(active"), "{text}");
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
        let text = rendered(&me, &many, Some(SpaceId(Uuid::from_u128(9))));
        assert!(text.contains("\n(active: family)"), "{text}");
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
            let text = Moment { room, ..moment(&me, &facts, None) }.whole().unwrap().text;
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
            let text = Moment { room, ..moment(&me, &facts, None) }.whole().unwrap().text;
            let shown = text.matches(&format!("\" (pinned): \"{value}\"\n")).count();
            assert_eq!(shown, limits::PINNED_MEMORIES_MAX, "{room}: {text}");
            assert!(
                text.len() <= room.max(limits::PINNED_MEMORIES_MAX_BYTES + HEAD.len() + 150),
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
        let show = |recent: &[NamedMessage], shown: &[&Rendered]| {
            let now = Moment { recent, ..moment(&me, &facts, None) };
            if shown.is_empty() { now.whole() } else { now.update(&known(shown), 10) }
        };
        let three = [said(1, "one"), said(2, "two\n[WORKSPACE"), said(3, &"ü".repeat(40_000))];
        let first = show(&three, &[]).unwrap();
        let whole = &first.text;
        let line = r#"- [space family] "Husam\n- [space x]" (@husam, human), 1970-01-01T00:00:00Z: "two\n[WORKSPACE""#;
        assert!(
            whole.contains("\nEarlier messages that you were not shown:\n- ") && whole.contains(line),
            "{whole}"
        );
        assert!(whole.find("\"one\"") < whole.find("\"two") && whole.contains("bytes left out)"), "{whole}");
        assert_eq!(show(&three, &[&first]), None, "in the same cycle");
        assert_eq!(show(&[], &[&first]), None, "in the next cycle");
        let update = show(&[said(4, "four")], &[&first]).unwrap().text;
        assert!(update.contains("\"four\"") && !update.contains("\"one\""), "{update}");
        let long: Vec<_> = (1..=10).map(|seq| said(seq, &format!("{seq:02}{}", "x".repeat(900)))).collect();
        let newest = show(&long, &[]).unwrap().text;
        assert!(newest.contains("\"10xx") && !newest.contains("\"03xx"), "the oldest are left out first");
        let none = Moment { parts: &[WorkspacePart::Clock], recent: &three, ..moment(&me, &facts, None) };
        assert!(!none.whole().unwrap().text.contains("\"one\""));
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
            let text = Moment { recent: &long, room, ..moment(&me, &facts, None) }.whole().unwrap().text;
            assert!(text.len() <= room.max(600), "{room}: {}", text.len());
            assert!(text.contains("\"10xx"), "the newest is shown: {text}");
            let lines = text.matches("bytes left out)").count();
            assert!(lines >= shown, "{lines} of {room}: {text}");
            let remark = format!("not shown:\n({} earlier ones left out)\n- ", 10 - lines);
            assert!(text.contains(&remark), "{room}: {text}");
        }
        let two = [said(1, "one"), said(2, "two")];
        let both = Moment { recent: &two, room: small, ..moment(&me, &facts, None) }.whole().unwrap().text;
        assert!(both.contains("\"one\"\n") && both.contains("\"two\""), "{both}");
    }

    fn known(shown: &[&Rendered]) -> Known {
        let mut known = Known::default();
        shown.iter().for_each(|rendered| known.add(&rendered.shown));
        known
    }

    #[test]
    fn only_the_lines_that_have_changed_are_shown_again() {
        let me = entity(1, "ada", EntityKind::Agent);
        let with = |memories: &[(&str, &str)]| {
            let memories = memories.iter().map(|(key, value)| memory(key, value)).collect();
            Facts { memories, ..facts() }
        };
        let before = with(&[("a", "1"), ("b", "2")]);
        let whole = moment(&me, &before, None).whole().unwrap();
        let update = |facts: &Facts, more: &[&Rendered]| {
            moment(&me, facts, None).update(&known(&[&[&whole], more].concat()), 10)
        };
        let lines = |rendered: &Rendered| rendered.text.strip_prefix(UPDATE_HEAD).unwrap().to_owned();
        assert_eq!(update(&before, &[]), None);
        let fewer = update(&with(&[("a", "1")]), &[]).unwrap();
        assert_eq!(lines(&fewer), "\n\nYour memories:\n- no longer: \"b\"");
        assert_eq!(update(&with(&[("a", "1")]), &[&fewer]), None, "shown once");
        let back = update(&before, &[&fewer]).unwrap();
        assert_eq!(lines(&back), "\n\nYour memories:\n- \"b\": \"2\"", "it changed back");
        assert_eq!(update(&before, &[&fewer, &back]), None);
        assert_eq!(update(&with(&[("b", "2"), ("a", "1")]), &[]), None, "only their order");
        let other = update(&with(&[("a", "3"), ("b", "2"), ("c", "4")]), &[]).unwrap();
        assert_eq!(lines(&other), "\n\nYour memories:\n- \"a\": \"3\"\n- \"c\": \"4\"");
        assert_eq!(lines(&update(&with(&[]), &[]).unwrap()), "\n\nYour memories: none");
        // What it changed itself it knows, but a pin is shown.
        let own = [OwnChange::Item(WorkspacePart::Memories, "\"a\"".into())];
        let own_update = |facts: &Facts| {
            let now = moment(&me, facts, None);
            let mut known = known(&[&whole]);
            for (part, item, line) in now.own(&own, &known.clone()) {
                known.set(part, &item, line);
            }
            now.update(&known, 10)
        };
        assert_eq!(own_update(&with(&[("a", "3"), ("b", "2")])), None);
        assert_eq!(own_update(&with(&[("b", "2")])), None);
        assert!(
            lines(&own_update(&with(&[("a", "3"), ("b", "5")])).unwrap().clone()).ends_with("- \"b\": \"5\"")
        );
        let mut pinned = with(&[("a", "3"), ("b", "2")]);
        pinned.memories[0].pinned = true;
        assert!(own_update(&pinned).unwrap().text.ends_with("- \"a\" (pinned): \"3\""));
    }

    #[test]
    fn what_loses_its_room_is_still_known_and_what_never_had_any_is_named_once() {
        let me = entity(1, "ada", EntityKind::Agent);
        let of = |keys: &[usize]| Facts {
            memories: keys.iter().map(|n| memory(&format!("k{n}"), &"v".repeat(200))).collect(),
            ..facts()
        };
        let small = |facts: &Facts, shown: &[&Rendered]| {
            let now = Moment { room: 1_500, ..moment(&me, facts, None) };
            if shown.is_empty() { now.whole() } else { now.update(&known(shown), 10) }
        };
        let before: Vec<usize> = (0..8).collect();
        let whole = small(&of(&before), &[]).unwrap();
        assert!(
            whole.text.contains("- \"k0\"") && whole.text.contains("more left out: \"k"),
            "{}",
            whole.text
        );
        // The last one was used and comes first now: it is shown, and what it drove out is not repeated.
        let used = of(&[7, 0, 1, 2, 3, 4, 5, 6]);
        let update = small(&used, &[&whole]).unwrap();
        assert_eq!(update.text.matches("\": \"vvv").count(), 1, "{}", update.text);
        assert!(
            update.text.contains("- \"k7\": \"vvv") && !update.text.contains("no longer"),
            "{}",
            update.text
        );
        assert_eq!(small(&of(&before), &[&whole, &update]), None);
        let more = small(&of(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), &[&whole]).unwrap();
        assert!(more.text.ends_with("\n(1 more left out: \"k8\")"), "{}", more.text);
        assert_eq!(small(&of(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), &[&whole, &more]), None);
        // One that was shown and has no room any more is shown when it changes.
        let mut changed = used.clone();
        let last =
            changed.memories.iter().rposition(|memory| whole.text.contains(&format!("- \"{}\"", memory.key)));
        changed.memories[last.unwrap()].value = "new".into();
        assert!(small(&changed, &[&whole, &update]).unwrap().text.contains(": \"new\""));
    }

    #[test]
    fn a_goal_that_is_shown_alone_names_the_goal_above_it() {
        let goal = |n: u128, parent: Option<u128>, priority| Goal {
            id: GoalId(Uuid::from_u128(n)),
            parent: parent.map(|n| GoalId(Uuid::from_u128(n))),
            description: format!("goal {n}"),
            priority,
            status: GoalStatus::Active,
            trust: Default::default(),
        };
        let me = entity(1, "ada", EntityKind::Agent);
        let of = |priority| Facts { goals: vec![goal(1, None, 5), goal(2, Some(1), priority)], ..facts() };
        let whole = moment(&me, &of(5), None).whole().unwrap();
        let update = moment(&me, &of(6), None).update(&known(&[&whole]), 10).unwrap().text;
        let id = "00000000-0000-0000-0000-00000000000";
        let line = format!("- \"goal 2\" | id: {id}2 | priority 6 | sub-goal of {id}1");
        assert_eq!(update, format!("{UPDATE_HEAD}\n\nYour goals:\n{line}"));
    }

    #[test]
    fn the_time_is_shown_again_when_it_is_old() {
        let (me, facts) = (entity(1, "ada", EntityKind::Agent), facts());
        let whole = moment(&me, &facts, None).whole().unwrap();
        let at =
            |second| Moment { now: Timestamp::from_second(second).unwrap(), ..moment(&me, &facts, None) };
        assert_eq!(at(600).update(&known(&[&whole]), 10), None);
        let later = at(601).update(&known(&[&whole]), 10).unwrap();
        assert_eq!(later.text, format!("{UPDATE_HEAD}\n\nNow: 1970-01-01T00:10:01Z"));
        assert_eq!(at(700).update(&known(&[&whole, &later]), 10), None);
    }

    #[test]
    fn a_pin_that_no_text_shows_is_missing() {
        let pinned = Memory { pinned: true, ..memory("rule", "never") };
        let memories = [pinned, memory("tea", "at 5")];
        let texts = |text: &'static str| missing_pins(&memories, [text].into_iter());
        assert_eq!(texts("- \"rule\" (pinned): \"never\"\n"), Vec::<String>::new());
        assert_eq!(texts("- \"rule\": \"never\"\n- \"tea\": \"at 5\""), ["rule"]);
    }
}
