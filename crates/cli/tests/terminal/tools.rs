//! Tools from the command line: declared, tried with a secret, changed by their files; the guard; MCP servers in the settings.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use serde_json::json;

use crate::world::{Server, run, run_with, viv};

const SECRET: &str = "canary-secret-4711";

/// Answers every request with its own head, as text.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).unwrap() > 2 {}
            let length = head.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{head}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

fn declaration(name: &str, target: SocketAddr) -> String {
    format!(
        "name = \"{name}\"\ndescription = \"Returns the weather of a city.\"\neffect = \"read_only\"\n\n\
         [input]\ntype = \"object\"\nrequired = [\"city\"]\nadditionalProperties = false\n\
         properties.city = {{ type = \"string\" }}\n\n\
         [http]\nmethod = \"GET\"\nurl = \"http://{target}/now\"\nquery = {{ city = \"{{{{ city }}}}\" }}\n\
         headers = {{ authorization = \"Bearer {{{{ secret(\\\"weather\\\") }}}}\" }}\nallow = [\"{target}\"]\n"
    )
}

/// Every file below the folder that contains the text.
pub(crate) fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn a_tool_is_declared_and_tried_and_its_secret_is_kept() {
    let server = Server::start();
    let target = echo();
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("weather.toml");
    fs::write(&file, declaration("weather", target)).unwrap();
    let file = file.to_str().unwrap();
    let added = server.run(&["tools", "add", file]);
    assert_eq!(added.code, 0, "{}", added.shown());
    let shown = server.run(&["tools", "show", "weather", "--json"]).json();
    assert_eq!(
        shown["labels"],
        json!(["private", "exfiltrates", "outside"]),
        "everything, since it names none"
    );
    let arguments = r#"{"city": "Rome & Co"}"#;
    let without = server.run(&["tools", "try", "weather", arguments, "--json"]);
    assert!(without.code == 1 && without.out.contains("there is no secret `weather`"), "{}", without.shown());

    let (_, dir) = server.stop();
    assert_eq!(run_with(dir.path(), &["secrets", "set", "weather"], SECRET, &[]).code, 0);
    assert_eq!(run(dir.path(), &["secrets"]).out.trim(), "weather");
    assert_eq!(run_with(dir.path(), &["secrets", "set", "OPENAI_API_KEY"], "x", &[]).code, 2);
    assert_eq!(run_with(dir.path(), &["secrets", "set", "none"], " \n", &[]).code, 2);
    assert_eq!(run(dir.path(), &["secrets", "rm", "none"]).code, 4);
    let server = Server::start_in(dir);
    let tried = server.run(&["tools", "try", "weather", arguments, "--json"]);
    let text = tried.json()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("GET /now?city=Rome%20%26%20Co"), "{text}");
    assert!(
        text.contains("Bearer [secret weather]") && !text.contains(SECRET),
        "an echoed secret is masked: {text}"
    );
    assert_eq!(server.run(&["tools", "try", "weather", r#"{"town": 1}"#]).code, 3);
    assert_eq!(server.run(&["tools", "try", "weather", "{"]).code, 2);
    assert_eq!(server.run(&["tools", "try", "send_message"]).code, 3);
    assert_eq!(server.run(&["tools", "try", "nothing"]).code, 4);
    assert_eq!(server.run(&["tools", "rm", "done"]).code, 3);
    assert_eq!(server.run(&["agents", "create", "bob"]).code, 0);
    assert_eq!(server.run(&["agents", "set", "bob", "tools=[\"weath*\",\"done\"]"]).code, 0);
    let unknown = server.run(&["agents", "set", "bob", "tools=[\"wind*\"]"]);
    assert!(unknown.code == 3 && unknown.err.contains("no tool matches `wind*`"), "{}", unknown.shown());
    assert_eq!(server.run(&["tools", "rm", "weather"]).code, 0);
    assert_eq!(server.run(&["tools", "rm", "weather"]).code, 4);
    let (_, dir) = server.stop();
    assert_eq!(files_with(dir.path(), SECRET), ["tool-secrets.toml"], "in no log, store or backup");
}

#[test]
fn a_bad_declaration_is_refused_with_every_mistake() {
    let server = Server::start();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let good = declaration("weather", echo());
    for (name, text, words) in [
        ("a.toml", good.replace("effect", "effct"), "did you mean `effect`?"),
        ("b.toml", good.replace("\"weather\"", "\"done\""), "`done` is the name of another tool"),
        ("c.toml", good.replace("{{ city }}", "{{ city "), "http.query.city"),
        ("d.toml", good.replace("\"object\"", "\"nothing\""), "`input`"),
        ("e.toml", "name = ".to_owned(), "e.toml"),
        ("f.json", "{".to_owned(), "is not JSON"),
    ] {
        fs::write(files.path().join(name), text).unwrap();
        let ran = server.run(&["tools", "add", &path(name)]);
        assert!(ran.code == 2 && ran.err.contains(words), "{name}: {}", ran.shown());
    }
    fs::write(files.path().join("api.json"), "{\"openapi\": \"2.0\"}").unwrap();
    let ran = server.run(&["tools", "import", &path("api.json"), "--only", "getUser"]);
    assert!(ran.code == 2 && ran.err.contains("version 3"), "{}", ran.shown());
}

/// Runs a command that may have no more than 3 GB of address space: one that reads without a bound fails by that.
#[cfg(unix)]
fn run_bounded(dir: &Path, args: &[&str]) -> (i32, String) {
    let unbounded = viv(dir, args);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -v 3000000; exec \"$0\" \"$@\""]).arg(unbounded.get_program());
    command.args(unbounded.get_args());
    for (name, value) in unbounded.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8(told).unwrap())
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused_by_every_command_that_reads_one() {
    let server = Server::start();
    let endless = "/dev/zero";
    for args in [
        &["tools", "add", endless][..],
        &["tools", "import", endless, "--only", "getA"],
        &["agents", "create", "bob", "-f", endless],
        &["agents", "set", "ada", "instructions=@/dev/zero"],
        &["scenario", "check", endless],
        &["agents", "import", endless],
        &["verify", endless],
        &["restore", endless],
    ] {
        // What it is about goes to stdout where a command reports on each file.
        let (code, told) = run_bounded(server.dir.path(), args);
        assert!(code > 0 && told.contains(endless), "{args:?}: {code} {told}");
    }
}

#[test]
fn an_import_writes_all_its_files_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let operation = |name: &str| json!({"get": {"operationId": name, "summary": "Reads.", "responses": {"200": {"description": "ok"}}}});
    let document = json!({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://api.example/v1"}],
        "paths": {"/a": operation("getA"), "/b": operation("getB"), "/c": operation("getC")}});
    fs::write(dir.path().join("api.json"), document.to_string()).unwrap();
    let tools = dir.path().join("tools");
    let import = || {
        let (api, to) = (dir.path().join("api.json"), tools.to_str().unwrap());
        run(dir.path(), &["tools", "import", api.to_str().unwrap(), "--only", "getA,getB,getC", "--to", to])
    };
    let files = || {
        let mut names: Vec<_> = fs::read_dir(&tools)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(import().code, 0, "{}", import().shown());
    let all = files();
    assert_eq!(all.len(), 3, "{all:?}");
    for kept in &all {
        for name in all.iter().filter(|name| *name != kept) {
            fs::remove_file(tools.join(name)).unwrap();
        }
        fs::write(tools.join(kept), "mine").unwrap();
        let refused = import();
        assert!(refused.code == 1 && refused.err.contains("nothing was written"), "{}", refused.shown());
        assert!(refused.err.contains(kept), "{}", refused.shown());
        assert_eq!(files(), [kept.as_str()]);
        assert_eq!(fs::read_to_string(tools.join(kept)).unwrap(), "mine");
        fs::remove_file(tools.join(kept)).unwrap();
        assert_eq!(import().code, 0);
    }
}

#[test]
fn an_import_writes_no_file_that_is_too_large_to_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut schemas = serde_json::Map::new();
    for level in 0..25 {
        let next = json!({"$ref": format!("#/components/schemas/L{}", level + 1)});
        let fields: serde_json::Map<_, _> =
            "abcdefgh".chars().map(|name| (name.to_string(), next.clone())).collect();
        schemas.insert(format!("L{level}"), json!({"type": "object", "properties": fields}));
    }
    let body = json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/L0"}}}});
    let document = json!({"openapi": "3.0.0", "servers": [{"url": "https://api.example"}], "components": {"schemas": schemas},
        "paths": {"/a": {"post": {"operationId": "laugh", "requestBody": body}}, "/b": {"get": {"operationId": "small"}}}});
    fs::write(dir.path().join("api.json"), document.to_string()).unwrap();
    let (api, tools) = (dir.path().join("api.json"), dir.path().join("tools"));
    let (api, to) = (api.to_str().unwrap(), tools.to_str().unwrap());
    let ran = run(dir.path(), &["tools", "import", api, "--only", "small,laugh", "--to", to]);
    assert!(ran.code == 1 && ran.err.contains("a tool file is read up to 262144"), "{}", ran.shown());
    assert!(!tools.exists());
}

/// A declaration of `wind` that is no tool file.
fn wind_of_api(dir: &Path) -> String {
    let path = dir.join("wind.json");
    let http = json!({"method": "GET", "url": "https://wind.example/"});
    let text = json!({"name": "wind", "description": "From the API.", "effect": "read_only", "http": http});
    fs::write(&path, text.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn tool_files_are_used_while_the_server_runs_and_belong_to_their_files() {
    let server = Server::start();
    let (_, dir) = server.stop();
    let tools = tempfile::tempdir().unwrap();
    let file = tools.path().join("weather.toml");
    fs::write(&file, declaration("weather", echo()).replace("name = ", "nme = ")).unwrap();
    let folder = tools.path().to_str().unwrap();
    let refused = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo", "--tools", folder]);
    assert!(refused.code == 2 && refused.err.contains("did you mean `name`?"), "{}", refused.shown());
    fs::write(&file, declaration("weather", echo())).unwrap();
    // One that was declared otherwise is not replaced without a word.
    let server = Server::start_in(dir);
    assert_eq!(server.run(&["tools", "add", &wind_of_api(tools.path())]).code, 0);
    let (_, dir) = server.stop();
    fs::write(tools.path().join("wind.toml"), declaration("wind", echo())).unwrap();
    let server = Server::start_with(dir, &["--model", "demo"], &[("VIV_TOOLS_DIR", folder)]);
    let kept = server.run(&["tools", "show", "wind", "--json"]).json();
    assert_eq!((kept.get("file"), &kept["description"]), (None, &json!("From the API.")));
    let removed = server.run(&["tools", "rm", "weather"]);
    assert!(removed.code == 3 && removed.err.contains("weather.toml"), "{}", removed.shown());
}

#[test]
fn the_guard_of_an_agent_is_cleared_and_one_that_is_off_is_reported() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "create", "bob"]).code, 0);
    assert_eq!(server.run(&["guard", "clear", "bob"]).code, 2, "it must be confirmed");
    let cleared = server.run(&["guard", "clear", "bob", "--yes", "--json"]);
    assert_eq!(
        cleared.json(),
        json!({"entries": 0, "goals": [], "plans": [], "memories": [], "summary": false})
    );
    assert_eq!(server.run(&["guard", "clear", "nobody", "--yes"]).code, 4);
    assert!(!server.run(&["doctor"]).out.contains("strangers"));
    assert_eq!(server.run(&["agents", "set", "bob", "guard=off"]).code, 0);
    let doctor = server.run(&["doctor"]);
    assert!(doctor.out.contains("strangers' text can make these agents give away"), "{}", doctor.shown());
    assert_eq!(server.run(&["agents", "set", "bob", "guard=no"]).code, 3);
}

#[test]
fn a_mistake_in_the_settings_of_an_mcp_server_has_its_line_and_one_that_does_not_start_stops_nothing() {
    let server = Server::start();
    let (_, dir) = server.stop();
    let file = dir.path().join("mcp.toml");
    let config = file.to_str().unwrap().to_owned();
    let check = |text: &str, words: &str| {
        fs::write(&file, text).unwrap();
        let ran = run(dir.path(), &["config", "check", "--config", &config, "--model", "demo"]);
        assert!(ran.code == 2 && ran.err.contains(words), "{text}: {}", ran.shown());
    };
    check("\n[mcp.files]\ncommand = []\n", ":2: ");
    check("[mcp.files]\nurl = \"http://a.example\"\ncommand = [\"x\"]\n", "url");
    check("[mcp.files]\ncomand = [\"x\"]\n", "comand");
    let missing = run(dir.path(), &["mcp", "add", "files", "--", "/nowhere/server"]);
    assert!(missing.code == 1 && missing.err.contains("nothing was added"), "{}", missing.shown());
    fs::write(&file, "[mcp.files]\ncommand = [\"/nowhere/server\"]\n").unwrap();
    let server = Server::start_with(dir, &["--model", "demo"], &[("VIV_CONFIG", &config)]);
    let listed = server.run(&["mcp", "--json"]).json();
    assert_eq!(listed["items"], json!([{"name": "files", "tools": []}]));
    let asked = server.run(&["mcp", "try", "files"]);
    assert!(asked.code == 1 && asked.err.contains("/nowhere/server"), "{}", asked.shown());
    assert_eq!(server.run(&["mcp", "try", "other"]).code, 4);
    assert_eq!(server.run(&["mcp", "approve", "files", "--yes"]).code, 1);
}
