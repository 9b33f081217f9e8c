//! Summaries of the entries that a view leaves out. Nothing is deleted: the log keeps every entry, and a view shows a
//! summary in place of the older ones.
//!
//! Whatever leaves entries out writes a digest of them at once, by rule, without a model. Where there is time, a model is asked
//! for a better text from the same entries and the previous summary; it replaces the digest only if it passes the checks. So a
//! summariser that fails costs quality, never an entry or a cycle.
//!
//! Pure functions over entries; must not know stores, models or when a summary is written. Open goals, plans, pending calls and
//! memories are not repeated here: the workspace shows them from their rows in every cycle.

mod check;
mod cleared;
mod digest;
mod request;
mod unanswered;

use std::sync::Arc;

use crate::entry::{Compaction, Entry, SummaryMethod, View};
use crate::id::CycleId;
use crate::run::Usage;
use crate::view;

pub use check::{Refused, accepted};
pub use cleared::cleared;
pub use request::prompt;

/// What the model is shown in place of the entries that the view leaves out.
pub fn shown(view: &View) -> Option<String> {
    let summary = view.summary.as_deref()?;
    let (from, to) = view.compaction.as_ref().map_or((1, 1), |compaction| compaction.cycles);
    Some(format!("[COMPACTED MEMORY — cycles {from}–{to}]\n\n{summary}"))
}

/// The entries of the window that `next` leaves out.
pub fn left_out(window: &[Arc<Entry>], next: &View) -> Vec<Arc<Entry>> {
    window.iter().filter(|entry| !next.shows(entry.seq)).cloned().collect()
}

/// `next`, which shows less of the window than `view`, with a digest of at most `bytes` bytes of what it leaves out. With 0
/// bytes no summary is kept.
pub fn digested(view: &View, window: &[Arc<Entry>], next: View, bytes: usize) -> View {
    let gone = left_out(window, &next);
    if gone.is_empty() {
        return next;
    }
    let summary = (bytes > 0).then(|| {
        let previous = unanswered::added(view.summary.as_deref(), &gone);
        digest::merged(previous.as_deref(), &gone, bytes)
    });
    recorded(view, window, next, summary, &gone)
}

fn recorded(
    view: &View,
    window: &[Arc<Entry>],
    next: View,
    summary: Option<String>,
    gone: &[Arc<Entry>],
) -> View {
    let before = view.compaction.as_ref();
    let mut cycles = before.map_or((1, 0), |before| before.cycles);
    let mut last = before.map(|before| before.last);
    for entry in gone {
        if last != Some(entry.cycle) {
            (cycles.1, last) = (cycles.1 + 1, Some(entry.cycle));
        }
    }
    let method = if summary.is_some() { SummaryMethod::Digest } else { SummaryMethod::Cut };
    cycles.0 = match (method, before.filter(|before| before.method == SummaryMethod::Cut)) {
        (SummaryMethod::Cut, _) => 1,
        // What was cut is not in the summary, but a part of its last cycle may be.
        (_, Some(cut)) => cut.cycles.1 + u64::from(gone.first().is_none_or(|entry| entry.cycle != cut.last)),
        (_, None) => cycles.0,
    };
    let tokens = |entries: &mut dyn Iterator<Item = &Arc<Entry>>| -> u64 {
        entries.map(|entry| u64::from(entry.tokens)).sum()
    };
    let shown = tokens(&mut window.iter().filter(|entry| next.shows(entry.seq)));
    let compaction = Compaction {
        round: before.map_or(1, |before| before.round + 1),
        cycles,
        last: last.unwrap_or(CycleId(uuid::Uuid::nil())),
        method,
        model: None,
        usage: Usage::default(),
        refused: None,
        unusable: before.and_then(|before| before.unusable.clone()),
        tokens_before: tokens(&mut window.iter()) + size(view.summary.as_deref()),
        tokens_after: shown + size(summary.as_deref()),
        entries: gone.len() as u64,
    };
    // The text is made of these entries and of the summary before.
    let trust = view::lowest_trust(view, gone).unwrap_or_default();
    View { summary, compaction: Some(compaction), trust, ..next }
}

/// The digested view with the model's text instead.
pub fn summarized(digested: View, summary: String, model: &str, usage: Usage) -> View {
    let compaction = digested.compaction.map(|digest| Compaction {
        method: SummaryMethod::Model,
        model: Some(model.to_owned()),
        usage,
        unusable: None,
        tokens_after: digest.tokens_after.saturating_sub(size(digested.summary.as_deref()))
            + size(Some(&summary)),
        ..digest
    });
    View { summary: Some(summary), compaction, ..digested }
}

fn size(summary: Option<&str>) -> u64 {
    summary.map_or(0, |text| u64::from(crate::tokens::estimate(text)))
}

#[cfg(test)]
mod tests;
