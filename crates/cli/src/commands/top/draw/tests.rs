//! Draws a server at each size.

use agent::id::AgentId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;
use uuid::Uuid;

use super::super::overview::tests::agent;
use super::*;
use crate::args::SortArg;

fn now() -> Timestamp {
    "2026-11-21T14:00:00Z".parse().unwrap()
}

fn overview() -> Overview {
    let used = |input: u64, output: u64| json!({"input": input, "cached": input / 2, "output": output, "reasoning": null});
    let last = |ending: &str, at: &str| json!({"id": Uuid::from_u128(8), "ending": ending, "ended_at": at});
    let mut overview = Overview::new(SortArg::State, String::new());
    overview.listed(vec![
        agent(1, "ada", json!({
            "state": "thinking", "cycle": Uuid::from_u128(7), "waiting": 2, "cycles": 12, "usage": used(40_000, 2_000),
            "cost_micros": 123_400, "last_run": last("completed", "2026-11-21T13:58:00Z"), "model": "anthropic/claude-sonnet-5",
            "next_plan_at": "2026-11-21T14:05:00Z",
        })),
        agent(2, "bob", json!({
            "waiting": 1, "cycles": 3, "usage": used(900, 80), "unpriced": 3, "last_run": last("failed", "2026-11-20T14:00:00Z"),
        })),
        agent(3, "a-handle-that-is-rather-long", json!({
            "reason": "provider", "cycles": 1, "usage": used(10, 5), "unpriced": 1, "cost_micros": 40,
            "not_before": "2026-11-21T14:00:30Z", "last_run": last("exhausted", "2026-11-21T13:00:00Z"),
        })),
        agent(4, "dan", json!({"standing": "suspended", "reason": "suspended"})),
        agent(5, "new", json!({})),
        agent(6, "paul", json!({"state": "paused", "cycle": Uuid::from_u128(9)})),
    ]);
    overview
}

fn screen() -> Screen {
    Screen::plain(Some(80), true)
}

fn drawn(overview: &mut Overview, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, overview, &screen(), now())).unwrap();
    terminal.backend().to_string().replace('"', "|")
}

fn press(overview: &mut Overview, code: KeyCode) {
    overview.press(KeyEvent::new(code, KeyModifiers::NONE));
}

fn opened() -> Overview {
    let mut overview = overview();
    press(&mut overview, KeyCode::Enter);
    let rows = [
        "13:57:00 husam → home: remember that I like tea",
        "13:58:00 ada → home: I noted that you like tea, and that you would rather have it green than black.",
    ];
    overview.opened(AgentId(Uuid::from_u128(1)), rows.map(str::to_owned).to_vec());
    overview
}

#[test]
fn the_list_is_shown_at_each_size() {
    for (width, height) in [(80, 24), (120, 30), (40, 20)] {
        insta::assert_snapshot!(format!("list_{width}x{height}"), drawn(&mut overview(), width, height));
    }
}

#[test]
fn an_opened_agent_is_shown_at_each_size() {
    for (width, height) in [(80, 24), (120, 30), (40, 20)] {
        insta::assert_snapshot!(format!("detail_{width}x{height}"), drawn(&mut opened(), width, height));
    }
}

#[test]
fn questions_and_failures_are_shown() {
    let mut overview = overview();
    press(&mut overview, KeyCode::Char('c'));
    let asked = drawn(&mut overview, 80, 10);
    assert!(asked.contains("cancel the cycle of ada? what it committed is kept (y/n)"), "{asked}");
    press(&mut overview, KeyCode::Char('n'));
    assert!(drawn(&mut overview, 80, 10).contains("nothing was done"));
    overview.lost("no server answers at `http://127.0.0.1:7878`: connection refused");
    let down = drawn(&mut overview, 80, 10);
    assert!(down.contains("not connected; reconnecting") && down.contains("ada"), "{down}");
    overview.listed(Vec::new());
    assert!(drawn(&mut overview, 80, 10).contains("there is no agent"));
}

#[test]
fn any_size_can_be_drawn_and_no_handle_controls_the_terminal() {
    for (width, height) in [(1, 1), (2, 3), (7, 4), (20, 2), (300, 100)] {
        let mut overview = overview();
        drawn(&mut overview, width, height);
        drawn(&mut opened(), width, height);
    }
    let mut evil = Overview::new(SortArg::Name, String::new());
    evil.listed(vec![agent(1, "a\u{1b}[2J\u{9b}31m", json!({"model": "\u{202e}x"}))]);
    let shown = drawn(&mut evil, 120, 5);
    assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn a_thousand_agents_are_shown_in_pages() {
    let mut overview = Overview::new(SortArg::Name, String::new());
    overview.listed((0..1_000).map(|n| agent(n, &format!("agent-{n:04}"), json!({}))).collect());
    drawn(&mut overview, 80, 24);
    press(&mut overview, KeyCode::End);
    let end = drawn(&mut overview, 80, 24);
    assert!(
        end.contains("agent-0999") && end.contains("1000 agents") && !end.contains("agent-0977"),
        "{end}"
    );
    press(&mut overview, KeyCode::PageUp);
    assert_eq!(overview.chosen().unwrap().handle, "agent-0989");
}
