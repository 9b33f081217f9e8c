//! `viv config`: the effective settings, all keys, and what `viv up` would refuse.

use agent::config::KEYS as AGENT_KEYS;
use serde_json::{Value, json};

use super::up;
use crate::args::{ConfigCommand, Global};
use crate::errors::{Exit, Result};
use crate::output::{Screen, Style};
use crate::settings::Settings;
use crate::settings::keys::{KEYS, Key};
use project::agent_file::FILE_KEYS;

pub(crate) async fn run(global: Global, screen: Screen, command: ConfigCommand) -> Result<Exit> {
    match command {
        ConfigCommand::Show { origin, up } => show(&Settings::load(&global, &up)?, &screen, origin),
        ConfigCommand::Check { up } => check(&Settings::load(&global, &up)?, &screen).await?,
        ConfigCommand::Keys { agent } => keys(&screen, agent),
    }
    Ok(Exit::Answered)
}

fn show(settings: &Settings, screen: &Screen, origin: bool) {
    let of_server = settings.all().iter();
    let of_server = of_server.map(|one| (one.key.name.to_owned(), one.shown(), one.origin.to_string()));
    let of_models = settings.of_models().map(|(model, one)| {
        let name = one.key.of_model().unwrap_or(one.key.name);
        (format!("models.\"{model}\".{name}"), one.shown(), one.origin.to_string())
    });
    let rows = of_server.chain(of_models);
    if screen.json {
        let settings: serde_json::Map<String, Value> = rows
            .map(|(name, value, from)| {
                let value = if origin { json!({"value": value, "origin": from}) } else { value };
                (name, value)
            })
            .collect();
        screen.json_line(&Value::Object(settings));
        return;
    }
    let rows: Vec<Vec<String>> = rows
        .map(|(name, value, from)| {
            let mut row = vec![screen.clean_line(&name), screen.clean_line(&display(&value))];
            row.extend(origin.then(|| screen.clean_line(&from)));
            row
        })
        .collect();
    let head = ["KEY", "VALUE", "FROM"];
    screen.table(&head[..if origin { 3 } else { 2 }], &rows);
}

fn display(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

async fn check(settings: &Settings, screen: &Screen) -> Result<()> {
    let (files, model) = up::check_start(settings).await?;
    let agents: Vec<&str> = files.names().collect();
    let file = settings.file.as_ref().map(|file| file.display().to_string());
    if screen.json {
        screen.json_line(
            &json!({"ok": true, "file": file, "agents": agents, "model": model, "warnings": files.warnings}),
        );
        return Ok(());
    }
    let of_file = file.unwrap_or_else(|| "none; all settings are defaults".to_owned());
    let of_agents = if agents.is_empty() { "none".to_owned() } else { agents.join(", ") };
    screen.line(&screen.paint(Style::Green, "`viv up` can start"));
    screen.pairs(&[
        ("settings", screen.clean_line(&of_file)),
        ("agent files", screen.clean_line(&of_agents)),
        ("model", screen.clean_line(&model)),
    ]);
    files.warnings.iter().for_each(|one| screen.warning(&one.to_string()));
    Ok(())
}

fn keys(screen: &Screen, agent: bool) {
    let rows = if agent { of_agents() } else { KEYS.iter().map(of_server).collect() };
    if screen.json {
        screen.json_list(rows);
        return;
    }
    for row in rows.iter().filter_map(Value::as_object) {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        screen.line(&format!("{}  {}", screen.paint(Style::Bold, text("key")), text("meaning")));
        let facts = row.keys().filter(|name| !matches!(name.as_str(), "key" | "meaning"));
        let facts = facts.filter(|name| !text(name).is_empty());
        let facts: Vec<String> = facts.map(|name| format!("{name}: {}", text(name))).collect();
        screen.line(&format!("    {}", screen.paint(Style::Dim, &facts.join("; "))));
    }
}

fn of_server(key: &Key) -> Value {
    json!({
        "key": key.name, "type": key.kind.description(), "default": key.default,
        "env": key.env.unwrap_or_default(), "flag": key.flag.unwrap_or_default(), "meaning": key.doc,
    })
}

fn of_agents() -> Vec<Value> {
    let of_file = FILE_KEYS.iter().map(|(name, kind, default, doc)| {
        json!({
            "key": name, "type": kind, "default": default, "bound": "", "effective": "at once", "meaning": doc,
        })
    });
    let of_config = AGENT_KEYS.iter().map(|key| {
        json!({
            "key": key.name, "type": key.kind.to_string(), "default": key.default().to_string(),
            "bound": key.bound.to_string(), "effective": key.takes_effect.to_string(), "meaning": key.doc,
        })
    });
    of_file.chain(of_config).collect()
}
