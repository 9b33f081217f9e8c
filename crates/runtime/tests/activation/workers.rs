//! Calls that workers run: claimed by one at a time, answered once, and never run by the server.

use std::sync::Arc;
use std::time::Duration;

use agent::call::{CallState, Effect, Outcome};
use agent::id::{AgentId, CallId, ClaimId, SpaceId};
use agent::life::Standing;
use agent::limits;
use agent::port::{
    Beginning, BoxFuture, CallError, Calls, Claimed, DetachedCall, Finish, FinishedCall, StoreError, Tool,
    Toolbox, WorkerCall,
};
use agent::prompt::Prompt;
use models::scripted::Script;
use runtime::Ports;
use runtime::workers::{self, ClaimedCall, WorkerAnswer, WorkerTool};
use serde_json::json;
use testkit::test_tools::by_workers;

use crate::calls::{cancel, posted, results};
use crate::fixture::{Fixture, done, inbox, send, step};

/// A toolbox whose tools `slow` and `order` are run by workers.
struct ByWorkers(Arc<dyn Toolbox>);

impl Toolbox for ByWorkers {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tool = self.0.tool(name)?;
        Some(if matches!(name, "slow" | "order") { by_workers(name, tool) } else { tool })
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.0.is_prebuilt(name)
    }
}

/// Calls the tool and posts what it reads of it; posts each late result.
fn caller(tool: &'static str) -> impl Fn(&Prompt) -> Script + Send + Sync {
    move |prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => Script::new().call(tool, &json!({"note": "hi"})),
        (false, 1) => Script::new().call("send_message", &send("lobby", &results(prompt)[0])),
        (true, 0) => {
            let inbox = inbox(prompt);
            let late: Vec<&str> = inbox.lines().filter(|line| line.contains("[tool result")).collect();
            Script::new().call("send_message", &send("lobby", &late.join("\n")))
        }
        _ => done(),
    }
}

/// A world in which an agent has just called the tool.
async fn called(effect: Effect, tool: &'static str) -> (Fixture, AgentId, SpaceId) {
    let mut fixture = Fixture::of_effect(effect, caller(tool));
    fixture.dies_with(|inner| Arc::new(ByWorkers(inner)));
    let (ada, lobby) = fixture.ada().await;
    fixture.world.pass(Duration::from_millis(10)).await.unwrap();
    (fixture, ada, lobby)
}

async fn valid() -> Result<(), CallError> {
    Ok(())
}

fn of_version(tool: &str, version: &str) -> [WorkerTool; 1] {
    [(tool.to_owned(), version.to_owned())]
}

async fn claim(fixture: &Fixture, tool: &str) -> Option<ClaimedCall> {
    workers::claim(fixture.world.ports(), &of_version(tool, "1"), Duration::ZERO, None, valid).await.unwrap()
}

async fn answer(fixture: &Fixture, claimed: &ClaimedCall, text: &str) -> WorkerAnswer {
    let ports = fixture.world.ports();
    let call = ports.calls.worker_call(claimed.row.id.clone()).await.unwrap().unwrap();
    let node = fixture.world.node().unwrap();
    let answer = workers::finish(ports, node, &call, claimed.claim, Outcome::ok(text)).await.unwrap();
    fixture.world.quiet().await.unwrap();
    answer
}

async fn renew(fixture: &Fixture, claimed: &ClaimedCall) -> bool {
    let ports = fixture.world.ports();
    let call = ports.calls.worker_call(claimed.row.id.clone()).await.unwrap().unwrap();
    workers::renew(ports, &call, claimed.claim)
}

async fn pass(fixture: &Fixture, ms: u64) {
    fixture.world.pass(Duration::from_millis(ms)).await.unwrap();
}

#[tokio::test]
async fn a_call_is_claimed_by_one_worker_and_its_answer_is_the_outcome() {
    for effect in [Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe] {
        let (fixture, ada, lobby) = called(effect, "slow").await;
        let open = fixture.world.reader().open_calls(ada).await.unwrap();
        assert_eq!(open[0].state, CallState::Planned, "{effect:?}: its claim starts it, nothing else");
        assert_eq!(fixture.world.ports().workers.counts("slow").unclaimed_calls, 1);
        let claimed = claim(&fixture, "slow").await.unwrap();
        assert_eq!((claimed.agent, claimed.times), (ada, 1));
        assert_eq!(claimed.row.arguments, r#"{"note":"hi"}"#);
        assert_eq!(claim(&fixture, "slow").await, None, "it is taken");
        assert_eq!(answer(&fixture, &claimed, "resized").await, WorkerAnswer::Taken);
        assert_eq!(answer(&fixture, &claimed, "twice").await, WorkerAnswer::Over);
        assert_eq!(posted(&fixture, lobby).await[1..], ["resized"]);
        assert_eq!(fixture.counters.calls("slow"), 0, "the server runs none of it");
        assert_eq!(fixture.world.ports().workers.counts("slow"), Default::default());
    }
}

#[tokio::test]
async fn a_claim_waits_for_a_call_and_a_worker_of_another_version_gets_none() {
    let mut fixture = Fixture::of_effect(Effect::Unsafe, caller("slow"));
    fixture.dies_with(|inner| Arc::new(ByWorkers(inner)));
    let ports = fixture.world.ports().clone();
    let patience = Duration::from_secs(3_600);
    let other = {
        let ports = ports.clone();
        tokio::spawn(async move {
            workers::claim(&ports, &of_version("slow", "2"), patience, None, valid).await.unwrap()
        })
    };
    let waits = tokio::spawn(async move {
        workers::claim(&ports, &of_version("slow", "1"), patience, None, valid).await.unwrap()
    });
    fixture.ada().await;
    fixture.world.pass(Duration::from_millis(10)).await.unwrap();
    let claimed = waits.await.unwrap().expect("the call");
    assert_eq!(answer(&fixture, &claimed, "ok").await, WorkerAnswer::Taken);
    assert!(!other.is_finished());
    fixture.world.pass(patience).await.unwrap();
    assert_eq!(other.await.unwrap(), None);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_asked_for_again() {
    for effect in [Effect::Idempotent, Effect::Unsafe] {
        let (mut fixture, _, lobby) = called(effect, "slow").await;
        let own = ClaimId(uuid::Uuid::from_u128(77));
        let ask = async |fixture: &Fixture, claim: ClaimId| {
            let tools = of_version("slow", "1");
            workers::claim(fixture.world.ports(), &tools, Duration::ZERO, Some(claim), valid).await.unwrap()
        };
        let first = ask(&fixture, own).await.unwrap();
        assert_eq!(ask(&fixture, own).await.as_ref().map(|again| (again.claim, again.times)), Some((own, 1)));
        fixture.dies_with(|inner| Arc::new(ByWorkers(inner)));
        fixture.world.start();
        pass(&fixture, 1_000).await;
        let again = ask(&fixture, own).await.expect("the server died before it could say so");
        assert_eq!((again.row.id.clone(), again.claim, again.times), (first.row.id, own, 1));
        assert_eq!(ask(&fixture, ClaimId(uuid::Uuid::from_u128(78))).await, None, "it is another's");
        assert_eq!(answer(&fixture, &again, "once").await, WorkerAnswer::Taken);
        assert_eq!(posted(&fixture, lobby).await.last().unwrap(), "once");
        assert_eq!(ask(&fixture, own).await, None, "it is over");
    }
}

#[tokio::test]
async fn a_worker_that_is_gone_loses_a_repeatable_call_to_another() {
    let (fixture, _, lobby) = called(Effect::Idempotent, "order").await;
    let first = claim(&fixture, "order").await.unwrap();
    pass(&fixture, limits::WORKER_LEASE_MS - 1_000).await;
    assert!(renew(&fixture, &first).await);
    pass(&fixture, limits::WORKER_LEASE_MS - 1_000).await;
    assert_eq!(claim(&fixture, "order").await, None, "the renewal counts");
    pass(&fixture, 2_000).await;
    let second = claim(&fixture, "order").await.expect("the claim has ended");
    assert_eq!((second.row.id.clone(), second.times), (first.row.id.clone(), 2), "the same key");
    assert!(!renew(&fixture, &first).await);
    assert_eq!(answer(&fixture, &first, "of the first").await, WorkerAnswer::NotClaimed);
    assert_eq!(answer(&fixture, &second, "of the second").await, WorkerAnswer::Taken);
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("of the second"), "{texts:?}");
}

#[tokio::test]
async fn a_worker_that_was_only_slow_keeps_its_call_if_nobody_else_has_it() {
    let (fixture, _, lobby) = called(Effect::Idempotent, "order").await;
    let first = claim(&fixture, "order").await.unwrap();
    pass(&fixture, limits::WORKER_LEASE_MS + 1_000).await;
    assert!(renew(&fixture, &first).await);
    assert_eq!(claim(&fixture, "order").await, None);
    assert_eq!(answer(&fixture, &first, "here").await, WorkerAnswer::Taken);
    assert!(posted(&fixture, lobby).await[2].contains("here"));
}

#[tokio::test]
async fn an_unsafe_call_of_a_worker_that_is_gone_is_unknown_until_the_worker_answers_after_all() {
    let (fixture, _, lobby) = called(Effect::Unsafe, "order").await;
    let claimed = claim(&fixture, "order").await.unwrap();
    pass(&fixture, limits::WORKER_LEASE_MS + 1_000).await;
    fixture.world.quiet().await.unwrap();
    assert_eq!(claim(&fixture, "order").await, None, "nobody else gets it");
    let texts = posted(&fixture, lobby).await;
    assert!(texts[2].contains("unknown whether it happened"), "{texts:?}");
    assert_eq!(answer(&fixture, &claimed, "it did happen").await, WorkerAnswer::Taken);
    assert_eq!(answer(&fixture, &claimed, "twice").await, WorkerAnswer::Over);
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 4 && texts[3].contains("it did happen"), "{texts:?}");
}

#[tokio::test]
async fn a_server_that_stood_still_gives_a_worker_the_time_back() {
    // It could not hear a renewal in that time, and hears it only after its own alarms.
    for (before, still) in [(1_000, 42_000), (29_000, 2_000), (12_000, 600_000)] {
        let (fixture, _, lobby) = called(Effect::Unsafe, "order").await;
        let claimed = claim(&fixture, "order").await.unwrap();
        pass(&fixture, before).await;
        fixture.clock.advance(Duration::from_millis(still));
        pass(&fixture, 1).await;
        assert!(renew(&fixture, &claimed).await, "{before} {still}");
        assert_eq!(answer(&fixture, &claimed, "it happened").await, WorkerAnswer::Taken);
        let texts = posted(&fixture, lobby).await;
        assert!(!texts.iter().any(|text| text.contains("unknown whether")), "{texts:?}");
    }
}

#[tokio::test]
async fn workers_that_all_die_of_a_call_are_not_given_it_for_ever() {
    let (fixture, _, lobby) = called(Effect::ReadOnly, "order").await;
    for times in 1..=limits::WORKER_CLAIMS_PER_CALL {
        assert_eq!(claim(&fixture, "order").await.unwrap().times, times);
        pass(&fixture, limits::WORKER_LEASE_MS + 1_000).await;
    }
    fixture.world.quiet().await.unwrap();
    assert_eq!(claim(&fixture, "order").await, None);
    assert!(posted(&fixture, lobby).await[2].contains("did not answer in time"));
}

#[tokio::test]
async fn after_a_restart_a_claimed_call_is_still_its_workers_and_an_unclaimed_one_is_offered_again() {
    for (effect, tool) in [
        (Effect::Unsafe, "slow"),
        (Effect::Unsafe, "order"),
        (Effect::Idempotent, "slow"),
        (Effect::Idempotent, "order"),
    ] {
        let (mut fixture, _, lobby) = called(effect, tool).await;
        fixture.dies_with(|inner| Arc::new(ByWorkers(inner)));
        fixture.world.start();
        pass(&fixture, 1_000).await;
        let claimed = claim(&fixture, tool).await.expect("it was never claimed");
        assert_eq!(claimed.times, 1, "{effect:?} {tool}: a restart is no claim");
        fixture.dies_with(|inner| Arc::new(ByWorkers(inner)));
        fixture.world.start();
        pass(&fixture, 1_000).await;
        assert_eq!(claim(&fixture, tool).await, None, "{effect:?} {tool}: it has a worker");
        assert!(renew(&fixture, &claimed).await);
        assert_eq!(answer(&fixture, &claimed, "survived").await, WorkerAnswer::Taken);
        let texts = posted(&fixture, lobby).await;
        assert!(texts.last().unwrap().contains("survived"), "{effect:?} {tool}: {texts:?}");
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_calls_that_workers_run() {
    for claimed in [false, true] {
        let (mut fixture, ..) = called(Effect::Unsafe, "order").await;
        let claim = if claimed { claim(&fixture, "order").await } else { None };
        assert_eq!(claim.is_some(), claimed);
        let clock = Arc::clone(&fixture.world.ports().clock);
        let before = clock.monotonic_ms();
        fixture.world.stop().await.unwrap();
        assert_eq!(clock.monotonic_ms() - before, 0, "the next process waits for them");
    }
}

#[tokio::test]
async fn a_call_that_nobody_takes_is_given_up_and_the_agent_learns_that_nothing_was_done() {
    let (fixture, _, lobby) = called(Effect::Unsafe, "slow").await;
    pass(&fixture, limits::TOOL_TIMEOUT_MS).await;
    fixture.world.quiet().await.unwrap();
    assert!(posted(&fixture, lobby).await[1].contains("pending"));
    pass(&fixture, limits::LATE_MS + 60_000).await;
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("nothing of it was done"), "{texts:?}");
    assert_eq!(claim(&fixture, "slow").await, None);
}

#[tokio::test]
async fn a_worker_learns_that_its_call_was_canceled() {
    let (fixture, ada, lobby) = called(Effect::Unsafe, "order").await;
    let claimed = claim(&fixture, "order").await.unwrap();
    cancel(&fixture, ada, &claimed.row.id).await;
    fixture.world.quiet().await.unwrap();
    assert!(!renew(&fixture, &claimed).await);
    let texts = posted(&fixture, lobby).await;
    assert!(texts.len() == 3 && texts[2].contains("unknown whether it happened"), "{texts:?}");
    assert_eq!(answer(&fixture, &claimed, "it had happened").await, WorkerAnswer::Taken);
    assert_eq!(answer(&fixture, &claimed, "twice").await, WorkerAnswer::Over);
    assert!(posted(&fixture, lobby).await[3].contains("it had happened"));
}

/// A store that never confirms a claim.
struct SilentCalls(Arc<dyn Calls>);

impl Calls for SilentCalls {
    fn detached(
        &self,
        after: Option<CallId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<DetachedCall>, StoreError>> {
        self.0.detached(after, limit)
    }

    fn take_up(&self, call: CallId) -> BoxFuture<'_, Result<Option<u32>, CallError>> {
        self.0.take_up(call)
    }

    fn claim(
        &self,
        call: CallId,
        claim: ClaimId,
        barrier: bool,
    ) -> BoxFuture<'_, Result<Claimed, CallError>> {
        Box::pin(async move {
            self.0.claim(call, claim, barrier).await?;
            std::future::pending().await
        })
    }

    fn may_begin(&self, call: CallId, barrier: bool) -> BoxFuture<'_, Result<Beginning, StoreError>> {
        self.0.may_begin(call, barrier)
    }

    fn claimed(&self, claim: ClaimId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        self.0.claimed(claim)
    }

    fn worker_call(&self, call: CallId) -> BoxFuture<'_, Result<Option<WorkerCall>, StoreError>> {
        self.0.worker_call(call)
    }

    fn finish(&self, answer: FinishedCall) -> BoxFuture<'_, Result<Finish, CallError>> {
        self.0.finish(answer)
    }
}

#[tokio::test]
async fn a_key_that_is_not_valid_any_more_when_a_call_comes_claims_nothing() {
    let (fixture, ..) = called(Effect::Unsafe, "order").await;
    let refused = async || Err::<(), _>(CallError::Unknown(CallId("revoked".into())));
    let tools = of_version("order", "1");
    let answer = workers::claim(fixture.world.ports(), &tools, Duration::ZERO, None, refused).await;
    assert!(answer.is_err());
    assert!(claim(&fixture, "order").await.is_some_and(|claimed| claimed.times == 1));
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_is_claimed_is_unknown_and_never_said_not_to_have_happened() {
    let (fixture, _, lobby) = called(Effect::Unsafe, "order").await;
    let ports = fixture.world.ports();
    let silent = Ports { calls: Arc::new(SilentCalls(Arc::clone(&ports.calls))), ..ports.clone() };
    let tools = of_version("order", "1");
    let mut claiming = Box::pin(workers::claim(&silent, &tools, Duration::ZERO, None, valid));
    assert!(futures_util::poll!(&mut claiming).is_pending(), "durable, and this node does not know it yet");
    pass(&fixture, 3_700_000).await;
    fixture.world.quiet().await.unwrap();
    let texts = posted(&fixture, lobby).await;
    assert!(texts[2].contains("unknown whether it happened"), "{texts:?}");
}

#[tokio::test]
async fn a_claim_whose_request_is_dropped_leaves_the_call_to_others() {
    let (fixture, ..) = called(Effect::Unsafe, "order").await;
    let ports = fixture.world.ports();
    let silent = Ports { calls: Arc::new(SilentCalls(Arc::clone(&ports.calls))), ..ports.clone() };
    let tools = of_version("order", "1");
    let mut dropped = Box::pin(workers::claim(&silent, &tools, Duration::ZERO, None, valid));
    assert!(futures_util::poll!(&mut dropped).is_pending());
    assert_eq!(claim(&fixture, "order").await, None, "it may be another's");
    drop(dropped);
    let claimed = claim(&fixture, "order").await.expect("nobody heard of the first claim");
    assert_eq!(answer(&fixture, &claimed, "ok").await, WorkerAnswer::Taken);
}

/// Whoever asked for it may take it back as long as no worker has it.
#[tokio::test]
async fn an_unsafe_call_is_held_back_from_workers_by_an_urgent_event_of_its_requester() {
    let (fixture, ada, lobby) = called(Effect::Unsafe, "slow").await;
    let husam = fixture.world.messages(lobby).await.unwrap()[0].sender;
    fixture.world.say(husam, lobby, "stop!").await.unwrap();
    assert_eq!(claim(&fixture, "slow").await, None);
    fixture.world.quiet().await.unwrap();
    let open = fixture.world.reader().open_calls(ada).await.unwrap();
    assert_eq!(open, [], "the agent decides again");
    assert_eq!(fixture.world.ports().workers.counts("slow"), Default::default());
    assert!(posted(&fixture, lobby).await.iter().any(|text| text.contains("not started: an urgent event")));
}

/// A call that has not begun waits until its agent may run again.
#[tokio::test]
async fn workers_get_no_call_of_a_suspended_agent_until_it_is_resumed() {
    let (fixture, ada, _) = called(Effect::Unsafe, "slow").await;
    let (ports, node) = (fixture.world.ports(), fixture.world.node().unwrap());
    ports.registry.set_standing(ada, Standing::Suspended, ports.clock.now()).await.unwrap();
    node.suspend(ada);
    for _ in 0..3 {
        assert_eq!(claim(&fixture, "slow").await, None);
        pass(&fixture, 2 * limits::WORKER_REFUSED_MS).await;
    }
    ports.registry.set_standing(ada, Standing::Active, ports.clock.now()).await.unwrap();
    node.resume(ada);
    pass(&fixture, 2 * limits::WORKER_REFUSED_MS).await;
    assert_eq!(claim(&fixture, "slow").await.map(|claimed| claimed.times), Some(1));
}

/// What waits for workers is held in memory, each call with a task of its own: the others stay in the store until there is room.
#[tokio::test]
async fn a_node_offers_only_so_many_calls_without_a_cycle_and_the_others_as_soon_as_there_is_room() {
    let author = |prompt: &Prompt| match (inbox(prompt).contains("[tool result"), step(prompt)) {
        (false, 0) => {
            (0..3).fold(Script::new(), |script, n| script.call("order", &json!({"note": n.to_string()})))
        }
        _ => done(),
    };
    let mut fixture = Fixture::of_effect(Effect::Idempotent, author);
    fixture.dies_as(|ports| {
        ports.toolbox = Arc::new(ByWorkers(Arc::clone(&ports.toolbox)));
        ports.bounds.detached_outside = 2;
    });
    fixture.ada().await;
    let sweeps = Duration::from_millis(3 * limits::SWEEP_MS);
    let offered = || fixture.world.ports().workers.counts("order");
    for (answered, on_offer) in [(0, 2), (1, 2), (2, 1), (3, 0)] {
        fixture.world.pass(sweeps).await.unwrap();
        assert_eq!(offered().unclaimed_calls, on_offer, "after {answered} answers");
        if on_offer > 0 {
            let claimed = claim(&fixture, "order").await.expect("one is on offer");
            assert_eq!(answer(&fixture, &claimed, "done").await, WorkerAnswer::Taken);
        }
    }
}
