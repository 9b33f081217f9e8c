//! Decides whether a refusal is about the form of a request (its tools, its schema, streaming) or about
//! its content. A refusal of the form would meet every request to that model, so no message is the cause.
//!
//! In doubt it is about the content: then the event is set aside after a few attempts, while a refusal
//! of the form makes the agent back off.

/// Fields of a request that hold no conversation, of all wires, without underscores.
const FORM: [&str; 29] = [
    "functioncall",
    "functions",
    "generationconfig",
    "include",
    "maxcompletiontokens",
    "maxoutputtokens",
    "maxtokens",
    "model",
    "outputconfig",
    "paralleltoolcalls",
    "promptcachekey",
    "reasoning",
    "reasoningeffort",
    "responseformat",
    "responsejsonschema",
    "responsemimetype",
    "responseschema",
    "store",
    "stream",
    "streamoptions",
    "strict",
    "temperature",
    "thinking",
    "thinkingbudget",
    "thinkingconfig",
    "thinkinglevel",
    "toolchoice",
    "toolconfig",
    "tools",
];
/// Fields that hold the conversation.
const CONTENT: [&str; 10] = [
    "content",
    "contents",
    "input",
    "instructions",
    "message",
    "messages",
    "parts",
    "prompt",
    "system",
    "systeminstruction",
];
/// Refusals of system messages. Every request has one.
const NO_SYSTEM: [&str; 6] = [
    "developer instruction is not enabled",
    "does not support 'developer'",
    "does not support 'system'",
    "system instruction is not enabled",
    "system messages are not supported",
    "system role not supported",
];
/// Messages of servers that refuse a request's form.
const FORM_ERRORS: [&str; 15] = [
    "error parsing grammar",
    "failed to convert json schema",
    "failed to parse grammar",
    "grammar error",
    "invalid json schema",
    "invalid schema for",
    "invalid tool_choice",
    "json schema conversion failed",
    "json schema is invalid",
    "may not be enabled when tool_choice",
    "requires --enable-auto-tool-choice",
    "requires --jinja",
    "set --enable-auto-tool-choice",
    "unrecognized request argument",
    "unknown parameter",
];
/// Features that a request may use and a server may not support.
const FEATURES: [&str; 11] = [
    "argument",
    "function call",
    "grammar",
    "json_schema",
    "param",
    "reasoning",
    "response_format",
    "schema",
    "stream",
    "thinking",
    "tool",
];
/// Words of refusals that may be about the content.
const CONTENT_WORDS: [&str; 9] =
    ["audio", "content", "file", "image", "message", "role", "tool_call_id", "turn", "video"];
/// Characters of a refusal that are read: what follows may be a quotation of the content.
const READ_CHARS: usize = 400;

/// Whether a refusal is about the form. `named_field` is the field that it names outside its message.
pub(super) fn is_refused(named_field: Option<&str>, message: &str) -> bool {
    let message: String = message.chars().take(READ_CHARS).collect::<String>().to_lowercase();
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    if contains(&NO_SYSTEM) {
        return true;
    }
    for field in named_field.into_iter().chain(field_in_message(&message)).map(top_field) {
        if CONTENT.contains(&field.as_str()) {
            return false;
        }
        if FORM.contains(&field.as_str()) {
            return true;
        }
    }
    let unsupported = message.contains("support") && (message.contains("not ") || message.contains("n't "));
    let unsupported =
        unsupported || contains(&["unsupported", "not enabled for", "is not allowed", "are not allowed"]);
    contains(&FORM_ERRORS) || (unsupported && contains(&FEATURES) && !contains(&CONTENT_WORDS))
}

/// The field that the message names: at its beginning, or in the formats of Google and pydantic.
fn field_in_message(message: &str) -> Option<&str> {
    let behind = |mark: &str| message.split_once(mark).map(|(_, rest)| rest);
    let google = || behind(" at '").or_else(|| behind("generatecontentrequest."));
    let begins = || {
        let message = message.trim_start_matches(['\'', '"', '`', '*', ' ']);
        let end = message.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        message[end..].starts_with(['.', ':', '[', '\'']).then_some(message)
    };
    behind("'loc': ('body', '").or_else(google).or_else(begins)
}

/// The top field of a path: `tools` of `tools[0].function.name`.
fn top_field(path: &str) -> String {
    let path = path.trim_start_matches("body.");
    let field = path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
    field.filter(|c| *c != '_').collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_field_is_found_in_every_format() {
        for (named_field, form) in [
            ("tools[0].function.parameters", true),
            ("body.tool_choice", true),
            ("toolConfig.functionCallingConfig", true),
            ("messages[1].tools", false),
            ("contents[2].parts", false),
        ] {
            assert_eq!(is_refused(Some(named_field), "tools are not supported"), form, "{named_field}");
            assert_eq!(is_refused(None, &format!("{named_field}: no")), form, "{named_field}");
        }
    }

    #[test]
    fn text_that_may_be_a_quotation_is_not_read() {
        let quotes = format!("no: {} tools are not supported", "x".repeat(READ_CHARS));
        assert!(!is_refused(None, &quotes));
    }
}
