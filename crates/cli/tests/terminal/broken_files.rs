//! Files with mistakes: whatever a running server tolerates, its next start tolerates, and both say so.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::approvals::until;
use crate::project::{Up, project, run, write};
use crate::world::get;

const UP: [&str; 6] = ["up", "-d", "--listen", "127.0.0.1:0", "--model", "demo"];
const TOOL: &str = "name = \"look\"\ndescription = \"Looks.\"\neffect = \"read_only\"\n[http]\nmethod = \"GET\"\nurl = \"https://example.com\"\n";
const ADA: &str = "---\nspaces: [home]\ntools: [look, send_message, done]\n---\nYou are Ada.\n";
const BOB: &str = "---\nspaces: [home]\n---\nYou are Bob.\n";

/// A server in the background that is killed, not stopped.
struct Killed<'a>(&'a Path);

impl<'a> Killed<'a> {
    fn start(project: &'a Path) -> Self {
        let up = run(project, &UP);
        assert_eq!(up.code, 0, "{}", up.shown());
        Self(project)
    }
}

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.0.join(".viv/lock")).ok().and_then(|text| text.trim().parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { return };
        let _ = kill_process(pid, Signal::KILL);
        while test_kill_process(pid).is_ok() {
            std::thread::yield_now();
        }
    }
}

/// What `viv ps` says beside the table is about this file; `None` if not.
fn said(project: &Path, file: &str) -> Option<String> {
    Some(run(project, &["ps"]).err).filter(|said| said.contains(file))
}

#[test]
fn a_mistake_of_every_kind_of_file_that_a_running_server_tolerates_stops_no_start() {
    let dir = project(&[("agents/ada.md", ADA), ("agents/bob.md", BOB), ("tools/look.toml", TOOL)]);
    let project = dir.path();
    let by_an_agent = BOB.replace("spaces", "approvers: [ada]\nspaces");
    // The file, what is wrong with it, and what was in it before.
    let kinds = [
        ("agents/ada.md", "---\nmodle: x\n---\nYou are Ada.\n", Some(ADA)),
        ("agents/new.md", "---\nmodle: x\n---\nYou are new.\n", None),
        ("agents/bob.md", by_an_agent.as_str(), Some(BOB)),
        ("tools/look.toml", &TOOL.replace("read_only", "reed_only"), Some(TOOL)),
        ("tools/new.toml", "name = 3\n", None),
    ];
    for (file, broken, before) in kinds {
        let running = Killed::start(project);
        write(project, file, broken);
        let while_running = until(|| said(project, file));
        drop(running);
        let again = Killed::start(project);
        assert_eq!(said(project, file).as_deref(), Some(while_running.as_str()), "{file}");
        let doctor = run(project, &["doctor"]);
        assert!(doctor.code == 1 && doctor.out.contains(file), "{file}: {}", doctor.shown());
        let log = run(project, &["logs"]).out;
        let loud = |line: &str| line.contains(" ERROR ") && line.contains(file);
        assert!(log.lines().any(loud), "{file}: {log}");
        let ada = run(project, &["show", "agent", "ada", "--json"]);
        assert!(ada.code == 0 && ada.out.contains("\"look\""), "{file}: {}", ada.shown());
        assert_eq!(run(project, &["tools", "show", "look"]).code, 0, "{file}");
        match before {
            Some(before) => write(project, file, before),
            None => fs::remove_file(project.join(file)).unwrap(),
        }
        until(|| said(project, file).is_none().then_some(()));
        drop(again);
    }
    let _clean = Killed::start(project);
    assert_eq!(run(project, &["ps"]).err, "");
}

#[test]
fn what_a_config_names_and_does_not_exist_is_said_at_once_wherever_it_comes_from() {
    let dir = project(&[("agents/ada.md", ADA), ("tools/look.toml", TOOL)]);
    let project = dir.path();
    let _server = Killed::start(project);
    assert_eq!(run(project, &["ps"]).err, "");
    // A tool that goes while an agent of a file names it, and while an agent of the API does.
    assert_eq!(run(project, &["agents", "create", "kim", "--instructions", "x"]).code, 0);
    assert_eq!(run(project, &["agents", "set", "kim", "tools=[\"look\", \"send_message\"]"]).code, 0);
    fs::remove_file(project.join("tools/look.toml")).unwrap();
    let logged = |part: &str| {
        until(|| run(project, &["logs"]).out.lines().find(|l| l.contains(part)).map(str::to_owned))
    };
    assert!(logged("there is no tool `look`").contains("agents/ada.md:3"));
    let ps = run(project, &["ps"]);
    for part in
        ["agents/ada.md:3: `tools`: there is no tool `look`", "`kim`: `tools`: there is no tool `look`"]
    {
        assert!(ps.err.contains(part), "{part}: {}", ps.err);
    }
    let doctor = run(project, &["doctor"]);
    assert!(doctor.out.contains("`kim`: `tools`: there is no tool `look`"), "{}", doctor.shown());
    // A pattern of a server that does not exist.
    let set = run(project, &["agents", "set", "kim", "tools=[\"clok:*\"]"]);
    assert!(set.code == 0 && set.shown().contains("no approved tool matches `clok:*`"), "{}", set.shown());
    assert!(run(project, &["ps"]).err.contains("`kim`: `tools`: no approved tool matches `clok:*`"));
    // An approver that is nobody.
    write(project, "agents/ada.md", &BOB.replace("spaces", "approvers: [mira]\nspaces"));
    assert!(logged("`approvers`: `mira` is nobody").contains(" WARN "));
    let ps = until(|| Some(run(project, &["ps"]).err).filter(|said| !said.contains("agents/ada.md")));
    assert!(ps.contains("`ada`: `approvers`: `mira` is nobody"), "{ps}");
    assert!(run(project, &["agents", "show", "ada"]).out.contains("`mira` is nobody"));
    assert_eq!(run(project, &["entities", "add", "mira"]).code, 0);
    assert!(!run(project, &["ps"]).err.contains("mira"), "it is said only as long as it is so");
}

#[test]
fn a_server_comes_back_although_the_file_of_an_agent_that_exists_is_broken_and_says_so() {
    let dir = project(&[("agents/ada.md", "---\nspaces: [home]\n---\nYou are Ada."), ("agents/bob.md", BOB)]);
    drop(Up::start(dir.path(), &[]));
    for broken in ["---\nmodle: x\n---\nYou are Ada.\n", "", "---\ntools: [done\n---\nx"] {
        write(dir.path(), "agents/ada.md", broken);
        let up = Up::start(dir.path(), &[]);
        let ps = run(dir.path(), &["ps"]);
        assert!(ps.out.contains("ada") && ps.out.contains("bob"), "{}", ps.shown());
        assert!(format!("{}{}", ps.out, ps.err).contains("agents/ada.md"), "{}", ps.shown());
        // Who has no key learns that something is wrong, and not what.
        let ready = get(&up.url, "/v1/ready", None);
        assert_eq!((&ready["ready"], &ready["broken_files"]), (&json!(true), &json!(1)), "{ready}");
        assert_eq!(ready.get("mistakes"), None, "{ready}");
        let file = fs::read_to_string(dir.path().join(".viv/credentials.json")).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        let ready = get(&up.url, "/v1/ready", file["key"].as_str());
        assert!(ready["mistakes"][0].as_str().unwrap().starts_with("agents/ada.md"), "{ready}");
        let doctor = run(dir.path(), &["doctor"]);
        assert!(doctor.code != 0 && doctor.out.contains("agents/ada.md"), "{}", doctor.shown());
        drop(up);
    }
    // The file of an agent that does not exist is refused as before.
    write(dir.path(), "agents/ada.md", "---\nspaces: [home]\n---\nYou are Ada.");
    write(dir.path(), "agents/new.md", "---\nmodle: x\n---\nx");
    let ran = run(dir.path(), &["up", "--listen", "127.0.0.1:0", "--model", "demo"]);
    assert!(ran.code == 2 && ran.err.contains("agents/new.md:2"), "{}", ran.shown());
}
