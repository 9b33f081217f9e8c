//! `set_memories` and `delete_memories`: notes under a key, which the agent's workspace shows in every
//! activation. `set_memories` makes all its changes or none; `delete_memories` fails only if no key exists.

use std::collections::BTreeSet;

use agent::changes::{Inward, MemoryChange};
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
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
    const NAME: &'static str = "set_memories";
    const DESCRIPTION: &'static str =
        "Save notes by key; you see them each time you wake up. An existing key is overwritten.";

    async fn run(args: SetMemoriesArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let mut keys = current_keys(&context);
        let mut set = Vec::new();
        let mut memories = Vec::with_capacity(args.memories.len());
        for MemoryArg { key, value } in args.memories {
            let key = key.trim().to_owned();
            check_size(&key, &value)?;
            keys.insert(key.clone());
            if !set.contains(&key) {
                set.push(key.clone());
            }
            memories.push(MemoryChange::Set { key, value });
        }
        if keys.len() > limits::MEMORIES_MAX {
            let max = limits::MEMORIES_MAX;
            let got = keys.len();
            return Err(ToolError::new(format!(
                "nothing was set: wanted at most {max} notes in all, these would make {got}; \
                 use delete_memories or put several facts into one note"
            )));
        }
        let mut reply = json!({"success": true});
        put_listed(&mut reply, "set", &set);
        reply["total"] = json!(keys.len());
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

    async fn run(args: DeleteMemoriesArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let mut keys = current_keys(&context);
        let (mut deleted, mut not_found) = (Vec::new(), Vec::new());
        for key in args.keys {
            let key = key.trim().to_owned();
            if keys.remove(&key) {
                deleted.push(key);
            } else if !deleted.contains(&key) && !not_found.contains(&key) {
                not_found.push(key);
            }
        }
        if deleted.is_empty() {
            let asked = listed(not_found.iter().map(|key| format!("`{}`", cut(key))));
            let known = match keys.len() {
                0 => "you keep no notes".to_owned(),
                _ => format!("your keys: {}", listed(keys.iter().map(|key| format!("`{key}`")))),
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

/// The agent's keys, including the changes of earlier calls in this step.
fn current_keys(context: &ToolContext<'_>) -> BTreeSet<String> {
    let mut keys: BTreeSet<_> = context.facts.memories.iter().map(|memory| memory.key.clone()).collect();
    for change in &context.pending.memories {
        match change {
            MemoryChange::Set { key, .. } => keys.insert(key.clone()),
            MemoryChange::Delete { key } => keys.remove(key),
        };
    }
    keys
}

fn check_size(key: &str, value: &str) -> Result<(), ToolError> {
    let wrong = if key.is_empty() {
        "wanted a key with something in it, got only white space".to_owned()
    } else if key.len() > limits::MEMORY_KEY_MAX_BYTES {
        let max = limits::MEMORY_KEY_MAX_BYTES;
        format!("wanted a key of at most {max} bytes, got {} in `{}`", key.len(), cut(key))
    } else if value.len() > limits::MEMORY_VALUE_MAX_BYTES {
        let max = limits::MEMORY_VALUE_MAX_BYTES;
        format!("wanted a value of at most {max} bytes, got {} under `{}`", value.len(), cut(key))
    } else {
        return Ok(());
    };
    Err(ToolError::new(format!("nothing was set: {wrong}")))
}
