//! `set_memories` and `delete_memories`: notes under a key, which the agent's workspace shows in every
//! activation. `set_memories` makes all its changes or none; `delete_memories` fails only if no key exists.

use agent::changes::{Inward, MemoryChange};
use agent::limits;
use agent::memory::{self, Importance};
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::{ToolLabel, names};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::cut;
use crate::space_ref::listed;
use crate::typed::{PrebuiltTool, done, put_listed};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct MemoryArg {
    #[schemars(length(min = 1))]
    key: String,
    value: String,
    importance: Option<ImportanceArg>,
    pinned: Option<bool>,
}

// No doc comment: the model would read it.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum ImportanceArg {
    Low,
    Normal,
    High,
}

/// Arguments of `set_memories`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetMemoriesArgs {
    #[schemars(length(min = 1, max = limits::MEMORIES_MAX))]
    memories: Vec<MemoryArg>,
}

/// `set_memories`.
pub(crate) struct SetMemories;

impl PrebuiltTool for SetMemories {
    type Args = SetMemoriesArgs;
    const NAME: &'static str = names::SET_MEMORIES;
    const DESCRIPTION: &'static str =
        "Save or overwrite notes by key; you see them when you wake up, pinned ones always.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: SetMemoriesArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let nothing = |wrong: String| ToolError::new(format!("nothing was set: {wrong}"));
        let mut set = Vec::new();
        let mut memories = Vec::with_capacity(args.memories.len());
        for MemoryArg { key, value, importance, pinned } in args.memories {
            let key = key.trim().to_owned();
            if let Some(wrong) = memory::flaw(&key, &value) {
                return Err(nothing(wrong));
            }
            if !set.contains(&key) {
                set.push(key.clone());
            }
            let importance = importance.map(|importance| match importance {
                ImportanceArg::Low => Importance::Low,
                ImportanceArg::Normal => Importance::Normal,
                ImportanceArg::High => Importance::High,
            });
            memories.push(MemoryChange::Set { key, value, importance, pinned, trust: None });
        }
        let changes = context.pending.memories.iter().chain(&memories);
        let after = memory::after(&context.facts.memories, changes);
        memory::check(&after).map_err(|wrong| nothing(wrong.to_string()))?;
        let mut reply = json!({"success": true});
        put_listed(&mut reply, "set", &set);
        reply["total"] = json!(after.len());
        Ok(done(&reply, Inward { memories, ..Inward::default() }))
    }
}

/// Arguments of `delete_memories`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteMemoriesArgs {
    #[schemars(length(min = 1, max = limits::MEMORIES_MAX))]
    keys: Vec<String>,
}

/// `delete_memories`.
pub(crate) struct DeleteMemories;

impl PrebuiltTool for DeleteMemories {
    type Args = DeleteMemoriesArgs;
    const NAME: &'static str = "delete_memories";
    const DESCRIPTION: &'static str = "Delete notes by key.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: DeleteMemoriesArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let mut keys = memory::after(&context.facts.memories, &context.pending.memories);
        let (mut deleted, mut not_found) = (Vec::new(), Vec::new());
        for key in args.keys {
            let key = key.trim().to_owned();
            if keys.remove(key.as_str()).is_some() {
                deleted.push(key);
            } else if !deleted.contains(&key) && !not_found.contains(&key) {
                not_found.push(key);
            }
        }
        if deleted.is_empty() {
            let asked = listed(not_found.iter().map(|key| format!("`{}`", cut(key))));
            let known = match keys.len() {
                0 => "you keep no notes".to_owned(),
                _ => format!("your keys: {}", listed(keys.keys().map(|key| format!("`{key}`")))),
            };
            return Err(ToolError::new(format!("no note of yours has the key {asked}; {known}")));
        }
        let memories = deleted.iter().map(|key| MemoryChange::Delete { key: key.clone() }).collect();
        let mut reply = json!({"success": true});
        put_listed(&mut reply, "deleted", &deleted);
        if !not_found.is_empty() {
            // The length of these keys was not checked.
            let not_found: Vec<_> = not_found.iter().map(|key| cut(key)).collect();
            put_listed(&mut reply, "not_found", &not_found);
        }
        reply["total"] = json!(keys.len());
        Ok(done(&reply, Inward { memories, ..Inward::default() }))
    }
}
