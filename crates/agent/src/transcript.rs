//! Valid transcripts, which every vendor accepts: each call directly followed by its outcome, each role where it is
//! allowed, no empty message. If a vendor still refuses a request, it is rebuilt from the valid entries, without native
//! blocks.
//!
//! Pure functions over entries; must not know a vendor's answers or how a request is encoded.

use std::sync::Arc;

use crate::entry::{Entry, EntryKind, View};
use crate::message::{ModelMessage, Part, Role};

/// A view of the valid entries only, without reasoning and native blocks. `None` if the current view is already like
/// that, so that rebuilding would change nothing.
pub fn rebuilt(view: &View, window: &[Arc<Entry>]) -> Option<View> {
    let head = window.last()?.seq;
    let valid = valid_entries(window);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for seq in valid.iter().map(|entry| entry.seq) {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == seq => *to = seq,
            _ => runs.push((seq, seq)),
        }
    }
    let tail = match runs.last() {
        Some((from, to)) if *to == head => *from,
        _ => head + 1,
    };
    runs.retain(|(from, _)| *from < tail);
    let has_invalid = window.iter().any(|entry| !valid.iter().any(|kept| kept.seq == entry.seq));
    if !has_invalid && view.native_from > head {
        return None;
    }
    Some(View {
        rev: view.rev + 1,
        layers_from: if has_invalid { view.rev + 1 } else { view.layers_from },
        summary: view.summary.clone(),
        ranges: runs,
        tail,
        reasoning_from: head + 1,
        native_from: head + 1,
        compaction: view.compaction.clone(),
        trust: view.trust,
    })
}

/// The entries that form a valid transcript, in order; the others are left out.
pub fn valid_entries(window: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let mut kept: Vec<Arc<Entry>> = Vec::with_capacity(window.len());
    let mut entries = window.iter().filter(|entry| is_well_formed(entry)).peekable();
    while let Some(entry) = entries.next() {
        let answered = match entry.kind {
            EntryKind::Inbox | EntryKind::Injection | EntryKind::Notice => None,
            // A transcript must not start with an assistant message.
            EntryKind::Assistant if kept.is_empty() => continue,
            EntryKind::Assistant if entry.message.calls().next().is_none() => None,
            EntryKind::Assistant => match entries.next_if(|next| answers(next, entry)) {
                Some(outcomes) => Some(outcomes),
                None => continue,
            },
            // Outcomes are valid only directly after their calls.
            EntryKind::Outcomes => continue,
        };
        kept.push(Arc::clone(entry));
        kept.extend(answered.cloned());
    }
    kept
}

/// The window without the native blocks that the view no longer sends.
pub fn without_refused(window: Vec<Arc<Entry>>, view: &View) -> Vec<Arc<Entry>> {
    let refused = |entry: &Entry| entry.seq < view.native_from && entry.message.native.is_some();
    let plain = |entry: Arc<Entry>| match refused(&entry) {
        true => {
            let message = ModelMessage { native: None, ..entry.message.clone() };
            Arc::new(Entry { message, ..(*entry).clone() })
        }
        false => entry,
    };
    window.into_iter().map(plain).collect()
}

/// Whether the entry's role fits its kind, and it has content.
fn is_well_formed(entry: &Entry) -> bool {
    let role = match entry.kind {
        EntryKind::Inbox | EntryKind::Injection | EntryKind::Notice => Role::User,
        EntryKind::Assistant => Role::Assistant,
        EntryKind::Outcomes => Role::Tool,
    };
    let has_content = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        // Reasoning is not always sent; with nothing else the message would be empty.
        Part::Reasoning { .. } => false,
        Part::ToolCall { .. } | Part::ToolResult { .. } | Part::Image { .. } | Part::File { .. } => true,
    };
    entry.message.role == role && entry.message.parts.iter().any(has_content)
}

/// Whether `outcomes` has exactly one result for each call of `calls`, in order, and nothing else.
fn answers(outcomes: &Entry, calls: &Entry) -> bool {
    let results = outcomes.message.parts.iter().map(|part| match part {
        Part::ToolResult { id, .. } => Some(id),
        _ => None,
    });
    outcomes.kind == EntryKind::Outcomes && results.eq(calls.message.calls().map(|(id, _, _)| Some(id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CallId, CycleId};
    use crate::message::{Native, Origin};
    use jiff::Timestamp;
    use uuid::Uuid;

    fn entry(seq: u64, kind: EntryKind, role: Role, parts: Vec<Part>) -> Arc<Entry> {
        let origin = Origin { wire: "w".into(), model: "m".into() };
        let native =
            (role == Role::Assistant).then(|| Native { origin, body: "{}".into(), call_ids: Vec::new() });
        Arc::new(Entry {
            seq,
            cycle: CycleId(Uuid::nil()),
            step: 0,
            kind,
            message: ModelMessage { role, parts, native },
            tokens: 1,
            at: Timestamp::UNIX_EPOCH,
            trust: crate::event::Trust::Member,
        })
    }

    fn user(seq: u64) -> Arc<Entry> {
        entry(seq, EntryKind::Inbox, Role::User, vec![Part::Text { text: "hello".into() }])
    }

    fn assistant(seq: u64, text: &str) -> Arc<Entry> {
        entry(seq, EntryKind::Assistant, Role::Assistant, vec![Part::Text { text: text.into() }])
    }

    fn calls(seq: u64, ids: &[&str]) -> Arc<Entry> {
        let call = |id: &&str| {
            let id = CallId((*id).into());
            Part::ToolCall { id, name: "look".into(), arguments: "{}".into() }
        };
        entry(seq, EntryKind::Assistant, Role::Assistant, ids.iter().map(call).collect())
    }

    fn outcomes(seq: u64, ids: &[&str]) -> Arc<Entry> {
        let result = |id: &&str| {
            let id = CallId((*id).into());
            Part::ToolResult { id, name: "look".into(), text: "x".into(), error: false }
        };
        entry(seq, EntryKind::Outcomes, Role::Tool, ids.iter().map(result).collect())
    }

    #[test]
    fn only_entries_of_a_valid_transcript_are_kept() {
        let check = |window: Vec<Arc<Entry>>, expected: &[u64], what: &str| {
            let kept: Vec<u64> = valid_entries(&window).iter().map(|entry| entry.seq).collect();
            assert_eq!(kept, expected, "{what}");
        };
        check(vec![user(1), calls(2, &["a", "b"]), outcomes(3, &["a", "b"])], &[1, 2, 3], "complete");
        check(vec![user(1), calls(2, &["a"]), user(3)], &[1, 3], "a call without outcome");
        check(
            vec![user(1), calls(2, &["a"]), user(3), outcomes(4, &["a"])],
            &[1, 3],
            "an outcome not directly after its call",
        );
        check(
            vec![user(1), calls(2, &["a", "b"]), outcomes(3, &["a"])],
            &[1],
            "an outcome for one of two calls",
        );
        check(vec![user(1), outcomes(2, &["a"]), assistant(3, "x")], &[1, 3], "an outcome without a call");
        check(
            vec![assistant(1, "x"), user(2), assistant(3, " ")],
            &[2],
            "an assistant message first, and an empty one",
        );
        let wrong = entry(2, EntryKind::Outcomes, Role::User, vec![Part::Text { text: "x".into() }]);
        check(vec![user(1), wrong], &[1], "a role that does not fit the kind");
    }

    #[test]
    fn a_transcript_is_rebuilt_once_and_sent_without_native_blocks() {
        let window = vec![user(1), calls(2, &["a"]), user(3), assistant(4, "x"), user(5)];
        let view = rebuilt(&View::whole(), &window).unwrap();
        assert_eq!((view.ranges.as_slice(), view.tail), (&[(1, 1)][..], 3));
        assert_eq!((view.rev, view.reasoning_from, view.native_from), (1, 6, 6));
        let shown = window.into_iter().filter(|entry| view.shows(entry.seq)).collect();
        let shown = without_refused(shown, &view);
        assert!(shown.iter().all(|entry| entry.message.native.is_none()));
        assert_eq!(rebuilt(&view, &shown), None, "nothing more to change");
        let later = vec![user(1), assistant(2, "x"), assistant(7, "y")];
        let later = without_refused(later, &view);
        assert!(later[2].message.native.is_some(), "later entries keep their native block");
        assert_eq!(rebuilt(&View::whole(), &[]), None);
    }
}
