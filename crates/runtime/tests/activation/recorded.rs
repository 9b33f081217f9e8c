//! Streams that real vendors sent, cut after every byte. Nothing of a cut stream is executed or stored, the next
//! attempt is processed as if it were the first, and every vendor accepts the history. The recordings are in the folder
//! `VIV_WIRE_CORPUS`; `VIV_RECORDED_MAX` is the largest size that is cut, in bytes.
//!
//! Cuts with the same decoded pieces are run once: the runtime sees only the decoded pieces.
#![allow(clippy::print_stdout, reason = "prints how much was cut")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::entry::Entry;
use agent::prompt::Prompt;
use agent::update::Topic;
use serde_json::Value;
use testkit::stubs::{Answer, Vendor};

use crate::fixture::{inbox, step};
use crate::prefix::{accepted_by_every_vendor_but, wires};
use crate::stub_vendor::{
    Cut, NEVER, SEALED, Sent, StubVendor, StubVendorNode, decoded, finished, stub_vendor_node,
};

/// Larger recordings show nothing more, and take longer to cut.
const SIZE_MAX: usize = 6_500;

/// The recordings of a vendor that are small enough, as bytes.
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
    // Errors are tested in `outage` and `failure_table`.
    let jsonl = jsonl.filter(|path| !path.to_string_lossy().contains("error"));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, sse(&std::fs::read_to_string(&path).unwrap()).into_bytes())
    };
    let found: Vec<_> = jsonl.map(read).filter(|(_, bytes)| bytes.len() <= most).collect();
    assert!(found.len() > 1, "hardly a recording in {folder} has up to {most} bytes");
    found
}

/// The events as their vendors send them: a type becomes the event's name. Only the first response of a file.
fn sse(text: &str) -> String {
    let mut stream = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        // One recording lacks the last brace of two of its lines.
        let candidates = [line.to_owned(), format!("{line}}}")];
        let read = candidates.iter().find_map(|line| Some((serde_json::from_str::<Value>(line).ok()?, line)));
        let (value, line) = read.unwrap();
        let name = value["type"].as_str().map_or_else(String::new, |name| format!("event: {name}\n"));
        stream.push_str(&format!("{name}data: {line}\n\n"));
        if value["type"] == "response.completed" {
            break;
        }
    }
    stream
}

/// How a stream arrives at the first attempt; at the next one it is whole.
#[derive(Clone, Copy)]
struct Arrives {
    at: usize,
    broken: bool,
}

/// The first cut of each class with the same decoded pieces, and how many cuts are in the class.
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

/// What the vendor sends next, and how often it was requested.
type Turn = Arc<Mutex<(Arrives, u32)>>;

/// A text without what differs for every agent: ids, times, its number.
fn blurred(text: &str) -> String {
    text.chars().filter(|char| !char.is_ascii_hexdigit()).collect()
}

/// Runs the cut with a new agent, then one more message. Returns the state of the first event and the blurred log.
async fn run_cut(
    node: &mut StubVendorNode,
    turn: &Turn,
    nth: usize,
    arrives: Arrives,
    known: &mut BTreeSet<String>,
) -> String {
    *turn.lock().unwrap() = (arrives, 0);
    let ada = node.world.agent(&format!("ada{nth}"), agent::config::AgentConfig::default()).await.unwrap();
    let lobby = node.world.space(&format!("lobby{nth}"), &[node.husam, ada.entity()]).await.unwrap();
    let mut states = Vec::new();
    for text in ["first", "second"] {
        let id = node.world.say(node.husam, lobby, text).await.unwrap();
        run_until_idle(node).await;
        states.push(node.world.state(ada, &id.to_string()).await.unwrap().as_str());
    }
    // An event that the model refuses is dead, cut or not.
    assert!(matches!(states[0], "processed" | "dead") && states[1] == "processed", "{states:?}");
    let messages = node.world.posted_texts(lobby).await.unwrap();
    assert_eq!(messages.last().unwrap().1, "here I am");
    assert_eq!(node.world.ports().live.drafts(Topic::Space(lobby)), [], "drafts are left");
    let (prompts, refused) = node.take_requests();
    // The stub refuses the recorded signatures; later requests leave them out.
    let ours = refused.iter().find(|why| !SEALED.iter().any(|phrase| why.contains(phrase)));
    assert_eq!(ours, None);
    let shown: String = prompts.iter().map(|prompt| blurred(&format!("{:?}\n", prompt.items))).collect();
    if known.insert(shown) {
        let own = (!refused.is_empty()).then_some(node.model.vendor());
        accepted_by_every_vendor_but(own, &prompts, "a request");
    }
    let mind = node.world.consciousness(ada).await.unwrap();
    let entry = |entry: &Entry| blurred(&format!("{:?} {:?}\n", entry.kind, entry.message));
    format!("{}\n{}", states[0], mind.iter().map(entry).collect::<String>())
}

async fn run_until_idle(node: &StubVendorNode) {
    for _ in 0..600 {
        node.world.pass(Duration::from_secs(1)).await.unwrap();
        let totals = node.world.reader().totals().await.unwrap();
        if (totals.waiting, totals.open_cycles) == (0, 0) {
            return;
        }
    }
    panic!("not idle within ten minutes");
}

async fn run_all_cuts(vendor: Vendor, folder: &str) {
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
        let mut node = stub_vendor_node(StubVendor::new(vendor, author), NEVER, false).await;
        let whole = run_cut(&mut node, &turn, 0, whole, &mut known).await;
        let classes = classes(vendor, &bytes);
        let cuts: usize = classes.iter().map(|(_, cuts)| cuts).sum();
        for (nth, (arrives, _)) in (1..).zip(&classes) {
            let cut = run_cut(&mut node, &turn, nth, *arrives, &mut known).await;
            let how = if arrives.broken { "broken" } else { "ended" };
            assert_eq!(cut, whole, "{name} {how} after {} of {} bytes", arrives.at, bytes.len());
        }
        println!("{name}: {cuts} cuts, {} runs", classes.len() + 1);
        assert!(cuts == 2 * (bytes.len() + 1) && classes.len() > 2, "{name}: hardly anything was cut");
    }
}

#[tokio::test]
async fn recorded_anthropic_streams_cut_at_every_byte_end_as_if_they_were_whole() {
    run_all_cuts(Vendor::Anthropic, "anthropic").await;
}

#[tokio::test]
async fn recorded_chat_streams_cut_at_every_byte_end_as_if_they_were_whole() {
    run_all_cuts(Vendor::OpenAi, "openai-chat").await;
}

#[tokio::test]
async fn recorded_gemini_streams_cut_at_every_byte_end_as_if_they_were_whole() {
    run_all_cuts(Vendor::Gemini, "google").await;
}

#[tokio::test]
async fn recorded_responses_streams_cut_at_every_byte_end_as_if_they_were_whole() {
    run_all_cuts(Vendor::Responses, "openai-responses").await;
}
