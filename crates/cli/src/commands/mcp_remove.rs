//! `viv mcp remove`: takes an MCP server out of the settings file, and its approved tools out of the store. What else the file has
//! stays as it is written.

use std::path::PathBuf;

use api::McpServerJson;
use client::{Client, segment};
use serde_json::json;

use super::mcp::settings_of_server;
use crate::args::Global;
use crate::errors::{Exit, Failure, Result};
use crate::input;
use crate::listen;
use crate::output::{Screen, counted};

pub(super) async fn run(global: &Global, screen: &Screen, name: &str, yes: bool) -> Result<()> {
    let (settings, file) = settings_of_server(global).await?;
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot read `{}`: {error}", file.display());
        Failure::new(Exit::NotFound, "not_found", message).hint("`viv mcp` lists the MCP servers")
    };
    let text = std::fs::read_to_string(&file).map_err(unreadable)?;
    if !settings.mcp.contains_key(name) {
        let message = format!("no MCP server in `{}` is called `{name}`", file.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message).hint("`viv mcp` lists all"));
    }
    let left = without(&text, name).ok_or_else(|| {
        let message = format!("`{name}` is not a table of its own in `{}`", file.display());
        Failure::new(Exit::Failed, "settings_unwritable", message).hint("edit the file; nothing was changed")
    })?;
    let data_dir = settings.data_dir().to_owned();
    let client = listen::is_locked(&data_dir).then(|| Client::find(data_dir)).transpose()?;
    let path = format!("/v1/mcp/{}", segment(name));
    let approved = match &client {
        Some(client) => {
            client.get_as::<McpServerJson>(&path).await.map(|server| server.tools).unwrap_or_default()
        }
        None => Vec::new(),
    };
    let what = format!("agents lose {} of `{name}`", counted(approved.len(), "approved tool"));
    input::confirm(screen, &what, yes, None)?;
    replace(&file, &left)?;
    if let Some(client) = &client {
        for tool in &approved {
            client.delete(&format!("/v1/tools/{}", segment(tool))).await?;
        }
        client.post_empty("/v1/mcp").await?;
    }
    let line = format!(
        "`{name}` is removed from `{}`, with {}",
        file.display(),
        counted(approved.len(), "approved tool")
    );
    screen.result(&json!({"removed": name, "tools": approved, "file": file}), &line);
    Ok(())
}

/// Writes the file anew, all of it or nothing.
fn replace(file: &PathBuf, text: &str) -> Result<()> {
    let temp = file.with_extension("toml.begun");
    let written = std::fs::write(&temp, text)
        .and_then(|()| std::fs::set_permissions(&temp, std::fs::metadata(file)?.permissions()))
        .and_then(|()| std::fs::rename(&temp, file));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temp);
        let message = format!("cannot write `{}`: {error}", file.display());
        Failure::new(Exit::Failed, "settings_unwritable", message).hint("nothing was changed")
    })
}

/// The text of a settings file without the tables of that server; `None` if what is left would not be the same settings otherwise.
fn without(text: &str, name: &str) -> Option<String> {
    let whole: toml::Table = text.parse().ok()?;
    let mut wanted = whole.clone();
    let servers = wanted.get_mut("mcp")?.as_table_mut()?;
    servers.remove(name)?;
    let (mut left, mut skipping) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        if let Some(header) = header(line) {
            skipping = header.len() > 1 && header[0] == "mcp" && header[1] == name;
        }
        if !skipping {
            left.push_str(line);
        }
    }
    let mut read: toml::Table = left.parse().ok()?;
    // The last server may have been the only one.
    for table in [&mut wanted, &mut read] {
        if table.get("mcp").and_then(toml::Value::as_table).is_some_and(toml::Table::is_empty) {
            table.remove("mcp");
        }
    }
    (read == wanted).then_some(left)
}

/// The keys of a line that begins a table.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let table: toml::Table = line.starts_with('[').then(|| line.parse().ok()).flatten()?;
    let (mut keys, mut at) = (Vec::new(), &table);
    while let Some((key, value)) = at.iter().next() {
        keys.push(key.clone());
        let value = value.as_array().and_then(|all| all.first()).unwrap_or(value);
        at = value.as_table()?;
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tables_of_that_server_are_taken_out_of_the_file() {
        let before = "# mine\nlog = \"info\"\n\n[mcp.clock] # the clock\ncommand = [\"sh\"]\n\n[mcp.clock.tool.now]\neffect = \"read_only\"\n\n";
        let after = "[mcp.\"clo\"]\nurl = \"http://a\"\n# end\n[[x]]\na = 1\n";
        let left = without(&format!("{before}{after}"), "clock").unwrap();
        assert_eq!(left, format!("# mine\nlog = \"info\"\n\n{after}"));
        assert!(without(before, "clo").is_none(), "there is none");
        assert_eq!(without("[mcp.a]\nurl = \"u\"\n", "a").unwrap(), "");
        for inline in ["[mcp]\na = {url = \"u\"}\n", "mcp.a.url = \"u\"\n", "mcp = {a = {url = \"u\"}}\n"] {
            assert!(without(inline, "a").is_none(), "{inline}");
        }
        let in_a_text = "x = '''\n[mcp.a]\n'''\n[mcp.a]\nurl = \"u\"\n";
        assert!(without(in_a_text, "a").is_none(), "what looks like a table is a text");
    }
}
