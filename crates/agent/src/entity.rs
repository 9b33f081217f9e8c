//! Members of spaces (people and agents), spaces, and handles.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::config::WakeOn;
use crate::id::{EntityId, SpaceId};
use crate::limits;

names! {
    /// What an entity is.
    pub enum EntityKind {
        /// A person.
        Human,
        /// An agent.
        Agent,
    }
}

/// A person or an agent, as other members see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Identity.
    pub id: EntityId,
    /// Human or agent.
    pub kind: EntityKind,
    /// Unique handle, `[a-z0-9_-]{1,40}`. A retired agent whose handle was taken by another has a
    /// [`crate::registry::former_name`].
    pub name: String,
    /// Free text for people; equal to the handle if none was given.
    pub display_name: String,
    /// The id in the client's own auth; humans only.
    pub external_id: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A shared timeline where members post messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Identity.
    pub id: SpaceId,
    /// Unique handle among spaces, `[a-z0-9_-]{1,40}`. A closed space whose handle was taken by another has a
    /// [`crate::registry::former_name`].
    pub name: String,
    /// Free text for people.
    pub display_name: String,
    /// What the space is for.
    pub description: String,
    /// Seq of the last message; 0 if there is none.
    pub head_seq: u64,
    /// Incremented by every durable change (message, tool message, member, names and rules).
    pub rev: u64,
    /// A closed space takes no more messages.
    pub closed: bool,
    /// Which agents' messages wake its agents. Each agent's own config has such a rule too; the stricter of the two
    /// applies.
    pub wake_on: WakeOn,
    /// When it was created.
    pub created_at: Timestamp,
}

/// An entity in a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who.
    pub entity: Entity,
    /// Free text: `owner`, `reviewer`, ….
    pub role: String,
    /// When it joined.
    pub since: Timestamp,
}

impl Member {
    /// The default role.
    pub const ROLE: &'static str = "member";
}

/// Why a text is not a handle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "wanted a handle of 1 to {max} characters from a-z, 0-9, `_` and `-`, not beginning with `-`, got `{got}`",
    max = limits::HANDLE_MAX
)]
pub struct BadHandle {
    /// What was given, shortened.
    pub got: String,
}

/// A handle in its stored form (lower case), or why it is invalid.
pub fn handle(text: &str) -> Result<String, BadHandle> {
    let lower = text.to_lowercase();
    // Command lines would take one that begins with `-` for an option.
    let fits = (1..=limits::HANDLE_MAX).contains(&lower.len())
        && !lower.starts_with('-')
        && lower.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    // A handle in the form of a UUID would be ambiguous in routes that accept a handle or an id.
    let is_id = uuid::Uuid::parse_str(&lower).is_ok();
    if fits && !is_id { Ok(lower) } else { Err(BadHandle { got: text.chars().take(60).collect() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_short_lower_case_ascii_and_not_a_uuid() {
        assert_eq!(handle("Front-End_2").unwrap(), "front-end_2");
        for bad in ["", "two words", "é", "-x", &"a".repeat(41), "0192d3e4-0000-7000-8000-000000000000"] {
            assert!(handle(bad).is_err(), "`{bad}` should be refused");
        }
    }
}
