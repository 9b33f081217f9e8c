//! Single events on the command line: dead events, and canceling waiting ones.

use serde_json::{Value, json};

use crate::stub::Stub;
use crate::world::{Server, run_with};

const ADA: &str = "0192d3e4-0000-7000-8000-0000000000ad";
const DEAD: &str = "0192d3e4-0000-7000-8000-00000000dead";
const OWNER: &str = "0192d3e4-0000-7000-8000-0000000000b1";

fn sent(server: &Server, payload: &str) -> String {
    let sent = server.run(&["event", "ada", "jira", payload, "--json"]);
    sent.json()["id"].as_str().unwrap().to_owned()
}

fn state(server: &Server, event: &str) -> Value {
    let inbox = server.run(&["show", "inbox", "ada", "--json"]).json();
    let events = inbox["items"].as_array().unwrap().clone();
    events.into_iter().find(|row| row["id"] == event).unwrap()["state"].clone()
}

#[test]
fn a_waiting_event_is_canceled_by_id_or_by_seq() {
    let server = Server::start();
    assert_eq!(server.run(&["agents", "suspend", "ada"]).code, 0);
    let (first, second) = (sent(&server, "1"), sent(&server, "2"));
    let by_id = server.run(&["cancel", &first]);
    assert_eq!((by_id.code, by_id.err.as_str()), (0, ""), "{}", by_id.shown());
    assert_eq!(by_id.out, format!("event {first} of `ada` is canceled\n"));
    let seq = server.run(&["show", "inbox", "ada", "--state", "waiting", "--json"]).json()["items"][0]["seq"]
        .clone();
    assert_eq!(server.run(&["cancel", &seq.to_string(), "--agent", "ada"]).code, 0);
    assert_eq!((state(&server, &first), state(&server, &second)), (json!("canceled"), json!("canceled")));
    let again = server.run(&["cancel", &first, "--json"]);
    assert_eq!((again.code, &again.error()["error"]["code"]), (3, &json!("event_state")));
    let unknown = server.run(&["cancel", "nothing"]);
    assert_eq!(unknown.code, 4, "{}", unknown.shown());
    let waits = sent(&server, "3");
    let dropped = server.run(&["dead", "drop", &waits]);
    assert!(dropped.code == 3 && dropped.err.contains("is waiting"), "{}", dropped.shown());
    assert_eq!(server.run(&["dead"]).out, "no dead letters\n");
}

#[test]
fn a_processed_event_is_retried_as_a_new_event_that_cites_it() {
    let server = Server::start();
    assert_eq!(server.run(&["say", "--wait", "hello"]).code, 0);
    let inbox = server.run(&["show", "inbox", "ada", "--json"]).json();
    let event = inbox["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.run(&["agents", "suspend", "ada"]).code, 0);
    let again = server.run(&["dead", "retry", &event]);
    assert!(again.code == 0 && again.out.contains("is sent again as event"), "{}", again.shown());
    let inbox = server.run(&["show", "inbox", "ada", "--json"]).json();
    assert_eq!(inbox["items"][0]["cites"], json!(event));
    let shown = server.run(&["dead", "show", &event]);
    assert!(shown.code == 0 && shown.out.ends_with("  hello\n"), "{}", shown.shown());
}

#[test]
fn dead_letters_are_listed_with_their_reason_and_shown_in_full() {
    let event = json!({
        "seq": 3, "id": DEAD, "kind": "service", "urgent": false, "at": "2999-11-21T14:00:00Z",
        "envelope": {"principal": {"kind": "credential", "id": "k"}, "channel": "api", "trust": "operator", "root": DEAD, "hop": 0},
        "data": {"type": "service", "name": "jira", "payload": {"issue": "OPS-7"}},
        "state": "dead", "reason": "invalid request: \u{1b}[31mno", "progress": "dead", "attempts": 0, "preview": "",
    });
    let agent = json!({
        "id": ADA, "handle": "ada", "display_name": "Ada", "description": "", "state": "sleeping", "standing": "active",
        "model": "demo", "config_rev": 1, "waiting": 0, "held": 0, "cycles": 0, "skips": 0,
        "usage": {"input": null, "cached": null, "output": null, "reasoning": null},
        "created_at": "2999-11-21T14:00:00Z", "commit_n": 0,
        "dead_events": {"count": 1, "last_event": DEAD, "reason": "invalid request: \u{1b}[31mno"},
    });
    let facts = json!({"spaces": [], "memories": [], "goals": [], "plans": []});
    let page = |rows: Value| json!({"items": rows, "next": null});
    let totals = json!({"agents": 1, "spaces": 1, "messages": 0, "waiting": 0, "dead": 1, "open_cycles": 0});
    let of_ada = |rest: &str| format!("/v1/agents/{ADA}{rest}");
    let (inbox, one) = (of_ada("/events"), of_ada(&format!("/events/{DEAD}")));
    let (facts_of, calls) = (of_ada("/facts"), of_ada("/calls"));
    let space = json!({"id": DEAD, "handle": "home", "display_name": "Home", "description": "", "head_seq": 0, "rev": 0,
        "closed": false, "wake_on": "all", "created_at": "2026-11-21T14:00:00Z"});
    let entity = json!({"id": ADA, "kind": "agent", "handle": "ada", "display_name": "Ada", "external_id": null,
        "created_at": "2026-11-21T14:00:00Z"});
    let owner = json!({"id": OWNER, "kind": "human", "handle": "owner", "display_name": "Owner", "external_id": null,
        "created_at": "2026-11-21T14:00:00Z"});
    let member =
        |entity: &Value| json!({"entity": entity, "role": "member", "since": "2026-11-21T14:00:00Z"});
    let members = format!("/v1/spaces/{DEAD}/members");
    let stub = Stub::serve(vec![
        ("/v1/ready", json!({"ready": true, "version": "0", "model": null, "totals": totals})),
        ("/v1/agents", page(json!([agent]))),
        ("/v1/entities", page(json!([]))),
        ("/v1/spaces", page(json!([space]))),
        (&format!("/v1/spaces/{DEAD}"), space.clone()),
        (&members, page(json!([member(&entity), member(&owner)]))),
        ("/v1/whoami", json!({"scope": "admin"})),
        (&of_ada(""), agent.clone()),
        ("/v1/recent", json!({"items": []})),
        (&facts_of, facts),
        (&calls, page(json!([]))),
        ("/v1/agents/ada", agent),
        (&inbox, page(json!([event]))),
        (&one, event),
    ]);
    let settings = stub.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for args in [
        &["dead"][..],
        &["dead", "ada"],
        &["dead", "show", DEAD],
        &["dead", "show", "3", "--agent", "ada"],
        // Where people look without knowing of dead events.
        &["ps"],
        &["show", "agent", "ada"],
        &["tail", "--no-follow"],
    ] {
        let ran = run_with(dir.path(), args, "", &settings);
        all.push_str(&format!("$ viv {}\n{}\n", args.join(" "), ran.shown()));
    }
    insta::assert_snapshot!("dead", all);
    let chat = run_with(dir.path(), &["chat"], "", &settings);
    assert!(chat.err.contains("`ada`: 1 event is dead: invalid request"), "{}", chat.shown());
}

#[test]
fn a_call_is_listed_with_its_agent_and_canceled_by_id() {
    const CALL: &str = "c0123456789abcdef01234567";
    let call = json!({
        "id": CALL, "agent": ADA, "cycle": DEAD, "step": 1, "tool": "build", "arguments": "{\"target\":\"all\"}",
        "effect": "unsafe", "runner": "node", "state": "started",
    });
    let mut canceled = call.clone();
    canceled["state"] = json!("done");
    canceled["status"] = json!("canceled");
    canceled["outcome"] = json!("canceled by an operator after it had begun; unknown whether it happened.");
    let agent = json!({
        "id": ADA, "handle": "ada", "display_name": "Ada", "description": "", "state": "thinking", "standing": "active",
        "model": "demo", "config_rev": 1, "waiting": 0, "held": 0, "cycles": 0, "skips": 0,
        "usage": {"input": null, "cached": null, "output": null, "reasoning": null},
        "created_at": "2026-11-21T14:00:00Z", "commit_n": 0,
    });
    let facts = json!({"spaces": [], "memories": [], "goals": [], "plans": []});
    let calls = format!("/v1/agents/{ADA}/calls");
    let (cancel, facts_of, card) =
        (format!("{calls}/{CALL}/cancel"), format!("/v1/agents/{ADA}/facts"), format!("/v1/agents/{ADA}"));
    let stub = Stub::serve(vec![
        ("/v1/agents", json!({"items": [agent], "next": null})),
        ("/v1/agents/ada", agent.clone()),
        (&card, agent),
        (&facts_of, facts),
        (&calls, json!({"items": [call], "next": null})),
        (&cancel, canceled),
    ]);
    let settings = stub.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| run_with(dir.path(), args, "", &settings);
    let shown = run(&["show", "agent", "ada"]);
    let line = format!("{CALL}  build {{\"target\":\"all\"}} (running)");
    assert!(shown.code == 0 && shown.out.contains(&line), "{}", shown.shown());
    let done = run(&["cancel", CALL]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{}", done.shown());
    let text = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = format!("call {CALL} of `build` is canceled; `ada` receives: canceled by an operator after");
    assert!(text.starts_with(&words), "{text}");
    let unknown = run(&["cancel", "c0123456789abcdef00000000"]);
    assert!(unknown.code == 4 && unknown.err.contains("no agent has a call"), "{}", unknown.shown());
}
