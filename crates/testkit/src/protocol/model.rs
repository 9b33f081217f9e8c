//! The model: what is stored, two nodes, what happened outside, and every step that can follow.
//!
//! This module must not know the promises.

use super::node::{Node, NodeCommit};
use super::stored::{Commit, Flaw, ROWS, Row, RowState, StoreReply, Stored, UNSAFE};

/// How often each event is delivered.
const DELIVERIES: [u8; 2] = [2, 1];
/// One step of the whole system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// An event arrives, possibly for the second time.
    Accept(u8),
    /// A node reads the stored state.
    Wake(usize),
    /// A node commits; the answer of the store may be lost.
    Commit { node: usize, commit: NodeCommit, answered: bool },
    /// A node makes a call.
    Call { node: usize, call: usize },
    /// A node dies.
    Crash(usize),
    /// Cancels the event in this row, which waits and is not taken.
    Cancel(usize),
}

/// The whole system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ProtocolState {
    pub(crate) stored: Stored,
    pub(crate) nodes: [Node; 2],
    /// How often each call has been made.
    pub(crate) calls_made: [u8; 2],
    /// How often each event has arrived.
    pub(crate) sent: [u8; 2],
    crashes: u8,
    takeovers: u8,
    lost: u8,
    cancels: u8,
}

impl ProtocolState {
    /// An initial state with this many possible faults.
    pub(crate) fn new(crashes: u8, takeovers: u8, lost: u8) -> Self {
        Self { crashes, takeovers, lost, ..Self::default() }
    }

    /// The same, in which this many events can be canceled.
    pub(crate) fn with_cancels(self, cancels: u8) -> Self {
        Self { cancels, ..self }
    }

    /// Everything that can happen next.
    pub(crate) fn actions(&self, flaw: Flaw) -> Vec<Action> {
        let mut actions = Vec::with_capacity(8);
        let events =
            (0..2).filter(|event: &u8| self.sent[usize::from(*event)] < DELIVERIES[usize::from(*event)]);
        actions.extend(events.map(Action::Accept));
        let free = self.stored.rows_where(|row| row.state == RowState::Waiting && !row.taken);
        let free = (0..ROWS).filter(|index| self.cancels > 0 && free & 1 << index != 0);
        actions.extend(free.map(Action::Cancel));
        for (node, me) in self.nodes.iter().enumerate() {
            if !me.awake {
                let free = !self.nodes[1 - node].awake || self.takeovers > 0;
                actions.extend((free && self.stored.is_due(flaw)).then_some(Action::Wake(node)));
                continue;
            }
            actions.extend((self.crashes > 0).then_some(Action::Crash(node)));
            if let Some(commit) = me.resend {
                actions.push(Action::Commit { node, commit, answered: true });
                continue;
            }
            for commit in me.possible_commits(flaw) {
                actions.push(Action::Commit { node, commit, answered: true });
                let lost = Action::Commit { node, commit, answered: false };
                actions.extend((self.lost > 0).then_some(lost));
            }
            actions.extend(me.possible_calls(flaw).map(|call| Action::Call { node, call }));
        }
        actions
    }

    /// Whether the action is a fault or comes from outside. Progress must not depend on such an action.
    pub(crate) fn is_fault(&self, action: Action) -> bool {
        match action {
            Action::Accept(_) | Action::Crash(_) | Action::Cancel(_) => true,
            Action::Wake(node) => self.nodes[1 - node].awake,
            Action::Commit { answered, .. } => !answered,
            Action::Call { .. } => false,
        }
    }

    /// The state after a step, and the reply of the store.
    pub(crate) fn after(&self, action: Action, flaw: Flaw) -> (Self, StoreReply) {
        let mut state = *self;
        let reply = match action {
            Action::Accept(event) => state.accept(event, flaw),
            Action::Wake(node) => {
                state.takeovers -= u8::from(state.nodes[1 - node].awake);
                state.nodes[node] = Node::activated(node, &state.stored, flaw);
                StoreReply::NotAsked
            }
            Action::Commit { node, commit, answered } => state.commit(node, commit, answered, flaw),
            Action::Call { node, call } => {
                state.calls_made[call] += 1;
                state.nodes[node].outcomes[call] = true;
                state.nodes[node].begun &= call != UNSAFE;
                StoreReply::NotAsked
            }
            Action::Crash(node) => {
                state.crashes -= 1;
                state.nodes[node] = Node::default();
                StoreReply::NotAsked
            }
            Action::Cancel(index) => {
                state.cancels -= 1;
                state.stored.update_rows(1 << index, |row| row.state = RowState::Canceled);
                StoreReply::NotAsked
            }
        };
        (state, reply)
    }

    /// The commit that the node sends for this step.
    pub(crate) fn requested_commit(&self, node: usize, commit: NodeCommit, flaw: Flaw) -> Commit {
        self.nodes[node].changes(commit, flaw)
    }

    fn accept(&mut self, event: u8, flaw: Flaw) -> StoreReply {
        self.sent[usize::from(event)] += 1;
        if flaw != Flaw::NoDedup && self.stored.rows().any(|row| row.event == event) {
            return StoreReply::Duplicate;
        }
        let free = self.stored.rows.iter_mut().find(|row| row.is_none());
        *free.expect("there is a row for each arrival") = Some(Row { event, ..Row::default() });
        StoreReply::Fresh
    }

    fn commit(&mut self, node: usize, commit: NodeCommit, answered: bool, flaw: Flaw) -> StoreReply {
        let changes = self.nodes[node].changes(commit, flaw);
        let mut stored = self.stored;
        let reply = stored.commit(&changes, flaw);
        if reply == StoreReply::Committed {
            self.stored = stored;
        }
        if !answered {
            self.lost -= 1;
            self.nodes[node].resend = Some(commit);
            return reply;
        }
        let me = &mut self.nodes[node];
        match (reply, changes.open) {
            (StoreReply::Committed, Some(open)) => me.committed(commit, open, &changes, &self.stored),
            (StoreReply::Gone, _) if commit == NodeCommit::FinishWithInjection => me.gone(&self.stored),
            // The cycle has ended, or another node runs it.
            _ => *me = Node::default(),
        }
        reply
    }
}
