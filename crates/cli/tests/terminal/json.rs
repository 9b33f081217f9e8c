//! The form of every command's JSON: a list is `{"items": […], "next": …}`, anything else one object. Every command
//! is in one of the tables here, so that a new one cannot be forgotten.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::world::Server;

/// Commands that print a list, with arguments for a new server.
const LISTS: &[&[&str]] = &[
    &["ps"],
    &["ps", "--all"],
    &["agents"],
    &["agents", "list"],
    &["agents", "goals", "ada"],
    &["agents", "alerts"],
    &["agents", "alerts", "ada", "--kind", "event_dead", "--since", "2h"],
    &["memories", "ada"],
    &["memories", "list", "ada"],
    &["plans"],
    &["plans", "list", "ada"],
    &["approvals"],
    &["approvals", "list"],
    &["runs"],
    &["runs", "list"],
    &["runs", "ada"],
    &["approvals", "rules"],
    &["agents", "recall", "ada", "boiler"],
    &["recall", "ada", "boiler"],
    &["spaces"],
    &["spaces", "list"],
    &["spaces", "members", "home"],
    &["spaces", "read", "home"],
    &["spaces", "add", "home", "husam"],
    &["spaces", "remove", "home", "husam"],
    &["entities"],
    &["entities", "list"],
    &["keys"],
    &["keys", "list"],
    &["tools"],
    &["tools", "list"],
    &["mcp"],
    &["mcp", "list"],
    &["hooks"],
    &["hooks", "list"],
    &["targets"],
    &["targets", "list"],
    &["secrets"],
    &["secrets", "list"],
    &["events", "ada"],
    &["events", "list", "ada"],
    &["events", "--state", "dead"],
    &["top"],
    &["models"],
    &["config", "keys"],
];

/// Commands that print one object.
const OBJECTS: &[&[&str]] = &[
    &["say", "hello"],
    &["events", "send", "ada", "jira"],
    &["agents", "show", "ada"],
    &["show", "agent", "ada"],
    &["agents", "context", "ada"],
    &["show", "context", "ada"],
    &["agents", "create", "bob"],
    &["agents", "clone", "bob", "carl"],
    &["agents", "set", "bob", "description=x"],
    &["agents", "suspend", "bob"],
    &["agents", "resume", "bob"],
    &["agents", "retire", "bob", "--yes"],
    &["agents", "set-goal", "ada", "keep the build green"],
    &["memories", "set", "ada", "city", "Rome"],
    &["memories", "remove", "ada", "city"],
    &["tools", "show", "done"],
    &["hooks", "add", "door", "--kind", "key", "--to", "ada"],
    &["hooks", "show", "door"],
    &["hooks", "send", "door"],
    &["hooks", "remove", "door"],
    &["targets", "add", "board", "https://example.com", "--space", "home", "--secret", "news"],
    &["targets", "show", "board"],
    &["targets", "retry", "board"],
    &["targets", "remove", "board"],
    &["spaces", "open", "attic"],
    &["spaces", "show", "attic"],
    &["entities", "show", "husam"],
    &["spaces", "set", "attic", "description=x"],
    &["spaces", "close", "attic", "--yes"],
    &["spaces", "reopen", "attic"],
    &["keys", "add", "operator:read"],
    &["config", "show"],
    &["config", "check"],
    &["verify"],
    &["version"],
    &["completions", "bash"],
    &["man"],
    &["help"],
];

/// Commands that are not run here: they serve, follow, need files or another state, or other tests read their JSON.
const ELSEWHERE: &[&str] = &[
    "up",
    "stop",
    "logs",
    "init",
    "doctor",
    "chat",
    "watch",
    "runs show",
    "agents cancel",
    "agents clear guard",
    "agents end goal",
    "agents set goal",
    "agents export",
    "agents import",
    "events show",
    "events retry",
    "events drop",
    "events cancel",
    "approvals show",
    "approvals answer",
    "approvals forget",
    "plans add",
    "plans remove",
    "plans next",
    "plans show",
    "plans fire",
    "tools add",
    "tools try",
    "tools remove",
    "tools import",
    "mcp add",
    "mcp remove",
    "mcp try",
    "mcp approve",
    "mcp reload",
    "hooks log",
    "targets dead",
    "secrets set",
    "secrets remove",
    "entities add",
    "keys revoke",
    "keys rotate",
    "keys admin",
    "models try",
    "backup",
    "restore",
    "scenario run",
    "scenario check",
    "scenario record",
];

#[test]
fn a_list_has_items_and_next_and_anything_else_is_one_object() {
    let server = Server::start();
    assert_eq!(server.run(&["entities", "add", "husam", "--json"]).json()["handle"], "husam");
    let json = |args: &[&str]| {
        let ran = server.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.shown());
        ran.json()
    };
    for args in OBJECTS {
        let printed = json(args);
        assert!(printed.is_object() && printed.get("items").is_none(), "{args:?}: {printed}");
    }
    for args in LISTS {
        let printed = json(args);
        assert!(printed["items"].is_array() && printed.get("next").is_some(), "{args:?}: {printed}");
    }
    // The agents may be at work, so only what stays the same is compared.
    let listed = |args: &[&str]| {
        let rows = json(args)["items"].as_array().unwrap().clone();
        let fields = |row: &Value| {
            row.as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "cycle" && *key != "last_run")
                .cloned()
                .collect()
        };
        rows.iter().map(|row| (row["id"].clone(), fields(row))).collect::<Vec<(Value, Vec<String>)>>()
    };
    assert_eq!(listed(&["ps"]), listed(&["agents", "list"]), "they are one");
    for list in ["ps", "spaces", "entities"] {
        let items = json(&[list])["items"].as_array().unwrap().clone();
        let named = |row: &Value| row["id"].is_string() && row["handle"].is_string();
        assert!(!items.is_empty() && items.iter().all(named), "a handle is beside each id: {items:?}");
    }
}

#[test]
fn every_command_is_in_a_table_of_this_test() {
    let dir = tempfile::tempdir().unwrap();
    let pages =
        crate::world::run(dir.path(), &["man", "--json", "--dir", dir.path().to_str().unwrap()]).json();
    let names: Vec<String> = pages["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| page.as_str().unwrap().rsplit('/').next().unwrap().trim_end_matches(".1").to_owned())
        .collect();
    let known: BTreeSet<String> = LISTS
        .iter()
        .chain(OBJECTS)
        .flat_map(|args| (1..=args.len().min(3)).map(|n| plain(&args[..n])))
        .chain(ELSEWHERE.iter().map(|name| (*name).to_owned()))
        .collect();
    for name in &names {
        let group = names.iter().any(|other| other.starts_with(&format!("{name}-")));
        let command = name.trim_start_matches("viv").trim_start_matches('-').replace('-', " ");
        assert!(group || known.contains(&command), "`viv {command}` is in no table");
    }
}

/// A command line without the agent that `viv memories` names before its verb.
fn plain(args: &[&str]) -> String {
    args.iter().filter(|word| **word != "ada").copied().collect::<Vec<_>>().join(" ")
}
