//! Which part of the log fits: the view of the newest whole cycles, so that a small window never
//! overflows. (Summaries of what is left out come with compaction.)
//!
//! Cuts fall only at borders of cycles; inside one cycle that is too long for the window everything
//! that it was told (its inbox entry, what was injected) stays, and the cut falls at ends of complete
//! steps.

use std::sync::Arc;

use crate::entry::{Entry, EntryKind, View};
use crate::id::CycleId;
use crate::limits;

/// Room for a window, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What the entries of the view may fill.
    pub tokens: u64,
}

impl Budget {
    /// What is left of a model's context window after everything that is sent beside the entries.
    pub fn of(context_window: u32, max_output: u32, fixed: u64, layers: u64) -> Self {
        let fixed = u64::from(max_output) + fixed + layers;
        // Even a hopelessly small window keeps room for one exchange; the vendor then has the word.
        Self { tokens: u64::from(context_window).saturating_sub(fixed).max(512) }
    }
}

/// A smaller view, if the present one fills more than its part of the budget; `cycle` is the one in
/// hand, if any.
pub fn cut(view: &View, window: &[Arc<Entry>], budget: Budget, cycle: Option<CycleId>) -> Option<View> {
    let total: u64 = window.iter().map(|entry| u64::from(entry.tokens)).sum();
    let over = total * 100 > budget.tokens * limits::VIEW_TRIGGER_PERCENT;
    if !over && window.len() <= limits::VIEW_ENTRIES_MAX {
        return None;
    }
    let room = budget.tokens * limits::VIEW_TARGET_PERCENT / 100;
    let most = limits::VIEW_ENTRIES_MAX / 2;
    let tail = newest(window, room, most, |entry| entry.kind == EntryKind::Inbox);
    let first = window.first()?.seq;
    let next = match tail {
        Some(tail) if tail > first => cut_at(view, window, Vec::new(), tail),
        _ => within_cycle(view, window, room, most, cycle)?,
    };
    (next.tail != view.tail || next.ranges != view.ranges).then_some(next)
}

/// A view of half of what the present one shows, for a request that the vendor found too long whatever
/// was estimated; `None` where nothing more can be left out. `cycle` is the one in progress, if something of
/// it is processed; else all of the log may go.
pub fn halve(view: &View, window: &[Arc<Entry>], cycle: Option<CycleId>) -> Option<View> {
    let (first, last) = (window.first()?.seq, window.last()?.seq);
    let room = window.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>() / 2;
    let most = window.len();
    let next = match newest(window, room, most, |entry| entry.kind == EntryKind::Inbox) {
        Some(tail) if tail > first => Some(cut_at(view, window, Vec::new(), tail)),
        _ => within_cycle(view, window, room, most, cycle),
    };
    let changed = |next: &View| next.tail != view.tail || next.ranges != view.ranges;
    match (next.filter(changed), cycle) {
        (None, None) => Some(cut_at(view, window, Vec::new(), last + 1)),
        (next, _) => next,
    }
}

/// Cuts inside the newest cycle: the newest complete steps that fit beside what it was told. A correction
/// is as much of the task as the inbox entry.
fn within_cycle(
    view: &View,
    window: &[Arc<Entry>],
    room: u64,
    most: usize,
    cycle: Option<CycleId>,
) -> Option<View> {
    let inbox = window.iter().rev().find(|entry| entry.kind == EntryKind::Inbox)?;
    if cycle.is_some_and(|cycle| cycle != inbox.cycle) {
        return None;
    }
    let was_shown = |entry: &&Arc<Entry>| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection);
    let own = window.iter().filter(|entry| entry.seq >= inbox.seq);
    let (kept, done): (Vec<_>, Vec<_>) = own.cloned().partition(|entry| was_shown(&entry));
    let room = room.saturating_sub(kept.iter().map(|entry| u64::from(entry.tokens)).sum());
    // A step begins with its assistant entry.
    let tail = newest(&done, room, most, |entry| entry.kind == EntryKind::Assistant)
        .or_else(|| done.iter().rev().find(|e| e.kind == EntryKind::Assistant).map(|e| e.seq))?;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seq in kept.iter().map(|entry| entry.seq).filter(|seq| *seq < tail) {
        match ranges.last_mut().filter(|(_, to)| *to + 1 == seq) {
            Some((_, to)) => *to = seq,
            None => ranges.push((seq, seq)),
        }
    }
    match ranges.as_slice() {
        [(from, to)] if *to + 1 == tail => Some(cut_at(view, window, Vec::new(), *from)),
        _ => Some(cut_at(view, window, ranges, tail)),
    }
}

/// The oldest border such that everything from it on fits.
fn newest(window: &[Arc<Entry>], room: u64, most: usize, is_border: impl Fn(&Entry) -> bool) -> Option<u64> {
    let mut tokens = 0u64;
    let mut border = None;
    for (count, entry) in window.iter().rev().enumerate() {
        tokens += u64::from(entry.tokens);
        if tokens > room || count >= most {
            break;
        }
        if is_border(entry) {
            border = Some(entry.seq);
        }
    }
    border
}

fn cut_at(view: &View, window: &[Arc<Entry>], ranges: Vec<(u64, u64)>, tail: u64) -> View {
    // The prefix of everything so far changes: its reasoning is stripped for good.
    let reasoning_from = window.last().map_or(1, |entry| entry.seq + 1);
    let (rev, summary, native_from) = (view.rev + 1, view.summary.clone(), view.native_from);
    View { rev, summary, ranges, tail, reasoning_from, native_from }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ModelMessage;
    use jiff::Timestamp;
    use uuid::Uuid;

    fn entry(seq: u64, cycle: u128, kind: EntryKind, tokens: u32) -> Arc<Entry> {
        Arc::new(Entry {
            seq,
            cycle: CycleId(Uuid::from_u128(cycle)),
            step: 0,
            kind,
            message: ModelMessage::user("x"),
            tokens,
            at: Timestamp::UNIX_EPOCH,
        })
    }

    fn cycles(n: u64, tokens: u32) -> Vec<Arc<Entry>> {
        (0..n)
            .flat_map(|c| {
                [
                    entry(c * 2 + 1, u128::from(c), EntryKind::Inbox, tokens),
                    entry(c * 2 + 2, u128::from(c), EntryKind::Assistant, tokens),
                ]
            })
            .collect()
    }

    #[test]
    fn a_window_with_room_is_left_alone() {
        assert_eq!(cut(&View::whole(), &cycles(4, 100), Budget { tokens: 1_001 }, None), None);
    }

    #[test]
    fn the_newest_whole_cycles_that_fit_are_kept() {
        let view = cut(&View::whole(), &cycles(10, 100), Budget { tokens: 1_000 }, None).unwrap();
        assert_eq!((view.tail, view.ranges.len(), view.rev), (17, 0, 1));
        assert!(view.shows(17) && !view.shows(16));
    }

    #[test]
    fn inside_one_long_cycle_the_inbox_entry_stays() {
        let cycle = CycleId(Uuid::from_u128(0));
        let mut window = vec![entry(1, 0, EntryKind::Inbox, 100)];
        for step in 0..10 {
            window.push(entry(step * 2 + 2, 0, EntryKind::Assistant, 100));
            window.push(entry(step * 2 + 3, 0, EntryKind::Outcomes, 100));
        }
        let view = cut(&View::whole(), &window, Budget { tokens: 1_000 }, Some(cycle)).unwrap();
        assert_eq!(view.ranges, vec![(1, 1)]);
        assert_eq!(view.tail, 18);
    }

    /// One cycle: its inbox entry, a correction before step 1 and one before step 6, ten steps.
    fn corrected() -> Vec<Arc<Entry>> {
        let mut kinds = vec![EntryKind::Inbox];
        for step in 0..10 {
            if step == 1 || step == 6 {
                kinds.push(EntryKind::Injection);
            }
            kinds.extend([EntryKind::Assistant, EntryKind::Outcomes]);
        }
        (1..).zip(kinds).map(|(seq, kind)| entry(seq, 0, kind, 100)).collect()
    }

    fn shown(window: &[Arc<Entry>], view: &View) -> Vec<(u64, EntryKind)> {
        let shown = window.iter().filter(|entry| view.shows(entry.seq));
        shown.map(|entry| (entry.seq, entry.kind)).collect()
    }

    #[test]
    fn inside_one_long_cycle_every_correction_stays_as_it_was_said() {
        let cycle = CycleId(Uuid::from_u128(0));
        let mut window = corrected();
        let view = cut(&View::whole(), &window, Budget { tokens: 1_400 }, Some(cycle)).unwrap();
        assert_eq!((view.ranges.clone(), view.tail), (vec![(1, 1), (4, 4), (15, 15)], 20));
        window.retain(|entry| view.shows(entry.seq));
        // The cycle goes on and is cut again: what it was told still stays.
        for (seq, kind) in [(24, EntryKind::Assistant), (25, EntryKind::Outcomes), (26, EntryKind::Injection)]
        {
            window.push(entry(seq, 0, kind, 300));
        }
        window.push(entry(27, 0, EntryKind::Assistant, 100));
        let view = cut(&view, &window, Budget { tokens: 1_400 }, Some(cycle)).unwrap();
        assert_eq!((view.ranges, view.tail), (vec![(1, 1), (4, 4), (15, 15), (26, 26)], 27));
    }

    #[test]
    fn a_correction_stays_also_where_the_vendor_finds_the_cycle_too_long() {
        let (cycle, mut window, mut view) = (CycleId(Uuid::from_u128(0)), corrected(), View::whole());
        while let Some(next) = halve(&view, &window, Some(cycle)) {
            window.retain(|entry| next.shows(entry.seq));
            view = next;
        }
        let (told, step) = ([1, 4, 15], [(22, EntryKind::Assistant), (23, EntryKind::Outcomes)]);
        let left = shown(&window, &view);
        assert_eq!(left.iter().map(|(seq, _)| *seq).take(3).collect::<Vec<_>>(), told);
        assert_eq!(left[3..], step, "the newest step stays whole");
        assert_eq!(cut(&view, &window, Budget { tokens: 512 }, Some(cycle)), None, "nothing more can go");
    }

    #[test]
    fn half_of_a_view_is_cut_again_and_again_until_nothing_more_can_go() {
        let mut window = cycles(8, 100);
        let mut view = View::whole();
        let mut left = Vec::new();
        while let Some(next) = halve(&view, &window, None) {
            window.retain(|entry| next.shows(entry.seq));
            view = next;
            left.push(window.len());
        }
        assert_eq!(left, [8, 4, 2, 0], "whole cycles as long as one fits");
        let cycle = CycleId(Uuid::from_u128(7));
        let mut lived = cycles(8, 100);
        view = View::whole();
        while let Some(next) = halve(&view, &lived, Some(cycle)) {
            lived.retain(|entry| next.shows(entry.seq));
            view = next;
        }
        let kept: Vec<_> = lived.iter().map(|entry| (entry.seq, entry.kind)).collect();
        assert_eq!(kept, [(15, EntryKind::Inbox), (16, EntryKind::Assistant)], "the cycle in hand stays");
    }

    #[test]
    fn many_small_entries_are_cut_too() {
        let view = cut(&View::whole(), &cycles(300, 1), Budget { tokens: 1_000_000 }, None).unwrap();
        assert_eq!(view.tail, 401);
    }
}
