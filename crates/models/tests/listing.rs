//! Listing a provider's models, and the errors if that fails.

use std::time::Duration;

use models::catalog::{Provider, provider};
use models::listing::{Listed, Reach, reach};
use models::model_book::{KeyRing, ModelConfig};
use testkit::stubs::{Answer, Stub, Vendor};

const WAIT: Duration = Duration::from_secs(20);

fn keys() -> KeyRing {
    KeyRing::gather(|_| Some("sk-canary-0123456789".into()), &[], "secrets.toml")
}

fn at(url: &str) -> ModelConfig {
    ModelConfig { base_url: Some(url.into()), ..ModelConfig::default() }
}

fn known(name: &str) -> &'static Provider {
    provider(name).unwrap()
}

async fn stub(vendor: Vendor, answer: Answer) -> Stub {
    let stub = Stub::start(vendor).await;
    stub.demand(None);
    stub.push(answer);
    stub
}

fn json(body: &str) -> Answer {
    Answer::status(200, body).header("content-type", "application/json")
}

#[tokio::test]
async fn models_are_listed_with_the_key_in_the_providers_header() {
    let body = r#"{"data":[{"id":"a","context_length":4096},{"id":"b"},{"name":"no id"}]}"#;
    let listed = |model: &str, context_window| Listed { model: model.into(), context_window };
    for (vendor, name, header, value, path) in [
        (Vendor::OpenAi, "openrouter", "authorization", "Bearer sk-canary-0123456789", "/v1/models"),
        (Vendor::Responses, "openai", "authorization", "Bearer sk-canary-0123456789", "/v1/models"),
        (Vendor::Gemini, "google", "x-goog-api-key", "sk-canary-0123456789", "/v1/models"),
        (Vendor::Anthropic, "anthropic", "x-api-key", "sk-canary-0123456789", "/v1/models"),
    ] {
        let stub = stub(vendor, json(body)).await;
        let found = reach(known(name), &at(&stub.url()), &keys(), WAIT).await;
        assert_eq!(found, Reach::Reachable(vec![listed("a", Some(4_096)), listed("b", None)]));
        let request = &stub.requests()[0];
        assert_eq!((request.path.as_str(), request.header(header)), (path, value));
    }
}

#[tokio::test]
async fn failures_of_a_listing_are_distinguished_and_show_no_key() {
    let asked = async |answer: Answer| {
        let stub = stub(Vendor::OpenAi, answer).await;
        reach(known("openai-compatible"), &at(&stub.url()), &keys(), WAIT).await
    };
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-canary-0123456789"}}"#;
    let refused = asked(Answer::status(401, body)).await;
    assert!(
        matches!(&refused, Reach::Refused(why) if why.contains("Incorrect") && !why.contains("canary")),
        "{refused:?}"
    );
    let page = asked(Answer::status(200, "<html>hello</html>").header("content-type", "text/html")).await;
    assert!(matches!(&page, Reach::Unlisted(why) if why == "garbage: HTTP 200, text/html"), "{page:?}");
    assert_eq!(asked(Answer::status(404, "nothing here")).await.as_str(), "unlisted");
    assert_eq!(asked(json(r#"{"data":[]}"#)).await, Reach::Reachable(Vec::new()));
}

#[tokio::test]
async fn a_missing_address_or_key_is_reported_without_a_request() {
    let gone = Stub::start(Vendor::OpenAi).await.url();
    let found = reach(known("vllm"), &at(&gone), &KeyRing::default(), WAIT).await;
    assert_eq!(found.as_str(), "unreachable");
    let found = reach(known("mistral"), &at(&gone), &KeyRing::default(), WAIT).await;
    assert!(matches!(&found, Reach::KeyMissing(why) if why.contains("MISTRAL_API_KEY")), "{found:?}");
    let silent = stub(Vendor::OpenAi, Answer::raw("").hangs()).await;
    let found = reach(known("vllm"), &at(&silent.url()), &KeyRing::default(), Duration::ZERO).await;
    assert_eq!(found.as_str(), "unreachable");
    assert_eq!(
        reach(known("openai-compatible"), &ModelConfig::default(), &keys(), WAIT).await.as_str(),
        "unreachable"
    );
}
