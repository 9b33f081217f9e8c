//! `viv memories`: the notes that an agent keeps, read and changed by an operator.

use agent::id::AgentId;
use agent::limits;
use api::{MemoryJson, MemoryValue};
use client::{Client, ErrorClass, agent_path, segment, target};
use serde_json::{Value, json};

use crate::args::{MemoriesArgs, MemoriesVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::Screen;

pub(crate) async fn run(client: Client, screen: Screen, args: MemoriesArgs) -> Result<Exit> {
    if let Some(MemoriesVerb::Set { agent, key, .. } | MemoriesVerb::Remove { agent, key }) = &args.verb
        && key.is_empty()
    {
        return Err(Failure::usage("the key is empty")
            .hint(format!("such as `city`: `viv memories set {agent} city Rome`")));
    }
    match args.verb.unwrap_or(MemoriesVerb::List { agent: args.agent }) {
        MemoriesVerb::List { agent } => {
            let agent = target::agent(&client, agent.as_deref()).await?;
            let memories = all(&client, agent.id).await?;
            if screen.json {
                screen.json_list(memories);
                return Ok(Exit::Answered);
            }
            if memories.is_empty() {
                screen.text(&format!("`{}` has no memories", agent.handle));
            }
            for memory in &memories {
                screen.wrapped(&screen.clean_line(&line_of(memory)), 2);
            }
        }
        MemoriesVerb::Set { agent, key, value, pinned, importance } => {
            let agent = client.agent(&agent).await?;
            let value = match value.as_deref() {
                Some("-") => Some(input::text(limits::MEMORY_VALUE_MAX_BYTES)?),
                _ => value,
            };
            let written =
                put(&client, agent.id, &key, MemoryValue { value, importance, pinned, trust: None }).await?;
            screen.result(&written, &format!("`{}` will see `{key}` in its next cycle", agent.handle));
        }
        MemoriesVerb::Remove { agent, key } => {
            let agent = client.agent(&agent).await?;
            client.delete(&path(agent.id, &key)).await.map_err(|failure| match failure.class {
                ErrorClass::NotFound => {
                    Failure::from(failure).hint(format!("`viv memories {}` lists what it has", agent.handle))
                }
                _ => failure.into(),
            })?;
            screen.result(&json!({"deleted": key}), &format!("`{}` no longer has `{key}`", agent.handle));
        }
    }
    Ok(Exit::Answered)
}

fn line_of(MemoryJson { key, value, importance, pinned, .. }: &MemoryJson) -> String {
    let pinned = if *pinned { ", pinned" } else { "" };
    format!("{key} ({}{pinned}): {value}", importance.as_str())
}

fn path(agent: AgentId, key: &str) -> String {
    agent_path(agent, &format!("/memories/{}", segment(key)))
}

pub(super) async fn all(client: &Client, agent: AgentId) -> Result<Vec<MemoryJson>> {
    Ok(client.list_as(&agent_path(agent, "/memories"), limits::MEMORIES_MAX).await?)
}

pub(super) async fn put(client: &Client, agent: AgentId, key: &str, memory: MemoryValue) -> Result<Value> {
    Ok(client.put(&path(agent, key), &memory).await?)
}
