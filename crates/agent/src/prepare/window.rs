//! Which part of the log is sent. It is cut if it does not fit, and old reasoning is left out when the model
//! changes during a cycle.

use super::{Prepared, Situation};
use crate::entry::View;
use crate::limits;
use crate::view;

pub(super) fn fit(situation: &Situation<'_>, prepared: &mut Prepared) {
    let budget = (situation.budget)(prepared.model.as_deref());
    let percent = limits::VIEW_TRIGGER_PERCENT;
    if let Some(cut) = view::cut(situation.view, situation.window, budget, percent, situation.cycle) {
        prepared.view = Some(cut);
        return;
    }
    let Some(head) = situation.window.last().map(|entry| entry.seq) else { return };
    let changed = situation.decided && situation.last_model.is_some_and(|last| *last != prepared.model);
    if changed && situation.view.reasoning_from <= head {
        let view = situation.view;
        prepared.view = Some(View { rev: view.rev + 1, reasoning_from: head + 1, ..view.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use crate::entry::{Entry, EntryKind};
    use crate::id::CycleId;
    use crate::message::ModelMessage;
    use crate::prepare::Unread;
    use jiff::Timestamp;
    use serde_json::json;
    use std::sync::Arc;
    use uuid::Uuid;

    #[test]
    fn a_model_that_takes_over_during_a_cycle_gets_no_reasoning_of_the_last_one() {
        let entry = |seq| {
            Arc::new(Entry {
                seq,
                cycle: CycleId(Uuid::nil()),
                step: 0,
                kind: EntryKind::Assistant,
                message: ModelMessage::user("x"),
                tokens: 10,
                at: Timestamp::UNIX_EPOCH,
                trust: crate::event::Trust::Member,
            })
        };
        let window = [entry(1), entry(2)];
        let config = json!({"routing": [{"from": 1, "model": "other/one"}]});
        let (own, other) = (None, Some("other/one".to_owned()));
        // Leaked, because the situation borrows them until the end of the test.
        let window: &'static [Arc<Entry>] = Box::leak(Box::new(window));
        let view = |last: &Option<String>| {
            let last: &'static Option<String> = Box::leak(Box::new(last.clone()));
            check(&config, |s| (s.window, s.last_model) = (window, Some(last)), &Unread::default()).view
        };
        assert_eq!(view(&own).map(|view| (view.rev, view.reasoning_from)), Some((1, 3)));
        assert_eq!(view(&other), None);
    }
}
