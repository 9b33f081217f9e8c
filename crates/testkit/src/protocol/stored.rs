//! What is stored, and how the store handles a commit. A flaw can be built in, to check that a promise
//! notices it.
//!
//! This module must not know the nodes or the promises.

/// Failures and deaths after which an event is marked dead, and deaths after which a cycle is aborted.
pub(super) const ATTEMPTS: u8 = 2;
/// The call that cannot be repeated.
pub(crate) const UNSAFE: usize = 0;
/// The call that may be repeated under its key.
pub(crate) const IDEMPOTENT: usize = 1;
/// The event that leads to both calls. The other event leads to none.
pub(crate) const CALLING_EVENT: u8 = 0;

/// A flaw of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No flaw.
    None,
    /// Events leave the inbox when a cycle opens, although they reach the log only when it decides.
    DrainFirst,
    /// The store ignores the epoch.
    NoEpoch,
    /// An unsafe call is made without being marked as started.
    UnmarkedStart,
    /// The ledger does not recognize the id of an event.
    NoDedup,
    /// An unsafe call that was started is made again.
    RepeatsUnknown,
    /// An opening is mistaken for the repeat of another node's opening.
    ConfusesOpenings,
    /// A cycle is aborted without outcomes of its calls.
    LeavesCallsOpen,
    /// A takeover does not count the death before it.
    ResetsCounts,
    /// An open cycle does not make its agent due.
    ForgetsOpen,
}

/// The state of an event.
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
    /// The id of the event.
    pub(crate) event: u8,
    pub(crate) state: RowState,
    /// How often it was returned to the inbox because it failed.
    pub(crate) attempts: u8,
    /// How often a node died in a cycle with it, except while waiting for a model.
    pub(crate) deaths: u8,
    /// Whether the open cycle has taken it.
    pub(crate) taken: bool,
}

/// A set of ledger rows, one bit each.
pub(crate) type Rows = u8;

/// The state of a call.
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
    /// The activation that opened it or took it over.
    pub(crate) opening: u8,
    pub(crate) taken: Rows,
    pub(crate) decided: bool,
    pub(crate) step: u8,
    /// How often a node died in this step, except while waiting for a model.
    pub(crate) deaths: u8,
    /// Whether the node waits for a model, if it records that.
    pub(crate) asked: bool,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    Inbox(Rows),
    Injection(Rows),
    Assistant,
    /// A reply with both calls.
    Calling,
    Outcomes,
    Notice,
}

/// Enough rows for every delivery, even if the ledger recognizes no repeats.
pub(super) const ROWS: usize = 4;
/// More entries than any path appends.
pub(super) const LOG: usize = 12;

/// The kind of a commit, as the audit row stores it.
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

/// The durable state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) rows: [Option<Row>; ROWS],
    pub(crate) epoch: u8,
    pub(crate) n: u8,
    pub(crate) open: Option<Open>,
    pub(crate) calls: [Call; 2],
    pub(super) log: [Option<Entry>; LOG],
    /// The newest audit row: epoch, cycle, step, kind and opening.
    pub(super) last: Option<(u8, u8, u8, Kind, u8)>,
}

impl Stored {
    pub(crate) fn log(&self) -> impl Iterator<Item = Entry> {
        self.log.into_iter().flatten()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.rows.into_iter().flatten()
    }

    /// The rows that wait.
    pub(crate) fn waiting(&self) -> Rows {
        self.rows_where(|row| row.state == RowState::Waiting)
    }

    pub(super) fn rows_where(&self, which: impl Fn(Row) -> bool) -> Rows {
        let indexes = self.rows.iter().enumerate().filter(|(_, row)| row.is_some_and(&which));
        indexes.fold(0, |rows, (index, _)| rows | 1 << index)
    }

    /// Whether there is work to do.
    pub(super) fn is_due(&self, flaw: Flaw) -> bool {
        self.waiting() != 0 || (self.open.is_some_and(|open| open.decided) && flaw != Flaw::ForgetsOpen)
    }
}

/// One commit, as the model and the real store receive it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) kind: Kind,
    pub(crate) lease: u8,
    pub(crate) expect: u8,
    pub(crate) cycle: u8,
    pub(crate) step: u8,
    /// The open cycle after it.
    pub(crate) open: Option<Open>,
    /// Of an opening: the number of deaths to write for each row.
    pub(crate) tried: [Option<u8>; ROWS],
    pub(crate) entries: [Option<Entry>; 2],
    pub(crate) calls: [Option<Call>; 2],
    /// Rows and the state they get.
    pub(crate) settle: Option<(Rows, RowState)>,
    pub(super) opening: u8,
}

/// The reply of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreReply {
    Fresh,
    Duplicate,
    Committed,
    Lost,
    Gone,
    /// The step does not involve the store.
    NotAsked,
}

impl Stored {
    pub(super) fn commit(&mut self, changes: &Commit, flaw: Flaw) -> StoreReply {
        if !self.is_allowed(changes, flaw) {
            return if self.is_repeat(changes, flaw) { StoreReply::Committed } else { StoreReply::Lost };
        }
        if changes.kind == Kind::Open && !self.take(changes, flaw) {
            return StoreReply::Lost;
        }
        if let Some((rows, state)) = changes.settle {
            if rows & !self.waiting() != 0 && state != RowState::Waiting && flaw != Flaw::DrainFirst {
                return StoreReply::Gone;
            }
            let failed = u8::from(state == RowState::Waiting);
            let settle =
                |row: &mut Row| (row.state, row.taken, row.attempts) = (state, false, row.attempts + failed);
            self.update_rows(rows, settle);
        }
        for (row, change) in self.calls.iter_mut().zip(changes.calls) {
            *row = change.unwrap_or(*row);
        }
        let end = self.log().count();
        for (slot, entry) in self.log[end..].iter_mut().zip(changes.entries.into_iter().flatten()) {
            *slot = Some(entry);
        }
        if changes.open.is_none() {
            self.update_rows(Rows::MAX, |row| row.taken = false);
        }
        self.open = changes.open;
        self.n += 1;
        self.epoch = changes.lease;
        self.last = Some((changes.lease, changes.cycle, changes.step, changes.kind, changes.opening));
        StoreReply::Committed
    }

    fn is_allowed(&self, changes: &Commit, flaw: Flaw) -> bool {
        let mine = match changes.kind {
            Kind::Open => changes.lease == self.epoch + 1,
            _ => changes.lease == self.epoch,
        };
        let open = changes.kind == Kind::Open || self.open.is_some_and(|open| open.id == changes.cycle);
        changes.expect == self.n && (mine || flaw == Flaw::NoEpoch) && open
    }

    /// Whether it repeats the newest commit.
    fn is_repeat(&self, changes: &Commit, flaw: Flaw) -> bool {
        let Some((epoch, cycle, step, kind, opening)) = self.last else { return false };
        let mine = (self.epoch == changes.lease && epoch == changes.lease) || flaw == Flaw::NoEpoch;
        let same =
            (cycle, step, kind) == (changes.cycle, changes.step, changes.kind) || flaw == Flaw::NoEpoch;
        let own = kind != Kind::Open || opening == changes.opening || flaw == Flaw::ConfusesOpenings;
        self.n == changes.expect + 1 && mine && same && own
    }

    /// Takes the events of an opening and writes its counts. Returns whether all of the events were waiting.
    fn take(&mut self, changes: &Commit, flaw: Flaw) -> bool {
        let open = changes.open.expect("an opening has an open cycle");
        self.update_rows(Rows::MAX, |row| row.taken = false);
        let found = open.taken & self.waiting();
        let state = if flaw == Flaw::DrainFirst { RowState::Processed } else { RowState::Waiting };
        self.update_rows(found, |row| (row.state, row.taken) = (state, true));
        for (row, deaths) in self.rows.iter_mut().zip(changes.tried) {
            row.iter_mut().for_each(|row| row.deaths = deaths.unwrap_or(row.deaths));
        }
        open.decided || found == open.taken
    }

    pub(super) fn update_rows(&mut self, rows: Rows, change: impl Fn(&mut Row)) {
        let rows = self.rows.iter_mut().enumerate().filter(|(index, _)| rows & 1 << index != 0);
        rows.filter_map(|(_, row)| row.as_mut()).for_each(change);
    }
}
