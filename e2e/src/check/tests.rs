//! The harness must be able to fail: a good story passes, each doctored one is seen.

use serde_json::{Value, json};

use super::*;
use crate::follow::Commit;
use crate::history::{Happened, HistoryEntry, ProcessedEvent, Record, Timeline, Wording};
use crate::inbox;
use crate::ledger::{LedgerItem, Promise, SentTo};

/// A whole story: one space, one agent, three messages and a service's call, all lived in two
/// cycles but one, which is skipped.
struct Story {
    effects: Effects,
    ledger: Ledger,
    history: History,
    told: BTreeMap<String, SeenUpdates>,
}

fn item(number: u64, door: SentTo, body: Value, id: &str, seq: Option<u64>) -> LedgerItem {
    let token = inbox::token(number);
    let promise = |fresh| Promise { fresh, id: id.to_owned(), seq };
    let promises = vec![promise(true), promise(false)];
    LedgerItem { token, door, body, key: None, id: None, promises, refused: Vec::new() }
}

fn said(number: u64) -> LedgerItem {
    let body = json!({"text": format!("note {}", inbox::token(number))});
    item(number, SentTo::Space("home".into()), body, &format!("m{number}"), Some(number))
}

fn words(id: &str, seq: u64, text: String, call: Option<&str>) -> Wording {
    let sender = if call.is_some() { "a" } else { "owner" };
    Wording { id: id.into(), seq, sender: sender.into(), text, call: call.map(str::to_owned) }
}

fn event(seq: u64, id: &str, cycle: Option<&str>) -> Happened {
    let state = if cycle.is_some() { "processed" } else { "skipped" };
    Happened {
        id: id.into(),
        seq,
        state: state.into(),
        cycle: cycle.map(str::to_owned),
        message: id.starts_with('m').then(|| id.to_owned()),
        payload: (!id.starts_with('m'))
            .then(|| json!({"token": inbox::token(4), "space": "home"}).to_string()),
    }
}

fn entry(seq: u64, cycle: &str, kind: &str) -> HistoryEntry {
    HistoryEntry { seq, cycle: cycle.into(), kind: kind.into(), ..HistoryEntry::default() }
}

/// A cycle of three entries: its inbox, a reply to it with a note, the outcomes.
fn cycle(first: u64, cycle: &str, lines: &str, tokens: &str) -> Vec<HistoryEntry> {
    let call =
        |name: &str, arguments: Value| (format!("{cycle}-{name}"), name.to_owned(), arguments.to_string());
    let calls = vec![
        call("send_message", json!({"space": "s", "text": format!("got {tokens}")})),
        call("set_memories", json!({"memories": [{"key": "k", "value": cycle}]})),
        call("count_unsafe", json!({})),
        call("count_idempotent", json!({})),
    ];
    let outcomes = calls.iter().map(|(id, ..)| (id.clone(), false)).collect();
    let words = calls.iter().map(|_| "{}".to_owned()).collect();
    vec![
        HistoryEntry {
            text: format!("[INBOX — n new events, now X]\n\n{lines}"),
            ..entry(first, cycle, "inbox")
        },
        HistoryEntry { calls, ..entry(first + 1, cycle, "assistant") },
        HistoryEntry { outcomes, words, ..entry(first + 2, cycle, "outcomes") },
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

fn story() -> Story {
    let text = |number| format!("note {}", inbox::token(number));
    let line = |number| format!("1. [space s] Mira (@owner, human), just now: \"{}\"", text(number));
    let service = item(4, SentTo::Agent("ada".into()), json!({}), "api:1:key-4", None);
    let ledger = Ledger { items: vec![said(1), said(2), said(3), service] };
    let messages = vec![
        words("m1", 1, text(1), None),
        words("m2", 2, text(2), None),
        words("m3", 3, text(3), None),
        words("r1", 4, format!("got {}", inbox::token(1)), Some("c1-send_message")),
        words("r2", 5, format!("got {} {}", inbox::token(2), inbox::token(4)), Some("c2-send_message")),
    ];
    let agents = vec!["ada".to_owned()];
    let space = Timeline { id: "s".into(), name: "home".into(), head: 5, agents, messages };
    let call =
        format!("2. [service \"kill\"] just now: {}", json!({"token": inbox::token(4), "space": "home"}));
    let mut log = cycle(1, "c1", &line(1), &inbox::token(1));
    let both = format!("{}\n{call}", line(2));
    log.extend(cycle(4, "c2", &both, &format!("{} {}", inbox::token(2), inbox::token(4))));
    let run = |ordinal, cycle: &str, events| Record {
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
    let told = SeenUpdates { commits: commits(&kinds), wrong: Vec::new() };
    let ada = ProcessedEvent {
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
        replayed: SeenUpdates { commits: told.commits[4..].to_vec(), wrong: Vec::new() },
    };
    let history = History { spaces: vec![space], agents: vec![ada] };
    let once = |key: &str, tool: &str| (format!("{key}-{tool}"), vec![tool.to_owned()]);
    let mut effects: Effects = ["c1", "c2"]
        .iter()
        .flat_map(|key| [once(key, "count_unsafe"), once(key, "count_idempotent")])
        .collect();
    // A kill came between the effect and its outcome.
    effects.get_mut("c1-count_idempotent").unwrap().push("count_idempotent".to_owned());
    Story { effects, ledger, history, told: [("ada".to_owned(), told)].into() }
}

/// Doctors the story; each of the needles must stand in what is found.
#[track_caller]
fn sees(doctor: impl FnOnce(&mut Story), needles: &[&str]) {
    let mut story = story();
    doctor(&mut story);
    let found = check(&story.ledger, &story.history, &story.told, &story.effects);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    for needle in needles {
        assert!(found.iter().any(|breach| breach.contains(needle)), "wanted `{needle}` among {found:#?}");
    }
}

fn ada(story: &mut Story) -> &mut ProcessedEvent {
    &mut story.history.agents[0]
}

fn home(story: &mut Story) -> &mut Timeline {
    &mut story.history.spaces[0]
}

#[test]
fn a_good_story_passes() {
    let story = story();
    assert_eq!(check(&story.ledger, &story.history, &story.told, &story.effects), []);
}

#[test]
fn what_is_lost_is_seen() {
    sees(|story| drop(ada(story).events.remove(0)), &["ada: event m3 is lost"]);
    sees(
        |story| drop(home(story).messages.remove(2)),
        &["t-000003-t: accepted as m3 and lost", "seq: 4 stands behind 2"],
    );
    sees(|story| ada(story).notes.clear(), &["note `k` was decided as Some(\"c2\") and is None"]);
    sees(|story| drop(ada(story).runs.remove(0)), &["cycle c2 stands in the log and has no run"]);
    sees(|story| drop(ada(story).log.remove(2)), &["log: 4 stands behind 2", "it answers []"]);
    sees(
        |story| drop(home(story).messages.pop()),
        &["call c2-send_message was decided once and said 0 times"],
    );
    sees(|story| story.ledger.items[0].promises.clear(), &["t-000001-t: never answered"]);
}

#[test]
fn what_is_doubled_is_seen() {
    let twin = |story: &mut Story| {
        let twin = Wording { id: "m9".into(), seq: 6, ..home(story).messages[0].clone() };
        home(story).messages.push(twin);
        home(story).head = 6;
    };
    sees(twin, &["t-000001-t: said 2 times in space home, as [\"m1\", \"m9\"]"]);
    let reply = |story: &mut Story| {
        let twin = Wording { id: "r9".into(), seq: 6, ..home(story).messages[3].clone() };
        home(story).messages.push(twin);
    };
    sees(
        reply,
        &[
            "call c1-send_message was decided once and said 2 times",
            "processed t-000001-t of home and answered it in",
        ],
    );
    let same = |story: &mut Story| {
        let twin = home(story).messages[0].clone();
        home(story).messages.push(twin);
    };
    sees(same, &["message m1 is there twice"]);
    sees(|story| story.ledger.items[0].promises[1].fresh = true, &["t-000001-t: accepted as new 2 times"]);
    let event = |story: &mut Story| {
        let twin = Happened { seq: 5, ..ada(story).events[0].clone() };
        ada(story).events.insert(0, twin);
    };
    sees(event, &["ada: event m3 is there twice"]);
}

#[test]
fn effects_that_are_not_what_the_log_says_are_seen() {
    let twice = |story: &mut Story| {
        story.effects.get_mut("c1-count_unsafe").unwrap().push("count_unsafe".into());
    };
    sees(twice, &["ada: call c1-count_unsafe of `count_unsafe` happened 2 times"]);
    let gone = "was told as done and never happened";
    sees(|story| drop(story.effects.remove("c1-count_unsafe")), &[gone]);
    sees(|story| drop(story.effects.remove("c2-count_idempotent")), &[gone]);
    sees(
        |story| drop(story.effects.insert("x".into(), vec!["count_read".into()])),
        &["call x: [\"count_read\"] happened outside and stand so in no log"],
    );
    let told = |words: &'static str| {
        move |story: &mut Story| {
            ada(story).log[2].outcomes[2].1 = true;
            ada(story).log[2].words[2] = words.into();
        }
    };
    sees(told("no"), &["call c1-count_unsafe of `count_unsafe` happened and was told as `no`"]);
    let mut honest = story();
    told("interrupted; unknown whether it happened")(&mut honest);
    assert_eq!(check(&honest.ledger, &honest.history, &honest.told, &honest.effects), []);
    assert_eq!(unknown(&honest.history), 1);
}

#[test]
fn what_was_lived_wrongly_is_seen() {
    let again = |story: &mut Story| {
        let line = "3. [space s] Mira (@owner, human), just now: \"note t-000001-t\"";
        let text = format!("{}\n{line}", ada(story).log[3].text);
        ada(story).log[3].text = text;
    };
    sees(again, &["event m1 (t-000001-t) is processed by [\"c1\"] and shown in [\"c1\", \"c2\"]"]);
    sees(again, &["ada: shown t-000001-t (message 1) behind message 2 of the same person"]);
    sees(|story| ada(story).events[0].state = "waiting".into(), &["event m3 at 4 is waiting"]);
    sees(|story| ada(story).events[0].state = "dead".into(), &["event m3 at 4 is dead"]);
    sees(
        |story| ada(story).events[3].cycle = Some("c2".into()),
        &["processed by [\"c2\"] and shown in [\"c1\"]", "run c1 says 1 events and processed 0"],
    );
    sees(|story| ada(story).runs[1].ending = "failed: x".into(), &["run c1 ended failed: x"]);
    sees(|story| ada(story).log[4].cycle = "c9".into(), &["a cycle begins with its inbox and has one"]);
    sees(
        |story| home(story).messages[3].text = "got".into(),
        &["processed t-000001-t of home and answered it in []"],
    );
    sees(
        |story| home(story).messages[3].text.push_str(" t-000003-t"),
        &["quote t-000003-t, which it never processed"],
    );
}

#[test]
fn what_watchers_were_told_wrongly_is_seen() {
    let told = |story: &mut Story| story.told.remove("ada").unwrap();
    sees(|story| drop(told(story)), &["ada: nobody followed it"]);
    sees(
        |story| drop(story.told.get_mut("ada").unwrap().commits.pop()),
        &["its last commit is 7, the last told was 6"],
    );
    sees(
        |story| story.told.get_mut("ada").unwrap().commits[5].step = 3,
        &["told Commit { n: 6", "stored Commit { n: 6"],
    );
    sees(|story| story.told.get_mut("ada").unwrap().wrong.push("a gap".into()), &["ada: a gap"]);
    sees(
        |story| story.told.get_mut("ada").unwrap().commits[2].kind = "decide".into(),
        &["begins cycle c2 with `decide`"],
    );
}
