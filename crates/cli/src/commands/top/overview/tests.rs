//! Tests keys, orders, filters and updates with a few agents.

use ratatui::crossterm::event::KeyEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

pub(in crate::commands::top) fn agent(n: u128, name: &str, more: Value) -> Agent {
    let mut agent = json!({
        "id": Uuid::from_u128(n), "handle": name, "display_name": name.to_uppercase(), "description": "",
        "state": "sleeping", "standing": "active", "model": "demo", "config_rev": 1, "waiting": 0,
        "held": 0, "cycles": 0, "skips": 0,
        "usage": {"input": null, "cached": null, "output": null, "reasoning": null},
        "created_at": "2026-11-21T12:00:00Z", "commit_n": 0,
    });
    for (key, value) in more.as_object().unwrap() {
        agent[key] = value.clone();
    }
    serde_json::from_value(agent).unwrap()
}

fn id(n: u128) -> AgentId {
    AgentId(Uuid::from_u128(n))
}

fn overview(sort: SortArg) -> Overview {
    let mut overview = Overview::new(sort, String::new());
    overview.listed(vec![
        agent(
            1,
            "ada",
            json!({"cost_micros": 5, "usage": {"input": 10, "output": 5, "cached": null, "reasoning": null}}),
        ),
        agent(2, "bob", json!({"waiting": 3})),
        agent(3, "cyd", json!({"state": "thinking", "cycle": Uuid::from_u128(7)})),
        agent(4, "dan", json!({"standing": "suspended", "reason": "suspended"})),
        agent(5, "eve", json!({})),
    ]);
    overview
}

fn shown(overview: &Overview) -> Vec<&str> {
    overview.shown().map(|agent| agent.handle.as_str()).collect()
}

fn press(overview: &mut Overview, keys: &str) -> Option<Action> {
    let mut last = None;
    for key in keys.split(' ') {
        let code = match key {
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "end" => KeyCode::End,
            "back" => KeyCode::Backspace,
            key => KeyCode::Char(key.chars().next().unwrap()),
        };
        last = overview.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    last
}

#[test]
fn working_agents_are_first_and_each_order_sorts() {
    assert_eq!(shown(&overview(SortArg::State)), ["cyd", "bob", "ada", "eve", "dan"]);
    assert_eq!(shown(&overview(SortArg::Waiting))[0], "bob");
    assert_eq!(shown(&overview(SortArg::Cost))[0], "ada");
    let mut by_name = overview(SortArg::Name);
    assert_eq!(shown(&by_name), ["ada", "bob", "cyd", "dan", "eve"]);
    press(&mut by_name, "o");
    assert_eq!(by_name.sort, SortArg::Waiting);
}

#[test]
fn the_chosen_agent_stays_chosen() {
    let mut overview = overview(SortArg::Name);
    assert_eq!(overview.chosen, Some(id(1)));
    press(&mut overview, "end down up");
    assert_eq!(overview.chosen, Some(id(4)));
    press(&mut overview, "o");
    assert_eq!((overview.chosen, shown(&overview)[0]), (Some(id(4)), "bob"));
    overview.listed(vec![agent(1, "ada", json!({}))]);
    assert_eq!(overview.chosen, Some(id(1)));
    overview.listed(Vec::new());
    assert_eq!((overview.chosen, press(&mut overview, "down enter")), (None, None));
}

#[test]
fn a_filter_is_typed_and_cleared() {
    let mut overview = overview(SortArg::Name);
    press(&mut overview, "/ S U S P");
    assert_eq!((shown(&overview), overview.chosen), (vec!["dan"], Some(id(4))));
    press(&mut overview, "x");
    assert_eq!((shown(&overview).len(), overview.chosen), (0, None));
    press(&mut overview, "back enter");
    assert_eq!((shown(&overview), &overview.mode), (vec!["dan"], &Mode::Browse));
    press(&mut overview, "esc");
    assert_eq!(shown(&overview).len(), 5);
    assert_eq!(press(&mut overview, "esc"), Some(Action::Quit));
}

#[test]
fn destructive_requests_need_a_yes() {
    let mut overview = overview(SortArg::State);
    assert_eq!(press(&mut overview, "c n"), None);
    let cancel = Action::Request(Request::Cancel(id(3), CycleId(Uuid::from_u128(7))));
    assert_eq!(press(&mut overview, "c y"), Some(cancel));
    assert_eq!(
        press(&mut overview, "down s y"),
        Some(Action::Request(Request::Set(id(2), Standing::Suspended)))
    );
    assert_eq!(press(&mut overview, "c"), None);
    assert_eq!(overview.message.as_deref(), Some("bob has no open cycle"));
    assert_eq!(press(&mut overview, "end s"), Some(Action::Request(Request::Set(id(4), Standing::Active))));
}

#[test]
fn an_opened_agent_shows_only_its_own_items() {
    let mut overview = overview(SortArg::Name);
    assert_eq!(press(&mut overview, "enter"), Some(Action::Request(Request::Open(id(1)))));
    overview.opened(id(2), vec!["of bob".to_owned()]);
    assert!(overview.detail.as_ref().unwrap().rows.is_empty());
    overview.opened(id(1), vec!["of ada".to_owned()]);
    press(&mut overview, "s n");
    assert_eq!(overview.detail.as_ref().unwrap().rows, ["of ada"]);
    press(&mut overview, "q");
    assert!(overview.detail.is_none());
}

#[test]
fn updates_are_shown_before_the_next_list() {
    let mut overview = overview(SortArg::State);
    let (agent, cycle) = (id(1), CycleId(Uuid::from_u128(9)));
    let thinking =
        Update::State { agent, state: AgentState::Thinking, cycle: Some(cycle), reason: None, idle: None };
    overview.update(&thinking);
    overview.arrange();
    assert_eq!(shown(&overview)[..2], ["ada", "cyd"]);
    let asleep = Update::State { agent, state: AgentState::Sleeping, cycle: None, reason: None, idle: None };
    overview.update(&asleep);
    overview.arrange();
    let ada = overview.shown().find(|agent| agent.handle == "ada").unwrap();
    assert_eq!((ada.state, ada.cycle), (AgentState::Sleeping, None));
    let unknown =
        Update::State { agent: id(99), state: AgentState::Thinking, cycle: None, reason: None, idle: None };
    overview.update(&unknown);
    assert_eq!(shown(&overview).len(), 5);
}

#[test]
fn a_reason_as_text_is_not_shown_as_the_state() {
    let mut overview = overview(SortArg::State);
    let state = |overview: &Overview| {
        let ada = overview.shown().find(|agent| agent.handle == "ada").unwrap();
        (state_of(ada).to_owned(), ada.why.clone())
    };
    let why = Some("network: connection refused".to_owned());
    let reason = agent::life::IdleReason::Provider;
    let idle = Some(agent::life::IdleUntil { reason, until: jiff::Timestamp::UNIX_EPOCH });
    let (agent, cycle) = (id(1), None);
    let asleep = Update::State { agent, state: AgentState::Sleeping, cycle, reason: why.clone(), idle };
    overview.update(&asleep);
    assert_eq!(state(&overview), ("provider".to_owned(), why.clone()));
    let retried =
        Update::State { agent, state: AgentState::Thinking, cycle, reason: why.clone(), idle: None };
    overview.update(&retried);
    assert_eq!(state(&overview), ("thinking".to_owned(), why));
}
