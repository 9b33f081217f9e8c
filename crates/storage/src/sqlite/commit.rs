//! The one write path of a life: fenced by epoch, idempotent by `expect`, all or nothing. What may
//! be said is checked here, in the same transaction; the parts are written by `apply`, `notes` and
//! `say`.

use agent::changes::{Changes, CommitKind, CommitOutcome, Echo, Glance, Refusal};
use agent::event::{Fate, Principal};
use agent::id::{AgentId, CallId, SpaceId};
use agent::life::{Lease, OpenCycle, RestReason, Standing};
use agent::limits;
use agent::port::{Denial, Waken};
use agent::run::Usage;
use agent::space::Message;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::Session;
use super::due::due_at;
use super::events::{Which, waiting};
use super::facts::facts;
use super::fault::{Fault, Outcome};
use super::rows::{
    REASONS, bytes, first, from_json, int, ms, place_of, reason_or_none, run, space_row, standing_at, time,
    to_json, u32_at, u64_at, usage_at, usage_columns, uuid_at, uuid_or_none,
};
use super::say::{Spoken, say};
use super::stages::Stages;
use super::{apply, calls, notes, show, urgent};

/// The rows of one life, as far as a commit reads and writes them.
struct Life {
    agent: i64,
    epoch: u64,
    commit_n: u64,
    head_seq: u64,
    cycles: u64,
    skips: u64,
    facts_seen: i64,
    batch_cap: Option<u32>,
    failures: u32,
    usage: Usage,
    open_cycle: Option<Uuid>,
    notice: Option<String>,
    standing: Standing,
    facts_rev: i64,
    waiting: u32,
    taken: u32,
    due_at: Option<i64>,
    hold_until: Option<i64>,
    rest_reason: Option<RestReason>,
    cancel: Option<Uuid>,
}

const LIFE: &str = "SELECT l.agent, l.epoch, l.commit_n, l.head_seq, l.cycles, l.skips, l.facts_seen, l.batch_cap, \
    l.failures, l.usage_input, l.usage_cached, l.usage_output, l.usage_reasoning, l.open_cycle, l.notice, \
    a.standing, a.facts_rev, h.waiting, h.taken, h.due_at, h.hold_until, h.rest_reason, h.cancel \
    FROM entity e JOIN life l ON l.agent = e.id JOIN agent a ON a.id = e.id JOIN inbox_head h ON h.agent = e.id \
    WHERE e.uuid = ?";

impl Life {
    fn read(db: &Connection, agent: AgentId) -> Outcome<Option<Self>> {
        first(db, LIFE, [bytes(agent.0)], Self::at)
    }

    fn at(row: &Row<'_>) -> Outcome<Self> {
        Ok(Self {
            agent: row.get(0)?,
            epoch: u64_at(row, 1)?,
            commit_n: u64_at(row, 2)?,
            head_seq: u64_at(row, 3)?,
            cycles: u64_at(row, 4)?,
            skips: u64_at(row, 5)?,
            facts_seen: row.get(6)?,
            batch_cap: row.get(7)?,
            failures: u32_at(row, 8)?,
            usage: usage_at(row, 9)?,
            open_cycle: uuid_or_none(row, 13)?,
            notice: row.get(14)?,
            standing: standing_at(row, 15)?,
            facts_rev: row.get(16)?,
            waiting: u32_at(row, 17)?,
            taken: u32_at(row, 18)?,
            due_at: row.get(19)?,
            hold_until: row.get(20)?,
            rest_reason: reason_or_none(row, 21)?,
            cancel: uuid_or_none(row, 22)?,
        })
    }
}

/// Writes all of `changes` or nothing.
pub(super) fn commit(
    db: &Connection,
    session: &Session,
    lease: Lease,
    changes: &Changes,
) -> Outcome<CommitOutcome> {
    let Some(mut life) = Life::read(db, lease.agent)? else { return Err(Fault::Lost) };
    if !may(&life, lease, changes) {
        return done_before(db, &life, lease, changes);
    }
    let canceled = life.cancel == Some(changes.cycle.0);
    if canceled && matches!(changes.kind, CommitKind::Decide | CommitKind::Start | CommitKind::Show) {
        return Err(Fault::Canceled);
    }
    if changes.barrier && barred(db, &life, changes)? {
        return Err(Fault::Barred);
    }
    calls::unanswered(db, life.agent, &changes.call_changes)?;
    let n = life.commit_n + 1;
    let (mut said, mut wake) = speak(db, session, lease.agent, changes)?;
    let noted = notes::write(db, life.agent, n, changes.at, &changes.inward, &changes.calls)?;
    life.head_seq = apply::entries(db, life.agent, life.head_seq, &changes.entries)?;
    apply::calls(db, life.agent, changes)?;
    apply::call_changes(db, life.agent, &changes.call_changes)?;
    said.extend(show::updates(db, &changes.call_changes)?);
    apply::layers(db, &changes.layers)?;
    if let Some(view) = &changes.view {
        apply::view(db, life.agent, n, view)?;
    }
    let mut stages = Stages::before(db, life.agent, changes)?;
    match changes.kind {
        CommitKind::Open => open(db, &mut life, changes, &mut stages)?,
        CommitKind::Show => name(db, &mut life, changes)?,
        _ => {}
    }
    let (gone, untaken) = apply::settle(db, life.agent, changes, &mut stages)?;
    let stages = stages.after()?;
    life.waiting = life.waiting.saturating_sub(gone);
    life.taken = life.taken.saturating_sub(untaken);
    rest(db, &mut life, n, changes)?;
    apply::audit(db, life.agent, n, lease.epoch, changes)?;
    let seen = !noted && life.facts_rev == life.facts_seen;
    life.facts_seen = life.facts_rev;
    write(db, &life, lease, n, changes)?;
    failpoint::hit!(match changes.kind {
        CommitKind::Open => "open.before",
        CommitKind::Decide => "decide.before",
        CommitKind::Start => "start.before",
        CommitKind::Settle => "settle.before",
        CommitKind::Close => "close.before",
        CommitKind::Park => "park.before",
        CommitKind::View => "view.before",
        CommitKind::Show => "show.before",
    });
    let facts = if seen || changes.open.is_none() { None } else { Some(Box::new(facts(db, life.agent)?)) };
    let glance = Glance { facts, ..look(db, &life, changes.cycle.0)? };
    if let Some(due) = life.due_at.filter(|_| changes.open.is_none()) {
        wake.push(Waken { agent: lease.agent, at: time(due)?, urgent: false });
    }
    let echo = Echo { said: show::spoken(db, said)?, wake, stages };
    Ok(CommitOutcome::Committed { n, glance, echo })
}

/// Whether the lease may write: it holds the epoch (or makes the next one), nothing was committed
/// that it does not know, and it speaks of the cycle that is open.
fn may(life: &Life, lease: Lease, changes: &Changes) -> bool {
    if life.commit_n != changes.expect {
        return false;
    }
    match changes.kind {
        // Who may not live may still hear that its cycle is canceled.
        CommitKind::Open => {
            let may_live = life.standing == Standing::Active || life.cancel.is_some();
            lease.epoch == life.epoch + 1 && may_live
        }
        CommitKind::View => lease.epoch == life.epoch,
        _ => lease.epoch == life.epoch && life.open_cycle == Some(changes.cycle.0),
    }
}

/// Whether someone whose event the open cycle lives has said something urgent that it has not taken.
fn barred(db: &Connection, life: &Life, changes: &Changes) -> Outcome<bool> {
    if life.waiting <= life.taken || !urgent::waits(db, life.agent)? {
        return Ok(false);
    }
    let requesters = changes.open.as_ref().map_or(&[][..], |open| &open.requesters);
    let speakers: Vec<&Principal> = requesters.iter().map(|requester| &requester.principal).collect();
    urgent::waits_of(db, life.agent, &speakers)
}

/// A commit that the writer cannot tell from lost: the audit decides whether it was done.
fn done_before(db: &Connection, life: &Life, lease: Lease, changes: &Changes) -> Outcome<CommitOutcome> {
    let n = changes.expect + 1;
    if life.epoch != lease.epoch || life.commit_n != n {
        return Err(Fault::Lost);
    }
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
    let glance = look(db, life, changes.cycle.0)?;
    Ok(CommitOutcome::Committed { n, glance, echo: Echo::default() })
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

/// A cycle begins or is taken over: its events are marked and each attempt is counted.
fn open(db: &Connection, life: &mut Life, changes: &Changes, stages: &mut Stages<'_>) -> Outcome<()> {
    if life.taken > 0 {
        let sql = "UPDATE waiting SET taken = 0 WHERE agent = ? AND taken = 1";
        run(db, sql, [life.agent])?;
    }
    let taken = changes.open.as_ref().map_or(&[][..], |open| &open.taken);
    let mut found = 0;
    for seq in taken {
        let sql = "UPDATE waiting SET taken = 1, attempts = attempts + 1 WHERE agent = ? AND seq = ?";
        if run(db, sql, params![life.agent, int(*seq)])? == 1 {
            found += 1;
            stages.waits(int(*seq), true)?;
        }
    }
    // Between waking and opening one of them was taken back: the waking is out of date.
    let lived = changes.open.as_ref().is_some_and(|open| open.lived);
    if !lived && found < taken.len() {
        return Err(Fault::Lost);
    }
    life.taken = u32::try_from(found).unwrap_or(u32::MAX);
    if failpoint::on!("drain-first") {
        run(db, "DELETE FROM waiting WHERE agent = ? AND taken = 1", [life.agent])?;
        life.waiting = life.waiting.saturating_sub(std::mem::take(&mut life.taken));
    }
    name(db, life, changes)?;
    life.epoch += 1;
    life.cancel = life.cancel.filter(|cycle| *cycle == changes.cycle.0);
    life.due_at = Some(life.due_at.unwrap_or(i64::MAX).min(ms(changes.at)));
    Ok(())
}

/// The open cycle shows events besides those that it took: from now on they are its own. It has no others
/// that wait, but for those it took and has not lived.
fn name(db: &Connection, life: &mut Life, changes: &Changes) -> Outcome<()> {
    let shown = changes.open.as_ref().map_or(&[][..], |open| &open.shown);
    let mut gone = Vec::new();
    for seq in shown {
        let sql = "SELECT taken FROM waiting WHERE agent = ? AND seq = ?";
        let taken = first(db, sql, params![life.agent, int(*seq)], |row| Ok(row.get::<_, bool>(0)?))?;
        match taken {
            Some(true) => {}
            Some(false) => {
                let sql = "UPDATE waiting SET taken = 1 WHERE agent = ? AND seq = ?";
                life.taken += u32::try_from(run(db, sql, params![life.agent, int(*seq)])?).unwrap_or(0);
            }
            None => gone.push(*seq),
        }
    }
    if gone.is_empty() { Ok(()) } else { Err(Fault::Gone(gone)) }
}

/// What a commit means for the agent's rest: receipt, counters, when it is due again.
fn rest(db: &Connection, life: &mut Life, n: u64, changes: &Changes) -> Outcome<()> {
    life.usage.add(&changes.usage);
    changes.run.iter().for_each(|receipt| life.usage.add(&receipt.usage));
    life.batch_cap = changes.batch_cap.unwrap_or(life.batch_cap);
    life.failures = changes.failures.unwrap_or(life.failures);
    life.notice = changes.notice.clone().unwrap_or(life.notice.take());
    if let Some(receipt) = &changes.run {
        apply::receipt(db, life.agent, receipt)?;
        life.cycles = receipt.ordinal;
    } else if changes.settle.iter().any(|settlement| matches!(settlement.fate, Fate::Skipped { .. })) {
        life.skips += u64::from(changes.open.is_none());
    }
    if changes.retire {
        run(db, "UPDATE agent SET standing = 2 WHERE id = ?", [life.agent])?;
        notes::end_plans(db, life.agent, n)?;
        life.standing = Standing::Retired;
    }
    // Closing may be merged with a decision or a settlement; a view is about the log, not the rest.
    let closes = changes.open.is_none() && changes.kind != CommitKind::View;
    let rests = closes || changes.kind == CommitKind::Park || changes.rest.is_some();
    if rests || changes.kind == CommitKind::Open {
        life.hold_until = changes.rest.as_ref().and_then(|rest| rest.not_before).map(ms);
        life.rest_reason = changes.rest.as_ref().and_then(|rest| rest.reason);
    }
    if (closes || changes.kind == CommitKind::Park) && life.taken > 0 {
        run(db, "UPDATE waiting SET taken = 0 WHERE agent = ? AND taken = 1", [life.agent])?;
        life.taken = 0;
    }
    if closes {
        life.cancel = None;
        // What came between its last decision and its end, or was given back with it.
        if life.standing == Standing::Retired {
            life.waiting = life.waiting.saturating_sub(super::registry_events::retire(db, life.agent)?);
        }
    }
    if rests {
        let open_since = changes.open.as_ref().map(|_| ms(changes.at));
        life.due_at = match (open_since, life.waiting) {
            (None, 0) => None,
            _ => due_at(db, life.agent, life.standing, open_since, life.hold_until)?,
        };
    }
    Ok(())
}

fn write(db: &Connection, life: &Life, lease: Lease, n: u64, changes: &Changes) -> Outcome<()> {
    let open = changes.open.as_ref();
    let [input, cached, output, reasoning] = usage_columns(&life.usage);
    let cost = changes.run.as_ref().and_then(|receipt| receipt.cost_micros).map(int);
    let unpriced = changes.run.is_some() && cost.is_none();
    let active = changes.inward.active_space.map(|space| space_row(db, space)).transpose()?.flatten();
    let sql = "UPDATE life SET epoch = ?, commit_n = ?, head_seq = ?, cycles = ?, skips = ?, facts_seen = ?, \
               active_space = coalesce(?, active_space), batch_cap = ?, failures = ?, usage_input = ?, \
               usage_cached = ?, usage_output = ?, usage_reasoning = ?, \
               cost_micros = coalesce(cost_micros + ?, ?, cost_micros), unpriced = unpriced + ?, open_cycle = ?, \
               requesters = ?, notice = ?, open = ? WHERE agent = ?";
    let row = params![
        int(lease.epoch),
        int(n),
        int(life.head_seq),
        int(life.cycles),
        int(life.skips),
        life.facts_seen,
        active,
        life.batch_cap,
        life.failures,
        input,
        cached,
        output,
        reasoning,
        cost,
        cost,
        unpriced,
        open.map(|open| bytes(open.id.0)),
        open.map(|open| to_json(&open.requesters)).transpose()?,
        life.notice,
        open.map(to_json).transpose()?,
        life.agent,
    ];
    run(db, sql, row)?;
    let sql = "UPDATE inbox_head SET waiting = ?, taken = ?, due_at = ?, hold_until = ?, rest_reason = ?, \
               cancel = ? WHERE agent = ?";
    let reason = life.rest_reason.map(|reason| place_of(&REASONS, &reason));
    let cancel = life.cancel.map(bytes);
    run(db, sql, params![life.waiting, life.taken, life.due_at, life.hold_until, reason, cancel, life.agent])
        .map(drop)
}

/// What the world did meanwhile, but for the facts.
fn look(db: &Connection, life: &Life, cycle: Uuid) -> Outcome<Glance> {
    let count = life.waiting.saturating_sub(life.taken);
    let (mut preview, mut urgent) = (Vec::new(), Vec::new());
    if count > 0 {
        preview = waiting(db, life.agent, &Which::Others, limits::PEEK_MAX)?;
        if urgent::waits(db, life.agent)? {
            urgent = waiting(db, life.agent, &Which::Urgent, limits::URGENT_MAX)?;
        }
    }
    Ok(Glance {
        waiting: count,
        preview,
        urgent,
        cancel: life.cancel == Some(cycle),
        suspended: life.standing != Standing::Active,
        detached: calls::count_detached(db, life.agent)?,
        answered: calls::answered(db, life.agent, cycle)?,
        facts: None,
    })
}

/// The glance of a cycle that commits nothing now; `None` where the lease is lost.
pub(super) fn glance(db: &Connection, lease: Lease) -> Outcome<Option<Glance>> {
    let Some(life) = Life::read(db, lease.agent)?.filter(|life| life.epoch == lease.epoch) else {
        return Ok(None);
    };
    let facts = if life.facts_rev == life.facts_seen { None } else { Some(Box::new(facts(db, life.agent)?)) };
    let cycle = life.open_cycle.unwrap_or(Uuid::nil());
    Ok(Some(Glance { facts, ..look(db, &life, cycle)? }))
}
