//! Finds model servers on this machine. Used at start and by `viv doctor`. Requests go to loopback
//! addresses only, unless the caller gives another address.

use std::time::Duration;

use agent::port::ModelError;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bounds::{PROBE_MAX_BYTES, PROBE_MS};
use crate::catalog::Provider;
use crate::client::Clients;
use crate::model_book::ModelConfig;
use crate::wire::openai_chat::ToolMode;

/// The default address of Ollama.
pub const OLLAMA: &str = "127.0.0.1:11434";
/// The default address of llama.cpp's server.
pub const LLAMACPP: &str = "127.0.0.1:8080";

/// A model server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    /// `ollama` or `llamacpp`.
    pub provider: &'static str,
    /// Base URL of its chat completions.
    pub base_url: String,
    /// Its models, in its own order.
    pub models: Vec<String>,
    /// The model that was asked about: the wanted one, else its first.
    pub model: Option<String>,
    /// The context window that it has now, if the server reports it.
    pub context_window: Option<u32>,
    /// Whether it calls tools natively, if the server reports it.
    pub calls_tools: Option<bool>,
}

impl LocalServer {
    /// Settings for the model that was asked about; `None` if it serves none.
    pub fn model(&self) -> Option<ModelConfig> {
        let model = self.model.as_ref()?;
        let tool_mode = match self.calls_tools {
            Some(false) => ToolMode::JsonSchema,
            Some(true) | None => ToolMode::Native,
        };
        Some(ModelConfig {
            name: format!("{}/{model}", self.provider),
            base_url: Some(self.base_url.clone()),
            tool_mode: Some(tool_mode),
            context_window: self.context_window,
            ..ModelConfig::default()
        })
    }
}

/// Asks both default addresses at the same time.
pub async fn probe() -> Vec<LocalServer> {
    probe_at(OLLAMA, LLAMACPP).await
}

/// Asks these addresses (`host:port`) instead.
pub async fn probe_at(ollama: &str, llamacpp: &str) -> Vec<LocalServer> {
    let (ollama, llamacpp) = futures_util::join!(probe_ollama(ollama, None), probe_llamacpp(llamacpp));
    [ollama, llamacpp].into_iter().flatten().collect()
}

/// Asks the server at `base_url` about this model, if the provider is one that reports about itself.
pub async fn probe_for(provider: &Provider, base_url: &str, model: &str) -> Option<LocalServer> {
    let url = reqwest::Url::parse(base_url).ok()?;
    let address = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    match provider.name {
        "ollama" => probe_ollama(&address, Some(model)).await,
        "llamacpp" => probe_llamacpp(&address).await,
        _ => None,
    }
}

/// Asks an Ollama server about this model, else about its first one.
pub async fn probe_ollama(address: &str, wanted: Option<&str>) -> Option<LocalServer> {
    let client = reach(address).await?;
    let tags = ask(client.get(format!("http://{address}/api/tags"))).await?;
    let models = names(&tags["models"], "name");
    let model = wanted.map(str::to_owned).or_else(|| models.first().cloned());
    let show = client.post(format!("http://{address}/api/show")).json(&json!({ "model": model }));
    let shown = ask(show).await.unwrap_or_default();
    let running = ask(client.get(format!("http://{address}/api/ps"))).await.unwrap_or_default();
    let calls_tools = shown["capabilities"].as_array().map(|all| all.iter().any(|one| one == "tools"));
    Some(LocalServer {
        provider: "ollama",
        base_url: format!("http://{address}/v1"),
        models,
        context_window: model.as_deref().and_then(|model| ollama_window(model, &running, &shown)),
        model,
        calls_tools,
    })
}

/// The window that the server uses for this model: that of the running one, else the one that its file sets. What the model could
/// have at most (`model_info`) says nothing, since the server uses far less by itself.
fn ollama_window(model: &str, running: &Value, shown: &Value) -> Option<u32> {
    let tagged = |name: &str| if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
    let mut all = running["models"].as_array().into_iter().flatten();
    let is_it = |one: &&Value| one["name"].as_str().is_some_and(|name| tagged(name) == tagged(model));
    let of_running = all.find(is_it).and_then(|one| window(&one["context_length"]));
    of_running.or_else(|| {
        let lines = shown["parameters"].as_str()?.lines();
        let set = lines
            .filter_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse::<u64>().ok())
            .next_back();
        window(&json!(set))
    })
}

fn window(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0)
}

/// Asks a llama.cpp server.
pub async fn probe_llamacpp(address: &str) -> Option<LocalServer> {
    let client = reach(address).await?;
    let listed = ask(client.get(format!("http://{address}/v1/models"))).await?;
    let models = names(&listed["data"], "id");
    let props = ask(client.get(format!("http://{address}/props"))).await.unwrap_or_default();
    let context_window = window(&props["default_generation_settings"]["n_ctx"])
        .or_else(|| window(&listed["data"][0]["meta"]["n_ctx"]));
    Some(LocalServer {
        provider: "llamacpp",
        base_url: format!("http://{address}/v1"),
        model: models.first().cloned(),
        models,
        context_window,
        calls_tools: props["chat_template_caps"]["supports_tools"].as_bool(),
    })
}

/// A client, if something listens at the address. Connecting first is the cheapest check.
async fn reach(address: &str) -> Option<Client> {
    let wait = Duration::from_millis(PROBE_MS);
    timeout(wait, TcpStream::connect(address)).await.ok()?.ok()?;
    let client: Result<Client, ModelError> = Clients::default().get(PROBE_MS);
    client.ok()
}

async fn ask(request: reqwest::RequestBuilder) -> Option<Value> {
    let mut response = request.timeout(Duration::from_millis(PROBE_MS)).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.ok()? {
        body.extend_from_slice(&bytes);
        if body.len() > PROBE_MAX_BYTES {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
}
