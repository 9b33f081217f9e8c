//! What a step does with a history of 100k tokens before its request is sent: count what is in it, and assemble the bytes. Only
//! what is new may take time.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use agent::entry::{Entry, EntryKind, View};
use agent::id::{CallId, CycleId};
use agent::message::{ModelMessage, Part, Role};
use agent::port::{Memo, ModelInfo, ReasoningReplay};
use agent::prompt::{Item, Prompt, ToolChoice};
use agent::view::{self, Budget};
use agent::{limits, tokens};
use anyhow::Result;
use jiff::Timestamp;
use models::client::{Address, Clients, VendorModel};
use models::wire::openai_chat::{Dialect, OpenAiChat, ToolMode};
use uuid::Uuid;

use crate::Bench;
use crate::history::prose;
use crate::measure::{Samples, short, timed};
use crate::report::{Floor, Goal, Metric};

/// Tokens of the history.
const TOKENS: u64 = 100_000;
/// Words of a message; a history has as many messages as fit.
const WORDS: usize = 400;
/// The window, so large that nothing is cut.
const WINDOW: u32 = 1_000_000;
/// Measured steps, and those before the first of them.
const STEPS: u64 = 200;
const WARM_UP: u64 = 20;
/// How often what takes less than a microsecond is repeated in one measurement.
const REPEAT: usize = 100;

pub(crate) fn measure(_: &Bench) -> Result<Vec<Metric>> {
    let mut window = Vec::new();
    while total(&window) < TOKENS {
        let n = window.len() as u64;
        let message = ModelMessage::user(prose(window.len(), WORDS));
        let kind = if n.is_multiple_of(2) { EntryKind::Inbox } else { EntryKind::Assistant };
        let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
        window.push(entry(n + 1, kind, ModelMessage { role, ..message }));
    }
    Ok(vec![accounting(&window), assembly(&window)])
}

fn total(window: &[Arc<Entry>]) -> u64 {
    window.iter().map(|entry| u64::from(entry.tokens)).sum()
}

fn entry(seq: u64, kind: EntryKind, message: ModelMessage) -> Arc<Entry> {
    let (cycle, step, at) = (CycleId(Uuid::from_u128(u128::from(seq / 2))), 0, Timestamp::UNIX_EPOCH);
    let tokens = tokens::estimate(&message.countable());
    Arc::new(Entry { seq, cycle, step, kind, message, tokens, at, trust: agent::event::Trust::Member })
}

/// A step as it is appended: a call and its outcome.
fn step(seq: u64) -> [Arc<Entry>; 2] {
    let id = CallId(format!("call-{seq}"));
    let (name, arguments) = ("put".to_owned(), r#"{"note":"written down"}"#.to_owned());
    let call = Part::ToolCall { id: id.clone(), name: name.clone(), arguments };
    let text = r#"{"success":true,"note":"written down"}"#.to_owned();
    let result = Part::ToolResult { id, name, text, error: false };
    let message = |role, part| ModelMessage { role, parts: vec![part], native: None };
    [
        entry(seq, EntryKind::Assistant, message(Role::Assistant, call)),
        entry(seq + 1, EntryKind::Outcomes, message(Role::Tool, result)),
    ]
}

/// What a step counts (its own two entries, then two sums over what is stored: whether the history fits, and how large the
/// request is), against an estimate of every text.
fn accounting(window: &[Arc<Entry>]) -> Metric {
    let budget = Budget::of(WINDOW, 4_096, 2_000, 500);
    let new = step(window.len() as u64 + 1).map(|entry| entry.message.clone());
    let (mut counted, mut recounted) = (Samples::default(), Samples::default());
    for round in 0..STEPS + WARM_UP {
        let (took, ()) = timed(|| {
            for _ in 0..REPEAT {
                for message in &new {
                    black_box(tokens::estimate(&black_box(message).countable()));
                }
                let percent = limits::VIEW_TRIGGER_PERCENT;
                black_box(view::cut(&View::whole(), black_box(window), budget, percent, None));
                black_box(total(black_box(window)));
            }
        });
        let recount = || {
            window.iter().map(|entry| u64::from(tokens::estimate(&entry.message.countable()))).sum::<u64>()
        };
        let (took_recount, _) = timed(|| black_box(recount()));
        if round >= WARM_UP {
            counted.push(took / REPEAT as f64);
            recounted.push(took_recount);
        }
    }
    let note = format!(
        "counting a step's call and outcome and adding up {} entries of {} tokens ({}); floor: an estimate of all their texts ({})",
        window.len(),
        total(window),
        counted.spread(),
        recounted.spread(),
    );
    let value = (counted.median(), "us");
    Metric::new(
        "mind.accounting_ratio",
        value,
        Floor::Named(recounted.median()),
        Goal::RatioAtMost(0.001),
        note,
    )
}

/// The request of a step from the history and the encoded fragments of the request before, against one copy of its bytes.
fn assembly(window: &[Arc<Entry>]) -> Metric {
    let (model, mut memo, mut window) = (model(), Memo::default(), window.to_vec());
    let (mut assembled, mut copied) = (Samples::default(), Samples::default());
    let (mut segments, mut bytes) = (Samples::default(), 0);
    for round in 0..STEPS + WARM_UP {
        window.extend(step(window.len() as u64 + 1));
        let (took, encoded) = timed(|| model.encode(&prompt(&window), &mut memo));
        let (took_copy, body) = timed(|| encoded.body.concat());
        if round >= WARM_UP {
            assembled.push(took);
            copied.push(took_copy);
            segments.push(encoded.body.segments() as f64);
            bytes = body.len();
        }
    }
    let note = format!(
        "the request of one more step as chat completions, with the fragments of the one before in memory ({}), in {} segments; \
         floor: its {bytes} bytes copied once ({})",
        assembled.spread(),
        short(segments.median()),
        copied.spread(),
    );
    let value = (assembled.median(), "us");
    Metric::new("mind.assembly_ratio", value, Floor::Named(copied.median()), Goal::RatioAtMost(3.0), note)
}

fn model() -> VendorModel {
    let wire = OpenAiChat::new("bench", 4_096, ToolMode::Native, Dialect::COMPATIBLE);
    let info = ModelInfo {
        name: "bench/bench".to_owned(),
        provider: "bench".to_owned(),
        context_window: WINDOW,
        max_output: 4_096,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    };
    let address = Address { base_url: "http://127.0.0.1:9".to_owned(), key: None, headers: BTreeMap::new() };
    VendorModel::new(info, Arc::new(wire), address, Arc::new(Clients::default()))
}

fn prompt(window: &[Arc<Entry>]) -> Prompt {
    let cycle = window.last().map_or(CycleId(Uuid::nil()), |entry| entry.cycle);
    Prompt {
        system: "You are an agent.".into(),
        tools: Arc::from([]),
        items: window.iter().cloned().map(Item::Entry).collect(),
        choice: ToolChoice::Auto,
        cycle,
        reasoning_from: u64::MAX,
        tokens: 0,
        view: 0,
    }
}
