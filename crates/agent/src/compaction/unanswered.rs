//! Messages of people without a reply: they are open commitments, whatever the summariser makes of them.

use std::sync::Arc;

use super::check;
use super::digest::{events, said};
use crate::call::head_and_tail;
use crate::entry::{Entry, EntryKind};
use crate::limits;
use crate::quote::one_line;

/// The previous summary, with the messages of people that were read in a cycle in which nothing was said.
pub(super) fn added(previous: Option<&str>, gone: &[Arc<Entry>]) -> Option<String> {
    // Of a cycle of which a part was left out before, it is not known here what was said in that part.
    let whole = |cycle: &&[Arc<Entry>]| cycle.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq);
    let cycles = gone.chunk_by(|a, b| a.cycle == b.cycle).filter(whole);
    let silent = cycles.filter(|cycle| !cycle.iter().any(speaks));
    let read = silent.flatten().filter(|entry| matches!(entry.kind, EntryKind::Inbox | EntryKind::Injection));
    let bullets: Vec<String> = read.flat_map(bullets).collect();
    match bullets.is_empty() {
        true => previous.map(str::to_owned),
        false => {
            let bullets: Vec<&str> = bullets.iter().map(String::as_str).collect();
            Some(check::with_commitments(previous.unwrap_or_default(), &bullets))
        }
    }
}

fn speaks(entry: &Arc<Entry>) -> bool {
    entry.kind == EntryKind::Assistant && said(entry).next().is_some()
}

/// A bullet for each message of a person in an inbox entry.
fn bullets(entry: &Arc<Entry>) -> Vec<String> {
    let at = entry.at.strftime("%Y-%m-%d %H:%M");
    let of_person = |event: &String| event.split(": \"").next().is_some_and(|head| head.contains(", human)"));
    let texts = events(&entry.message.text()).into_iter().filter(of_person);
    let bullet = |event: String| {
        let line = format!("- no reply yet, {at}: {}", one_line(&event));
        // A cut line says so, and stays below the limit.
        head_and_tail(&line, limits::KEPT_BULLET_BYTES - 60).replace('\n', " ")
    };
    texts.map(bullet).collect()
}
