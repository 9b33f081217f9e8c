//! The tools whose effects the counter counts. They are declared as an operator declares tools, so that every build has
//! them, the shipped one too.

use agent::call::{Effect, Runner};
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
    /// Who runs it: the server as an HTTP request, or a worker.
    pub runner: Runner,
}

/// The tool whose effect is the end of the server: the counter never answers it, and whoever runs the server kills it.
pub const KILL_SERVER: &str = "kill_server";

/// The tool whose calls a person must approve; the config of the agents says so.
pub const APPROVED: &str = "count_unsafe_approved";

/// Those that a worker runs have this at their end.
pub const BY_WORKER: &str = "_by_worker";

/// All of them.
pub const COUNTED: [CountedTool; 8] = [
    CountedTool { name: APPROVED, effect: Effect::Unsafe, runner: Runner::Node },
    CountedTool { name: "count_read", effect: Effect::ReadOnly, runner: Runner::Node },
    CountedTool { name: "count_idempotent", effect: Effect::Idempotent, runner: Runner::Node },
    CountedTool { name: "count_unsafe", effect: Effect::Unsafe, runner: Runner::Node },
    CountedTool { name: KILL_SERVER, effect: Effect::Unsafe, runner: Runner::Node },
    CountedTool { name: "count_read_by_worker", effect: Effect::ReadOnly, runner: Runner::Worker },
    CountedTool { name: "count_idempotent_by_worker", effect: Effect::Idempotent, runner: Runner::Worker },
    CountedTool { name: "count_unsafe_by_worker", effect: Effect::Unsafe, runner: Runner::Worker },
];

/// The counted tool of that name.
pub fn counted(name: &str) -> Option<&'static CountedTool> {
    COUNTED.iter().find(|tool| tool.name == name)
}

/// Declares the counted tools of this runner at the server. `lying`: those whose calls must not be repeated are declared
/// as if they only read.
pub async fn declare(client: &HttpClient, runner: Runner, counter: &str, lying: bool) -> Result<()> {
    for tool in COUNTED.iter().filter(|tool| tool.runner == runner) {
        let lie = lying && tool.effect == Effect::Unsafe;
        let effect = if lie { Effect::ReadOnly } else { tool.effect };
        client.put(&format!("/v1/tools/{}", tool.name), &declaration(tool, effect, counter)).await?;
    }
    Ok(())
}

fn declaration(tool: &CountedTool, effect: Effect, counter: &str) -> Value {
    let mut declaration = common(effect);
    let how = match tool.runner {
        // No person runs a counted tool.
        Runner::Node | Runner::Person => by_http(tool.name, counter),
        // No cycle waits long for a dead worker, and none at all for one of the tools: its time-out is that of the call.
        Runner::Worker => {
            let asynchronous = tool.effect == Effect::Idempotent;
            json!({
                "kind": "worker",
                "timeout": if asynchronous { "10m" } else { "250ms" },
                "async": asynchronous,
                "worker": {"version": "1"},
            })
        }
    };
    for (key, value) in how.as_object().into_iter().flatten() {
        declaration[key] = value.clone();
    }
    declaration
}

fn common(effect: Effect) -> Value {
    json!({
        "description": "Does something outside that is counted there.",
        "effect": effect,
        // Nothing that the guard would keep apart.
        "labels": [],
        "input": {
            "type": "object",
            "required": ["ticket"],
            "additionalProperties": false,
            "properties": {"ticket": {"type": "string", "description": "What it is done for; no two calls have the same."}},
        },
    })
}

/// A request to the counter. A template cannot write our call id, so the ticket in the arguments says which call it is;
/// the key of an idempotent call is in its `Idempotency-Key`.
fn by_http(name: &str, counter: &str) -> Value {
    let host = counter.trim_start_matches("http://").split('/').next();
    json!({
        "kind": "http",
        "timeout": "10s",
        "http": {
            "method": "POST",
            "url": counter,
            "json": {"tool": name, "ticket": "{{ ticket }}"},
            "allow": [host],
        },
    })
}
