//! `viv models`: the real binary against stubs of model servers.

use serde_json::{Value, json};
use testkit::stubs::rules::Demands;
use testkit::stubs::{Answer, ReplyPiece, Stub, Vendor};

use crate::world::{Ran, run, run_with};

const PARIS: &str = r#"{"city":"Paris","unit":"celsius"}"#;
/// The smallest scenario.
const SCENARIO: &str = "\
scenario: one
people: [mira]
agents: {ada: {instructions: x, script: [{say: hi}]}}
spaces: {home: [mira, ada]}
story: [{mira says in home: hello}]
expect: [{ada said in home: 1}]
";
const ROME: &str = r#"{"city":"Rome","unit":"celsius"}"#;

fn viv(args: &[&str]) -> Ran {
    run(tempfile::tempdir().unwrap().path(), args)
}

fn pieces(text: &str) -> Answer {
    Answer::new().say(ReplyPiece::Text(text.split_inclusive(' ').map(str::to_owned).collect())).usage(9, 0, 3)
}

fn in_native_mode(stub: &Stub) {
    stub.push(pieces("one, two, three"));
    stub.push(Answer::new().call("call_1", "get_weather", PARIS, 5).usage(9, 0, 3));
    stub.push(Answer::new().call("call_1", "get_weather", PARIS, 5).call("call_2", "get_weather", ROME, 5));
    stub.push(pieces("Once upon a time").hangs());
    stub.push(pieces("Hello."));
    stub.push(Answer::new().call("call_1", "send_message", r#"{"text":"Hello!"}"#, 5));
}

fn with_a_schema(stub: &Stub) {
    stub.push(pieces(r#"{"text": "one, two, three"}"#));
    stub.push(pieces(&format!(r#"{{"name": "get_weather", "arguments": {PARIS}}}"#)));
    stub.push(pieces(r#"{"text": "Once upon a time"#).hangs());
    stub.push(pieces(r#"{"text": "Hello."}"#));
    stub.push(pieces(r#"{"text": "Hello to you, too."}"#));
}

fn verdicts(mode: &Value) -> Vec<&str> {
    mode["checks"].as_array().unwrap().iter().map(|check| check["verdict"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_is_tested_in_every_mode_and_the_best_is_recommended() {
    let stub = Stub::start(Vendor::OpenAi).await;
    in_native_mode(&stub);
    with_a_schema(&stub);
    let ran = viv(&["models", "try", "llamacpp/able", "--base-url", &stub.url(), "--json"]);
    let report = ran.json();
    assert_eq!(
        (ran.code, &report["usable"], &report["tool_mode"]),
        (0, &json!(true), &json!("native")),
        "{}",
        ran.shown()
    );
    assert_eq!(report["advice"], "good enough as it is");
    let modes = report["modes"].as_array().unwrap();
    assert_eq!(verdicts(&modes[0]), ["ok", "ok", "ok", "ok", "ok", "ok"], "{report:#}");
    assert_eq!(verdicts(&modes[1]), ["ok", "ok", "no", "ok", "ok", "partly"], "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_native_calls_the_schema_mode_is_recommended() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.demand(Some(Demands { alternate: true, ..Demands::default() }));
    stub.push(pieces("one, two, three"));
    for _ in 0..2 {
        stub.push(pieces("It is \u{1b}[31msunny."));
    }
    stub.push(pieces("It is sunny in both."));
    stub.push(pieces("Once upon a time").hangs());
    stub.push(pieces("Hello."));
    stub.push(Answer::new().call("call_1", "peek_inbox", "{}", 5));
    with_a_schema(&stub);
    let ran = viv(&["models", "try", "llamacpp/tiny", "--base-url", &stub.url()]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    for wanted in [
        "CHECK              NATIVE  JSON_SCHEMA\n",
        "calls a tool       no      ok\n",
        "  calls a tool: it answered in words: `It is ^[[31msunny.`; agents act by calls alone\n",
        "  answers people: greeted, it sent no answer; it called: `peek_inbox`; give its agents fewer tools, ",
        "\nuse `--tool-mode json_schema`\n  viv up --model llamacpp/tiny --base-url http://127.0.0.1:",
    ] {
        assert!(ran.out.contains(wanted), "wanted `{wanted}` in {}", ran.shown());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_calls_no_tools_is_not_good_enough() {
    let stub = Stub::start(Vendor::Anthropic).await;
    for _ in 0..7 {
        stub.push(pieces("It is sunny."));
    }
    let key = [("ANTHROPIC_API_KEY", "sk-canary-0123456789")];
    let name = "anthropic/claude-sonnet-5";
    let dir = tempfile::tempdir().unwrap();
    let ran = run_with(dir.path(), &["models", "try", name, "--base-url", &stub.url()], "", &key);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.out.contains("not good enough: native: it answered in words"), "{}", ran.shown());
    assert!(!ran.out.contains("JSON_SCHEMA") && !ran.shown().contains("canary"), "{}", ran.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_without_a_model_server_gives_one_clear_error() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.demand(None);
    let url = stub.url();
    let mut all = String::new();
    let page =
        Answer::status(200, "<!doctype html><title>Welcome</title>").header("content-type", "text/html");
    for answer in [page, Answer::status(404, "not found"), Answer::status(401, "no"), Answer::raw("").hangs()]
    {
        // The last answer accepts the request and sends nothing.
        stub.push(answer);
        let ran = viv(&["models", "try", "openai-compatible/x", "--base-url", &url, "--timeout", "1"]);
        assert_eq!(ran.out.lines().filter(|line| line.starts_with("CHECK")).count(), 0);
        all.push_str(&format!("{}--- exit {}\n", ran.err.replace(&url, "<url>"), ran.code));
    }
    drop(stub);
    let ran = viv(&["models", "try", "openai-compatible/x", "--base-url", "http://127.0.0.1:1/v1"]);
    all.push_str(&format!("{}--- exit {}\n", ran.err, ran.code));
    insta::assert_snapshot!("no_model_server", all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_server_is_asked_once_and_its_page_is_not_quoted() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.demand(None);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.yaml"), SCENARIO).unwrap();
    let (url, file) = (stub.url(), dir.path().join("one.yaml").display().to_string());
    let model = ["openai-compatible/x", "--base-url", &url];
    let tried = [&["models", "try"][..], &model].concat();
    let played = [&["scenario", "run", &file, "--model"][..], &model].concat();
    for (args, exit) in [(tried, 1), (played, 2)] {
        let page = "<!DOCTYPE HTML>\n<html lang=\"en\"><p>Unsupported method ('POST').</p></html>\n";
        stub.push(Answer::status(501, page).header("content-type", "text/html;charset=utf-8"));
        let before = stub.requests().len();
        let ran = run(dir.path(), &args);
        let report = format!(
            "error: `{url}` answers, but not as a model server would (HTTP 501, text/html)\n\
             hint: check `--base-url`: the address usually ends in `/v1`\n"
        );
        assert_eq!((ran.err.as_str(), ran.code), (report.as_str(), exit), "{}", ran.shown());
        assert_eq!(stub.requests().len(), before + 1, "{}", ran.shown());
    }
}

#[test]
fn a_missing_model_server_is_unreachable_for_every_command() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("one.yaml"), SCENARIO).unwrap();
    let file = dir.path().join("one.yaml").display().to_string();
    let nobody = ["--base-url", "http://127.0.0.1:1/v1"];
    for args in [
        &["models", "try", "vllm/x"][..],
        &["models", "try", "vllm"],
        &["scenario", "run", &file, "--model", "vllm/x"],
    ] {
        let ran = run(dir.path(), &[args, &nobody].concat());
        assert_eq!(ran.code, 5, "{args:?}: {}", ran.shown());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_replying_is_not_asked_again() {
    let stub = Stub::start(Vendor::OpenAi).await;
    stub.push(pieces("one, two, three"));
    stub.push(Answer::raw("").hangs());
    let ran = viv(&["models", "try", "llamacpp/ill", "--base-url", &stub.url(), "--timeout", "1"]);
    assert_eq!(
        (ran.code, stub.requests().iter().filter(|asked| asked.path.ends_with("completions")).count()),
        (6, 2),
        "{}",
        ran.shown()
    );
    for wanted in [
        " tokens, assumed (set it with --context-window N)\n",
        "streams            ok       untried\ncalls a tool       no       untried\ntwo calls at once  untried  untried\n",
        "  calls a tool: no answer within 1 s; agents act by calls alone\n",
        "  two calls at once: not tried: a check before it ran out of time\n",
        "  streams: not tried: the server went silent before\n",
        "not good enough: native: no answer within 1 s; json_schema: not tried: the server went silent before\n",
    ] {
        assert!(ran.out.contains(wanted), "wanted `{wanted}` in {}", ran.shown());
    }
}

#[test]
fn the_error_of_an_unusable_model_name_gives_the_reason() {
    let mut all = String::new();
    for args in [
        &["models", "try", "demo"][..],
        &["models", "try", "opnai/gpt-5"],
        &["models", "try", "gpt-5"],
        &["models", "try", "openai-compatible/x"],
        &["models", "try", "mistral/x"],
        &["models", "try", "vllm", "--base-url", "http://127.0.0.1:1/v1"],
        &["models", "try", "vllm/x", "--base-url", "127.0.0.1:1"],
        &["models", "try"],
        &["models", "--provider", "antropic"],
    ] {
        let ran = viv(args);
        all.push_str(&format!("$ viv {}\n{}\n", args.join(" "), ran.shown()));
    }
    insta::assert_snapshot!("cannot_be_tried", all);
}

#[test]
fn without_keys_the_missing_ones_and_the_default_are_shown() {
    let report = viv(&["models", "--json"]).json();
    let providers = report["items"].as_array().unwrap();
    let hosted: Vec<_> = providers.iter().filter(|provider| provider["local"] == false).collect();
    assert!(
        hosted.len() >= 5 && hosted.iter().all(|provider| provider["status"] == "key_missing"),
        "{report:#}"
    );
    assert!(report["default"]["model"].is_string() && report["default"]["why"].is_string());
    let ran = viv(&["models"]);
    assert!(
        ran.out.starts_with("default: ") && ran.out.contains("no key: anthropic (ANTHROPIC_API_KEY)"),
        "{}",
        ran.shown()
    );
}
