//! The one write path of a life: fenced by epoch, idempotent by `expect`, all or nothing. What may
//! be said is checked here, in the same transaction; the parts are written by `apply`, `notes` and
//! `say`. Who may write, and what becomes of the rows, is decided by `agent::fencing`.

use agent::changes::{Changes, CommitKind, CommitOutcome, Echo, Glance, News, Refusal};
use agent::event::Principal;
use agent::fencing::{self, Admission, Due, InboxRow, LifeRow};
use agent::id::{AgentId, CallId, CycleId, SpaceId};
use agent::life::{Lease, OpenCycle, Standing};
use agent::limits;
use agent::port::{Denial, Waken};
use agent::space::Message;
use rusqlite::{Connection, Row, params};

use crate::sqlite::Session;
use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::ports::calls;
use crate::sqlite::ports::registry::events as registry_events;
use crate::sqlite::ports::store::apply;
use crate::sqlite::ports::store::due::due_at;
use crate::sqlite::ports::store::say::{Spoken, say};
use crate::sqlite::tables::events::{Which, waiting};
use crate::sqlite::tables::facts::{facts, touch};
use crate::sqlite::tables::rows::{
    REASONS, bytes, first, from_json, int, ms, place_of, reason_or_none, run, space_row, standing_at,
    time_or_none, to_json, u32_at, u64_at, usage_at, usage_columns, uuid_at, uuid_or_none,
};
use crate::sqlite::tables::stages::Stages;
use crate::sqlite::tables::{notes, show, urgent};

/// The rows of one life, as far as a commit reads and writes them.
struct Life {
    agent: i64,
    head_seq: u64,
    row: LifeRow,
    inbox: InboxRow,
    /// The newest place in the inbox.
    newest: u64,
    /// The step of the open cycle.
    step: Option<u32>,
}

const LIFE: &str = "SELECT l.agent, l.epoch, l.commit_n, l.head_seq, l.cycles, l.skips, l.failures, \
    l.usage_input, l.usage_cached, l.usage_output, l.usage_reasoning, l.open_cycle, l.step, l.notice, \
    a.standing, h.head_seq, h.waiting, h.taken, h.due_at, h.hold_until, h.rest_reason, h.cancel \
    FROM entity e JOIN life l ON l.agent = e.id JOIN agent a ON a.id = e.id JOIN inbox_head h ON h.agent = e.id \
    WHERE e.uuid = ?";

impl Life {
    fn read(db: &Connection, agent: AgentId) -> Outcome<Option<Self>> {
        first(db, LIFE, [bytes(agent.0)], Self::at)
    }

    fn at(row: &Row<'_>) -> Outcome<Self> {
        Ok(Self {
            agent: row.get(0)?,
            head_seq: u64_at(row, 3)?,
            row: LifeRow {
                epoch: u64_at(row, 1)?,
                commit_n: u64_at(row, 2)?,
                cycles: u64_at(row, 4)?,
                skips: u64_at(row, 5)?,
                failures: u32_at(row, 6)?,
                usage: usage_at(row, 7)?,
                open: uuid_or_none(row, 11)?.map(CycleId),
                notice: row.get(13)?,
                standing: standing_at(row, 14)?,
                cancel: uuid_or_none(row, 21)?.map(CycleId),
            },
            step: row.get(12)?,
            newest: u64_at(row, 15)?,
            inbox: InboxRow {
                waiting: u32_at(row, 16)?,
                taken: u32_at(row, 17)?,
                due_at: time_or_none(row, 18)?,
                hold_until: time_or_none(row, 19)?,
                reason: reason_or_none(row, 20)?,
            },
        })
    }
}

/// Writes all of `changes` or nothing.
pub(in crate::sqlite) fn commit(
    db: &Connection,
    session: &Session,
    lease: Lease,
    changes: &Changes,
) -> Outcome<(CommitOutcome, Echo)> {
    let Some(mut life) = Life::read(db, lease.agent)? else { return Err(Fault::Lost) };
    match fencing::admission(&life.row, lease, changes) {
        Admission::Write => {}
        Admission::AskAudit => return done_before(db, &life, lease, changes),
        Admission::Lost => return Err(Fault::Lost),
        Admission::Canceled => return Err(Fault::Canceled),
    }
    if changes.barrier && barred(db, &life, changes)? {
        return Err(Fault::Barred);
    }
    calls::unanswered(db, life.agent, &changes.call_changes)?;
    let n = life.row.commit_n + 1;
    let (mut said, mut wake) = speak(db, session, lease.agent, changes)?;
    if notes::write(db, life.agent, n, changes)? {
        touch(db, life.agent)?;
    }
    life.head_seq = apply::entries(db, life.agent, life.head_seq, &changes.entries)?;
    apply::calls(db, life.agent, changes)?;
    apply::call_changes(db, life.agent, &changes.call_changes)?;
    said.extend(show::updates(db, &changes.call_changes)?);
    apply::layers(db, life.agent, changes)?;
    if let Some(view) = &changes.view {
        apply::view(db, life.agent, n, view)?;
    }
    apply::steps(db, life.agent, changes)?;
    let mut stages = Stages::before(db, life.agent, changes)?;
    if changes.kind == CommitKind::Open {
        open(db, &mut life, changes, &mut stages)?;
    }
    let (gone, untaken) = apply::settle(db, life.agent, changes, &mut stages)?;
    let stages = stages.after()?;
    life.inbox.waiting = life.inbox.waiting.saturating_sub(gone);
    life.inbox.taken = life.inbox.taken.saturating_sub(untaken);
    rest(db, session, &mut life, lease, n, changes)?;
    apply::audit(db, life.agent, n, lease.epoch, changes)?;
    write(db, session, &life, changes)?;
    failpoint::hit!(changes.kind.points().0);
    let glance = glimpse(db, &life)?;
    if let Some(at) = life.inbox.due_at.filter(|_| changes.open.is_none()) {
        wake.push(Waken { agent: lease.agent, at, urgent: false });
    }
    let echo = Echo { said: show::spoken(db, said)?, wake, stages };
    Ok((CommitOutcome::Committed { n, glance }, echo))
}

/// Whether someone whose event the open cycle lives has said something urgent that it has not taken.
fn barred(db: &Connection, life: &Life, changes: &Changes) -> Outcome<bool> {
    if life.inbox.waiting <= life.inbox.taken || !urgent::waits(db, life.agent)? {
        return Ok(false);
    }
    let requesters = changes.open.as_ref().map_or(&[][..], |open| &open.requesters);
    let speakers: Vec<&Principal> = requesters.iter().map(|requester| &requester.principal).collect();
    urgent::waits_of(db, life.agent, &speakers)
}

/// A commit that the writer cannot tell from lost: the audit decides whether it was done.
fn done_before(
    db: &Connection,
    life: &Life,
    lease: Lease,
    changes: &Changes,
) -> Outcome<(CommitOutcome, Echo)> {
    let n = changes.expect + 1;
    let sql = "SELECT epoch, cycle, step, kind FROM commits WHERE agent = ? AND n = ?";
    let row = first(db, sql, params![life.agent, int(n)], |row| {
        Ok((u64_at(row, 0)?, uuid_at(row, 1)?, u32_at(row, 2)?, row.get::<_, String>(3)?))
    })?;
    if row != Some((lease.epoch, changes.cycle.0, changes.step, changes.kind.as_str().to_owned())) {
        return Err(Fault::Lost);
    }
    if changes.kind == CommitKind::Open && !opened_by(db, life, changes)? {
        return Err(Fault::Lost);
    }
    Ok((CommitOutcome::Committed { n, glance: glimpse(db, life)? }, Echo::default()))
}

/// Whether it was this opening. Two who take over the same cycle want to make the same epoch of it, and only
/// one of them may live it.
fn opened_by(db: &Connection, life: &Life, changes: &Changes) -> Outcome<bool> {
    let sql = "SELECT open FROM life WHERE agent = ?";
    let open = first(db, sql, [life.agent], |row| Ok(row.get::<_, Option<String>>(0)?))?.flatten();
    let open: Option<OpenCycle> = open.map(|open| from_json(&open, "an open cycle")).transpose()?;
    let opening = |open: &OpenCycle| open.opening;
    Ok(open.as_ref().map(opening) == changes.open.as_ref().map(opening))
}

/// Says what the inward calls want said and shows the visible ones, in the order of the calls, or
/// refuses those calls that may not speak.
fn speak(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    changes: &Changes,
) -> Outcome<(Vec<Message>, Vec<Waken>)> {
    let (mut said, mut wakes) = (Vec::new(), Vec::new());
    let mut refusals = Vec::new();
    let mut shows = changes.shows.iter().peekable();
    for message in &changes.inward.says {
        let turn = show::turn(&changes.calls, message);
        while let Some(shown) = shows.next_if(|shown| show::turn(&changes.calls, shown) < turn) {
            said.extend(show::show(db, shown)?);
        }
        let mine = message.sender == agent.entity();
        let denied = Denial::NotMember { entity: message.sender, space: message.space };
        match if mine { say(db, session, message) } else { Err(denied.into()) } {
            Ok(Spoken::New(message, wake)) => {
                said.push(message);
                wakes.extend(wake);
            }
            Ok(Spoken::Before(message)) => said.push(message),
            Err(Fault::Denied(denial)) => {
                let call = message.call.clone().unwrap_or_else(|| CallId(message.id.to_string()));
                refusals.push(Refusal { call, reason: told(&denial, message.space) });
            }
            Err(other) => return Err(other),
        }
    }
    for shown in shows {
        said.extend(show::show(db, shown)?);
    }
    if refusals.is_empty() { Ok((said, wakes)) } else { Err(Fault::Refused(refusals)) }
}

/// A denial in words for the model.
fn told(denial: &Denial, space: SpaceId) -> String {
    match denial {
        Denial::NotMember { .. } => {
            format!("you are not a member of the space `{space}` (any more); nothing was said there")
        }
        Denial::SpaceClosed(_) => format!("the space `{space}` is closed; nothing was said there"),
        other => format!("{other}; nothing was said"),
    }
}

/// A cycle begins or is taken over: its events are marked, and what failed before is counted.
fn open(db: &Connection, life: &mut Life, changes: &Changes, stages: &mut Stages<'_>) -> Outcome<()> {
    if life.inbox.taken > 0 {
        run(db, "UPDATE waiting SET taken = 0 WHERE agent = ? AND taken = 1", [life.agent])?;
    }
    for tried in &changes.tried {
        let sql = "UPDATE waiting SET attempts = ?, deaths = ? WHERE agent = ? AND seq = ?";
        run(db, sql, params![tried.attempts, tried.deaths, life.agent, int(tried.seq)])?;
    }
    let taken = changes.open.as_ref().map_or(&[][..], |open| &open.taken);
    let mut found = 0;
    for seq in taken {
        let sql = "UPDATE waiting SET taken = 1 WHERE agent = ? AND seq = ?";
        if run(db, sql, params![life.agent, int(*seq)])? == 1 {
            found += 1;
            stages.waits(int(*seq), true)?;
        }
    }
    // One of them was canceled between waking and opening: the activation is out of date.
    let lived = changes.open.as_ref().is_some_and(|open| open.lived);
    if !lived && found < taken.len() {
        return Err(Fault::Lost);
    }
    life.inbox.taken = u32::try_from(found).unwrap_or(u32::MAX);
    if failpoint::on!("drain-first") {
        run(db, "DELETE FROM waiting WHERE agent = ? AND taken = 1", [life.agent])?;
        life.inbox.waiting = life.inbox.waiting.saturating_sub(std::mem::take(&mut life.inbox.taken));
    }
    Ok(())
}

/// What a commit means for the agent's rest: receipt, counters, when it is due again.
fn rest(
    db: &Connection,
    session: &Session,
    life: &mut Life,
    lease: Lease,
    n: u64,
    changes: &Changes,
) -> Outcome<()> {
    let row = fencing::life_after(&life.row, lease, changes);
    if let Some(receipt) = &changes.run {
        apply::receipt(db, life.agent, receipt)?;
    }
    if changes.retire {
        run(db, "UPDATE agent SET standing = 2 WHERE id = ?", [life.agent])?;
        notes::end_plans(db, life.agent, n)?;
    }
    let (mut inbox, due) = fencing::inbox_after(&life.inbox, &row, changes);
    if inbox.taken < life.inbox.taken {
        run(db, "UPDATE waiting SET taken = 0 WHERE agent = ? AND taken = 1", [life.agent])?;
    }
    // What came between its last decision and its end, or was given back with it.
    if fencing::closes(changes) && row.standing == Standing::Retired {
        inbox.waiting = inbox.waiting.saturating_sub(registry_events::retire(db, life.agent)?);
    }
    inbox.due_at = match due {
        Due::Unchanged => inbox.due_at,
        Due::Never => None,
        Due::At(at) => Some(at),
        Due::FirstWaiting => due_at(db, session, life.agent, row.standing, inbox.hold_until, changes.at)?,
    };
    (life.row, life.inbox) = (row, inbox);
    Ok(())
}

fn write(db: &Connection, session: &Session, life: &Life, changes: &Changes) -> Outcome<()> {
    let (row, open) = (&life.row, changes.open.as_ref());
    let [input, cached, output, reasoning] = usage_columns(&row.usage);
    let known = |cost: Option<u64>| cost.map(int);
    let cost = known(changes.run.as_ref().map_or(changes.cost_micros, |receipt| receipt.cost_micros));
    let unpriced = changes.run.is_some() && cost.is_none();
    let active = changes.inward.active_space.map(|space| space_row(db, space)).transpose()?.flatten();
    // The start of the store that lives the cycle: none once it rests.
    let boot = match changes.kind {
        CommitKind::Open => Some(session.boot),
        CommitKind::Park => Some(0),
        _ => None,
    };
    let sql = "UPDATE life SET epoch = ?, commit_n = ?, head_seq = ?, cycles = ?, skips = ?, \
               active_space = coalesce(?, active_space), failures = ?, usage_input = ?, \
               usage_cached = ?, usage_output = ?, usage_reasoning = ?, \
               cost_micros = coalesce(cost_micros + ?, ?, cost_micros), unpriced = unpriced + ?, open_cycle = ?, \
               step = ?, boot = coalesce(?, boot), requesters = ?, notice = ?, open = ? WHERE agent = ?";
    let values = params![
        int(row.epoch),
        int(row.commit_n),
        int(life.head_seq),
        int(row.cycles),
        int(row.skips),
        active,
        row.failures,
        input,
        cached,
        output,
        reasoning,
        cost,
        cost,
        unpriced,
        open.map(|open| bytes(open.id.0)),
        open.map(|open| open.step),
        boot,
        open.map(|open| to_json(&open.requesters)).transpose()?,
        row.notice,
        open.map(to_json).transpose()?,
        life.agent,
    ];
    run(db, sql, values)?;
    let inbox = &life.inbox;
    let sql = "UPDATE inbox_head SET waiting = ?, taken = ?, due_at = ?, hold_until = ?, rest_reason = ?, \
               cancel = ? WHERE agent = ?";
    let reason = inbox.reason.map(|reason| place_of(&REASONS, &reason));
    let (due_at, hold_until) = (inbox.due_at.map(ms), inbox.hold_until.map(ms));
    let cancel = row.cancel.map(|cycle| bytes(cycle.0));
    run(db, sql, params![inbox.waiting, inbox.taken, due_at, hold_until, reason, cancel, life.agent])
        .map(drop)
}

/// What the world did meanwhile, in counts and flags that are found by index.
fn glimpse(db: &Connection, life: &Life) -> Outcome<Glance> {
    let waiting = life.inbox.waiting.saturating_sub(life.inbox.taken);
    let sql = "SELECT facts_rev FROM agent WHERE id = ?";
    let (row, cycle) = (&life.row, life.row.open.zip(life.step));
    Ok(Glance {
        waiting,
        newest: life.newest,
        urgent: waiting > 0 && urgent::waits(db, life.agent)?,
        cancel: row.cancel.is_some() && row.cancel == row.open,
        suspended: row.standing != Standing::Active,
        detached: calls::count_detached(db, life.agent)?,
        answered: cycle.map_or(Ok(0), |step| calls::count_answered(db, life.agent, step))?,
        facts_rev: first(db, sql, [life.agent], |row| u64_at(row, 0))?.unwrap_or(0),
    })
}

/// What is behind the glance of a cycle; `None` where the lease is lost.
pub(in crate::sqlite) fn glance(db: &Connection, lease: Lease) -> Outcome<Option<News>> {
    let Some(life) = Life::read(db, lease.agent)?.filter(|life| life.row.epoch == lease.epoch) else {
        return Ok(None);
    };
    let glance = glimpse(db, &life)?;
    let (mut oldest, mut urgent) = (Vec::new(), Vec::new());
    if glance.waiting > 0 {
        oldest = waiting(db, life.agent, &Which::Others, limits::PEEK_MAX)?;
        if glance.urgent {
            urgent = waiting(db, life.agent, &Which::Urgent, limits::URGENT_MAX)?;
        }
    }
    let step = life.row.open.zip(life.step);
    let answered = step.map_or(Ok(Vec::new()), |step| calls::answered(db, life.agent, step))?;
    Ok(Some(News { glance, oldest, urgent, answered, facts: facts(db, life.agent)? }))
}
