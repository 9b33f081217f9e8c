//! The world of the kill loop: three agents, two people, three spaces.

use serde_json::json;

use crate::Result;
use crate::client::Client;

/// Handles of the agents.
pub const AGENTS: [&str; 3] = ["ada", "ben", "cora"];
/// The spaces, with the people in them and the agents.
pub const SPACES: [WorldSpace; 3] = [
    WorldSpace { name: "home", people: &["owner", "mia"], agents: &["ada"] },
    WorldSpace { name: "pair", people: &["owner"], agents: &["ben", "cora"] },
    WorldSpace { name: "desk", people: &["owner", "mia"], agents: &["ada", "cora"] },
];

/// A space.
#[derive(Clone, Copy, Debug)]
pub struct WorldSpace {
    /// Handle.
    pub name: &'static str,
    /// People in it.
    pub people: &'static [&'static str],
    /// Agents in it.
    pub agents: &'static [&'static str],
}

/// What an agent may use whose effects outside are counted.
pub const TOOLS: [&str; 9] = [
    "send_message",
    "skip",
    "done",
    "set_memories",
    "delete_memories",
    "count_read",
    "count_idempotent",
    "count_unsafe",
    "kill_server",
];

/// Makes what the first start did not: it leaves `you`, `ada` and `home`. `counted` says whether there are tools
/// whose effects are.
pub async fn found(client: &Client, counted: bool) -> Result<()> {
    client.make("/v1/entities", &json!({"name": "mia", "display_name": "Mia"})).await?;
    // How the model fails here says nothing about the events in progress, however often it hits the same
    // ones. And no inbox is full: that would refuse services.
    let limits = json!({"max_attempts": 100, "inbox_max": 1_000_000});
    let config = json!({"limits": limits, "tools": counted.then_some(TOOLS)});
    client.amend("/v1/agents/ada", &json!({"config": config})).await?;
    for agent in ["ben", "cora"] {
        client.make("/v1/agents", &json!({"name": agent, "config": config})).await?;
    }
    client.make("/v1/spaces/home/members", &json!({"entity": "mia"})).await?;
    for WorldSpace { name, people, agents } in &SPACES[1..] {
        let members: Vec<_> = people.iter().chain(agents.iter()).collect();
        client.make("/v1/spaces", &json!({"name": name, "members": members})).await?;
    }
    Ok(())
}
