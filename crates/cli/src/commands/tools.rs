//! `viv tools`: the tools that agents can have, declared, shown and tried; `viv agents clear-guard`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use agent::limits;
use agent::quote::visible;
use api::{GuardClearedJson, ToolJson, ToolTrial, ToolTried, ToolWorkersJson};
use client::{Client, agent_path, segment, typed};
use serde_json::{Value, json};
use tools::declare::{Declaration, DeclarationMistake, read_json, read_toml};
use tools::openapi::{OpenApiImport, OpenApiTools, import_openapi};

use crate::args::{ImportArgs, ToolsArgs, ToolsVerb};
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::output::{Screen, json_lines};

pub(crate) async fn run(
    client: impl FnOnce() -> Result<Client>,
    screen: Screen,
    args: ToolsArgs,
) -> Result<Exit> {
    match args.verb {
        None | Some(ToolsVerb::List) => list(&client()?, &screen).await?,
        Some(ToolsVerb::Add { files }) => {
            let read: Vec<Declaration> = files.iter().map(|file| declaration(file)).collect::<Result<_>>()?;
            put(&client()?, &screen, &read).await?;
        }
        Some(ToolsVerb::Show { tool }) => {
            let tool: ToolJson = typed("tool", client()?.get(&path(&tool)).await?)?;
            show(&screen, &tool);
        }
        Some(ToolsVerb::Try { tool, arguments }) => {
            return trial(&client()?, &screen, &tool, arguments).await;
        }
        Some(ToolsVerb::Remove { tool }) => {
            let client = client()?;
            let _: Value = client.get(&path(&tool)).await?;
            client.delete(&path(&tool)).await?;
            screen.result(&json!({"removed": tool}), &format!("`{tool}` is not declared any more"));
        }
        Some(ToolsVerb::Import(args)) => {
            let read = imported(&screen, &args)?;
            match &args.to {
                Some(dir) => write_files(&screen, dir, &read)?,
                None => put(&client()?, &screen, &read).await?,
            }
        }
    }
    Ok(Exit::Answered)
}

fn path(tool: &str) -> String {
    format!("/v1/tools/{}", segment(tool))
}

async fn list(client: &Client, screen: &Screen) -> Result<()> {
    let items: Vec<ToolJson> = client.all_as("/v1/tools").await?;
    if screen.json {
        screen.json_list(items);
        return Ok(());
    }
    let row = |tool: &ToolJson| {
        let from = from(tool);
        let labels = if tool.labels.is_empty() { "-".to_owned() } else { tool.labels.join(", ") };
        let cells = [tool.name.clone(), tool.effect.as_str().to_owned(), labels, from];
        cells.map(|cell| screen.clean_line(&cell)).to_vec()
    };
    screen.table(&["TOOL", "EFFECT", "LABELS", "FROM"], &items.iter().map(row).collect::<Vec<_>>());
    Ok(())
}

/// Where the tool comes from.
fn from(tool: &ToolJson) -> String {
    let server = tool.declaration.as_ref().and_then(|declaration| declaration["mcp"]["server"].as_str());
    match (&tool.file, server) {
        (Some(file), _) => file.clone(),
        (None, Some(server)) => format!("MCP server {server}"),
        (None, None) => if tool.prebuilt { "prebuilt" } else { "API" }.to_owned(),
    }
}

fn show(screen: &Screen, tool: &ToolJson) {
    if screen.json {
        screen.json_line(&json!(tool));
        return;
    }
    let labels = if tool.labels.is_empty() { "none".to_owned() } else { tool.labels.join(", ") };
    let from = from(tool);
    let mut pairs = vec![
        ("tool", screen.clean_line(&tool.name)),
        ("effect", tool.effect.as_str().to_owned()),
        ("labels", labels),
        ("waits", if tool.asynchronous { "no".to_owned() } else { format!("up to {} ms", tool.timeout_ms) }),
        ("visible", if tool.visible { "yes" } else { "no" }.to_owned()),
        ("from", screen.clean_line(&from)),
    ];
    let missing = tool.missing_secrets.iter().map(|(name, why)| format!("`{name}`: {why}"));
    let missing = missing.collect::<Vec<_>>().join("; ");
    if !missing.is_empty() {
        pairs.push(("missing secrets", screen.clean_line(&missing)));
    }
    if let Some(workers) = tool.workers {
        let ToolWorkersJson { waiting_workers, unclaimed_calls, claimed_calls } = workers;
        pairs.push(("workers", format!("{waiting_workers} wait for a call")));
        pairs.push(("calls", format!("{unclaimed_calls} wait for a worker, {claimed_calls} have one")));
    }
    screen.pairs(&pairs);
    screen.line("");
    screen.text(&visible(&tool.description));
    let shown = tool.declaration.as_ref().unwrap_or(&tool.input);
    screen.line("");
    json_lines(shown).for_each(|line| screen.line(&screen.clean_line(&line)));
}

/// Declares the tools: those before a refused one stay.
async fn put(client: &Client, screen: &Screen, declarations: &[Declaration]) -> Result<()> {
    for declaration in declarations {
        let name = &declaration.name;
        let done: Value = client.put(&path(name), &json!(declaration)).await?;
        screen.result(
            &done,
            &format!("`{name}` is declared; agents that list it use it from their next cycle on"),
        );
    }
    Ok(())
}

async fn trial(client: &Client, screen: &Screen, tool: &str, arguments: String) -> Result<Exit> {
    let text = if arguments == "-" { input::text(limits::ARGUMENTS_MAX_BYTES)? } else { arguments };
    let arguments = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("the arguments are not JSON: {error}")).hint("such as '{\"city\": \"Rome\"}'")
    })?;
    let answer = client.post(&format!("{}/try", path(tool)), &ToolTrial { arguments }, None).await?;
    let tried: ToolTried = typed("trial", answer)?;
    if screen.json {
        screen.json_line(&json!(tried));
    } else {
        screen.note(&format!("{} after {} ms", tried.status.as_str(), tried.took_ms));
        screen.text(&tried.text);
        tried.detail.iter().for_each(|detail| screen.note(detail));
    }
    Ok(if tried.status == agent::call::OutcomeStatus::Ok { Exit::Answered } else { Exit::Failed })
}

fn text_of(file: &Path, most: usize) -> Result<Vec<u8>> {
    let unreadable = |why: String| Failure::usage(format!("cannot read `{}`: {why}", file.display()));
    // A device or a pipe says nothing of its size.
    let opened = fs::File::open(file).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    opened.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > most {
        return Err(unreadable(format!("it has more than the {most} bytes that are read")));
    }
    Ok(bytes)
}

fn declaration(file: &Path) -> Result<Declaration> {
    let shown = file.display().to_string();
    let text = String::from_utf8(text_of(file, limits::DECLARATION_MAX_BYTES)?)
        .map_err(|_| Failure::usage(format!("`{shown}` is not UTF-8")))?;
    let read = match file.extension().is_some_and(|ending| ending == "json") {
        false => read_toml(&shown, &text, &[]),
        true => {
            let value = serde_json::from_str(&text)
                .map_err(|error| Failure::usage(format!("`{shown}` is not JSON: {error}")))?;
            let named = |wrong: Vec<DeclarationMistake>| {
                let of_file = |mistake| DeclarationMistake { file: Some(shown.clone()), ..mistake };
                wrong.into_iter().map(of_file).collect()
            };
            read_json(&value, &[]).map_err(named)
        }
    };
    read.map_err(refused)
}

fn refused(mistakes: Vec<DeclarationMistake>) -> Failure {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Failure::usage(lines.join("\n")).hint("docs/tools.md lists all keys of a declaration")
}

fn imported(screen: &Screen, args: &ImportArgs) -> Result<Vec<Declaration>> {
    let document = text_of(&args.file, limits::OPENAPI_MAX_BYTES)?;
    let import = OpenApiImport { only: &args.only, server: args.server.as_deref() };
    let OpenApiTools { tools: mut declarations, left_out } =
        import_openapi(&document, &import).map_err(refused)?;
    for left in left_out {
        screen.warning(&format!("left out: {left}"));
    }
    let requests = declarations.iter_mut().filter_map(|declaration| declaration.http.as_mut());
    requests.for_each(|http| http.allow.clone_from(&args.allow));
    for declaration in &declarations {
        let Some(http) = &declaration.http else { continue };
        let secrets: Vec<_> = http.secrets().iter().map(|secret| format!("`{secret}`")).collect();
        if !secrets.is_empty() {
            let (name, secrets) = (&declaration.name, secrets.join(", "));
            screen.note(&screen.clean_line(&format!("`{name}` sends its server the secrets {secrets}")));
        }
    }
    Ok(declarations)
}

/// Writes a file for each tool, or none if one cannot be written; none that exists is overwritten.
fn write_files(screen: &Screen, dir: &Path, declarations: &[Declaration]) -> Result<()> {
    let failed = |path: &Path, why: String| {
        let message = format!("cannot write `{}`: {why}", path.display());
        Failure::new(Exit::Failed, "tool_files_unwritable", message)
    };
    let text = |declaration: &Declaration| {
        let path = dir.join(format!("{}.toml", declaration.name));
        let text = toml::to_string_pretty(declaration).map_err(|error| {
            failed(&path, error.to_string()).hint("leave out `--to` to declare it at a running server")
        })?;
        let (bytes, most) = (text.len(), limits::DECLARATION_MAX_BYTES);
        if bytes > most {
            let why = format!(
                "it would have {bytes} bytes, and a tool file is read up to {most}; nothing was written"
            );
            return Err(failed(&path, why).hint("leave out `--to` to declare it at a running server"));
        }
        Ok((path, text))
    };
    let texts: Vec<_> = declarations.iter().map(text).collect::<Result<_>>()?;
    let there: Vec<String> = (texts.iter().map(|(path, _)| path))
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| format!("`{}`", path.display()))
        .collect();
    if !there.is_empty() {
        let message = format!("nothing was written: {} exist already", there.join(", "));
        let failure = Failure::new(Exit::Failed, "tool_files_unwritable", message);
        return Err(failure.hint("remove them, or leave their operations out of `--only`"));
    }
    fs::create_dir_all(dir).map_err(|error| failed(dir, error.to_string()))?;
    for (done, (path, text)) in texts.iter().enumerate() {
        let created = fs::OpenOptions::new().write(true).create_new(true).open(path);
        // One that could only be written in part is its own, too; one that somebody else has made meanwhile is not.
        let own = done + usize::from(created.is_ok());
        if let Err(error) = created.and_then(|mut file| file.write_all(text.as_bytes())) {
            texts[..own].iter().for_each(|(path, _)| drop(fs::remove_file(path)));
            return Err(failed(path, error.to_string()).hint("no file was written"));
        }
    }
    for (path, _) in texts {
        screen.result(&json!({"file": path}), &format!("wrote `{}`", path.display()));
    }
    Ok(())
}

pub(crate) async fn clear_guard(client: &Client, screen: &Screen, agent: &str, yes: bool) -> Result<()> {
    let agent = client.agent(agent).await?;
    let what = format!(
        "`{}` will no longer read what strangers told it; read `viv agents context {}` first",
        agent.handle, agent.handle
    );
    input::confirm(screen, &what, yes, None)?;
    let answer = client.post_empty(&agent_path(agent.id, "/guard/clear")).await?;
    let GuardClearedJson { entries, goals, plans, memories, summary } = typed("answer", answer.clone())?;
    screen.result(&answer, &format!("`{}` no longer reads {entries} entries of its log", agent.handle));
    for goal in goals {
        screen.note(&screen.clean_line(&format!("deleted its goal `{goal}`")));
    }
    for plan in plans {
        screen.note(&screen.clean_line(&format!("deleted its plan `{plan}`")));
    }
    if summary {
        screen.warning(
            "its summary was written after strangers' text was read, and it still reads the rest of it; a clone of it has none",
        );
    }
    if !memories.is_empty() {
        screen.warning(&format!(
            "these memories were written after strangers' text was read, and it still reads them: {}; look at them, then set \
             or remove them with `viv memories`",
            memories.join(", ")
        ));
    }
    Ok(())
}
