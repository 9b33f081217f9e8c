//! From a server's answer to what the model reads: texts as they are, of everything else kind and size.

use agent::call::Outcome;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents};

use crate::secret::Mask;

/// The outcome of a call that was answered.
pub(super) async fn outcome(result: CallToolResult, mask: &Mask) -> Outcome {
    let mut parts: Vec<String> = result.content.into_iter().map(block).collect();
    if parts.is_empty() {
        parts.extend(result.structured_content.map(|json| json.to_string()));
    }
    let text = mask.hide_apart(parts.join("\n")).await;
    match (result.is_error.unwrap_or_default(), text.is_empty()) {
        (true, true) => Outcome::error("the tool failed and did not say why"),
        (true, false) => Outcome::error(text),
        (false, true) => Outcome::ok("the tool answered without content"),
        (false, false) => Outcome::ok(text),
    }
}

/// The text of a resource.
pub(super) async fn resource(result: ReadResourceResult, mask: &Mask) -> String {
    let texts: Vec<String> = result.contents.into_iter().map(contents).collect();
    mask.hide_apart(texts.join("\n")).await
}

fn block(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => sized("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => sized("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => contents(resource.resource),
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.name, link.uri),
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

fn contents(contents: ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => text,
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            format!("{} of {uri}", sized("data", mime_type.as_deref().unwrap_or("unknown type"), &blob))
        }
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

/// What stands for bytes that a model does not read, given in Base64.
fn sized(what: &str, kind: &str, data: &str) -> String {
    let kind: String = kind.chars().take(80).collect();
    let bytes = data.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}, {kind}, {bytes} bytes]")
}

#[cfg(test)]
mod tests {
    use agent::call::OutcomeStatus;
    use futures_util::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::secret::SecretValue;

    fn read(result: Value) -> Outcome {
        let mask = Mask::of([("key", &SecretValue::new("canary-123"))].into_iter());
        outcome(serde_json::from_value(result).unwrap(), &mask).now_or_never().unwrap()
    }

    #[test]
    fn texts_are_joined_and_other_content_is_named() {
        let said = read(json!({"content": [
            {"type": "text", "text": "one canary-123"},
            {"type": "image", "mimeType": "image/png", "data": "AAAAAAA="},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "a://b", "text": "two"}},
            {"type": "resource", "resource": {"uri": "a://c", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "a://d", "name": "d"},
        ], "structuredContent": {"x": 1}}));
        assert_eq!(
            said.text,
            "one [secret key]\n[image, image/png, 5 bytes]\n[audio, audio/wav, 3 bytes]\ntwo\n\
             [data, unknown type, 3 bytes] of a://c\n[resource d: a://d]"
        );
        assert_eq!(said.status, OutcomeStatus::Ok);
    }

    #[test]
    fn structured_content_stands_for_missing_text_and_errors_are_errors() {
        assert_eq!(read(json!({"content": [], "structuredContent": {"x": 1}})).text, r#"{"x":1}"#);
        assert_eq!(read(json!({"content": []})).text, "the tool answered without content");
        let failed = read(json!({"content": [{"type": "text", "text": "no"}], "isError": true}));
        assert_eq!((failed.status, failed.text.as_str()), (OutcomeStatus::Error, "no"));
        assert_eq!(read(json!({"content": [], "isError": true})).status, OutcomeStatus::Error);
    }
}
