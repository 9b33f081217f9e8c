//! Reports of stories that do not go as expected or do not end.

use crate::stage::{file, played, shown};

const HELLO: &str = "  - husam says in lobby: hello there\n";
const SCRIPT: &str = "      - when: hello\n        say: good morning, husam\n";

#[tokio::test]
async fn an_unmet_expectation_shows_what_came_nearest() {
    let expect = "  - ada said in lobby: Good evening\n  - ada did not say in lobby: morning\n  \
                  - ada called read_messages\n  - ada ran cycles: at least 2\n  \
                  - lobby heard: [husam, {ada: evening}]\n  - ada remembers name\n";
    let outcome = played(&file(SCRIPT, HELLO, expect)).await;
    let reported: Vec<String> = outcome
        .unmet
        .iter()
        .map(|unmet| format!("{}: wanted {}, got {}", unmet.line, unmet.wanted, unmet.got))
        .collect();
    assert_eq!(
        reported,
        [
            "13: wanted a message of `ada` in `lobby` with `Good evening` in it, got 1 there, none of them matches",
            "14: wanted no message of `ada` in `lobby` with `morning` in it, got 1 of 1 there match: \
             `good morning, husam`",
            "15: wanted at least 1 calls of `read_messages`, got none; it called `send_message`, `done`",
            "16: wanted at least 2 cycles, got 1",
            "17: wanted message 2 by `ada` with `evening` in it, got message 2 by `ada`: `good morning, husam`",
            "18: wanted a memory `name`, got no memories",
        ]
    );
    let first = &outcome.unmet[0];
    assert_eq!(first.example.as_deref(), Some("Good evening"));
    assert_eq!(first.nearest.as_deref(), Some("good morning, husam"));
    assert!(!outcome.passed() && !outcome.transcript.is_empty());
}

#[tokio::test]
async fn a_message_without_a_matching_rule_is_skipped_with_a_reason() {
    let story = "  - husam says in lobby: something else\n";
    let outcome = played(&file(SCRIPT, story, "  - ada said in lobby\n")).await;
    assert_eq!(outcome.unmet[0].got, "`ada` posted nothing");
    assert!(shown(&outcome.transcript).contains(&"0 ada skips: no rule of its script fits".to_owned()));
}

#[tokio::test]
async fn a_script_that_never_answers_aborts_the_story() {
    let script = "      - wait: 12h\n        say: at last\n";
    let outcome = played(&file(script, HELLO, "  - ada said in lobby\n")).await;
    let why = outcome.broken_off.unwrap();
    assert!(why.starts_with("not everyone was quiet within 3600 s; `ada`: 1 event waits"), "{why}");
    assert!(outcome.unmet.is_empty() && outcome.transcript.len() == 1);
}

#[tokio::test]
async fn a_script_that_never_ends_is_stopped_by_the_limits_of_a_cycle() {
    let steps = "          - call read_messages\n".repeat(40);
    let script = format!("      - steps:\n{steps}");
    let outcome =
        played(&file(&script, HELLO, "  - ada ran cycles: [{ended: exhausted, steps: 20}]\n")).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.unmet, outcome.broken_off);
}

#[tokio::test]
async fn an_impossible_event_aborts_the_story_with_its_line() {
    let outcome = played(&file(SCRIPT, "  - ada is canceled\n", "  - ada did not skip\n")).await;
    let why = outcome.broken_off.unwrap();
    assert!(why.starts_with("line 11: the agent"), "{why}");
}

#[tokio::test]
async fn a_failed_call_is_in_the_transcript() {
    let script = "      - call send_message: {space: nowhere, text: hi}\n";
    let outcome = played(&file(script, HELLO, "  - ada called send_message: {with: nowhere}\n")).await;
    assert!(outcome.passed(), "{:?}", outcome.unmet);
    assert!(shown(&outcome.transcript).contains(&"100 ada send_message failed".to_owned()));
}
