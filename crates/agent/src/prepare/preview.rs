//! Preview of waiting events: a few lines at the end of the prompt, not kept in the log, shown after each change.

use super::{Prepared, Situation};
use crate::inbox;
use crate::layer::LayerKind;
use crate::life::Previewed;

/// Shows a preview of the waiting events that are not shown in full, if any of them is new.
pub(super) fn preview(situation: &Situation<'_>, prepared: &mut Prepared) {
    if !situation.decided || situation.suspect || !situation.config.awareness.previews() {
        return;
    }
    let shown =
        |seq| situation.is_in_progress(seq) || prepared.inject.iter().any(|waiting| waiting.seq == seq);
    let left: Vec<_> = situation.waits.oldest.iter().filter(|waiting| !shown(waiting.seq)).cloned().collect();
    let Some(newest) = left.last().map(|waiting| waiting.seq) else { return };
    let injected = u32::try_from(prepared.inject.len()).unwrap_or(u32::MAX);
    let count =
        situation.waits.count.saturating_sub(injected).max(u32::try_from(left.len()).unwrap_or(u32::MAX));
    let now = Previewed { newest, count };
    if newest <= situation.previewed.newest && count <= situation.previewed.count {
        return;
    }
    prepared.previewed = now;
    prepared.layers.push((LayerKind::Preview, inbox::format_preview(&left, count, situation.now)));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, service, waits};
    use serde_json::json;

    #[test]
    fn waiting_events_are_previewed_once_for_each_change() {
        let now = waits(vec![service(7, "jira", false)]);
        let prepared = check(&json!({}), |_| {}, &now);
        assert_eq!(
            prepared.layers.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            ["[INBOX PREVIEW — 1 new event(s) waiting]\n- service \"jira\": {\"n\":7}\n(You will get these \
              in full when you next wake up. If one changes your current task, adapt now.)"]
        );
        let again = check(&json!({}), |s| s.previewed = prepared.previewed, &now);
        assert!(again.layers.is_empty(), "nothing new");
        let more = waits(vec![service(7, "jira", false), service(8, "jira", false)]);
        let later = check(&json!({}), |s| s.previewed = prepared.previewed, &more);
        assert!(
            later.layers[0].1.starts_with("[INBOX PREVIEW — 2 new event(s) waiting]"),
            "{:?}",
            later.layers
        );
    }

    #[test]
    fn injected_events_are_not_previewed() {
        let now = waits(vec![service(7, "a", true)]);
        let prepared = check(&json!({}), |_| {}, &now);
        assert!(prepared.layers.is_empty() && prepared.inject.len() == 1);
        assert!(
            check(&json!({"awareness": "inject"}), |_| {}, &waits(vec![service(1, "a", false)]))
                .layers
                .is_empty()
        );
    }
}
