//! Finds the space and the members that a model names by id, handle or display name. The error for an
//! unknown name lists the valid ones.
//!
//! A space that the agent is not a member of is treated as unknown.

use std::borrow::Cow;

use crate::arguments::cut;
use crate::message_lines::unreadable;
use agent::entity::Member;
use agent::id::{EntityId, SpaceId};
use agent::life::{Facts, SpaceFacts};
use agent::limits;
use agent::port::{ToolContext, ToolError};
use agent::quote::quoted;

/// The space to use if none is named: the active one, including a change in this step, or the agent's only
/// space.
pub(crate) fn current(context: &ToolContext<'_>) -> Option<SpaceId> {
    context.facts.default_space(context.pending.active_space.or(context.active_space))
}

/// The space of that id, handle or display name.
pub(crate) async fn named<'a>(
    context: &ToolContext<'a>,
    name: &str,
) -> Result<Cow<'a, SpaceFacts>, ToolError> {
    let (facts, name) = (context.facts, name.trim());
    if let Some(found) = facts.find_space(name) {
        return Ok(Cow::Borrowed(found));
    }
    if let Some(found) = unlisted(context, name.to_owned()).await? {
        return Ok(Cow::Owned(found));
    }
    let called = facts.spaces.iter().filter(|facts| same_text(&facts.space.display_name, name)).count();
    let wanted = match called {
        0 => format!("wanted one of your spaces, got `{}`", cut(name)),
        // Spaces that the facts do not list may have the same display name.
        1 => format!("wanted a handle, got the display name `{}`", cut(name)),
        _ => format!("several of your spaces are called `{}`: give a handle", cut(name)),
    };
    Err(ToolError::new(format!("{wanted}; {}", spaces(facts))))
}

/// The named space, or the current one ([`current`]). The membership is checked again, because it may have
/// ended since the space became active.
pub(crate) async fn named_or_current<'a>(
    context: &ToolContext<'a>,
    name: Option<&str>,
) -> Result<Cow<'a, SpaceFacts>, ToolError> {
    if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
        return named(context, name).await;
    }
    let hint = "name a `space` or call enter_space first";
    let Some(id) = current(context) else {
        return Err(ToolError::new(format!("you are in no space: {hint}; {}", spaces(context.facts))));
    };
    if let Some(found) = context.facts.space(id) {
        return Ok(Cow::Borrowed(found));
    }
    unlisted(context, id.to_string()).await?.map(Cow::Owned).ok_or_else(|| {
        let gone = format!("you are no member of the space that you were in (id {id})");
        ToolError::new(format!("{gone}: {hint}; {}", spaces(context.facts)))
    })
}

/// A space by id or handle that the facts do not list.
async fn unlisted(context: &ToolContext<'_>, name: String) -> Result<Option<SpaceFacts>, ToolError> {
    if context.facts.more_spaces == 0 {
        return Ok(None);
    }
    context.lookup.space(context.agent, name).await.map_err(unreadable)
}

/// The named members, each once, in the given order.
pub(crate) async fn members(
    context: &ToolContext<'_>,
    space: &SpaceFacts,
    names: &[String],
) -> Result<Vec<EntityId>, ToolError> {
    let mut space = Cow::Borrowed(space);
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        if member(&space, name).is_none() && space.more_members > 0 {
            let all = context.lookup.space(context.agent, space.space.id.to_string()).await;
            space = all.map_err(unreadable)?.map_or(space, Cow::Owned);
        }
        let Some(member) = member(&space, name) else {
            let name_of_space = quoted(&space.space.display_name);
            let list = listed(space.members.iter().map(shown));
            return Err(ToolError::new(format!(
                "wanted the handle of a member of {name_of_space}, got `{}`; its members: {list}",
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
        // A display name is accepted if only one member has it.
        let mut same = space.members.iter().filter(|member| same_text(&member.entity.display_name, &name));
        same.next().filter(|_| same.next().is_none() && space.more_members == 0)
    })
}

fn same_text(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// The agent's spaces as text.
fn spaces(facts: &Facts) -> String {
    if facts.spaces.is_empty() {
        return "you are a member of no space".to_owned();
    }
    let each = facts.spaces.iter().map(|facts| {
        let space = &facts.space;
        format!("`{}` ({})", space.name, quoted(&space.display_name))
    });
    let more = match facts.more_spaces {
        0 => String::new(),
        _ => " and more".to_owned(),
    };
    format!("your spaces: {}{more}", listed(each))
}

fn shown(member: &Member) -> String {
    let entity = &member.entity;
    format!("`{}` ({}, {})", entity.name, quoted(&entity.display_name), entity.kind.as_str())
}

/// Joins the items that fit, and adds the number of those that do not.
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
