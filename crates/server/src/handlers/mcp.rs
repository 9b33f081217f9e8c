//! The MCP servers in the settings: what they offer, and what an operator approved of it.

use std::collections::BTreeMap;

use agent::port::OfferedTools;
use axum::Json;
use axum::extract::State;
use runtime::{ApproveError, DeclareError};

use crate::app_state::{AppState, SharedState};
use crate::extract::{Exact, PathParam, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem};
use api::{McpApproval, McpLeftOut, McpOfferJson, McpServerJson, McpToolJson, PageJson, PageQuery};

/// Lists the MCP servers in the settings with their approved tools.
#[utoipa::path(get, path = "/v1/mcp", tag = "tools", params(PageQuery),
    responses((status = 200, description = "A page of servers.", body = PageJson<McpServerJson>)))]
pub(super) async fn list_servers(
    State(app): SharedState,
    list: List<PageQuery>,
) -> Result<Listed<McpServerJson>, Problem> {
    let approved = approved(&app).await?;
    let page = list.cut(app.ports.toolbox.servers(), String::clone, |_| 0);
    Ok(list.answer(page, |name| server_json(name, &approved)))
}

/// Reads the MCP servers in the settings of this server again: new ones can be asked and approved, and changed ones are started
/// anew for their next call. Returns all.
#[utoipa::path(post, path = "/v1/mcp", tag = "tools",
    responses((status = 200, description = "All servers, in one page.", body = PageJson<McpServerJson>)))]
pub(super) async fn reload(
    State(app): SharedState,
    Change { once, .. }: Change<()>,
) -> Result<Done<Json<PageJson<McpServerJson>>>, Problem> {
    run_to_completion(async move {
        let servers = async || {
            let approved = approved(&app).await?;
            let items = app.ports.toolbox.servers().into_iter();
            let items = items.map(|name| server_json(name, &approved)).collect();
            Ok(Json(PageJson { items, next: None }))
        };
        let run = async || {
            runtime::reload_servers(&app.ports).await.map_err(problem)?;
            servers().await
        };
        once.change(run, servers).await
    })
    .await
}

/// Returns an MCP server of the settings with its approved tools. It is not started.
#[utoipa::path(get, path = "/v1/mcp/{server}", tag = "tools",
    params(("server" = String, Path, description = "Name of the server in the settings.")),
    responses((status = 200, description = "The server.", body = McpServerJson)))]
pub(super) async fn get_server(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
) -> Result<Json<McpServerJson>, Problem> {
    known(&app, &name)?;
    Ok(Json(server_json(name, &approved(&app).await?)))
}

/// Asks an MCP server what it offers now. This starts it if it is not running.
#[utoipa::path(post, path = "/v1/mcp/{server}/ask", tag = "tools",
    params(("server" = String, Path, description = "Name of the server in the settings.")),
    responses((status = 200, description = "What it offers.", body = McpOfferJson)))]
pub(super) async fn ask(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
) -> Result<Json<McpOfferJson>, Problem> {
    known(&app, &name)?;
    offer(&app, name).await.map(Json)
}

async fn offer(app: &AppState, name: String) -> Result<McpOfferJson, Problem> {
    let offered = app.ports.toolbox.offered(&name).await.map_err(|why| Problem::new(Code::McpFailed, why))?;
    Ok(json(name, offered, &approved(app).await?))
}

/// Approves what an MCP server offers, as it was shown: agents that list its tools use them from their next cycle on.
#[utoipa::path(post, path = "/v1/mcp/{server}/approve", tag = "tools", request_body = McpApproval,
    params(("server" = String, Path, description = "Name of the server in the settings.")),
    responses((status = 200, description = "What was approved.", body = McpOfferJson)))]
pub(super) async fn approve(
    State(app): SharedState,
    PathParam(Exact(name)): PathParam<Exact>,
    Change { body: Sent(McpApproval { tools: shown }), once }: Change<Sent<McpApproval>>,
) -> Result<Done<Json<McpOfferJson>>, Problem> {
    known(&app, &name)?;
    run_to_completion(async move {
        let run = async || {
            let offered = runtime::approve_tools(&app.ports, &name, &shown).await.map_err(problem)?;
            Ok(Json(json(name.clone(), offered, &approved(&app).await?)))
        };
        once.change(run, async || offer(&app, name.clone()).await.map(Json)).await
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

fn server_json(name: String, approved: &BTreeMap<String, (String, String)>) -> McpServerJson {
    let tools = approved.iter().filter(|(_, (of, _))| *of == name).map(|(tool, _)| tool.clone()).collect();
    McpServerJson { name, tools }
}

/// The approved tools: of each its server and hash.
async fn approved(app: &AppState) -> Result<BTreeMap<String, (String, String)>, Problem> {
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
