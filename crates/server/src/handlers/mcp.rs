//! The MCP servers in the settings: what they offer, and what an operator approved of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::port::OfferedTools;
use axum::Json;
use axum::extract::State;
use runtime::{ApproveError, DeclareError};

use crate::app_state::{AppState, SharedState};
use crate::extract::{Body, PathParam, Query, run_to_completion};
use crate::problem::{Code, Problem};
use api::{McpApproval, McpLeftOut, McpOfferJson, McpServerJson, McpToolJson, PageJson, PageQuery};

/// Lists the MCP servers in the settings with their approved tools.
#[utoipa::path(get, path = "/v1/mcp", tag = "tools", params(PageQuery),
    responses((status = 200, description = "All servers, in one page.", body = PageJson<McpServerJson>)))]
pub(super) async fn list_servers(
    State(app): SharedState,
    Query(_query): Query<PageQuery>,
) -> Result<Json<PageJson<McpServerJson>>, Problem> {
    Ok(Json(servers(&app).await?))
}

/// Reads the MCP servers in the settings of this server again: new ones can be asked and approved, and changed ones are started
/// anew for their next call. Returns all, as listing them does.
#[utoipa::path(post, path = "/v1/mcp", tag = "tools",
    responses((status = 200, description = "All servers, in one page.", body = PageJson<McpServerJson>)))]
pub(super) async fn reload(State(app): SharedState) -> Result<Json<PageJson<McpServerJson>>, Problem> {
    run_to_completion(async move {
        runtime::reload_servers(&app.ports).await.map_err(problem)?;
        Ok(Json(servers(&app).await?))
    })
    .await
}

async fn servers(app: &Arc<AppState>) -> Result<PageJson<McpServerJson>, Problem> {
    let approved = approved(app).await?;
    let tools_of = |server: &String| {
        let tools = approved.iter().filter(|(_, (of, _))| of == server);
        tools.map(|(name, _)| name.clone()).collect()
    };
    let servers = app.ports.toolbox.servers().into_iter();
    let items = servers.map(|name| McpServerJson { tools: tools_of(&name), name }).collect();
    Ok(PageJson { items, next: None })
}

/// Asks an MCP server what it offers now. This starts it if it is not running.
#[utoipa::path(get, path = "/v1/mcp/{server}", tag = "tools",
    params(("server" = String, Path, description = "Name of the server in the settings.")),
    responses((status = 200, description = "What it offers.", body = McpOfferJson)))]
pub(super) async fn offered(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
) -> Result<Json<McpOfferJson>, Problem> {
    known(&app, &name)?;
    let offered = app.ports.toolbox.offered(&name).await.map_err(|why| Problem::new(Code::McpFailed, why))?;
    Ok(Json(json(name, offered, &approved(&app).await?)))
}

/// Approves what an MCP server offers, as it was shown: agents that list its tools use them from their next cycle on.
#[utoipa::path(post, path = "/v1/mcp/{server}/approve", tag = "tools", request_body = McpApproval,
    params(("server" = String, Path, description = "Name of the server in the settings.")),
    responses((status = 200, description = "What was approved.", body = McpOfferJson)))]
pub(super) async fn approve(
    State(app): SharedState,
    PathParam(name): PathParam<String>,
    body: Body<McpApproval>,
) -> Result<Json<McpOfferJson>, Problem> {
    known(&app, &name)?;
    let shown = body.value.tools;
    run_to_completion(async move {
        let offered = runtime::approve_tools(&app.ports, &name, &shown).await.map_err(problem)?;
        Ok(Json(json(name, offered, &approved(&app).await?)))
    })
    .await
}

fn problem(error: ApproveError) -> Problem {
    match error {
        ApproveError::Server(why) => Problem::new(Code::McpFailed, why),
        ApproveError::Changed => Problem::new(Code::McpChanged, error.to_string())
            .hint("look at what it offers now, then approve that"),
        ApproveError::Declare(DeclareError::Store(error)) => error.into(),
        ApproveError::Declare(error) => Problem::new(Code::BadTool, error.to_string()),
    }
}

fn known(app: &AppState, name: &str) -> Result<(), Problem> {
    match app.ports.toolbox.servers().iter().any(|server| server == name) {
        true => Ok(()),
        false => Err(Problem::not_found("MCP server", name)),
    }
}

/// The approved tools: of each its server and hash.
async fn approved(app: &Arc<AppState>) -> Result<BTreeMap<String, (String, String)>, Problem> {
    let stored = app.ports.tool_book.tools().await?;
    let checked = stored.iter().filter_map(|tool| app.ports.toolbox.check(&tool.declaration).ok());
    Ok(checked.filter_map(|tool| Some((tool.name, (tool.server?, tool.hash)))).collect())
}

fn json(name: String, offered: OfferedTools, approved: &BTreeMap<String, (String, String)>) -> McpOfferJson {
    let OfferedTools { tools, left_out, walled } = offered;
    let state = |name: &String, hash: &String| match approved.get(name) {
        None => "new",
        Some((_, known)) if known == hash => "approved",
        Some(_) => "changed",
    };
    let tool = |tool: agent::port::DeclaredTool| McpToolJson {
        state: state(&tool.name, &tool.hash).to_owned(),
        description: tool.declaration["description"].as_str().unwrap_or_default().to_owned(),
        input: tool.declaration["input"].clone(),
        hash: tool.hash,
        name: tool.name,
    };
    let left_out = left_out.into_iter().map(|(name, why)| McpLeftOut { name, why }).collect();
    McpOfferJson { name, walled, tools: tools.into_iter().map(tool).collect(), left_out }
}
