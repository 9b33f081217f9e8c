//! Variables and headers with their secrets, which are opened when a server is started.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::secret::{self, Mask, Secrets};
use crate::template::{self, Slot};

/// A variable or a header that is ready.
#[derive(Clone)]
pub(super) struct OpenedValue {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) is_secret: bool,
}

/// Writes the values, and returns what hides their secrets. The error names no secret's value.
pub(super) async fn open(
    values: &BTreeMap<String, String>,
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
    Ok((ready, Mask::of(opened.iter().map(|(name, value)| (name.as_str(), value)))))
}
