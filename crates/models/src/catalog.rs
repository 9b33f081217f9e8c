//! Providers and well-known models: addresses, wires, dialects, windows, prices, capabilities.
//!
//! Facts only: what is not certain is left out, and stands for itself as unknown. Knows no
//! configuration and opens nothing.

use agent::limits;
use agent::port::Price;

use crate::wire::openai_chat::Dialect;

/// Which wire a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Anthropic Messages.
    Anthropic,
    /// Chat completions, in this dialect.
    OpenAiChat(Dialect),
}

/// A provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provider {
    /// As in `provider/model`.
    pub name: &'static str,
    /// Its wire.
    pub speaks: Speaks,
    /// Where it is; `None` where that must be given.
    pub base_url: Option<&'static str>,
    /// The environment variable that its key stands in.
    pub key_env: &'static str,
    /// Whether it works without a key.
    pub keyless: bool,
    /// Whether it runs the user's own weights: a small window is assumed, and no price.
    pub local: bool,
}

const HOSTED: Provider = Provider {
    name: "",
    speaks: Speaks::OpenAiChat(Dialect::COMPATIBLE),
    base_url: None,
    key_env: "",
    keyless: false,
    local: false,
};
const LOCAL: Provider =
    Provider { speaks: Speaks::OpenAiChat(Dialect::LOCAL), keyless: true, local: true, ..HOSTED };

/// All providers, in the order in which a key is looked for at the first start.
pub const PROVIDERS: [Provider; 11] = [
    Provider {
        name: "anthropic",
        speaks: Speaks::Anthropic,
        base_url: Some("https://api.anthropic.com/v1"),
        key_env: "ANTHROPIC_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "openai",
        speaks: Speaks::OpenAiChat(Dialect::OPENAI),
        base_url: Some("https://api.openai.com/v1"),
        key_env: "OPENAI_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "openrouter",
        speaks: Speaks::OpenAiChat(Dialect::LOCAL),
        base_url: Some("https://openrouter.ai/api/v1"),
        key_env: "OPENROUTER_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "deepseek",
        speaks: Speaks::OpenAiChat(Dialect::DEEPSEEK),
        base_url: Some("https://api.deepseek.com/v1"),
        key_env: "DEEPSEEK_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key_env: "GROQ_API_KEY",
        ..HOSTED
    },
    Provider {
        name: "mistral",
        speaks: Speaks::OpenAiChat(Dialect::MISTRAL),
        base_url: Some("https://api.mistral.ai/v1"),
        key_env: "MISTRAL_API_KEY",
        ..HOSTED
    },
    Provider { name: "xai", base_url: Some("https://api.x.ai/v1"), key_env: "XAI_API_KEY", ..HOSTED },
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
    Provider { name: "openai-compatible", key_env: "OPENAI_COMPATIBLE_API_KEY", keyless: true, ..HOSTED },
];

/// The provider of that name.
pub fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// The model that is taken where only the provider's key is found: able, and not the dearest.
pub fn first_model(provider: &Provider) -> Option<&'static str> {
    match provider.name {
        "anthropic" => Some("claude-sonnet-5-5"),
        "openai" => Some("gpt-5-mini"),
        _ => None,
    }
}

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Tokens sent and generated together.
    pub context_window: u32,
    /// Most that it generates at once.
    pub max_output: u32,
    /// Its price, where certain.
    pub price: Option<Price>,
    /// Whether `tool_choice` may force a call.
    pub forced_tool_choice: bool,
    /// Whether it thinks by a budget of tokens instead of adaptively (Anthropic).
    pub manual_thinking: bool,
}

/// A row: model, window, output, and micro-dollars per million tokens sent, cached and generated.
type Row = (&'static str, u32, u32, Option<(u64, u64, u64)>);

const ANTHROPIC: [Row; 19] = [
    ("claude-fable-5-2", 1_000_000, 128_000, Some((8_000_000, 800_000, 40_000_000))),
    ("claude-fable-5-1", 1_000_000, 128_000, Some((10_000_000, 1_000_000, 50_000_000))),
    ("claude-opus-5-5", 1_000_000, 128_000, Some((4_000_000, 400_000, 20_000_000))),
    ("claude-opus-5", 1_000_000, 128_000, Some((5_000_000, 500_000, 25_000_000))),
    ("claude-sonnet-5-5", 1_000_000, 128_000, Some((2_000_000, 200_000, 10_000_000))),
    ("claude-sonnet-5", 1_000_000, 128_000, Some((2_000_000, 200_000, 10_000_000))),
    ("claude-haiku-5-5", 1_000_000, 128_000, None),
    ("claude-opus-4-6", 200_000, 128_000, Some((5_000_000, 500_000, 25_000_000))),
    ("claude-opus-4-5", 200_000, 64_000, Some((5_000_000, 500_000, 25_000_000))),
    ("claude-opus-4-1", 200_000, 32_000, Some((15_000_000, 1_500_000, 75_000_000))),
    ("claude-opus-4", 200_000, 32_000, Some((15_000_000, 1_500_000, 75_000_000))),
    ("claude-sonnet-4-6", 200_000, 64_000, Some((3_000_000, 300_000, 15_000_000))),
    ("claude-sonnet-4-5", 200_000, 64_000, Some((3_000_000, 300_000, 15_000_000))),
    ("claude-sonnet-4", 200_000, 64_000, Some((3_000_000, 300_000, 15_000_000))),
    ("claude-haiku-4-5", 200_000, 64_000, Some((1_000_000, 100_000, 5_000_000))),
    ("claude-3-7-sonnet", 200_000, 64_000, Some((3_000_000, 300_000, 15_000_000))),
    ("claude-3-5-sonnet", 200_000, 8_192, Some((3_000_000, 300_000, 15_000_000))),
    ("claude-3-5-haiku", 200_000, 8_192, Some((800_000, 80_000, 4_000_000))),
    ("claude-3-haiku", 200_000, 4_096, Some((250_000, 30_000, 1_250_000))),
];
const OPENAI: [Row; 12] = [
    ("gpt-5", 400_000, 128_000, Some((1_250_000, 125_000, 10_000_000))),
    ("gpt-5-mini", 400_000, 128_000, Some((250_000, 25_000, 2_000_000))),
    ("gpt-5-nano", 400_000, 128_000, Some((50_000, 5_000, 400_000))),
    ("gpt-5.1", 400_000, 128_000, Some((1_250_000, 125_000, 10_000_000))),
    ("gpt-4.1", 1_047_576, 32_768, Some((2_000_000, 500_000, 8_000_000))),
    ("gpt-4.1-mini", 1_047_576, 32_768, Some((400_000, 100_000, 1_600_000))),
    ("gpt-4.1-nano", 1_047_576, 32_768, Some((100_000, 25_000, 400_000))),
    ("gpt-4o", 128_000, 16_384, Some((2_500_000, 1_250_000, 10_000_000))),
    ("gpt-4o-mini", 128_000, 16_384, Some((150_000, 75_000, 600_000))),
    ("o3", 200_000, 100_000, Some((2_000_000, 500_000, 8_000_000))),
    ("o3-mini", 200_000, 100_000, Some((1_100_000, 550_000, 4_400_000))),
    ("o4-mini", 200_000, 100_000, Some((1_100_000, 275_000, 4_400_000))),
];

/// What is known of `model` at `provider`; where nothing is, what is safe.
pub fn facts(provider: &Provider, model: &str) -> Facts {
    let rows: &[Row] = match provider.name {
        "anthropic" => &ANTHROPIC,
        "openai" => &OPENAI,
        _ => &[],
    };
    let window = if provider.local { limits::WINDOW_LOCAL } else { limits::WINDOW_HOSTED };
    let row = rows.iter().find(|row| is_release_of(model, row.0));
    let anthropic = provider.speaks == Speaks::Anthropic;
    Facts {
        context_window: row.map_or(window, |row| row.1),
        // A small model that runs away is cut soon: its window is small and its machine is slow.
        max_output: row.map_or(if provider.local { window / 8 } else { window / 4 }, |row| row.2),
        price: row.and_then(|row| row.3).map(|(input, cached, output)| Price { input, cached, output }),
        forced_tool_choice: !anthropic || takes_forced_choice(model),
        manual_thinking: anthropic && thinks_manually(model),
    }
}

/// Whether `model` is `name` itself or a dated release of it, and not another model that merely
/// begins alike.
fn is_release_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let date = rest.strip_prefix('-').unwrap_or("");
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    rest.is_empty()
        || rest == "-latest"
        || (digits >= 6 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

/// The newest models refuse to be forced; of one that is not known, nothing is asked.
fn takes_forced_choice(model: &str) -> bool {
    let older = ["claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "claude-haiku-5"];
    let five = ["claude-opus-5", "claude-sonnet-5"];
    older.iter().any(|name| model.starts_with(name)) || five.iter().any(|name| is_release_of(model, name))
}

fn thinks_manually(model: &str) -> bool {
    let manual = ["claude-3", "claude-haiku-4", "claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-4-1"];
    let bare = ["claude-opus-4", "claude-sonnet-4"];
    manual.iter().any(|name| model.starts_with(name)) || bare.iter().any(|name| is_release_of(model, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(provider_name: &str, model: &str) -> Facts {
        facts(provider(provider_name).unwrap(), model)
    }

    #[test]
    fn a_model_that_begins_alike_is_another_model() {
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
    fn the_first_model_of_a_provider_is_one_that_is_known_and_priced() {
        let first = PROVIDERS.iter().filter_map(|provider| Some((provider, first_model(provider)?)));
        let prices: Vec<bool> =
            first.map(|(provider, model)| facts(provider, model).price.is_some()).collect();
        assert_eq!(prices, [true, true]);
    }

    #[test]
    fn a_call_is_forced_only_where_the_vendor_takes_it() {
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
