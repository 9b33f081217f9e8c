//! Streams that real vendors sent, cut behind every byte, and each cut lived: nothing of the cut stream is
//! executed or remembered, the next attempt is processed as if it had been the first, and the history is one that
//! every vendor takes. The recordings are in the folder named by `VIV_WIRE_CORPUS`; up to which size they are
//! cut, in bytes, says `VIV_RECORDED_MAX`.
//!
//! Of all cuts behind which the wire says the same, one is processed: more than what the wire says does not reach
//! the runtime.
#![allow(clippy::print_stdout, reason = "how much was cut is told to whoever looks")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::entry::Entry;
use agent::prompt::Prompt;
use agent::update::Topic;
use serde_json::Value;
use testkit::stubs::{Answer, Vendor};

use crate::play::{inbox, step};
use crate::prefix::{accepted_by_every_vendor_but, wires};
use crate::wired::{Cut, NEVER, SEALED, Sent, Wired, WiredNode, decoded, finished, house};

/// Larger recordings say nothing that smaller ones do not, and take longer to cut.
const SIZE_MAX: usize = 6_500;

/// The recordings of a vendor that are small enough, as the bytes that it sent.
fn recordings(folder: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(corpus) = std::env::var("VIV_WIRE_CORPUS") else {
        println!("skipped: VIV_WIRE_CORPUS is not set");
        return Vec::new();
    };
    let most = std::env::var("VIV_RECORDED_MAX").ok().and_then(|text| text.parse().ok()).unwrap_or(SIZE_MAX);
    let entries = std::fs::read_dir(Path::new(&corpus).join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let jsonl = paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    // Nobody lives on an error: that ends in `outage` and `table`.
    let jsonl = jsonl.filter(|path| !path.to_string_lossy().contains("error"));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, sse(&std::fs::read_to_string(&path).unwrap()).into_bytes())
    };
    let found: Vec<_> = jsonl.map(read).filter(|(_, bytes)| bytes.len() <= most).collect();
    assert!(found.len() > 1, "hardly a recording in {folder} has up to {most} bytes");
    found
}

/// The events as their vendors send them: those that name their type have it as the event's name. One response
/// of those that stand in a file.
fn sse(text: &str) -> String {
    let mut stream = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        // One recording lacks the last brace of two of its lines.
        let mended = [line.to_owned(), format!("{line}}}")];
        let read = mended.iter().find_map(|line| Some((serde_json::from_str::<Value>(line).ok()?, line)));
        let (value, line) = read.unwrap();
        let name = value["type"].as_str().map_or_else(String::new, |name| format!("event: {name}\n"));
        stream.push_str(&format!("{name}data: {line}\n\n"));
        if value["type"] == "response.completed" {
            break;
        }
    }
    stream
}

/// A stream as it arrives at the first attempt; at the next one it is whole.
#[derive(Clone, Copy)]
struct Arrives {
    at: usize,
    broken: bool,
}

/// The first of all cuts behind which the wire says the same, and how many there are.
fn classes(vendor: Vendor, bytes: &[u8]) -> Vec<(Arrives, usize)> {
    let wire = wires().into_iter().find(|(of, _)| *of == vendor).unwrap().1;
    let mut classes: BTreeMap<(usize, String), (Arrives, usize)> = BTreeMap::new();
    for at in 0..=bytes.len() {
        for broken in [false, true] {
            let pieces = decoded(&*wire, &bytes[..at], usize::MAX, broken);
            let class = classes.entry((pieces.len(), format!("{:?}", pieces.last())));
            class.or_insert((Arrives { at, broken }, 0)).1 += 1;
        }
    }
    classes.into_values().collect()
}

/// What the model of the server sends next, and how often it was asked for it.
type Turn = Arc<Mutex<(Arrives, u32)>>;

/// A text without what is another one for every agent: ids, times, its number.
fn blurred(text: &str) -> String {
    text.chars().filter(|char| !char.is_ascii_hexdigit()).collect()
}

/// Lives the cut with an agent of its own, then one more message; what became of the first, and its log,
/// blurred.
async fn lived(
    house: &mut WiredNode,
    turn: &Turn,
    nth: usize,
    arrives: Arrives,
    known: &mut BTreeSet<String>,
) -> String {
    *turn.lock().unwrap() = (arrives, 0);
    let ada = house.world.agent(&format!("ada{nth}"), agent::config::AgentConfig::default()).await.unwrap();
    let lobby = house.world.space(&format!("lobby{nth}"), &[house.husam, ada.entity()]).await.unwrap();
    let mut fates = Vec::new();
    for text in ["first", "second"] {
        let id = house.world.say(house.husam, lobby, text).await.unwrap();
        rest(house).await;
        fates.push(house.world.state(ada, &id.to_string()).await.unwrap().as_str());
    }
    // What a model refuses to live is a dead event, cut or not.
    assert!(matches!(fates[0], "processed" | "dead") && fates[1] == "processed", "{fates:?}");
    let heard = house.world.heard(lobby).await.unwrap();
    assert_eq!(heard.last().unwrap().1, "here I am");
    assert_eq!(house.world.ports().live.drafts(Topic::Space(lobby)), [], "drafts are left over");
    let (prompts, refused) = house.news();
    // What a vendor signed elsewhere is nothing that it takes here; it is left out then, and that is all.
    let ours = refused.iter().find(|why| !SEALED.iter().any(|words| why.contains(words)));
    assert_eq!(ours, None);
    let shown: String = prompts.iter().map(|prompt| blurred(&format!("{:?}\n", prompt.items))).collect();
    if known.insert(shown) {
        let own = (!refused.is_empty()).then_some(house.model.vendor());
        accepted_by_every_vendor_but(own, &prompts, "a request");
    }
    let mind = house.world.mind(ada).await.unwrap();
    let entry = |entry: &Entry| blurred(&format!("{:?} {:?}\n", entry.kind, entry.message));
    format!("{}\n{}", fates[0], mind.iter().map(entry).collect::<String>())
}

async fn rest(house: &WiredNode) {
    for _ in 0..600 {
        house.world.pass(Duration::from_secs(1)).await.unwrap();
        let totals = house.world.reader().totals().await.unwrap();
        if (totals.waiting, totals.open_cycles) == (0, 0) {
            return;
        }
    }
    panic!("no rest within ten minutes");
}

async fn cut_and_lived(vendor: Vendor, folder: &str) {
    let mut known = BTreeSet::new();
    for (name, bytes) in recordings(folder) {
        let whole = Arrives { at: bytes.len(), broken: false };
        let turn: Turn = Arc::new(Mutex::new((whole, 0)));
        let (next, stream) = (Arc::clone(&turn), bytes.clone());
        let author = move |prompt: &Prompt, _| match (inbox(prompt).contains("second"), step(prompt)) {
            (false, 0) => {
                let mut turn = next.lock().unwrap();
                turn.1 += 1;
                let cut = (turn.1 == 1).then_some(Cut::At(turn.0.at));
                Sent { cut, ends_well: !turn.0.broken, ..Sent::whole(Answer::raw(stream.clone())) }
            }
            (true, 0) => {
                let text = r#"{"text":"here I am"}"#;
                Sent::whole(Answer::new().call("s", "send_message", text, 5))
            }
            _ => finished(),
        };
        let mut house = house(Wired::new(vendor, author), NEVER, false).await;
        let uncut = lived(&mut house, &turn, 0, whole, &mut known).await;
        let classes = classes(vendor, &bytes);
        let cuts: usize = classes.iter().map(|(_, cuts)| cuts).sum();
        for (nth, (arrives, _)) in (1..).zip(&classes) {
            let cut = lived(&mut house, &turn, nth, *arrives, &mut known).await;
            let how = if arrives.broken { "broken" } else { "ended" };
            assert_eq!(cut, uncut, "{name} {how} behind {} of {} bytes", arrives.at, bytes.len());
        }
        println!("{name}: {cuts} cuts, {} lives", classes.len() + 1);
        assert!(cuts == 2 * (bytes.len() + 1) && classes.len() > 2, "{name}: hardly anything was cut");
    }
}

#[tokio::test]
async fn recorded_anthropic_streams_cut_at_every_byte_are_lived_as_if_they_were_whole() {
    cut_and_lived(Vendor::Anthropic, "anthropic").await;
}

#[tokio::test]
async fn recorded_chat_streams_cut_at_every_byte_are_lived_as_if_they_were_whole() {
    cut_and_lived(Vendor::OpenAi, "openai-chat").await;
}

#[tokio::test]
async fn recorded_gemini_streams_cut_at_every_byte_are_lived_as_if_they_were_whole() {
    cut_and_lived(Vendor::Gemini, "google").await;
}

#[tokio::test]
async fn recorded_responses_streams_cut_at_every_byte_are_lived_as_if_they_were_whole() {
    cut_and_lived(Vendor::Responses, "openai-responses").await;
}
