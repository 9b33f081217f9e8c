//! What every vendor takes for a transcript: calls answered in place, each role where it may stand, no
//! empty message. What is refused all the same is rebuilt from that, in our own words only.
//!
//! Pure, over entries; must not know what a vendor said or how a request is written.

use std::sync::Arc;

use crate::entry::{Entry, EntryKind, View};
use crate::message::{ModelMessage, Part, Role};

/// A view of what is sound, sent in our own words: without reasoning and without vendors' own blocks.
/// `None` where that is what is sent already, so that rebuilding changes nothing.
pub fn rebuilt(view: &View, window: &[Arc<Entry>]) -> Option<View> {
    let head = window.last()?.seq;
    let sound = sound(window);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for seq in sound.iter().map(|entry| entry.seq) {
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
    let shown = window.iter().any(|entry| !sound.iter().any(|kept| kept.seq == entry.seq));
    if !shown && view.native_from > head {
        return None;
    }
    Some(View {
        rev: view.rev + 1,
        summary: view.summary.clone(),
        ranges: runs,
        tail,
        reasoning_from: head + 1,
        native_from: head + 1,
    })
}

/// The entries that make a transcript, in order: those that are left out would break it.
pub fn sound(window: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let mut kept: Vec<Arc<Entry>> = Vec::with_capacity(window.len());
    let mut entries = window.iter().filter(|entry| fits(entry)).peekable();
    while let Some(entry) = entries.next() {
        let answered = match entry.kind {
            EntryKind::Inbox | EntryKind::Injection | EntryKind::Notice => None,
            // Nobody answers before anybody has spoken.
            EntryKind::Assistant if kept.is_empty() => continue,
            EntryKind::Assistant if entry.message.calls().next().is_none() => None,
            EntryKind::Assistant => match entries.next_if(|next| answers(next, entry)) {
                Some(outcomes) => Some(outcomes),
                None => continue,
            },
            // Outcomes stand right behind their calls, and nowhere else.
            EntryKind::Outcomes => continue,
        };
        kept.push(Arc::clone(entry));
        kept.extend(answered.cloned());
    }
    kept
}

/// The window without the vendors' own blocks that the view does not send any more.
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

/// Whether its role is that of its kind, and it says anything at all.
fn fits(entry: &Entry) -> bool {
    let role = match entry.kind {
        EntryKind::Inbox | EntryKind::Injection | EntryKind::Notice => Role::User,
        EntryKind::Assistant => Role::Assistant,
        EntryKind::Outcomes => Role::Tool,
    };
    let says = |part: &Part| match part {
        Part::Text { text } => !text.trim().is_empty(),
        // Reasoning alone is not sent, and leaves an empty message behind.
        Part::Reasoning { .. } => false,
        Part::ToolCall { .. } | Part::ToolResult { .. } | Part::Image { .. } | Part::File { .. } => true,
    };
    entry.message.role == role && entry.message.parts.iter().any(says)
}

/// Whether `outcomes` answers each call of `asked` once, in order, and nothing else.
fn answers(outcomes: &Entry, asked: &Entry) -> bool {
    let results = outcomes.message.parts.iter().map(|part| match part {
        Part::ToolResult { id, .. } => Some(id),
        _ => None,
    });
    outcomes.kind == EntryKind::Outcomes && results.eq(asked.message.calls().map(|(id, _, _)| Some(id)))
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
        })
    }

    fn user(seq: u64) -> Arc<Entry> {
        entry(seq, EntryKind::Inbox, Role::User, vec![Part::Text { text: "hello".into() }])
    }

    fn said(seq: u64, text: &str) -> Arc<Entry> {
        entry(seq, EntryKind::Assistant, Role::Assistant, vec![Part::Text { text: text.into() }])
    }

    fn asked(seq: u64, ids: &[&str]) -> Arc<Entry> {
        let call = |id: &&str| {
            let id = CallId((*id).into());
            Part::ToolCall { id, name: "look".into(), arguments: "{}".into() }
        };
        entry(seq, EntryKind::Assistant, Role::Assistant, ids.iter().map(call).collect())
    }

    fn answered(seq: u64, ids: &[&str]) -> Arc<Entry> {
        let result = |id: &&str| {
            let id = CallId((*id).into());
            Part::ToolResult { id, name: "look".into(), text: "x".into(), error: false }
        };
        entry(seq, EntryKind::Outcomes, Role::Tool, ids.iter().map(result).collect())
    }

    #[test]
    fn only_what_makes_a_transcript_is_kept() {
        let check = |window: Vec<Arc<Entry>>, expected: &[u64], what: &str| {
            let kept: Vec<u64> = sound(&window).iter().map(|entry| entry.seq).collect();
            assert_eq!(kept, expected, "{what}");
        };
        check(vec![user(1), asked(2, &["a", "b"]), answered(3, &["a", "b"])], &[1, 2, 3], "whole");
        check(vec![user(1), asked(2, &["a"]), user(3)], &[1, 3], "a call without outcome");
        check(vec![user(1), asked(2, &["a"]), user(3), answered(4, &["a"])], &[1, 3], "torn apart");
        check(vec![user(1), asked(2, &["a", "b"]), answered(3, &["a"])], &[1], "one of two answered");
        check(vec![user(1), answered(2, &["a"]), said(3, "x")], &[1, 3], "an outcome of nothing");
        check(vec![said(1, "x"), user(2), said(3, " ")], &[2], "nobody asked, nothing said");
        let wrong = entry(2, EntryKind::Outcomes, Role::User, vec![Part::Text { text: "x".into() }]);
        check(vec![user(1), wrong], &[1], "another role than its kind has");
    }

    #[test]
    fn a_transcript_is_rebuilt_once_and_then_sent_in_our_own_words() {
        let window = vec![user(1), asked(2, &["a"]), user(3), said(4, "x"), user(5)];
        let view = rebuilt(&View::whole(), &window).unwrap();
        assert_eq!((view.ranges.as_slice(), view.tail), (&[(1, 1)][..], 3));
        assert_eq!((view.rev, view.reasoning_from, view.native_from), (1, 6, 6));
        let shown = window.into_iter().filter(|entry| view.shows(entry.seq)).collect();
        let shown = without_refused(shown, &view);
        assert!(shown.iter().all(|entry| entry.message.native.is_none()));
        assert_eq!(rebuilt(&view, &shown), None, "there is nothing more to change");
        let later = vec![user(1), said(2, "x"), said(7, "y")];
        let later = without_refused(later, &view);
        assert!(later[2].message.native.is_some(), "what comes later is as its vendor made it");
        assert_eq!(rebuilt(&View::whole(), &[]), None);
    }
}
