//! Projects: agents as files, `vivarium.toml`, `viv init` and `viv config`, with the built binary.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::approvals::until;
use crate::world::{Ran, viv};

/// A command in a project, without a variable that names the data directory.
fn command(project: &Path, args: &[&str]) -> Command {
    let mut command = viv(project, args);
    command.env_remove("VIV_DATA_DIR").current_dir(project);
    command
}

pub(crate) fn run(project: &Path, args: &[&str]) -> Ran {
    let output = command(project, args).stdin(Stdio::null()).output().unwrap();
    Ran {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// A server in a project; killed when dropped.
pub(crate) struct Up {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it reported about the files when it was ready.
    files: Value,
    pub(crate) url: String,
}

impl Up {
    pub(crate) fn start(project: &Path, more: &[&str]) -> Self {
        let mut command = command(project, &["up", "--json", "--listen", "127.0.0.1:0", "--model", "demo"]);
        let mut child = command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let ready = line(&mut out);
        let url = ready["url"].as_str().unwrap().to_owned();
        Self { child, out, files: ready["files"].clone(), url }
    }

    /// Waits for the next line of its output.
    fn next(&mut self) -> Value {
        line(&mut self.out)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(out: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
}

pub(crate) fn write(project: &Path, file: &str, text: &str) {
    let path = project.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn project(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (file, text) in files {
        write(dir.path(), file, text);
    }
    dir
}

fn names(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["handle"].as_str().unwrap()).collect()
}

const ADA: &str = "---\ndescription: first\n---\nYou are Ada.\nBe kind.\n";
const BOB: &str = "---\nspaces: [garden]\n---\nYou are Bob.\n";

#[test]
fn init_writes_a_project_that_starts_and_never_overwrites_one() {
    let dir = project(&[(".gitignore", "target\n"), ("notes.txt", "mine")]);
    let ran = run(dir.path(), &["init"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.out.contains("add the line `.viv/`"), "{}", ran.out);
    assert_eq!(fs::read_to_string(dir.path().join(".gitignore")).unwrap(), "target\n");
    let before = fs::read(dir.path().join("agents/helper.md")).unwrap();
    let again = run(dir.path(), &["init", "--json"]);
    assert_eq!((again.code, &again.error()["error"]["code"]), (3, &json!("would_overwrite")));
    assert_eq!(again.error()["error"]["hint"], "name another folder, such as `viv init my-agents`");
    assert_eq!(run(dir.path(), &["init", "my-agents"]).code, 0);
    assert_eq!(fs::read(dir.path().join("agents/helper.md")).unwrap(), before);
    let check = run(dir.path(), &["config", "check", "--model", "demo", "--json"]);
    assert_eq!(check.json()["agents"], json!(["helper", "ops"]), "{}", check.shown());

    let up = Up::start(dir.path(), &[]);
    assert_eq!(names(&up.files["created"]), ["helper", "ops"]);
    let ran = run(dir.path(), &["say", "--wait", "--agent", "helper", "hello"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let event = run(dir.path(), &["event", "ops", "deploy", "{\"ok\": false}", "--key", "one", "--json"]);
    assert_eq!(event.json()["duplicate"], json!(false), "{}", event.shown());
    assert_eq!(run(dir.path(), &["event", "ops", "deploy", "{no"]).code, 2);
    assert_eq!(run(dir.path(), &["show", "agent", "ada"]).code, 4, "agents exist only for files");
}

#[test]
fn a_scenario_uses_an_agent_file_and_its_own_keys_override_it() {
    let file = "---\nmodel: openai/gpt-5\nspaces: [far]\nlimits: {max_steps: 7}\n---\nYou are Ops.\n";
    let world = |beside: &str| {
        format!(
            "scenario: one\npeople: [mira]\nagents:\n  ops:\n    file: ../agents/ops.md\n{beside}    script: [{{say: hi}}]\n\
             spaces: {{home: [mira, ops]}}\nstory: [{{mira says in home: hello}}]\n\
             expect: [{{ops said in home: {{contains: hi, times: 1}}}}]\n"
        )
    };
    let plain = world("");
    let dir = project(&[("agents/ops.md", file), ("scenarios/one.yaml", &plain)]);
    // Run from another folder than the file's: the path is relative to the scenario.
    let ran = run(dir.path(), &["scenario", "run", "scenarios"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let check = |beside: &str, file: &str| {
        fs::write(dir.path().join("agents/ops.md"), file).unwrap();
        fs::write(dir.path().join("scenarios/one.yaml"), world(beside)).unwrap();
        run(dir.path(), &["scenario", "check", "scenarios/one.yaml"])
    };
    let never = "    tools: [send_message]\n    stop: {require_tool: true}\n";
    let ran = check(never, file);
    assert!(ran.code == 2 && ran.out.contains("could never end a cycle"), "{}", ran.shown());
    let ran = check("", "---\nmodle: x\ntools: [send_mesage]\n---\nYou are Ops.\n");
    assert!(
        ran.code == 2
            && ran.out.contains("scenarios/one.yaml:5:11: ")
            && ran.out.contains("agents/ops.md:2: unknown key `modle`; did you mean `model`?"),
        "{}",
        ran.shown()
    );
    fs::remove_file(dir.path().join("agents/ops.md")).unwrap();
    let ran = run(dir.path(), &["scenario", "check", "scenarios/one.yaml"]);
    assert!(
        ran.code == 2 && ran.out.contains("one.yaml:5:11: ") && ran.out.contains("ops.md: cannot read it: "),
        "{}",
        ran.shown()
    );
}

#[test]
fn init_creates_the_folder_and_undoes_a_partial_write() {
    let dir = project(&[("agents", "a file where the folder would be")]);
    let ran = run(dir.path(), &["init", "--json"]);
    assert_eq!(
        (ran.code, &ran.error()["error"]["code"]),
        (1, &json!("project_unwritable")),
        "{}",
        ran.shown()
    );
    assert!(!dir.path().join("vivarium.toml").exists());
    let ran = run(dir.path(), &["init", "--json", "a/b"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(dir.path().join("a/b/agents/ops.md").exists());
}

#[test]
fn a_start_creates_changes_and_keeps_agents_according_to_their_files() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB)]);
    {
        let up = Up::start(dir.path(), &[]);
        assert_eq!(up.files["created"][0]["spaces"], json!(["ada"]));
        assert_eq!(up.files["created"][1]["spaces"], json!(["garden"]));
        let members = run(dir.path(), &["spaces", "members", "garden"]).out;
        assert!(members.contains("owner") && members.contains("bob"), "{members}");
        assert_eq!(run(dir.path(), &["agents", "set", "bob", "debounce=700"]).code, 0);
    }
    write(dir.path(), "agents/ada.md", &ADA.replace("Be kind.", "Be brief.").replace("first", "second"));
    {
        let up = Up::start(dir.path(), &[]);
        let changed = &up.files["changed"];
        assert_eq!(names(changed), ["ada", "bob"]);
        let keys: Vec<_> = changed[0]["changes"].as_array().unwrap().iter().map(|c| &c["key"]).collect();
        assert_eq!(keys, ["description", "instructions"]);
        assert_eq!((&changed[0]["amended"], &changed[1]["amended"]), (&json!(false), &json!(true)));
        assert_eq!(changed[1]["changes"], json!([{"key": "debounce", "old": 700, "new": 0}]));
    }
    let up = Up::start(dir.path(), &[]);
    assert_eq!(up.files["unchanged"], json!(["ada", "bob"]));
    assert_eq!((&up.files["changed"], &up.files["created"]), (&json!([]), &json!([])));
}

#[test]
fn an_agent_without_its_file_is_kept_until_it_is_pruned() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB)]);
    drop(Up::start(dir.path(), &[]));
    fs::rename(dir.path().join("agents/bob.md"), dir.path().join("agents/eve.md")).unwrap();
    {
        let up = Up::start(dir.path(), &[]);
        assert_eq!((names(&up.files["created"]), names(&up.files["left"])), (vec!["eve"], vec!["bob"]));
        assert_eq!(run(dir.path(), &["show", "agent", "bob"]).code, 0);
    }
    let ran = run(dir.path(), &["up", "--prune", "--listen", "127.0.0.1:0", "--json"]);
    assert!(
        ran.code == 2 && ran.error()["error"]["message"].as_str().unwrap().contains("bob"),
        "{}",
        ran.shown()
    );
    {
        let up = Up::start(dir.path(), &["--prune", "--yes"]);
        assert_eq!((names(&up.files["retired"]), &up.files["left"]), (vec!["bob"], &json!([])));
    }
    // A missing folder is a wrong path, not a request to retire all agents.
    let ran =
        run(dir.path(), &["up", "--prune", "--agents", "elsewhere", "--listen", "127.0.0.1:0", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    write(dir.path(), "agents/bob.md", BOB);
    {
        let up = Up::start(dir.path(), &["--prune"]);
        assert_eq!(names(&up.files["created"]), ["bob"], "a new agent takes the name");
        assert_eq!(up.files["unchanged"], json!(["ada", "eve"]));
        assert_eq!(run(dir.path(), &["agents", "retire", "bob", "--yes"]).code, 0);
    }
    let up = Up::start(dir.path(), &[]);
    assert_eq!(names(&up.files["left"]), ["bob"], "a file does not bring back an agent that was retired");
}

#[test]
fn a_renamed_file_gets_a_hint_and_no_agent_is_renamed() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB)]);
    {
        let mut up = Up::start(dir.path(), &[]);
        assert_eq!(up.files["created"][0]["was"], Value::Null);
        fs::rename(dir.path().join("agents/bob.md"), dir.path().join("agents/eve.md")).unwrap();
        let news = up.next()["files"].clone();
        assert_eq!((names(&news["created"]), names(&news["left"])), (vec!["eve"], vec!["bob"]));
        assert_eq!(news["created"][0]["was"], "bob");
        // There are two agents now, and as long as that is so it is said.
        let ps = run(dir.path(), &["ps"]);
        assert!(
            ps.err.contains("agents/bob.md: this file is gone, and its agent `bob` goes on"),
            "{}",
            ps.shown()
        );
        assert!(ps.err.contains("unless `name: bob` is in it"), "{}", ps.shown());
        // Its first own file has another name and nearly the same text.
        write(
            dir.path(),
            "agents/ada.md",
            &ADA.replace("description", "name: mia\ndescription").replace("kind", "brief"),
        );
        assert_eq!(up.next()["files"]["created"][0]["was"], "ada");
    }
    write(dir.path(), "agents/eve.md", &BOB.replace("spaces", "name: bob\nspaces"));
    {
        let up = Up::start(dir.path(), &[]);
        assert_eq!((&up.files["created"], names(&up.files["left"])), (&json!([]), vec!["ada", "eve"]));
        let created = ["agents", "create", "zoe", "--instructions", "You count the boats of the harbour."];
        assert_eq!(run(dir.path(), &created).code, 0);
    }
    // An agent that never had a file is matched only by an identical text.
    write(dir.path(), "agents/yan.md", "---\n---\nYou count the boats of the old harbour.");
    write(dir.path(), "agents/zed.md", "---\n---\nYou count the boats of the harbour.\n");
    let up = Up::start(dir.path(), &[]);
    let was: Vec<_> = up.files["created"].as_array().unwrap().iter().map(|one| one["was"].clone()).collect();
    assert_eq!((names(&up.files["created"]), was), (vec!["yan", "zed"], vec![Value::Null, json!("zoe")]));
}

#[test]
fn a_running_server_applies_a_changed_file_but_not_a_broken_one() {
    let dir = project(&[("agents/ada.md", ADA)]);
    let mut up = Up::start(dir.path(), &[]);
    write(dir.path(), "agents/ada.md", &ADA.replace("first", "while it runs"));
    let changed = up.next()["files"]["changed"].clone();
    assert_eq!(changed[0]["changes"][0]["new"], json!("while it runs"));
    write(dir.path(), "agents/ada.md", "---\nmodle: x\n---\nbroken");
    write(dir.path(), "agents/bob.md", BOB);
    let news = up.next()["files"].clone();
    assert_eq!((names(&news["created"]), &news["left"]), (vec!["bob"], &json!([])));
    let shown = run(dir.path(), &["show", "agent", "ada", "--json"]).out;
    assert!(shown.contains("while it runs"), "{shown}");
    fs::remove_file(dir.path().join("agents/ada.md")).unwrap();
    assert_eq!(names(&up.next()["files"]["left"]), ["ada"]);
}

/// A server of a project in the background, and its log as it grows; stopped when dropped.
struct InBackground<'a> {
    project: &'a Path,
    up: Ran,
    log: Child,
    lines: BufReader<ChildStdout>,
}

impl<'a> InBackground<'a> {
    fn start(project: &'a Path) -> Self {
        let up = run(project, &["up", "-d", "--listen", "127.0.0.1:0", "--model", "demo"]);
        assert_eq!(up.code, 0, "{}", up.shown());
        let mut log = command(project, &["logs", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(log.stdout.take().unwrap());
        Self { project, up, log, lines }
    }

    /// The next line of the log that has this part.
    fn logged(&mut self, part: &str) -> String {
        self.lines.by_ref().lines().map(Result::unwrap).find(|line| line.contains(part)).unwrap()
    }
}

impl Drop for InBackground<'_> {
    fn drop(&mut self) {
        let _ = self.log.kill();
        let _ = self.log.wait();
        run(self.project, &["stop"]);
    }
}

#[test]
fn a_file_that_names_a_tool_which_comes_later_is_read_again_then() {
    const TOOL: &str = "name = \"look\"\ndescription = \"Looks.\"\n[http]\nmethod = \"GET\"\nurl = \"https://example.com\"\n";
    let dir = project(&[("agents/ada.md", ADA)]);
    let mut server = InBackground::start(dir.path());
    write(dir.path(), "agents/eve.md", "---\ntools: [look, done]\n---\nYou are Eve.\n");
    assert!(server.logged("eve.md").contains("there is no tool `look`"));
    write(dir.path(), "tools/look.toml", &TOOL.replace("url", "[bad]\nurl"));
    let ps = until(|| Some(run(dir.path(), &["ps"])).filter(|ran| ran.err.contains("look.toml")));
    assert!(ps.err.contains("tools/look.toml: line 5: `bad`: "), "{}", ps.shown());
    let doctor = run(dir.path(), &["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("tools/look.toml: line 5"), "{}", doctor.shown());
    write(dir.path(), "tools/look.toml", TOOL);
    let line = server.logged("created agent `eve`");
    assert!(line.contains("agents/eve.md"), "{line}");
    let ps = run(dir.path(), &["ps"]);
    assert!(ps.out.contains("eve") && !ps.err.contains("look"), "{}", ps.shown());
    assert!(run(dir.path(), &["doctor"]).code == 0);
}

#[test]
fn a_project_has_only_the_spaces_of_its_files() {
    let dir = project(&[("agents/bob.md", BOB)]);
    let _up = Up::start(dir.path(), &[]);
    let spaces = run(dir.path(), &["spaces", "--json"]).json();
    assert_eq!(names(&spaces["items"]), ["garden"], "{spaces}");
    let said = run(dir.path(), &["say", "--wait", "Are you there?"]);
    assert_eq!(said.code, 0, "{}", said.shown());
}

#[test]
fn in_the_background_changes_and_mistakes_of_files_are_lines_of_the_log() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB)]);
    let mut server = InBackground::start(dir.path());
    for part in ["agents  ada, bob (from `agents`)", "created    bob  agents/bob.md, in `garden`"] {
        assert!(server.up.out.contains(part), "{part}: {}", server.up.out);
    }
    write(dir.path(), "agents/eve.md", "---\n---\nYou are Eve.\n");
    let line = server.logged("eve");
    let stamped = |line: &str| line.starts_with("20") && line.as_bytes()[10] == b'T';
    assert!(line.contains(" INFO ") && stamped(&line), "{line}");
    assert!(line.contains("created agent `eve`: agents/eve.md, in `eve`"), "{line}");
    let clean = run(dir.path(), &["doctor"]);
    assert!(!clean.out.contains("agents/"), "{}", clean.shown());

    write(dir.path(), "agents/ada.md", "---\nlimits:\n  max_steps: zero\n---\nYou are Ada.\n");
    let line = server.logged("ada.md");
    assert!(line.contains(" WARN ") && stamped(&line), "{line}");
    assert!(line.contains("agents/ada.md:3: `limits.max_steps`"), "{line}");
    assert!(line.contains("the earlier version stays in use"), "{line}");
    let ps = run(dir.path(), &["ps"]);
    assert!(ps.err.contains("agents/ada.md:3: `limits.max_steps`"), "{}", ps.shown());
    let doctor = run(dir.path(), &["doctor"]);
    assert_eq!(doctor.code, 1, "{}", doctor.shown());
    assert!(doctor.out.contains("fail  files        agents/ada.md:3: `limits.max_steps`"), "{}", doctor.out);

    write(dir.path(), "agents/ada.md", &ADA.replace("first", "second"));
    let line = server.logged("ada.md");
    assert!(line.contains("changed agent `ada`: agents/ada.md (description)"), "{line}");
    assert_eq!(run(dir.path(), &["ps"]).err, "");
}

#[test]
fn a_retired_agent_stays_retired_until_its_file_changes_or_is_created_again() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB)]);
    let mut up = Up::start(dir.path(), &[]);
    assert_eq!(run(dir.path(), &["agents", "retire", "ada", "--yes"]).code, 0);
    let old = run(dir.path(), &["show", "agent", "ada", "--json"]).json()["agent"]["id"].clone();
    drop(up);
    {
        let server = InBackground::start(dir.path());
        let out = &server.up.out;
        assert!(out.contains("agent  bob (from `agents`)") && out.contains("chat --agent bob"), "{out}");
        assert!(out.contains("left       ada  agents/ada.md: it is retired; a new agent"), "{out}");
    }
    // Changed while no server runs: the next start creates a new agent.
    write(dir.path(), "agents/ada.md", &ADA.replace("first", "second"));
    up = Up::start(dir.path(), &[]);
    assert_eq!(names(&up.files["created"]), ["ada"]);
    let new = run(dir.path(), &["show", "agent", "ada", "--json"]).json()["agent"].clone();
    assert!(new["id"] != old && new["config"]["description"] == "second", "{new}");
    drop(up);
    up = Up::start(dir.path(), &[]);
    assert_eq!(up.files["unchanged"], json!(["ada", "bob"]));
    // Created again at once, with the same text: the server may never have seen that it was gone.
    fs::remove_file(dir.path().join("agents/bob.md")).unwrap();
    assert_eq!(run(dir.path(), &["agents", "retire", "bob", "--yes"]).code, 0);
    write(dir.path(), "agents/bob.md", BOB);
    assert_eq!(up.next()["files"]["created"][0]["spaces"], json!(["garden"]));
}

#[test]
fn a_change_by_command_says_that_the_file_sets_it_back() {
    let dir = project(&[("agents/ada.md", ADA)]);
    let mut up = Up::start(dir.path(), &[]);
    assert_eq!(run(dir.path(), &["agents", "create", "kim", "--instructions", "x"]).code, 0);
    assert_eq!(run(dir.path(), &["agents", "set", "kim", "debounce=700"]).err, "");
    let set = run(dir.path(), &["agents", "set", "ada", "debounce=700"]);
    assert!(set.code == 0 && set.out.contains("debounce: 0 -> 700"), "{}", set.shown());
    assert!(
        set.err.contains("`agents/ada.md` sets this back when it changes or the server starts"),
        "{}",
        set.err
    );
    write(dir.path(), "agents/ada.md", &ADA.replace("first", "second"));
    let changed = up.next()["files"]["changed"][0].clone();
    assert_eq!((&changed["amended"], &changed["changes"][1]["key"]), (&json!(true), &json!("debounce")));
}

#[test]
fn notes_and_an_agent_without_a_key_stop_no_other_agent() {
    let keyless = "---\nmodel: mistral/large\nspaces: [home]\n---\nYou are Kim.\n";
    let dir = project(&[
        ("agents/README.md", "# Our agents\n"),
        ("agents/ada.md", ADA),
        ("agents/kim.md", keyless),
        ("agents/zed.MD", ADA),
        ("agents/team/eve.md", ADA),
    ]);
    let check = run(dir.path(), &["config", "check", "--model", "demo"]);
    let warning =
        "warning    agents/kim.md:2: `model` names `mistral/large`: `mistral` needs a key and none is set";
    for part in
        [warning, "warning    agents/zed.MD: it is not read", "warning    agents/team: the files in it"]
    {
        assert!(check.code == 0 && check.out.contains(part), "{part}: {}", check.shown());
    }
    let mut server = InBackground::start(dir.path());
    for part in [warning, "created    ada", "created    kim", "agents/zed.MD: it is not read"] {
        assert!(server.up.out.contains(part), "{part}: {}", server.up.out);
    }
    assert_eq!(run(dir.path(), &["say", "--wait", "--agent", "ada", "hello"]).code, 0);
    let say = run(dir.path(), &["say", "--wait", "--timeout", "5", "--agent", "kim", "hello"]);
    assert!(say.code != 0 && say.err.contains("needs a key"), "{}", say.shown());
    let ps = run(dir.path(), &["ps"]);
    assert!(ps.err.contains("agents/kim.md:2: `model` names `mistral/large`"), "{}", ps.shown());
    let doctor = run(dir.path(), &["doctor"]);
    assert!(doctor.out.contains("warn  files        agents/kim.md:2: `model` names"), "{}", doctor.shown());
    fs::rename(dir.path().join("agents/zed.MD"), dir.path().join("agents/zed.md")).unwrap();
    assert!(server.logged("zed").contains("created agent `zed`"));
    assert!(!run(dir.path(), &["ps"]).err.contains("zed"));
}

#[test]
fn a_folder_of_agents_that_is_a_link_to_nothing_stops_the_start() {
    let dir = project(&[]);
    std::os::unix::fs::symlink("nowhere", dir.path().join("agents")).unwrap();
    let up = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo"]);
    assert!(
        up.code == 2 && up.err.contains("agents: cannot read the folder: it is a link to nothing"),
        "{}",
        up.err
    );
}

#[test]
fn without_a_server_doctor_counts_a_mistake_in_a_file_as_a_problem() {
    let dir = project(&[("agents/ada.md", "---\nmodle: x\n---\nYou are Ada.\n")]);
    let doctor = run(dir.path(), &["doctor", "--model", "demo"]);
    assert_eq!(doctor.code, 1, "{}", doctor.shown());
    assert!(doctor.out.contains("fail  files        agents/ada.md:2: unknown key `modle`"), "{}", doctor.out);
}

#[test]
fn all_problems_of_agent_files_are_reported_before_anything_is_written() {
    let dir = project(&[
        ("agents/a.md", "---\nmodle: x\nlimits:\n  max_steps: 0\n---\nx"),
        ("agents/b.md", "---\ntools: [snd_message]\n---\nx"),
        ("agents/c.md", "---\ntools: [send_message]\nstop:\n  require_tool: true\n---\nx"),
        ("agents/d.md", "---\nname: Double\n---\nx"),
        ("agents/e.md", "---\nname: double\n---\nx"),
        ("agents/f.md", ""),
        ("agents/g.md", "---\nmodel: x\n"),
        ("agents/k.md", "---\nname: k\ntools: [done\n---\nx"),
    ]);
    write(dir.path(), "agents/h.md", "");
    fs::write(dir.path().join("agents/h.md"), b"---\n---\n\xff\xfe").unwrap();
    std::os::unix::fs::symlink("i.md", dir.path().join("agents/i.md")).unwrap();
    let ran = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo"]);
    assert_eq!(ran.code, 2);
    assert!(!dir.path().join(".viv").exists());
    insta::assert_snapshot!("bad_agent_files", ran.shown());
    let check = run(dir.path(), &["config", "check", "--model", "demo"]);
    assert_eq!((check.code, check.err), (2, ran.err));
    let dir = project(&[("agents/a.md", "---\nmodel: nobody/x\n---\nx")]);
    let check = run(dir.path(), &["config", "check", "--model", "demo"]);
    assert!(check.err.contains("agents/a.md:2: `model` names `nobody/x`: unknown provider"), "{}", check.err);
    write(dir.path(), "agents/a.md", "---\nmodel: gpt-5\n---\nx");
    let check = run(dir.path(), &["config", "check", "--model", "demo"]);
    let expected = "agents/a.md:2: `model`: wanted `demo` or `provider/model`, got `gpt-5`;";
    assert!(check.err.contains(expected) && !check.err.contains("nothing was changed"), "{}", check.err);
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_may_open_too_few_files_says_so_and_does_not_start() {
    let dir = project(&[("agents/bob.md", BOB)]);
    let viv = env!("CARGO_BIN_EXE_viv");
    let script = format!("ulimit -n 64; exec '{viv}' up --listen 127.0.0.1:0 --model demo");
    let ran = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(1) && said.contains("open 64 files"), "{said}");
}

#[test]
fn an_agent_file_cannot_take_a_persons_name() {
    let dir = project(&[]);
    {
        let _up = Up::start(dir.path(), &[]);
        assert_eq!(run(dir.path(), &["entities", "add", "husam"]).code, 0);
    }
    write(dir.path(), "agents/husam.md", BOB);
    let ran = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo", "--json"]);
    assert_eq!((ran.code, &ran.error()["error"]["code"]), (2, &json!("bad_agent_file")), "{}", ran.shown());
}

#[test]
fn settings_come_from_file_environment_and_flags_and_clients_find_the_data() {
    let text = "data_dir = \"data\"\nlog = \"error\"\n\n[model]\nname = \"demo\"\n";
    let dir = project(&[("vivarium.toml", text)]);
    let mut shown = command(dir.path(), &["config", "show", "--origin", "--json", "--listen", "127.0.0.1:1"]);
    let shown: Value =
        serde_json::from_slice(&shown.env("VIV_LOG", "info").output().unwrap().stdout).unwrap();
    let of = |key: &str| (shown[key]["value"].clone(), shown[key]["origin"].as_str().unwrap().to_owned());
    assert_eq!(of("listen"), (json!("127.0.0.1:1"), "flag --listen".to_owned()));
    assert_eq!(of("log"), (json!("info"), "environment VIV_LOG".to_owned()));
    assert_eq!(of("data_dir"), (json!("./data"), "vivarium.toml:1".to_owned()));
    assert_eq!(of("allow_remote"), (json!(false), "default".to_owned()));
    {
        let _up = Up::start(dir.path(), &[]);
        assert_eq!(run(dir.path(), &["ps"]).code, 0);
        let elsewhere = tempfile::tempdir().unwrap();
        let file = dir.path().join("vivarium.toml");
        assert_eq!(run(elsewhere.path(), &["ps", "--config", file.to_str().unwrap()]).code, 0);
        assert_eq!(run(elsewhere.path(), &["ps"]).code, 5);
    }
    write(dir.path(), "vivarium.toml", "lissten = 5\n[model]\nnaem = \"x\"\n");
    let ran = run(dir.path(), &["up"]);
    insta::assert_snapshot!("bad_settings", ran.shown());
    assert_eq!(run(dir.path(), &["up", "--config", "nowhere.toml"]).code, 2);
}

#[test]
fn config_check_refuses_the_address_that_up_would_refuse() {
    let project = tempfile::tempdir().unwrap();
    for (listen, code) in [("nope", 2), ("0.0.0.0:7878", 3)] {
        fs::write(project.path().join("vivarium.toml"), format!("listen = \"{listen}\"\n")).unwrap();
        for command in [&["config", "check"][..], &["up", "--model", "demo"]] {
            let ran = run(project.path(), command);
            assert_eq!(ran.code, code, "{command:?}: {}", ran.err);
            assert!(ran.err.contains(listen), "{}", ran.err);
        }
    }
}

#[test]
fn all_config_keys_are_listed_for_people_and_scripts() {
    let dir = project(&[]);
    let of_agents = run(dir.path(), &["config", "keys", "--agent", "--json"]).json();
    let keys: Vec<&str> =
        of_agents["items"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert!(keys.starts_with(&["name", "display_name", "spaces", "description"]), "{keys:?}");
    let page = run(dir.path(), &["config", "keys"]).out;
    assert!(page.starts_with("listen  Address to listen on"), "{page}");
}
