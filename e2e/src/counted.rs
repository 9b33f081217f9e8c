//! The tools whose effects the counter counts. They are declared as an operator declares tools, so that every build has
//! them, the shipped one too.

use agent::call::Effect;
use serde_json::{Value, json};

use crate::Result;
use crate::client::HttpClient;

/// A tool whose effects are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTool {
    /// Name.
    pub name: &'static str,
    /// What repeating a call of it would do.
    pub effect: Effect,
}

/// The tool whose effect is the end of the server: the counter never answers it, and whoever runs the server kills it.
pub const KILL_SERVER: &str = "kill_server";

/// All of them.
pub const COUNTED: [CountedTool; 4] = [
    CountedTool { name: "count_read", effect: Effect::ReadOnly },
    CountedTool { name: "count_idempotent", effect: Effect::Idempotent },
    CountedTool { name: "count_unsafe", effect: Effect::Unsafe },
    CountedTool { name: KILL_SERVER, effect: Effect::Unsafe },
];

/// The counted tool of that name.
pub fn counted(name: &str) -> Option<&'static CountedTool> {
    COUNTED.iter().find(|tool| tool.name == name)
}

/// Declares all counted tools at the server. `lying`: those whose calls must not be repeated are declared
/// as if they only read.
pub async fn declare(client: &HttpClient, counter: &str, lying: bool) -> Result<()> {
    for tool in &COUNTED {
        let lie = lying && tool.effect == Effect::Unsafe;
        let effect = if lie { Effect::ReadOnly } else { tool.effect };
        client.put(&format!("/v1/tools/{}", tool.name), &declaration(tool.name, effect, counter)).await?;
    }
    Ok(())
}

/// A request to the counter. A template cannot write our call id, so the ticket in the arguments says which call it is;
/// the key of an idempotent call is in its `Idempotency-Key`.
fn declaration(name: &str, effect: Effect, counter: &str) -> Value {
    let host = counter.trim_start_matches("http://").split('/').next();
    json!({
        "kind": "http",
        "description": "Does something outside that is counted there.",
        "effect": effect,
        // Nothing that the guard would keep apart.
        "labels": [],
        "timeout": "10s",
        "input": {
            "type": "object",
            "required": ["ticket"],
            "additionalProperties": false,
            "properties": {"ticket": {"type": "string", "description": "What it is done for; no two calls have the same."}},
        },
        "http": {
            "method": "POST",
            "url": counter,
            "json": {"tool": name, "ticket": "{{ ticket }}"},
            "allow": [host],
        },
    })
}
