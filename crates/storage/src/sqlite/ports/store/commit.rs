//! The only write path of a running agent: fenced by epoch, idempotent by `expect`, all or nothing. `tables` and
//! `post` write the parts. `agent::fencing` decides who may write, and the new values of the rows.

use agent::alert::Alert;
use agent::changes::{Changes, CommitKind, CommitOutcome, EventMoved, Glance, News, Notifications};
use agent::fencing::{self, Admission, AuditRow, DueFrom, Post, was_written};
use agent::id::{AgentId, CycleId};
use agent::life::{Lease, Standing};
use agent::limits;
use agent::port::{Denial, Wakeup};
use agent::space::Message;
use rusqlite::{Connection, params};

use crate::sqlite::engine::fault::{Fault, Outcome};
use crate::sqlite::ports::store::post::{Posted, deliver_events, post_message};
use crate::sqlite::tables::events::cancel_all;
use crate::sqlite::tables::facts::{facts, touch};
use crate::sqlite::tables::inbox::{Which, waiting};
use crate::sqlite::tables::life::{Life, open_at, write};
use crate::sqlite::tables::messages::space_heads;
use crate::sqlite::tables::plans::end_plans;
use crate::sqlite::tables::progress::{ProgressLog, settle};
use crate::sqlite::tables::rows::{first, int, run, u32_at, u64_at, uuid_at};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::waits::{due_at, give_back};
use crate::sqlite::tables::{
    alerts, approval_rules, approvals, calls, entries, notes, outgoing, queue, runs, shift, show, urgent,
};

/// Writes all of `changes`, or nothing.
pub(super) fn commit(
    db: &Connection,
    session: &Session,
    lease: Lease,
    changes: &Changes,
) -> Outcome<(CommitOutcome, Notifications)> {
    let read = || Life::read(db, lease.agent)?.ok_or(Fault::Lost);
    let mut life = read()?;
    if shift::settle(db, session, life.agent)? {
        life = read()?;
    }
    match fencing::admission(&life.row, lease, changes) {
        Admission::Write => {}
        Admission::AskAudit => return committed_before(db, &life, lease, changes),
        Admission::Lost => return Err(Fault::Lost),
        Admission::Canceled => return Err(Fault::Canceled),
    }
    if changes.barrier {
        let requesters = changes.open.as_ref().map_or(&[][..], |open| &open.requesters);
        if urgent::waits_of(db, &life, requesters, changes.barrier_since)? {
            return Err(Fault::Barred);
        }
    }
    let answered = calls::answered_before(db, life.agent, &changes.call_changes)?;
    if !answered.is_empty() {
        return Err(Fault::Answered(answered));
    }
    let ruled_out = approval_rules::ruled_out(db, life.agent, changes)?;
    if !ruled_out.is_empty() {
        return Err(Fault::Refused(ruled_out));
    }
    let n = life.row.commit_n + 1;
    calls::put(db, life.agent, changes)?;
    calls::change(db, life.agent, &changes.call_changes)?;
    // Spaces are always written before inboxes.
    outgoing::asked_calls(db, life.agent, &changes.calls)?;
    let mut messages = show::updates(db, &changes.call_changes)?;
    let (posted, mut wake) = post_messages(db, session, lease.agent, changes)?;
    messages.extend(show::with_sender(db, posted)?);
    if notes::write(db, life.agent, n, changes)? {
        touch(db, life.agent)?;
    }
    life.head_seq = entries::append(db, life.agent, life.head_seq, &changes.entries)?;
    queue::note_commit(db, &session.index, life.agent, changes)?;
    entries::put_layers(db, life.agent, changes)?;
    if let Some(view) = &changes.view {
        entries::put_view(db, life.agent, n, view)?;
    }
    runs::put_steps(db, life.agent, changes)?;
    let mut progress = ProgressLog::begin(db, life.agent, changes)?;
    if changes.kind == CommitKind::Open {
        take_events(db, &mut life, changes, &mut progress)?;
    }
    let (gone, untaken) = settle(db, life.agent, changes, &mut progress)?;
    let moved = progress.finish()?;
    outgoing::dead_events(db, life.agent, n, &moved, changes.at)?;
    put_alerts(db, lease.agent, changes, &moved)?;
    life.inbox.waiting = life.inbox.waiting.saturating_sub(gone);
    life.inbox.taken = life.inbox.taken.saturating_sub(untaken);
    conclude(db, session, &mut life, lease, n, changes)?;
    runs::audit(db, life.agent, n, lease.epoch, changes)?;
    write(db, session, &life, changes)?;
    failpoint::hit!(changes.kind.points().0);
    let glance = read_glance(db, &life)?;
    let goes_on = changes.open.is_none() || (changes.answered.is_some() && life.inbox.hold_until.is_none());
    if let Some(at) = life.inbox.due_at.filter(|_| goes_on) {
        wake.push(Wakeup { agent: lease.agent, at, urgent: false });
    }
    let notifications = Notifications { messages, wake, progress: moved };
    Ok((CommitOutcome::Committed { n, glance }, notifications))
}

/// Keeps what operators should know of: what the cycle has raised, and events that failed for good.
fn put_alerts(db: &Connection, agent: AgentId, changes: &Changes, moved: &[EventMoved]) -> Outcome<()> {
    let raised =
        changes.alerts.iter().map(|raised| Alert::of_cycle(raised, agent, changes.cycle, changes.at));
    let dead = moved.iter().filter_map(|moved| Alert::of_event(moved, agent, changes.at));
    raised.chain(dead).try_for_each(|alert| alerts::put(db, &alert))
}

/// For a commit that was perhaps written before: the audit shows whether it was.
fn committed_before(
    db: &Connection,
    life: &Life,
    lease: Lease,
    changes: &Changes,
) -> Outcome<(CommitOutcome, Notifications)> {
    let n = changes.expect + 1;
    let sql = "SELECT epoch, cycle, step, kind FROM commits WHERE agent = ? AND n = ?";
    let row = first(db, sql, params![life.agent, int(n)], |row| {
        let (kind, cycle): (String, _) = (row.get(3)?, CycleId(uuid_at(row, 1)?));
        let (epoch, step, kind) = (u64_at(row, 0)?, u32_at(row, 2)?, CommitKind::try_from(&*kind).ok());
        Ok(kind.map(|kind| AuditRow { epoch, cycle, step, kind }))
    })?;
    let open = first(db, "SELECT open FROM life WHERE agent = ?", [life.agent], |row| open_at(row, 0))?;
    if !row.flatten().is_some_and(|row| was_written(row, open.flatten().as_ref(), lease, changes)) {
        return Err(Fault::Lost);
    }
    Ok((CommitOutcome::Committed { n, glance: read_glance(db, life)? }, Notifications::default()))
}

/// Posts the messages of the inward calls and of the visible calls, in the order of the calls, or refuses the
/// calls that may not post.
fn post_messages(
    db: &Connection,
    session: &Session,
    agent: AgentId,
    changes: &Changes,
) -> Outcome<(Vec<Message>, Vec<Wakeup>)> {
    let posts = fencing::posts(changes);
    let mut spaces = space_heads(db, fencing::spaces(&posts))?;
    let (mut messages, mut events, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    for post in posts {
        let message = post.message();
        let space = spaces.get_mut(&message.space);
        if matches!(post, Post::Call(_)) {
            messages.extend(show::show(db, space, message)?);
            continue;
        }
        let mine = message.sender == agent.entity();
        let denied = Denial::NotMember { entity: message.sender, space: message.space };
        match if mine { post_message(db, session, space, message) } else { Err(denied.into()) } {
            Ok(Posted::New(message, caused)) => {
                messages.push(message);
                events.extend(caused);
            }
            Ok(Posted::Duplicate(message)) => messages.push(message),
            Err(Fault::Denied(denial)) => refusals.push(fencing::refusal(message, &denial)),
            Err(other) => return Err(other),
        }
    }
    if refusals.is_empty() {
        Ok((messages, deliver_events(db, session, events)?))
    } else {
        Err(Fault::Refused(refusals))
    }
}

/// When a cycle is opened or taken over, marks its events as taken and stores their attempts.
fn take_events(
    db: &Connection,
    life: &mut Life,
    changes: &Changes,
    progress: &mut ProgressLog<'_>,
) -> Outcome<()> {
    if life.inbox.taken > 0 {
        give_back(db, life.agent)?;
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
            progress.set_taken(int(*seq), true)?;
        }
    }
    if fencing::is_outdated(changes.open.as_ref(), found) {
        return Err(Fault::Lost);
    }
    life.inbox.taken = u32::try_from(found).unwrap_or(u32::MAX);
    if failpoint::on!("drain-first") {
        run(db, "DELETE FROM waiting WHERE agent = ? AND taken = 1", [life.agent])?;
        life.inbox.waiting = life.inbox.waiting.saturating_sub(std::mem::take(&mut life.inbox.taken));
    }
    Ok(())
}

/// Writes the run and a retirement, and computes the counters and when the agent is due again.
fn conclude(
    db: &Connection,
    session: &Session,
    life: &mut Life,
    lease: Lease,
    n: u64,
    changes: &Changes,
) -> Outcome<()> {
    let row = fencing::life_after(&life.row, lease, changes);
    if let Some(record) = &changes.run {
        runs::put_run(db, life.agent, record)?;
        outgoing::run_ended(db, life.agent, record)?;
    }
    if changes.retire {
        run(db, "UPDATE agent SET standing = 2 WHERE id = ?", [life.agent])?;
        end_plans(db, life.agent, n)?;
        approvals::end_all(db, life.agent)?;
    }
    let now = session.now();
    let (mut inbox, mut due) = fencing::inbox_after(&life.inbox, &row, changes, now);
    if row.standing == Standing::Active && answered_meanwhile(db, life, changes)? {
        (inbox, due) = fencing::answered_meanwhile(inbox, changes, now);
    }
    if inbox.taken < life.inbox.taken {
        give_back(db, life.agent)?;
    }
    // Events that arrived after the last decision of a retired agent, or were given back by it.
    if fencing::closes(changes) && row.standing == Standing::Retired {
        inbox.waiting = inbox.waiting.saturating_sub(cancel_all(db, life.agent)?);
    }
    inbox.due_at = match due {
        DueFrom::Unchanged => inbox.due_at,
        DueFrom::Never => None,
        DueFrom::At(at) => Some(at),
        DueFrom::FirstWaiting => due_at(db, session.boot, life.agent, row.standing, inbox.hold_until, now)?,
    };
    (life.row, life.inbox) = (row, inbox);
    Ok(())
}

/// Whether somebody has answered a call since the writer of a commit that waits for answers has looked.
fn answered_meanwhile(db: &Connection, life: &Life, changes: &Changes) -> Outcome<bool> {
    let answered = |seen| Ok(calls::count_answered(db, life.agent, (changes.cycle, changes.step))? != seen);
    changes.answered.map_or(Ok(false), answered)
}

/// Reads what has changed for the agent meanwhile: counts and flags that are found by index.
fn read_glance(db: &Connection, life: &Life) -> Outcome<Glance> {
    let sql = "SELECT facts_rev FROM agent WHERE id = ?";
    let known = fencing::glance(&life.row, &life.inbox, life.newest);
    let step = life.row.open.zip(life.step);
    Ok(Glance {
        urgent: known.waiting > 0 && urgent::any(db, life.agent)?,
        detached: calls::count_detached(db, life.agent)?,
        answered: step.map_or(Ok(0), |step| calls::count_answered(db, life.agent, step))?,
        facts_rev: first(db, sql, [life.agent], |row| u64_at(row, 0))?.unwrap_or(0),
        ..known
    })
}

/// Reads the details behind a cycle's glance; `None` if the lease is lost.
pub(super) fn glance(db: &Connection, lease: Lease, known_facts: Option<u64>) -> Outcome<Option<News>> {
    let Some(life) = Life::read(db, lease.agent)?.filter(|life| life.row.epoch == lease.epoch) else {
        return Ok(None);
    };
    let glance = read_glance(db, &life)?;
    let (mut oldest, mut urgent) = (Vec::new(), Vec::new());
    if glance.waiting > 0 {
        oldest = waiting(db, life.agent, &Which::Others, limits::PEEK_MAX, &mut 0)?;
        if glance.urgent {
            urgent = waiting(db, life.agent, &Which::Urgent, limits::URGENT_MAX, &mut 0)?;
        }
    }
    let step = life.row.open.zip(life.step);
    let answered = step.map_or(Ok(Vec::new()), |step| calls::answered(db, life.agent, step))?;
    let granted = step.map_or(Ok(Vec::new()), |step| calls::granted(db, life.agent, step))?;
    let facts = match known_facts == Some(glance.facts_rev) {
        true => None,
        false => Some(facts(db, life.agent)?),
    };
    Ok(Some(News { glance, oldest, urgent, answered, granted, facts }))
}
