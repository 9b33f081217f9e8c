//! How the room of the workspace is divided among its parts, and which items of each part fit.

use crate::layer::ShownLine;
use crate::limits;

use super::Moment;
use super::components::{COMPONENTS, Component, Fact};

/// A wanted part with its items, of which the first `fit` have room.
pub(super) struct PartSection {
    pub(super) component: &'static Component,
    pub(super) facts: Vec<Fact>,
    fit: usize,
    /// How many of the items without room are named.
    named: usize,
}

/// The wanted parts, in their order. `head` bytes are for a heading.
pub(super) fn sections(moment: &Moment<'_>, head: usize) -> Vec<PartSection> {
    let wanted = |component: &&Component| moment.parts.contains(&component.part);
    let all: Vec<_> =
        COMPONENTS.iter().filter(wanted).map(|component| (component, (component.items)(moment))).collect();
    let needs = all.iter().map(|(component, items)| needed(component, items)).collect::<Vec<_>>();
    // In a very small window, what is pinned takes more than the room there is.
    let kept = all.iter().zip(&needs).map(|((component, items), need)| pinned(component, items).min(*need));
    let mut given: Vec<usize> = kept.collect();
    let room = moment.room.saturating_sub(head);
    let shared = room.saturating_sub(given.iter().sum());
    for ((given, need), (component, _)) in given.iter_mut().zip(&needs).zip(&all) {
        *given += (need - *given).min(shared * component.share / 100);
    }
    let mut left = room.saturating_sub(given.iter().sum());
    for (given, need) in given.iter_mut().zip(&needs) {
        let more = (need - *given).min(left);
        (*given, left) = (*given + more, left - more);
    }
    let sections = all.into_iter().zip(given);
    sections.map(|((component, facts), room)| PartSection::within(component, facts, room)).collect()
}

impl PartSection {
    /// The items that fit into `room`.
    fn within(component: &'static Component, facts: Vec<Fact>, room: usize) -> Self {
        if needed(component, &facts) <= room {
            return Self { component, fit: facts.len(), facts, named: 0 };
        }
        if let [only] = facts.as_slice()
            && is_plain(only)
        {
            return Self { component, fit: 1, facts, named: 0 };
        }
        // A quarter of the room is for names.
        let mut left = room.saturating_sub(component.title.len() + 4 + limits::WORKSPACE_REMARK_BYTES);
        let any_named = facts.iter().any(|fact| fact.named);
        let mut names_room =
            if any_named { (left / 4).min(left.saturating_sub(pinned_lines(&facts))) } else { 0 };
        left -= names_room;
        let fits = |size: usize, room: &mut usize| {
            let rest = room.checked_sub(size);
            *room = rest.unwrap_or(0);
            rest.is_some()
        };
        let fit = facts.iter().take_while(|fact| fits(fact.text.len() + 1, &mut left)).count();
        let names = facts[fit..].iter().filter(|fact| fact.named);
        let named = names.take_while(|fact| fits(fact.item.len() + 2, &mut names_room)).count();
        Self { component, facts, fit, named }
    }

    /// Its items, each as it is shown.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Fact, ShownLine)> {
        let line = |(at, fact): (usize, &Fact)| match at < self.fit {
            true => ShownLine::of(fact.alone()),
            false => ShownLine::LeftOut,
        };
        self.facts.iter().enumerate().map(move |(at, fact)| (fact, line((at, fact))))
    }

    /// The whole section, empty if there is nothing to show.
    pub(super) fn text(&self) -> String {
        let title = self.component.title;
        match self.facts.as_slice() {
            [] => String::new(),
            [only] if is_plain(only) => format!("\n{title}: {}\n", only.text),
            facts => {
                let (shown, out) = facts.split_at(self.fit);
                let mut text = format!("\n{title}:\n");
                for fact in shown {
                    text.push_str(&fact.text);
                    text.push('\n');
                }
                if !out.is_empty() {
                    let names = out.iter().filter(|fact| fact.named).take(self.named);
                    let names: Vec<&str> = names.map(|fact| fact.item.as_str()).collect();
                    text.push_str(&remark(out.len(), &names));
                }
                text
            }
        }
    }
}

/// How many items have no room, with the names of some.
pub(super) fn remark(count: usize, names: &[&str]) -> String {
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    format!("({count} more left out{names})\n")
}

/// Whether an item that is alone in its section stands on the line of the heading.
fn is_plain(fact: &Fact) -> bool {
    !fact.text.contains('\n') && !fact.text.starts_with('-')
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
