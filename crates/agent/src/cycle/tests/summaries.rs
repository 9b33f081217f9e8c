//! When the history is summarized, by whom, and what a failing summariser costs.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::entry::{Compaction, SummaryMethod, UnusableSummaries};
use crate::id::CallId;
use crate::message::{ModelMessage, Part, Role};
use crate::port::ModelError;
use crate::prompt::Item;

/// An agent with so many earlier cycles of two entries each, of so many tokens.
fn with_history(cycles: u64, tokens: u32, config: &Value) -> Activation {
    let entry = |seq: u64, kind, role| {
        let message = ModelMessage {
            role,
            parts: vec![Part::Text { text: format!("1. [space home] Mira (@mira, human): \"fact {seq}\"") }],
            native: None,
        };
        let cycle = CycleId(Uuid::from_u128(1_000 + u128::from(seq.div_ceil(2))));
        Arc::new(Entry { seq, cycle, step: 0, kind, message, tokens, at: at(0), trust: Trust::Member })
    };
    let window = (1..=cycles * 2).map(|seq| match seq % 2 {
        1 => entry(seq, EntryKind::Inbox, Role::User),
        _ => entry(seq, EntryKind::Assistant, Role::Assistant),
    });
    let before = activation(vec![service(1, 0)]);
    Activation {
        life: Life { head_seq: cycles * 2, cycles, ..before.life },
        config: Arc::new(AgentConfig::from_json(config).unwrap()),
        window: Window::Loaded(window.collect()),
        ..before
    }
}

/// The end of a cycle after these, which answered `said`, up to what comes after its decision.
fn after_a_cycle(cycles: u64, tokens: u32, said: &str, config: &Value) -> (Cycle, Next) {
    let mut cycle = begin_with(with_history(cycles, tokens, config));
    drive(&mut cycle);
    let (commits, next) = reply_with(&mut cycle, vec![text(said)]);
    assert_eq!(kinds(&commits)[..1], [CommitKind::Decide]);
    (cycle, next)
}

fn summary(written: &str) -> SummaryEnd {
    SummaryEnd::Replied(Box::new(Ok(reply(vec![text(written)]))))
}

fn request(next: Next) -> SummaryRequest {
    match next {
        Next::Summarize(request) => *request,
        other => panic!("wanted a request for a summary, got {other:?}"),
    }
}

/// The only commit that follows, its view, and the next request.
fn changed(cycle: &mut Cycle) -> (Changes, View, Next) {
    let (mut commits, next) = drive(cycle);
    assert_eq!(kinds(&commits), [CommitKind::View]);
    let view = commits[0].view.clone().unwrap();
    (commits.remove(0), view, next)
}

fn unreachable() -> SummaryEnd {
    SummaryEnd::Replied(Box::new(Err(ModelError::Auth(String::new()))))
}

#[test]
fn between_two_cycles_a_model_writes_the_summary_and_is_charged_to_the_agent() {
    let (mut cycle, next) = after_a_cycle(36, 950, &"word ".repeat(1_000), &json!({}));
    let request = request(next);
    assert!(request.may_wait && request.prompt.tools.is_empty());
    let Item::Layer(record) = &request.prompt.items[0] else { panic!("wanted the record") };
    assert!(record.contains("fact 1\"") && !record.contains("fact 71\""), "only what is left out");
    let mut written = reply(vec![text("## Facts\n- fact 1")]);
    written.reply.usage = Usage { input: Some(900), output: Some(20), ..Usage::default() };
    cycle.summarized(SummaryEnd::Replied(Box::new(Ok(written))), at(2_000));
    let (changes, view, next) = changed(&mut cycle);
    assert_eq!(ended(&next), (Ending::Completed, None));
    assert_eq!((changes.open, changes.usage.input, changes.run.is_none()), (None, Some(900), true));
    let compaction = view.compaction.unwrap();
    assert_eq!((compaction.method, compaction.model.as_deref()), (SummaryMethod::Model, Some("scripted")));
    assert_eq!((compaction.round, compaction.cycles.0), (1, 1));
    assert!(compaction.tokens_after < compaction.tokens_before * 3 / 4, "{compaction:?}");
    assert_eq!(view.summary.as_deref(), Some("## Facts\n- fact 1"));
}

#[test]
fn a_summary_that_may_wait_is_dropped_for_new_work_and_for_a_model_that_cannot_be_reached() {
    for end in [SummaryEnd::Dropped(None), unreachable()] {
        let (mut cycle, next) = after_a_cycle(36, 950, &"word ".repeat(1_000), &json!({}));
        request(next);
        cycle.summarized(end, at(2_000));
        let (commits, next) = drive(&mut cycle);
        assert_eq!((kinds(&commits), ended(&next).0), (vec![], Ending::Completed));
    }
}

#[test]
fn a_request_that_is_dropped_is_charged_to_the_agent() {
    for (cycles, long, view_changes) in [(36, 1_000, false), (40, 6_000, true)] {
        let (mut cycle, next) = after_a_cycle(cycles, 950, &"word ".repeat(long), &json!({}));
        let request = request(next);
        cycle.summarized(SummaryEnd::Dropped(Some(7)), at(2_000));
        let (commits, next) = drive(&mut cycle);
        assert_eq!((kinds(&commits), ended(&next).0), (vec![CommitKind::View], Ending::Completed));
        let Item::Layer(record) = &request.prompt.items[0] else { panic!("wanted the record") };
        let sent = crate::tokens::estimate(record) + crate::tokens::estimate(&request.prompt.system);
        let Usage { input, output, .. } = commits[0].usage;
        assert_eq!((input, output), (Some(u64::from(sent)), Some(7)));
        assert_eq!((commits[0].view.is_some(), commits[0].run.is_none()), (view_changes, true));
    }
    // What was answered unusably before is charged, too.
    let (mut cycle, next) = after_a_cycle(36, 950, &"word ".repeat(1_000), &json!({}));
    request(next);
    let mut unusable = reply(vec![text("")]);
    unusable.reply.usage = Usage { input: Some(900), output: Some(20), ..Usage::default() };
    cycle.summarized(SummaryEnd::Replied(Box::new(Ok(unusable))), at(2_000));
    request(cycle.next(at(2_000)));
    cycle.summarized(SummaryEnd::Dropped(None), at(2_000));
    assert_eq!(drive(&mut cycle).0[0].usage.input, Some(900));
}

#[test]
fn a_full_window_is_digested_if_no_usable_summary_comes() {
    let long = "x".repeat(limits::SUMMARY_MAX_BYTES + 1);
    let too_long = format!("wanted at most {} bytes, got {}", limits::SUMMARY_MAX_BYTES, long.len());
    let cases = [
        (unreachable(), 1, "auth"),
        (SummaryEnd::Dropped(None), 1, "new work came"),
        (summary(""), 2, "wanted the summary as text, got nothing"),
        (summary(&long), 2, &too_long),
    ];
    for (unusable, requests, why) in cases {
        let (mut cycle, mut next) = after_a_cycle(40, 950, &"word ".repeat(6_000), &json!({}));
        for _ in 0..requests {
            assert!(request(next).may_wait);
            cycle.summarized(unusable.clone(), at(2_000));
            next = cycle.next(at(2_000));
        }
        let (_, view, next) = changed(&mut cycle);
        assert_eq!(ended(&next).0, Ending::Completed);
        let compaction = view.compaction.unwrap();
        assert_eq!((compaction.method, compaction.refused.as_deref()), (SummaryMethod::Digest, Some(why)));
        assert!(view.summary.unwrap().contains("fact 1\""));
    }
}

#[test]
fn a_digest_without_time_for_a_model_says_so_and_is_no_failure_of_the_model() {
    for (config, why) in [
        (json!({}), Some("no time before the first step")),
        (json!({"history": {"summary": "digest"}}), None),
    ] {
        let mut cycle = begin_with(with_history(46, 950, &config));
        drive(&mut cycle);
        let (commits, _) = reply_with(&mut cycle, vec![text("done")]);
        assert_eq!(kinds(&commits)[..1], [CommitKind::Decide]);
        let compaction = commits[0].view.clone().unwrap().compaction.unwrap();
        assert_eq!((compaction.refused.as_deref(), compaction.failure()), (why, None));
    }
    let failed = unusable("scripted", 1).compaction.unwrap();
    assert_eq!(failed.failure(), Some("it was empty"));
}

#[test]
fn a_model_is_not_asked_for_a_summary_of_little_text() {
    let config = json!({"history": {"max_entries": 2}});
    for (tokens, asked) in [(400, false), (600, true)] {
        let view = View { summary: Some("## Facts\n- old".into()), ..View::whole() };
        let mut cycle = begin_with(Activation { view, ..with_history(1, tokens, &config) });
        drive(&mut cycle);
        let (_, next) = reply_with(&mut cycle, vec![text("done")]);
        assert_eq!(matches!(next, Next::Summarize(_)), asked, "{tokens}");
        if !asked {
            let Compaction { method, refused, .. } = cycle.log.view.compaction.clone().unwrap();
            assert_eq!((method, refused), (SummaryMethod::Digest, None));
            let summary = cycle.log.view.summary.clone().unwrap();
            assert!(summary.starts_with("## Facts\n- old\n\n## Earlier cycles\n"), "{summary}");
        }
    }
}

/// A view with a digest, after so many compactions in a row without a usable answer of that model.
fn unusable(model: &str, rounds: u32) -> View {
    let compaction = Compaction {
        round: 30,
        cycles: (1, 1),
        last: CycleId(Uuid::nil()),
        method: SummaryMethod::Digest,
        model: None,
        usage: Usage::default(),
        refused: Some("it was empty".into()),
        unusable: Some(UnusableSummaries { model: model.into(), rounds }),
        tokens_before: 9,
        tokens_after: 9,
        entries: 1,
    };
    View { summary: Some("## Facts\n- old".into()), compaction: Some(compaction), ..View::whole() }
}

#[test]
fn a_summarizer_without_usable_answers_is_asked_only_now_and_then() {
    let ask = |view: View, config: &Value| {
        let mut cycle = begin_with(Activation { view, ..with_history(40, 950, config) });
        drive(&mut cycle);
        let (_, next) = reply_with(&mut cycle, vec![text(&"word ".repeat(6_000))]);
        (cycle, next)
    };
    let mut asked = Vec::new();
    for before in 0..=16 {
        let (mut cycle, next) = ask(unusable("scripted", before), &json!({}));
        let view = match next {
            Next::Summarize(_) => {
                asked.push(before);
                for _ in 0..limits::SUMMARY_ATTEMPTS {
                    cycle.summarized(summary(""), at(2_000));
                    cycle.next(at(2_000));
                }
                changed(&mut cycle).1
            }
            _ => cycle.log.view.clone(),
        };
        let compaction = view.compaction.unwrap();
        assert_eq!(
            compaction.unusable,
            Some(UnusableSummaries { model: "scripted".into(), rounds: before + 1 })
        );
        let why = match asked.last() == Some(&before) {
            true => "wanted the summary as text, got nothing".to_owned(),
            false => format!("not asked: it had no usable answer for {before} compactions in a row"),
        };
        assert_eq!((compaction.method, compaction.refused), (SummaryMethod::Digest, Some(why)));
    }
    assert_eq!(asked, [0, 1, 2, 8, 16]);
    // A usable answer ends it, and another model begins anew.
    let (mut cycle, next) = ask(unusable("scripted", 8), &json!({}));
    request(next);
    cycle.summarized(summary("## Facts\n- new"), at(2_000));
    assert_eq!(changed(&mut cycle).1.compaction.unwrap().unusable, None);
    request(ask(unusable("another", 5), &json!({})).1);
}

#[test]
fn a_window_that_is_not_full_is_tried_once_so_that_dropped_requests_cost_little() {
    // Before this cycle the history was over the lower limit already.
    let (cycle, next) = after_a_cycle(38, 950, "done", &json!({}));
    assert_eq!(ended(&next).0, Ending::Completed);
    assert_eq!(cycle.log.view.rev, 0);
}

#[test]
fn by_config_the_rules_write_it_or_nobody() {
    for (by, written) in [("digest", true), ("off", false)] {
        let (mut cycle, next) =
            after_a_cycle(1, 10, "done", &json!({"history": {"summary": by, "max_entries": 3}}));
        assert!(matches!(next, Next::Finished(_)));
        let view = &cycle.log.view;
        assert_eq!((view.summary.is_some(), view.tail), (written, 3), "{by}");
        let method = if written { SummaryMethod::Digest } else { SummaryMethod::Cut };
        assert_eq!(view.compaction.as_ref().unwrap().method, method);
        assert!(matches!(cycle.next(at(2_000)), Next::Finished(_)));
    }
}

#[test]
fn a_long_cycle_is_summarized_before_the_step_that_needs_it_and_calls_keep_their_outcomes() {
    let mut cycle =
        begin_with(with_history(1, 10, &json!({"limits": {"max_steps": 100, "token_budget": 10_000_000}})));
    let (_, mut next) = drive(&mut cycle);
    let (mut rounds, mut kept) = (0, Vec::new());
    for _ in 0..60 {
        let Next::Think(prompt) = next else { panic!("wanted a step, got {next:?}") };
        assert_pairs(&prompt.items);
        assert!(kept.is_empty() || shown_text(&prompt.items).contains("[COMPACTED MEMORY — cycles 1–"));
        let long = text(&"word ".repeat(8_000));
        let (_, mut after) = reply_with(&mut cycle, vec![long, call("note")]);
        if let Next::Summarize(request) = after {
            assert!(!request.may_wait, "the step waits for it");
            rounds += 1;
            cycle.summarized(summary("## Facts\n- fact 1"), at(2_000));
            let (_, view, next) = changed(&mut cycle);
            assert_eq!(view.compaction.as_ref().unwrap().round, rounds);
            kept.push(view);
            after = next;
        }
        next = after;
    }
    assert!(rounds >= 3, "{rounds}");
    let inbox = cycle.log.window.iter().filter(|entry| entry.kind == EntryKind::Inbox).count();
    assert_eq!(inbox, 1, "the inbox entry of the cycle stays");
}

fn shown_text(items: &[Item]) -> String {
    let text = |item: &Item| match item {
        Item::Layer(text) => text.to_string(),
        Item::Entry(entry) => entry.message.text(),
    };
    items.iter().map(text).collect()
}

/// Each call has its outcome in the next entry, and no outcome is without its call.
fn assert_pairs(items: &[Item]) {
    let mut open: HashSet<CallId> = HashSet::new();
    for item in items {
        let Item::Entry(entry) = item else { continue };
        let results = entry.message.parts.iter().filter_map(|part| match part {
            Part::ToolResult { id, .. } => Some(id),
            _ => None,
        });
        for id in results {
            assert!(open.remove(id), "an outcome without its call");
        }
        assert!(open.is_empty(), "calls without outcomes");
        open.extend(entry.message.calls().map(|(id, ..)| id.clone()));
    }
    assert!(open.is_empty(), "calls without outcomes");
}

#[test]
fn a_cancel_or_a_stop_ends_the_wait_for_a_summary() {
    for stop in [false, true] {
        let mut cycle = begin_with(with_history(40, 950, &json!({})));
        drive(&mut cycle);
        let (_, next) = reply_with(&mut cycle, vec![text(&"word ".repeat(6_000)), call("note")]);
        request(next);
        if stop {
            cycle.stop("the server is stopping")
        } else {
            cancel(&mut cycle)
        }
        cycle.summarized(SummaryEnd::Dropped(None), at(2_000));
        let (commits, next) = drive(&mut cycle);
        let wanted = if stop { CommitKind::Park } else { CommitKind::Close };
        assert_eq!((kinds(&commits), matches!(next, Next::Finished(_))), (vec![wanted], true));
    }
}
