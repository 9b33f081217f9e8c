//! The encoded transcript, kept from request to request: only new items are encoded, older fragments
//! are merged into larger segments, and a request shares these segments. So the work of a step does not
//! grow with the length of the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::entry::Entry;
use agent::message::{Origin, Role};
use agent::port::{Memo, ReasoningReplay, ToolSpec};
use agent::prompt::{Item, Prompt};
use bytes::{Bytes, BytesMut};

use super::{Between, Body, EncodeContext, Opening, Turn, Wire};

/// What the bytes of an item depend on in addition to the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    reasoning: bool,
    bridge: bool,
}

#[derive(Clone, Debug)]
struct Mark {
    item: Item,
    flags: Flags,
    /// The last turn up to and including this item.
    turn: Option<Turn>,
    /// Whether anything of the item is sent.
    sent: bool,
    /// Length of the chain up to the end of this item.
    end: usize,
}

impl Mark {
    /// Whether it was encoded from this item and these flags. Usually both are the same allocation, so
    /// that no text is compared.
    fn is_of(&self, item: &Item, flags: Flags) -> bool {
        self.flags == flags
            && match (&self.item, item) {
                (Item::Entry(a), Item::Entry(b)) => Arc::ptr_eq(a, b) || a == b,
                (Item::Layer(a), Item::Layer(b)) => Arc::ptr_eq(a, b) || a == b,
                _ => false,
            }
    }
}

#[derive(Debug, Default)]
struct Chain {
    segments: Vec<Bytes>,
    marks: Vec<Mark>,
}

impl Chain {
    fn len(&self) -> usize {
        self.marks.last().map_or(0, |mark| mark.end)
    }

    /// Removes everything after the first `keep` items.
    fn truncate(&mut self, keep: usize) {
        self.marks.truncate(keep);
        let mut left = self.len();
        let mut kept = 0;
        for segment in &mut self.segments {
            if left == 0 {
                break;
            }
            segment.truncate(left);
            left -= segment.len();
            kept += 1;
        }
        self.segments.truncate(kept);
    }

    fn append(&mut self, fresh: BytesMut) {
        if fresh.is_empty() {
            return;
        }
        self.segments.push(fresh.freeze());
        // Each segment is at most half as long as the one before: few segments, each byte copied O(log n) times.
        while let [.., a, b] = self.segments.as_slice() {
            if a.len() > b.len() * 2 {
                break;
            }
            let mut both = BytesMut::with_capacity(a.len() + b.len());
            both.extend_from_slice(a);
            both.extend_from_slice(b);
            self.segments.truncate(self.segments.len() - 2);
            self.segments.push(both.freeze());
        }
    }

    /// Appends the chain's segments to `body`, with `mark` inserted before the last byte of each fragment
    /// that ends at one of `cuts` (ascending).
    fn write(&self, cuts: &[usize], mark: &'static str, body: &mut Body) {
        let mut cuts = cuts.iter().map(|end| end - 1).peekable();
        let mut start = 0;
        for segment in &self.segments {
            let mut rest = segment.clone();
            while let Some(cut) = cuts.next_if(|cut| *cut < start + rest.len()) {
                let head = rest.split_to(cut - start);
                start = cut;
                body.push(head);
                body.push(Bytes::from_static(mark.as_bytes()));
            }
            start += rest.len();
            body.push(rest);
        }
    }
}

/// What a model keeps in the memo of one warm agent. It is valid for one model, system layer and set of
/// tools; the items are compared one by one.
#[derive(Debug)]
pub(crate) struct CachedTranscript {
    origin: Origin,
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    head: Bytes,
    chain: Chain,
    /// Set when the vendor refuses this conversation's reasoning, and never reset. From then on the vendor
    /// is asked to drop the refused reasoning, or, if the wire cannot ask, no reasoning is sent.
    drop_block: Arc<AtomicBool>,
}

/// An encoded request.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The body.
    pub body: Body,
    /// The options of its opening.
    pub opening: Opening,
    /// Number of fragments that were encoded for it; the others were reused.
    pub fresh: usize,
}

impl CachedTranscript {
    /// The memo's content if it fits this prompt; else an empty chain, which is put into the memo.
    pub(crate) fn open<'a>(memo: &'a mut Memo, wire: &dyn Wire, prompt: &Prompt) -> &'a mut Self {
        let fits = |kept: &Self| {
            kept.origin == *wire.origin()
                && (Arc::ptr_eq(&kept.system, &prompt.system) || kept.system == prompt.system)
                && (Arc::ptr_eq(&kept.tools, &prompt.tools) || kept.tools == prompt.tools)
        };
        let held = memo.0.take().and_then(|any| any.downcast::<Self>().ok()).filter(|kept| fits(kept));
        let kept = held.unwrap_or_else(|| {
            Box::new(Self {
                origin: wire.origin().clone(),
                system: Arc::clone(&prompt.system),
                tools: Arc::clone(&prompt.tools),
                head: wire.head(prompt),
                chain: Chain::default(),
                drop_block: Arc::default(),
            })
        });
        let slot = memo.0.insert(kept);
        // The line above put this type into the slot.
        slot.downcast_mut::<Self>().expect("the memo holds the value that was just inserted")
    }

    /// The flag that the stream sets when the vendor refuses the reasoning. It outlives the request.
    pub(crate) fn drop_block(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.drop_block)
    }

    /// Updates the chain and returns the request.
    pub(crate) fn encode(&mut self, wire: &dyn Wire, prompt: &Prompt) -> Encoded {
        let fresh = self.extend(wire, prompt);
        let opening = Opening {
            drop_block: self.drop_block.load(Ordering::Relaxed),
            no_thinking: wire.keeps_last_turn() && !may_think(wire, prompt),
        };
        let body = self.body(wire, prompt, opening);
        Encoded { body, opening, fresh }
    }

    /// The body with another opening.
    pub(crate) fn body(&self, wire: &dyn Wire, prompt: &Prompt, opening: Opening) -> Body {
        let mut body = Body::default();
        body.push(wire.opening(prompt, opening));
        self.rest(wire, prompt, &mut body);
        body
    }

    fn rest(&self, wire: &dyn Wire, prompt: &Prompt, body: &mut Body) {
        body.push(self.head.clone());
        let mut cuts: Vec<usize> = wire
            .breakpoints(&prompt.items, prompt)
            .into_iter()
            .filter_map(|index| self.sent_before(index))
            .map(|mark| mark.end)
            .collect();
        cuts.sort_unstable();
        cuts.dedup();
        self.chain.write(&cuts, wire.breakpoint(), body);
        let before = self.chain.marks.last().and_then(|mark| mark.turn);
        let end = wire.glue(Between { before, after: None, bridge: false });
        body.push(Bytes::from_static(end.as_bytes()));
        body.push(Bytes::from_static(wire.tail().as_bytes()));
    }

    /// The last fragment at or before `index` that can carry a breakpoint.
    fn sent_before(&self, index: usize) -> Option<&Mark> {
        let upto = self.chain.marks.get(..=index)?;
        let mark = upto.iter().rev().find(|mark| mark.sent)?;
        (mark.turn != Some(Turn::Assistant)).then_some(mark)
    }

    fn extend(&mut self, wire: &dyn Wire, prompt: &Prompt) -> usize {
        let mut policy = Policy::of(wire, prompt);
        if !wire.binds_reasoning() && self.drop_block.load(Ordering::Relaxed) {
            policy.replay = ReasoningReplay::None;
        }
        let mut caller: Option<&Arc<Entry>> = None;
        let mut fresh = BytesMut::new();
        let mut encoded = 0;
        let mut same = true;
        for (index, item) in prompt.items.iter().enumerate() {
            let flags = policy.flags(wire, item, caller);
            let kept = same && self.chain.marks.get(index).is_some_and(|mark| mark.is_of(item, flags));
            if same && !kept {
                self.chain.truncate(index);
                same = false;
            }
            if !kept {
                encoded += 1;
                self.encode_item(wire, item, flags, caller, &mut fresh);
            }
            caller = assistant(item).or(caller);
        }
        if same {
            self.chain.truncate(prompt.items.len());
        }
        self.chain.append(fresh);
        encoded
    }

    fn encode_item(
        &mut self,
        wire: &dyn Wire,
        item: &Item,
        flags: Flags,
        caller: Option<&Arc<Entry>>,
        fresh: &mut BytesMut,
    ) {
        let before = self.chain.marks.last().and_then(|mark| mark.turn);
        let mut end = self.chain.len();
        let mut turn = before;
        let context = EncodeContext { reasoning: flags.reasoning, caller: caller.map(Arc::as_ref) };
        let fragment = wire.fragment(item, context);
        let sent = fragment.is_some();
        if let Some((after, bytes)) = fragment {
            let glue = wire.glue(Between { before, after: Some(after), bridge: flags.bridge });
            fresh.extend_from_slice(glue.as_bytes());
            fresh.extend_from_slice(&bytes);
            turn = Some(after);
            end += glue.len() + bytes.len();
        }
        self.chain.marks.push(Mark { item: item.clone(), flags, turn, sent, end });
    }
}

/// Decides which entries are sent with their reasoning and where a bridge is inserted.
struct Policy {
    replay: ReasoningReplay,
    cycle: agent::id::CycleId,
    from: u64,
    /// The last turn before the cycle, for models that need its reasoning.
    last_turn: Option<u64>,
    manual: bool,
}

impl Policy {
    fn of(wire: &dyn Wire, prompt: &Prompt) -> Self {
        let manual = wire.keeps_last_turn();
        let last_turn = || {
            let entries = prompt.items.iter().filter_map(entry);
            let before = entries.take_while(|entry| entry.cycle != prompt.cycle);
            before.filter(|entry| entry.message.role == Role::Assistant).last().map(|entry| entry.seq)
        };
        Self {
            replay: wire.replay(),
            cycle: prompt.cycle,
            from: prompt.reasoning_from,
            last_turn: if manual { last_turn() } else { None },
            manual,
        }
    }

    fn reasoning(&self, entry: &Entry) -> bool {
        let sent = match self.replay {
            ReasoningReplay::None => false,
            ReasoningReplay::Cycle => entry.cycle == self.cycle || self.last_turn == Some(entry.seq),
            ReasoningReplay::All => true,
        };
        sent && entry.seq >= self.from && entry.message.role == Role::Assistant
    }

    fn flags(&self, wire: &dyn Wire, item: &Item, caller: Option<&Arc<Entry>>) -> Flags {
        let Some(entry) = entry(item) else { return Flags::default() };
        // Manual-thinking models require the last turn of a tool loop to begin with reasoning. If the
        // cycle before has none to send, a short assistant message ends that loop.
        let bridge = self.manual
            && entry.cycle == self.cycle
            && caller.is_some_and(|before| {
                before.cycle != self.cycle && !(self.reasoning(before) && wire.reasons(before))
            });
        Flags { reasoning: self.reasoning(entry), bridge }
    }
}

/// Whether a manual-thinking model may think in this request. It may not in the middle of a tool loop
/// whose last turn has no reasoning.
fn may_think(wire: &dyn Wire, prompt: &Prompt) -> bool {
    let policy = Policy::of(wire, prompt);
    let last = prompt.items.iter().rev().find_map(assistant);
    last.is_none_or(|entry| {
        entry.cycle != prompt.cycle
            || entry.message.calls().next().is_none()
            || (policy.reasoning(entry) && wire.reasons(entry))
    })
}

fn entry(item: &Item) -> Option<&Arc<Entry>> {
    match item {
        Item::Entry(entry) => Some(entry),
        Item::Layer(_) => None,
    }
}

fn assistant(item: &Item) -> Option<&Arc<Entry>> {
    entry(item).filter(|entry| entry.message.role == Role::Assistant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(end: usize) -> Mark {
        let item = Item::Layer(Arc::from(""));
        Mark { item, flags: Flags::default(), turn: Some(Turn::User), sent: true, end }
    }

    #[test]
    fn segments_stay_few_and_a_truncated_chain_keeps_its_bytes() {
        let mut chain = Chain::default();
        let mut whole = Vec::new();
        for n in 0..1_000usize {
            let piece = format!("{{\"n\":{n}}}");
            whole.extend_from_slice(piece.as_bytes());
            chain.marks.push(mark(whole.len()));
            chain.append(BytesMut::from(piece.as_bytes()));
        }
        assert!(chain.segments.len() <= 16, "{} segments", chain.segments.len());
        chain.truncate(500);
        let mut body = Body::default();
        chain.write(&[], "", &mut body);
        assert_eq!(body.concat(), whole[..chain.len()]);
    }

    #[test]
    fn a_breakpoint_is_inside_the_last_block_of_its_fragment() {
        let mut chain = Chain::default();
        for end in [2, 4, 6] {
            chain.marks.push(mark(end));
            chain.append(BytesMut::from(&b"{}"[..]));
        }
        let mut body = Body::default();
        chain.write(&[2, 6], "*", &mut body);
        assert_eq!(body.concat(), &b"{*}{}{*}"[..]);
    }
}
