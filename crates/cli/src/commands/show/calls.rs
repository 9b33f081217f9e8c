//! Calls of an agent that have no answer yet, as `viv show agent` and `viv show run` list them.

use agent::call::CallState;
use agent::id::AgentId;
use serde_json::Value;
use server::api::Call;

use crate::client::{Client, typed};
use crate::errors::{Exit, Result};
use crate::output::{Screen, shortened};
use crate::target::agent_path;

/// Columns of arguments in a line.
const PREVIEW: usize = 40;

/// The calls as the server tells them; none where it is older than they are.
pub(super) async fn fetched(client: &Client, agent: AgentId) -> Result<Value> {
    match client.get(&agent_path(agent, "/calls")).await {
        Err(failure) if failure.exit == Exit::NotFound => Ok(Value::Array(Vec::new())),
        answer => Ok(answer?["items"].take()),
    }
}

/// A line for each, with the id that `viv cancel` takes.
pub(super) async fn lines(client: &Client, screen: &Screen, agent: AgentId) -> Result<Vec<String>> {
    let calls: Vec<Call> = typed("calls", fetched(client, agent).await?)?;
    Ok(calls.iter().map(|call| line(screen, call)).collect())
}

fn line(screen: &Screen, call: &Call) -> String {
    let Call { id, tool, arguments, effect, state, .. } = call;
    let stands = match state {
        CallState::Planned if effect.as_str() == "unsafe" => "not begun",
        CallState::Planned | CallState::Started => "at work",
        CallState::Done => "over",
    };
    let arguments = shortened(&screen.clean_line(arguments), PREVIEW);
    format!("{id}  {} {arguments} ({stands})", screen.clean_line(tool))
}
