//! Stories: what they can do, and that they run the same way every time.

use crate::stage::{file, played, shown};

const HELLO: &str = "  - husam says in lobby: hello there\n";

#[tokio::test]
async fn a_story_runs_the_same_way_every_time() {
    let script = "      - when: hello\n        steps:\n          - think: who is that?\n            \
                  call read_messages:\n          - say: good morning\n            wait: 2s\n";
    let text = file(script, HELLO, "  - ada said in lobby: good morning\n");
    let (first, second) = (played(&text).await, played(&text).await);
    assert!(first.passed(), "{first:?}");
    assert_eq!(first.transcript, second.transcript);
    assert_eq!(
        shown(&first.transcript),
        [
            "0 husam says hello there",
            "100 ada thinks who is that?",
            "100 ada calls read_messages {}",
            "2100 ada says good morning",
            "2200 ada cycle 1: 1 event, 3 steps",
        ]
    );
    assert_eq!((first.cycles, first.tokens), (1, second.tokens));
}

#[tokio::test]
async fn messages_of_one_moment_are_processed_together() {
    let script = "      - say: all of you\n";
    let story = "  - at: 1s\n    husam says in lobby: one\n  - after: 0s\n    husam says in lobby: two\n  \
                 - after: 1ms\n    husam says in lobby: three\n";
    let file = file(script, story, "  - ada ran cycles: [{events: 2}, {events: 1}]\n");
    let outcome = played(&file.replace("    script:", "    awareness: none\n    script:")).await;
    assert!(outcome.passed(), "{:?}", outcome.unmet);
}

#[tokio::test]
async fn agents_are_suspended_resumed_and_canceled() {
    let script = "      - when: {inbox: slow, cycle: 1}\n        steps:\n          - wait: 1m\n            \
                  say: too late\n      - say: here\n";
    let story = "  - husam says in lobby: slow\n  - after: 5s\n    ada is canceled:\n  - ada is suspended\n  \
                 - husam says in lobby: hello?\n  - everyone is quiet\n  - after: 1h\n    ada is resumed:\n";
    let expect = "  - lobby heard:\n      - husam: slow\n      - husam: hello\n      - ada: here\n  \
                  - ada ran cycles: [{ended: completed}, {ended: canceled}]\n";
    let outcome = played(&file(script, story, expect)).await;
    // Whether the canceled cycle has a run depends on how far it came, so the expectations are not checked.
    assert!(outcome.broken_off.is_none(), "{:?}", outcome.broken_off);
    let lines = shown(&outcome.transcript);
    assert!(lines.contains(&"5000 - ada is canceled".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("too late")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("ada says here")), "{lines:?}");
}

#[tokio::test]
async fn members_join_and_leave() {
    let script = "      - say: welcome\n";
    let story = "  - husam leaves lobby\n  - husam joins lobby\n  - husam says in lobby: me again\n";
    let outcome = played(&file(script, story, "  - lobby heard: [husam, ada]\n")).await;
    assert!(outcome.passed(), "{:?}", outcome.unmet);
}

#[tokio::test]
async fn a_cycle_continues_after_the_server_dies() {
    let script =
        "      - steps:\n          - call read_messages\n          - wait: 10s\n            say: done it\n";
    let story = "  - id: first\n    husam says in lobby: do it\n  - after: 3s\n    the server is killed:\n  \
                 - the server starts\n";
    let expect = "  - ada called read_messages: 1\n  - ada said in lobby: {equals: done it, times: 1}\n  \
                  - ada ran cycles: 1\n  - ada processed ids: [first]\n";
    let outcome = played(&file(script, story, expect)).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.unmet, shown(&outcome.transcript));
}

#[tokio::test]
async fn idle_time_is_skipped_and_everything_due_happens_in_time() {
    let script = "      - say: here\n";
    let story = "  - husam says in lobby: hello\n  - at: 10d\n    husam says in lobby: hello\n  - at: 30d\n    \
                 husam says in lobby: bye\n";
    let started = std::time::Instant::now();
    let outcome = played(&file(script, story, "  - ada ran cycles: 3\n")).await;
    assert!(outcome.passed(), "{:?} {:?}", outcome.broken_off, outcome.unmet);
    let lines = shown(&outcome.transcript);
    assert!(lines.contains(&"864000000 husam says hello".to_owned()), "{lines:?}");
    assert!(lines.contains(&"2592000100 ada says here".to_owned()), "{lines:?}");
    // Without skipping idle sweeps it would take minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_message_that_is_sent_again_with_its_id_is_processed_once() {
    let script = "      - say: got it\n";
    let story = "  - id: m1\n    husam says in lobby: once\n".repeat(3);
    let expect = "  - ada ran cycles: 1\n  - ada processed ids: m1\n  - lobby heard: [husam, ada]\n";
    let outcome = played(&file(script, &story, expect)).await;
    assert!(outcome.passed(), "{:?}", outcome.unmet);
}
