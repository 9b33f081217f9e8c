//! The checks must be able to fail: a consistent world passes, and every falsified one is noticed.

use serde_json::{Value, json};

use super::*;
use crate::counted::APPROVED;
use crate::counter::CountedEffect;
use crate::follow::Commit;
use crate::history::{AgentTrace, HistoryEntry, HistoryMessage, InboxEvent, LateResult, RunRecord, Timeline};
use crate::inbox;
use crate::ledger::{LedgerItem, Promise, SentTo};

/// A consistent world: one space, one agent, three messages and an event of a service. All events are processed in two
/// cycles, except one that is skipped.
struct TestWorld {
    effects: Effects,
    ledger: Ledger,
    history: History,
    streamed: BTreeMap<String, SeenUpdates>,
}

fn item(number: u64, to: SentTo, body: Value, id: &str, seq: Option<u64>) -> LedgerItem {
    let token = inbox::token(number);
    let promise = |fresh| Promise { fresh, id: id.to_owned(), seq };
    let promises = vec![promise(true), promise(false)];
    LedgerItem { token, to, body, key: None, id: None, promises, rejected: Vec::new() }
}

fn message_item(number: u64) -> LedgerItem {
    let body = json!({"text": format!("note {}", inbox::token(number))});
    item(number, SentTo::Space("home".into()), body, &format!("m{number}"), Some(number))
}

fn message(id: &str, seq: u64, text: String, call: Option<&str>) -> HistoryMessage {
    let sender = if call.is_some() { "a" } else { "owner" };
    HistoryMessage {
        id: id.into(),
        seq,
        sender: sender.into(),
        text,
        call: call.map(str::to_owned),
        card: false,
    }
}

fn event(seq: u64, id: &str, cycle: Option<&str>) -> InboxEvent {
    let state = if cycle.is_some() { "processed" } else { "skipped" };
    InboxEvent {
        id: id.into(),
        seq,
        state: state.into(),
        cycle: cycle.map(str::to_owned),
        message: id.starts_with('m').then(|| id.to_owned()),
        payload: (!id.starts_with('m'))
            .then(|| json!({"token": inbox::token(4), "space": "home"}).to_string()),
        plan: None,
        result: None,
    }
}

fn entry(seq: u64, cycle: &str, kind: &str) -> HistoryEntry {
    HistoryEntry { seq, cycle: cycle.into(), kind: kind.into(), ..HistoryEntry::default() }
}

/// A cycle of three entries: its inbox, a reply with calls, the outcomes.
fn cycle(first: u64, cycle: &str, lines: &str, tokens: &str) -> Vec<HistoryEntry> {
    let call =
        |name: &str, arguments: Value| (format!("{cycle}-{name}"), name.to_owned(), arguments.to_string());
    let calls = vec![
        call("send_message", json!({"space": "s", "text": format!("got {tokens}")})),
        call("set_memories", json!({"memories": [{"key": "k", "value": cycle}]})),
        call("count_unsafe", json!({"ticket": format!("{cycle}/0")})),
        call("count_idempotent", json!({"ticket": format!("{cycle}/1")})),
    ];
    let outcomes = calls.iter().map(|(id, ..)| (id.clone(), false)).collect();
    let texts = calls.iter().map(|_| "{}".to_owned()).collect();
    vec![
        HistoryEntry {
            text: format!("[INBOX — n new events, now X]\n\n{lines}"),
            ..entry(first, cycle, "inbox")
        },
        HistoryEntry { calls, ..entry(first + 1, cycle, "assistant") },
        HistoryEntry { outcomes, texts, ..entry(first + 2, cycle, "outcomes") },
    ]
}

fn commits(kinds: &[(&str, &str)]) -> Vec<Commit> {
    let commit = |(n, (cycle, kind)): (usize, &(&str, &str))| Commit {
        n: n as u64 + 1,
        cycle: (*cycle).to_owned(),
        step: 0,
        kind: (*kind).to_owned(),
    };
    kinds.iter().enumerate().map(commit).collect()
}

/// An effect of a call without a key.
fn effect(tool: &str) -> CountedEffect {
    CountedEffect { tool: tool.into(), key: None, claims: 0, approved: false }
}

fn world() -> TestWorld {
    let text = |number| format!("note {}", inbox::token(number));
    let line = |number| format!("1. [space s] Mira (@owner, human), just now: \"{}\"", text(number));
    let service = item(4, SentTo::Agent("ada".into()), json!({}), "api:1:key-4", None);
    let ledger = Ledger { items: vec![message_item(1), message_item(2), message_item(3), service] };
    let messages = vec![
        message("m1", 1, text(1), None),
        message("m2", 2, text(2), None),
        message("m3", 3, text(3), None),
        message("r1", 4, format!("got {}", inbox::token(1)), Some("c1-send_message")),
        message("r2", 5, format!("got {} {}", inbox::token(2), inbox::token(4)), Some("c2-send_message")),
    ];
    let agents = vec!["ada".to_owned()];
    let space =
        Timeline { id: "s".into(), name: "home".into(), head: 5, agents, messages, cards: Vec::new() };
    let call =
        format!("2. [service \"kill\"] just now: {}", json!({"token": inbox::token(4), "space": "home"}));
    let mut log = cycle(1, "c1", &line(1), &inbox::token(1));
    let both = format!("{}\n{call}", line(2));
    log.extend(cycle(4, "c2", &both, &format!("{} {}", inbox::token(2), inbox::token(4))));
    let run = |ordinal, cycle: &str, events| RunRecord {
        cycle: cycle.into(),
        ordinal,
        events,
        ending: "completed".into(),
    };
    let kinds = [
        ("c1", "open"),
        ("c1", "decide"),
        ("c2", "open"),
        ("c2", "open"),
        ("c2", "decide"),
        ("c3", "open"),
        ("c3", "close"),
    ];
    let streamed = SeenUpdates { commits: commits(&kinds), errors: Vec::new() };
    let ada = AgentTrace {
        id: "a".into(),
        name: "ada".into(),
        events: vec![
            event(4, "m3", None),
            event(3, "api:1:key-4", Some("c2")),
            event(2, "m2", Some("c2")),
            event(1, "m1", Some("c1")),
        ],
        log,
        runs: vec![run(2, "c2", 2), run(1, "c1", 1)],
        notes: [("k".to_owned(), "c2".to_owned())].into(),
        commit_n: 7,
        replayed: SeenUpdates { commits: streamed.commits[4..].to_vec(), errors: Vec::new() },
    };
    let history = History { spaces: vec![space], agents: vec![ada] };
    let of = |cycle: &str| {
        let key = Some(format!("{cycle}-count_idempotent"));
        let idempotent = CountedEffect { key, ..effect("count_idempotent") };
        [(format!("{cycle}/0"), vec![effect("count_unsafe")]), (format!("{cycle}/1"), vec![idempotent])]
    };
    let mut effects: Effects = ["c1", "c2"].into_iter().flat_map(of).collect();
    // A kill between the effect and its outcome repeats an idempotent effect, under the same key.
    let again = effects["c1/1"][0].clone();
    effects.get_mut("c1/1").unwrap().push(again);
    TestWorld { effects, ledger, history, streamed: [("ada".to_owned(), streamed)].into() }
}

/// Falsifies the world; each of `needles` must be in a breach that is found.
#[track_caller]
fn notices(falsify: impl FnOnce(&mut TestWorld), needles: &[&str]) {
    let mut world = world();
    falsify(&mut world);
    let found = check(&world.ledger, &world.history, &world.streamed, &world.effects);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    for needle in needles {
        assert!(found.iter().any(|breach| breach.contains(needle)), "wanted `{needle}` among {found:#?}");
    }
}

fn ada(world: &mut TestWorld) -> &mut AgentTrace {
    &mut world.history.agents[0]
}

fn home(world: &mut TestWorld) -> &mut Timeline {
    &mut world.history.spaces[0]
}

#[test]
fn a_consistent_world_has_no_breaches() {
    let world = world();
    assert_eq!(check(&world.ledger, &world.history, &world.streamed, &world.effects), []);
}

#[test]
fn lost_data_is_noticed() {
    notices(|world| drop(ada(world).events.remove(0)), &["ada: event m3 is lost"]);
    notices(
        |world| drop(home(world).messages.remove(2)),
        &["t-000003-t: accepted as m3 and lost", "seq: 4 follows 2"],
    );
    notices(|world| ada(world).notes.clear(), &["memory `k` was decided as Some(\"c2\") and is None"]);
    notices(|world| drop(ada(world).runs.remove(0)), &["cycle c2 is in the log and has no run"]);
    notices(|world| drop(ada(world).log.remove(2)), &["log: 4 follows 2", "its outcomes are for []"]);
    notices(
        |world| drop(home(world).messages.pop()),
        &["call c2-send_message was decided once and posted 0 times"],
    );
    notices(|world| world.ledger.items[0].promises.clear(), &["t-000001-t: never answered"]);
}

#[test]
fn doubled_data_is_noticed() {
    let twin = |world: &mut TestWorld| {
        let twin = HistoryMessage { id: "m9".into(), seq: 6, ..home(world).messages[0].clone() };
        home(world).messages.push(twin);
        home(world).head = 6;
    };
    notices(twin, &["t-000001-t: posted 2 times in space home, as [\"m1\", \"m9\"]"]);
    let reply = |world: &mut TestWorld| {
        let twin = HistoryMessage { id: "r9".into(), seq: 6, ..home(world).messages[3].clone() };
        home(world).messages.push(twin);
    };
    notices(
        reply,
        &[
            "call c1-send_message was decided once and posted 2 times",
            "processed t-000001-t of home and quoted it in",
        ],
    );
    let same = |world: &mut TestWorld| {
        let twin = home(world).messages[0].clone();
        home(world).messages.push(twin);
    };
    notices(same, &["message m1 exists twice"]);
    notices(|world| world.ledger.items[0].promises[1].fresh = true, &["t-000001-t: accepted as new 2 times"]);
    let event = |world: &mut TestWorld| {
        let twin = InboxEvent { seq: 5, ..ada(world).events[0].clone() };
        ada(world).events.insert(0, twin);
    };
    notices(event, &["ada: event m3 exists twice"]);
}

#[test]
fn effects_that_do_not_match_the_log_are_noticed() {
    let twice = |world: &mut TestWorld| world.effects.get_mut("c1/0").unwrap().push(effect("count_unsafe"));
    notices(twice, &["ada: call c1-count_unsafe of `count_unsafe` happened 2 times"]);
    let gone = "was reported as done and never happened";
    notices(|world| drop(world.effects.remove("c1/0")), &[gone]);
    notices(|world| drop(world.effects.remove("c2/1")), &[gone]);
    notices(
        |world| drop(world.effects.insert("x".into(), vec![effect("count_read")])),
        &[
            "`x`: [CountedEffect { tool: \"count_read\", key: None, claims: 0, approved: false }] happened outside and are in no log",
        ],
    );
    let under = |key: Option<&'static str>| {
        move |world: &mut TestWorld| {
            world.effects.get_mut("c1/1").unwrap()[1].key = key.map(str::to_owned);
        }
    };
    let happened = "ada: call c1-count_idempotent of `count_idempotent` happened under the key";
    notices(under(Some("other")), &[&format!("{happened} Some(\"other\")")]);
    notices(under(None), &[&format!("{happened} None")]);
    let same = |world: &mut TestWorld| {
        let call = &mut ada(world).log[4].calls[2];
        call.2 = call.2.replace("c2", "c1");
    };
    notices(same, &["`c1/0` was decided twice, as call c1-count_unsafe and c2-count_unsafe"]);
    let streamed = |words: &'static str| {
        move |world: &mut TestWorld| {
            ada(world).log[2].outcomes[2].1 = true;
            ada(world).log[2].texts[2] = words.into();
        }
    };
    notices(streamed("no"), &["call c1-count_unsafe of `count_unsafe` happened and was reported as `no`"]);
    let mut honest = world();
    streamed("interrupted; unknown whether it happened")(&mut honest);
    assert_eq!(check(&honest.ledger, &honest.history, &honest.streamed, &honest.effects), []);
    assert_eq!(unknown(&honest.history), (1, 0));
}

#[test]
fn an_effect_that_nobody_approved_is_noticed() {
    let with = |approved| {
        move |world: &mut TestWorld| {
            ada(world).log[1].calls[2].1 = APPROVED.into();
            world.effects.insert("c1/0".into(), vec![CountedEffect { approved, ..effect(APPROVED) }]);
        }
    };
    notices(with(false), &["of `count_unsafe_approved` happened without a person's approval"]);
    let mut honest = world();
    with(true)(&mut honest);
    assert_eq!(check(&honest.ledger, &honest.history, &honest.streamed, &honest.effects), []);
}

#[test]
fn a_plan_that_fires_never_or_twice_is_noticed() {
    const PLAN: &str = "api:1:key-4";
    let planned = |world: &mut TestWorld| {
        world.ledger.items[3].to = SentTo::Plans("ada".into());
        let fired = ada(world).events.iter_mut().find(|event| event.id == PLAN).unwrap();
        (fired.id, fired.plan) = (format!("plan:{PLAN}:1"), Some(PLAN.into()));
        let inbox = ada(world).log.iter_mut().find(|entry| entry.text.contains("[service")).unwrap();
        let quoted = json!(json!({"token": inbox::token(4), "space": "home"}).to_string());
        let (before, _) = inbox.text.split_once("2. [service").unwrap();
        inbox.text = format!("{before}2. [plan \"kill\" | id: {PLAN}] due now: {quoted}");
    };
    let mut honest = world();
    planned(&mut honest);
    assert_eq!(check(&honest.ledger, &honest.history, &honest.streamed, &honest.effects), []);
    let never = move |world: &mut TestWorld| {
        planned(world);
        ada(world).events.retain(|event| event.plan.is_none());
    };
    notices(never, &[&format!("ada: event {PLAN} is lost")]);
    let twice = move |world: &mut TestWorld| {
        planned(world);
        let fired = ada(world).events.iter().find(|event| event.plan.is_some()).unwrap().clone();
        ada(world).events.insert(0, InboxEvent { id: format!("plan:{PLAN}:2"), seq: 5, ..fired });
    };
    notices(twice, &[&format!("ada: event {PLAN} exists twice")]);
}

/// Lets a call of the first cycle end with these results after the cycle.
fn answered_late(world: &mut TestWorld, call: &str, results: &[(bool, &str)]) {
    for (n, (failed, text)) in results.iter().enumerate() {
        let (call, text, failed) = (call.to_owned(), (*text).to_owned(), *failed);
        let result = Some(LateResult { call, failed, text });
        let late = event(5 + n as u64, &format!("result:{n}"), None);
        ada(world).events.insert(0, InboxEvent { result, payload: None, ..late });
    }
}

#[test]
fn a_call_has_one_outcome_and_one_more_only_if_nothing_was_known() {
    const CALL: &str = "c1-count_unsafe";
    const UNKNOWN: (bool, &str) = (true, "unknown whether it happened");
    let pending = |results: &'static [(bool, &'static str)]| {
        move |world: &mut TestWorld| {
            ada(world).log[2].texts[2] = json!({"call": CALL, "status": "pending"}).to_string();
            answered_late(world, CALL, results);
        }
    };
    for results in [&[(false, "ok")] as &[_], &[UNKNOWN], &[UNKNOWN, (false, "ok")]] {
        let mut world = world();
        pending(results)(&mut world);
        assert_eq!(check(&world.ledger, &world.history, &world.streamed, &world.effects), [], "{results:?}");
    }
    notices(pending(&[]), &["ada: call c1-count_unsafe of `count_unsafe` has no outcome"]);
    let twice = "ada: call c1-count_unsafe of `count_unsafe` has the outcomes";
    notices(pending(&[(false, "ok"), (false, "ok")]), &[twice]);
    notices(pending(&[UNKNOWN, (false, "ok"), (false, "ok")]), &[twice]);
    notices(|world| answered_late(world, CALL, &[(false, "ok")]), &[twice]);
    notices(pending(&[(true, "no")]), &["happened and was reported as `no`"]);
    notices(|world| answered_late(world, "c9", &[(false, "ok")]), &["result of call c9, which is in no log"]);
    let shown = |world: &mut TestWorld| {
        pending(&[(false, "ok")])(world);
        ada(world).events[0].cycle = Some("c1".into());
    };
    notices(shown, &["(c1-count_unsafe: ok) is skipped by [\"c1\"] and shown in []"]);
}

#[test]
fn wrong_processing_is_noticed() {
    let again = |world: &mut TestWorld| {
        let line = "3. [space s] Mira (@owner, human), just now: \"note t-000001-t\"";
        let text = format!("{}\n{line}", ada(world).log[3].text);
        ada(world).log[3].text = text;
    };
    notices(again, &["event m1 (t-000001-t) is processed by [\"c1\"] and shown in [\"c1\", \"c2\"]"]);
    notices(again, &["ada: shown t-000001-t (message 1) after message 2 of the same person"]);
    notices(|world| ada(world).events[0].state = "waiting".into(), &["event m3 at 4 is waiting"]);
    notices(|world| ada(world).events[0].state = "dead".into(), &["event m3 at 4 is dead"]);
    notices(
        |world| ada(world).events[3].cycle = Some("c2".into()),
        &["processed by [\"c2\"] and shown in [\"c1\"]", "run c1 counts 1 events and processed 0"],
    );
    notices(|world| ada(world).runs[1].ending = "failed: x".into(), &["run c1 ended failed: x"]);
    notices(|world| ada(world).log[4].cycle = "c9".into(), &["a cycle must begin with its only inbox"]);
    notices(
        |world| home(world).messages[3].text = "got".into(),
        &["processed t-000001-t of home and quoted it in []"],
    );
    notices(
        |world| home(world).messages[3].text.push_str(" t-000003-t"),
        &["quote t-000003-t, which it never processed"],
    );
}

#[test]
fn wrong_streamed_commits_are_noticed() {
    let streamed = |world: &mut TestWorld| world.streamed.remove("ada").unwrap();
    notices(|world| drop(streamed(world)), &["ada: it was not followed"]);
    notices(
        |world| drop(world.streamed.get_mut("ada").unwrap().commits.pop()),
        &["its last commit is 7, the last streamed one is 6"],
    );
    notices(
        |world| world.streamed.get_mut("ada").unwrap().commits[5].step = 3,
        &["streamed Commit { n: 6", "stored Commit { n: 6"],
    );
    notices(|world| world.streamed.get_mut("ada").unwrap().errors.push("a gap".into()), &["ada: a gap"]);
    notices(
        |world| world.streamed.get_mut("ada").unwrap().commits[2].kind = "decide".into(),
        &["begins cycle c2 with `decide`"],
    );
}
