//! Finding model servers on this machine.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use models::local;
use models::wire::openai_chat::ToolMode;
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

#[tokio::test]
async fn no_server_is_found_where_nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    assert!(local::probe_at(&address, &address).await.is_empty());
}
