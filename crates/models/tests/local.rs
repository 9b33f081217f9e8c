//! Finding model servers on this machine.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use models::model_book::ModelConfig;
use models::wire::openai_chat::ToolMode;
use models::{default_model, local};
use serde_json::json;
use tokio::net::TcpListener;

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[tokio::test]
async fn a_llamacpp_server_reports_its_window_and_whether_it_calls_tools() {
    let models = json!({"data": [{"id": "tiny.gguf", "meta": {"n_ctx": 4096}}]}).to_string();
    let props = json!({"default_generation_settings": {"n_ctx": 2048}, "chat_template_caps": {"supports_tools": false}})
        .to_string();
    let router =
        Router::new().route("/v1/models", get(|| async { models })).route("/props", get(|| async { props }));
    let address = serve(router).await;
    let found = local::probe_llamacpp(&address).await.unwrap();
    assert_eq!((found.context_window, found.calls_tools), (Some(2048), Some(false)));
    let vendor_model = found.model().unwrap();
    assert_eq!(vendor_model.name, "llamacpp/tiny.gguf");
    assert_eq!(vendor_model.tool_mode, Some(ToolMode::JsonSchema));
    assert_eq!(vendor_model.base_url, Some(format!("http://{address}/v1")));
}

#[tokio::test]
async fn the_recorded_answers_of_a_real_llamacpp_server_are_parsed() {
    let Ok(corpus) = std::env::var("VIV_WIRE_CORPUS") else {
        println!("skipped: VIV_WIRE_CORPUS is not set");
        return;
    };
    let read = |name: &str| std::fs::read_to_string(format!("{corpus}/llama.cpp/{name}")).unwrap();
    let (models, props) = (read("models.json"), read("props-head.json"));
    let router =
        Router::new().route("/v1/models", get(|| async { models })).route("/props", get(|| async { props }));
    let found = local::probe_llamacpp(&serve(router).await).await.unwrap();
    assert_eq!(found.models, ["models/smollm2-135m.gguf"]);
    assert_eq!((found.context_window, found.calls_tools), (Some(4096), Some(false)));
}

#[tokio::test]
async fn an_ollama_server_lists_its_models_and_whether_the_first_calls_tools() {
    let tags = json!({"models": [{"name": "qwen3:0.6b"}, {"name": "gemma3"}]}).to_string();
    let show = json!({"capabilities": ["completion", "tools"]}).to_string();
    let router =
        Router::new().route("/api/tags", get(|| async { tags })).route("/api/show", post(|| async { show }));
    let ollama = serve(router).await;
    let nobody = serve(Router::new().fallback(|| async { StatusCode::NOT_FOUND })).await;
    let found = local::probe_at(&ollama, &nobody).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].models, ["qwen3:0.6b", "gemma3"]);
    assert_eq!(found[0].model().unwrap().tool_mode, Some(ToolMode::Native));
}

/// A server whose first model runs with a window, and whose second one has a file that sets one.
async fn ollama() -> String {
    let tags =
        json!({"models": [{"name": "qwen3:latest"}, {"name": "set:1b"}, {"name": "plain:1b"}]}).to_string();
    let running = json!({"models": [{"name": "qwen3:latest", "context_length": 16_384}]}).to_string();
    let show = |body: String| async move {
        let asked: serde_json::Value = serde_json::from_str(&body).unwrap();
        let parameters =
            if asked["model"] == "set:1b" { "stop \"<end>\"\nnum_ctx      8192\n" } else { "temperature 1" };
        json!({"parameters": parameters, "model_info": {"llama.context_length": 131_072}}).to_string()
    };
    let router = Router::new()
        .route("/api/tags", get(|| async { tags }))
        .route("/api/ps", get(|| async { running }))
        .route("/api/show", post(show));
    serve(router).await
}

#[tokio::test]
async fn the_window_is_the_one_in_use_or_set_and_never_the_largest_that_the_model_could_have() {
    let address = ollama().await;
    for (wanted, model, window) in [
        (None, "qwen3:latest", Some(16_384)),
        (Some("qwen3"), "qwen3", Some(16_384)),
        (Some("set:1b"), "set:1b", Some(8_192)),
        (Some("plain:1b"), "plain:1b", None),
    ] {
        let found = local::probe_ollama(&address, wanted).await.unwrap().model().unwrap();
        assert_eq!((found.name.as_str(), found.context_window), (&*format!("ollama/{model}"), window));
    }
}

#[tokio::test]
async fn a_named_model_gets_its_own_window_and_not_that_of_the_first() {
    let base_url = Some(format!("http://{}/v1", ollama().await));
    for (name, window) in [("ollama/set:1b", Some(8_192)), ("ollama/plain:1b", None)] {
        let config = ModelConfig { base_url: base_url.clone(), ..ModelConfig::named(name) };
        let completed = default_model::completed(config).await;
        assert_eq!((completed.name.as_str(), completed.context_window), (name, window));
    }
}

#[tokio::test]
async fn no_server_is_found_where_nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert!(local::probe_at(&address, &address).await.is_empty());
}
