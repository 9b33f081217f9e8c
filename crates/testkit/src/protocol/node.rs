//! One who may live the agent: what it believes, what it does next, and with which commits.
//!
//! This module must not know what the store makes of a commit.

use super::stored::{
    ASKS, ATTEMPTS, Call, Commit, Entry, Flaw, IDEMPOTENT, Kind, Open, ROWS, Row, RowState, Rows, Stored,
    UNSAFE,
};

/// One who may live the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) awake: bool,
    /// Whether its opening was answered.
    pub(crate) opened: bool,
    /// The epoch that it has, or wants to make.
    pub(crate) lease: u8,
    /// The commit that it knows as the last.
    pub(super) n: u8,
    pub(super) open: Open,
    pub(super) calls: [Call; 2],
    /// Deaths that its opening counts, by place in the ledger.
    pub(super) tried: [Option<u8>; ROWS],
    /// What it took and has failed as often as it may.
    pub(super) worn: Rows,
    /// Whether it notes when it waits for a model: the process has died over this before.
    pub(super) suspects: bool,
    /// Whether the model's answer is here.
    pub(super) heard: bool,
    /// Whether what it took asks for calls.
    pub(super) asks: bool,
    /// Whether it has marked the unsafe call and not made it yet.
    pub(super) begun: bool,
    /// Outcomes that came and are not committed.
    pub(super) hand: [bool; 2],
    /// What waits beside its own, as its last commit told.
    pub(super) sees: Rows,
    /// The commit whose answer was lost: it is sent again.
    pub(crate) again: Option<Doing>,
}

/// What a node does with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Doing {
    Open,
    Bury,
    Decide,
    Skip,
    Fail,
    Start,
    SettleSome,
    SettleAll,
    Send,
    Hear,
    Finish,
    FinishShowing,
    BreakOff,
}

impl Node {
    pub(super) fn woken(node: usize, stored: &Stored, flaw: Flaw) -> Self {
        // No other activation that commits anything has the same name: an opening raises the epoch.
        let name = 1 + stored.epoch * 2 + u8::from(node == 1);
        let left = stored.open.unwrap_or_default();
        // Whoever had the cycle may have died of it; not while the model was being waited for.
        let died = u8::from(stored.open.is_some() && !left.asked && flaw != Flaw::CountsAnew);
        let open = match stored.open {
            Some(open) if open.decided => {
                Open { opening: name, deaths: open.deaths + died, asked: false, ..open }
            }
            Some(_) => Open { id: left.id, opening: name, taken: stored.waiting(), ..Open::default() },
            None => Open { id: name, opening: name, taken: stored.waiting(), ..Open::default() },
        };
        let mut tried = [None; ROWS];
        if died > 0 && !open.decided {
            for (place, tried) in
                tried.iter_mut().enumerate().filter(|(place, _)| left.taken & 1 << place != 0)
            {
                *tried = stored.rows[place].map(|row| row.deaths + 1);
            }
        }
        let deaths = |place: usize| tried[place].or(stored.rows[place].map(|row| row.deaths)).unwrap_or(0);
        let places = || (0..ROWS).filter(|place| open.taken & 1 << place != 0);
        let failed = |place: usize| stored.rows[place].map_or(0, |row| row.attempts) + deaths(place);
        Self {
            awake: true,
            lease: stored.epoch + 1,
            n: stored.n,
            open,
            calls: if open.decided { stored.calls } else { [Call::Undecided; 2] },
            tried,
            worn: places()
                .filter(|place| failed(*place) >= ATTEMPTS)
                .fold(0, |rows, place| rows | 1 << place),
            suspects: if open.decided { open.deaths > 0 } else { places().any(|place| deaths(place) > 0) },
            asks: stored.those(|row: Row| row.event == ASKS) & open.taken != 0,
            ..Self::default()
        }
    }

    /// Whether the unsafe call had begun in another activation.
    fn in_doubt(&self, flaw: Flaw) -> bool {
        let begun = self.calls[UNSAFE] == Call::Started && !self.begun && !self.hand[UNSAFE];
        begun && flaw != Flaw::RepeatsUnknown
    }

    /// What it may do with the store next.
    pub(super) fn doings(&self, flaw: Flaw) -> Vec<Doing> {
        let Open { decided, step, deaths, asked, .. } = self.open;
        if !self.opened {
            return vec![Doing::Open];
        }
        if !decided && self.worn != 0 {
            return vec![Doing::Bury];
        }
        if deaths >= ATTEMPTS {
            return vec![Doing::BreakOff];
        }
        if !decided || step == 1 {
            return match (asked, self.suspects && !self.heard) {
                (true, _) => vec![Doing::Hear],
                (false, true) => vec![Doing::Send],
                (false, false) if !decided => vec![Doing::Decide, Doing::Skip, Doing::Fail],
                (false, false) => {
                    let more = (self.sees != 0).then_some(Doing::FinishShowing);
                    more.into_iter().chain([Doing::Finish]).collect()
                }
            };
        }
        let came = |call: usize| self.hand[call] || (call == UNSAFE && self.in_doubt(flaw));
        if (0..2).all(|call| came(call) || self.calls[call].is_over()) {
            return vec![Doing::SettleAll];
        }
        let start = self.calls[UNSAFE] == Call::Planned && !self.hand[UNSAFE] && flaw != Flaw::UnmarkedStart;
        let start = start.then_some(Doing::Start);
        start.into_iter().chain((0..2).any(came).then_some(Doing::SettleSome)).collect()
    }

    /// Calls that it may make.
    pub(super) fn acts(&self, flaw: Flaw) -> impl Iterator<Item = usize> {
        let acting = self.opened && self.open.decided && self.open.step == 0 && self.open.deaths < ATTEMPTS;
        let planned = |call: usize| self.calls[call] == Call::Planned && !self.hand[call];
        let begun = match flaw {
            Flaw::UnmarkedStart => planned(UNSAFE),
            Flaw::RepeatsUnknown => self.calls[UNSAFE] == Call::Started && !self.hand[UNSAFE],
            _ => self.begun,
        };
        [(UNSAFE, begun), (IDEMPOTENT, planned(IDEMPOTENT))]
            .into_iter()
            .filter_map(move |(call, may)| (acting && may).then_some(call))
    }

    pub(super) fn changes(&self, doing: Doing, flaw: Flaw) -> Commit {
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
        match doing {
            Doing::Open => {
                (changes.kind, changes.open, changes.tried) = (Kind::Open, Some(open), self.tried);
            }
            Doing::Bury => changes.settle = Some((self.worn, RowState::Dead)),
            Doing::Skip => changes.settle = Some((open.taken, RowState::Skipped)),
            Doing::Fail => changes.settle = Some((open.taken, RowState::Waiting)),
            Doing::Decide => {
                let said = if self.asks { Entry::Calling } else { Entry::Assistant };
                changes.kind = Kind::Decide;
                changes.entries = [Some(Entry::Inbox(open.taken)), Some(said)];
                changes.settle = Some((open.taken, RowState::Processed));
                changes.calls = [self.asks.then_some(Call::Planned); 2];
                changes.open = self.asks.then_some(Open { decided: true, deaths: 0, ..open });
            }
            Doing::Start => {
                (changes.kind, changes.open) = (Kind::Start, Some(open));
                changes.calls[UNSAFE] = Some(Call::Started);
            }
            Doing::SettleSome => {
                (changes.kind, changes.open) = (Kind::Settle, Some(open));
                changes.calls = self.arrivals(flaw);
            }
            Doing::SettleAll => {
                changes.kind = Kind::Settle;
                changes.calls = self.arrivals(flaw);
                changes.entries[0] = Some(Entry::Outcomes);
                changes.open = Some(Open { step: 1, deaths: 0, ..open });
            }
            Doing::Send => {
                (changes.kind, changes.open) = (Kind::Sent, Some(Open { asked: true, ..open }));
            }
            Doing::Hear => {
                (changes.kind, changes.open) = (Kind::Arrived, Some(Open { asked: false, ..open }));
            }
            Doing::Finish | Doing::FinishShowing => {
                let shown = (doing == Doing::FinishShowing).then_some(self.sees);
                changes.kind = Kind::Decide;
                changes.entries = [shown.map(Entry::Injection), Some(Entry::Assistant)];
                changes.settle = shown.map(|rows| (rows, RowState::Processed));
            }
            Doing::BreakOff => {
                let unanswered = open.step == 0 && flaw != Flaw::LeavesCallsOpen;
                changes.entries = [unanswered.then_some(Entry::Outcomes), Some(Entry::Notice)];
                changes.calls = self.given_up();
            }
        }
        changes
    }

    /// Call rows of what came and is not stored.
    fn arrivals(&self, flaw: Flaw) -> [Option<Call>; 2] {
        let unknown = self.in_doubt(flaw).then_some(Call::Unknown);
        let came = |call: usize| self.hand[call].then_some(Call::Answered);
        [came(UNSAFE).or(unknown), came(IDEMPOTENT)]
    }

    /// Call rows of a cycle that is broken off: what had begun is unknown, the rest is not done.
    fn given_up(&self) -> [Option<Call>; 2] {
        self.calls.map(|call| match call {
            Call::Started => Some(Call::Unknown),
            Call::Planned => Some(Call::Answered),
            Call::Undecided | Call::Answered | Call::Unknown => None,
        })
    }

    /// Goes on behind a commit that left its cycle open.
    pub(super) fn committed(&mut self, doing: Doing, open: Open, changes: &Commit, stored: &Stored) {
        self.open = open;
        self.opened = true;
        self.n = changes.expect + 1;
        self.again = None;
        self.begun |= doing == Doing::Start;
        for ((call, change), hand) in self.calls.iter_mut().zip(changes.calls).zip(&mut self.hand) {
            *call = change.unwrap_or(*call);
            *hand &= !call.is_over();
        }
        self.worn *= u8::from(!open.decided);
        self.tried = [None; ROWS];
        (self.suspects, self.heard) = match doing {
            // What is decided is over: what comes next has not been died of.
            Doing::Decide | Doing::SettleAll => (false, false),
            _ => (self.suspects, self.heard || doing == Doing::Hear),
        };
        self.sees = stored.waiting() & !open.taken;
    }

    /// Something that it was to show waits no more.
    pub(super) fn gone(&mut self, stored: &Stored) {
        self.sees &= stored.waiting();
        self.again = None;
    }
}
