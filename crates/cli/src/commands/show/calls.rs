//! Calls of an agent that have no result yet, as `viv agents show` and `viv runs show` list them.

use agent::call::{CallState, OutcomeStatus, Runner};
use agent::id::{AgentId, CallId};
use api::{Call, LoggedEvent, RunJson};
use serde_json::Value;

use crate::errors::Result;
use crate::output::{Screen, shortened};
use client::{Client, ErrorClass, agent_path, segment, typed};

/// Columns of arguments in a line.
const PREVIEW: usize = 40;
const RESULT_COLUMNS: usize = 80;
/// Most open calls that are shown.
const CALLS_MAX: usize = 1_000;

pub(super) async fn fetched(client: &Client, agent: AgentId) -> Result<Value> {
    Ok(Value::Array(client.list(&agent_path(agent, "/calls"), CALLS_MAX).await?))
}

/// One line for each open call, with the id that `viv events cancel` takes.
pub(super) async fn lines(client: &Client, screen: &Screen, agent: AgentId) -> Result<Vec<String>> {
    let calls: Vec<Call> = typed("calls", fetched(client, agent).await?)?;
    Ok(calls.iter().map(|call| line(screen, call)).collect())
}

/// The results of the calls that a run did not wait for: none yet, or the event that contains it.
pub(super) async fn late(client: &Client, screen: &Screen, run: &RunJson) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for step in &run.steps {
        let pending = step.calls.iter().enumerate();
        for (index, call) in pending.filter(|(_, call)| call.status == Some(OutcomeStatus::Pending)) {
            let id = CallId::derive(run.agent, run.id, step.step, u32::try_from(index).unwrap_or(u32::MAX));
            let tool = screen.clean_line(&call.tool);
            let path = agent_path(run.agent, &format!("/events/{}", segment(&format!("result:{id}"))));
            lines.push(match client.get(&path).await {
                Err(failure) if failure.class == ErrorClass::NotFound => {
                    format!("{tool}, call {id}: no answer yet")
                }
                answer => {
                    let event: LoggedEvent = typed(&path, answer?)?;
                    let what = shortened(
                        &screen.clean_line(&crate::commands::events::content_of(&event)),
                        RESULT_COLUMNS,
                    );
                    format!("{what} ({})", event.progress.as_str())
                }
            });
        }
    }
    Ok(lines)
}

fn line(screen: &Screen, call: &Call) -> String {
    let Call { id, tool, arguments, effect, runner, state, asked, .. } = call;
    let status = match state {
        CallState::Detached if *asked => "waits for a person, its cycle does not wait",
        _ if *asked => "waits for a person",
        CallState::Planned if *runner == Runner::Worker => "waits for a worker",
        CallState::Planned if effect.as_str() == "unsafe" => "not started",
        CallState::Planned | CallState::Started => "running",
        CallState::Detached => "running, its cycle does not wait",
        CallState::Done => "done",
    };
    let arguments = shortened(&screen.clean_line(arguments), PREVIEW);
    format!("{id}  {} {arguments} ({status})", screen.clean_line(tool))
}
