//! Clearing an agent's guard, for an operator who has looked at what strangers told the agent.

use std::sync::Arc;

use agent::changes::{Changes, CommitOutcome};
use agent::guard::{self, Clearing};
use agent::id::AgentId;
use agent::life::Lease;
use agent::limits;
use agent::update::{Topic, Update};
use axum::Json;
use axum::extract::State;

use super::agents::find_agent;
use crate::app_state::{AppState, SharedState};
use crate::extract::{Named, PathParam, run_to_completion};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem};
use api::GuardClearedJson;

/// Takes strangers' text out of what the agent's model reads. The log stays as it is; goals and plans of that time are deleted. Read
/// first what there is: text that tricked the agent may have got into other sections of its summary.
#[utoipa::path(post, path = "/v1/agents/{agent}/guard/clear", tag = "agents",
    params(("agent" = String, Path, description = "Id or handle.")),
    responses((status = 200, description = "What is no longer shown.", body = GuardClearedJson)))]
pub(super) async fn clear(
    State(app): SharedState,
    PathParam(name): PathParam<Named>,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<GuardClearedJson>>, Problem> {
    let found = find_agent(&app, &name).await?;
    run_to_completion(async move {
        once.answer(async || clear_of(&app, found.id, &found.entity.name).await).await
    })
    .await
}

async fn clear_of(app: &AppState, agent: AgentId, name: &str) -> Result<GuardClearedJson, Problem> {
    for _ in 0..limits::REFUSALS_MAX {
        let now = app.ports.clock.now();
        let missing = || Problem::not_found("agent", name);
        let activation = app.ports.store.wake(agent, now, None).await?.ok_or_else(missing)?;
        if activation.life.open.is_some() {
            let what = format!("`{name}` runs a cycle now, whose model has read what would be left out");
            return Err(Problem::new(Code::CycleOpen, what).hint("wait for its end, or cancel it"));
        }
        let Clearing { changes, entries, goals, plans, memories, summary } = guard::clear(&activation, now);
        let Changes { cycle, step, kind, .. } = changes;
        let lease = Lease { agent, epoch: activation.life.epoch };
        // Otherwise the agent woke up meanwhile.
        if let CommitOutcome::Committed { n, .. } = app.ports.store.commit(lease, changes).await?.0 {
            tracing::warn!(agent = name, entries, "the guard of an agent was cleared");
            let update = Update::Commit { agent, n, cycle, step, kind };
            app.node.live().bus().publish(&[Topic::Agent(agent)], Arc::new(update));
            return Ok(GuardClearedJson { entries: entries as u64, goals, plans, memories, summary });
        }
    }
    let what = format!("`{name}` kept waking up");
    Err(Problem::new(Code::CycleOpen, what).hint("suspend it, clear its guard, resume it"))
}
