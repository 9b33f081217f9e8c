//! Workers: programs outside that claim calls of tools, run them, and answer.

use std::sync::Arc;
use std::time::Duration;

use agent::call::Outcome;
use agent::id::{CallId, ClaimId};
use agent::limits;
use agent::port::{Scope, WorkerCall};
use agent::tool::is_named;
use axum::Json;
use axum::extract::State;
use runtime::workers::{self, ClaimedCall, WorkerAnswer, WorkerTool};
use serde_json::{Map, Value};

use crate::app_state::{AppState, SharedState};
use crate::auth::{Caller, valid_credential};
use crate::extract::{Body, run_to_completion};
use crate::problem::{Code, Problem, WriteResponse};
use crate::quota::WaitingClaim;
use api::{ClaimAnswer, ClaimAnswered, ClaimLease, ClaimRenewal, ClaimedCallJson, WorkerClaim};

/// Claims a call of one of the worker's tools: the oldest that no worker has. Waits for one if there is none.
///
/// The call is this worker's until it answers, or stops renewing the claim. Then a call that may be repeated is given to
/// another worker; of any other the agent is told that it is unknown whether it happened.
#[utoipa::path(post, path = "/v1/workers/claim", tag = "workers", request_body = WorkerClaim,
    responses((status = 200, description = "A call to run.", body = ClaimedCallJson),
              (status = 204, description = "There was no call. Ask again.")))]
pub(super) async fn claim(
    State(app): SharedState,
    caller: Caller,
    Body(wanted): Body<WorkerClaim>,
) -> Result<WriteResponse<ClaimedCallJson>, Problem> {
    let WorkerClaim { tools, wait_ms, claim } = wanted;
    let (max, most) = (limits::WORKER_PATIENCE_MS, limits::WORKER_TOOLS_PER_CLAIM);
    let wait_ms = wait_ms.unwrap_or(max);
    if wait_ms > max {
        return Err(Problem::new(Code::BadValue, format!("`wait_ms` must be at most {max}, got {wait_ms}")));
    }
    if !(1..=most).contains(&tools.len()) {
        let what = format!("`tools` must name 1 to {most} tools, got {}", tools.len());
        return Err(Problem::new(Code::BadValue, what));
    }
    let mut wanted: Vec<WorkerTool> = tools.into_iter().map(|tool| (tool.name, tool.version)).collect();
    wanted.sort();
    wanted.dedup();
    wanted.iter().try_for_each(|tool| check_tool(&app, &caller, tool))?;
    let slot = app.quotas.claim(caller.credential.id)?;
    let worker = WaitingWorker { app, caller, tools: wanted, claim, _slot: slot };
    worker.claim(Duration::from_millis(wait_ms)).await
}

/// A worker that asks for a call.
struct WaitingWorker {
    app: Arc<AppState>,
    caller: Caller,
    tools: Vec<WorkerTool>,
    claim: Option<ClaimId>,
    _slot: WaitingClaim,
}

impl WaitingWorker {
    async fn claim(&self, patience: Duration) -> Result<WriteResponse<ClaimedCallJson>, Problem> {
        let Self { app, caller, tools, claim, .. } = self;
        let valid = || async { valid_credential(app, &caller.hash).await.map(drop) };
        let claimed = tokio::select! {
            claimed = workers::claim(&app.ports, tools, patience, *claim, valid) => claimed?,
            () = app.options.shutdown.cancelled() => {
                return Err(Problem::new(Code::Closing, "the server is stopping").hint("claim again in a while"));
            }
        };
        let Some(claimed) = claimed else { return Ok(WriteResponse::Nothing) };
        // A claim that is asked for again may be of a tool that the key is not for.
        check_scope(caller, &claimed.row.tool)?;
        Ok(WriteResponse::Existing(claimed_json(claimed)))
    }
}

fn claimed_json(claimed: ClaimedCall) -> ClaimedCallJson {
    let ClaimedCall { claim, agent, row, times } = claimed;
    // They were checked before the call was offered; nothing written counts as no arguments.
    let arguments = serde_json::from_str(&row.arguments).unwrap_or_else(|_| Value::Object(Map::new()));
    ClaimedCallJson {
        call: row.id,
        claim,
        agent,
        tool: row.tool,
        arguments,
        effect: row.effect,
        times,
        lease_ms: limits::WORKER_LEASE_MS,
    }
}

/// A worker of an earlier version may still run what was decided for it.
fn check_tool(app: &AppState, caller: &Caller, tool: &WorkerTool) -> Result<(), Problem> {
    let (name, version) = tool;
    check_scope(caller, name)?;
    let declared = app.ports.toolbox.tool(name).ok_or_else(|| Problem::not_found("tool", name))?;
    match declared.spec().worker.as_deref() {
        None => {
            let what = format!("`{name}` is run by the server, not by workers");
            Err(Problem::new(Code::BadTool, what).hint("declare it with `kind = \"worker\"`"))
        }
        Some(wanted) if wanted != version && !app.ports.workers.offers(tool) => {
            let shown: String = version.chars().take(80).collect();
            let what =
                format!("`{name}` is declared in version `{wanted}`, this worker is of version `{shown}`");
            Err(Problem::new(Code::WorkerVersion, what)
                .hint("start the worker of that version, or change `version` in the declaration"))
        }
        Some(_) => Ok(()),
    }
}

fn check_scope(caller: &Caller, tool: &str) -> Result<(), Problem> {
    match &caller.credential.scope {
        Scope::Worker(pattern) if !is_named(pattern, tool) => {
            let shown: String = tool.chars().take(80).collect();
            let what = format!("this key is for workers of `{pattern}`, not of `{shown}`");
            Err(Problem::new(Code::Forbidden, what))
        }
        _ => Ok(()),
    }
}

/// The call, if it is for workers and the key may answer it.
async fn find_call(app: &AppState, caller: &Caller, id: &CallId) -> Result<WorkerCall, Problem> {
    let missing = || Problem::not_found("call", &id.0);
    let call = app.ports.calls.worker_call(id.clone()).await?.ok_or_else(missing)?;
    // A worker must not learn that a call exists which it may not run.
    check_scope(caller, &call.row.tool).map_err(|_| missing())?;
    Ok(call)
}

fn claim_lost() -> Problem {
    let what =
        "this worker does not have the call any more: it is over, was canceled, or another worker has it";
    Problem::new(Code::ClaimLost, what).hint("stop working on it")
}

/// Keeps a claimed call for another `lease_ms`.
#[utoipa::path(post, path = "/v1/workers/renew", tag = "workers", request_body = ClaimRenewal,
    responses((status = 200, description = "The call is still this worker's.", body = ClaimLease)))]
pub(super) async fn renew(
    State(app): SharedState,
    caller: Caller,
    Body(renewal): Body<ClaimRenewal>,
) -> Result<Json<ClaimLease>, Problem> {
    let call = find_call(&app, &caller, &renewal.call).await?;
    if workers::renew(&app.ports, &call, renewal.claim) {
        Ok(Json(ClaimLease { lease_ms: limits::WORKER_LEASE_MS }))
    } else {
        Err(claim_lost())
    }
}

/// Answers a claimed call. An answer may be sent again; only the first counts. One that comes after the agent was told
/// that the outcome is unknown becomes an event of the agent.
#[utoipa::path(post, path = "/v1/workers/finish", tag = "workers", request_body = ClaimAnswer,
    responses((status = 200, description = "The answer arrived.", body = ClaimAnswered)))]
pub(super) async fn finish(
    State(app): SharedState,
    caller: Caller,
    Body(answer): Body<ClaimAnswer>,
) -> Result<Json<ClaimAnswered>, Problem> {
    let ClaimAnswer { call, claim, output, error } = answer;
    let outcome = match (output, error) {
        (Some(Value::String(text)), None) => Outcome::ok(text),
        (Some(Value::Null), None) => Outcome::ok("done; it has no output"),
        (Some(output), None) => Outcome::ok(output.to_string()),
        (None, Some(why)) if !why.trim().is_empty() => Outcome::error(why),
        _ => return Err(Problem::new(Code::BadValue, "wanted either `output`, or `error` with the reason")),
    };
    let call = find_call(&app, &caller, &call).await?;
    run_to_completion(async move {
        match workers::finish(&app.ports, &app.node, &call, claim, outcome).await? {
            WorkerAnswer::Taken => Ok(Json(ClaimAnswered { taken: true })),
            WorkerAnswer::Over => Ok(Json(ClaimAnswered { taken: false })),
            WorkerAnswer::NotClaimed => Err(claim_lost()),
        }
    })
    .await
}
