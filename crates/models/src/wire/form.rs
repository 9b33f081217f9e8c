//! Whether a refusal is about the form of a request (its tools, its schema, that it wants a stream) and
//! not about what is said in it. Every request of that model would meet it, so it is nobody's message that
//! is at fault.
//!
//! In doubt it is about the content: that is given up after a few attempts, while this would be rested for.

/// Fields of a request that hold no conversation, on all wires, without their underscores.
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
/// Fields that hold what was said.
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
/// Every request begins with a system message, and none of these takes one.
const NO_SYSTEM: [&str; 6] = [
    "developer instruction is not enabled",
    "does not support 'developer'",
    "does not support 'system'",
    "system instruction is not enabled",
    "system messages are not supported",
    "system role not supported",
];
/// What servers say of a form that they do not take.
const SAID: [&str; 15] = [
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
/// What a request may ask for and a server may not have.
const ASKED_FOR: [&str; 11] = [
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
/// Words of refusals that are, or may be, about what is said.
const OF_CONTENT: [&str; 9] =
    ["audio", "content", "file", "image", "message", "role", "tool_call_id", "turn", "video"];
/// How much of a refusal is looked at: further on it may quote what was said.
const LOOKED_AT_CHARS: usize = 400;

/// Whether it is. `place` is the field that the refusal names apart from its words.
pub(super) fn is_refused(place: Option<&str>, words: &str) -> bool {
    let words: String = words.chars().take(LOOKED_AT_CHARS).collect::<String>().to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if says(&NO_SYSTEM) {
        return true;
    }
    for field in place.into_iter().chain(named(&words)).map(field_of) {
        if CONTENT.contains(&field.as_str()) {
            return false;
        }
        if FORM.contains(&field.as_str()) {
            return true;
        }
    }
    let lacks = words.contains("support") && (words.contains("not ") || words.contains("n't "));
    let lacks = lacks || says(&["unsupported", "not enabled for", "is not allowed", "are not allowed"]);
    says(&SAID) || (lacks && says(&ASKED_FOR) && !says(&OF_CONTENT))
}

/// The field that the words themselves name: at their beginning, or in the ways of Google and pydantic.
fn named(words: &str) -> Option<&str> {
    let behind = |mark: &str| words.split_once(mark).map(|(_, rest)| rest);
    let google = || behind(" at '").or_else(|| behind("generatecontentrequest."));
    let begins = || {
        let words = words.trim_start_matches(['\'', '"', '`', '*', ' ']);
        let end = words.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        words[end..].starts_with(['.', ':', '[', '\'']).then_some(words)
    };
    behind("'loc': ('body', '").or_else(google).or_else(begins)
}

/// `tools` of `tools[0].function.name`.
fn field_of(path: &str) -> String {
    let path = path.trim_start_matches("body.");
    let field = path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_');
    field.filter(|c| *c != '_').collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_however_it_is_written() {
        for (place, form) in [
            ("tools[0].function.parameters", true),
            ("body.tool_choice", true),
            ("toolConfig.functionCallingConfig", true),
            ("messages[1].tools", false),
            ("contents[2].parts", false),
        ] {
            assert_eq!(is_refused(Some(place), "tools are not supported"), form, "{place}");
            assert_eq!(is_refused(None, &format!("{place}: no")), form, "{place}");
        }
    }

    #[test]
    fn what_may_be_a_quotation_is_not_looked_at() {
        let quotes = format!("no: {} tools are not supported", "x".repeat(LOOKED_AT_CHARS));
        assert!(!is_refused(None, &quotes));
    }
}
