//! The one write path of a life: fenced by epoch, idempotent by `expect`, all or nothing. The parts are written by
//! `tables` and `say`. Who may write, and what becomes of the rows, is decided by `agent::fencing`.

use agent::changes::{Changes, CommitKind, CommitOutcome, Echo, Glance, News, Refusal};
use agent::event::Principal;
use agent::fencing::{self, Admission, Due};
use agent::id::{AgentId, CallId, SpaceId};
use agent::life::{Lease, OpenCycle, Standing};
use agent::limits;
use agent::port::{Denial, Waken};
use agent::space::Message;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::ports::store::say::{Spoken, say};
use crate::sqlite::tables::events::cancel_all;
use crate::sqlite::tables::facts::{facts, touch};
use crate::sqlite::tables::inbox::{Which, waiting};
use crate::sqlite::tables::life::{Life, write};
use crate::sqlite::tables::rows::{first, from_json, int, run, u32_at, u64_at, uuid_at};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::stages::{Stages, settle};
use crate::sqlite::tables::waits::due_at;
use crate::sqlite::tables::{calls, entries, notes, runs, show, urgent};

/// Writes all of `changes` or nothing.
pub(crate) fn commit(
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
    let answered = calls::answered_before(db, life.agent, &changes.call_changes)?;
    if !answered.is_empty() {
        return Err(Fault::Answered(answered));
    }
    let n = life.row.commit_n + 1;
    let (mut said, mut wake) = speak(db, session, lease.agent, changes)?;
    if notes::write(db, life.agent, n, changes)? {
        touch(db, life.agent)?;
    }
    life.head_seq = entries::append(db, life.agent, life.head_seq, &changes.entries)?;
    calls::put(db, life.agent, changes)?;
    calls::change(db, life.agent, &changes.call_changes)?;
    said.extend(show::updates(db, &changes.call_changes)?);
    entries::put_layers(db, life.agent, changes)?;
    if let Some(view) = &changes.view {
        entries::put_view(db, life.agent, n, view)?;
    }
    runs::put_step(db, life.agent, changes)?;
    let mut stages = Stages::before(db, life.agent, changes)?;
    if changes.kind == CommitKind::Open {
        open(db, &mut life, changes, &mut stages)?;
    }
    let (gone, untaken) = settle(db, life.agent, changes, &mut stages)?;
    let stages = stages.after()?;
    life.inbox.waiting = life.inbox.waiting.saturating_sub(gone);
    life.inbox.taken = life.inbox.taken.saturating_sub(untaken);
    rest(db, session, &mut life, lease, n, changes)?;
    runs::audit(db, life.agent, n, lease.epoch, changes)?;
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
        runs::put_run(db, life.agent, receipt)?;
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
        inbox.waiting = inbox.waiting.saturating_sub(cancel_all(db, life.agent)?);
    }
    inbox.due_at = match due {
        Due::Unchanged => inbox.due_at,
        Due::Never => None,
        Due::At(at) => Some(at),
        Due::FirstWaiting => {
            due_at(db, session.boot, life.agent, row.standing, inbox.hold_until, changes.at)?
        }
    };
    (life.row, life.inbox) = (row, inbox);
    Ok(())
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
pub(crate) fn glance(db: &Connection, lease: Lease) -> Outcome<Option<News>> {
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
