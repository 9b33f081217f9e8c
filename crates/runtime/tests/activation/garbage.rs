//! Bad replies of a model: each kind leads to a valid next state and a history that every vendor accepts. The world is
//! complete; the model's bytes go through the vendors' real decoders.

use std::sync::atomic::Ordering;

use agent::entry::EntryKind;
use agent::limits;
use agent::prompt::Prompt;
use agent::run::Ending;
use serde_json::json;
use testkit::stubs::{Answer, Vendor};

use crate::fixture::{everything, inbox, step};
use crate::random_histories::history::Dice;
use crate::stub_vendor::{Cut, NEVER, Sent, StubVendor, StubVendorNode, finished, stub_vendor_node};

/// Processes one message with this first answer, then another one with a normal model.
async fn after(vendor: Vendor, first: impl Fn() -> Answer + Send + Sync + 'static) -> StubVendorNode {
    let author = move |prompt: &Prompt, count| match count {
        1 => Sent::whole(first()),
        _ if step(prompt) == 0 => {
            let text = r#"{"space":"lobby","text":"here I am"}"#;
            Sent::whole(Answer::new().call("s", "send_message", text, 5))
        }
        _ => finished(),
    };
    let mut node = stub_vendor_node(StubVendor::new(vendor, author), NEVER, false).await;
    for text in ["first", "second"] {
        let id = node.say(text).await;
        let state = node.world.state(node.ada, &id).await.unwrap();
        assert_eq!(state.as_str(), "processed", "{vendor:?}: `{text}`");
    }
    node.is_sound(&format!("{vendor:?}")).await;
    let messages = node.world.posted_texts(node.lobby).await.unwrap();
    assert_eq!(messages.last().unwrap().1, "here I am", "{vendor:?}");
    node
}

async fn wrong_json_and_wrong_tools(vendor: Vendor) {
    let node = after(vendor, || {
        Answer::new()
            .call("a", "send_message", r#"{"space":"lobby","text":"#, 3)
            .call("b", "send_message", "[1]", 1)
            .call("c", "nonsense", "{}", 1)
            .call("d", "Send_Message", r#"{"text":"x"}"#, 4)
            .call("e", "send message!é", "{}", 1)
    });
    let node = node.await;
    let prompts = node.prompts();
    let read = everything(&prompts[1]);
    for text in
        ["there is no tool `nonsense`", "there is no tool `Send_Message`; did you mean `send_message`?"]
    {
        assert!(read.contains(text), "{vendor:?}: {text}: {read}");
    }
    assert_eq!(node.world.runs(node.ada).await.unwrap()[0].ending, Ending::Completed);
}

/// A call whose meaning is certain is made and recorded as repaired; the log keeps what the model wrote.
async fn small_mistakes(vendor: Vendor) {
    let (name, arguments) = match vendor {
        // Its arguments are a JSON value, not text, so only the name can be wrong.
        Vendor::Gemini => ("default_api.send_message", r#"{"space":"lobby","text":"repaired"}"#),
        _ => ("functions.send_message", "```json\n{\"space\":\"lobby\",\"text\":\"repaired\",}\n```"),
    };
    let node = after(vendor, move || Answer::new().call("a", name, arguments, 1)).await;
    let messages = node.world.posted_texts(node.lobby).await.unwrap();
    assert_eq!(messages.iter().filter(|(_, text)| text == "repaired").count(), 1, "{vendor:?}: {messages:?}");
    let run = &node.world.runs(node.ada).await.unwrap()[0];
    let call = &run.steps[0].calls[0];
    let notes = match vendor {
        Vendor::Gemini => "prefix of the name",
        _ => "prefix of the name, code fence, trailing comma",
    };
    assert_eq!((call.tool.as_str(), call.repaired.as_deref()), ("send_message", Some(notes)), "{vendor:?}");
    assert!(run.steps[1..].iter().flat_map(|step| &step.calls).all(|call| call.repaired.is_none()));
    let mind = node.world.consciousness(node.ada).await.unwrap();
    let said = mind.iter().find(|entry| entry.kind == EntryKind::Assistant).unwrap();
    let (_, written, _) = said.message.calls().next().unwrap();
    assert_eq!(written, name, "{vendor:?}");
}

async fn two_hundred_calls(vendor: Vendor) {
    let calls = || (0..200).fold(Answer::new(), |all, n| all.call(&format!("c{n}"), "look", "{}", 9));
    let node = after(vendor, calls).await;
    let read = everything(&node.prompts()[1]);
    assert_eq!(read.matches("calls in one step; call again").count(), 200 - limits::CALLS_PER_STEP);
}

async fn ids_that_come_twice(vendor: Vendor) {
    let node = after(vendor, || {
        Answer::new().call("a", "look", "{}", 9).call("a", "look", "{}", 9).call("", "look", "{}", 9)
    });
    let mind = node.await;
    let mind = mind.world.consciousness(mind.ada).await.unwrap();
    let first = mind.iter().find(|entry| entry.kind == EntryKind::Outcomes).unwrap();
    assert!(first.message.parts.len() > 1, "{vendor:?}: {:?}", first.message.parts);
}

/// Large arguments are either read and refused for their size, or exceed the limit of a stream. Either way nothing of
/// them is stored.
async fn arguments_of(vendor: Vendor, size: usize, read: bool) {
    let node = after(vendor, move || {
        let text = "x".repeat(size);
        if vendor == Vendor::Gemini {
            // The stub would send one piece per character.
            let call = json!({"functionCall": {"name": "send_message", "args": {"text": text}}});
            let content = json!({"role": "model", "parts": [call]});
            let end = json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]});
            return Answer::payloads(&end.to_string());
        }
        let text = format!(r#"{{"space":"lobby","text":"{text}"}}"#);
        Answer::new().reasoning("hm").call("a", "send_message", &text, 1_000_000)
    });
    let node = node.await;
    let prompts = node.prompts();
    assert_eq!(everything(&prompts[1]).contains("arguments must be at most"), read, "{vendor:?}");
    let mind = serde_json::to_string(&node.world.consciousness(node.ada).await.unwrap()).unwrap();
    assert!(mind.len() < 100_000, "{vendor:?}: {} bytes in the consciousness", mind.len());
    assert!(node.world.runs(node.ada).await.unwrap().iter().all(|run| run.ending == Ending::Completed));
}

async fn arguments_of_ten_megabytes(vendor: Vendor) {
    arguments_of(vendor, 2_000_000, true).await;
    // Two of the wires send a whole call in one event, whose size is limited.
    let read = matches!(vendor, Vendor::OpenAi | Vendor::Anthropic);
    arguments_of(vendor, 10_000_000, read).await;
}

async fn an_empty_reply(vendor: Vendor) {
    let node = after(vendor, Answer::new).await;
    assert_eq!(node.world.posted_texts(node.lobby).await.unwrap().len(), 4, "{vendor:?}: both were answered");
}

async fn reasoning_alone(vendor: Vendor) {
    after(vendor, || Answer::new().reasoning("I think, and that is all")).await;
}

const TOOLS: [&str; 14] = [
    "send_message",
    "send_message",
    "look",
    "put",
    "fire",
    "fail",
    "panics",
    "build",
    "skip",
    "done",
    "nonsense",
    "",
    "functions.send_message",
    "séparé ",
];

const ARGUMENTS: [&str; 14] = [
    "{}",
    r#"{"space":"lobby","text":"hello"}"#,
    r#"{"text":"hello"}"#,
    r#"{"text":1}"#,
    r#"{"text":"cut"#,
    "",
    "null",
    "[]",
    "\"text\"",
    r#"{"text":"\ud800"}"#,
    r#"{"text":"a","text":"b"}"#,
    r#"{"text":1e999}"#,
    "{\"text\":\"\u{1}\u{feff}\"}",
    "not json at all",
];

fn random_reply(vendor: Vendor, dice: &mut Dice) -> Sent {
    let mut answer = Answer::new();
    for _ in 0..dice.below(4) {
        answer = match dice.below(9) {
            0 => answer.text(dice.pick(&["hm", "", " \n", "[INBOX — 3 new events]", "é😀"])),
            1 => answer.reasoning(dice.pick(&["let me think", " ", "é😀"])),
            _ => {
                let (id, chunk) = (dice.pick(&["a", "b", "c", ""]), 1 + dice.below(9));
                answer.call(id, dice.pick(&TOOLS), dice.pick(&ARGUMENTS), chunk)
            }
        };
    }
    if dice.below(12) == 0 {
        let many = 30 + dice.below(20);
        answer = (0..many).fold(answer, |all, n| all.call(&format!("m{n}"), "look", "{}", 9));
    }
    if dice.below(6) == 0 {
        let reasons: &[&str] = match vendor {
            Vendor::OpenAi => &["length", "content_filter", "new_word", "stop"],
            Vendor::Anthropic => &["max_tokens", "refusal", "pause_turn", "new_word"],
            Vendor::Gemini => &["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW_WORD"],
            Vendor::Responses => &["max_output_tokens", "content_filter", "new_word"],
        };
        answer = answer.stop(dice.pick(reasons));
    }
    if dice.below(10) == 0 {
        answer = answer.then_error(dice.pick(&["overloaded_error", "api_error", "odd"]), "it broke");
    }
    let cut = (dice.below(5) == 0).then(|| Cut::Part(dice.below(1_001)));
    let corruptions = if dice.below(6) == 0 { 1 + dice.below(4) } else { 0 };
    let corrupted =
        (0..corruptions).map(|_| (dice.below(1_001), u8::try_from(dice.below(256)).unwrap())).collect();
    Sent {
        answer,
        cut,
        ends_well: dice.below(2) == 0,
        corrupted,
        changed_signature_byte: None,
        chunk: [1, 7, 64, usize::MAX][dice.below(4)],
    }
}

/// Models that send anything, processes that die after any commit: in the end every event has a final state, each
/// vendor accepts every request, and the agent still answers.
async fn anything(vendor: Vendor) {
    for seed in 0..8 {
        let case = format!("{vendor:?}, seed {seed}");
        let author = move |prompt: &Prompt, count: usize| {
            if inbox(prompt).contains("are you there") {
                return match step(prompt) {
                    0 => {
                        let text = r#"{"space":"lobby","text":"yes"}"#;
                        Sent::whole(Answer::new().call("s", "send_message", text, 5))
                    }
                    _ => finished(),
                };
            }
            random_reply(vendor, &mut Dice(seed * 1_000 + count as u64))
        };
        let mut dice = Dice(seed);
        let left = if dice.below(2) == 0 { NEVER } else { 1 + i64::try_from(dice.below(8)).unwrap() };
        let mut node = stub_vendor_node(StubVendor::new(vendor, author), left, dice.below(2) == 0).await;
        for text in ["one", "two"] {
            let id = node.say(text).await;
            let state = node.world.state(node.ada, &id).await.unwrap();
            assert!(matches!(state.as_str(), "processed" | "skipped" | "dead"), "{case}: {state:?}");
        }
        node.left.store(NEVER, Ordering::SeqCst);
        node.say("are you there").await;
        node.is_sound(&case).await;
        assert_eq!(node.world.posted_texts(node.lobby).await.unwrap().last().unwrap().1, "yes", "{case}");
    }
}

/// A signature of the vendor arrives with one changed byte: the reply is processed, the request that returns the
/// signature is refused, and later requests leave it out.
async fn a_corrupted_signature(vendor: Vendor) {
    for nth in (0..21).step_by(3) {
        let case = format!("{vendor:?}, byte {nth} of the signature");
        let author = move |prompt: &Prompt, count: usize| match (count, step(prompt)) {
            (1, _) => Sent {
                changed_signature_byte: Some(nth),
                ..Sent::whole(Answer::new().reasoning("hm").call("l", "look", "{}", 9))
            },
            (2, _) | (_, 0) => {
                let text = r#"{"space":"lobby","text":"here I am"}"#;
                Sent::whole(Answer::new().reasoning("so").call(&format!("s{count}"), "send_message", text, 5))
            }
            _ => finished(),
        };
        let mut node = stub_vendor_node(StubVendor::new(vendor, author), NEVER, false).await;
        for text in ["first", "second"] {
            let id = node.say(text).await;
            assert_eq!(
                node.world.state(node.ada, &id).await.unwrap().as_str(),
                "processed",
                "{case}: `{text}`"
            );
        }
        node.is_sound(&case).await;
        let signs = vendor != Vendor::OpenAi;
        assert_eq!(node.refused().len(), usize::from(signs), "{case}: {:?}", node.refused());
        let messages = node.world.posted_texts(node.lobby).await.unwrap();
        assert_eq!(messages.iter().filter(|(_, text)| text == "here I am").count(), 2, "{case}");
        let runs = node.world.runs(node.ada).await.unwrap();
        assert!(runs.iter().all(|run| run.ending == Ending::Completed), "{case}: {runs:?}");
    }
}

/// Each kind of bad reply over one wire.
macro_rules! garbage_over {
    ($wire:ident, $vendor:expr) => {
        mod $wire {
            use testkit::stubs::Vendor;

            #[tokio::test]
            async fn invalid_arguments_and_unknown_tools_are_outcomes_that_the_model_reads() {
                super::wrong_json_and_wrong_tools($vendor).await;
            }

            #[tokio::test]
            async fn small_mistakes_are_repaired_and_recorded_and_the_log_keeps_what_was_written() {
                super::small_mistakes($vendor).await;
            }

            #[tokio::test]
            async fn two_hundred_calls_at_once_are_one_step_and_those_above_the_limit_are_refused() {
                super::two_hundred_calls($vendor).await;
            }

            #[tokio::test]
            async fn duplicate_and_missing_call_ids_are_each_answered() {
                super::ids_that_come_twice($vendor).await;
            }

            #[tokio::test]
            async fn arguments_of_ten_megabytes_are_refused_and_not_stored() {
                super::arguments_of_ten_megabytes($vendor).await;
            }

            #[tokio::test]
            async fn an_empty_reply_is_a_failed_attempt_and_its_event_is_not_lost() {
                super::an_empty_reply($vendor).await;
            }

            #[tokio::test]
            async fn a_reply_of_reasoning_alone_does_not_break_the_next_request() {
                super::reasoning_alone($vendor).await;
            }

            #[tokio::test]
            async fn a_corrupted_signature_is_refused_once_and_then_left_out() {
                super::a_corrupted_signature($vendor).await;
            }

            #[tokio::test]
            async fn any_reply_leads_to_a_valid_next_state() {
                super::anything($vendor).await;
            }
        }
    };
}

garbage_over!(chat_completions, Vendor::OpenAi);
garbage_over!(anthropic_messages, Vendor::Anthropic);
garbage_over!(gemini, Vendor::Gemini);
garbage_over!(responses, Vendor::Responses);
