//! Calls that go on beyond their cycle: the agent rests, and their answers come as events.

use std::time::Duration;

use agent::call::{CallState, Effect, Outcome};
use agent::event::EventKind;
use agent::id::{AgentId, CallId};
use agent::port::{Delivered, FinishedCall, PageRequest};
use agent::prompt::Prompt;
use agent::run::Ending;
use agent::update::{Topic, Update};
use models::scripted::Script;
use serde_json::json;

use crate::calls::{cancel, open_call, results, said};
use crate::play::{Play, done, inbox, send, step};

/// Calls a tool and says what it reads of it; says each late result that wakes it.
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

/// The late results that the agent was told, by call, and what became of each.
async fn told(play: &Play, ada: AgentId) -> Vec<(String, &'static str)> {
    let page = PageRequest { cursor: None, limit: 200 };
    let rows = play.world.reader().inbox(ada, None, page).await.unwrap().items;
    let late = rows.into_iter().filter(|row| row.event.kind == EventKind::ToolResult);
    late.map(|row| (row.event.id.0.clone(), row.state.as_str())).collect()
}

fn result(call: &CallId) -> String {
    format!("result:{call}")
}

#[tokio::test]
async fn an_asynchronous_answer_comes_as_an_event_and_is_lived_once() {
    let play = Play::new(caller("order"));
    let (ada, lobby) = play.ada().await;
    play.world.quiet().await.unwrap();
    let runs = play.world.runs(ada).await.unwrap();
    assert_eq!((runs.len(), runs[0].ending), (1, Ending::Completed), "it rests while the call goes on");
    let open = play.world.reader().open_calls(ada).await.unwrap();
    assert_eq!((open.len(), open[0].state), (1, CallState::Detached));
    let words = said(&play, lobby).await;
    assert!(words[1].contains(r#""status":"pending""#) && words[1].contains(&open[0].id.0), "{words:?}");
    play.gate.open();
    play.world.quiet().await.unwrap();
    play.world.pass(Duration::from_secs(4_000)).await.unwrap();
    let words = said(&play, lobby).await;
    let line = format!("[tool result \"order\" | call: {}] answered", open[0].id);
    assert!(words.len() == 3 && words[2].contains(&line), "{words:?}");
    assert_eq!(told(&play, ada).await, [(result(&open[0].id), "processed")]);
    assert_eq!(play.counters.calls("slow"), 1);
    assert_eq!(play.world.reader().open_calls(ada).await.unwrap(), []);
}

#[tokio::test]
async fn an_asynchronous_call_has_its_own_bound_and_is_told_when_it_is_reached() {
    let play = Play::of_effect(Effect::Unsafe, caller("order"));
    let (ada, lobby) = play.ada().await;
    play.world.pass(Duration::from_secs(3_700)).await.unwrap();
    play.world.quiet().await.unwrap();
    let words = said(&play, lobby).await;
    assert!(words[2].contains("failed") && words[2].contains("unknown whether it happened"), "{words:?}");
    assert_eq!(told(&play, ada).await.len(), 1);
}

#[tokio::test]
async fn a_call_that_times_out_goes_on_and_its_answer_is_not_lost() {
    for effect in [Effect::ReadOnly, Effect::Unsafe] {
        let play = Play::of_effect(effect, caller("slow"));
        let (ada, lobby) = play.ada().await;
        play.world.pass(Duration::from_secs(31)).await.unwrap();
        play.world.quiet().await.unwrap();
        let words = said(&play, lobby).await;
        assert!(words[1].contains("no answer within 30000 ms") && words[1].contains("pending"), "{words:?}");
        let call = open_call(&play, ada, "slow").await;
        play.gate.open();
        play.world.quiet().await.unwrap();
        let words = said(&play, lobby).await;
        assert!(words.len() == 3 && words[2].contains("answered"), "{words:?}");
        assert_eq!(told(&play, ada).await, [(result(&call), "processed")]);
        assert_eq!(play.counters.calls("slow"), 1);
    }
}

#[tokio::test]
async fn a_late_call_is_given_up_in_the_end_and_that_is_told_too() {
    let play = Play::new(caller("slow"));
    let (ada, lobby) = play.ada().await;
    play.world.pass(Duration::from_millis(agent::limits::LATE_MS + 60_000)).await.unwrap();
    play.world.quiet().await.unwrap();
    let words = said(&play, lobby).await;
    assert!(words[2].contains("failed") && words[2].contains("given up"), "{words:?}");
    play.gate.open();
    play.world.pass(Duration::from_secs(60)).await.unwrap();
    assert_eq!((said(&play, lobby).await.len(), told(&play, ada).await.len()), (3, 1));
}

#[tokio::test]
async fn an_answer_that_comes_after_its_cycle_was_canceled_is_an_ordinary_event() {
    let play = Play::new(|prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => Script::new().call("order", &json!({})),
        (false, _) => Script::new().text("hm").hang(),
        (true, 0) => Script::new().call("send_message", &send("lobby", "it came")),
        _ => done(),
    });
    let (ada, lobby) = play.ada().await;
    play.world.pass(Duration::from_secs(1)).await.unwrap();
    play.world.registry().cancel(ada, None).await.unwrap();
    play.world.node().unwrap().look(ada);
    play.world.quiet().await.unwrap();
    assert_eq!(play.world.runs(ada).await.unwrap()[0].ending, Ending::Canceled);
    play.gate.open();
    play.world.quiet().await.unwrap();
    assert_eq!(said(&play, lobby).await, ["hi", "it came"]);
    assert_eq!(told(&play, ada).await[0].1, "processed");
}

#[tokio::test]
async fn after_a_crash_what_may_be_repeated_is_run_again_and_the_rest_is_told_as_in_doubt() {
    for (effect, word, calls, effects) in
        [(Effect::Idempotent, "answered", 2, 1), (Effect::Unsafe, "was interrupted", 1, 0)]
    {
        let mut play = Play::of_effect(effect, caller("order"));
        let (ada, lobby) = play.ada().await;
        play.world.quiet().await.unwrap();
        play.world.kill();
        play.world.start();
        play.world.pass(Duration::from_secs(1)).await.unwrap();
        play.gate.open();
        play.world.quiet().await.unwrap();
        let words = said(&play, lobby).await;
        assert!(words.len() == 3 && words[2].contains(word), "{effect:?}: {words:?}");
        assert_eq!((play.counters.calls("slow"), play.counters.effects("slow")), (calls, effects));
        assert_eq!((told(&play, ada).await.len(), play.counters.keys("slow").len()), (1, 1));
    }
}

#[tokio::test]
async fn a_call_that_ends_the_server_each_time_is_given_up() {
    let mut play = Play::of_effect(Effect::Idempotent, caller("order"));
    let (ada, lobby) = play.ada().await;
    play.world.quiet().await.unwrap();
    for _ in 0..6 {
        play.world.kill();
        play.world.start();
        play.world.pass(Duration::from_secs(1)).await.unwrap();
    }
    play.world.quiet().await.unwrap();
    let words = said(&play, lobby).await;
    assert!(words.len() == 3 && words[2].contains("the server ended"), "{words:?}");
    assert_eq!(play.counters.calls("slow"), 1 + u64::from(agent::limits::DETACHED_ATTEMPTS));
    assert_eq!(told(&play, ada).await.len(), 1);
}

#[tokio::test]
async fn a_stop_gives_what_goes_on_a_while_and_the_next_start_takes_up_the_rest() {
    let mut play = Play::of_effect(Effect::Idempotent, caller("order"));
    let (ada, lobby) = play.ada().await;
    play.world.quiet().await.unwrap();
    play.world.stop().await.unwrap();
    play.gate.open();
    play.world.start();
    play.world.quiet().await.unwrap();
    let words = said(&play, lobby).await;
    assert!(words.len() == 3 && words[2].contains("answered"), "{words:?}");
    assert_eq!(told(&play, ada).await.len(), 1);
}

#[tokio::test]
async fn ten_calls_at_once_are_answered_in_any_order_each_by_one_event() {
    let play = Play::new(|prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => (0..10).fold(Script::new(), |script, _| script.call("order", &json!({}))),
        (true, 0) => Script::new().call("send_message", &send("lobby", "some came")),
        _ => done(),
    });
    let (ada, _) = play.ada().await;
    play.world.quiet().await.unwrap();
    let open = play.world.reader().open_calls(ada).await.unwrap();
    assert_eq!(open.len(), 10);
    for (n, row) in open.iter().rev().enumerate() {
        let at = play.now();
        let answer = FinishedCall { id: row.id.clone(), outcome: Outcome::ok(format!("answer {n}")), at };
        let finish = play.world.ports().calls.finish(answer).await.unwrap();
        let agent::port::Finish::Late(agent, echo) = finish else { panic!("wanted it late") };
        play.world.node().unwrap().answered(agent, row.id.clone(), echo);
        if n % 3 == 0 {
            play.world.quiet().await.unwrap();
        }
    }
    play.world.quiet().await.unwrap();
    play.gate.open();
    play.world.pass(Duration::from_secs(60)).await.unwrap();
    let told = told(&play, ada).await;
    assert!(told.len() == 10 && told.iter().all(|(_, state)| *state == "processed"), "{told:?}");
    assert!(open.iter().all(|row| told.iter().any(|(id, _)| *id == result(&row.id))));
    assert_eq!(play.counters.effects("slow"), 0, "who is answered for need not go on");
}

#[tokio::test]
async fn a_detached_call_is_canceled_at_once_and_its_agent_hears_of_it_by_an_event() {
    let play = Play::of_effect(Effect::Unsafe, caller("order"));
    let (ada, lobby) = play.ada().await;
    play.world.quiet().await.unwrap();
    let call = open_call(&play, ada, "order").await;
    cancel(&play, ada, &call).await;
    play.world.quiet().await.unwrap();
    play.gate.open();
    play.world.pass(Duration::from_secs(60)).await.unwrap();
    let words = said(&play, lobby).await;
    assert!(words.len() == 3 && words[2].contains("was canceled"), "{words:?}");
    assert_eq!(play.counters.effects("slow"), 0);
}

#[tokio::test]
async fn watchers_see_the_message_of_a_visible_call_change_when_its_answer_comes() {
    let play = Play::new(caller("deliver"));
    let (_, lobby) = play.ada().await;
    play.world.quiet().await.unwrap();
    let mut watched = play.world.ports().live.bus().subscribe(Topic::Space(lobby));
    play.gate.open();
    play.world.quiet().await.unwrap();
    let mut states = Vec::new();
    while let Some(Some(Delivered::Update(update))) = futures_util::FutureExt::now_or_never(watched.next()) {
        if let Update::Message { message } = &**update {
            states.extend(message.data.as_ref().map(|data| data["state"].clone()));
        }
    }
    assert_eq!(states, [json!("complete")]);
}
