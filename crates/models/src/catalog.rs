//! Providers and well-known models: addresses, wire formats, dialects, windows, prices, capabilities.
//!
//! Uncertain facts are left out. This module reads no configuration and opens no connection.

mod rows;

use agent::limits;
use agent::port::Price;

use crate::wire::openai_chat::Dialect;
use rows::Row;

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI chat completions, in this dialect.
    OpenAiChat(Dialect),
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini's `generateContent`.
    Gemini,
}

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// As in `provider/model`.
    pub name: &'static str,
    /// Its wire format.
    pub wire_format: WireFormat,
    /// Its address; `None` if the operator must give one.
    pub base_url: Option<&'static str>,
    /// The environment variable that holds its key.
    pub key_env: &'static str,
    /// A second variable, which is read if the first is not set.
    pub also_key_env: Option<&'static str>,
    /// Whether it works without a key.
    pub keyless: bool,
    /// Whether it runs models on the user's machine: a small window and no price are assumed.
    pub local: bool,
    /// The most tools in one request, as its documentation or its refusals state it.
    pub max_tools: Option<u32>,
}

const HOSTED: Provider = Provider {
    name: "",
    wire_format: WireFormat::OpenAiChat(Dialect::COMPATIBLE),
    base_url: None,
    key_env: "",
    also_key_env: None,
    keyless: false,
    local: false,
    max_tools: None,
};
const LOCAL: Provider =
    Provider { wire_format: WireFormat::OpenAiChat(Dialect::LOCAL), keyless: true, local: true, ..HOSTED };

const OPENAI: Provider = Provider {
    wire_format: WireFormat::OpenAiResponses,
    base_url: Some("https://api.openai.com/v1"),
    key_env: "OPENAI_API_KEY",
    max_tools: Some(128),
    ..HOSTED
};

/// All providers, in the order in which the first start looks for a key.
pub const PROVIDERS: [Provider; 14] = [
    Provider {
        name: "anthropic",
        wire_format: WireFormat::Anthropic,
        base_url: Some("https://api.anthropic.com/v1"),
        key_env: "ANTHROPIC_API_KEY",
        ..HOSTED
    },
    Provider { name: "openai", ..OPENAI },
    Provider {
        name: "google",
        wire_format: WireFormat::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com/v1beta"),
        key_env: "GEMINI_API_KEY",
        also_key_env: Some("GOOGLE_API_KEY"),
        max_tools: Some(512),
        ..HOSTED
    },
    Provider {
        name: "openrouter",
        wire_format: WireFormat::OpenAiChat(Dialect::LOCAL),
        base_url: Some("https://openrouter.ai/api/v1"),
        key_env: "OPENROUTER_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "deepseek",
        wire_format: WireFormat::OpenAiChat(Dialect::DEEPSEEK),
        base_url: Some("https://api.deepseek.com/v1"),
        key_env: "DEEPSEEK_API_KEY",
        max_tools: Some(128),
        ..HOSTED
    },
    Provider {
        name: "groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key_env: "GROQ_API_KEY",
        max_tools: Some(128),
        ..HOSTED
    },
    Provider {
        name: "mistral",
        wire_format: WireFormat::OpenAiChat(Dialect::MISTRAL),
        base_url: Some("https://api.mistral.ai/v1"),
        key_env: "MISTRAL_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "xai",
        base_url: Some("https://api.x.ai/v1"),
        key_env: "XAI_API_KEY",
        max_tools: Some(200),
        ..HOSTED
    },
    Provider {
        name: "ollama",
        base_url: Some("http://127.0.0.1:11434/v1"),
        key_env: "OLLAMA_API_KEY",
        ..LOCAL
    },
    Provider {
        name: "llamacpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        key_env: "LLAMACPP_API_KEY",
        ..LOCAL
    },
    Provider { name: "vllm", base_url: Some("http://127.0.0.1:8000/v1"), key_env: "VLLM_API_KEY", ..LOCAL },
    Provider { name: "openai-responses", ..OPENAI },
    Provider { name: "openai-chat", wire_format: WireFormat::OpenAiChat(Dialect::OPENAI), ..OPENAI },
    Provider { name: "openai-compatible", key_env: "OPENAI_COMPATIBLE_API_KEY", keyless: true, ..HOSTED },
];

/// The provider of that name. `gemini` is another name of `google`.
pub fn provider(name: &str) -> Option<&'static Provider> {
    let name = if name == "gemini" { "google" } else { name };
    PROVIDERS.iter().find(|provider| provider.name == name)
}

impl Provider {
    /// The wire format at `base_url`. Most OpenAI-compatible servers implement chat completions only, so
    /// `openai` uses those at any address other than OpenAI's own. `openai-responses` and `openai-chat`
    /// use the format in their name at every address.
    pub fn wire_format_at(&self, base_url: &str) -> WireFormat {
        if self.name == "openai" && !is_openai(base_url) {
            return WireFormat::OpenAiChat(Dialect::OPENAI);
        }
        self.wire_format
    }

    /// The most tools in one request at `base_url`: the vendor's bound says nothing about other servers.
    pub fn max_tools_at(&self, base_url: &str) -> Option<u32> {
        let own = self.base_url == Some(base_url) || (self.key_env == OPENAI.key_env && is_openai(base_url));
        self.max_tools.filter(|_| own)
    }

    /// The names of the environment variables that may hold its key.
    pub fn key_envs(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.key_env).chain(self.also_key_env)
    }

    /// Whether it is asked for its models without being named: it has an address, and no earlier provider has the
    /// same one.
    pub fn is_main(&self) -> bool {
        let first = PROVIDERS.iter().find(|other| other.base_url == self.base_url);
        self.base_url.is_some() && first.is_some_and(|first| first.name == self.name)
    }

    /// Its well-known models, the most capable and newest first.
    pub fn models(&self) -> impl Iterator<Item = &'static str> + use<> {
        rows_of(self).iter().map(|row| row.0)
    }
}

/// The model name that reaches a self-hosted server at `base_url` without a key. `None` unless the
/// provider uses chat completions there.
pub fn keyless_name(name: &str, base_url: &str) -> Option<String> {
    let (named, model) = name.split_once('/')?;
    let chat = matches!(provider(named)?.wire_format_at(base_url), WireFormat::OpenAiChat(_));
    chat.then(|| format!("openai-compatible/{model}"))
}

/// Whether the address is OpenAI's own, or one of its regions.
fn is_openai(base_url: &str) -> bool {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#', ':']).next().unwrap_or("").to_ascii_lowercase();
    host == "api.openai.com" || host.ends_with(".api.openai.com")
}

/// The default model when only the provider's key is found: capable, but not the most expensive.
pub fn first_model(provider: &Provider) -> Option<&'static str> {
    match provider.name {
        "anthropic" => Some("claude-sonnet-5-5"),
        "openai" => Some("gpt-6.1-terra"),
        "google" => Some("gemini-3.8-flash"),
        _ => None,
    }
}

/// What is known about a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Input and output tokens together.
    pub context_window: u32,
    /// Most tokens of one reply.
    pub max_output: u32,
    /// Its price, if it is certain.
    pub price: Option<Price>,
    /// Whether `tool_choice` may force a call.
    pub forced_tool_choice: bool,
    /// Whether its thinking is set by a token budget instead of adaptively (Anthropic).
    pub manual_thinking: bool,
    /// Whether it encrypts or signs its reasoning and expects it back unchanged (OpenAI's reasoning
    /// models, Gemini 3 and later).
    pub sealed_reasoning: bool,
}

fn rows_of(provider: &Provider) -> &'static [Row] {
    match provider.name {
        "anthropic" => &rows::ANTHROPIC,
        "openai" | "openai-responses" | "openai-chat" => &rows::OPENAI,
        "google" => &rows::GOOGLE,
        _ => &[],
    }
}

/// What is known about `model` at `provider`, with safe defaults for an unknown model.
pub fn facts(provider: &Provider, model: &str) -> ModelFacts {
    let window = if provider.local { limits::WINDOW_LOCAL } else { limits::WINDOW_HOSTED };
    let row = rows_of(provider).iter().find(|row| is_release_of(model, row.0));
    let anthropic = provider.wire_format == WireFormat::Anthropic;
    ModelFacts {
        context_window: row.map_or(window, |row| row.1),
        max_output: row.map_or(window / 4, |row| row.2),
        price: row.and_then(|row| row.3).map(|(input, cached, output)| Price { input, cached, output }),
        forced_tool_choice: !anthropic || accepts_forced_choice(model),
        manual_thinking: anthropic && thinks_manually(model),
        sealed_reasoning: seals_reasoning(provider.wire_format, model),
    }
}

/// Whether the window of the model with this full name is known, not assumed. For an unknown model the catalog has
/// no price and a safe window.
pub fn knows(name: &str) -> bool {
    let Some((named, model)) = name.split_once('/') else { return false };
    provider(named).is_some_and(|provider| rows_of(provider).iter().any(|row| is_release_of(model, row.0)))
}

/// Whether `model` is `name` itself or a dated release of it. A longer name with the same beginning
/// is another model.
fn is_release_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let date = rest.strip_prefix('-').unwrap_or("");
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    rest.is_empty()
        || rest == "-latest"
        || (digits == 3 && date.len() == 3)
        || (digits >= 6 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// The newest models refuse a forced call; an unknown model is assumed to refuse it too.
fn accepts_forced_choice(model: &str) -> bool {
    let older = ["claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "claude-haiku-5"];
    let five = ["claude-opus-5", "claude-sonnet-5"];
    older.iter().any(|name| model.starts_with(name)) || five.iter().any(|name| is_release_of(model, name))
}

/// Assumed for an unknown model, since all newer ones do.
fn seals_reasoning(wire_format: WireFormat, model: &str) -> bool {
    let without: &[&str] = match wire_format {
        WireFormat::OpenAiResponses => &["gpt-4", "gpt-3", "gpt-5-chat", "chatgpt", "davinci", "babbage"],
        WireFormat::Gemini => &["gemini-1", "gemini-2", "gemini-pro", "gemma", "learnlm"],
        WireFormat::Anthropic | WireFormat::OpenAiChat(_) => return false,
    };
    let base = model.trim_start_matches("ft:").trim_start_matches("models/");
    !without.iter().any(|name| base.starts_with(name))
}

fn thinks_manually(model: &str) -> bool {
    let manual = ["claude-3", "claude-haiku-4", "claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-4-1"];
    let bare = ["claude-opus-4", "claude-sonnet-4"];
    manual.iter().any(|name| model.starts_with(name)) || bare.iter().any(|name| is_release_of(model, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(provider_name: &str, model: &str) -> ModelFacts {
        facts(provider(provider_name).unwrap(), model)
    }

    #[test]
    fn a_model_whose_name_only_begins_alike_is_another_model() {
        assert_eq!(of("openai", "gpt-5").context_window, 400_000);
        assert_eq!(of("openai", "gpt-5-2025-08-07").price, of("openai", "gpt-5").price);
        assert_eq!(of("openai", "gpt-5.9").price, None);
        assert_ne!(of("openai", "gpt-5-mini").price, of("openai", "gpt-5").price);
        assert_ne!(of("anthropic", "claude-opus-5").price, of("anthropic", "claude-opus-5-5").price);
    }

    #[test]
    fn an_unknown_model_has_a_safe_window_and_no_price() {
        let hosted = of("openrouter", "anyone/anything");
        assert_eq!((hosted.context_window, hosted.price), (limits::WINDOW_HOSTED, None));
        let local = of("ollama", "qwen3:0.6b");
        assert_eq!((local.context_window, local.price), (limits::WINDOW_LOCAL, None));
    }

    #[test]
    fn the_first_model_of_a_provider_has_a_known_price() {
        let first = PROVIDERS.iter().filter_map(|provider| Some((provider, first_model(provider)?)));
        let prices: Vec<bool> =
            first.map(|(provider, model)| facts(provider, model).price.is_some()).collect();
        assert_eq!(prices, [true, true, true]);
    }

    #[test]
    fn openai_uses_responses_at_its_own_address_and_chat_completions_elsewhere() {
        let openai = provider("openai").unwrap();
        for own in ["https://api.openai.com/v1", "https://eu.api.openai.com/v1/", "HTTPS://API.OPENAI.COM"] {
            assert_eq!(openai.wire_format_at(own), WireFormat::OpenAiResponses, "{own}");
        }
        for other in
            ["http://127.0.0.1:1/v1", "https://api.openai.com.evil.example", "https://x/api.openai.com"]
        {
            assert_eq!(openai.wire_format_at(other), WireFormat::OpenAiChat(Dialect::OPENAI), "{other}");
        }
        let at = |name: &str| provider(name).unwrap().wire_format_at("http://127.0.0.1:1/v1");
        assert_eq!(at("openai-responses"), WireFormat::OpenAiResponses);
        assert_eq!(at("openai-chat"), WireFormat::OpenAiChat(Dialect::OPENAI));
    }

    #[test]
    fn the_bound_of_tools_is_that_of_the_vendors_own_address() {
        let max = |name: &str, url: &str| provider(name).unwrap().max_tools_at(url);
        let own = |name: &str| max(name, provider(name).unwrap().base_url.unwrap());
        assert_eq!((own("openai"), own("google"), own("anthropic")), (Some(128), Some(512), None));
        assert_eq!(max("openai", "https://eu.api.openai.com/v1"), Some(128));
        assert_eq!(max("openai", "http://127.0.0.1:1/v1"), None);
    }

    #[test]
    fn a_provider_lists_its_models_and_may_have_another_name() {
        assert_eq!(provider("gemini"), provider("google"));
        let google = provider("google").unwrap();
        assert!(google.models().any(|model| Some(model) == first_model(google)));
        assert_eq!(google.key_envs().collect::<Vec<_>>(), ["GEMINI_API_KEY", "GOOGLE_API_KEY"]);
        assert_eq!(of("gemini", "gemini-2.5-flash-001").price, of("google", "gemini-2.5-flash").price);
    }

    #[test]
    fn each_address_is_asked_once() {
        let asked: Vec<&str> = PROVIDERS.iter().filter(|p| p.is_main()).map(|p| p.name).collect();
        assert!(asked.contains(&"openai") && asked.contains(&"ollama"));
        assert!(!asked.contains(&"openai-compatible") && !asked.contains(&"openai-chat"));
    }

    #[test]
    fn newer_models_seal_their_reasoning() {
        for (provider, model, sealed) in [
            ("openai", "gpt-5-mini", true),
            ("openai", "o3", true),
            ("openai", "gpt-7", true),
            ("openai", "gpt-4.1-mini", false),
            ("openai", "ft:gpt-4o-mini:us::x", false),
            ("openai", "gpt-5-chat-latest", false),
            ("google", "gemini-3-flash-preview", true),
            ("google", "gemini-4-hydrogen", true),
            ("google", "models/gemini-2.5-pro", false),
            ("openrouter", "openai/gpt-5", false),
        ] {
            assert_eq!(of(provider, model).sealed_reasoning, sealed, "{model}");
        }
    }

    #[test]
    fn a_call_is_forced_only_for_models_that_accept_it() {
        for (model, forced) in [
            ("claude-fable-5-2", false),
            ("claude-mythos-5-1", false),
            ("claude-opus-5-5", false),
            ("claude-sonnet-5-5", false),
            ("claude-haiku-5-5", true),
            ("claude-opus-5", true),
            ("claude-sonnet-4-5-20250929", true),
            ("claude-unheard-of", false),
        ] {
            assert_eq!(of("anthropic", model).forced_tool_choice, forced, "{model}");
        }
        assert!(of("anthropic", "claude-haiku-4-5").manual_thinking);
        assert!(!of("anthropic", "claude-opus-4-6").manual_thinking);
        assert!(!of("anthropic", "claude-sonnet-5").manual_thinking);
    }
}
