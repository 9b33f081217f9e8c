//! A stream cut at every byte: before the stop reason it is an error, after it the reply is complete.

use agent::port::{ModelError, Piece, Reply};
use models::wire::{Decoder, EventFeed};
use testkit::stubs::{Answer, Stub, Vendor};

use crate::support::{Conversation, assert_streamed, model_at};

/// Cuts a stream after each of its bytes, in both ways: the body ends, or the connection breaks. The stop
/// reason is complete at byte `ended`.
///
/// The stream is fed once, byte by byte, and the decoder is cloned for each cut.
pub(crate) fn cut_at_every_byte<D: Decoder + Clone>(
    stream: &str,
    decoder: Box<D>,
    bytes: &[u8],
    ended: usize,
    whole: &Reply,
) {
    let mut feed = EventFeed::new(decoder);
    let mut shown = Vec::new();
    for at in 0..=bytes.len() {
        for broken in [None, Some("the connection broke".to_owned())] {
            let how = if broken.is_some() { "broken" } else { "ended" };
            match feed.clone().end(broken) {
                Ok(last) => {
                    assert!(at >= ended, "{stream} {how} behind {at} of {ended} bytes: taken too early");
                    is_the_whole_reply(shown.iter().cloned().chain(last).collect(), whole);
                }
                Err(error) => {
                    assert!(at < ended, "{stream} {how} behind {at} of {ended} bytes: {error:?}");
                    assert!(matches!(error, ModelError::Cut(_)) && error.retryable(), "{stream}: {error:?}");
                }
            }
        }
        let Some(byte) = bytes.get(at..=at) else { break };
        shown.extend(feed.bytes(byte).unwrap().into_iter().filter(|piece| *piece != Piece::Alive));
    }
}

/// Asserts that the reply of a cut stream is complete; only its usage may be unknown.
fn is_the_whole_reply(mut pieces: Vec<Piece>, whole: &Reply) {
    let Some(Piece::Done(reply)) = pieces.pop() else { panic!("no end but {pieces:?}") };
    assert_streamed(&pieces, &reply);
    assert_eq!((&reply.parts, &reply.native, &reply.stop), (&whole.parts, &whole.native, &whole.stop));
    assert!(reply.usage == whole.usage || reply.usage.output.is_none(), "{:?}", reply.usage);
}

async fn cut_everywhere(vendor: Vendor, name: &str, answer: Answer, last_word: &str) {
    let stub = Stub::start(vendor).await;
    let vendor_model = model_at(name, &stub.url());
    let mut conversation = Conversation::new();
    conversation.begin_cycle(1, "[INBOX]", "[WORKSPACE]");
    stub.push(answer.clone());
    let (_, whole): (_, Reply) = conversation.ask(vendor_model.as_ref()).await.unwrap();
    let body = whole_body(&stub, &answer, vendor).await;
    let finish = body.find(last_word).expect("the stream says why it stops");
    let line_end = finish + body[finish..].find('\n').unwrap();
    let mut seen = (0, 0);
    for at in 0..body.len() {
        stub.push(answer.clone().cut_at(at));
        match conversation.ask(vendor_model.as_ref()).await {
            Ok((pieces, reply)) => {
                assert!(at >= line_end, "cut at {at} of {finish}: accepted too early");
                assert_streamed(&pieces, &reply);
                assert_eq!(
                    (&reply.parts, &reply.native, &reply.stop),
                    (&whole.parts, &whole.native, &whole.stop)
                );
                assert!(reply.usage == whole.usage || reply.usage.output.is_none());
                seen.1 += 1;
            }
            Err(error) => {
                assert!(at <= line_end, "cut at {at} of {finish}: {error:?}");
                assert!(matches!(error, ModelError::Cut(_)) && error.retryable(), "cut at {at}: {error:?}");
                seen.0 += 1;
            }
        }
    }
    assert!(seen.0 > 0 && seen.1 > 0, "{seen:?}");
}

/// The whole body that the stub sends.
async fn whole_body(stub: &Stub, answer: &Answer, vendor: Vendor) -> String {
    net::install_crypto();
    stub.demand(None);
    stub.push(answer.clone());
    let path = match vendor {
        Vendor::OpenAi => "chat/completions",
        Vendor::Anthropic => "messages",
        Vendor::Gemini => "models/m:streamGenerateContent",
        Vendor::Responses => "responses",
    };
    let request = stub.requests()[0].raw.clone();
    let client = models::client::Clients::default().get(1_000).unwrap();
    let sent = client.post(format!("{}/{path}", stub.url())).body(request).send().await.unwrap();
    sent.text().await.unwrap()
}

fn answer() -> Answer {
    Answer::new()
        .reasoning("思")
        .text("é😀")
        .call("a1", "send_message", r#"{"text":"😀x"}"#, 6)
        .call("b2", "done", "{}", 2)
        .usage(9, 4, 3)
}

#[tokio::test]
async fn an_anthropic_stream_cut_at_every_byte() {
    cut_everywhere(Vendor::Anthropic, "anthropic/claude-fable-5-2", answer(), "\"stop_reason\":\"tool_use\"")
        .await;
}

#[tokio::test]
async fn a_gemini_stream_cut_at_every_byte() {
    let name = "google/gemini-3-pro-preview";
    cut_everywhere(Vendor::Gemini, name, answer(), "\"finishReason\":\"STOP\"").await;
}

#[tokio::test]
async fn a_responses_stream_cut_at_every_byte() {
    let name = "openai-responses/gpt-5";
    cut_everywhere(Vendor::Responses, name, answer(), "\"type\":\"response.completed\"").await;
}

#[tokio::test]
async fn an_openai_stream_cut_at_every_byte() {
    cut_everywhere(Vendor::OpenAi, "openai/gpt-5", answer(), "\"finish_reason\":\"tool_calls\"").await;
}
