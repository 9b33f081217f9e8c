//! Selects the part of the log that fits into the context window: the newest whole cycles, and a digest of what is left
//! out.
//!
//! The log is cut only between cycles. If one cycle is too long for the window, it is cut between complete steps, and
//! its inbox entry and injected events are kept.

use std::sync::Arc;

use crate::compaction;
use crate::entry::{Entry, EntryKind, View};
use crate::event::Trust;
use crate::id::CycleId;
use crate::limits;
use crate::tokens;

/// The room for the entries of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of tokens of the entries.
    pub tokens: u64,
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum number of bytes of the summary of what is left out; 0 for no summary.
    pub summary: usize,
}

impl Budget {
    /// What is left of a model's context window after everything that is sent in addition to the entries.
    pub fn of(context_window: u32, max_output: u32, fixed: u64, layers: u64) -> Self {
        let fixed = u64::from(max_output) + fixed + layers;
        // Even a much too small window keeps room for one exchange; the vendor may then refuse the request.
        let tokens = u64::from(context_window).saturating_sub(fixed).max(limits::EXCHANGE_MIN_TOKENS);
        let summary = tokens::bytes_within(tokens / limits::SUMMARY_SHARE).min(limits::SUMMARY_MAX_BYTES);
        Self { tokens, entries: limits::VIEW_ENTRIES_MAX, summary }
    }
}

/// The lowest trust of what a model reads of this view: its summary and these entries, which it shows. `None` if it reads
/// nothing. The memories in the workspace have their own trust.
pub fn lowest_trust<'a>(view: &View, shown: impl IntoIterator<Item = &'a Arc<Entry>>) -> Option<Trust> {
    let summary = view.summary.as_ref().map(|_| view.trust);
    summary.into_iter().chain(shown.into_iter().map(|entry| entry.trust)).min()
}

/// Whether these entries fill more than `percent` of the budget, or are more than it allows.
pub fn is_over(window: &[Arc<Entry>], budget: Budget, percent: u64) -> bool {
    let total: u64 = window.iter().map(|entry| u64::from(entry.tokens)).sum();
    total * 100 > budget.tokens * percent || window.len() > budget.entries
}

/// A smaller view, if the current one fills more than `percent` of the budget. `cycle` is the cycle in progress, if any.
pub fn cut(
    view: &View,
    window: &[Arc<Entry>],
    budget: Budget,
    percent: u64,
    cycle: Option<CycleId>,
) -> Option<View> {
    if !is_over(window, budget, percent) {
        return None;
    }
    let room = budget.tokens * limits::VIEW_TARGET_PERCENT / 100;
    let most = (budget.entries / 2).max(1);
    let tail = newest(window, room, most, |entry| entry.kind == EntryKind::Inbox);
    let first = window.first()?.seq;
    let next = match tail {
        Some(tail) if tail > first => cut_at(view, window, Vec::new(), tail),
        _ => within_cycle(view, window, room, most, cycle)?,
    };
    let changed = next.tail != view.tail || next.ranges != view.ranges;
    changed.then(|| compaction::digested(view, window, next, budget.summary))
}

/// A view of half of what the current one shows, for a request that the vendor refused as too long in spite of the
/// estimate. `None` if nothing more can be left out. `cycle` is the cycle in progress, if it has processed something;
/// otherwise the whole log may be left out.
pub fn halve(view: &View, window: &[Arc<Entry>], summary: usize, cycle: Option<CycleId>) -> Option<View> {
    let (first, last) = (window.first()?.seq, window.last()?.seq);
    let room = window.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>() / 2;
    let most = window.len();
    let next = match newest(window, room, most, |entry| entry.kind == EntryKind::Inbox) {
        Some(tail) if tail > first => Some(cut_at(view, window, Vec::new(), tail)),
        _ => within_cycle(view, window, room, most, cycle),
    };
    let changed = |next: &View| next.tail != view.tail || next.ranges != view.ranges;
    let next = match (next.filter(changed), cycle) {
        (None, None) => Some(cut_at(view, window, Vec::new(), last + 1)),
        (next, _) => next,
    };
    next.map(|next| compaction::digested(view, window, next, summary))
}

/// Cuts inside the newest cycle: keeps its inbox entry, its injected events, and the newest complete steps that fit. An
/// injected correction is as much part of the task as the inbox entry.
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
    let is_events = |entry: &&Arc<Entry>| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection);
    let own = window.iter().filter(|entry| entry.seq >= inbox.seq);
    let (kept, done): (Vec<_>, Vec<_>) = own.cloned().partition(|entry| is_events(&entry));
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

/// The oldest border from which on everything fits.
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
    // The prefix of all entries so far changes, so their reasoning is never sent again.
    let reasoning_from = window.last().map_or(1, |entry| entry.seq + 1);
    View { rev: view.rev + 1, layers_from: view.rev + 1, ranges, tail, reasoning_from, ..view.clone() }
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
            trust: Trust::Member,
        })
    }

    fn room(tokens: u64) -> Budget {
        Budget { tokens, entries: limits::VIEW_ENTRIES_MAX, summary: 0 }
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
    fn the_lowest_trust_of_a_view_is_that_of_its_entries_and_of_all_that_its_summary_replaces() {
        let of = |seq: u64, trust| Arc::new(Entry { trust, ..(*entry(seq, 1, EntryKind::Inbox, 9)).clone() });
        let all = [of(1, Trust::Outside), of(2, Trust::Operator), of(3, Trust::Member)];
        let whole = View::whole();
        assert_eq!(lowest_trust(&whole, &all), Some(Trust::Outside));
        assert_eq!(lowest_trust(&whole, &[]), None);
        let later = |view: &View, window: &[Arc<Entry>], tail, bytes| {
            compaction::digested(view, window, View { tail, ..view.clone() }, bytes)
        };
        // What was read once stays in the summaries of summaries.
        let first = later(&whole, &all, 2, 1_000);
        assert_eq!((first.trust, lowest_trust(&first, &all[1..])), (Trust::Outside, Some(Trust::Outside)));
        let second = later(&first, &all[1..], 3, 1_000);
        assert_eq!((second.trust, lowest_trust(&second, &all[2..])), (Trust::Outside, Some(Trust::Outside)));
        // Without a summary nothing of it is read.
        let forgotten = later(&first, &all[1..], 3, 0);
        assert_eq!(lowest_trust(&forgotten, &all[2..]), Some(Trust::Member));
        let trusted = later(&whole, &all[1..], 3, 1_000);
        assert_eq!(trusted.trust, Trust::Operator);
    }

    #[test]
    fn a_view_that_fits_is_not_cut() {
        assert_eq!(cut(&View::whole(), &cycles(4, 100), room(1_001), 80, None), None);
    }

    #[test]
    fn the_newest_whole_cycles_that_fit_are_kept() {
        let view = cut(&View::whole(), &cycles(10, 100), room(1_000), 80, None).unwrap();
        assert_eq!((view.tail, view.ranges.len(), view.rev), (17, 0, 1));
        assert!(view.shows(17) && !view.shows(16));
    }

    #[test]
    fn a_short_history_keeps_at_least_the_newest_inbox_entry() {
        let budget = |entries| Budget { tokens: 100_000, entries, summary: 0 };
        let window = cycles(4, 10);
        assert_eq!(cut(&View::whole(), &window, budget(8), 80, None), None);
        for (entries, tail) in [(6, 5), (4, 7), (2, 7)] {
            let mut window = window.clone();
            window.pop();
            assert_eq!(
                cut(&View::whole(), &window, budget(entries), 80, None).unwrap().tail,
                tail,
                "{entries}"
            );
        }
    }

    #[test]
    fn a_cut_inside_one_long_cycle_keeps_the_inbox_entry() {
        let cycle = CycleId(Uuid::from_u128(0));
        let mut window = vec![entry(1, 0, EntryKind::Inbox, 100)];
        for step in 0..10 {
            window.push(entry(step * 2 + 2, 0, EntryKind::Assistant, 100));
            window.push(entry(step * 2 + 3, 0, EntryKind::Outcomes, 100));
        }
        let view = cut(&View::whole(), &window, room(1_000), 80, Some(cycle)).unwrap();
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
    fn a_cut_inside_one_long_cycle_keeps_every_correction() {
        let cycle = CycleId(Uuid::from_u128(0));
        let mut window = corrected();
        let view = cut(&View::whole(), &window, room(1_400), 80, Some(cycle)).unwrap();
        assert_eq!((view.ranges.clone(), view.tail), (vec![(1, 1), (4, 4), (15, 15)], 20));
        window.retain(|entry| view.shows(entry.seq));
        // The cycle continues and is cut again: its inbox entry and corrections are still kept.
        for (seq, kind) in [(24, EntryKind::Assistant), (25, EntryKind::Outcomes), (26, EntryKind::Injection)]
        {
            window.push(entry(seq, 0, kind, 300));
        }
        window.push(entry(27, 0, EntryKind::Assistant, 100));
        let view = cut(&view, &window, room(1_400), 80, Some(cycle)).unwrap();
        assert_eq!((view.ranges, view.tail), (vec![(1, 1), (4, 4), (15, 15), (26, 26)], 27));
    }

    #[test]
    fn halving_inside_one_cycle_keeps_every_correction() {
        let (cycle, mut window, mut view) = (CycleId(Uuid::from_u128(0)), corrected(), View::whole());
        while let Some(next) = halve(&view, &window, 0, Some(cycle)) {
            window.retain(|entry| next.shows(entry.seq));
            view = next;
        }
        let (events, step) = ([1, 4, 15], [(22, EntryKind::Assistant), (23, EntryKind::Outcomes)]);
        let left = shown(&window, &view);
        assert_eq!(left.iter().map(|(seq, _)| *seq).take(3).collect::<Vec<_>>(), events);
        assert_eq!(left[3..], step, "the newest step is kept as a whole");
        assert_eq!(cut(&view, &window, room(512), 80, Some(cycle)), None, "nothing more can be left out");
    }

    #[test]
    fn a_view_is_halved_until_nothing_more_can_be_left_out() {
        let mut window = cycles(8, 100);
        let mut view = View::whole();
        let mut left = Vec::new();
        while let Some(next) = halve(&view, &window, 0, None) {
            window.retain(|entry| next.shows(entry.seq));
            view = next;
            left.push(window.len());
        }
        assert_eq!(left, [8, 4, 2, 0], "whole cycles as long as one fits");
        let cycle = CycleId(Uuid::from_u128(7));
        let mut processed = cycles(8, 100);
        view = View::whole();
        while let Some(next) = halve(&view, &processed, 0, Some(cycle)) {
            processed.retain(|entry| next.shows(entry.seq));
            view = next;
        }
        let kept: Vec<_> = processed.iter().map(|entry| (entry.seq, entry.kind)).collect();
        assert_eq!(
            kept,
            [(15, EntryKind::Inbox), (16, EntryKind::Assistant)],
            "the cycle in progress is kept"
        );
    }

    #[test]
    fn too_many_entries_are_cut_even_if_they_are_small() {
        let view = cut(&View::whole(), &cycles(300, 1), room(1_000_000), 80, None).unwrap();
        assert_eq!(view.tail, 401);
    }
}
