//! What is stored, and what the store makes of a commit. A flaw can be built in, to see whether the promises
//! notice.
//!
//! This module must not know who commits, nor what is promised.

/// Failures and deaths after which an event is given up, deaths after which a cycle is broken off.
pub(super) const ATTEMPTS: u8 = 2;
/// The call that cannot be repeated.
pub(crate) const UNSAFE: usize = 0;
/// The call that may be repeated under its key.
pub(crate) const IDEMPOTENT: usize = 1;
/// The event that asks for both calls; the other is only told something.
pub(crate) const ASKS: u8 = 0;

/// One thing left out of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing is.
    Sound,
    /// Events leave the inbox when a cycle opens over them, and are in the log when it decides.
    DrainFirst,
    /// The store does not look at the epoch.
    NoEpoch,
    /// An unsafe call is made without being marked as begun.
    UnmarkedStart,
    /// The ledger does not look for the event's id.
    NoDedup,
    /// A call that had begun is made again.
    RepeatsUnknown,
    /// An opening is taken for the repeat of another node's.
    OpeningsAlike,
    /// A cycle is broken off without an answer to its calls.
    LeavesCallsOpen,
    /// A takeover begins to count anew.
    CountsAnew,
    /// Who has an open cycle is not due.
    ForgetsOpen,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum RowState {
    #[default]
    Waiting,
    Processed,
    Skipped,
    Canceled,
    Dead,
}

/// A row of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    /// Its event's id.
    pub(crate) event: u8,
    pub(crate) state: RowState,
    /// Times that it was given back because it failed.
    pub(crate) attempts: u8,
    /// Times that a cycle over it was left open, while no model was being waited for.
    pub(crate) deaths: u8,
    /// Whether the open cycle has it.
    pub(crate) taken: bool,
}

/// Places in the ledger, one bit each.
pub(crate) type Rows = u8;

/// Where a call stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    #[default]
    Undecided,
    Planned,
    Started,
    Answered,
    Unknown,
}

impl Call {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Answered | Self::Unknown)
    }
}

/// The open cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Open {
    pub(crate) id: u8,
    /// Who opened it or took it over.
    pub(crate) opening: u8,
    pub(crate) taken: Rows,
    pub(crate) decided: bool,
    pub(crate) step: u8,
    /// Times that it was left in this step, while no model was being waited for.
    pub(crate) deaths: u8,
    /// Whether a model is being waited for, where that is noted.
    pub(crate) asked: bool,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Inbox(Rows),
    Injection(Rows),
    Assistant,
    /// With both calls.
    Calling,
    Outcomes,
    Notice,
}

/// As many rows as events may arrive, were none known again.
pub(super) const ROWS: usize = 4;
/// More entries than any walk appends.
pub(super) const LOG: usize = 12;

/// Which commit, as the audit row keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Open,
    Decide,
    Start,
    Settle,
    Close,
    Sent,
    Arrived,
}

/// All that is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) rows: [Option<Row>; ROWS],
    pub(crate) epoch: u8,
    pub(crate) n: u8,
    pub(crate) open: Option<Open>,
    pub(crate) calls: [Call; 2],
    pub(super) log: [Option<Entry>; LOG],
    /// The newest audit row: epoch, cycle, step, kind, and whose opening it was.
    pub(super) last: Option<(u8, u8, u8, Kind, u8)>,
}

impl Stored {
    pub(crate) fn log(&self) -> impl Iterator<Item = Entry> {
        self.log.into_iter().flatten()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows.into_iter().flatten()
    }

    /// Places of those that wait.
    pub(crate) fn waiting(&self) -> Rows {
        self.those(|row| row.state == RowState::Waiting)
    }

    pub(super) fn those(&self, which: impl Fn(Row) -> bool) -> Rows {
        let places = self.rows.iter().enumerate().filter(|(_, row)| row.is_some_and(&which));
        places.fold(0, |rows, (place, _)| rows | 1 << place)
    }

    /// Whether anything is to be done.
    pub(super) fn is_due(&self, flaw: Flaw) -> bool {
        self.waiting() != 0 || (self.open.is_some_and(|open| open.decided) && flaw != Flaw::ForgetsOpen)
    }
}

/// One commit, as both stores are handed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) kind: Kind,
    pub(crate) lease: u8,
    pub(crate) expect: u8,
    pub(crate) cycle: u8,
    pub(crate) step: u8,
    /// The open cycle behind it.
    pub(crate) open: Option<Open>,
    /// With an opening: how often the process has died over what stands in these places.
    pub(crate) tried: [Option<u8>; ROWS],
    pub(crate) entries: [Option<Entry>; 2],
    pub(crate) calls: [Option<Call>; 2],
    /// What becomes of which rows.
    pub(crate) settle: Option<(Rows, RowState)>,
    pub(super) opening: u8,
}

/// What the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Fresh,
    Duplicate,
    Committed,
    Lost,
    Gone,
    /// It was not asked.
    Nothing,
}

impl Stored {
    pub(super) fn commit(&mut self, changes: &Commit, flaw: Flaw) -> Told {
        if !self.may(changes, flaw) {
            return if self.was_done(changes, flaw) { Told::Committed } else { Told::Lost };
        }
        if changes.kind == Kind::Open && !self.take(changes, flaw) {
            return Told::Lost;
        }
        if let Some((rows, state)) = changes.settle {
            if rows & !self.waiting() != 0 && state != RowState::Waiting && flaw != Flaw::DrainFirst {
                return Told::Gone;
            }
            let failed = u8::from(state == RowState::Waiting);
            let settle =
                |row: &mut Row| (row.state, row.taken, row.attempts) = (state, false, row.attempts + failed);
            self.each(rows, settle);
        }
        for (row, change) in self.calls.iter_mut().zip(changes.calls) {
            *row = change.unwrap_or(*row);
        }
        let end = self.log().count();
        for (place, entry) in self.log[end..].iter_mut().zip(changes.entries.into_iter().flatten()) {
            *place = Some(entry);
        }
        if changes.open.is_none() {
            self.each(Rows::MAX, |row| row.taken = false);
        }
        self.open = changes.open;
        self.n += 1;
        self.epoch = changes.lease;
        self.last = Some((changes.lease, changes.cycle, changes.step, changes.kind, changes.opening));
        Told::Committed
    }

    fn may(&self, changes: &Commit, flaw: Flaw) -> bool {
        let mine = match changes.kind {
            Kind::Open => changes.lease == self.epoch + 1,
            _ => changes.lease == self.epoch,
        };
        let open = changes.kind == Kind::Open || self.open.is_some_and(|open| open.id == changes.cycle);
        changes.expect == self.n && (mine || flaw == Flaw::NoEpoch) && open
    }

    /// Whether it is the repeat of the newest commit.
    fn was_done(&self, changes: &Commit, flaw: Flaw) -> bool {
        let Some((epoch, cycle, step, kind, opening)) = self.last else { return false };
        let mine = (self.epoch == changes.lease && epoch == changes.lease) || flaw == Flaw::NoEpoch;
        let same =
            (cycle, step, kind) == (changes.cycle, changes.step, changes.kind) || flaw == Flaw::NoEpoch;
        let own = kind != Kind::Open || opening == changes.opening || flaw == Flaw::OpeningsAlike;
        self.n == changes.expect + 1 && mine && same && own
    }

    /// Whether all that an opening wants to take waits; then it is taken, and what it counts is written.
    fn take(&mut self, changes: &Commit, flaw: Flaw) -> bool {
        let open = changes.open.expect("an opening leaves a cycle open");
        self.each(Rows::MAX, |row| row.taken = false);
        let found = open.taken & self.waiting();
        let state = if flaw == Flaw::DrainFirst { RowState::Processed } else { RowState::Waiting };
        self.each(found, |row| (row.state, row.taken) = (state, true));
        for (row, deaths) in self.rows.iter_mut().zip(changes.tried) {
            row.iter_mut().for_each(|row| row.deaths = deaths.unwrap_or(row.deaths));
        }
        open.decided || found == open.taken
    }

    pub(super) fn each(&mut self, rows: Rows, change: impl Fn(&mut Row)) {
        let rows = self.rows.iter_mut().enumerate().filter(|(place, _)| rows & 1 << place != 0);
        rows.filter_map(|(_, row)| row.as_mut()).for_each(change);
    }
}
