//! The same life without a mind that lasts, to compare with: the whole workspace becomes part of the history in each cycle, and a
//! request shows the last 100 messages. Computed from the requests of a life, because the replies are the same.

use agent::entry::EntryKind;
use agent::prompt::{Item, Prompt};

use super::models::RecordedRequest;

/// Messages that a request shows.
const MESSAGES: usize = 100;

/// The requests of `baseline=seeds`, from those of a life whose workspace is fresh in each cycle.
pub fn seeds(requests: &[RecordedRequest]) -> Vec<RecordedRequest> {
    let mut history: Vec<Item> = Vec::new();
    let (mut head, mut layers) = (0, Vec::new());
    let mut seeds = Vec::new();
    for RecordedRequest { prompt, .. } in requests.iter().filter(|request| !request.for_summary) {
        let mut is_own = false;
        for item in &prompt.items {
            match item {
                Item::Entry(entry) => {
                    is_own |= entry.cycle == prompt.cycle;
                    if entry.seq <= head {
                        continue;
                    }
                    if entry.kind == EntryKind::Inbox {
                        layers.clear();
                    }
                    head = entry.seq;
                }
                // The summary, which the baseline does not have, is in front of the cycle.
                Item::Layer(text) if !is_own || layers.contains(text) => continue,
                Item::Layer(text) => layers.push(text.clone()),
            }
            history.push(item.clone());
        }
        let items = history[history.len().saturating_sub(MESSAGES)..].to_vec();
        seeds.push(RecordedRequest { for_summary: false, prompt: Prompt { items, ..prompt.clone() } });
    }
    seeds
}
