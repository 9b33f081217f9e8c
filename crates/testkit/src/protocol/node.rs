//! A node that may run the agent: what it knows, what it can do next, and the commits it sends.
//!
//! This module must not know how the store handles a commit.

use super::stored::{
    ATTEMPTS, CALLING_EVENT, Call, Commit, Entry, Flaw, IDEMPOTENT, Kind, Open, ROWS, Row, RowState, Rows,
    Stored, UNSAFE,
};

/// One node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) awake: bool,
    /// Whether the store has confirmed its opening.
    pub(crate) opened: bool,
    /// The epoch that it holds, or wants to open.
    pub(crate) lease: u8,
    /// The number of the last commit it knows.
    pub(super) n: u8,
    pub(super) open: Open,
    pub(super) calls: [Call; 2],
    /// Deaths that its opening writes, per ledger row.
    pub(super) tried: [Option<u8>; ROWS],
    /// Rows that it took and whose attempts are used up.
    pub(super) exhausted: Rows,
    /// Whether it records when it waits for a model, because a process has died over this work before.
    pub(super) suspect: bool,
    /// Whether the model's reply has arrived.
    pub(super) replied: bool,
    /// Whether the taken events lead to calls.
    pub(super) wants_calls: bool,
    /// Whether it has marked the unsafe call as started and not made it yet.
    pub(super) begun: bool,
    /// Outcomes that have arrived and are not committed.
    pub(super) outcomes: [bool; 2],
    /// Other events that wait, as its last commit reported them.
    pub(super) others: Rows,
    /// The commit whose answer was lost and which is sent again.
    pub(crate) resend: Option<NodeCommit>,
}

/// The commits that a node can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NodeCommit {
    Open,
    MarkDead,
    Decide,
    Skip,
    Fail,
    Start,
    SettleSome,
    SettleAll,
    MarkSent,
    MarkArrived,
    Finish,
    FinishWithInjection,
    Abort,
}

impl Node {
    pub(super) fn activated(node: usize, stored: &Stored, flaw: Flaw) -> Self {
        // Unique among activations that commit anything, because an opening raises the epoch.
        let name = 1 + stored.epoch * 2 + u8::from(node == 1);
        let left = stored.open.unwrap_or_default();
        // The cycle may have killed its previous node, unless that node was waiting for the model.
        let died = u8::from(stored.open.is_some() && !left.asked && flaw != Flaw::ResetsCounts);
        let open = match stored.open {
            Some(open) if open.decided => {
                Open { opening: name, deaths: open.deaths + died, asked: false, ..open }
            }
            Some(_) => Open { id: left.id, opening: name, taken: stored.waiting(), ..Open::default() },
            None => Open { id: name, opening: name, taken: stored.waiting(), ..Open::default() },
        };
        let mut tried = [None; ROWS];
        if died > 0 && !open.decided {
            for (index, tried) in
                tried.iter_mut().enumerate().filter(|(index, _)| left.taken & 1 << index != 0)
            {
                *tried = stored.rows[index].map(|row| row.deaths + 1);
            }
        }
        let deaths = |index: usize| tried[index].or(stored.rows[index].map(|row| row.deaths)).unwrap_or(0);
        let indexes = || (0..ROWS).filter(|index| open.taken & 1 << index != 0);
        let failed = |index: usize| stored.rows[index].map_or(0, |row| row.attempts) + deaths(index);
        Self {
            awake: true,
            lease: stored.epoch + 1,
            n: stored.n,
            open,
            calls: if open.decided { stored.calls } else { [Call::Undecided; 2] },
            tried,
            exhausted: indexes()
                .filter(|index| failed(*index) >= ATTEMPTS)
                .fold(0, |rows, index| rows | 1 << index),
            suspect: if open.decided { open.deaths > 0 } else { indexes().any(|index| deaths(index) > 0) },
            wants_calls: stored.rows_where(|row: Row| row.event == CALLING_EVENT) & open.taken != 0,
            ..Self::default()
        }
    }

    /// Whether the unsafe call was started by another activation.
    fn ambiguous(&self, flaw: Flaw) -> bool {
        let begun = self.calls[UNSAFE] == Call::Started && !self.begun && !self.outcomes[UNSAFE];
        begun && flaw != Flaw::RepeatsUnknown
    }

    /// The commits that it can send next.
    pub(super) fn possible_commits(&self, flaw: Flaw) -> Vec<NodeCommit> {
        let Open { decided, step, deaths, asked, .. } = self.open;
        if !self.opened {
            return vec![NodeCommit::Open];
        }
        if !decided && self.exhausted != 0 {
            return vec![NodeCommit::MarkDead];
        }
        if deaths >= ATTEMPTS {
            return vec![NodeCommit::Abort];
        }
        if !decided || step == 1 {
            return match (asked, self.suspect && !self.replied) {
                (true, _) => vec![NodeCommit::MarkArrived],
                (false, true) => vec![NodeCommit::MarkSent],
                (false, false) if !decided => vec![NodeCommit::Decide, NodeCommit::Skip, NodeCommit::Fail],
                (false, false) => {
                    let more = (self.others != 0).then_some(NodeCommit::FinishWithInjection);
                    more.into_iter().chain([NodeCommit::Finish]).collect()
                }
            };
        }
        let came = |call: usize| self.outcomes[call] || (call == UNSAFE && self.ambiguous(flaw));
        if (0..2).all(|call| came(call) || self.calls[call].is_over()) {
            return vec![NodeCommit::SettleAll];
        }
        let start =
            self.calls[UNSAFE] == Call::Planned && !self.outcomes[UNSAFE] && flaw != Flaw::UnmarkedStart;
        let start = start.then_some(NodeCommit::Start);
        start.into_iter().chain((0..2).any(came).then_some(NodeCommit::SettleSome)).collect()
    }

    /// The calls that it can make next.
    pub(super) fn possible_calls(&self, flaw: Flaw) -> impl Iterator<Item = usize> {
        let acting = self.opened && self.open.decided && self.open.step == 0 && self.open.deaths < ATTEMPTS;
        let planned = |call: usize| self.calls[call] == Call::Planned && !self.outcomes[call];
        let begun = match flaw {
            Flaw::UnmarkedStart => planned(UNSAFE),
            Flaw::RepeatsUnknown => self.calls[UNSAFE] == Call::Started && !self.outcomes[UNSAFE],
            _ => self.begun,
        };
        [(UNSAFE, begun), (IDEMPOTENT, planned(IDEMPOTENT))]
            .into_iter()
            .filter_map(move |(call, may)| (acting && may).then_some(call))
    }

    pub(super) fn changes(&self, commit: NodeCommit, flaw: Flaw) -> Commit {
        let open = self.open;
        let mut changes = Commit {
            kind: Kind::Close,
            lease: self.lease,
            expect: self.n,
            cycle: open.id,
            step: open.step,
            open: None,
            tried: [None; ROWS],
            entries: [None; 2],
            calls: [None; 2],
            settle: None,
            opening: open.opening,
        };
        match commit {
            NodeCommit::Open => {
                (changes.kind, changes.open, changes.tried) = (Kind::Open, Some(open), self.tried);
            }
            NodeCommit::MarkDead => changes.settle = Some((self.exhausted, RowState::Dead)),
            NodeCommit::Skip => changes.settle = Some((open.taken, RowState::Skipped)),
            NodeCommit::Fail => changes.settle = Some((open.taken, RowState::Waiting)),
            NodeCommit::Decide => {
                let reply = if self.wants_calls { Entry::Calling } else { Entry::Assistant };
                changes.kind = Kind::Decide;
                changes.entries = [Some(Entry::Inbox(open.taken)), Some(reply)];
                changes.settle = Some((open.taken, RowState::Processed));
                changes.calls = [self.wants_calls.then_some(Call::Planned); 2];
                changes.open = self.wants_calls.then_some(Open { decided: true, deaths: 0, ..open });
            }
            NodeCommit::Start => {
                (changes.kind, changes.open) = (Kind::Start, Some(open));
                changes.calls[UNSAFE] = Some(Call::Started);
            }
            NodeCommit::SettleSome => {
                (changes.kind, changes.open) = (Kind::Settle, Some(open));
                changes.calls = self.arrivals(flaw);
            }
            NodeCommit::SettleAll => {
                changes.kind = Kind::Settle;
                changes.calls = self.arrivals(flaw);
                changes.entries[0] = Some(Entry::Outcomes);
                changes.open = Some(Open { step: 1, deaths: 0, ..open });
            }
            NodeCommit::MarkSent => {
                (changes.kind, changes.open) = (Kind::Sent, Some(Open { asked: true, ..open }));
            }
            NodeCommit::MarkArrived => {
                (changes.kind, changes.open) = (Kind::Arrived, Some(Open { asked: false, ..open }));
            }
            NodeCommit::Finish | NodeCommit::FinishWithInjection => {
                let shown = (commit == NodeCommit::FinishWithInjection).then_some(self.others);
                changes.kind = Kind::Decide;
                changes.entries = [shown.map(Entry::Injection), Some(Entry::Assistant)];
                changes.settle = shown.map(|rows| (rows, RowState::Processed));
            }
            NodeCommit::Abort => {
                let unanswered = open.step == 0 && flaw != Flaw::LeavesCallsOpen;
                changes.entries = [unanswered.then_some(Entry::Outcomes), Some(Entry::Notice)];
                changes.calls = self.given_up();
            }
        }
        changes
    }

    /// Changes to the call rows for outcomes that have arrived and are not stored.
    fn arrivals(&self, flaw: Flaw) -> [Option<Call>; 2] {
        let unknown = self.ambiguous(flaw).then_some(Call::Unknown);
        let came = |call: usize| self.outcomes[call].then_some(Call::Answered);
        [came(UNSAFE).or(unknown), came(IDEMPOTENT)]
    }

    /// Changes to the call rows when a cycle is aborted: started calls become unknown, planned
    /// ones are answered as not made.
    fn given_up(&self) -> [Option<Call>; 2] {
        self.calls.map(|call| match call {
            Call::Started => Some(Call::Unknown),
            Call::Planned => Some(Call::Answered),
            Call::Undecided | Call::Answered | Call::Unknown => None,
        })
    }

    /// Continues after a commit that left the cycle open.
    pub(super) fn committed(&mut self, commit: NodeCommit, open: Open, changes: &Commit, stored: &Stored) {
        self.open = open;
        self.opened = true;
        self.n = changes.expect + 1;
        self.resend = None;
        self.begun |= commit == NodeCommit::Start;
        for ((call, change), outcome) in self.calls.iter_mut().zip(changes.calls).zip(&mut self.outcomes) {
            *call = change.unwrap_or(*call);
            *outcome &= !call.is_over();
        }
        self.exhausted *= u8::from(!open.decided);
        self.tried = [None; ROWS];
        (self.suspect, self.replied) = match commit {
            // The step is complete, and no process has died over the next one yet.
            NodeCommit::Decide | NodeCommit::SettleAll => (false, false),
            _ => (self.suspect, self.replied || commit == NodeCommit::MarkArrived),
        };
        self.others = stored.waiting() & !open.taken;
    }

    /// Handles the reply that an event it wanted to show no longer waits.
    pub(super) fn gone(&mut self, stored: &Stored) {
        self.others &= stored.waiting();
        self.resend = None;
    }
}
