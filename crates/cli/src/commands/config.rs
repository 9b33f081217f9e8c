//! `viv config`: the effective settings, all keys, and what `viv up` would refuse.

use agent::config::KEYS as AGENT_KEYS;
use serde_json::{Value, json};

use super::up;
use crate::args::{ConfigCommand, Global, KeysArgs};
use crate::errors::{Exit, Result};
use crate::output::{Screen, Style};
use crate::settings::keys::KEYS;
use crate::settings::{Settings, shown};
use project::agent_file::FILE_KEYS;

/// Runs `show`, `check` or `keys`.
pub(crate) async fn run(global: Global, screen: Screen, command: ConfigCommand) -> Result<Exit> {
    match command {
        ConfigCommand::Show { origin, up } => show(&Settings::load(&global, up.given())?, &screen, origin),
        ConfigCommand::Check { up } => check(&Settings::load(&global, up.given())?, &screen).await?,
        ConfigCommand::Keys(args) => keys(&screen, args),
    }
    Ok(Exit::Answered)
}

fn show(settings: &Settings, screen: &Screen, origin: bool) {
    let of_server = settings.all().iter();
    let of_server = of_server.map(|one| (one.key.name.to_owned(), one.shown(), one.origin.to_string()));
    let of_models = settings.of_models().map(|(model, key, value, origin)| {
        let name = key.name.trim_start_matches("model.");
        (format!("models.\"{model}\".{name}"), shown(key, value), origin.to_string())
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
    let (agents, model) = up::check_start(settings).await?;
    let file = settings.file.as_ref().map(|file| file.display().to_string());
    if screen.json {
        screen.json_line(&json!({"ok": true, "file": file, "agents": agents, "model": model}));
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
    Ok(())
}

/// One key as a row: names of the columns and their values.
type ConfigRow = Vec<(&'static str, String)>;

fn keys(screen: &Screen, args: KeysArgs) {
    let rows = if args.agent { of_agents() } else { of_server() };
    if screen.json {
        let rows: Vec<Value> = rows
            .into_iter()
            .map(|row| row.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect())
            .collect();
        screen.json_list(rows);
    } else if args.markdown {
        markdown(screen, &rows);
    } else {
        for row in &rows {
            let mut cells = row.iter();
            let name = cells.next().map(|(_, name)| name.as_str()).unwrap_or_default();
            let doc = row.last().map(|(_, doc)| doc.as_str()).unwrap_or_default();
            screen.line(&format!("{}  {doc}", screen.paint(Style::Bold, name)));
            let facts = row[1..row.len() - 1].iter().filter(|(_, fact)| !fact.is_empty());
            let facts: Vec<String> = facts.map(|(what, fact)| format!("{what}: {fact}")).collect();
            screen.line(&format!("    {}", screen.paint(Style::Dim, &facts.join("; "))));
        }
    }
}

fn markdown(screen: &Screen, rows: &[ConfigRow]) {
    let Some(first) = rows.first() else { return };
    let heads: Vec<&str> = first.iter().map(|(head, _)| *head).collect();
    screen.line(&format!("| {} |", heads.join(" | ")));
    screen.line(&format!("|{}", " --- |".repeat(heads.len())));
    for row in rows {
        let cells = row.iter().map(|(head, cell)| match *head {
            "key" | "default" | "env" | "flag" if !cell.is_empty() => format!("`{cell}`"),
            _ => cell.replace('|', "\\|"),
        });
        screen.line(&format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
    }
}

fn of_server() -> Vec<ConfigRow> {
    let row = |key: &crate::settings::keys::Key| {
        vec![
            ("key", key.name.to_owned()),
            ("type", key.kind.description()),
            ("default", key.default.to_owned()),
            ("env", key.env.unwrap_or_default().to_owned()),
            ("flag", key.flag.unwrap_or_default().to_owned()),
            ("meaning", key.doc.to_owned()),
        ]
    };
    KEYS.iter().map(row).collect()
}

fn of_agents() -> Vec<ConfigRow> {
    let row = |name: &str, kind: String, default: String, bound: String, effective: &str, doc: &str| {
        vec![
            ("key", name.to_owned()),
            ("type", kind),
            ("default", default),
            ("bound", bound),
            ("effective", effective.to_owned()),
            ("meaning", doc.to_owned()),
        ]
    };
    let of_file = FILE_KEYS.iter().map(|(name, kind, default, doc)| {
        row(name, (*kind).to_owned(), (*default).to_owned(), String::new(), "at once", doc)
    });
    let of_config = AGENT_KEYS.iter().map(|key| {
        let default = key.default().to_string();
        let bound = key.bound.to_string();
        row(key.name, key.kind.to_string(), default, bound, &key.takes_effect.to_string(), key.doc)
    });
    of_file.chain(of_config).collect()
}
