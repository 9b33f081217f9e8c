//! `viv mcp`: MCP servers in the settings, and what of their tools an operator approved.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use agent::quote::{visible, visible_line};
use api::{McpApproval, McpOfferJson, McpServerJson, McpToolJson, PageJson, ReadyJson};
use client::{Client, segment, typed};
use serde_json::{Value, json};
use tools::mcp::{McpListing, McpServerConfig};

use super::mcp_remove;
use crate::args::{Global, McpAddArgs, McpArgs, McpVerb};
use crate::assemble;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::output::{Screen, counted, json_lines};
use crate::progress::Progress;
use crate::settings::{self, Settings};
use crate::tool_secrets::ToolSecrets;

/// Requests to a server that is still starting: together they wait longer than a start may take.
const ASKED_MAX: u32 = 4;
const NOT_WALLED: &str = "bubblewrap (`bwrap`) was not found: the server's process can read every file that this user can read, \
                          the data directory included";

const WALLED: &str = "it sees no files of this machine but its own; what it writes elsewhere, such as in `/tmp`, is gone with it \
                      (`--write DIR` lets it write there)";

pub(crate) async fn run(global: &Global, screen: Screen, args: McpArgs) -> Result<Exit> {
    let client = || Ok::<_, Failure>(Client::find(settings::data_dir(global)?)?);
    match args.verb {
        None | Some(McpVerb::List) => list(&client()?, &screen).await?,
        Some(McpVerb::Add(args)) => add(global, &screen, args).await?,
        Some(McpVerb::Remove { server, yes }) => mcp_remove::run(global, &screen, &server, yes).await?,
        Some(McpVerb::Reload) => {
            let answer = client()?.post_empty("/v1/mcp").await?;
            print_servers(&screen, typed("list of MCP servers", answer)?);
        }
        Some(McpVerb::Try { server }) => {
            let answer = offered(&client()?, &screen, &server).await?;
            show(&screen, &answer)?;
        }
        Some(McpVerb::Approve { server, yes }) => {
            let answer = approve(&client()?, &screen, &server, yes).await?;
            show(&screen, &answer)?;
        }
    }
    Ok(Exit::Answered)
}

fn path(server: &str) -> String {
    format!("/v1/mcp/{}", segment(server))
}

/// What a server offers now. One that starts slowly is asked again: its start goes on meanwhile.
async fn offered(client: &Client, screen: &Screen, server: &str) -> Result<Value> {
    let _progress = Progress::start(screen, format!("waiting for `{server}`"));
    let mut asked = 0;
    loop {
        asked += 1;
        match client.post_empty(&format!("{}/ask", path(server))).await {
            Err(error) if error.code == "timed_out" && asked < ASKED_MAX => {}
            answer => return Ok(answer?),
        }
    }
}

/// Shows what is new or changed, asks, and approves it.
async fn approve(client: &Client, screen: &Screen, server: &str, yes: bool) -> Result<Value> {
    let offer: McpOfferJson = typed("offer", offered(client, screen, server).await?)?;
    let changed: Vec<_> = offer.tools.iter().filter(|tool| tool.state != "approved").collect();
    for tool in changed.iter().filter(|_| !screen.json) {
        print(screen, tool);
    }
    if !changed.is_empty() {
        let what = format!("models will read this of {} of `{server}`", counted(changed.len(), "tool"));
        input::confirm(screen, &what, yes, Some("look with `viv mcp try`"))?;
    }
    let tools = offer.tools.iter().map(|tool| (tool.name.clone(), tool.hash.clone())).collect();
    Ok(client.post(&format!("{}/approve", path(server)), &McpApproval { tools }, None).await?)
}

/// All that a model reads of a tool.
fn print(screen: &Screen, tool: &McpToolJson) {
    screen.line(&screen.clean_line(&format!("{} ({})", visible_line(&tool.name), tool.state)));
    let description = visible(&tool.description);
    let description = description.lines().map(str::to_owned);
    for line in description.chain(json_lines(&tool.input)) {
        screen.line(&screen.clean_line(&format!("    {line}")));
    }
}

async fn list(client: &Client, screen: &Screen) -> Result<()> {
    print_servers(screen, PageJson { items: client.all_as("/v1/mcp").await?, next: None });
    Ok(())
}

fn print_servers(screen: &Screen, PageJson { items, .. }: PageJson<McpServerJson>) {
    if screen.json {
        return screen.json_list(items);
    }
    if items.is_empty() {
        return screen.text("the settings have no MCP servers; `viv mcp add` adds one");
    }
    let row = |server: &McpServerJson| vec![screen.clean_line(&server.name), server.tools.len().to_string()];
    screen.table(&["SERVER", "APPROVED TOOLS"], &items.iter().map(row).collect::<Vec<_>>());
    screen.note("`viv mcp try SERVER` lists what it offers now, and what has changed since it was approved: that is refused");
}

fn show(screen: &Screen, answer: &Value) -> Result<()> {
    let offer: McpOfferJson = typed("offer", answer.clone())?;
    if screen.json {
        screen.json_line(answer);
        return Ok(());
    }
    let row = |tool: &McpToolJson| {
        let first = tool.description.lines().next().unwrap_or_default();
        [&tool.name, &tool.state, first].map(|cell| screen.clean_line(&visible_line(cell))).to_vec()
    };
    screen.table(&["TOOL", "STATE", "DESCRIPTION"], &offer.tools.iter().map(row).collect::<Vec<_>>());
    for left in &offer.left_out {
        screen.warning(&format!("`{}` cannot be used: {}", left.name, left.why));
    }
    if !offer.walled {
        screen.warning(NOT_WALLED);
    }
    Ok(())
}

/// The settings to which something is added, and their file: those of the server that runs on the data directory, wherever this
/// command was started. Without one, those found from here.
pub(super) async fn settings_of_server(global: &Global) -> Result<(Settings, PathBuf)> {
    let settings = Settings::load(global, &())?;
    let (here, data_dir) = (settings.file_to_write(), settings.data_dir().to_owned());
    if !listen::is_locked(&data_dir) {
        return Ok((settings, here));
    }
    let client = Client::find(data_dir.clone())?;
    let ready: ReadyJson = client.get_as("/v1/ready").await?;
    let Some(theirs) = ready.settings.map(PathBuf::from) else { return Ok((settings, here)) };
    if std::path::absolute(&here).is_ok_and(|here| here == theirs) {
        return Ok((settings, here));
    }
    if let Some(named) = &global.config {
        let message = format!("the server reads `{}`, not `{}`", theirs.display(), named.display());
        return Err(Failure::usage(message).hint("leave out --config; nothing was changed"));
    }
    if !theirs.exists() {
        return Ok((settings, theirs));
    }
    let Global { json, quiet, .. } = *global;
    let global = Global { data_dir: Some(data_dir), config: Some(theirs.clone()), json, quiet };
    Ok((Settings::load(&global, &())?, theirs))
}

/// Asks the server from here, with the settings and secrets of this machine, and adds it only if it answers.
async fn add(global: &Global, screen: &Screen, args: McpAddArgs) -> Result<()> {
    let (settings, file) = settings_of_server(global).await?;
    let name = args.name.clone();
    if settings.mcp.contains_key(&name) {
        return Err(Failure::usage(format!("the settings have an MCP server `{name}` already"))
            .hint("give it another name, or edit the file"));
    }
    let (pin, yes) = (args.pin, args.yes);
    let mut config = config(args)?;
    let (connector, secrets) =
        (Arc::new(assemble::connector(&settings)?), Arc::new(ToolSecrets::of(&settings)));
    let host = assemble::mcp_host(&settings);
    if pin {
        let pinned = tools::mcp::pinned(&name, &config, &host).await;
        config.command = Some(
            pinned.map_err(|why| Failure::new(Exit::Failed, "not_pinned", why).hint("nothing was added"))?,
        );
    }
    let server = assemble::mcp_server(&name, config.clone(), &connector, &secrets, &host)?;
    let progress = Progress::start(screen, format!("waiting for `{name}`, which lists its tools"));
    let walled = server.is_walled().await;
    let McpListing { tools, left_out } = server.list().await.map_err(|error| {
        let why = error.operator.unwrap_or(error.model);
        Failure::new(Exit::Failed, "mcp_failed", why).hint("nothing was added")
    })?;
    drop(progress);
    server.stop();
    let written = section(&name, &config)?;
    let opened = fs::OpenOptions::new().create(true).append(true).open(&file);
    opened.and_then(|mut file| file.write_all(written.as_bytes())).map_err(|error| {
        let message = format!("cannot write `{}`: {error}", file.display());
        Failure::new(Exit::Failed, "settings_unwritable", message).hint("nothing was added")
    })?;
    for tool in &tools {
        let line = format!("{}: {}", visible_line(&tool.name), visible_line(&tool.description));
        screen.note(&screen.clean_line(&line));
    }
    for (tool, why) in &left_out {
        screen.warning(&format!("`{tool}` cannot be used: {why}"));
    }
    match (walled, config.command.is_some()) {
        (false, _) => screen.warning(NOT_WALLED),
        (true, true) => screen.note(WALLED),
        (true, false) => {}
    }
    let names: Vec<&String> = tools.iter().map(|tool| &tool.name).collect();
    let added = format!("added `{name}` with {} to `{}`", counted(names.len(), "tool"), file.display());
    let data_dir = settings.data_dir();
    let (running, approved) = if listen::is_locked(data_dir) {
        let client = Client::find(data_dir.to_owned())?;
        client.post_empty("/v1/mcp").await?;
        (true, (yes || input::can_ask(screen)) && approve(&client, screen, &name, yes).await.map(|_| true)?)
    } else {
        (false, false)
    };
    let next = match (running, approved) {
        (true, true) => format!("list `{name}:*` in the `tools` of an agent"),
        (true, false) => {
            format!("run `viv mcp approve {name}`, and list `{name}:*` in the `tools` of an agent")
        }
        (false, _) => {
            format!(
                "start `viv up`, run `viv mcp approve {name}`, and list `{name}:*` in the `tools` of an agent"
            )
        }
    };
    let result = json!({
        "server": name, "tools": names, "file": file, "walled": walled, "command": config.command,
        "in_use": running, "approved": approved,
    });
    screen.result(&result, &format!("{added}: {next}"));
    Ok(())
}

fn config(args: McpAddArgs) -> Result<McpServerConfig> {
    let pairs = args.set.iter().map(|pair| {
        let (key, value) = input::key_value(pair, "such as TOKEN='{{ secret(\"token\") }}'")?;
        Ok((key.to_owned(), value.to_owned()))
    });
    let set = pairs.collect::<Result<BTreeMap<_, _>>>()?;
    let labels =
        args.labels.map(|labels| labels.into_iter().filter(|label| label != "none").collect::<Vec<_>>());
    let mut value = json!({"allow": args.allow});
    match args.url {
        Some(url) => (value["url"], value["headers"]) = (json!(url), json!(set)),
        None => {
            (value["command"], value["env"]) = (json!(args.command), json!(set));
            value["write"] = json!(args.write);
        }
    }
    let given = [
        ("labels", labels.map(|labels| json!(labels))),
        ("effect", args.effect.map(|effect| json!(effect))),
        ("tools", args.tools.map(|tools| json!(tools))),
    ];
    for (key, given) in given {
        if let Some(given) = given {
            value[key] = given;
        }
    }
    serde_json::from_value(value).map_err(|error| Failure::usage(error.to_string()))
}

/// The table of the server in the settings file: only what differs from the defaults.
fn section(name: &str, config: &McpServerConfig) -> Result<String> {
    let failed = |error: String| Failure::new(Exit::Failed, "settings_unwritable", error);
    let table =
        |config: &McpServerConfig| toml::Table::try_from(config).map_err(|error| failed(error.to_string()));
    let (defaults, mut table) = (table(&McpServerConfig::default())?, table(config)?);
    table.retain(|key, value| defaults.get(key) != Some(value));
    let whole = toml::Table::from_iter([(
        "mcp".to_owned(),
        toml::Value::Table(toml::Table::from_iter([(name.to_owned(), toml::Value::Table(table))])),
    )]);
    let text = toml::to_string(&whole).map_err(|error| failed(error.to_string()))?;
    Ok(format!("\n{text}"))
}
