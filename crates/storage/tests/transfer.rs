//! Export and import of one agent, and files that are refused.

use std::path::Path;
use std::sync::Arc;

use agent::archive::FileOrigin;
use agent::event::Trust;
use agent::guard::GuardMode;
use agent::port::{Reader, Registry, Store};
use storage::sqlite::{self, Import, Sqlite, UpkeepError, verify};

use crate::promises::on_a_file;
use crate::upkeep::{data, used_store};

fn open(dir: &Path) -> Sqlite {
    Sqlite::open(dir, Arc::new(runtime::clock::SystemClock::new())).unwrap()
}

fn exported(dir: &Path, agent: &str) -> String {
    let mut out = Vec::new();
    let done = sqlite::export(dir, agent, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(done.lines, text.lines().count() as u64);
    text
}

/// A new, empty store.
async fn empty_store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).close().await.unwrap();
    dir
}

fn import(dir: &Path, text: &str, name: Option<&str>) -> Import {
    let file = dir.join("agent.jsonl");
    std::fs::write(&file, text).unwrap();
    sqlite::import(dir, &file, name, FileOrigin::Own).unwrap()
}

/// Pseudo-random numbers that are the same for the same seed.
fn choices(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let length = usize::from(next()) % 14;
    (0..length).map(|_| next()).collect()
}

/// Settles all waiting events of messages: they could not be imported into a store without their space.
async fn settled(dir: &Arc<tempfile::TempDir>) {
    let db = rusqlite::Connection::open(data(dir).join("vivarium.db")).unwrap();
    db.execute_batch(
        "DELETE FROM waiting WHERE (agent, seq) IN (SELECT agent, seq FROM event WHERE space IS NOT NULL); \
         UPDATE event SET state = 4 WHERE space IS NOT NULL AND state = 0; \
         UPDATE inbox_head SET waiting = (SELECT count(*) FROM waiting w WHERE w.agent = inbox_head.agent)",
    )
    .unwrap();
    drop(db);
    assert_eq!(verify(&data(dir)).unwrap().flaws, []);
}

#[tokio::test]
async fn an_agent_exported_from_the_store_it_was_imported_into_is_the_same() {
    let dir = used_store().await;
    settled(&dir).await;
    for name in ["ada", "bob"] {
        let first = exported(&data(&dir), name);
        let target = empty_store().await;
        let done = import(target.path(), &first, None);
        assert!(matches!(&done, Import::Done(imported) if imported.name == name), "{done:?}");
        assert_eq!(exported(target.path(), name), first, "{name}");
        assert_eq!(verify(target.path()).unwrap().flaws, [], "{name}");
        // It can be used there: its window, waiting events, calls and notes are the same.
        let (here, there) = (open(&data(&dir)), open(target.path()));
        let id = here.entity(name.into()).await.unwrap().unwrap().id.agent();
        let now = "2040-01-01T00:00:00Z".parse().unwrap();
        let (was, is) = (
            here.wake(id, now, None).await.unwrap().unwrap(),
            there.wake(id, now, None).await.unwrap().unwrap(),
        );
        assert_eq!(format!("{:?}", was.window), format!("{:?}", is.window));
        assert_eq!((was.waiting, was.calls, was.layers.len()), (is.waiting, is.calls, is.layers.len()));
        assert_eq!((was.facts.memories, was.facts.goals), (is.facts.memories, is.facts.goals));
        assert_eq!(was.life.open, is.life.open);
        here.close().await.unwrap();
        there.close().await.unwrap();
    }
}

#[tokio::test]
async fn any_agent_is_the_same_after_export_and_import() {
    for seed in 0..16 {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let choices = choices(seed);
        let backend = testkit::contract::sample::random(on_a_file::open(&dir).unwrap(), &choices).await;
        (backend.close)().await;
        let first = exported(&data(&dir), "ada");
        let target = tempfile::tempdir().unwrap();
        let done = import(target.path(), &first, None);
        assert!(matches!(done, Import::Done(_)), "{choices:?}: {done:#?}");
        assert_eq!(exported(target.path(), "ada"), first, "{choices:?}");
        assert_eq!(verify(target.path()).unwrap().flaws, [], "{choices:?}");
        let store = open(target.path());
        let ada = store.entity("ada".into()).await.unwrap().unwrap().id.agent();
        let activation = store.wake(ada, "2040-01-01T00:00:00Z".parse().unwrap(), None).await.unwrap();
        assert!(activation.is_some(), "{choices:?}");
        store.close().await.unwrap();
    }
}

/// A file whose rows say of themselves that an operator wrote them.
fn raised(text: &str) -> Vec<String> {
    let raise = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let row = line.as_object_mut().unwrap().values_mut().next().unwrap();
        if row.get("trust").is_some() {
            row["trust"] = 3.into();
        }
        for field in row.as_object_mut().unwrap().values_mut() {
            if let Some(text) =
                field.as_str().map(|text| text.replace("\"trust\":\"outside\"", "\"trust\":\"operator\""))
            {
                *field = text.into();
            }
        }
        line.to_string()
    };
    let lines: Vec<&str> = text.lines().collect();
    lines[..lines.len() - 1].iter().map(|line| raise(line)).collect()
}

#[tokio::test]
async fn what_a_file_says_of_trust_counts_only_if_somebody_vouches_for_it() {
    let dir = used_store().await;
    settled(&dir).await;
    let lines = raised(&exported(&data(&dir), "ada"));
    let ended: Vec<String> = (lines.iter())
        .map(|line| match line.starts_with("{\"call\"") {
            true => line
                .replace("\"state\":\"planned\"", "\"state\":\"done\"")
                .replace("\"state\":\"started\"", "\"state\":\"done\""),
            false => line.clone(),
        })
        .collect();
    for (origin, worth) in [(FileOrigin::Own, Trust::Operator), (FileOrigin::Unknown, Trust::Outside)] {
        let target = empty_store().await;
        let file = target.path().join("agent.jsonl");
        std::fs::write(&file, sealed(&ended)).unwrap();
        let done = sqlite::import(target.path(), &file, None, origin).unwrap();
        let Import::Done(imported) = done else { panic!("{done:#?}") };
        assert_eq!(imported.guard, GuardMode::Ask);
        let db = rusqlite::Connection::open(target.path().join("vivarium.db")).unwrap();
        for table in ["entry", "event", "memory", "goal", "plan", "view", "call"] {
            let sql =
                format!("SELECT count(*), count(*) FILTER (WHERE trust <> {}) FROM {table}", worth as u8);
            let (rows, others): (i64, i64) =
                db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(others, 0, "{table} {origin:?}");
            assert!(rows > 0 || matches!(table, "view" | "plan"), "{table} has rows to look at");
        }
        drop(db);
        assert_eq!(verify(target.path()).unwrap().flaws, [], "{origin:?}");
    }
}

#[tokio::test]
async fn a_call_of_a_file_runs_here_only_if_somebody_vouches_for_it() {
    let dir = used_store().await;
    settled(&dir).await;
    let mut lines = raised(&exported(&data(&dir), "ada"));
    let call = lines.iter().position(|line| line.starts_with("{\"call\"")).unwrap();
    let mut row: serde_json::Value = serde_json::from_str(&lines[call]).unwrap();
    for (name, value) in [("state", "detached"), ("effect", "unsafe"), ("tool", "pay"), ("runner", "node")] {
        row["call"][name] = value.into();
    }
    lines[call] = row.to_string();
    let target = empty_store().await;
    let file = target.path().join("agent.jsonl");
    std::fs::write(&file, sealed(&lines)).unwrap();
    let done = sqlite::import(target.path(), &file, None, FileOrigin::Unknown).unwrap();
    let Import::Flawed { flaws, .. } = done else { panic!("{done:#?}") };
    let named =
        |what: &str| flaws.iter().any(|flaw| flaw.line == call as u64 + 1 && flaw.what.contains(what));
    assert!(named("its call of `pay` has not ended"), "{flaws:#?}");
    let own = sqlite::import(target.path(), &file, None, FileOrigin::Own).unwrap();
    let refused = matches!(&own, Import::Flawed { flaws, .. } if flaws.iter().any(|flaw| flaw.what.contains("has not ended")));
    assert!(!refused, "{own:#?}");
}

#[tokio::test]
async fn an_agent_that_exists_or_whose_handle_is_taken_is_refused() {
    let dir = used_store().await;
    let text = exported(&data(&dir), "ada");
    let flaws = |done: Import| match done {
        Import::Flawed { flaws, .. } => flaws,
        Import::Done(_) => panic!("it was imported"),
    };
    let same = flaws(import(&data(&dir), &text, None));
    assert!(same.len() == 1 && same[0].line == 2 && same[0].what.contains("is here already"), "{same:?}");
    let target = empty_store().await;
    let store = open(target.path());
    let at = jiff::Timestamp::UNIX_EPOCH;
    let id = agent::id::EntityId(uuid::Uuid::from_u128(9));
    store.create_human(agent::port::NewHuman::new(id, "ada", at)).await.unwrap();
    store.close().await.unwrap();
    let taken = flaws(import(target.path(), &text, None));
    assert!(taken[0].what.contains("handle `ada` is taken"), "{taken:?}");
    let bad = flaws(import(target.path(), &text, Some("Ada Lovelace")));
    assert!(bad[0].what.contains("not a handle"), "{bad:?}");
    let waits = flaws(import(target.path(), &text, Some("ada-2")));
    assert!(
        waits.iter().all(|flaw| flaw.what.contains("it waits, and its message is in the space")),
        "{waits:#?}"
    );
    settled(&dir).await;
    let text = exported(&data(&dir), "ada");
    assert!(
        matches!(import(target.path(), &text, Some("ada-2")), Import::Done(done) if done.name == "ada-2")
    );
    assert!(matches!(
        sqlite::export(target.path(), "nobody", &mut Vec::new()),
        Err(UpkeepError::NoAgent { .. })
    ));
    let running = open(target.path());
    let error =
        sqlite::import(target.path(), &target.path().join("agent.jsonl"), None, FileOrigin::Own).unwrap_err();
    assert!(matches!(error, UpkeepError::Open(sqlite::OpenError::Locked { .. })), "{error}");
    running.close().await.unwrap();
}

/// An export of these changed lines, with a last line that matches them.
fn sealed(lines: &[String]) -> String {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for line in &lines[1..] {
        let row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap_or_default();
        row.into_iter().for_each(|(kind, _)| *counts.entry(kind).or_default() += 1);
    }
    let text = lines.join("\n") + "\n";
    let end = serde_json::json!({"end": {"counts": counts, "crc": crc32fast::hash(text.as_bytes())}});
    format!("{text}{end}\n")
}

/// The lines of an export without the last one.
struct ExportLines(Vec<String>);

impl ExportLines {
    fn of(text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Self(lines[..lines.len() - 1].to_vec())
    }

    /// The index of the first line of that kind.
    fn line(&self, what: &str) -> usize {
        let begins = format!("{{\"{what}\":");
        self.0.iter().position(|line| line.starts_with(&begins)).unwrap()
    }

    fn edited(&self, at: usize, from: &str, to: &str) -> String {
        let mut lines = self.0.clone();
        assert!(lines[at].contains(from), "{}", lines[at]);
        lines[at] = lines[at].replacen(from, to, 1);
        sealed(&lines)
    }

    fn without(&self, at: usize) -> String {
        let mut lines = self.0.clone();
        lines.remove(at);
        sealed(&lines)
    }

    fn swapped(&self, at: usize) -> String {
        let mut lines = self.0.clone();
        lines.swap(at, at + 1);
        lines.join("\n") + "\n"
    }
}

/// Changed files, each with the line of an expected flaw and a part of its text.
async fn cases(text: &str) -> Vec<(String, usize, &'static str)> {
    let export = ExportLines::of(text);
    let (count, end) = (export.0.len(), text.lines().last().unwrap().to_owned());
    let (entry, event, commits) = (export.line("entry"), export.line("event"), export.line("commits"));
    let with_end = |lines: String| format!("{lines}{end}\n");
    let whole = export.0.join("\n") + "\n";
    let mut twice = export.0.clone();
    twice.insert(1, twice[0].clone());
    let mut second = export.0.clone();
    second.insert(5, second[0].clone());
    vec![
        (String::new(), 0, "it is empty"),
        ("\n".into(), 1, "it is empty"),
        ("hello\n".into(), 1, "cannot be read"),
        ("[1]\n".into(), 1, "cannot be read"),
        ("{\"hello\":{}}\n".into(), 1, "not an export of an agent"),
        ("{\"hello\":1}\n".into(), 1, "one object with one key"),
        (export.edited(0, "\"format\":1", "\"format\":9"), 1, "format is 9, written by a newer viv"),
        (export.edited(0, "\"format\":1", "\"format\":0"), 1, "its format is not stated"),
        (export.edited(0, "\"tables\":", "\"tables\":9"), 1, "exported by a newer viv"),
        (export.edited(0, "\"tables\":", "\"tables\":-"), 1, "exported by an older viv"),
        (export.edited(0, "\"agent\":", "\"mood\":1,\"agent\":"), 1, "unknown field `mood`"),
        (sealed(&twice), 2, "wanted the agent's `entity`"),
        (sealed(&second), 6, "a second first line"),
        (whole.clone(), count, "it breaks off after this line"),
        (text[..text.len() / 2].to_owned(), text[..text.len() / 2].lines().count(), "cannot be read: EOF"),
        (text[..text.len() / 2].to_owned(), text[..text.len() / 2].lines().count(), "it breaks off"),
        (format!("{text}{}\n", export.0[entry]), count + 2, "after the last line"),
        (with_end(export.swapped(entry)), count + 1, "in another order"),
        (with_end(whole.replacen("likes rain", "likes snow", 1)), count + 1, "a line was changed"),
        (with_end(whole.replacen(&format!("{}\n", export.0[event]), "", 1)), count, "of `event`"),
        (export.edited(entry, "{\"entry\"", "{\"entrie\""), entry + 1, "not a table of an agent"),
        // A file does not say which calls people have approved here.
        (export.edited(entry, "{\"entry\"", "{\"approval_rule\""), entry + 1, "not a table of an agent"),
        (export.edited(entry, "\"seq\":1", "\"seq\":\"one\""), entry + 1, "cannot store"),
        (export.edited(entry, "\"seq\":1", "\"seq\":[1]"), entry + 1, "not a value of a record"),
        (export.edited(entry, "\"step\":0,", ""), entry + 1, "`step` is missing"),
        (
            export.edited(entry, "\"step\":0", "\"step\":0,\"colour\":1"),
            entry + 1,
            "`colour` does not belong",
        ),
        (export.edited(entry, "inbox\\\"", "outbox\\\""), entry + 1, "checksum"),
        (export.edited(entry + 1, "\"seq\":2", "\"seq\":1"), entry + 2, "UNIQUE"),
        (export.edited(event, "\"trust\":", "\"trust\":1"), event + 1, "is not a trust level"),
        (export.edited(event, "\"hex\":\"", "\"hex\":\"x"), event + 1, "wanted {\"hex\""),
        (export.without(commits + 1), commits + 2, "commit 2 before it is missing"),
        (export.without(entry + 1), entry + 2, "entry 2 before it is missing"),
        (
            export.edited(export.line("life"), "\"epoch\":", "\"epoch\":1"),
            export.line("life") + 1,
            "the last commit's",
        ),
    ]
}

#[tokio::test]
async fn a_file_edited_by_hand_is_refused_with_line_and_reason_and_nothing_is_written() {
    let dir = used_store().await;
    settled(&dir).await;
    let text = exported(&data(&dir), "ada");
    let target = empty_store().await;
    for (edited, at, what) in cases(&text).await {
        let Import::Flawed { flaws, .. } = import(target.path(), &edited, None) else {
            panic!("imported: {what}")
        };
        let named = flaws.iter().any(|flaw| flaw.line == at as u64 && flaw.what.contains(what));
        assert!(named, "wanted line {at}: {what}, got {flaws:#?}");
        assert!(flaws.is_sorted_by_key(|flaw| flaw.line), "{flaws:#?}");
        assert!(!flaws.iter().any(|flaw| flaw.what.contains("entry 1: entry 1")), "{flaws:#?}");
        let found = verify(target.path()).unwrap();
        assert_eq!(
            (found.figures.agents, found.figures.entries, found.flaws.as_slice()),
            (0, 0, &[][..]),
            "{what}"
        );
    }
    let windows = text.replace('\n', "\r\n");
    assert!(
        matches!(import(target.path(), &windows, None), Import::Done(_)),
        "other line endings are not a change"
    );
}

#[tokio::test]
async fn all_flaws_of_a_file_are_reported_at_once() {
    let dir = used_store().await;
    settled(&dir).await;
    let export = ExportLines::of(&exported(&data(&dir), "ada"));
    let (entry, event, call) = (export.line("entry"), export.line("event"), export.line("call"));
    let mut lines = export.0;
    lines[entry] = lines[entry].replacen("\"step\":0,", "", 1);
    lines[event] = lines[event].replacen("\"urgent\":0", "\"urgent\":[0]", 1);
    lines[call] = "nothing".into();
    let target = empty_store().await;
    let Import::Flawed { flaws, more: 0 } = import(target.path(), &sealed(&lines), None) else {
        panic!("it was imported")
    };
    let places: Vec<u64> = flaws.iter().map(|flaw| flaw.line).collect();
    assert_eq!(places, [entry + 1, event + 1, call + 1].map(|at| at as u64), "{flaws:#?}");
}

#[tokio::test]
async fn bytes_that_are_not_text_and_an_endless_line_are_refused() {
    let target = empty_store().await;
    let file = target.path().join("agent.jsonl");
    let flaws = || match sqlite::import(target.path(), &file, None, FileOrigin::Own).unwrap() {
        Import::Flawed { flaws, .. } => flaws,
        Import::Done(_) => panic!("it was imported"),
    };
    std::fs::write(&file, [0xff, 0xfe, 0x00, 0x9f, b'\n', 0xff]).unwrap();
    let found = flaws();
    assert!(found.len() == 1 && found[0].line == 1 && found[0].what.contains("not UTF-8"), "{found:?}");
    let giant = std::fs::File::create(&file).unwrap();
    giant.set_len(agent::limits::IMPORT_LINE_MAX_BYTES as u64 + 4_096).unwrap();
    let found = flaws();
    assert!(found.len() == 1 && found[0].line == 1 && found[0].what.contains("longer than any"), "{found:?}");
    assert!(
        sqlite::import(target.path(), &target.path().join("missing.jsonl"), None, FileOrigin::Own).is_err()
    );
}

#[tokio::test]
async fn a_refused_file_creates_no_store() {
    let dir = used_store().await;
    settled(&dir).await;
    let text = exported(&data(&dir), "ada");
    let file = dir.path().join("agent.jsonl");
    let target = dir.path().join("not/there/yet");
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(matches!(sqlite::import(&target, &file, None, FileOrigin::Own).unwrap(), Import::Flawed { .. }));
    assert!(!dir.path().join("not").exists());
    std::fs::write(&file, &text).unwrap();
    assert!(matches!(sqlite::import(&target, &file, None, FileOrigin::Own).unwrap(), Import::Done(_)));
    assert_eq!(exported(&target, "ada"), text);
}
