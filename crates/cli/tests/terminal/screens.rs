//! Whole screens with fixed answers: wide, usual and narrow terminals, without UTF-8, with and without
//! colours, and without a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::stub::Stub;
use crate::world::{run_with, stable, viv};

const AGENT: &str = "019a0000-0000-7000-8000-0000000000a1";
const OWNER: &str = "019a0000-0000-7000-8000-0000000000b1";
const SPACE: &str = "019a0000-0000-7000-8000-0000000000c1";
const RUN: &str = "019a0000-0000-7000-8000-0000000000d1";

/// A server with one agent, one person, one space and one old run.
fn garden_server() -> Stub {
    let agent = agent();
    let page = |items: Value| json!({"items": items, "next": null});
    let run_path = format!("/v1/runs/{RUN}");
    let by_id = |rest: &str| format!("/v1/agents/{AGENT}{rest}");
    let messages = format!("/v1/spaces/{SPACE}/messages");
    let members = "/v1/spaces/home/members";
    let ready = json!({"ready": true, "version": env!("CARGO_PKG_VERSION"),
        "model": {"name": "demo", "demo": true, "context_window": 128_000},
        "totals": {"agents": 1, "spaces": 1, "messages": 2, "waiting": 1, "dead": 0, "open_cycles": 0}});
    Stub::serve(vec![
        ("/v1/ready", ready),
        ("/v1/agents", page(json!([agent]))),
        ("/v1/agents/ada", agent.clone()),
        (&by_id(""), agent),
        (&by_id("/facts"), json!({"spaces": [], "memories": [], "goals": [], "plans": []})),
        (&by_id("/runs"), page(json!([run()]))),
        (&by_id("/calls"), page(json!([]))),
        (&by_id("/context"), context()),
        (&by_id("/consciousness"), consciousness()),
        (&run_path, detail()),
        ("/v1/spaces", page(json!([space()]))),
        ("/v1/spaces/home", space()),
        (&messages, page(json!([message(1, OWNER, "You", "What grows here? Look it up."), adas_message()]))),
        (
            members,
            page(
                json!([{"entity": entity(OWNER, "human", "owner", "Mira"), "role": "owner", "since": "2026-01-01T00:00:00Z"},
            {"entity": entity(AGENT, "agent", "ada", "Ada"), "role": "member", "since": "2026-01-01T00:00:00Z"}]),
            ),
        ),
        (
            "/v1/entities",
            page(json!([entity(AGENT, "agent", "ada", "Ada"), entity(OWNER, "human", "owner", "Mira")])),
        ),
    ])
}

fn agent() -> Value {
    json!({"id": AGENT, "handle": "ada", "display_name": "Ada", "description": "keeps the garden in order",
        "state": "sleeping", "standing": "active", "model": "lab/large", "config": {}, "config_rev": 3,
        "waiting": 1, "held": 0, "cycles": 1, "skips": 0, "active_space": SPACE, "not_before": null,
        "usage": {"input": 2600, "cached": 1024, "output": 180, "reasoning": 64},
        "created_at": "2026-01-01T00:00:00Z", "commit_n": 5,
        "last_run": {"id": RUN, "ending": "completed", "ended_at": "2026-01-01T12:00:09Z"}})
}

fn entity(id: &str, kind: &str, name: &str, display: &str) -> Value {
    json!({"id": id, "kind": kind, "handle": name, "display_name": display, "external_id": null,
        "created_at": "2026-01-01T00:00:00Z"})
}

fn space() -> Value {
    json!({"id": SPACE, "handle": "home", "display_name": "Home", "description": "where you and Ada talk",
        "head_seq": 2, "rev": 2, "closed": false, "wake_on": "all", "created_at": "2026-01-01T00:00:00Z"})
}

fn message(seq: u64, sender: &str, name: &str, text: &str) -> Value {
    json!({"id": format!("019a0000-0000-7000-8000-0000000000e{seq}"), "space": SPACE, "seq": seq, "rev": seq,
        "sender": sender, "sender_display_name": name, "sender_kind": if sender == OWNER { "human" } else { "agent" },
        "kind": "text", "text": text, "mentions": [], "urgent": false, "at": format!("2026-01-01T12:00:0{seq}Z"),
        "cycle": null, "call": null, "data": null, "root": "m", "hop": 0})
}

fn adas_message() -> Value {
    message(2, AGENT, "Ada", "Straßen, plum trees \u{1b}[31mand a very old pear.\nMore than you would think.")
}

fn run() -> Value {
    json!({"id": RUN, "agent": AGENT, "ordinal": 1, "woke_for": "1 event: space_message from You in \"Home\"",
        "events": 1, "opened_at": "2026-01-01T12:00:01Z", "ended_at": "2026-01-01T12:00:04.200Z",
        "steps": [
            {"step": 0, "tools": ["look_up", "fetch_the_whole_catalogue_of_plants"], "model_ms": 1400,
             "usage": {"input": 1200, "cached": null, "output": 110, "reasoning": 64}, "attempts": 1,
             "started_ms": 4, "first_ms": 620, "waited_ms": 1204, "calls": [
                {"tool": "look_up", "started_ms": 1410, "took_ms": 240, "status": "ok"},
                {"tool": "fetch_the_whole_catalogue_of_plants", "started_ms": 1410, "took_ms": 690, "status": "error"}]},
            {"step": 1, "tools": ["send_message"], "model_ms": 1050, "attempts": 2,
             "usage": {"input": 1400, "cached": 1024, "output": 70, "reasoning": 0},
             "started_ms": 2130, "first_ms": 210, "injected": 1, "interrupts": 2, "model": "lab/small",
             "calls": [{"tool": "send_message", "started_ms": 3184, "took_ms": 2, "status": "ok"}]}],
        "usage": {"input": 2600, "cached": 1024, "output": 180, "reasoning": 64}, "cost_micros": 1830,
        "model": "lab/large", "config_rev": 3, "ending": "completed", "reason": null, "summary": "told about the garden"})
}

fn detail() -> Value {
    let mut detail = run();
    detail["messages"] = json!([adas_message()]);
    detail
}

fn context() -> Value {
    let layers = [("system", 1_100), ("tools", 2_400), ("summary", 0), ("window", 60_500), ("inbox", 40)];
    let rest = [("workspace", 380), ("output", 16_000), ("free", 47_580)];
    let layers: Vec<Value> =
        layers.iter().chain(&rest).map(|(name, tokens)| json!({"name": name, "tokens": tokens})).collect();
    json!({"agent": AGENT, "model": "lab/large", "context_window": 128_000, "layers": layers, "entries": 214,
        "first_entry": 2, "older_entries": 1, "summary": "[COMPACTED MEMORY — cycles 1–40]\n\nYou found a pear.",
        "events": 1, "cut_above": 86_000, "cut_to": 53_750,
        "trend": {"runs": 20, "growth": 310, "cached_percent": 91},
        "compaction": {"round": 3, "cycles": [1, 40], "last": RUN, "method": "model", "tokens_before": 61_200,
            "tokens_after": 24_900, "entries": 118}})
}

fn consciousness() -> Value {
    let entry = |seq: u64, step: u32, kind: &str, message: Value| {
        json!({"seq": seq, "cycle": RUN, "step": step, "kind": kind, "message": message, "tokens": 30,
            "at": "2026-01-01T12:00:02Z", "in_view": seq > 1})
    };
    let text = |text: &str| json!({"role": "user", "parts": [{"type": "text", "text": text}]});
    let call = json!({"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "send_message",
        "arguments": "{\"text\":\"Plum trees and a very old pear that nobody remembers planting.\"}"}]});
    json!({"next": null, "items": [
        entry(1, 0, "inbox", text("You in \"Home\": What grows here? Look it up.")),
        entry(2, 0, "assistant", call)]})
}

/// Runs a command with a terminal of this width as standard output; returns its whole output.
fn on_terminal(stub: &Stub, columns: u16, settings: &[(&str, &str)], args: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = viv(dir.path(), args);
    command.envs(stub.settings()).env("TERM", "xterm").envs(settings.iter().copied());
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::from(slave));
    let mut child = command.spawn().unwrap();
    // When the last writer closes the terminal, reading reports an error.
    drop(command);
    let mut out = Vec::new();
    let _ = File::from(master).read_to_end(&mut out);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(child.wait().unwrap().success(), "{err}");
    assert_eq!(err, "", "nothing in addition to the answer");
    ago_named(&String::from_utf8(out).unwrap().replace("\r\n", "\n"))
}

/// Replaces ages of fixed dates, which differ from day to day.
fn ago_named(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.find(" d ago") {
            Some(at) => {
                let digits = line[..at].chars().rev().take_while(char::is_ascii_digit).count();
                out.push_str(&format!("{}<n>{}", &line[..at - digits], &line[at..]));
            }
            None => out.push_str(line),
        }
    }
    out
}

/// All screens of one command, one below the other.
fn screens(args: &[&str]) -> String {
    let stub = garden_server();
    let mut all = String::new();
    let plain = [("LC_ALL", "C")];
    for (title, columns, settings) in [
        ("80 columns", 80, &[][..]),
        ("120 columns", 120, &[]),
        ("40 columns", 40, &[]),
        ("40 columns, no UTF-8", 40, &plain),
        ("80 columns, no UTF-8", 80, &plain),
    ] {
        let screen = on_terminal(&stub, columns, settings, args);
        assert!(!screen.contains('\x1b'), "NO_COLOR is set: {screen:?}");
        assert!(settings.is_empty() || screen.is_ascii(), "{screen}");
        all.push_str(&format!("== {title}\n{screen}"));
    }
    let settings = stub.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let nowhere = tempfile::tempdir().unwrap();
    let ran = run_with(nowhere.path(), args, "", &settings);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    all.push_str(&format!("== no terminal\n{}", ago_named(&ran.out)));
    let mut json = args.to_vec();
    json.push("--json");
    let ran = run_with(nowhere.path(), &json, "", &settings);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1), "{}", ran.shown());
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    all.push_str(&format!("== keys of --json\n{keys:?}\n"));
    all
}

#[test]
fn a_run_is_shown_as_a_waterfall() {
    insta::assert_snapshot!("screen_show_run", screens(&["show", "run", "ada"]));
}

#[test]
fn a_context_is_shown_as_entries_and_layers() {
    let sent = screens(&["show", "context", "ada"]);
    assert!(sent.contains("You found a pear") && sent.contains("#2 step 0") && !sent.contains("#1 step 0"));
    insta::assert_snapshot!("screen_show_context", sent);
    assert!(
        screens(&["show", "context", "ada", "--all"]).contains("#1 step 0 inbox (30 tokens, not in view)")
    );
}

#[test]
fn an_agent_fits_every_terminal() {
    insta::assert_snapshot!("screen_show_agent", screens(&["show", "agent", "ada"]));
}

#[test]
fn lists_fit_every_terminal() {
    let all: Vec<String> =
        [&["ps"][..], &["agents"], &["spaces"], &["spaces", "members", "home"], &["entities"]]
            .iter()
            .map(|args| format!("$ viv {}\n{}", args.join(" "), stable(&screens(args))))
            .collect();
    insta::assert_snapshot!("screen_lists", all.join("\n"));
}

#[test]
fn messages_are_folded_and_cannot_control_the_terminal() {
    insta::assert_snapshot!("screen_read", screens(&["spaces", "read", "home"]));
}

#[test]
fn colours_are_used_only_where_supported_and_wanted() {
    let stub = garden_server();
    let coloured = on_terminal(&stub, 80, &[("NO_COLOR", "")], &["show", "run", "ada"]);
    assert!(coloured.contains("\x1b[1;36m"), "{coloured:?}");
    let dumb = on_terminal(&stub, 80, &[("NO_COLOR", ""), ("TERM", "dumb")], &["show", "run", "ada"]);
    assert!(!dumb.contains('\x1b'), "{dumb:?}");
    // Colours change nothing but colours.
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, dumb);
}
