//! The version that approvals and rules bind: it is another one after any change of a declaration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent::call::Effect;
use agent::port::{Tool as _, Toolbox as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tools::connector::Connector;
use tools::declare::{
    Declaration, HttpDeclaration, McpDeclaration, Rate, RateUnit, ToolKind, ToolLabel, WorkerDeclaration,
    read_json,
};
use tools::http::HttpTool;
use tools::mcp::{McpDescription, McpHost, McpServer, McpServerConfig, McpToolConfig};
use tools::secret::{NoSecrets, SecretValue, Secrets};

/// Texts of which one fits at every place of a declaration.
const TEXTS: [&str; 7] = ["x", "worker", "read_only", "private", "7s", "9/min", "10.0.0.0/8"];

/// Calls `visit` with every part of the value.
fn each(value: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, value);
    let mut inner = |key: &str, value: &Value| {
        each(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), visit);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| inner(&at.to_string(), item));
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| inner(key, value)),
        _ => {}
    }
}

/// What can stand in the place of a part.
fn instead(part: &Value) -> Vec<Value> {
    match part {
        Value::Null => vec![json!("x")],
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => vec![json!(number.as_u64().expect("a count") + 1)],
        Value::String(text) => {
            let texts = TEXTS.iter().map(|other| json!(other));
            std::iter::once(json!(format!("{text}x"))).chain(texts).filter(|other| other != part).collect()
        }
        Value::Array(items) => {
            let fewer = (0..items.len()).map(|at| {
                let kept = items.iter().enumerate().filter(|(other, _)| *other != at);
                kept.map(|(_, item)| item.clone()).collect()
            });
            fewer.chain(TEXTS.map(|text| items.iter().cloned().chain([json!(text)]).collect())).collect()
        }
        Value::Object(map) => {
            let fewer = map.keys().map(|key| {
                let kept = map.iter().filter(|(other, _)| *other != key);
                Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
            });
            let more = map.iter().map(|(key, value)| (key.clone(), value.clone()));
            fewer.chain([Value::Object(more.chain([("more".to_owned(), json!("x"))]).collect())]).collect()
        }
    }
}

/// Asserts that each change of one part, and every key has one, gives another version.
fn every_change_counts<T: Serialize + DeserializeOwned + PartialEq>(
    whole: &T,
    version: impl Fn(T) -> Option<String>,
) {
    let json = serde_json::to_value(whole).expect("JSON");
    let read = |json: Value| serde_json::from_value::<T>(json).ok();
    let first = version(read(json.clone()).expect("the same")).expect("it can be used");
    let mut fixed = Vec::new();
    each(&json, "", &mut |path, part| {
        let mut changes = 0;
        for other in instead(part) {
            let mut changed = json.clone();
            *changed.pointer_mut(path).expect("a part") = other.clone();
            let Some(changed) = read(changed).filter(|changed| changed != whole) else { continue };
            let Some(version) = version(changed) else { continue };
            assert_ne!(version, first, "`{path}` became {other}, and the version stayed");
            changes += 1;
        }
        if changes == 0 && !part.is_object() {
            fixed.push(path.to_owned());
        }
    });
    assert_eq!(fixed, Vec::<String>::new(), "nothing else could stand there");
}

fn description() -> McpDescription {
    McpDescription {
        name: "echo".into(),
        description: "Says it.".into(),
        schema: json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 9}}}),
        hash: "1".into(),
        reads_resources: false,
    }
}

/// Every key has a value. A new one must be added here, else this does not compile.
fn whole() -> Declaration {
    Declaration {
        name: "ask".into(),
        kind: ToolKind::Http,
        description: "Asks.".into(),
        input: json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}, "required": ["a"]}),
        effect: Effect::Unsafe,
        visible: false,
        asynchronous: false,
        timeout: Duration::from_secs(30),
        concurrency: 2,
        rate: Some(Rate { count: 10, per: RateUnit::Minute }),
        labels: Some(BTreeSet::from([ToolLabel::Outside])),
        http: Some(HttpDeclaration {
            method: "POST".into(),
            url: "https://a.example/{{ a }}".into(),
            query: BTreeMap::from([("q".into(), "{{ a }}".into())]),
            headers: BTreeMap::from([("authorization".into(), "Bearer {{ secret('key') }}".into())]),
            body: Some("{{ a }}".into()),
            json: Some(json!({"a": ["{{ a }}", 1, true, null]})),
            form: Some(json!({"a": {"b": "{{ a }}"}})),
            outcome: Some("/a".into()),
            allow: vec!["a.example".into()],
        }),
        worker: Some(WorkerDeclaration { version: "1".into() }),
        mcp: Some(McpDeclaration { server: "fake".into(), approved: description() }),
    }
}

#[test]
fn a_change_of_any_key_of_a_declaration_changes_its_version() {
    every_change_counts(&whole(), |declaration| Some(declaration.version()));
}

#[test]
fn a_tool_has_the_version_of_its_declaration_whoever_runs_it() {
    let http = json!({"name": "ask", "description": "Asks.", "http": {"method": "GET", "url": "https://a.example/"}});
    let declaration = read_json(&http, &[]).unwrap();
    let secrets = || Arc::new(NoSecrets) as Arc<dyn Secrets>;
    let tool = HttpTool::new(declaration.clone(), Arc::new(Connector::default()), secrets()).unwrap();
    assert_eq!(tool.spec().version, declaration.version());

    let kit = tools::prebuilt().declaring(Arc::new(Connector::default()), secrets(), Vec::new());
    let worker = json!({"name": "resize", "kind": "worker", "description": "Makes it smaller.", "worker": {"version": "2"}});
    let stored = |declaration: &Value| agent::port::StoredTool {
        name: "resize".into(),
        declaration: declaration.clone(),
        file: None,
        at: jiff::Timestamp::UNIX_EPOCH,
    };
    let version = |declaration: &Value| {
        assert_eq!(kit.declare(&[stored(declaration)]), []);
        kit.tool("resize").unwrap().spec().version.clone()
    };
    let first = version(&worker);
    assert_eq!(first, read_json(&worker, &[]).unwrap().version());
    let mut slower = worker.clone();
    slower["timeout"] = json!("31s");
    assert_ne!(version(&slower), first);
    assert_eq!(version(&worker), first);
}

#[test]
fn the_order_of_keys_and_the_values_of_secrets_are_no_part_of_a_version() {
    let one = json!({"name": "ask", "description": "Asks.", "http": {"method": "GET", "url": "https://a.example/"}});
    let other = json!({"http": {"url": "https://a.example/", "method": "GET"}, "description": "Asks.", "name": "ask", "kind": "http"});
    let read = |json: &Value| read_json(json, &[]).unwrap().version();
    assert_eq!(read(&one), read(&other), "a default that is written out is the same");
    assert_eq!(read(&one).len(), 64);
}

/// The version of the tool `echo` of a server with these settings, if they are right and allow it.
fn of_server(config: McpServerConfig) -> Option<String> {
    let secrets = Arc::new(BTreeMap::from([("key".to_owned(), SecretValue::new("s3cret-value"))]));
    let host = Arc::new(McpHost::new(crate::child::holder(), std::env::temp_dir(), Vec::new()));
    let server = McpServer::new("fake", config, Arc::new(Connector::default()), secrets, host);
    let (tools, _) = Arc::new(server.ok()?).tools(&[description()]);
    Some(tools.first()?.spec().version.clone())
}

#[test]
fn a_change_of_where_an_mcp_server_is_or_what_it_may_do_changes_the_versions_of_its_tools() {
    let own = McpToolConfig {
        labels: Some(BTreeSet::from([ToolLabel::Outside])),
        effect: Some(Effect::Idempotent),
        timeout: Some(Duration::from_secs(5)),
        concurrency: Some(2),
    };
    let local = McpServerConfig {
        command: Some(vec!["/bin/server".into(), "--here".into()]),
        url: None,
        env: BTreeMap::from([("KEY".into(), "{{ secret('key') }}".into())]),
        headers: BTreeMap::new(),
        write: vec!["/tmp/a".into()],
        allow: Vec::new(),
        tools: Some(vec!["e*".into(), "echo".into()]),
        labels: Some(BTreeSet::from([ToolLabel::Outside])),
        effect: Effect::Unsafe,
        timeout: Duration::from_secs(30),
        concurrency: 4,
        tool: BTreeMap::from([("echo".into(), own)]),
    };
    every_change_counts(&local, of_server);
    let remote = McpServerConfig {
        command: None,
        url: Some("https://a.example/mcp".into()),
        env: BTreeMap::new(),
        write: Vec::new(),
        headers: BTreeMap::from([("authorization".into(), "Bearer {{ secret('key') }}".into())]),
        allow: vec!["a.example".into()],
        ..local
    };
    every_change_counts(&remote, of_server);
}
