//! Token counts as servers report them: no number, however large, overflows.

use agent::run::Usage;
use models::wire::Decoder;

use crate::corpus::{anthropic, decode, gemini, openai, responses, sse};

fn usage_of(decoder: Box<impl Decoder>, lines: &[&str]) -> Usage {
    decode(decoder, sse(lines).as_bytes(), usize::MAX).unwrap().1.usage
}

fn anthropic_usage(count: &str) -> Usage {
    let counts = format!(
        r#"{{"input_tokens":{count},"cache_creation_input_tokens":{count},"cache_read_input_tokens":{count},"output_tokens":{count}}}"#
    );
    let start = r#"{"type":"message_start","message":{"id":"m"}}"#;
    let finish =
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{counts}}}"#);
    usage_of(anthropic(), &[start, &finish])
}

fn chat_usage(count: &str) -> Usage {
    let counts = format!(
        r#"{{"prompt_tokens":{count},"completion_tokens":{count},"total_tokens":{count},"completion_tokens_details":{{"reasoning_tokens":{count}}}}}"#
    );
    let finish =
        format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"stop"}}],"usage":{counts}}}"#);
    usage_of(openai(), &[&finish])
}

fn gemini_usage(count: &str) -> Usage {
    let counts = format!(
        r#"{{"promptTokenCount":{count},"toolUsePromptTokenCount":{count},"candidatesTokenCount":{count},"thoughtsTokenCount":{count}}}"#
    );
    let finish = format!(r#"{{"candidates":[{{"finishReason":"STOP"}}],"usageMetadata":{counts}}}"#);
    usage_of(gemini(), &[&finish])
}

fn responses_usage(count: &str) -> Usage {
    let counts = format!(r#"{{"input_tokens":{count},"output_tokens":{count}}}"#);
    let finish = format!(r#"{{"type":"response.completed","response":{{"usage":{counts}}}}}"#);
    usage_of(responses(), &[&finish])
}

#[test]
fn huge_token_counts_saturate_and_invalid_ones_are_unknown() {
    for (wire, usage) in [
        ("anthropic", anthropic_usage as fn(&str) -> Usage),
        ("chat", chat_usage),
        ("gemini", gemini_usage),
        ("responses", responses_usage),
    ] {
        let largest = usage(&u64::MAX.to_string());
        assert_eq!((largest.input, largest.output), (Some(u64::MAX), Some(u64::MAX)), "{wire}");
        for none in ["18446744073709551616", "1e30", "-1", "\"7\""] {
            assert!(usage(none).is_none(), "{wire}: {none}");
        }
    }
}
