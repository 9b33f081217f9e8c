//! Normalizes equivalent states, so that only one of each group has to be explored.

use super::model::ProtocolState;
use super::node::Node;
use super::stored::{Call, Entry, Flaw, IDEMPOTENT, LOG, Open};

impl ProtocolState {
    /// The same state without what no later step depends on: absolute counters, which node is which, what an
    /// outdated node would have committed, and old log entries. States that are equal after this behave
    /// alike. That holds only for the protocol without a flaw.
    pub(crate) fn normalized(&self) -> Self {
        let mut state = *self;
        let (epoch, n) = (self.stored.epoch, self.stored.n);
        for node in state.nodes.iter_mut().filter(|node| node.awake && node.resend.is_none()) {
            let out_of_date = node.n != n || node.lease != epoch + u8::from(!node.opened);
            if out_of_date {
                let (repeatable, begun) =
                    (node.possible_calls(Flaw::None).any(|call| call == IDEMPOTENT), node.begun);
                *node = Node { awake: true, opened: true, lease: u8::MAX, begun, ..Node::default() };
                node.open = Open { decided: repeatable || begun, ..Open::default() };
                node.calls[IDEMPOTENT] = if repeatable { Call::Planned } else { Call::Answered };
            }
        }
        let [left, right] = state.nodes.map(Node::without_ids);
        if right < left {
            state.nodes.swap(0, 1);
        }
        state.renumber(&{ state.nodes });
        // Earlier entries follow from the states of the events; otherwise a promise was broken already.
        let (mut log, mut newest) = ([None; LOG], None);
        for entry in self.stored.log() {
            newest = Some(entry);
            log[0] = log[0].or(newest.filter(|entry| *entry == Entry::Calling));
        }
        log[1] = newest;
        state.stored.log = log;
        state
    }

    /// Replaces ids and counters by relative ones: ids are only compared for equality, epochs only with the
    /// newest.
    fn renumber(&mut self, nodes: &[Node; 2]) {
        let stored = &mut self.stored;
        let (epoch, n, id) = (stored.epoch, stored.n, stored.open.map_or(0, |open| open.id));
        let own = |node: usize| 2 + u8::from(node == 1);
        let opener = |opening: u8| {
            let by = nodes.iter().position(|node| node.awake && node.open.opening == opening);
            by.map_or(1, own)
        };
        for (index, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.awake) {
            node.open.id = if node.open.id == id { 1 } else { own(index) };
            node.open.opening = own(index);
            (node.lease, node.n) = (node.lease.wrapping_sub(epoch), node.n.wrapping_sub(n));
        }
        if let Some(open) = &mut stored.open {
            (open.id, open.opening) = (1, opener(open.opening));
        }
        let resend = nodes.iter().any(|node| node.resend.is_some());
        stored.last = stored
            .last
            .filter(|_| resend)
            .map(|(_, cycle, step, kind, opening)| (0, u8::from(cycle == id), step, kind, opener(opening)));
        (stored.epoch, stored.n) = (0, 0);
    }
}

impl Node {
    fn without_ids(mut self) -> Self {
        (self.open.id, self.open.opening) = (0, 0);
        self
    }
}
