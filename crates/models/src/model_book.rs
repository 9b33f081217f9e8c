//! All models of a server: turns a name such as `anthropic/claude-…` or `demo` into a model.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use agent::config;
use agent::id::ContentRef;
use agent::port::{Clock, Model, ModelError, ModelInfo, Models, Price};
use net::display_url;
use serde::{Deserialize, Deserializer};

use crate::bounds::MODELS_MAX;
use crate::catalog::{self, Provider, WireFormat};
use crate::client::{Address, Clients, VendorModel};
use crate::demo::{self, DemoModel};
use crate::secret::Secret;
use crate::wire::Wire;
use crate::wire::anthropic::{Anthropic, AnthropicThinking};
use crate::wire::gemini::{self, Gemini};
use crate::wire::openai_chat::OpenAiChat;
pub use crate::wire::openai_chat::ToolMode;
use crate::wire::openai_responses::OpenAiResponses;

/// Stands for any model of a provider.
const ANY: &str = "any";
/// Tokens reserved for a reply by default.
const OUTPUT_DEFAULT: u32 = 16_384;
/// The same for models whose reasoning counts as part of the reply.
const OUTPUT_REASONING: u32 = 32_768;

/// How much a model is asked to think.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Reasoning {
    /// At most this many tokens.
    Budget(u32),
    /// The vendor's own level: `low`, `medium`, `high`, ….
    Effort(String),
}

/// One model as an operator configures it. Only the name is required.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// `provider/model`, or `demo`.
    pub name: String,
    /// The server's address, instead of the provider's own.
    pub base_url: Option<String>,
    /// How tools are offered; the default is native calls.
    pub tool_mode: Option<ToolMode>,
    /// Its context window in tokens.
    pub context_window: Option<u32>,
    /// Tokens reserved for a reply, at most half of the window; the default is at most a quarter.
    pub max_output: Option<u32>,
    /// The most tools in one request, instead of the vendor's bound.
    pub max_tools: Option<u32>,
    /// Sampling temperature; the default is the vendor's.
    pub temperature: Option<f64>,
    /// Its key, instead of the one in the key ring.
    #[serde(skip)]
    pub key: Option<Secret>,
    /// Additional headers of every request.
    pub headers: BTreeMap<String, String>,
    /// How much it thinks; the default is the vendor's.
    pub reasoning: Option<Reasoning>,
    /// Its price, instead of the catalog's. Written in dollars per million tokens.
    #[serde(deserialize_with = "price_in_dollars")]
    pub price: Option<Price>,
}

fn price_in_dollars<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Price>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Dollars {
        input: f64,
        cached: f64,
        output: f64,
    }
    let micro = |dollars: f64| (dollars * 1e6).round() as u64;
    let Dollars { input, cached, output } = Dollars::deserialize(from)?;
    Ok(Some(Price { input: micro(input), cached: micro(cached), output: micro(output) }))
}

impl ModelConfig {
    /// A model with every setting left to the catalog.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The provider in its name; `None` for the demo model and for an unknown provider.
    pub fn provider(&self) -> Option<&'static Provider> {
        catalog::provider(self.name.split('/').next().unwrap_or_default())
    }

    /// The server's address: the given one, else the provider's own; empty if there is none.
    pub fn address(&self) -> String {
        let usual = || self.provider().and_then(|provider| provider.base_url).map(str::to_owned);
        self.base_url.clone().or_else(usual).unwrap_or_default()
    }

    /// The same settings; what they leave open about the server is taken from `found`.
    pub fn or(self, found: Self) -> Self {
        Self {
            base_url: self.base_url.or(found.base_url),
            tool_mode: self.tool_mode.or(found.tool_mode),
            context_window: self.context_window.or(found.context_window),
            ..self
        }
    }
}

/// The API keys of a server: from the environment, else from its secrets file.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    /// By provider: the variable or line that holds the key, and the key.
    keys: HashMap<&'static str, (&'static str, Secret)>,
    /// The secrets file, as error messages name it.
    file: String,
}

impl KeyRing {
    /// Collects the keys of all providers. `env` looks up a variable; `written` holds the pairs of name
    /// and key that were read from the secrets file at `file`.
    pub fn gather(env: impl Fn(&str) -> Option<String>, written: &[(String, Secret)], file: &str) -> Self {
        let written =
            |name: &str| written.iter().find(|(known, _)| known == name).map(|(_, key)| key.clone());
        let key = |provider: &Provider| {
            let set = |name| env(name).filter(|key| !key.trim().is_empty());
            let set = |name| Some((name, Secret::new(&set(name)?)));
            let written = |name| Some((name, written(name)?));
            let found = provider.key_envs().find_map(set).or_else(|| provider.key_envs().find_map(written));
            let (name, secret) = found?;
            (!secret.is_empty()).then_some((provider.name, (name, secret)))
        };
        Self { keys: catalog::PROVIDERS.iter().filter_map(key).collect(), file: file.to_owned() }
    }

    /// The providers that have a key, in the catalog's order.
    pub fn providers(&self) -> Vec<&'static Provider> {
        catalog::PROVIDERS.iter().filter(|provider| self.keys.contains_key(provider.name)).collect()
    }

    /// The variable, or the line of the file, that holds the provider's key.
    pub fn found_under(&self, provider: &Provider) -> Option<&'static str> {
        self.keys.get(provider.name).map(|(name, _)| *name)
    }

    /// The key for a provider; an error if it needs one and none is set.
    pub(crate) fn key(&self, provider: &Provider) -> Result<Option<Secret>, ModelError> {
        match self.keys.get(provider.name) {
            Some((_, key)) => Ok(Some(key.clone())),
            None if provider.keyless => Ok(None),
            None => {
                let (name, env) = (provider.name, provider.key_env);
                let file = if self.file.is_empty() { "the secrets file" } else { &self.file };
                Err(ModelError::Auth(format!(
                    "`{name}` needs a key and none is set: set `{env}`, or write `{env} = \"…\"` into {file}"
                )))
            }
        }
    }
}

/// The models of one server, created at first use and kept.
pub struct ModelBook {
    default: String,
    configs: HashMap<String, ModelConfig>,
    keys: KeyRing,
    clients: Arc<Clients>,
    clock: Arc<dyn Clock>,
    models: Mutex<HashMap<String, Arc<dyn Model>>>,
}

impl ModelBook {
    /// A set of models whose default is `default`. The clock paces the demo model.
    pub fn new(default: ModelConfig, keys: KeyRing, clock: Arc<dyn Clock>) -> Self {
        let name = default.name.clone();
        Self {
            default: name.clone(),
            configs: HashMap::from([(name, default)]),
            keys,
            clients: Arc::default(),
            clock,
            models: Mutex::default(),
        }
    }

    /// Adds the settings of a model, or those of all models of a provider by its name alone; replaces those of the same name.
    pub fn with(mut self, config: ModelConfig) -> Self {
        self.configs.insert(config.name.clone(), config);
        self
    }

    /// Registers an existing model under a name, for example a scripted one.
    pub fn with_model(self, name: &str, model: Arc<dyn Model>) -> Self {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), model);
        self
    }

    /// Checks that the settings of a model, or of a provider's models, can be used.
    pub fn check(&self, name: &str) -> Result<(), ModelError> {
        match name == demo::NAME || name.contains('/') {
            true => self.create(name),
            false => self.create(&format!("{name}/{ANY}")),
        }
        .map(drop)
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        if name == demo::NAME {
            return Ok(Arc::new(DemoModel::new(Arc::clone(&self.clock))));
        }
        let (provider, model) = split(name)?;
        let found = self.configs.get(name).or_else(|| self.configs.get(provider.name)).cloned();
        let config = ModelConfig { name: name.to_owned(), ..found.unwrap_or_default() };
        let mut base_url = config.base_url.clone().or_else(|| provider.base_url.map(str::to_owned));
        let Some(base_url) = base_url.take().filter(|url| !url.trim().is_empty()) else {
            return Err(ModelError::NoModel(format!(
                "`{provider}` has no default address: set `base_url`, for all its models under `[models.{provider}]`, \
                 such as `http://127.0.0.1:8080/v1`",
                provider = provider.name
            )));
        };
        if !base_url.starts_with("http://") && !base_url.starts_with("https://") {
            return Err(ModelError::NoModel(format!(
                "wanted `base_url` to begin with `http://` or `https://`, got `{}`",
                display_url(&base_url)
            )));
        }
        let key = match &config.key {
            Some(key) if !key.is_empty() => Some(key.clone()),
            _ => self.keys.key(provider)?,
        };
        let wire_format = provider.wire_format_at(&base_url);
        if config.tool_mode == Some(ToolMode::JsonSchema) && !matches!(wire_format, WireFormat::OpenAiChat(_))
        {
            return Err(ModelError::NoModel(format!(
                "`tool_mode` `json_schema` is for models without native tool calls; those of `{}` have them: leave it out",
                provider.name
            )));
        }
        let (info, wire) = set_up(provider, wire_format, model, &config);
        if info.max_output > info.context_window / 2 {
            return Err(ModelError::NoModel(format!(
                "wanted a reply to take at most half of the context window of `{}`, which has {} tokens, but {} are kept for \
                 it: lower `max_output` or the number of tokens in `reasoning`, or set `context_window`",
                info.name, info.context_window, info.max_output
            )));
        }
        let info = ModelInfo {
            provider: provider_id(provider, &base_url, key.as_ref()),
            max_tools: config.max_tools.or(provider.max_tools_at(&base_url)),
            ..info
        };
        let address = Address { base_url, key, headers: config.headers.clone() };
        Ok(Arc::new(VendorModel::new(info, wire, address, Arc::clone(&self.clients))))
    }
}

impl Models for ModelBook {
    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
        let name = name.unwrap_or(&self.default);
        let find = |models: &HashMap<String, Arc<dyn Model>>| models.get(name).map(Arc::clone);
        if let Some(model) = find(&self.models.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(model);
        }
        let model = self.create(name)?;
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() < MODELS_MAX {
            models.insert(name.to_owned(), Arc::clone(&model));
        }
        Ok(model)
    }
}

/// An id that models of the same server and key share. It holds a hash, because logs show it.
fn provider_id(provider: &Provider, base_url: &str, key: Option<&Secret>) -> String {
    let opened = format!("{base_url}\n{}", key.map_or("", Secret::reveal));
    format!("{}:{}", provider.name, &ContentRef::of(opened.as_bytes()).0[..12])
}

fn split(name: &str) -> Result<(&'static Provider, &str), ModelError> {
    let known = || {
        let names = catalog::PROVIDERS.iter().map(|provider| provider.name);
        names.chain([demo::NAME]).collect::<Vec<_>>().join("`, `")
    };
    let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        return Err(ModelError::NoModel(format!(
            "wanted `demo` or `provider/model`, got `{name}`; providers are `{}`",
            known()
        )));
    };
    match catalog::provider(provider) {
        Some(provider) => Ok((provider, model)),
        None => {
            let names = catalog::PROVIDERS.iter().map(|provider| provider.name);
            let hint = config::nearest(provider, names).map(|near| format!("; did you mean `{near}`?"));
            Err(ModelError::NoModel(format!(
                "unknown provider `{provider}`{}; providers are `{}`",
                hint.unwrap_or_default(),
                known()
            )))
        }
    }
}

fn set_up(
    provider: &Provider,
    wire_format: WireFormat,
    model: &str,
    config: &ModelConfig,
) -> (ModelInfo, Arc<dyn Wire>) {
    let facts = catalog::facts(provider, model);
    let context_window = config.context_window.unwrap_or(facts.context_window);
    let room = context_window / 4;
    // The server behind chat completions is unknown, so the larger output limit is not requested.
    let sealed_reasoning = facts.sealed_reasoning && !matches!(wire_format, WireFormat::OpenAiChat(_));
    let usual = if sealed_reasoning { OUTPUT_REASONING } else { OUTPUT_DEFAULT };
    let mut max_output = config.max_output.unwrap_or(facts.max_output.min(usual).min(room)).max(1);
    let tool_mode = config.tool_mode.unwrap_or_default();
    let mut forced_tool_choice = facts.forced_tool_choice;
    let wire: Arc<dyn Wire> = match wire_format {
        WireFormat::Anthropic => {
            let thinking = thinking(config.reasoning.as_ref(), facts.manual_thinking);
            if let AnthropicThinking::Manual { budget } = thinking {
                forced_tool_choice = false;
                max_output = max_output.max(budget.saturating_add(1_024));
            }
            let temperature = config.temperature;
            let wire = Anthropic::new(model, max_output);
            Arc::new(Anthropic { temperature, thinking, forced_tool_choice, ..wire })
        }
        WireFormat::OpenAiChat(dialect) => {
            let (temperature, effort) = (config.temperature, effort(config.reasoning.as_ref()));
            let wire = OpenAiChat::new(model, max_output, tool_mode, dialect);
            Arc::new(OpenAiChat { temperature, effort, forced_tool_choice, ..wire })
        }
        WireFormat::OpenAiResponses => {
            let (temperature, effort) = (config.temperature, effort(config.reasoning.as_ref()));
            let wire = OpenAiResponses::new(model, max_output);
            Arc::new(OpenAiResponses { temperature, effort, sealed_reasoning, ..wire })
        }
        WireFormat::Gemini => {
            let thinking = match config.reasoning.clone() {
                None => gemini::GeminiThinking::Default,
                Some(Reasoning::Effort(level)) => gemini::GeminiThinking::Level(level),
                Some(Reasoning::Budget(budget)) => gemini::GeminiThinking::Budget(budget),
            };
            let temperature = config.temperature;
            Arc::new(Gemini { temperature, thinking, sealed_reasoning, ..Gemini::new(model, max_output) })
        }
    };
    let info = ModelInfo {
        name: config.name.clone(),
        provider: provider.name.to_owned(),
        context_window,
        max_output,
        reasoning_replay: wire.replay(),
        forced_tool_choice,
        price: config.price.or(facts.price),
        ..ModelInfo::default()
    };
    (info, wire)
}

/// The effort, for wires that take no token budget.
fn effort(reasoning: Option<&Reasoning>) -> Option<String> {
    match reasoning {
        Some(Reasoning::Effort(effort)) => Some(effort.clone()),
        Some(Reasoning::Budget(_)) | None => None,
    }
}

fn thinking(reasoning: Option<&Reasoning>, manual: bool) -> AnthropicThinking {
    match reasoning {
        None => AnthropicThinking::Default,
        Some(Reasoning::Budget(budget)) if manual => AnthropicThinking::Manual { budget: *budget },
        Some(Reasoning::Effort(effort)) if manual => {
            let budget = match effort.as_str() {
                "minimal" | "low" => 2_048,
                "high" | "max" => 16_384,
                _ => 8_192,
            };
            AnthropicThinking::Manual { budget }
        }
        Some(Reasoning::Budget(_)) => AnthropicThinking::Adaptive { effort: None },
        Some(Reasoning::Effort(effort)) => AnthropicThinking::Adaptive { effort: Some(effort.clone()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_one_server_and_key_share_a_provider_id_that_shows_neither() {
        let provider = catalog::provider("anthropic").unwrap();
        let of = |url: &str, key: &str| provider_id(provider, url, Some(&Secret::new(key)));
        let one = of("https://a.example", "sk-canary-123");
        assert_eq!(one, of("https://a.example", "sk-canary-123"));
        assert!(
            one != of("https://a.example", "sk-other-456") && one != of("https://b.example", "sk-canary-123")
        );
        assert!(one.starts_with("anthropic:") && !one.contains("canary") && !one.contains("example"));
    }
}
