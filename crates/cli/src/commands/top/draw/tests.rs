//! Draws a server at each size.

use agent::id::AgentId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::overview::tests::agent;
use super::*;
use crate::commands::watch::names::Names;
use crate::commands::watch::past::{PastUpdate, from_item};
use client::Past;

fn now() -> Timestamp {
    "2026-11-21T14:00:00Z".parse().unwrap()
}

fn overview() -> Overview {
    let used = |input: u64, output: u64| json!({"input": input, "cached": input / 2, "output": output, "reasoning": null});
    let last = |ending: &str, at: &str| json!({"id": Uuid::from_u128(8), "ending": ending, "ended_at": at});
    let mut overview = Overview::new(SortArg::State, String::new());
    overview.zone = jiff::tz::TimeZone::UTC;
    overview.listed(vec![
        agent(1, "ada", json!({
            "state": "thinking", "cycle": Uuid::from_u128(7), "waiting": 2, "cycles": 12, "usage": used(40_000, 2_000),
            "cost_micros": 123_400, "last": last("completed", "2026-11-21T13:58:00Z"), "model": "anthropic/claude-sonnet-5",
            "next_plan": "2026-11-21T14:05:00Z",
        })),
        agent(2, "bob", json!({
            "waiting": 1, "cycles": 3, "usage": used(900, 80), "unpriced": 3, "last": last("failed", "2026-11-20T14:00:00Z"),
        })),
        agent(3, "a-handle-that-is-rather-long", json!({
            "reason": "provider", "cycles": 1, "usage": used(10, 5), "unpriced": 1, "cost_micros": 40,
            "not_before": "2026-11-21T14:00:30Z", "last": last("exhausted", "2026-11-21T13:00:00Z"),
        })),
        agent(4, "dan", json!({"standing": "suspended", "reason": "suspended"})),
        agent(5, "new", json!({})),
        agent(6, "paul", json!({"state": "paused", "cycle": Uuid::from_u128(9)})),
        agent(7, "old", json!({"state": "retired", "standing": "retired", "cycles": 1000})),
    ]);
    for n in 0..40u32 {
        overview.pulses.beat(AgentId(Uuid::from_u128(1)));
        if n % 8 == 0 {
            overview.pulses.pass();
        }
    }
    overview
}

fn screen(utf8: bool) -> Screen {
    Screen::plain(Some(80), utf8)
}

fn drawn(overview: &mut Overview, width: u16, height: u16, utf8: bool) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, overview, &screen(utf8), now(), true)).unwrap();
    terminal.backend().to_string().replace('"', "|")
}

fn press(overview: &mut Overview, code: KeyCode) {
    overview.press(KeyEvent::new(code, KeyModifiers::NONE));
}

fn names() -> Names {
    let mut names = Names::new(false);
    for (n, name) in [(1, "ada"), (2, "husam")] {
        names.entity(&screen(true), AgentId(Uuid::from_u128(n)).entity(), name);
    }
    names.space(&screen(true), agent::id::SpaceId(Uuid::from_u128(50)), "home");
    names
}

fn past() -> Vec<PastUpdate> {
    let message = |n: u64, name: &str, text: &str| -> Value {
        json!({
            "type": "message", "id": Uuid::from_u128(90 + u128::from(n)), "space": Uuid::from_u128(50), "seq": n, "rev": n,
            "sender": Uuid::from_u128(if name == "Ada" { 1 } else { 2 }), "sender_name": name, "sender_kind": "human", "kind": "text", "text": text,
            "mentions": [], "urgent": false, "at": "2026-11-21T13:57:00Z", "cycle": null, "call": null, "data": null,
            "root": "r", "hop": 0,
        })
    };
    let usage = json!({"input": 1_200, "cached": null, "output": 85, "reasoning": null});
    let step = |n: u32, tools: Value| json!({"step": n, "tools": tools, "usage": usage, "model_ms": 1_849, "attempts": 1});
    let run = json!({
        "type": "run", "id": Uuid::from_u128(8), "agent": Uuid::from_u128(1), "ordinal": 12, "woke_for": "1 event",
        "events": 1, "opened_at": "2026-11-21T13:57:57Z", "ended_at": "2026-11-21T13:58:00Z",
        "steps": [step(0, json!(["set_memories", "send_message"])), step(1, json!([]))], "usage": usage,
        "cost_micros": 1_234, "model": "m", "config_rev": 1, "ending": "completed", "reason": null, "summary": null,
    });
    let ada_text =
        "I noted that you like tea, and that you would rather have it green than black, in the morning.";
    let items = [message(1, "Husam", "remember that I like \u{1b}[2J tea"), message(2, "Ada", ada_text), run];
    let past: Past = serde_json::from_value(json!({"items": items})).unwrap();
    past.items.into_iter().map(from_item).collect()
}

#[test]
fn the_list_is_shown_at_each_size() {
    for (width, height) in [(80, 24), (120, 30), (40, 20)] {
        insta::assert_snapshot!(
            format!("list_{width}x{height}"),
            drawn(&mut overview(), width, height, true)
        );
    }
    insta::assert_snapshot!("list_ascii", drawn(&mut overview(), 80, 10, false));
}

#[test]
fn an_opened_agent_is_shown_at_each_size() {
    for (width, height) in [(80, 24), (120, 30), (40, 20)] {
        let mut overview = overview();
        press(&mut overview, KeyCode::Enter);
        overview.opened(AgentId(Uuid::from_u128(1)), past(), names());
        insta::assert_snapshot!(
            format!("detail_{width}x{height}"),
            drawn(&mut overview, width, height, true)
        );
    }
}

#[test]
fn questions_help_and_failures_are_shown() {
    let mut overview = overview();
    press(&mut overview, KeyCode::Char('c'));
    let asked = drawn(&mut overview, 80, 10, true);
    assert!(asked.contains("cancel the cycle of ada? what it committed is kept (y/n)"), "{asked}");
    press(&mut overview, KeyCode::Char('n'));
    assert!(drawn(&mut overview, 80, 10, true).contains("nothing was done"));
    press(&mut overview, KeyCode::Char('?'));
    insta::assert_snapshot!("help_80", drawn(&mut overview, 80, 16, true));
    insta::assert_snapshot!("help_40", drawn(&mut overview, 40, 16, true));
    press(&mut overview, KeyCode::Char('?'));
    overview.link = Link::Down("no server answers at `http://127.0.0.1:7878`: connection refused".to_owned());
    let down = drawn(&mut overview, 80, 10, true);
    assert!(down.contains("not connected; reconnecting") && down.contains("ada"), "{down}");
    overview.listed(Vec::new());
    assert!(drawn(&mut overview, 80, 10, true).contains("there is no agent"));
}

#[test]
fn any_size_can_be_drawn_and_no_handle_controls_the_terminal() {
    for (width, height) in [(1, 1), (2, 3), (7, 4), (20, 2), (300, 100)] {
        let mut overview = overview();
        drawn(&mut overview, width, height, true);
        press(&mut overview, KeyCode::Enter);
        overview.opened(AgentId(Uuid::from_u128(1)), past(), names());
        drawn(&mut overview, width, height, true);
        press(&mut overview, KeyCode::Char('?'));
        drawn(&mut overview, width, height, false);
    }
    let mut evil = Overview::new(SortArg::Name, String::new());
    evil.listed(vec![agent(1, "a\u{1b}[2J\u{9b}31m", json!({"model": "\u{202e}x"}))]);
    let shown = drawn(&mut evil, 120, 5, true);
    assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn a_thousand_agents_are_shown_in_pages() {
    let mut overview = Overview::new(SortArg::Name, String::new());
    overview.listed((0..1_000).map(|n| agent(n, &format!("agent-{n:04}"), json!({}))).collect());
    drawn(&mut overview, 80, 24, true);
    press(&mut overview, KeyCode::End);
    let end = drawn(&mut overview, 80, 24, true);
    assert!(
        end.contains("agent-0999") && end.contains("1000 agents") && !end.contains("agent-0977"),
        "{end}"
    );
    press(&mut overview, KeyCode::PageUp);
    assert_eq!(overview.chosen().unwrap().name, "agent-0978");
}
