//! What every life must have kept in its end, whatever befell it.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

use agent::call::Effect;
use agent::entry::{Entry, EntryKind};
use agent::id::CallId;
use agent::message::Part;
use agent::prompt::Prompt;

use super::life::{Life, Moment};
use super::live::{LAST, Lived, mark};
use crate::play::step;
use crate::prefix::accepted_by_every_vendor_but;

/// All of it, or what is wrong in words.
pub(super) async fn all(life: &Life, lived: &Lived) -> Result<(), String> {
    let mind = lived.world.mind(lived.ada).await.map_err(|error| error.to_string())?;
    fates(life, lived, &mind).await?;
    let calls = answered(&mind)?;
    effects(life, lived, &calls)?;
    words(lived, &calls).await?;
    accepted(&lived.model.prompts());
    Ok(())
}

/// Each event has one fate; what was processed stands in the log once, what was not does not.
async fn fates(life: &Life, lived: &Lived, mind: &[Entry]) -> Result<(), String> {
    let shown: Vec<String> = mind
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection))
        .map(|entry| entry.message.text())
        .collect();
    let (log, mut behind) = (shown.concat(), 0);
    let mut said = 0;
    for (id, by_person) in &lived.accepted {
        let state = lived.world.state(lived.ada, id).await.map_err(|error| error.to_string())?;
        let may = match state.as_str() {
            "processed" | "skipped" => true,
            "canceled" => life.has(&Moment::Canceled),
            _ => false,
        };
        if !may {
            return Err(format!("{id} ended as {state:?}"));
        }
        if !by_person {
            continue;
        }
        let last = lived.accepted.last().is_some_and(|(last, _)| last == id);
        let words = if last { LAST.to_owned() } else { mark(said) };
        said += 1;
        let times = log.matches(&words).count();
        if let Some(place) = log.find(&words) {
            if place < behind {
                return Err(format!("`{words}` stands in the log before what was said earlier"));
            }
            behind = place;
        }
        let wanted = match state.as_str() {
            "processed" => times == 1,
            "skipped" => times == 0,
            // A canceled cycle may have been shown it, and says so in the log.
            _ => times <= 1,
        };
        if !wanted {
            return Err(format!("`{words}` is {} and stands in the log {times} times", state.as_str()));
        }
    }
    Ok(())
}

/// A call of the log: its tool, and what the model read of it.
struct Called {
    tool: String,
    text: String,
    error: bool,
}

/// The calls of the log by their ids: each was answered once, in order.
fn answered(mind: &[Entry]) -> Result<BTreeMap<CallId, Called>, String> {
    let (mut asked, mut answers) = (Vec::new(), Vec::new());
    let mut calls = BTreeMap::new();
    for part in mind.iter().flat_map(|entry| &entry.message.parts) {
        match part {
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

/// What happened outside was decided before; what must not be repeated was made at most once; what the
/// model was told is true.
fn effects(life: &Life, lived: &Lived, calls: &BTreeMap<CallId, Called>) -> Result<(), String> {
    let once =
        |tool: &str| matches!(tool, "fire" | "fail") || (tool == "slow" && life.slow == Effect::Unsafe);
    for tool in ["look", "put", "fire", "fail", "slow"] {
        for key in lived.counters.keys(tool) {
            let count = lived.counters.of(tool, &key);
            let Some(called) = calls.get(&key) else {
                return Err(format!("`{tool}` was made under {key}, which nobody decided"));
            };
            if once(tool) && count.calls > 1 {
                return Err(format!("`{tool}` was made {} times under {key}", count.calls));
            }
            if count.effects > 1 {
                return Err(format!("`{tool}` had {} effects under {key}", count.effects));
            }
            let told = ["unknown", "cancel", "pending", "gone on", "given up", "may have"];
            let honest =
                !called.error || tool == "fail" || told.iter().any(|word| called.text.contains(word));
            if count.effects == 1 && !honest {
                return Err(format!("`{tool}` had its effect, and the model read `{}`", called.text));
            }
        }
    }
    for (key, called) in calls.iter().filter(|(_, called)| !called.error && called.text.contains("success")) {
        let outside = ["look", "put", "fire", "slow"].contains(&called.tool.as_str());
        if outside && lived.counters.of(&called.tool, key).calls == 0 {
            return Err(format!("`{}` was never made, and the model read `{}`", called.tool, called.text));
        }
    }
    Ok(())
}

/// What the agent said was said once for each call that went well, and it still answers.
async fn words(lived: &Lived, calls: &BTreeMap<CallId, Called>) -> Result<(), String> {
    let mut said = Vec::new();
    for space in [lived.lobby, lived.den] {
        let messages = lived.world.messages(space).await.map_err(|error| error.to_string())?;
        if space == lived.lobby && messages.last().is_none_or(|message| message.text != "yes") {
            return Err("it does not answer any more".to_owned());
        }
        said.extend(messages.into_iter().filter_map(|message| message.call));
    }
    let wanted: BTreeSet<_> = calls
        .iter()
        .filter(|(_, called)| called.tool == "send_message" && !called.error)
        .map(|(id, _)| id.clone())
        .collect();
    if said.len() != wanted.len() || said.iter().cloned().collect::<BTreeSet<_>>() != wanted {
        return Err(format!("wanted said {wanted:?}, got {said:?}"));
    }
    Ok(())
}

thread_local! {
    /// Requests that were held against every vendor's rules, behind which of the same cycle.
    static KNOWN: RefCell<HashSet<(u64, u64)>> = RefCell::default();
}

/// Each request is one that every vendor takes, and none rewrites what was decided on: of a step that was
/// asked more than once, the last request is the one whose answer was decided. Lives that are cut near the end
/// ask what others have asked: nothing is looked at twice.
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
