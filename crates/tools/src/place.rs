//! Which space and which members a model means by what it writes: ids, handles, display names.
//! Whatever cannot be resolved is answered with the names that could have been given.
//!
//! This module looks at the agent's own facts only; a space that it is not a member of does not
//! exist here.

use agent::entity::Member;
use agent::id::{EntityId, SpaceId};
use agent::life::{Facts, SpaceFacts};
use agent::limits;
use agent::port::{Hands, ToolError};
use serde_json::Value;

use crate::arguments::cut;

/// The space that is meant where none is named, changes of this step included: the active one, or
/// the only one where none is active.
pub(crate) fn here(hands: &Hands<'_>) -> Option<SpaceId> {
    hands.facts.here(hands.pending.active_space.or(hands.active_space))
}

/// The space of that id, handle or display name.
pub(crate) fn named<'a>(facts: &'a Facts, name: &str) -> Result<&'a SpaceFacts, ToolError> {
    let name = name.trim();
    if let Some(found) = facts.find_space(name) {
        return Ok(found);
    }
    let called = facts.spaces.iter().filter(|facts| same_text(&facts.space.display_name, name)).count();
    let wanted = if called > 1 {
        format!("several of your spaces are called `{}`: give an id or a handle", cut(name))
    } else {
        format!("wanted one of your spaces, got `{}`", cut(name))
    };
    Err(ToolError::new(format!("{wanted}; {}", spaces(facts))))
}

/// The named space, or the one that is meant where none is named ([`here`]). Membership is looked at again: an active
/// space is remembered for longer than a membership may last.
pub(crate) fn named_or_here<'a>(hands: &Hands<'a>, name: Option<&str>) -> Result<&'a SpaceFacts, ToolError> {
    if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
        return named(hands.facts, name);
    }
    let hint = "name a `space` or call enter_space first";
    let Some(id) = here(hands) else {
        return Err(ToolError::new(format!("you are in no space: {hint}; {}", spaces(hands.facts))));
    };
    hands.facts.space(id).ok_or_else(|| {
        let gone = format!("you are no member of the space that you were in (id {id})");
        ToolError::new(format!("{gone}: {hint}; {}", spaces(hands.facts)))
    })
}

/// The members that are meant, each once, in the order given.
pub(crate) fn members(space: &SpaceFacts, names: &[String]) -> Result<Vec<EntityId>, ToolError> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let Some(member) = member(space, name) else {
            let place = quoted(&space.space.display_name);
            let list = listed(space.members.iter().map(shown));
            return Err(ToolError::new(format!(
                "wanted the id or handle of a member of {place}, got `{}`; its members: {list}",
                cut(name)
            )));
        };
        if !found.contains(&member.entity.id) {
            found.push(member.entity.id);
        }
    }
    Ok(found)
}

fn member<'a>(space: &'a SpaceFacts, name: &str) -> Option<&'a Member> {
    let name = name.trim();
    let name = name.strip_prefix('@').unwrap_or(name).to_lowercase();
    let exact = |member: &&Member| member.entity.name == name || member.entity.id.to_string() == name;
    space.members.iter().find(exact).or_else(|| {
        // A display name will do where only one member has it.
        let mut same = space.members.iter().filter(|member| same_text(&member.entity.display_name, &name));
        same.next().filter(|_| same.next().is_none())
    })
}

fn same_text(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// The agent's spaces in words.
fn spaces(facts: &Facts) -> String {
    if facts.spaces.is_empty() {
        return "you are a member of no space".to_owned();
    }
    let each = facts.spaces.iter().map(|facts| {
        let space = &facts.space;
        format!("`{}` ({}, id {})", space.name, quoted(&space.display_name), space.id)
    });
    format!("your spaces: {}", listed(each))
}

fn shown(member: &Member) -> String {
    let entity = &member.entity;
    format!(
        "`{}` ({}, {}, id {})",
        entity.name,
        quoted(&entity.display_name),
        entity.kind.as_str(),
        entity.id
    )
}

/// Foreign text as a JSON string, so that it can forge nothing around it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// As many of the items as fit, and how many are left out.
pub(crate) fn listed(items: impl Iterator<Item = String>) -> String {
    let (mut text, mut left) = (String::new(), 0usize);
    for item in items {
        if left > 0 || text.len() + item.len() > limits::LISTED_MAX_BYTES {
            left += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&item);
    }
    if left > 0 {
        text.push_str(&format!(" and {left} more"));
    }
    text
}
