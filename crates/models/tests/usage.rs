//! Counts of tokens as servers report them, however absurd: no number that comes from outside overflows.

use agent::run::Usage;
use models::wire::Decoder;

use crate::corpus::{anthropic, decode, gemini, openai, responses, sse};

fn counted(decoder: Box<impl Decoder>, lines: &[&str]) -> Usage {
    decode(decoder, sse(lines).as_bytes(), usize::MAX).unwrap().1.usage
}

fn anthropics(count: &str) -> Usage {
    let counts = format!(
        r#"{{"input_tokens":{count},"cache_creation_input_tokens":{count},"cache_read_input_tokens":{count},"output_tokens":{count}}}"#
    );
    let start = r#"{"type":"message_start","message":{"id":"m"}}"#;
    let finish =
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{counts}}}"#);
    counted(anthropic(), &[start, &finish])
}

fn chats(count: &str) -> Usage {
    let counts = format!(
        r#"{{"prompt_tokens":{count},"completion_tokens":{count},"total_tokens":{count},"completion_tokens_details":{{"reasoning_tokens":{count}}}}}"#
    );
    let finish =
        format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"stop"}}],"usage":{counts}}}"#);
    counted(openai(), &[&finish])
}

fn geminis(count: &str) -> Usage {
    let counts = format!(
        r#"{{"promptTokenCount":{count},"toolUsePromptTokenCount":{count},"candidatesTokenCount":{count},"thoughtsTokenCount":{count}}}"#
    );
    let finish = format!(r#"{{"candidates":[{{"finishReason":"STOP"}}],"usageMetadata":{counts}}}"#);
    counted(gemini(), &[&finish])
}

fn responses_(count: &str) -> Usage {
    let counts = format!(r#"{{"input_tokens":{count},"output_tokens":{count}}}"#);
    let finish = format!(r#"{{"type":"response.completed","response":{{"usage":{counts}}}}}"#);
    counted(responses(), &[&finish])
}

#[test]
fn counts_near_the_largest_number_stay_there_and_what_is_no_count_is_unknown() {
    for (wire, usage) in [
        ("anthropic", anthropics as fn(&str) -> Usage),
        ("chat", chats),
        ("gemini", geminis),
        ("responses", responses_),
    ] {
        let largest = usage(&u64::MAX.to_string());
        assert_eq!((largest.input, largest.output), (Some(u64::MAX), Some(u64::MAX)), "{wire}");
        for none in ["18446744073709551616", "1e30", "-1", "\"7\""] {
            assert!(usage(none).is_none(), "{wire}: {none}");
        }
    }
}
