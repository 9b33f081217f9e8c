//! Whatever a model sends: each kind of garbage ends in a right next state and a history that every
//! vendor takes back. The world is whole; the model's bytes go through the vendors' own code.

use std::sync::atomic::Ordering;

use agent::entry::EntryKind;
use agent::limits;
use agent::prompt::Prompt;
use agent::run::Ending;
use serde_json::json;
use testkit::stubs::{Answer, Vendor};

use crate::lives::life::Dice;
use crate::play::{everything, inbox, step};
use crate::wired::{Cut, NEVER, Sent, Wired, WiredNode, finished, house};

/// Lives one message with this first answer, then one more with a sane model.
async fn after(vendor: Vendor, first: impl Fn() -> Answer + Send + Sync + 'static) -> WiredNode {
    let author = move |prompt: &Prompt, count| match count {
        1 => Sent::whole(first()),
        _ if step(prompt) == 0 => {
            let text = r#"{"space":"lobby","text":"here I am"}"#;
            Sent::whole(Answer::new().call("s", "send_message", text, 5))
        }
        _ => finished(),
    };
    let mut house = house(Wired::new(vendor, author), NEVER, false).await;
    for text in ["first", "second"] {
        let id = house.say(text).await;
        let state = house.world.state(house.ada, &id).await.unwrap();
        assert_eq!(state.as_str(), "processed", "{vendor:?}: `{text}`");
    }
    house.is_sound(&format!("{vendor:?}")).await;
    let heard = house.world.heard(house.lobby).await.unwrap();
    assert_eq!(heard.last().unwrap().1, "here I am", "{vendor:?}");
    house
}

async fn wrong_json_and_wrong_tools(vendor: Vendor) {
    let house = after(vendor, || {
        Answer::new()
            .call("a", "send_message", r#"{"space":"lobby","text":"#, 3)
            .call("b", "send_message", "[1]", 1)
            .call("c", "nonsense", "{}", 1)
            .call("d", "Send_Message", r#"{"text":"x"}"#, 4)
            .call("e", "send message!é", "{}", 1)
    });
    let house = house.await;
    let prompts = house.prompts();
    let read = everything(&prompts[1]);
    for words in
        ["there is no tool `nonsense`", "there is no tool `Send_Message`; did you mean `send_message`?"]
    {
        assert!(read.contains(words), "{vendor:?}: {words}: {read}");
    }
    assert_eq!(house.world.runs(house.ada).await.unwrap()[0].ending, Ending::Completed);
}

/// What is surely meant is done and said to be repaired; the log keeps what the model wrote.
async fn small_slips(vendor: Vendor) {
    let (name, arguments) = match vendor {
        // Its arguments are no text, so they cannot be written wrong.
        Vendor::Gemini => ("default_api.send_message", r#"{"space":"lobby","text":"mended"}"#),
        _ => ("functions.send_message", "```json\n{\"space\":\"lobby\",\"text\":\"mended\",}\n```"),
    };
    let house = after(vendor, move || Answer::new().call("a", name, arguments, 1)).await;
    let heard = house.world.heard(house.lobby).await.unwrap();
    assert_eq!(heard.iter().filter(|(_, text)| text == "mended").count(), 1, "{vendor:?}: {heard:?}");
    let run = &house.world.runs(house.ada).await.unwrap()[0];
    let call = &run.steps[0].calls[0];
    let notes = match vendor {
        Vendor::Gemini => "prefix of the name",
        _ => "prefix of the name, code fence, trailing comma",
    };
    assert_eq!((call.tool.as_str(), call.repaired.as_deref()), ("send_message", Some(notes)), "{vendor:?}");
    assert!(run.steps[1..].iter().flat_map(|step| &step.calls).all(|call| call.repaired.is_none()));
    let mind = house.world.mind(house.ada).await.unwrap();
    let said = mind.iter().find(|entry| entry.kind == EntryKind::Assistant).unwrap();
    let (_, written, _) = said.message.calls().next().unwrap();
    assert_eq!(written, name, "{vendor:?}");
}

async fn two_hundred_calls(vendor: Vendor) {
    let calls = || (0..200).fold(Answer::new(), |all, n| all.call(&format!("c{n}"), "look", "{}", 9));
    let house = after(vendor, calls).await;
    let read = everything(&house.prompts()[1]);
    assert_eq!(read.matches("calls in one step; call again").count(), 200 - limits::CALLS_PER_STEP);
}

async fn ids_that_come_twice(vendor: Vendor) {
    let house = after(vendor, || {
        Answer::new().call("a", "look", "{}", 9).call("a", "look", "{}", 9).call("", "look", "{}", 9)
    });
    let mind = house.await;
    let mind = mind.world.mind(mind.ada).await.unwrap();
    let first = mind.iter().find(|entry| entry.kind == EntryKind::Outcomes).unwrap();
    assert!(first.message.parts.len() > 1, "{vendor:?}: {:?}", first.message.parts);
}

/// Whether they are still read (and refused for their size) or are more than a stream may hold, nothing of
/// them stays.
async fn arguments_of(vendor: Vendor, size: usize, read: bool) {
    let house = after(vendor, move || {
        let text = "x".repeat(size);
        if vendor == Vendor::Gemini {
            // Its stub would send a piece per character.
            let call = json!({"functionCall": {"name": "send_message", "args": {"text": text}}});
            let content = json!({"role": "model", "parts": [call]});
            let end = json!({"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]});
            return Answer::payloads(&end.to_string());
        }
        let text = format!(r#"{{"space":"lobby","text":"{text}"}}"#);
        Answer::new().reasoning("hm").call("a", "send_message", &text, 1_000_000)
    });
    let house = house.await;
    let prompts = house.prompts();
    assert_eq!(everything(&prompts[1]).contains("bytes are accepted"), read, "{vendor:?}");
    let mind = serde_json::to_string(&house.world.mind(house.ada).await.unwrap()).unwrap();
    assert!(mind.len() < 100_000, "{vendor:?}: {} bytes in the consciousness", mind.len());
    assert!(house.world.runs(house.ada).await.unwrap().iter().all(|run| run.ending == Ending::Completed));
}

async fn arguments_of_ten_megabytes(vendor: Vendor) {
    arguments_of(vendor, 2_000_000, true).await;
    // Two of the wires send a whole call in one event, which is bounded.
    let read = matches!(vendor, Vendor::OpenAi | Vendor::Anthropic);
    arguments_of(vendor, 10_000_000, read).await;
}

async fn an_empty_reply(vendor: Vendor) {
    let house = after(vendor, Answer::new).await;
    assert_eq!(house.world.heard(house.lobby).await.unwrap().len(), 4, "{vendor:?}: both were answered");
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

fn chance(vendor: Vendor, dice: &mut Dice) -> Sent {
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
        let words: &[&str] = match vendor {
            Vendor::OpenAi => &["length", "content_filter", "new_word", "stop"],
            Vendor::Anthropic => &["max_tokens", "refusal", "pause_turn", "new_word"],
            Vendor::Gemini => &["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW_WORD"],
            Vendor::Responses => &["max_output_tokens", "content_filter", "new_word"],
        };
        answer = answer.stop(dice.pick(words));
    }
    if dice.below(10) == 0 {
        answer = answer.then_error(dice.pick(&["overloaded_error", "api_error", "odd"]), "it broke");
    }
    let cut = (dice.below(5) == 0).then(|| Cut::Part(dice.below(1_001)));
    let spoils = if dice.below(6) == 0 { 1 + dice.below(4) } else { 0 };
    let spoiled = (0..spoils).map(|_| (dice.below(1_001), u8::try_from(dice.below(256)).unwrap())).collect();
    Sent {
        answer,
        cut,
        ends_well: dice.below(2) == 0,
        spoiled,
        unsealed: None,
        chunk: [1, 7, 64, usize::MAX][dice.below(4)],
    }
}

/// Models that send anything, processes that die after any commit: in the end every event has its
/// fate, every request on the way was one that each vendor takes, and the agent lives.
async fn anything(vendor: Vendor) {
    for seed in 0..8 {
        let place = format!("{vendor:?}, seed {seed}");
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
            chance(vendor, &mut Dice(seed * 1_000 + count as u64))
        };
        let mut dice = Dice(seed);
        let left = if dice.below(2) == 0 { NEVER } else { 1 + i64::try_from(dice.below(8)).unwrap() };
        let mut house = house(Wired::new(vendor, author), left, dice.below(2) == 0).await;
        for text in ["one", "two"] {
            let id = house.say(text).await;
            let state = house.world.state(house.ada, &id).await.unwrap();
            assert!(matches!(state.as_str(), "processed" | "skipped" | "dead"), "{place}: {state:?}");
        }
        house.left.store(NEVER, Ordering::SeqCst);
        house.say("are you there").await;
        house.is_sound(&place).await;
        assert_eq!(house.world.heard(house.lobby).await.unwrap().last().unwrap().1, "yes", "{place}");
    }
}

/// What a vendor signed arrives with one byte that is another: it is processed, refused when it is sent back, and
/// from then on the transcript goes without it.
async fn a_spoiled_seal(vendor: Vendor) {
    for nth in (0..21).step_by(3) {
        let place = format!("{vendor:?}, byte {nth} of the seal");
        let author = move |prompt: &Prompt, count: usize| match (count, step(prompt)) {
            (1, _) => Sent {
                unsealed: Some(nth),
                ..Sent::whole(Answer::new().reasoning("hm").call("l", "look", "{}", 9))
            },
            (2, _) | (_, 0) => {
                let text = r#"{"space":"lobby","text":"here I am"}"#;
                Sent::whole(Answer::new().reasoning("so").call(&format!("s{count}"), "send_message", text, 5))
            }
            _ => finished(),
        };
        let mut house = house(Wired::new(vendor, author), NEVER, false).await;
        for text in ["first", "second"] {
            let id = house.say(text).await;
            assert_eq!(
                house.world.state(house.ada, &id).await.unwrap().as_str(),
                "processed",
                "{place}: `{text}`"
            );
        }
        house.is_sound(&place).await;
        let signs = vendor != Vendor::OpenAi;
        assert_eq!(house.refused().len(), usize::from(signs), "{place}: {:?}", house.refused());
        let heard = house.world.heard(house.lobby).await.unwrap();
        assert_eq!(heard.iter().filter(|(_, text)| text == "here I am").count(), 2, "{place}");
        let runs = house.world.runs(house.ada).await.unwrap();
        assert!(runs.iter().all(|run| run.ending == Ending::Completed), "{place}: {runs:?}");
    }
}

/// Each kind of garbage over one wire.
macro_rules! garbage_over {
    ($wire:ident, $vendor:expr) => {
        mod $wire {
            use testkit::stubs::Vendor;

            #[tokio::test]
            async fn wrong_json_and_unknown_or_shadowed_tools_are_outcomes_that_the_model_reads() {
                super::wrong_json_and_wrong_tools($vendor).await;
            }

            #[tokio::test]
            async fn small_slips_are_repaired_and_told_and_the_log_keeps_what_was_written() {
                super::small_slips($vendor).await;
            }

            #[tokio::test]
            async fn two_hundred_calls_at_once_are_one_step_and_those_above_the_bound_are_refused() {
                super::two_hundred_calls($vendor).await;
            }

            #[tokio::test]
            async fn ids_that_come_twice_or_not_at_all_are_answered_each() {
                super::ids_that_come_twice($vendor).await;
            }

            #[tokio::test]
            async fn arguments_of_ten_megabytes_are_refused_and_stay_nowhere() {
                super::arguments_of_ten_megabytes($vendor).await;
            }

            #[tokio::test]
            async fn an_empty_reply_is_a_failed_attempt_and_its_event_is_not_lost() {
                super::an_empty_reply($vendor).await;
            }

            #[tokio::test]
            async fn a_reply_of_reasoning_alone_is_no_answer_that_breaks_the_next_request() {
                super::reasoning_alone($vendor).await;
            }

            #[tokio::test]
            async fn a_seal_that_was_spoiled_is_refused_once_and_left_out() {
                super::a_spoiled_seal($vendor).await;
            }

            #[tokio::test]
            async fn anything_at_all_ends_in_a_right_next_state() {
                super::anything($vendor).await;
            }
        }
    };
}

garbage_over!(chat_completions, Vendor::OpenAi);
garbage_over!(anthropic_messages, Vendor::Anthropic);
garbage_over!(gemini, Vendor::Gemini);
garbage_over!(responses, Vendor::Responses);
