//! Lists the models that a provider serves now: the cheapest request that checks the address, the
//! key and the network.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::limits;
use agent::port::{ModelError, Models, Price, TimeoutKind};
use net::{causes, display_url};
use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, Response};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::bounds::{LISTING_MAX_BYTES, LISTING_MODELS_MAX};
use crate::catalog::{self, Provider, WireFormat};
use crate::client::{Clients, proxy_of};
use crate::model_book::{KeyRing, ModelConfig};
use crate::secret::Secret;
use crate::wire::failure::{self, Hints};

/// A model that a provider lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As in `provider/model`.
    pub model: String,
    /// Its context window, if the provider reports it.
    pub context_window: Option<u32>,
}

/// The result of asking a provider for its models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It listed its models.
    Reachable(Vec<Listed>),
    /// It needs a key and none is set. The text says where to put one.
    KeyMissing(String),
    /// It rejected the key.
    Refused(String),
    /// There was no answer in time.
    Unreachable(String),
    /// It answered, but without a list of models.
    Unlisted(String),
}

impl Reach {
    /// The name used in JSON and tables.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Reachable(_) => "reachable",
            Self::KeyMissing(_) => "key_missing",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Unlisted(_) => "unlisted",
        }
    }

    /// The reason, if it is not reachable.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Reachable(_) => None,
            Self::KeyMissing(why) | Self::Refused(why) | Self::Unreachable(why) | Self::Unlisted(why) => {
                Some(why)
            }
        }
    }
}

/// A model that can be used, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// As in `provider/model`.
    pub name: String,
    /// Its context window, unless it would have to be assumed.
    pub context_window: Option<u32>,
    /// Its price, if it is known. As JSON in dollars per million tokens.
    #[serde(serialize_with = "price_in_dollars")]
    pub price: Option<Price>,
    /// Whether it runs on the user's machine.
    #[serde(skip)]
    pub local: bool,
    /// Whether it is the default model.
    pub default: bool,
}

fn price_in_dollars<S: Serializer>(price: &Option<Price>, to: S) -> Result<S::Ok, S::Error> {
    // Prices are far below the largest integer that a double holds exactly.
    let dollars = |micros: u64| u32::try_from(micros).map_or(f64::MAX, f64::from) / 1e6;
    let price = price.map(|price| [price.input, price.cached, price.output].map(dollars));
    price
        .map(|[input, cached, output]| json!({"input": input, "cached": cached, "output": output}))
        .serialize(to)
}

/// A provider and what it answered.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The provider.
    pub provider: &'static Provider,
    /// The address that was asked, for display; empty if there is none.
    pub base_url: String,
    /// What it answered.
    pub reach: Reach,
    /// Its models, as [`offers`] sorts them.
    pub models: Vec<Offer>,
}

/// Asks the provider for its models, as [`reach`] does.
pub async fn survey(
    provider: &'static Provider,
    at: ModelConfig,
    keys: &KeyRing,
    models: Option<&dyn Models>,
    wait: Duration,
) -> Survey {
    let reach = reach(provider, &at, keys, wait).await;
    let list = if let Reach::Reachable(list) = &reach { list.as_slice() } else { &[] };
    let models = offers(provider, list, models);
    let base_url = at.base_url.or(provider.base_url.map(str::to_owned)).unwrap_or_default();
    Survey { provider, base_url: display_url(&base_url), reach, models }
}

/// The listed models of a provider: the default one first, then those that `models` knows more about, then the
/// others in the provider's order.
pub fn offers(provider: &Provider, list: &[Listed], models: Option<&dyn Models>) -> Vec<Offer> {
    let info = |name: Option<&str>| Some(models?.model(name).ok()?.info().clone());
    let default = info(None).map(|info| info.name);
    let assumed = catalog::facts(provider, "").context_window;
    let offer = |listed: &Listed| {
        let name = format!("{}/{}", provider.name, listed.model);
        let info = info(Some(&name));
        let window = info.as_ref().map(|info| info.context_window);
        let window = window.filter(|window| catalog::knows(&name) || *window != assumed);
        let default = default.as_ref() == Some(&name);
        let rank = if default { 0 } else { 1 + u8::from(window.is_none()) };
        let (price, local) = (info.and_then(|info| info.price), provider.local);
        (rank, Offer { name, context_window: window.or(listed.context_window), price, local, default })
    };
    let mut offers: Vec<(u8, Offer)> = list.iter().map(offer).collect();
    offers.sort_by_key(|(rank, _)| *rank);
    offers.into_iter().map(|(_, offer)| offer).collect()
}

/// Asks the provider for its models. Address, key and headers come from `at`, else from the provider's
/// defaults. Waits at most `wait`.
pub async fn reach(provider: &Provider, at: &ModelConfig, keys: &KeyRing, wait: Duration) -> Reach {
    let Some(base_url) = at.base_url.as_deref().or(provider.base_url) else {
        return Reach::Unreachable(format!("`{}` has no default address", provider.name));
    };
    let key = match &at.key {
        Some(key) if !key.is_empty() => Ok(Some(key.clone())),
        _ => keys.key(provider),
    };
    let key = match key {
        Ok(key) => key,
        Err(ModelError::Auth(why)) => return Reach::KeyMissing(why),
        Err(other) => return Reach::Unreachable(other.to_string()),
    };
    let asked = tokio::time::timeout(wait, ask(provider, base_url, key.as_ref(), &at.headers)).await;
    match asked.unwrap_or(Err(ModelError::TimedOut(TimeoutKind::Total))) {
        Ok(list) => Reach::Reachable(list),
        Err(ModelError::Auth(why)) => Reach::Refused(why),
        Err(ModelError::TimedOut(_)) => {
            Reach::Unreachable(format!("no answer within {} ms", wait.as_millis()))
        }
        Err(ModelError::Network(why)) => Reach::Unreachable(why),
        Err(other) => Reach::Unlisted(other.to_string()),
    }
}

async fn ask(
    provider: &Provider,
    base_url: &str,
    key: Option<&Secret>,
    headers: &BTreeMap<String, String>,
) -> Result<Vec<Listed>, ModelError> {
    let client = Clients::default().get(limits::MODEL_CONNECT_MS)?;
    let query = match provider.wire_format {
        WireFormat::Anthropic => "?limit=1000",
        WireFormat::Gemini => "?pageSize=1000",
        WireFormat::OpenAiChat(_) | WireFormat::OpenAiResponses => "",
    };
    let url = format!("{}/models{query}", base_url.trim_end_matches('/'));
    let request = with_key(provider.wire_format, client.get(&url), key)?;
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    let through = proxy_of(&url)?;
    let response = request.send().await.map_err(|error| {
        let way = through.map(|proxy| format!("through {proxy}: ")).unwrap_or_default();
        ModelError::Network(format!("{way}{}", causes(&error)))
    })?;
    let status = response.status();
    let redacted = |text: String| key.map_or_else(|| text.clone(), |key| key.redact(text.clone()));
    let text = redacted(read_bounded(response).await?);
    if !status.is_success() {
        return Err(failure::classify(status.as_u16(), &Hints::default(), &text));
    }
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(list) = list["data"].as_array().or(list["models"].as_array()) else {
        if failure::looks_like_page(&text) {
            return Err(ModelError::Garbage(failure::page(status.as_u16())));
        }
        let shown: String = text.chars().take(80).collect();
        return Err(ModelError::Garbage(format!("wanted a list of models, got `{shown}`")));
    };
    Ok(list.iter().filter_map(listed).take(LISTING_MODELS_MAX).collect())
}

/// Adds the key to the request, in the header of this wire format.
fn with_key(
    wire_format: WireFormat,
    request: RequestBuilder,
    key: Option<&Secret>,
) -> Result<RequestBuilder, ModelError> {
    let request = match wire_format {
        WireFormat::Anthropic => request.header("anthropic-version", "2023-06-01"),
        WireFormat::OpenAiChat(_) | WireFormat::OpenAiResponses | WireFormat::Gemini => request,
    };
    let Some(key) = key else { return Ok(request) };
    let (name, value) = match wire_format {
        WireFormat::Anthropic => ("x-api-key", key.reveal().to_owned()),
        WireFormat::Gemini => ("x-goog-api-key", key.reveal().to_owned()),
        WireFormat::OpenAiChat(_) | WireFormat::OpenAiResponses => {
            ("authorization", format!("Bearer {}", key.reveal()))
        }
    };
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| ModelError::Auth("the key contains characters that no key may have".to_owned()))?;
    value.set_sensitive(true);
    Ok(request.header(name, value))
}

/// Reads one row. Servers report the window under different names.
fn listed(row: &Value) -> Option<Listed> {
    // Gemini's list includes models that generate no text.
    let resource = || row["name"].as_str()?.strip_prefix("models/");
    let model = row["id"].as_str().or_else(resource)?.to_owned();
    let methods = row["supportedGenerationMethods"].as_array();
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == "generateContent")) {
        return None;
    }
    let windows = [
        &row["inputTokenLimit"],
        &row["meta"]["n_ctx"],
        &row["max_model_len"],
        &row["context_length"],
        &row["context_window"],
        &row["max_context_length"],
    ];
    let known = |value: &&Value| value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    Some(Listed { model, context_window: windows.iter().find_map(known) })
}

async fn read_bounded(mut response: Response) -> Result<String, ModelError> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| ModelError::Network(causes(&error)))? {
        body.extend_from_slice(&bytes);
        if body.len() > LISTING_MAX_BYTES {
            return Err(ModelError::Garbage(format!("the list of models is over {LISTING_MAX_BYTES} bytes")));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_under_any_name_that_servers_use() {
        let window = |row: Value| listed(&row).unwrap().context_window;
        assert_eq!(window(json!({"id": "a", "meta": {"n_ctx": 8192, "n_ctx_train": 1}})), Some(8_192));
        assert_eq!(window(json!({"id": "a", "max_model_len": 4096})), Some(4_096));
        assert_eq!(window(json!({"id": "a", "context_length": 0})), None);
        assert_eq!(listed(&json!({"name": "a"})), None);
        let row = json!({"name": "models/g", "inputTokenLimit": 9, "supportedGenerationMethods": ["generateContent"]});
        assert_eq!(listed(&row), Some(Listed { model: "g".into(), context_window: Some(9) }));
        let row = json!({"name": "models/e", "supportedGenerationMethods": ["embedContent"]});
        assert_eq!(listed(&row), None);
    }
}
