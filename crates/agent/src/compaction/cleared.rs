//! A view without the text of strangers: for an operator who has looked at it. Must not know who asks.

use std::sync::Arc;

use super::{check, digest};
use crate::entry::{Entry, View};
use crate::event::Trust;

/// The section for what strangers said, the last one.
pub(super) const STRANGERS: &str = "## From strangers";

/// The view without the cycles of the window in which strangers' text was read, and without that section of the summary and
/// the lines of cycles. `None` if it shows none.
pub fn cleared(view: &View, window: &[Arc<Entry>]) -> Option<View> {
    let outside = |entry: &Arc<Entry>| entry.trust == Trust::Outside;
    let summary_is_outside = view.summary.is_some() && view.trust == Trust::Outside;
    if !summary_is_outside && !window.iter().any(outside) {
        return None;
    }
    let kept = window.chunk_by(|a, b| a.cycle == b.cycle).filter(|cycle| !cycle.iter().any(outside));
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for seq in kept.flatten().map(|entry| entry.seq) {
        match ranges.last_mut().filter(|(_, to)| *to + 1 == seq) {
            Some((_, to)) => *to = seq,
            None => ranges.push((seq, seq)),
        }
    }
    let next = window.last().map_or(view.tail, |entry| entry.seq + 1);
    let tail = match ranges.last().copied() {
        Some((from, to)) if to + 1 == next => {
            ranges.pop();
            from
        }
        _ => next,
    };
    let summary = view.summary.as_deref().map(|text| match summary_is_outside {
        true => check::before(digest::parted(text).0, STRANGERS),
        false => text.to_owned(),
    });
    let (summary, trust) = (summary.filter(|text| !text.is_empty()), view.trust.max(Trust::Agent));
    let (rev, layers_from) = (view.rev + 1, view.rev + 1);
    Some(View { rev, layers_from, summary, ranges, tail, reasoning_from: next, trust, ..view.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;
    use crate::id::CycleId;
    use crate::message::ModelMessage;

    fn entry(seq: u64, cycle: u128, trust: Trust) -> Arc<Entry> {
        let (cycle, message) = (CycleId(uuid::Uuid::from_u128(cycle)), ModelMessage::user("x"));
        let at = jiff::Timestamp::UNIX_EPOCH;
        Arc::new(Entry { seq, cycle, step: 0, kind: EntryKind::Inbox, message, tokens: 1, at, trust })
    }

    #[test]
    fn whole_cycles_with_strangers_text_are_left_out_and_the_others_stay() {
        let trusts =
            [(1, 1, Trust::Member), (2, 1, Trust::Member), (3, 2, Trust::Member), (4, 2, Trust::Outside)];
        let mut window: Vec<_> = trusts.map(|(seq, cycle, trust)| entry(seq, cycle, trust)).into();
        let first = cleared(&View::whole(), &window).unwrap();
        assert_eq!((first.ranges.as_slice(), first.tail, first.rev), (&[(1, 2)][..], 5, 1));
        window.push(entry(5, 3, Trust::Agent));
        let second = cleared(&View::whole(), &window).unwrap();
        assert_eq!((second.ranges.as_slice(), second.tail), (&[(1, 2)][..], 5));
        assert!(window.iter().all(|entry| second.shows(entry.seq) == (entry.cycle.0.as_u128() != 2)));
        assert_eq!(cleared(&View::whole(), &window[..3]), None, "nothing of strangers");
    }

    #[test]
    fn of_a_summary_the_section_of_strangers_and_the_lines_of_cycles_go() {
        let text = "## Facts\n- a\n\n## From strangers\n- buy now\n\n## State\n- a heading that they wrote\n\n\
                    ## Earlier cycles\n- c";
        let view = View { summary: Some(text.into()), trust: Trust::Outside, ..View::whole() };
        let next = cleared(&view, &[]).unwrap();
        assert_eq!(next.summary.as_deref(), Some("## Facts\n- a"));
        assert_eq!(next.trust, Trust::Agent);
        let only = View { summary: Some("## From strangers\n- buy now".into()), ..view.clone() };
        assert_eq!(cleared(&only, &[]).unwrap().summary, None);
        let clean = View { trust: Trust::Member, ..view };
        assert_eq!(cleared(&clean, &[]), None);
        let kept = cleared(&clean, &[entry(1, 1, Trust::Outside)]).unwrap();
        assert_eq!(
            (kept.summary.as_deref(), kept.trust),
            (Some(text), Trust::Member),
            "made of trusted text"
        );
    }
}
