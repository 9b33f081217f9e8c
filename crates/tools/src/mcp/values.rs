//! Variables and headers with their secrets, which are opened when a server is started.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use reqwest::Url;
use serde_json::json;

use crate::secret::{self, Mask, SecretValue, Secrets};
use crate::template::{self, Slot};

/// Shorter parts of an address are words.
const ADDRESS_SECRET_MIN_BYTES: usize = 16;

/// A variable or a header that is ready.
#[derive(Clone)]
pub(super) struct OpenedValue {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) is_secret: bool,
}

/// Writes the values, and returns what hides their secrets and those of an address. The error names no secret's value.
pub(super) async fn open(
    values: &BTreeMap<String, String>,
    address: Option<&str>,
    secrets: &dyn Secrets,
) -> Result<(Vec<OpenedValue>, Mask), String> {
    let context = template::context(&json!({}));
    let mut drafts = Vec::new();
    let mut named = BTreeSet::new();
    for (name, source) in values {
        let draft = template::text(source, Slot::Value, &context);
        let draft = draft.map_err(|why| format!("`{name}` cannot be written: {why}"))?;
        named.extend(template::names(&draft));
        drafts.push((name, draft));
    }
    let opened = secret::open(named, secrets).await?;
    let value = |name: &str| opened.get(name).map(|secret| secret.reveal().to_owned());
    let mut ready = Vec::new();
    for (name, draft) in drafts {
        let is_secret = template::has_mark(&draft);
        let value = template::fill(&draft, &value).map_err(|name| format!("there is no secret `{name}`"))?;
        ready.push(OpenedValue { name: name.clone(), value, is_secret });
    }
    let of_address = address.map(of_address).unwrap_or_default();
    let hidden = opened.iter().chain(of_address.iter().map(|(name, value)| (name, value)));
    Ok((ready, Mask::of(hidden.map(|(name, value)| (name.as_str(), value)))))
}

/// What may be a secret in an address: some services know who asks by nothing else.
fn of_address(address: &str) -> Vec<(String, SecretValue)> {
    let Ok(url) = Url::parse(address) else { return Vec::new() };
    let segments = url.path_segments().into_iter().flatten();
    let segments = segments.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned());
    let values = url.query_pairs().map(|(name, value)| (format!("url.{name}"), value.into_owned()));
    let parts = segments.map(|part| ("url".to_owned(), part)).chain(values);
    let long = parts.filter(|(_, part)| part.len() >= ADDRESS_SECRET_MIN_BYTES);
    long.map(|(name, part)| (name, SecretValue::new(&part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::NoSecrets;

    #[tokio::test]
    async fn a_secret_in_an_address_is_hidden_where_a_server_repeats_it() {
        let address =
            "https://a.example/api/s/ZTk4NzY1NDMyMWFi+c/mcp?read_only=true&token=sk-live-0815%2F4711-abc";
        let (_, mask) = open(&BTreeMap::new(), Some(address), &NoSecrets).await.unwrap();
        let said = mask.hide(format!("no route {address} ({})", "sk-live-0815/4711-abc"));
        assert_eq!(
            said,
            "no route https://a.example/api/s/[secret url]/mcp?read_only=true&token=[secret url.token] ([secret url.token])"
        );
    }
}
