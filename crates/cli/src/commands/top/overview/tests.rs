//! Tests keys, orders, filters and updates with a few agents.

use agent::run::Ending;
use ratatui::crossterm::event::KeyEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

pub(in crate::commands::top) fn agent(n: u128, name: &str, more: Value) -> Agent {
    let mut agent = json!({
        "id": Uuid::from_u128(n), "name": name, "display_name": name.to_uppercase(), "description": "",
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
        agent(5, "eve", json!({"state": "retired", "standing": "retired"})),
    ]);
    overview.prepare(3);
    overview
}

fn shown(overview: &Overview) -> Vec<&str> {
    overview.shown().map(|agent| agent.name.as_str()).collect()
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
    assert_eq!(shown(&overview(SortArg::State)), ["cyd", "bob", "ada", "dan", "eve"]);
    assert_eq!(shown(&overview(SortArg::Waiting))[0], "bob");
    assert_eq!(shown(&overview(SortArg::Cost))[0], "ada");
    let mut by_name = overview(SortArg::Name);
    press(&mut by_name, "r");
    assert_eq!(shown(&by_name), ["eve", "dan", "cyd", "bob", "ada"]);
    press(&mut by_name, "o");
    assert_eq!(by_name.sort, SortArg::Waiting);
}

#[test]
fn the_chosen_agent_stays_chosen_and_visible() {
    let mut overview = overview(SortArg::Name);
    assert_eq!(overview.chosen, Some(id(1)));
    press(&mut overview, "end");
    assert_eq!((overview.chosen, overview.first), (Some(id(5)), 2));
    press(&mut overview, "down up");
    assert_eq!(overview.chosen, Some(id(4)));
    overview.sort = SortArg::State;
    press(&mut overview, "r r");
    assert_eq!((overview.chosen, overview.first), (Some(id(4)), 1));
    overview.listed(vec![agent(1, "ada", json!({}))]);
    assert_eq!((overview.chosen, overview.first), (Some(id(1)), 0));
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
    assert_eq!((shown(&overview), &overview.mode), (vec!["dan"], &Mode::List));
    press(&mut overview, "esc");
    assert_eq!(shown(&overview).len(), 5);
    assert_eq!(press(&mut overview, "esc"), Some(Action::Quit));
}

#[test]
fn destructive_requests_need_a_yes() {
    let mut overview = overview(SortArg::State);
    assert_eq!(press(&mut overview, "c n"), None);
    let cancel = Action::Request(Request::Cancel(id(3), Some(CycleId(Uuid::from_u128(7)))));
    assert_eq!(press(&mut overview, "c y"), Some(cancel));
    assert_eq!(press(&mut overview, "down s y"), Some(Action::Request(Request::Suspend(id(2)))));
    assert_eq!(press(&mut overview, "c"), None);
    assert_eq!(overview.message.as_deref(), Some("bob has no open cycle"));
    assert_eq!(press(&mut overview, "down down s"), Some(Action::Request(Request::Resume(id(4)))));
    assert_eq!(press(&mut overview, "down s"), None);
    assert_eq!(overview.message.as_deref(), Some("eve is retired"));
}

#[test]
fn an_opened_agent_shows_only_its_own_items() {
    let mut overview = overview(SortArg::Name);
    assert_eq!(press(&mut overview, "enter"), Some(Action::Request(Request::Open(id(1)))));
    overview.opened(id(2), Vec::new(), Names::default());
    assert!(overview.detail.past.is_none());
    overview.opened(id(1), Vec::new(), Names::default());
    assert!(overview.detail.past.is_some());
    press(&mut overview, "s n");
    assert_eq!(overview.mode, Mode::Detail);
    press(&mut overview, "q");
    assert_eq!((&overview.mode, overview.detail.of), (&Mode::List, None));
}

#[test]
fn updates_are_shown_before_the_next_list() {
    let mut overview = overview(SortArg::State);
    let (agent, cycle) = (id(1), CycleId(Uuid::from_u128(9)));
    let now = jiff::Timestamp::from_second(1_000).unwrap();
    let thinking =
        Update::State { agent, state: AgentState::Thinking, cycle: Some(cycle), reason: None, idle: None };
    overview.update(now, &thinking);
    overview.prepare(3);
    assert_eq!(shown(&overview)[..2], ["ada", "cyd"]);
    let (ending, reason, spent) = (Ending::Completed, None, None);
    overview.update(now, &Update::CycleEnded { agent, cycle, ending, reason, spent });
    let asleep = Update::State { agent, state: AgentState::Sleeping, cycle: None, reason: None, idle: None };
    overview.update(now, &asleep);
    overview.prepare(3);
    let ada = overview.shown().find(|agent| agent.name == "ada").unwrap();
    assert_eq!((ada.cycle, ada.last.as_ref().unwrap().ending), (None, Ending::Completed));
    assert_eq!(ada.last.as_ref().unwrap().ended_at, now);
    overview.update(
        now,
        &Update::State { agent: id(99), state: AgentState::Thinking, cycle: None, reason: None, idle: None },
    );
    assert_eq!(shown(&overview).len(), 5);
}
