//! The tools of the server, as operators see, declare and try them.

use std::collections::BTreeMap;

use agent::call::{Effect, Outcome, Runner, head_and_tail};
use agent::changes::Inward;
use agent::event::Trust;
use agent::id::{AgentId, CallId, CycleId, RootId};
use agent::life::Facts;
use agent::limits;
use agent::port::{NoGate, StoredTool, Tool, ToolContext};
use axum::Json;
use axum::extract::State;
use runtime::DeclareError;
use serde_json::Value;
use uuid::Uuid;

use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{PageJson, PageQuery, ToolJson, ToolTrial, ToolTried, ToolWorkersJson};

/// Lists all tools: the prebuilt ones, then the declared ones by name.
#[utoipa::path(get, path = "/v1/tools", tag = "tools", params(PageQuery),
    responses((status = 200, description = "A page of tools.", body = PageJson<ToolJson>)))]
pub(super) async fn list_tools(
    State(app): SharedState,
    list: List<PageQuery>,
) -> Result<Listed<ToolJson>, Problem> {
    let stored = stored(&app).await?;
    let all: Vec<ToolJson> =
        app.ports.toolbox.names().iter().filter_map(|name| tool_json(&app, name, &stored)).collect();
    let bytes = |tool: &ToolJson| {
        let declaration = tool.declaration.as_ref().map_or(0, |declaration| declaration.to_string().len());
        tool.description.len() + tool.input.to_string().len() + declaration
    };
    let page = list.cut(all, |tool| tool.name.clone(), bytes);
    Ok(list.answer(page, |tool| tool))
}

/// Returns a tool.
#[utoipa::path(get, path = "/v1/tools/{tool}", tag = "tools",
    params(("tool" = String, Path, description = "Name of the tool.")),
    responses((status = 200, description = "The tool.", body = ToolJson)))]
pub(super) async fn get_tool(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
) -> Result<Json<ToolJson>, Problem> {
    let stored = stored(&app).await?;
    let mut tool = tool_json(&app, &name, &stored).ok_or_else(|| Problem::not_found("tool", &name))?;
    if let Some(declaration) = &tool.declaration {
        tool.missing_secrets = app.ports.toolbox.missing_secrets(declaration).await.into_iter().collect();
    }
    Ok(Json(tool))
}

/// Declares a tool, or changes a declared one. Agents that list it use it from their next cycle on.
#[utoipa::path(put, path = "/v1/tools/{tool}", tag = "tools", request_body = Object,
    params(("tool" = String, Path, description = "Name of the tool, as in the declaration.")),
    responses((status = 200, description = "The tool as it is now.", body = ToolJson)))]
pub(super) async fn put_tool(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
    Change { body: Sent(mut declaration), once }: Change<Sent<Value>>,
) -> Result<Done<Json<ToolJson>>, Problem> {
    if let Some(map) = declaration.as_object_mut() {
        map.entry("name").or_insert_with(|| name.clone().into());
    }
    let checked = app.ports.toolbox.check(&declaration);
    let checked = checked.map_err(|wrong| Problem::new(Code::BadTool, wrong.join("\n")))?;
    if checked.name != name {
        let what = format!("the declaration is of `{}`, the path names `{name}`", checked.name);
        return Err(Problem::new(Code::BadTool, what).hint("use one name"));
    }
    refuse_of_file(&stored(&app).await?, &name)?;
    let at = app.ports.clock.now();
    let tool = StoredTool { name: name.clone(), declaration: checked.declaration, file: None, at };
    run_to_completion(async move {
        let read = async || {
            let stored = stored(&app).await?;
            tool_json(&app, &name, &stored).map(Json).ok_or_else(|| Problem::not_found("tool", &name))
        };
        let run = async || {
            change(&app, vec![tool], Vec::new()).await?;
            read().await
        };
        once.change(run, async || read().await).await
    })
    .await
}

/// Removes a declared tool. Agents that list it do not have it from their next cycle on.
#[utoipa::path(delete, path = "/v1/tools/{tool}", tag = "tools",
    params(("tool" = String, Path, description = "Name of the tool.")),
    responses((status = 204, description = "The tool is not declared any more.")))]
pub(super) async fn delete_tool(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<ToolJson>>, Problem> {
    let stored = stored(&app).await?;
    refuse_of_file(&stored, &name)?;
    if !stored.contains_key(&name) && app.ports.toolbox.tool(&name).is_some() {
        let what = format!("`{name}` is prebuilt and cannot be removed");
        return Err(Problem::new(Code::BadTool, what).hint("leave it out of the agent's `tools`"));
    }
    run_to_completion(async move {
        let run = async || change(&app, Vec::new(), vec![name]).await.map(|()| WriteResponse::Removed);
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

/// Calls a declared tool once, as an agent would. What it does is really done.
#[utoipa::path(post, path = "/v1/tools/{tool}/try", tag = "tools", request_body = ToolTrial,
    params(("tool" = String, Path, description = "Name of the tool.")),
    responses((status = 200, description = "What an agent would read.", body = ToolTried)))]
pub(super) async fn try_tool(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
    Change { body: Sent(trial), once }: Change<Sent<ToolTrial>>,
) -> Result<Done<Json<ToolTried>>, Problem> {
    let tool = app.ports.toolbox.tool(&name).ok_or_else(|| Problem::not_found("tool", &name))?;
    let spec = tool.spec();
    if spec.effect == Effect::Inward {
        let what =
            format!("`{name}` changes only the agent that calls it, so it cannot be tried without one");
        return Err(Problem::new(Code::BadTool, what).hint("ask an agent to use it"));
    }
    if spec.worker.is_some() {
        let what = format!("`{name}` is run by workers, which claim the calls of agents");
        return Err(Problem::new(Code::BadTool, what).hint("ask an agent to use it"));
    }
    let arguments = match trial.arguments {
        Value::Null => String::new(),
        given => given.to_string(),
    };
    let arguments = tool.check(&arguments).map_err(|why| Problem::new(Code::BadValue, why))?;
    run_to_completion(async move { once.at_most_once(async || tried(&app, &*tool, arguments).await).await })
        .await
}

async fn tried(app: &AppState, tool: &dyn Tool, arguments: Value) -> ToolTried {
    let spec = tool.spec();
    let (clock, nobody) = (&app.ports.clock, Uuid::nil());
    let (call, root) = (CallId(format!("try-{}", app.ports.ids.uuid())), RootId(String::new()));
    let (facts, pending) = (Facts::default(), Inward::default());
    let context = ToolContext {
        agent: AgentId(nobody),
        cycle: CycleId(nobody),
        call: &call,
        now: clock.now(),
        active_space: None,
        root: &root,
        hop: 0,
        trust: Trust::Operator,
        facts: &facts,
        pending: &pending,
        lookup: &*app.ports.lookup,
        gate: &NoGate,
    };
    let began = clock.monotonic_ms();
    let timeout = spec.timeout.as_millis();
    let outcome = tokio::select! {
        done = tool.call(arguments, context) => match done {
            Ok(done) => done.outcome,
            Err(error) => Outcome { detail: error.operator, ..Outcome::error(error.model) },
        },
        () = clock.sleep(spec.timeout) => Outcome::given_up(spec.effect, Runner::Node, timeout),
    };
    ToolTried {
        status: outcome.status,
        text: head_and_tail(&outcome.text, limits::TOOL_SHOWN_MAX_BYTES),
        detail: outcome.detail,
        took_ms: clock.monotonic_ms().saturating_sub(began),
    }
}

async fn stored(app: &AppState) -> Result<BTreeMap<String, StoredTool>, Problem> {
    let tools = app.ports.tool_book.tools().await?;
    Ok(tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect())
}

fn tool_json(app: &AppState, name: &str, stored: &BTreeMap<String, StoredTool>) -> Option<ToolJson> {
    let tool = app.ports.toolbox.tool(name)?;
    let spec = tool.spec();
    let mut json = ToolJson::prebuilt(spec);
    json.workers = spec.worker.as_ref().map(|_| {
        let counts = app.ports.workers.counts(name);
        ToolWorkersJson {
            waiting_workers: counts.waiting_workers,
            unclaimed_calls: counts.unclaimed_calls,
            claimed_calls: counts.claimed_calls,
        }
    });
    Some(match stored.get(name) {
        None => json,
        Some(StoredTool { declaration, file, .. }) => {
            ToolJson { prebuilt: false, file: file.clone(), declaration: Some(declaration.clone()), ..json }
        }
    })
}

/// A tool that a file declares is changed there: otherwise the file would win at the next start.
fn refuse_of_file(stored: &BTreeMap<String, StoredTool>, name: &str) -> Result<(), Problem> {
    match stored.get(name).and_then(|tool| tool.file.as_ref()) {
        None => Ok(()),
        Some(file) => Err(Problem::new(Code::ToolOfFile, format!("`{name}` is declared in `{file}`"))
            .hint("change or remove the file")),
    }
}

async fn change(app: &AppState, put: Vec<StoredTool>, gone: Vec<String>) -> Result<(), Problem> {
    runtime::change_tools(&app.ports, put, gone).await.map_err(|error| match error {
        DeclareError::TooMany { .. } => Problem::new(Code::BadTool, error.to_string()),
        DeclareError::Store(error) => error.into(),
    })
}
