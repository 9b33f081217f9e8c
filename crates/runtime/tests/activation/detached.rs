//! Calls that outlive their cycle: the agent is idle, and their results arrive as events.

use std::time::Duration;

use agent::call::{CallState, Effect, Outcome};
use agent::event::EventKind;
use agent::id::{AgentId, CallId};
use agent::port::{Delivered, FinishedCall, InboxFilter, PageRequest};
use agent::prompt::Prompt;
use agent::run::Ending;
use agent::update::{Topic, Update};
use models::scripted::Script;
use serde_json::json;

use crate::calls::{cancel, open_call, posted, results};
use crate::fixture::{Fixture, done, inbox, send, step};

/// Calls a tool and posts what it reads of it; posts each late result.
fn caller(tool: &'static str) -> impl Fn(&Prompt) -> Script + Send + Sync {
    move |prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => Script::new().call(tool, &json!({})),
        (false, 1) => Script::new().call("send_message", &send("lobby", &results(prompt)[0])),
        (true, 0) => {
            let inbox = inbox(prompt);
            let late: Vec<&str> = inbox.lines().filter(|line| line.contains("[tool result")).collect();
            Script::new().call("send_message", &send("lobby", &late.join("\n")))
        }
        _ => done(),
    }
}

/// The late results in the agent's inbox, with their states.
async fn late_results(fixture: &Fixture, ada: AgentId) -> Vec<(String, &'static str)> {
    let page = PageRequest { cursor: None, limit: 200 };
    let rows = fixture.world.reader().inbox(ada, InboxFilter::default(), page).await.unwrap().items;
    let late = rows.into_iter().filter(|row| row.event.kind == EventKind::ToolResult);
    late.map(|row| (row.event.id.0.clone(), row.state.as_str())).collect()
}

fn result(call: &CallId) -> String {
    format!("result:{call}")
}

#[tokio::test]
async fn an_asynchronous_result_arrives_as_an_event_and_is_processed_once() {
    let fixture = Fixture::new(caller("order"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    let runs = fixture.world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Completed), "it is idle while the call runs");
    let open = fixture.world.reader().open_calls(ada).await.unwrap();
    assert_eq!((open.len(), open[0].state), (1, CallState::Detached));
    let texts = posted(&fixture, lobby).await;
    assert!(texts[1].contains(r#""status":"pending""#) && texts[1].contains(&open[0].id.0), "{texts:?}");
    fixture.gate.open();
    fixture.world.quiet().await.unwrap();
    fixture.world.pass(Duration::from_secs(4_000)).await.unwrap();
    let texts = posted(&fixture, lobby).await;
    let line = format!("[tool result \"order\" | call: {}] answered", open[0].id);
    assert!(texts.len() == 3 && texts[2].contains(&line), "{texts:?}");
    assert_eq!(late_results(&fixture, ada).await, [(result(&open[0].id), "processed")]);
    assert_eq!(fixture.counters.calls("slow"), 1);
    assert_eq!(fixture.world.reader().open_calls(ada).await.unwrap(), []);
}

#[tokio::test]
async fn an_asynchronous_call_has_its_own_time_limit_and_the_agent_learns_when_it_is_reached() {
    let fixture = Fixture::of_effect(Effect::Unsafe, caller("order"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.pass(Duration::from_secs(3_700)).await.unwrap();
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[2].contains("failed") && texts[2].contains("unknown whether it happened"), "{texts:?}");
    assert_eq!(late_results(&fixture, ada).await.len(), 1);
}

#[tokio::test]
async fn a_call_that_times_out_runs_on_and_its_result_is_not_lost() {
    for effect in [Effect::ReadOnly, Effect::Unsafe] {
        let fixture = Fixture::of_effect(effect, caller("slow"));
        let (ada, lobby) = fixture.ada().await;
        fixture.world.pass(Duration::from_secs(31)).await.unwrap();
        fixture.world.quiet().await.unwrap();
        let texts = posted(&fixture, lobby).await;
        assert!(texts[1].contains("no answer within 30000 ms") && texts[1].contains("pending"), "{texts:?}");
        let call = open_call(&fixture, ada, "slow").await;
        fixture.gate.open();
        fixture.world.quiet().await.unwrap();
        let texts = posted(&fixture, lobby).await;
        assert!(texts.len() == 3 && texts[2].contains("answered"), "{texts:?}");
        assert_eq!(late_results(&fixture, ada).await, [(result(&call), "processed")]);
        assert_eq!(fixture.counters.calls("slow"), 1);
    }
}

#[tokio::test]
async fn a_late_call_is_given_up_in_the_end_and_the_agent_learns_that() {
    let fixture = Fixture::new(caller("slow"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.pass(Duration::from_millis(agent::limits::LATE_MS + 60_000)).await.unwrap();
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[2].contains("failed") && texts[2].contains("given up"), "{texts:?}");
    fixture.gate.open();
    fixture.world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((posted(&fixture, lobby).await.len(), late_results(&fixture, ada).await.len()), (3, 1));
}

#[tokio::test]
async fn a_result_that_arrives_after_its_cycle_was_canceled_is_an_ordinary_event() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => Script::new().call("order", &json!({})),
        (false, _) => Script::new().text("hm").hang(),
        (true, 0) => Script::new().call("send_message", &send("lobby", "it came")),
        _ => done(),
    });
    let (ada, lobby) = fixture.ada().await;
    fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    fixture.world.registry().cancel(ada, None).await.unwrap();
    fixture.world.node().unwrap().recheck(ada);
    fixture.world.quiet().await.unwrap();
    assert_eq!(fixture.world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
    fixture.gate.open();
    fixture.world.quiet().await.unwrap();
    assert_eq!(posted(&fixture, lobby).await, ["hi", "it came"]);
    assert_eq!(late_results(&fixture, ada).await[0].1, "processed");
}

#[tokio::test]
async fn after_a_crash_repeatable_calls_run_again_and_the_others_are_reported_as_unknown() {
    for (effect, word, calls, effects) in
        [(Effect::Idempotent, "answered", 2, 1), (Effect::Unsafe, "was interrupted", 1, 0)]
    {
        let mut fixture = Fixture::of_effect(effect, caller("order"));
        let (ada, lobby) = fixture.ada().await;
        fixture.world.quiet().await.unwrap();
        fixture.world.kill();
        fixture.world.start();
        fixture.world.pass(Duration::from_secs(1)).await.unwrap();
        fixture.gate.open();
        fixture.world.quiet().await.unwrap();
        let texts = posted(&fixture, lobby).await;
        assert!(texts.len() == 3 && texts[2].contains(word), "{effect:?}: {texts:?}");
        assert_eq!((fixture.counters.calls("slow"), fixture.counters.effects("slow")), (calls, effects));
        assert_eq!((late_results(&fixture, ada).await.len(), fixture.counters.keys("slow").len()), (1, 1));
    }
}

#[tokio::test]
async fn a_call_that_ends_the_server_each_time_is_given_up() {
    let mut fixture = Fixture::of_effect(Effect::Idempotent, caller("order"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    for _ in 0..6 {
        fixture.world.kill();
        fixture.world.start();
        fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    }
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("the server ended"), "{texts:?}");
    assert_eq!(fixture.counters.calls("slow"), 1 + u64::from(agent::limits::DETACHED_ATTEMPTS));
    assert_eq!(late_results(&fixture, ada).await.len(), 1);
}

#[tokio::test]
async fn a_stop_gives_detached_calls_some_time_and_the_next_start_resumes_the_rest() {
    let mut fixture = Fixture::of_effect(Effect::Idempotent, caller("order"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    fixture.world.stop().await.unwrap();
    fixture.gate.open();
    fixture.world.start();
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("answered"), "{texts:?}");
    assert_eq!(late_results(&fixture, ada).await.len(), 1);
}

#[tokio::test]
async fn ten_calls_at_once_are_answered_in_any_order_each_by_one_event() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => (0..10).fold(Script::new(), |script, _| script.call("order", &json!({}))),
        (true, 0) => Script::new().call("send_message", &send("lobby", "some came")),
        _ => done(),
    });
    let (ada, _) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    let open = fixture.world.reader().open_calls(ada).await.unwrap();
    assert_eq!(open.len(), 10);
    for (n, row) in open.iter().rev().enumerate() {
        let at = fixture.now();
        let answer = FinishedCall {
            id: row.id.clone(),
            outcome: Outcome::ok(format!("answer {n}")),
            at,
            claim: None,
            if_claimed: None,
        };
        let finish = fixture.world.ports().calls.finish(answer).await.unwrap();
        let agent::port::Finish::Late(agent, echo) = finish else { panic!("wanted a late result") };
        fixture.world.node().unwrap().answered(agent, row.id.clone(), echo);
        if n % 3 == 0 {
            fixture.world.quiet().await.unwrap();
        }
    }
    fixture.world.quiet().await.unwrap();
    fixture.gate.open();
    fixture.world.pass(Duration::from_secs(60)).await.unwrap();
    let late = late_results(&fixture, ada).await;
    assert!(late.len() == 10 && late.iter().all(|(_, state)| *state == "processed"), "{late:?}");
    assert!(open.iter().all(|row| late.iter().any(|(id, _)| *id == result(&row.id))));
    assert_eq!(fixture.counters.effects("slow"), 0, "an answered call need not run on");
}

#[tokio::test]
async fn a_detached_call_is_canceled_at_once_and_its_agent_gets_an_event() {
    let fixture = Fixture::of_effect(Effect::Unsafe, caller("order"));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    let call = open_call(&fixture, ada, "order").await;
    cancel(&fixture, ada, &call).await;
    fixture.world.quiet().await.unwrap();
    fixture.gate.open();
    fixture.world.pass(Duration::from_secs(60)).await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("was canceled"), "{texts:?}");
    assert_eq!(fixture.counters.effects("slow"), 0);
}

#[tokio::test]
async fn watchers_see_the_message_of_a_visible_call_change_when_its_result_arrives() {
    let fixture = Fixture::new(caller("deliver"));
    let (_, lobby) = fixture.ada().await;
    fixture.world.quiet().await.unwrap();
    let mut watched = fixture.world.ports().live.bus().subscribe(Topic::Space(lobby));
    fixture.gate.open();
    fixture.world.quiet().await.unwrap();
    let mut states = Vec::new();
    while let Some(Some(Delivered::Update(update))) = futures_util::FutureExt::now_or_never(watched.next()) {
        if let Update::Message { message } = &**update {
            states.extend(message.data.as_ref().map(|data| data["state"].clone()));
        }
    }
    assert_eq!(states, [json!("complete")]);
}
