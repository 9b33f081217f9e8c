//! What the model is asked: the prompt of the step in hand, and the view that makes it fit.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{After, Cycle, Next, Rested, State};
use crate::changes::CommitKind;
use crate::config::AgentConfig;
use crate::entity::Entity;
use crate::entry::View;
use crate::port::ToolSpec;
use crate::prompt::{Item, Prompt};
use crate::view::{self, Budget};
use crate::{transcript, workspace};

/// Bytes per token, for what is never counted (system, tools, layers). Low, so that it bounds.
const BYTES_PER_TOKEN: u64 = 3;

impl Cycle {
    pub(super) fn next_ready(&mut self, now: Timestamp) -> Next {
        if self.cancel {
            return self.next_canceled(now);
        }
        if let Some(reason) = self.park.clone() {
            return self.next_parked(&reason, now);
        }
        let mut prepared = self.prepare(now);
        while let Some(view) = prepared.view.take_if(|_| !self.open.lived) {
            self.adopt(view);
            prepared = self.prepare(now);
        }
        if let Some(view) = prepared.view.take() {
            let mut changes = self.changes(CommitKind::View, now);
            changes.view = Some(view);
            return self.commit(changes, After::Ready);
        }
        self.show(prepared, now);
        if let Some(open) = self.naming() {
            let mut changes = self.changes(CommitKind::Show, now);
            changes.open = Some(open);
            return self.commit(changes, After::Named);
        }
        self.asked_first.get_or_insert(now);
        self.state = State::Thinking;
        Next::Think(self.prompt())
    }

    /// The request of the step in hand. Within a cycle each one extends the one before.
    pub(super) fn prompt(&self) -> Prompt {
        let mut items = Vec::with_capacity(self.window.len() + 3);
        if let Some(summary) = &self.view.summary {
            items.push(Item::Layer(summary.as_str().into()));
        }
        for entry in self.window.iter().chain(&self.unlived) {
            items.push(Item::Entry(Arc::clone(entry)));
            let behind = self.layers.iter().filter(|layer| layer.after == entry.seq);
            items.extend(behind.map(|layer| Item::Layer(Arc::clone(&layer.text))));
        }
        Prompt {
            system: Arc::clone(&self.system),
            tools: Arc::clone(&self.setup.tools),
            items,
            choice: self.forced(),
            cycle: self.open.id,
            reasoning_from: self.view.reasoning_from,
        }
    }

    /// What entries may fill, beside everything else that is sent.
    pub(super) fn budget(&self) -> Budget {
        self.budget_of(self.voice())
    }

    /// Sends less of the log. As long as nothing is lived the view in the store stays as it is: the
    /// decision writes this one, and a waking that comes to nothing leaves no trace.
    pub(super) fn adopt(&mut self, view: View) {
        if self.uncut.is_none() {
            self.uncut = Some((self.view.clone(), self.window.clone()));
        }
        self.narrow(&view);
    }

    pub(super) fn narrow(&mut self, view: &View) {
        let before = self.window.len();
        self.view = view.clone();
        self.window.retain(|entry| view.shows(entry.seq));
        self.window = transcript::without_refused(std::mem::take(&mut self.window), view);
        self.mended.left_out += u32::try_from(before - self.window.len()).unwrap_or(u32::MAX);
    }

    /// Takes back what [`Cycle::adopt`] did.
    pub(super) fn widen(&mut self) {
        if let Some((view, window)) = self.uncut.take() {
            (self.view, self.window) = (view, window);
        }
    }

    /// The cycle is over: cut the view now rather than on the way of the next waking.
    pub(super) fn rest_or_cut(&mut self, rested: Rested, now: Timestamp) -> State {
        let ended = matches!(rested, Rested::Ended { .. });
        let view = view::cut(&self.view, &self.window, self.budget(), None).filter(|_| ended);
        let Some(view) = view else { return State::Rest(rested) };
        let mut changes = self.changes(CommitKind::View, now);
        changes.open = None;
        changes.view = Some(view);
        State::Committing(Box::new(changes), After::ViewThenRest(rested))
    }
}

/// The system layer and what it costs together with the tools, once per waking.
pub(super) fn fixed(me: &Entity, config: &AgentConfig, tools: &[ToolSpec]) -> (Arc<str>, u64) {
    let system = workspace::system(me, &config.instructions, &config.description);
    let size = |tool: &ToolSpec| tool.name.len() + tool.description.len() + json_size(&tool.schema);
    let tokens = estimate(system.len() + tools.iter().map(size).sum::<usize>());
    (system.into(), tokens)
}

/// About as many bytes as a value takes as JSON, without writing it down: it stands on the path of
/// every waking.
fn json_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_size(value)).sum::<usize>()
        }
    }
}

pub(super) fn estimate(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_size_of_a_schema_is_known_without_writing_it() {
        let schema = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 65536},
            "mentions": {"type": "array", "items": {"type": "string"}}, "urgent": {"type": "boolean", "default": null}},
            "required": ["text"], "additionalProperties": false});
        let (guess, written) = (json_size(&schema), schema.to_string().len());
        assert!(guess >= written && guess < written + 40, "{guess} for {written}");
    }
}
