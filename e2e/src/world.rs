//! The agents, people and spaces of the kill loop: three agents, two people, three spaces.

use serde_json::json;

use crate::Result;
use crate::client::HttpClient;
use crate::counted::{APPROVED, KILL_SERVER};

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

/// The tools of the agents, those whose outside effects are counted among them.
pub const TOOLS: [&str; 7] =
    ["send_message", "skip", "done", "set_memories", "delete_memories", "count_*", KILL_SERVER];

/// Creates everything except what the first start creates: a person, `ada` and `home`. The counted tools must be
/// declared before.
pub async fn create_world(client: &HttpClient) -> Result<()> {
    client.create("/v1/entities", &json!({"handle": "mia", "display_name": "Mia"})).await?;
    // The model fails at random here, so failures say nothing about the events, even if the same events are hit
    // often. Inboxes must not be full, because events of services would be rejected.
    let limits = json!({"max_attempts": 100, "inbox_max": 1_000_000});
    // Few enough that histories are compacted all the time.
    let history = json!({"max_entries": 24});
    let config = json!({"limits": limits, "history": history, "tools": TOOLS, "approve": [APPROVED]});
    client.change("/v1/agents/ada", &json!({"config": config})).await?;
    for agent in ["ben", "cora"] {
        client.create("/v1/agents", &json!({"handle": agent, "config": config})).await?;
    }
    client.create("/v1/spaces/home/members", &json!({"entity": "mia"})).await?;
    for WorldSpace { name, people, agents } in &SPACES[1..] {
        let members: Vec<_> = people.iter().chain(agents.iter()).collect();
        client.create("/v1/spaces", &json!({"handle": name, "members": members})).await?;
    }
    Ok(())
}
