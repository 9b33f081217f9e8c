//! The conformance checks, against stubs that pass and fail each check.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::port::{BoxFuture, Clock, ModelError};
use jiff::Timestamp;
use models::conformance::{Check, Column, Finding, Trial, Verdict, advice};
use models::model_book::{ModelConfig, ToolMode};
use testkit::stubs::rules::Demands;
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::support::{NoClock, vendor_model};

const PARIS: &str = r#"{"city":"Paris","unit":"celsius"}"#;
const ROME: &str = r#"{"city":"Rome","unit":"celsius"}"#;

/// A clock that advances by ten milliseconds each time it is read, and whose sleeps never end.
#[derive(Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.fetch_add(10, Ordering::SeqCst)
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn trial_at(url: &str, name: &str, mode: ToolMode, clock: Arc<dyn Clock>) -> Trial {
    let config =
        ModelConfig { base_url: Some(url.into()), tool_mode: Some(mode), ..ModelConfig::named(name) };
    Trial::new(vendor_model(config), mode, clock, Duration::from_secs(9))
}

fn trial(stub: &Stub, name: &str, mode: ToolMode) -> Trial {
    trial_at(&stub.url(), name, mode, Arc::new(Ticking::default()))
}

async fn run_all(mut trial: Trial, mode: ToolMode) -> Column {
    let mut findings = Vec::new();
    for check in Check::ALL {
        findings.push(trial.run(check).await);
    }
    Column { mode, findings }
}

fn verdicts(column: &Column) -> Vec<Verdict> {
    let asked = column.findings.iter().filter(|finding| finding.check != Check::Greeting);
    asked.map(|finding| finding.verdict).collect()
}

fn pieces(text: &str) -> ReplyPiece {
    ReplyPiece::Text(text.split_inclusive(' ').map(str::to_owned).collect())
}

fn answer_all_checks(stub: &Stub) {
    let answer = || Answer::new().usage(30, 0, 12);
    stub.push(answer().say(pieces("one, two, three")));
    stub.push(answer().call("call_1", "get_weather", PARIS, 5));
    stub.push(answer().call("call_1", "get_weather", PARIS, 5).call("call_2", "get_weather", ROME, 5));
    stub.push(answer().say(pieces("Once upon a time")).hangs());
    stub.push(answer().text("Hello."));
}

#[tokio::test]
async fn a_server_that_passes_every_check_is_good_enough() {
    for (vendor, name) in [
        (Vendor::OpenAi, "llamacpp/able"),
        (Vendor::Anthropic, "anthropic/claude-sonnet-5"),
        (Vendor::Gemini, "google/gemini-2.5-flash"),
        (Vendor::Responses, "openai-responses/gpt-5-mini"),
    ] {
        let stub = Stub::start(vendor).await;
        answer_all_checks(&stub);
        let column = run_all(trial(&stub, name, ToolMode::Native), ToolMode::Native).await;
        assert_eq!(verdicts(&column), [Verdict::Ok; 5], "{name}: {column:?}");
        assert!(column.findings[0].why.starts_with("3 pieces, the first after"), "{column:?}");
        assert_eq!(column.findings[3].why, "input 90, cached 0, output 36");
        assert_eq!(advice(&[column]).text, "good enough as it is");
        stub.hung_up().await;
        assert!(stub.requests().iter().all(|request| request.refused.is_none()), "{name}");
    }
}

#[tokio::test]
async fn a_server_without_tool_calls_may_be_good_enough_in_json_schema_mode() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let jinja =
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#;
    let refusal = || Answer::status(500, jinja).header("content-type", "application/json");
    stub.push(Answer::new().say(pieces("one, two")));
    stub.push(refusal());
    stub.push(refusal());
    stub.push(Answer::new().say(pieces("Once upon")).hangs());
    stub.push(Answer::new().text("Hello."));
    let native = run_all(trial(&stub, "llamacpp/tiny", ToolMode::Native), ToolMode::Native).await;
    use Verdict::{No, Ok};
    assert_eq!(verdicts(&native), [Ok, No, No, No, Ok]);
    assert!(native.findings[1].describe().contains("--jinja"), "{native:?}");
    assert!(native.findings[3].describe().ends_with("costs stay unknown"), "{native:?}");

    let json = |text: &str| Answer::new().say(pieces(text)).usage(30, 0, 12);
    stub.demand(Some(Demands { alternate: true, ..Demands::default() }));
    stub.push(json(r#"{"text": "one, two, three"}"#));
    stub.push(json(&format!(r#"{{"name": "get_weather", "arguments": {PARIS}}}"#)));
    stub.push(json(r#"{"text": "Once upon a time there"#).hangs());
    stub.push(json(r#"{"text": "Hello."}"#));
    let schema = run_all(trial(&stub, "llamacpp/tiny", ToolMode::JsonSchema), ToolMode::JsonSchema).await;
    assert_eq!(verdicts(&schema), [Ok, Ok, No, Ok, Ok], "{schema:?}");
    let advice = advice(&[native, schema]);
    assert_eq!(
        (advice.mode, advice.text.as_str()),
        (Some(ToolMode::JsonSchema), "use `--tool-mode json_schema`")
    );
}

#[tokio::test]
async fn a_call_that_needs_a_second_try_passes_in_part() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.push(Answer::new().text("It is sunny in Paris."));
    stub.push(Answer::new().call("call_1", "get_weather", PARIS, 99));
    let found = trial(&stub, "llamacpp/tiny", ToolMode::Native).run(Check::Call).await;
    assert_eq!(found.verdict, Verdict::Partly);
    assert!(found.why.ends_with("at the second try"), "{found:?}");
    for _ in 0..2 {
        stub.push(Answer::new().text("It is sunny in Paris."));
    }
    let found = trial(&stub, "llamacpp/tiny", ToolMode::Native).run(Check::Call).await;
    assert_eq!(
        (found.verdict, found.why.as_str()),
        (Verdict::No, "it answered in words: `It is sunny in Paris.`")
    );
}

async fn first_finding(url: &str, clock: Arc<dyn Clock>) -> Finding {
    trial_at(url, "openai-compatible/x", ToolMode::Native, clock).run(Check::Stream).await
}

#[tokio::test]
async fn servers_that_are_not_model_servers_are_distinguished_by_the_first_request() {
    let stub = Stub::start(Vendor::OpenAi).await;
    let ticking = || Arc::new(Ticking::default());
    let html = "<!doctype html><title>Welcome</title>";
    stub.push(Answer::status(200, html).header("content-type", "text/html"));
    let found = first_finding(&stub.url(), ticking()).await;
    assert!(
        matches!(found.fatal_error(), Some(ModelError::NoModel(why)) if why.ends_with("HTTP 200, text/html")),
        "{found:?}"
    );
    stub.push(Answer::status(404, "not found"));
    assert!(matches!(
        first_finding(&stub.url(), ticking()).await.fatal_error(),
        Some(ModelError::NoModel(_))
    ));
    stub.push(Answer::status(401, r#"{"error":{"message":"bad key sk-canary-0123456789"}}"#));
    let found = first_finding(&stub.url(), ticking()).await;
    assert!(
        matches!(found.fatal_error(), Some(ModelError::Auth(_))) && !found.why.contains("canary"),
        "{found:?}"
    );
    // The server accepts the request and sends nothing; with this clock the time-out ends at once.
    stub.push(Answer::raw("").hangs());
    let found = first_finding(&stub.url(), Arc::new(NoClock)).await;
    assert!(matches!(found.fatal_error(), Some(ModelError::TimedOut(_))), "{found:?}");
    assert_eq!(found.why, "no answer within 9 s");
    let gone = stub.url();
    drop(stub);
    assert!(matches!(first_finding(&gone, ticking()).await.fatal_error(), Some(ModelError::Network(_))));
}

#[tokio::test]
async fn no_request_is_sent_after_one_timed_out() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.push(Answer::raw("").hangs());
    let column = run_all(
        trial_at(&stub.url(), "llamacpp/dead", ToolMode::Native, Arc::new(NoClock)),
        ToolMode::Native,
    )
    .await;
    let (no, untried) = (Verdict::No, Verdict::Untried);
    assert_eq!(verdicts(&column), [no, untried, untried, untried, untried]);
    assert!(column.findings[0].is_silence() && column.findings[1].describe().starts_with("not tried: "));
    assert!(stub.requests().len() <= 1 && column.verdict() == Verdict::No);
    assert_eq!(advice(&[column]).text, "not good enough: native: no answer within 9 s");
}

#[tokio::test]
async fn a_broken_stream_fails_the_stream_check() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.push(Answer::new().say(pieces("one, two, three")).cut_at(200));
    let found = trial(&stub, "llamacpp/tiny", ToolMode::Native).run(Check::Stream).await;
    assert_eq!((found.verdict, found.fatal_error()), (Verdict::No, None));
    assert!(found.describe().contains("cut"), "{found:?}");
}
