//! What must hold at the end of every history, whatever happened in it.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

use agent::call::Effect;
use agent::entry::{Entry, EntryKind};
use agent::id::CallId;
use agent::message::Part;
use agent::prompt::Prompt;

use super::history::{History, Moment};
use super::run::{LAST, Running, mark};
use crate::fixture::step;
use crate::prefix::accepted_by_every_vendor_but;

/// Checks everything; an error says what is wrong.
pub(super) async fn all(history: &History, running: &Running) -> Result<(), String> {
    let mind = running.world.consciousness(running.ada).await.map_err(|error| error.to_string())?;
    event_states(history, running, &mind).await?;
    let calls = answered(&mind)?;
    effects(history, running, &calls)?;
    messages(running, &calls).await?;
    accepted(&running.model.prompts());
    Ok(())
}

/// Each event has a final state. A processed one is in the log once, any other is not.
async fn event_states(history: &History, running: &Running, mind: &[Entry]) -> Result<(), String> {
    let shown: Vec<String> = mind
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection))
        .map(|entry| entry.message.text())
        .collect();
    let (log, mut last_position) = (shown.concat(), 0);
    let mut posted = 0;
    for (id, by_person) in &running.accepted {
        let state = running.world.state(running.ada, id).await.map_err(|error| error.to_string())?;
        let may = match state.as_str() {
            "processed" | "skipped" => true,
            "canceled" => history.has(&Moment::Canceled),
            _ => false,
        };
        if !may {
            return Err(format!("{id} ended as {state:?}"));
        }
        if !by_person {
            continue;
        }
        let last = running.accepted.last().is_some_and(|(last, _)| last == id);
        let text = if last { LAST.to_owned() } else { mark(posted) };
        posted += 1;
        let times = log.matches(&text).count();
        if let Some(position) = log.find(&text) {
            if position < last_position {
                return Err(format!("`{text}` is in the log before an earlier message"));
            }
            last_position = position;
        }
        let wanted = match state.as_str() {
            "processed" => times == 1,
            "skipped" => times == 0,
            // A canceled cycle may have shown it, and then it is in the log.
            _ => times <= 1,
        };
        if !wanted {
            return Err(format!("`{text}` is {} and is in the log {times} times", state.as_str()));
        }
    }
    Ok(())
}

/// A call in the log: its tool, and what the model read.
struct Called {
    tool: String,
    text: String,
    error: bool,
}

/// The calls in the log by their ids: each was answered once, in order.
fn answered(mind: &[Entry]) -> Result<BTreeMap<CallId, Called>, String> {
    let (mut asked, mut answers) = (Vec::new(), Vec::new());
    let mut calls = BTreeMap::new();
    for reply in mind.iter().flat_map(|entry| &entry.message.parts) {
        match reply {
            Part::ToolCall { id, .. } => asked.push(id.clone()),
            Part::ToolResult { id, name, text, error } => {
                answers.push(id.clone());
                let called = Called { tool: name.clone(), text: text.clone(), error: *error };
                calls.insert(id.clone(), called);
            }
            _ => {}
        }
    }
    if asked != answers || calls.len() != asked.len() {
        return Err(format!("asked {asked:?}, answered {answers:?}"));
    }
    Ok(calls)
}

/// Every effect was decided before; an unsafe call was made at most once; what the model read is true.
fn effects(history: &History, running: &Running, calls: &BTreeMap<CallId, Called>) -> Result<(), String> {
    let once =
        |tool: &str| matches!(tool, "fire" | "fail") || (tool == "slow" && history.slow == Effect::Unsafe);
    for tool in ["look", "put", "fire", "fail", "slow"] {
        for key in running.counters.keys(tool) {
            let count = running.counters.of(tool, &key);
            let Some(called) = calls.get(&key) else {
                return Err(format!("`{tool}` was made under {key}, which was never decided"));
            };
            if once(tool) && count.calls > 1 {
                return Err(format!("`{tool}` was made {} times under {key}", count.calls));
            }
            if count.effects > 1 {
                return Err(format!("`{tool}` had {} effects under {key}", count.effects));
            }
            let uncertain = ["unknown", "cancel", "pending", "gone on", "given up", "may have"];
            let honest =
                !called.error || tool == "fail" || uncertain.iter().any(|word| called.text.contains(word));
            if count.effects == 1 && !honest {
                return Err(format!("`{tool}` had its effect, and the model read `{}`", called.text));
            }
        }
    }
    for (key, called) in calls.iter().filter(|(_, called)| !called.error && called.text.contains("success")) {
        let outside = ["look", "put", "fire", "slow"].contains(&called.tool.as_str());
        if outside && running.counters.of(&called.tool, key).calls == 0 {
            return Err(format!("`{}` was never made, and the model read `{}`", called.tool, called.text));
        }
    }
    Ok(())
}

/// The agent posted one message for each successful call, and it still answers.
async fn messages(running: &Running, calls: &BTreeMap<CallId, Called>) -> Result<(), String> {
    let mut posted = Vec::new();
    for space in [running.lobby, running.den] {
        let messages = running.world.messages(space).await.map_err(|error| error.to_string())?;
        if space == running.lobby && messages.last().is_none_or(|message| message.text != "yes") {
            return Err("it no longer answers".to_owned());
        }
        posted.extend(messages.into_iter().filter_map(|message| message.call));
    }
    let wanted: BTreeSet<_> = calls
        .iter()
        .filter(|(_, called)| called.tool == "send_message" && !called.error)
        .map(|(id, _)| id.clone())
        .collect();
    if posted.len() != wanted.len() || posted.iter().cloned().collect::<BTreeSet<_>>() != wanted {
        return Err(format!("wanted messages of the calls {wanted:?}, got {posted:?}"));
    }
    Ok(())
}

thread_local! {
    /// Requests that were checked already, each with the request before it in the same cycle.
    static KNOWN: RefCell<HashSet<(u64, u64)>> = RefCell::default();
}

/// Every vendor accepts each request, and no request rewrites a decided one. Of a step that was requested more than
/// once, the last request is the decided one. Histories that differ only near their end send the same requests: each
/// is checked once.
fn accepted(prompts: &[Prompt]) {
    let mut decided: Option<(u64, &Prompt)> = None;
    let mut newest: Option<(u64, &Prompt)> = None;
    for prompt in prompts {
        let mut hasher = DefaultHasher::new();
        format!("{prompt:?}").hash(&mut hasher);
        let hash = hasher.finish();
        match newest {
            Some((_, before)) if before.cycle == prompt.cycle && step(before) == step(prompt) => {}
            Some((_, before)) if before.cycle == prompt.cycle => decided = newest,
            _ => decided = None,
        }
        newest = Some((hash, prompt));
        let key = (decided.map_or(0, |(hash, _)| hash), hash);
        if !KNOWN.with_borrow(|known| known.contains(&key)) {
            let both = decided.into_iter().map(|(_, before)| before).chain([prompt]);
            let both: Vec<Prompt> = both.cloned().collect();
            accepted_by_every_vendor_but(None, &both, "a request");
            KNOWN.with_borrow_mut(|known| known.insert(key));
        }
    }
}
