//! The JSON of a search in an agent's archive.

use agent::event::Trust;
use agent::id::{CycleId, SpaceId};
use agent::port::{Excerpt, RecallKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::names;

/// What to search for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecallParams {
    /// The words, at most 4 KiB; signs between them mean nothing.
    pub query: String,
    /// Return only texts of this time or later: a time, or a date for its beginning, in UTC if it names no zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Return only texts before this time: a time, or a date for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Return only messages of this space and texts of cycles about it, by id or handle. The agent must be a member of it or have processed something of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Return only texts of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline, value_type = Option<names::RecallKind>)]
    pub kind: Option<RecallKind>,
    /// Number of excerpts, 1 to 50. Default: 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Recalled)]
pub struct RecalledJson {
    /// The best first.
    pub items: Vec<ExcerptJson>,
    /// Always `null`: a search gives the best excerpts only.
    pub next: Option<String>,
    /// Whether the index is still being built: then older texts may be missing.
    pub building: bool,
    /// Whether the agent is in more than 32 spaces, so that only messages of those with the newest ones were searched.
    #[serde(default)]
    pub newest_spaces_only: bool,
}

/// A part of a text that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Excerpt)]
pub struct ExcerptJson {
    /// When the text was written.
    pub at: Timestamp,
    /// Where it was found: `inbox` (what the agent was shown), `assistant` (what it wrote), `outcomes` (what its calls
    /// returned), `memory`, or `message` (of a space that it is a member of).
    #[schema(value_type = names::RecallKind)]
    pub kind: RecallKind,
    /// Cycle that it belongs to; `null` for a memory that an operator wrote, and for a message that the agent has neither
    /// processed nor written.
    pub cycle: Option<CycleId>,
    /// Key of the memory.
    pub key: Option<String>,
    /// Id of the message's space, or of the one that the cycle was about; `null` if there is none, or several.
    pub space: Option<SpaceId>,
    /// Handle of that space.
    pub space_handle: Option<String>,
    /// The trust of the message, the entry or the memory.
    #[schema(value_type = Option<names::Trust>)]
    pub trust: Option<Trust>,
    /// The part with the words.
    pub text: String,
}

copied! {
    found: Excerpt => ExcerptJson {
        ..found => { at, kind, cycle, key, space, space_handle, trust, text }
    }
}
