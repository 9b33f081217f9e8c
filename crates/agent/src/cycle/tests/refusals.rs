//! Requests that a vendor refuses are cut, rebuilt, or counted as a failure of the content.

use super::*;
use crate::entry::EntryKind;
use crate::message::{ModelMessage, Native, Origin, Part, Role};

/// An activation after four earlier cycles, each of 100 tokens with a native block of one vendor.
fn with_history() -> Cycle {
    let mut activation = activation(vec![service(1, 0)]);
    let origin = Origin { wire: "w".into(), model: "m".into() };
    let native = Native { origin, body: "{}".into(), call_ids: Vec::new() };
    let parts = |text: &str| vec![Part::Text { text: text.into() }];
    let mut window = Vec::new();
    for n in 0..4u64 {
        let entry = |seq, kind, message| {
            let (cycle, step, tokens) = (CycleId(Uuid::from_u128(u128::from(n))), 0, 50);
            Arc::new(Entry { seq, cycle, step, kind, message, tokens, at: at(0), trust: Trust::Member })
        };
        let reply = ModelMessage { role: Role::Assistant, parts: parts("hm"), native: Some(native.clone()) };
        window.push(entry(n * 2 + 1, EntryKind::Inbox, ModelMessage::user("x")));
        window.push(entry(n * 2 + 2, EntryKind::Assistant, reply));
    }
    activation.life.head_seq = 8;
    activation.window = Window::Loaded(window);
    begin_with(activation)
}

fn refuse(cycle: &mut Cycle, error: ModelError) -> (Vec<Changes>, Next) {
    cycle.replied(Err(error), at(2_000));
    drive(cycle)
}

fn natives(next: &Next) -> Vec<bool> {
    let Next::Think(prompt) = next else { panic!("wanted another request, got {next:?}") };
    let assistants = prompt.items.iter().filter_map(|item| match item {
        Item::Entry(entry) if entry.kind == EntryKind::Assistant => Some(entry),
        _ => None,
    });
    assistants.map(|entry| entry.message.native.is_some()).collect()
}

#[test]
fn a_request_that_is_too_long_is_halved_and_sent_again_three_times_at_most() {
    let mut cycle = with_history();
    let (_, next) = drive(&mut cycle);
    assert_eq!(natives(&next).len(), 4);
    let too_long = || ModelError::TooLong("200000 tokens".into());
    for left in [2, 1, 0] {
        let (commits, next) = refuse(&mut cycle, too_long());
        assert_eq!(kinds(&commits), [], "before the first decision the stored view does not change");
        assert_eq!(natives(&next).len(), left);
    }
    let (commits, next) = refuse(&mut cycle, too_long());
    assert!(
        commits[0].blame && matches!(next, Next::Finished(ActivationEnd::Parked { .. })),
        "the content's failure"
    );
    assert!(commits.iter().all(|changes| changes.view.is_none()));
    assert_eq!(cycle.into_warm().1.len(), 8, "the next activation sees the whole window again");
    let mut again = with_history();
    drive(&mut again);
    refuse(&mut again, too_long());
    refuse(&mut again, too_long());
    let (commits, _) = reply_with(&mut again, vec![text("now it fits")]);
    let step = &commits[0].run.as_ref().unwrap().steps[0];
    assert_eq!((step.cut, step.left_out, step.rebuilt), (2, 6, false), "the run records it");
    let view = commits[0].view.as_ref().map(|view| (view.rev, view.tail));
    assert_eq!(view, Some((1, 7)), "the decision stores the view that it was made from");
}

#[test]
fn an_invalid_request_is_rebuilt_once_and_then_counts_as_a_failure_of_the_content() {
    let mut cycle = with_history();
    drive(&mut cycle);
    let invalid = || ModelError::Invalid("400: no".into());
    let (commits, next) = refuse(&mut cycle, invalid());
    assert_eq!(kinds(&commits), [CommitKind::View]);
    let view = commits[0].view.as_ref().unwrap();
    assert_eq!((view.tail, view.reasoning_from, view.native_from), (1, 9, 9));
    assert_eq!(natives(&next), [false; 4], "no native block is sent again");
    let (commits, next) = refuse(&mut cycle, invalid());
    assert!(commits[0].blame && matches!(next, Next::Finished(ActivationEnd::Parked { .. })));
}

#[test]
fn without_history_a_refused_request_is_a_failure_of_the_content_at_once() {
    for error in [ModelError::Invalid("400".into()), ModelError::TooLong("long".into())] {
        let mut cycle = begin(vec![service(1, 0), service(2, 0)]);
        drive(&mut cycle);
        let (commits, _) = refuse(&mut cycle, error);
        assert_eq!(commits[0].kind, CommitKind::Close);
        assert!(commits[0].blame);
    }
}

#[test]
fn a_request_that_is_refused_again_after_it_was_rebuilt_fails_the_cycle() {
    let mut cycle = with_history();
    drive(&mut cycle);
    reply_with(&mut cycle, vec![call("note")]);
    let invalid = || ModelError::Invalid("400: no".into());
    let (commits, _) = refuse(&mut cycle, invalid());
    assert_eq!(kinds(&commits), [CommitKind::View]);
    let (_, next) = refuse(&mut cycle, invalid());
    assert_eq!(ended(&next).0, Ending::Failed);
}
