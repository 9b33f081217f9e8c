//! What goes over the wire while a history grows and is cut: in each format the bytes of a request extend those of the one
//! before as long as the view stands, and no cut parts a call from its outcome.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::call::Effect;
use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::limits;
use agent::message::Part;
use agent::port::{Memo, ModelInfo};
use agent::prompt::{Item, Prompt};
use agent::run::Ending;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, done, entries, inbox, two, world_with};
use crate::prefix::{model, taken_by, wires};

fn with_window(context_window: u32, author: impl Fn(&Prompt) -> Script + Send + Sync + 'static) -> Scripted {
    Scripted::answering(author).with_info(ModelInfo {
        name: format!("window/{context_window}"),
        provider: "window".into(),
        context_window,
        max_output: 512,
        ..ModelInfo::default()
    })
}

/// Calls a tool that gives back a text of so many bytes.
fn look(bytes: usize) -> Script {
    Script::new().reasoning("hm").text("looking").call("look", &json!({"note": "word ".repeat(bytes / 5)}))
}

fn shows(prompt: &Prompt, wanted: impl Fn(&Item) -> bool) -> bool {
    prompt.items.iter().any(wanted)
}

fn is_preview(item: &Item) -> bool {
    matches!(item, Item::Layer(text) if text.contains("[INBOX PREVIEW"))
}

fn is_injection(item: &Item) -> bool {
    matches!(item, Item::Entry(entry) if entry.kind == EntryKind::Injection)
}

fn is_large(item: &Item) -> bool {
    let Item::Entry(entry) = item else { return false };
    entry.kind == EntryKind::Outcomes && entry.message.countable().len() >= limits::OUTCOME_SHOWN_MAX_BYTES
}

/// A cycle with a preview, an injection and large outcomes that is compacted in the middle, then two short cycles.
async fn told() -> Vec<Prompt> {
    let asked = AtomicUsize::new(0);
    let author = move |prompt: &Prompt| match prompt.tools.is_empty() {
        true => Script::new().text("## Facts\n- much was read"),
        false => match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Script::new().call("slow", &json!({})),
            1..=8 => look(limits::OUTCOME_SHOWN_MAX_BYTES + 4_096),
            9 => Script::new().text("so").call("look", &json!({})).call("nonsense", &json!({})),
            _ => done(),
        },
    };
    let fixture = Fixture::with(with_window(48_000, author), |store| store);
    let world = &fixture.world;
    let (husam, sara) = (world.human("husam").await.unwrap(), world.human("sara").await.unwrap());
    let config = json!({"limits": {"token_budget": 10_000_000}});
    let ada = world.agent("ada", AgentConfig::from_json(&config).unwrap()).await.unwrap();
    let lab = world.space("lab", &[husam, sara, ada.entity()]).await.unwrap();
    world.say(husam, lab, "read all of it").await.unwrap();
    world.pass(Duration::from_millis(100)).await.unwrap();
    fixture.gate.begun(1).await;
    world.say(husam, lab, "and \"quote\" it\n\nin two paragraphs").await.unwrap();
    world.say(sara, lab, "when you have time").await.unwrap();
    fixture.gate.open();
    world.quiet().await.unwrap();
    world.say(sara, lab, "and now?").await.unwrap();
    world.quiet().await.unwrap();
    fixture.model.prompts().into_iter().filter(|prompt| !prompt.tools.is_empty()).collect()
}

#[tokio::test]
async fn in_every_wire_format_each_request_extends_the_bytes_of_the_one_before_until_the_view_changes() {
    let prompts = told().await;
    let same_view: Vec<bool> = prompts.windows(2).map(|pair| pair[0].view == pair[1].view).collect();
    let compacted =
        prompts.windows(2).any(|pair| pair[0].view != pair[1].view && pair[0].cycle == pair[1].cycle);
    let new_cycle =
        prompts.windows(2).any(|pair| pair[0].view == pair[1].view && pair[0].cycle != pair[1].cycle);
    assert!(compacted && new_cycle, "{same_view:?}");
    for (what, wanted) in [
        ("a preview", is_preview as fn(&Item) -> bool),
        ("an injection", is_injection),
        ("a large outcome", is_large),
    ] {
        let extended = |(pair, same): (&[Prompt], &bool)| *same && shows(&pair[0], wanted);
        assert!(prompts.windows(2).zip(&same_view).any(extended), "{what} is in no request that is extended");
    }
    for (vendor, wire) in wires() {
        let model = model(wire);
        // As in an activation: one memo for all requests. Marks for the cache move; they are no part of what is cached.
        let mut memo = Memo::default();
        let mut body =
            |prompt| String::from_utf8(model.encode(prompt, &mut memo).body.concat().to_vec()).unwrap();
        let bodies: Vec<_> = prompts.iter().map(|prompt| body(prompt).replace(CACHE_MARK, "")).collect();
        for (n, (pair, same_view)) in bodies.windows(2).zip(&same_view).enumerate() {
            let rest = after_common_prefix(&pair[0], &pair[1]);
            let extends = rest.len() < 8 && rest.chars().all(|closes| "\"}]".contains(closes));
            let rest: String = rest.chars().take(200).collect();
            assert_eq!(extends, *same_view, "{vendor:?}: request {n} is not continued from: {rest}");
        }
    }
}

const CACHE_MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// What `one` has behind the last byte up to which `other` is the same.
fn after_common_prefix<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    one.get(same..).unwrap_or("the middle of a character")
}

#[tokio::test]
async fn a_change_to_a_smaller_model_within_a_cycle_cuts_the_view_and_parts_no_call_from_its_outcome() {
    let own = Arc::new(with_window(48_000, |_| look(4_000)));
    let asked = AtomicUsize::new(0);
    let other = Arc::new(with_window(8_192, move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0..4 => look(2_000),
        _ => done(),
    }));
    let models = two(&own, &other);
    let (world, ..) = world_with(models, |store| store, Effect::ReadOnly);
    let husam = world.human("husam").await.unwrap();
    let config = json!({
        "tools": ["look", "done"],
        "routing": [{"from": 6, "model": "window/8192"}],
        "history": {"summary": "digest"},
        "limits": {"token_budget": 10_000_000},
    });
    let ada = world.agent("ada", AgentConfig::from_json(&config).unwrap()).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lab, "read all of it").await.unwrap();
    world.quiet().await.unwrap();

    let (large, small) = (own.prompts(), other.prompts());
    assert_eq!((large.len(), small.len()), (6, 5));
    let (before, after) = (large.last().unwrap(), &small[0]);
    assert_eq!(before.cycle, after.cycle);
    assert!(before.tokens > 8_192 && after.view > before.view, "{} tokens", before.tokens);
    for prompt in &small {
        assert!(prompt.tokens + 512 <= 8_192, "{} tokens", prompt.tokens);
        assert!(inbox(prompt).contains("read all of it"), "the cycle knows what it is for");
        assert!(entries(prompt).len() > 2, "some of its steps have room");
        let mut open = HashSet::new();
        for entry in entries(prompt) {
            for part in &entry.message.parts {
                match part {
                    Part::ToolCall { id, .. } => assert!(open.insert(id.clone())),
                    Part::ToolResult { id, .. } => assert!(open.remove(id), "an outcome without its call"),
                    _ => {}
                }
            }
        }
        assert!(open.is_empty(), "calls without outcomes: {open:?}");
    }
    for (vendor, wire) in wires() {
        taken_by(vendor, wire, &small, "the smaller model");
    }
    let run = world.runs(ada).await.unwrap().remove(0);
    assert_eq!((run.ending, run.steps.len()), (Ending::Completed, 11));
}
