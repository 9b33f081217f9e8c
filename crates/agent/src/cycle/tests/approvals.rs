//! Calls that wait for a person: which ones, what the cycle does meanwhile, and what it reads in the end.

use serde_json::json;

use super::awareness::configured;
use super::*;
use crate::approval::{AnsweredBy, Answerer, ApprovalRule, ApprovalState, ByRule, PersonVerdict, answered};
use crate::changes::CallChange;
use crate::life::IdleReason;
use crate::limits;
use crate::prompt::Item;

const PAUSE: i64 = limits::PAUSE_MS.cast_signed();

fn asking() -> Cycle {
    let mut cycle = configured(&json!({"approve": ["fire", "o*"]}), vec![service(1, 0)]);
    drive(&mut cycle);
    cycle
}

fn outward(next: Next) -> Vec<CallRow> {
    match next {
        Next::Outward(rows) => rows,
        other => panic!("wanted calls, got {other:?}"),
    }
}

fn by(at: Timestamp) -> AnsweredBy {
    AnsweredBy { who: Answerer::Operator, name: "kai".into(), at, message: None }
}

/// The row as a person has approved it, perhaps with other arguments.
fn granted(row: &CallRow, arguments: Option<&str>) -> CallRow {
    let verdict = PersonVerdict::Approve { arguments: arguments.map(str::to_owned), remember: None };
    answered(row.clone(), &verdict, None, by(at(3_000)), true, None).unwrap().row
}

fn found(granted: Vec<CallRow>) -> News {
    let glance = Glance { answered: 2, ..Glance::default() };
    News { glance, granted, ..News::default() }
}

fn read(commits: &[Changes]) -> Vec<String> {
    let parts =
        commits.iter().flat_map(|commit| &commit.entries).flat_map(|entry| entry.message.parts.iter());
    let texts = parts.filter_map(|part| match part {
        crate::message::Part::ToolResult { text, .. } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// The cycle as the next activation finds it.
fn resumed(commits: &[Changes], rows: Vec<CallRow>, now: i64) -> Cycle {
    resumed_as(commits, rows, now, |activation| activation)
}

fn resumed_as(
    commits: &[Changes],
    rows: Vec<CallRow>,
    now: i64,
    with: impl Fn(Activation) -> Activation,
) -> Cycle {
    let open = commits.iter().rev().find_map(|commit| commit.open.clone()).unwrap();
    let entries: Vec<_> = commits.iter().flat_map(|commit| commit.entries.clone()).map(Arc::new).collect();
    let before = activation(Vec::new());
    let head_seq = entries.last().map_or(0, |entry| entry.seq);
    let life = Life { open: Some(open), head_seq, epoch: 4, commit_n: 20, ..before.life };
    let config = Arc::new(AgentConfig::from_json(&json!({"approve": ["fire", "o*"]})).unwrap());
    let activation = Activation { life, calls: rows, window: Window::Loaded(entries), config, ..before };
    begin_at(with(activation), at(now))
}

#[test]
fn a_call_of_a_tool_that_wants_approval_does_not_start_and_the_others_do() {
    let mut cycle = asking();
    let (commits, next) = reply_with(&mut cycle, vec![call("fire"), call("look"), call("crm")]);
    let rows = outward(next);
    assert_eq!(rows.iter().map(|row| row.tool.as_str()).collect::<Vec<_>>(), ["look", "crm"]);
    let row = &commits[0].calls[0];
    let asked = row.approval.as_ref().unwrap();
    assert_eq!((asked.state, asked.hash.as_str()), (ApprovalState::Wanted, &*hash(row)));
    assert!(!kinds(&commits).contains(&CommitKind::Start));
    for row in &rows {
        cycle.settled(row.id.clone(), Outcome::ok("seen"));
    }
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Settle, CommitKind::Park]);
    let idle = commits[1].idle.clone().unwrap();
    assert_eq!((idle.not_before, idle.reason), (Some(asked.detach_at), Some(IdleReason::Person)));
    assert_eq!(commits[1].answered, Some(0), "an answer that has come meanwhile must be noticed");
    assert!(matches!(next, Next::Finished(ActivationEnd::Parked { .. })), "{next:?}");
}

/// Drives the machine at that time, with commits that succeed and nothing new outside.
fn drive_at(cycle: &mut Cycle, now: Timestamp) -> (Vec<Changes>, Next) {
    let mut commits = Vec::new();
    loop {
        match cycle.next(now) {
            Next::Commit(changes) => {
                commits.push(*changes);
                cycle.committed(done(Glance::default()), now);
            }
            other => return (commits, other),
        }
    }
}

fn hash(row: &CallRow) -> String {
    crate::approval::hash_of(&row.tool, &row.tool_version, &row.arguments)
}

#[test]
fn a_paused_cycle_runs_what_was_approved_as_it_was_approved_and_says_who_changed_it() {
    for edited in [None, Some(r#"{"n":2}"#)] {
        let mut cycle = asking();
        let (commits, next) = reply_with(&mut cycle, vec![call("fire")]);
        assert!(matches!(next, Next::Finished(_)), "{next:?}");
        let row = granted(&commits[0].calls[0], edited);
        let mut cycle = resumed(&commits, vec![row.clone()], 4_000);
        let (commits, next) = drive(&mut cycle);
        assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Start]);
        assert!(commits[1].barrier, "the barrier of an unsafe call holds for an approved one");
        let rows = outward(next);
        assert_eq!((&rows[0].id, rows[0].arguments.as_str()), (&row.id, edited.unwrap_or("{}")));
        cycle.settled(row.id.clone(), Outcome::ok("fired"));
        let (commits, _) = drive(&mut cycle);
        let read = read(&commits);
        assert_eq!(read[0] == "fired", edited.is_none(), "{read:?}");
        assert!(read[0].ends_with("fired"));
        assert!(edited.is_none_or(|edited| read[0].contains(edited) && read[0].contains("kai")), "{read:?}");
    }
}

#[test]
fn an_approval_that_comes_while_another_call_runs_is_noticed() {
    let mut cycle = asking();
    let (commits, next) = reply_with(&mut cycle, vec![call("fire"), call("look")]);
    let look = outward(next).remove(0);
    let row = granted(&commits[0].calls[0], None);
    assert!(matches!(cycle.next(at(3_000)), Next::Await));
    cycle.looked(Some(found(vec![row])));
    let (commits, next) = drive(&mut cycle);
    assert_eq!(kinds(&commits), [CommitKind::Start]);
    assert_eq!(outward(next)[0].tool, "fire");
    assert!(cycle.awaits(&look.id));
}

#[test]
fn after_its_pause_the_cycle_goes_on_and_the_answer_will_be_an_event() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = commits[0].calls[0].clone();
    for (now, over) in [(2_000 + PAUSE - 1, false), (2_000 + PAUSE, true), (-86_400_000, true)] {
        let mut cycle = resumed(&commits, vec![row.clone()], now);
        let (commits, next) = drive_at(&mut cycle, at(now));
        assert_eq!(matches!(next, Next::Think(_)), over, "{next:?} at {now}");
        if over {
            let change = &commits[1].call_changes[0];
            assert_eq!(change.state, CallState::Detached);
            assert!(read(&commits)[0].contains("pending"), "{:?}", read(&commits));
        } else {
            assert_eq!(kinds(&commits), [CommitKind::Open, CommitKind::Park]);
        }
    }
}

#[test]
fn a_paused_cycle_goes_on_as_soon_as_something_else_wants_its_agent() {
    let waits = Glance { waiting: 1, newest: 9, ..Glance::default() };
    let ends = |commits: &[Changes], next: &Next| {
        let change =
            &commits.iter().find(|commit| commit.kind == CommitKind::Settle).unwrap().call_changes[0];
        assert_eq!(change.state, CallState::Detached);
        let told = &read(commits)[0];
        assert!(told.contains("pending") && told.contains("an operator"), "{told}");
        assert!(!matches!(next, Next::Finished(_)), "{next:?}");
    };
    // It waits already when the call is decided.
    let mut cycle = asking();
    cycle.replied(Ok(reply(vec![call("fire")])), at(2_000));
    let mut commits = Vec::new();
    let next = drive_with(&mut cycle, waits, &mut commits);
    assert!(!kinds(&commits).contains(&CommitKind::Park), "{:?}", kinds(&commits));
    ends(&commits, &next);
    // It comes while the cycle is paused.
    let mut cycle = asking();
    let (first, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = first[0].calls[0].clone();
    let mut cycle = resumed(&first, vec![row.clone()], 4_000);
    let mut commits = Vec::new();
    let next = drive_with(&mut cycle, waits, &mut commits);
    ends(&commits, &next);
    // Another call of the step still runs: that is waited for first.
    let mut cycle = asking();
    cycle.replied(Ok(reply(vec![call("fire"), call("look")])), at(2_000));
    let mut commits = Vec::new();
    let look = outward(drive_with(&mut cycle, waits, &mut commits)).remove(0);
    assert_eq!(kinds(&commits), [CommitKind::Decide]);
    cycle.settled(look.id, Outcome::ok("seen"));
    let next = drive_with(&mut cycle, waits, &mut commits);
    assert!(
        commits.iter().flat_map(|commit| &commit.call_changes).any(|call| call.state == CallState::Detached)
    );
    assert!(!matches!(next, Next::Finished(_)), "{next:?}");
}

/// Drives the machine with commits that report that, until it wants something else.
fn drive_with(cycle: &mut Cycle, glance: Glance, commits: &mut Vec<Changes>) -> Next {
    loop {
        match cycle.next(at(4_000)) {
            Next::Commit(changes) => {
                commits.push(*changes);
                cycle.committed(done(glance), at(4_000));
            }
            other => return other,
        }
    }
}

#[test]
fn a_card_names_who_caused_the_call_and_only_operators_read_what_the_model_wrote_beside_it() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![text("It hangs, so I restart it."), call("fire")]);
    let row = &commits[0].calls[0];
    let asked = row.approval.as_ref().unwrap();
    assert_eq!(asked.said.as_deref(), Some("It hangs, so I restart it."));
    let [by] = &asked.requested_by[..] else { panic!("wanted one, got {:?}", asked.requested_by) };
    let card = crate::approval::card(row, asked);
    assert!(card.contains(&format!("\nrequested by: {}\n", by.name)), "{card}");
    let end = crate::approval::card_end(
        row,
        &crate::approval::Approval { state: ApprovalState::Expired, ..*asked.clone() },
    );
    assert!(end.contains(&format!("\nrequested by: {}\n", by.name)), "{end}");
    let data = crate::space::tool_data(row).to_string();
    assert!(data.contains("requested_by"), "{data}");
    for shown in [card, end, data] {
        assert!(!shown.contains("It hangs"), "{shown}");
    }
}

#[test]
fn what_was_withdrawn_is_answered_by_nobody() {
    use crate::approval::{Approval, Withdrawn};
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = &commits[0].calls[0];
    for why in [Withdrawn::SpaceClosed, Withdrawn::AgentLeft] {
        let asked = Approval { withdrawn: Some(why), ..*row.approval.clone().unwrap() };
        let row = CallRow { approval: Some(Box::new(asked)), ..row.clone() };
        for verdict in [PersonVerdict::Approve { arguments: None, remember: None }, PersonVerdict::Refuse] {
            let refused = answered(row.clone(), &verdict, None, by(at(3_000)), true, None).unwrap_err();
            assert!(matches!(refused, crate::approval::AnswerRefused::Over(_)), "{refused:?}");
        }
        assert_eq!(why.outcome().status, OutcomeStatus::Canceled);
    }
}

#[test]
fn an_approval_is_not_lost_if_it_comes_while_the_pause_ends() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = commits[0].calls[0].clone();
    let mut cycle = resumed(&commits, vec![row.clone()], 3_000 + PAUSE);
    let Next::Commit(open) = cycle.next(at(3_000 + PAUSE)) else { panic!("wanted the opening") };
    assert_eq!(open.kind, CommitKind::Open);
    cycle.committed(done(Glance { answered: 2, ..Glance::default() }), at(3_000 + PAUSE));
    assert!(matches!(cycle.next(at(3_000 + PAUSE)), Next::Look));
    cycle.looked(Some(found(vec![granted(&row, None)])));
    let (commits, next) = drive_at(&mut cycle, at(3_000 + PAUSE));
    assert_eq!((kinds(&commits), outward(next).len()), (vec![CommitKind::Start], 1));
}

#[test]
fn a_refusal_is_read_and_is_no_mistake_of_the_agent() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let refusal = answered(
        commits[0].calls[0].clone(),
        &PersonVerdict::Refuse,
        Some("not now"),
        by(at(3_000)),
        true,
        None,
    );
    let row = CallRow { state: CallState::Done, ..refusal.unwrap().row };
    let mut cycle = resumed(&commits, vec![row], 4_000);
    let (commits, next) = drive(&mut cycle);
    assert!(matches!(next, Next::Think(_)));
    assert!(read(&commits)[0].contains("refused by kai") && read(&commits)[0].contains("not now"));
    assert_eq!(commits[0].open.as_ref().unwrap().mistakes, 0);
}

#[test]
fn an_answered_cycle_asks_its_model_while_one_commit_opens_it_and_reports_the_answer() {
    let mut first = asking();
    let (mut commits, _) = reply_with(&mut first, vec![call("fire")]);
    let refusal =
        answered(commits[0].calls[0].clone(), &PersonVerdict::Refuse, None, by(at(3_000)), true, None);
    let row = CallRow { state: CallState::Done, ..refusal.unwrap().row };
    let mut cycle = resumed(&commits, vec![row.clone()], 4_000);
    let (opened, next) = drive(&mut cycle);
    assert_eq!(kinds(&opened), [CommitKind::Open]);
    let Next::Think(prompt) = next else { panic!("wanted a request, got {next:?}") };
    commits.extend(opened);
    let sent = prompt.items.iter().filter(|item| matches!(item, Item::Entry(_))).count();
    assert_eq!(sent, commits.iter().map(|commit| commit.entries.len()).sum::<usize>(), "once each");
    let (decided, _) = reply_with(&mut cycle, vec![text("fine")]);
    assert_eq!(decided[0].expect, commits.last().unwrap().expect + 1);
    assert_eq!(decided[0].entries[0].seq, commits.last().unwrap().entries[0].seq + 1);
    // A cycle that was open when the process died, or for which something waits, is opened first.
    for (died, waits) in [(true, false), (false, true)] {
        let mut cycle = resumed_as(&commits[..2], vec![row.clone()], 4_000, |activation| Activation {
            died,
            clean: !died,
            waiting: if waits { vec![service(9, 0)] } else { Vec::new() },
            ..activation
        });
        assert!(matches!(cycle.next(at(4_000)), Next::Commit(open) if open.entries.is_empty()));
    }
}

#[test]
fn canceling_a_paused_cycle_cancels_what_is_wanted() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = commits[0].calls[0].clone();
    let mut cycle = resumed(&commits, vec![row], 4_000);
    cancel(&mut cycle);
    let (commits, _) = drive(&mut cycle);
    let close = commits.last().unwrap();
    let [CallChange { state: CallState::Done, outcome: Some(outcome), .. }] = &close.call_changes[..] else {
        panic!("wanted one change, got {:?}", close.call_changes)
    };
    assert_eq!(outcome.status, OutcomeStatus::Canceled);
    assert!(outcome.text.contains("nothing of it was done"), "{outcome:?}");
}

#[test]
fn an_asynchronous_call_that_wants_approval_is_pending_at_once() {
    let mut cycle = asking();
    let (commits, next) = reply_with(&mut cycle, vec![call("order")]);
    assert!(matches!(next, Next::Think(_)), "{next:?}");
    assert_eq!(commits[1].call_changes[0].state, CallState::Detached);
    assert!(read(&commits)[0].contains("it waits for a person"));
}

/// What an operator has approved until then: calls of `fire`.
fn rule(tainted: bool, until: i64) -> ApprovalRule {
    ApprovalRule {
        agent: AgentId(Uuid::from_u128(1)),
        tool: "fire".into(),
        version: "1".into(),
        space: None,
        until: at(until),
        tainted,
        by: "kai".into(),
        person: None,
        at: at(0),
    }
}

#[test]
fn a_rule_is_for_one_version_of_a_tool_and_a_persons_for_one_space() {
    let space = |n| Some(SpaceId(Uuid::from_u128(n)));
    let call = |space| ByRule { tainted: false, space };
    let covers =
        |rule: &ApprovalRule, version: &str, space| rule.covers("fire", version, &call(space), at(1));
    let everywhere = ApprovalRule { version: "1".into(), ..rule(false, 9_000) };
    let here = ApprovalRule { space: space(1), ..everywhere.clone() };
    for (version, place, by_operator, by_person) in [
        ("1", space(1), true, true),
        ("1", space(2), true, false),
        ("1", None, true, false),
        ("2", space(1), false, false),
    ] {
        assert_eq!(covers(&everywhere, version, place), by_operator, "{version} {place:?}");
        assert_eq!(covers(&here, version, place), by_person, "{version} {place:?}");
    }
}

#[test]
fn a_call_whose_rule_was_deleted_meanwhile_is_asked_for_instead() {
    let config = Arc::new(AgentConfig::from_json(&json!({"approve": ["fire"]})).unwrap());
    let with_rule = Activation { config, rules: vec![rule(false, 9_000)], ..activation(vec![service(1, 0)]) };
    let mut cycle = begin_with(with_rule);
    drive(&mut cycle);
    let reply = reply(vec![call("fire"), call("crm")]);
    cycle.replied(Ok(reply), at(2_000));
    let Next::Commit(decision) = cycle.next(at(2_000)) else { panic!("wanted the decision") };
    let fire = &decision.calls[0];
    assert_eq!((fire.waits_for_person(), fire.by_rule.is_some()), (false, true));
    let refusal = Refusal { call: fire.id.clone(), reason: Outcome::rule_over().text };
    cycle.committed(CommitOutcome::Refused(vec![refusal]), at(2_000));
    let Next::Commit(decision) = cycle.next(at(2_000)) else { panic!("wanted it decided again") };
    let fire = &decision.calls[0];
    assert_eq!((fire.waits_for_person(), &fire.by_rule), (true, &None));
    cycle.committed(done(Glance::default()), at(2_000));
    let (_, next) = drive(&mut cycle);
    assert_eq!(outward(next).iter().map(|row| row.tool.as_str()).collect::<Vec<_>>(), ["crm"]);
}

#[test]
fn a_rule_spares_the_question_but_not_while_strangers_text_is_read() {
    for (outside, rule, asks) in [
        (false, rule(false, 9_000), false),
        (false, rule(false, 1_999), true),
        (true, rule(false, 9_000), true),
        (true, rule(true, 9_000), false),
    ] {
        let mut waiting = service(1, 0);
        if outside {
            waiting.event.envelope.trust = Trust::Outside;
        }
        let config = Arc::new(AgentConfig::from_json(&json!({"approve": ["fire"]})).unwrap());
        let mut cycle = begin_with(Activation { config, rules: vec![rule], ..activation(vec![waiting]) });
        drive(&mut cycle);
        let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
        assert_eq!(commits[0].calls[0].waits_for_person(), asks, "{outside} {commits:?}");
    }
}

#[test]
fn nobody_is_asked_to_approve_what_cannot_be_shown_whole() {
    let mut cycle = asking();
    let long = json!({"x": "\u{202e}".repeat(limits::APPROVAL_ARGUMENTS_MAX_BYTES / 6)}).to_string();
    let long = ReplyPart::Call { name: "fire".into(), arguments: long };
    let (commits, _) = reply_with(&mut cycle, vec![long]);
    let outcome = commits[0].calls[0].outcome.as_ref().unwrap();
    assert!(outcome.text.contains("a person must read the arguments"), "{outcome:?}");
}

#[test]
fn an_answer_counts_once_for_the_call_that_was_shown_and_from_those_who_may() {
    let mut cycle = asking();
    let (commits, _) = reply_with(&mut cycle, vec![call("fire")]);
    let row = &commits[0].calls[0];
    let answer = |row: &CallRow, may, seen: Option<String>, now| {
        let verdict = PersonVerdict::Approve { arguments: None, remember: None };
        answered(row.clone(), &verdict, None, by(now), may, seen.as_deref())
    };
    let text = |answer: Result<crate::approval::AnsweredRow, crate::approval::AnswerRefused>| match answer {
        Ok(_) => String::new(),
        Err(why) => why.to_string(),
    };
    assert!(text(answer(row, false, None, at(3_000))).contains("people of the space"));
    assert!(text(answer(row, true, Some("other".into()), at(3_000))).contains("not the one that was shown"));
    let late = at(2_000 + limits::APPROVAL_MS.cast_signed());
    assert!(text(answer(row, true, None, late)).contains("in time"));
    let first = answer(row, true, Some(hash(row)), at(3_000)).unwrap().row;
    assert!(text(answer(&first, true, None, at(3_001))).contains("granted by kai"));
    let plain = CallRow { approval: None, ..row.clone() };
    assert!(text(answer(&plain, true, None, at(3_000))).contains("waits for no answer"));
    let talk = answered(row.clone(), &PersonVerdict::Answer(json!("yes")), None, by(at(3_000)), true, None);
    assert!(text(talk).contains("`approve` or `refuse`"));
}
