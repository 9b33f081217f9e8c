//! The machine itself: what is stored, two nodes, what happened outside, and every step that leads on from
//! there.
//!
//! This module must not know what is promised.

use super::node::{Doing, Node};
use super::stored::{Commit, Flaw, ROWS, Row, RowState, Stored, Told, UNSAFE};

/// Deliveries of each event, all in all.
const SENDS: [u8; 2] = [2, 1];
/// One step of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An event arrives, maybe once more.
    Accept(u8),
    /// A node reads what there is.
    Wake(usize),
    /// A node commits; the answer may be lost on the way.
    Commit { node: usize, doing: Doing, answered: bool },
    /// A node makes a call.
    Act { node: usize, call: usize },
    /// A node dies.
    Crash(usize),
    /// Somebody takes back the event in that place, which waits and is not taken.
    TakeBack(usize),
}

/// The whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ProtocolState {
    pub(crate) stored: Stored,
    pub(crate) nodes: [Node; 2],
    /// How often each call was made.
    pub(crate) made: [u8; 2],
    /// How often each event arrived.
    pub(crate) sent: [u8; 2],
    crashes: u8,
    takeovers: u8,
    lost: u8,
    taken_back: u8,
}

impl ProtocolState {
    /// A world in which so much may go wrong.
    pub(crate) fn new(crashes: u8, takeovers: u8, lost: u8) -> Self {
        Self { crashes, takeovers, lost, ..Self::default() }
    }

    /// The same, in which so many events may be taken back.
    pub(crate) fn taking_back(self, taken_back: u8) -> Self {
        Self { taken_back, ..self }
    }

    /// Everything that may happen next.
    pub(crate) fn actions(&self, flaw: Flaw) -> Vec<Action> {
        let mut actions = Vec::with_capacity(8);
        let events = (0..2).filter(|event: &u8| self.sent[usize::from(*event)] < SENDS[usize::from(*event)]);
        actions.extend(events.map(Action::Accept));
        let free = self.stored.those(|row| row.state == RowState::Waiting && !row.taken);
        let free = (0..ROWS).filter(|place| self.taken_back > 0 && free & 1 << place != 0);
        actions.extend(free.map(Action::TakeBack));
        for (node, me) in self.nodes.iter().enumerate() {
            if !me.awake {
                let free = !self.nodes[1 - node].awake || self.takeovers > 0;
                actions.extend((free && self.stored.is_due(flaw)).then_some(Action::Wake(node)));
                continue;
            }
            actions.extend((self.crashes > 0).then_some(Action::Crash(node)));
            if let Some(doing) = me.again {
                actions.push(Action::Commit { node, doing, answered: true });
                continue;
            }
            for doing in me.doings(flaw) {
                actions.push(Action::Commit { node, doing, answered: true });
                let lost = Action::Commit { node, doing, answered: false };
                actions.extend((self.lost > 0).then_some(lost));
            }
            actions.extend(me.acts(flaw).map(|call| Action::Act { node, call }));
        }
        actions
    }

    /// Whether this is something that goes wrong, or comes from outside: nobody may count on it.
    pub(crate) fn is_fault(&self, action: Action) -> bool {
        match action {
            Action::Accept(_) | Action::Crash(_) | Action::TakeBack(_) => true,
            Action::Wake(node) => self.nodes[1 - node].awake,
            Action::Commit { answered, .. } => !answered,
            Action::Act { .. } => false,
        }
    }

    /// The world behind a step, and what the store said.
    pub(crate) fn after(&self, action: Action, flaw: Flaw) -> (Self, Told) {
        let mut world = *self;
        let told = match action {
            Action::Accept(event) => world.accept(event, flaw),
            Action::Wake(node) => {
                world.takeovers -= u8::from(world.nodes[1 - node].awake);
                world.nodes[node] = Node::woken(node, &world.stored, flaw);
                Told::Nothing
            }
            Action::Commit { node, doing, answered } => world.commit(node, doing, answered, flaw),
            Action::Act { node, call } => {
                world.made[call] += 1;
                world.nodes[node].hand[call] = true;
                world.nodes[node].begun &= call != UNSAFE;
                Told::Nothing
            }
            Action::Crash(node) => {
                world.crashes -= 1;
                world.nodes[node] = Node::default();
                Told::Nothing
            }
            Action::TakeBack(place) => {
                world.taken_back -= 1;
                world.stored.each(1 << place, |row| row.state = RowState::Canceled);
                Told::Nothing
            }
        };
        (world, told)
    }

    /// The commit that such a step asks for.
    pub(crate) fn asked(&self, node: usize, doing: Doing, flaw: Flaw) -> Commit {
        self.nodes[node].changes(doing, flaw)
    }

    fn accept(&mut self, event: u8, flaw: Flaw) -> Told {
        self.sent[usize::from(event)] += 1;
        if flaw != Flaw::NoDedup && self.stored.rows().any(|row| row.event == event) {
            return Told::Duplicate;
        }
        let free = self.stored.rows.iter_mut().find(|row| row.is_none());
        *free.expect("there is a row for each arrival") = Some(Row { event, ..Row::default() });
        Told::Fresh
    }

    fn commit(&mut self, node: usize, doing: Doing, answered: bool, flaw: Flaw) -> Told {
        let changes = self.nodes[node].changes(doing, flaw);
        let mut stored = self.stored;
        let told = stored.commit(&changes, flaw);
        if told == Told::Committed {
            self.stored = stored;
        }
        if !answered {
            self.lost -= 1;
            self.nodes[node].again = Some(doing);
            return told;
        }
        let me = &mut self.nodes[node];
        match (told, changes.open) {
            (Told::Committed, Some(open)) => me.committed(doing, open, &changes, &self.stored),
            (Told::Gone, _) if doing == Doing::FinishShowing => me.gone(&self.stored),
            // The cycle is over; or somebody else lives it.
            _ => *me = Node::default(),
        }
        told
    }
}
