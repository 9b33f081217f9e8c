//! What is the same in two worlds, so that only one of them need be explored.

use super::model::ProtocolState;
use super::node::Node;
use super::stored::{Call, Entry, Flaw, IDEMPOTENT, LOG, Open};

impl ProtocolState {
    /// The same but for what no step depends on: numbers that only count, who of the nodes is which, what a
    /// node that is out of date would have committed, and the order of what is long over. Worlds that are
    /// alike in this go on alike; only where nothing is left out of the protocol.
    pub(crate) fn alike(&self) -> Self {
        let mut world = *self;
        let (epoch, n) = (self.stored.epoch, self.stored.n);
        for node in world.nodes.iter_mut().filter(|node| node.awake && node.again.is_none()) {
            let out_of_date = node.n != n || node.lease != epoch + u8::from(!node.opened);
            if out_of_date {
                let (acts, begun) = (node.acts(Flaw::Sound).any(|call| call == IDEMPOTENT), node.begun);
                *node = Node { awake: true, opened: true, lease: u8::MAX, begun, ..Node::default() };
                node.open = Open { decided: acts || begun, ..Open::default() };
                node.calls[IDEMPOTENT] = if acts { Call::Planned } else { Call::Answered };
            }
        }
        let [left, right] = world.nodes.map(Node::unnamed);
        if right < left {
            world.nodes.swap(0, 1);
        }
        world.rename(&{ world.nodes });
        // What stands further up is as the fates tell, or the promises were broken.
        let (mut log, mut newest) = ([None; LOG], None);
        for entry in self.stored.log() {
            newest = Some(entry);
            log[0] = log[0].or(newest.filter(|entry| *entry == Entry::Calling));
        }
        log[1] = newest;
        world.stored.log = log;
        world
    }

    /// Ids are compared with each other and never ordered, epochs only with the newest.
    fn rename(&mut self, nodes: &[Node; 2]) {
        let stored = &mut self.stored;
        let (epoch, n, id) = (stored.epoch, stored.n, stored.open.map_or(0, |open| open.id));
        let own = |node: usize| 2 + u8::from(node == 1);
        let opener = |opening: u8| {
            let by = nodes.iter().position(|node| node.awake && node.open.opening == opening);
            by.map_or(1, own)
        };
        for (place, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.awake) {
            node.open.id = if node.open.id == id { 1 } else { own(place) };
            node.open.opening = own(place);
            (node.lease, node.n) = (node.lease.wrapping_sub(epoch), node.n.wrapping_sub(n));
        }
        if let Some(open) = &mut stored.open {
            (open.id, open.opening) = (1, opener(open.opening));
        }
        let again = nodes.iter().any(|node| node.again.is_some());
        stored.last = stored
            .last
            .filter(|_| again)
            .map(|(_, cycle, step, kind, opening)| (0, u8::from(cycle == id), step, kind, opener(opening)));
        (stored.epoch, stored.n) = (0, 0);
    }
}

impl Node {
    fn unnamed(mut self) -> Self {
        (self.open.id, self.open.opening) = (0, 0);
        self
    }
}
