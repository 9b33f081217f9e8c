//! What persons answer: compare-and-set on the call row, so the first answer wins.

use agent::approval::{
    self, AnswerRefused, AnsweredBy, Answerer, ApprovalRule, ApprovalState, Lapse, OpenQuestion, Spoken,
};
use agent::changes::Notifications;
use agent::id::{AgentId, CallId, EntityId, MessageId};
use agent::life::Standing;
use agent::port::{
    ApprovalFilter, Approvals, AskedCall, BoxFuture, Lapsed, Page, PageRequest, PersonAnswer, PersonAnswered,
    RuleFilter, StoreError, Wakeup,
};
use agent::space::Message;
use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::calls;
use super::reader::page::{bounds, paged};
use crate::sqlite::engine::fault::{Outcome, damaged_agent};
use crate::sqlite::ports::quarantine::Access;
use crate::sqlite::ports::{Caller, Sqlite};
use crate::sqlite::tables::calls::{AgentCall, CALL, OF_AGENT, agent_call_at};
use crate::sqlite::tables::messages::space_heads;
use crate::sqlite::tables::rows::{agent_row, first, page_of, row_bytes, time};
use crate::sqlite::tables::session::Session;
use crate::sqlite::tables::{approval_rules, approvals, shift, show, waits};

impl Approvals for Sqlite {
    fn answer(&self, answer: PersonAnswer) -> BoxFuture<'_, Result<PersonAnswered, StoreError>> {
        let done = self.write(move |db, session| take_answer(db, session, &answer, None));
        Box::pin(async move { Ok(done.await?) })
    }

    fn lapse(&self, now: Timestamp, limit: u32) -> BoxFuture<'_, Result<Vec<Lapsed>, StoreError>> {
        let done = self.for_several(Access::Write, move |db, session| lapse(db, session, now, limit));
        Box::pin(async move { Ok(done.await?) })
    }

    fn next_lapse(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        let done = self.read(Caller::Agents, |db, _| {
            let at = first(db, approvals::NEXT_LAPSE, [], |row| Ok(row.get::<_, Option<i64>>(0)?))?.flatten();
            Ok(at.and_then(|at| time(at).ok()))
        });
        Box::pin(async move { Ok(done.await?) })
    }

    fn asked(&self, call: CallId) -> BoxFuture<'_, Result<Option<AskedCall>, StoreError>> {
        let done = self.read_inline(Caller::Api, move |db, _| approvals::asked(db, &call));
        Box::pin(async move { Ok(done.await?.map(known)) })
    }

    fn approvals(
        &self,
        filter: ApprovalFilter,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<AskedCall>, StoreError>> {
        let done = self.read(Caller::Api, move |db, _| list(db, &filter, &page));
        Box::pin(async move { Ok(done.await?) })
    }

    fn rules(
        &self,
        filter: RuleFilter,
        now: Timestamp,
        page: PageRequest,
    ) -> BoxFuture<'_, Result<Page<ApprovalRule>, StoreError>> {
        let done = self.read(Caller::Api, move |db, _| {
            let row = filter.agent.map(|agent| agent_row(db, agent.0)).transpose()?;
            match row {
                Some(None) => Ok(Page { items: Vec::new(), next: None }),
                row => rules(db, (row.flatten(), filter.person), now, &page),
            }
        });
        Box::pin(async move { Ok(done.await?) })
    }

    fn forget_rules(
        &self,
        agent: AgentId,
        tool: String,
        person: Option<EntityId>,
    ) -> BoxFuture<'_, Result<Vec<ApprovalRule>, StoreError>> {
        let done = self.write(move |db, _| match agent_row(db, agent.0)? {
            Some(row) => approval_rules::forget(db, row, &tool, person),
            None => Ok(Vec::new()),
        });
        Box::pin(async move { Ok(done.await?) })
    }
}

fn known(asked: AgentCall) -> AskedCall {
    AskedCall { agent: asked.agent, row: asked.row }
}

/// Answers the question that waits in the space of this new message, if the message is its answer.
pub(super) fn spoken(db: &Connection, session: &Session, message: &Message) -> Outcome<Notifications> {
    let open = approvals::questions_in(db, message.space)?;
    if open.is_empty() {
        return Ok(Notifications::default());
    }
    let Some((kind, alone)) = approvals::speaker(db, message.space, message.sender)? else {
        return Ok(Notifications::default());
    };
    let by = Answerer::Person(message.sender);
    let mut asked = Vec::with_capacity(open.len());
    for call in &open {
        let Some(approval) = call.row.approval.as_deref() else { continue };
        let may = approvals::answerer(db, call.agent_row, approval, by)?.is_some();
        asked.push(OpenQuestion { agent: call.agent.entity(), call: &call.row.id, approval, may });
    }
    let Message { sender, text, mentions, at, .. } = message;
    let spoken = Spoken { sender: *sender, kind, alone, text, mentions, at: *at };
    let Some((call, verdict)) = approval::answer_of(&spoken, &asked) else {
        return Ok(Notifications::default());
    };
    let answer = PersonAnswer { id: call.clone(), verdict, reason: None, by, at: *at, seen: None };
    match take_answer(db, session, &answer, Some(message.id))? {
        PersonAnswered::Taken(_, notifications) => Ok(notifications),
        PersonAnswered::Refused(_) | PersonAnswered::Unknown => Ok(Notifications::default()),
    }
}

fn take_answer(
    db: &Connection,
    session: &Session,
    answer: &PersonAnswer,
    message: Option<MessageId>,
) -> Outcome<PersonAnswered> {
    let Some(mut call) = approvals::asked(db, &answer.id)? else {
        return Ok(PersonAnswered::Unknown);
    };
    let refused = |why| Ok(PersonAnswered::Refused(why));
    if call.standing == Standing::Retired {
        return refused(AnswerRefused::Retired);
    }
    let Some(asked) = call.row.approval.as_deref() else { return refused(AnswerRefused::NotAsked) };
    let name = approvals::answerer(db, call.agent_row, asked, answer.by)?;
    let is_allowed = name.is_some();
    let by = AnsweredBy { who: answer.by, name: name.unwrap_or_default(), at: answer.at, message };
    let (verdict, reason, seen) = (&answer.verdict, answer.reason.as_deref(), answer.seen.as_deref());
    let answered = match approval::answered(call.row, verdict, reason, by, is_allowed, seen) {
        Ok(answered) => answered,
        Err(why) => return refused(why),
    };
    if let Some(remember) = answered.rule {
        let rule = approval::rule_of(call.agent, &answered.row, remember);
        if !rule.map_or(Ok(true), |rule| approval_rules::put(db, call.agent_row, &rule))? {
            return refused(AnswerRefused::Unfit(
                "the agent has too many rules; delete some first".to_owned(),
            ));
        }
    }
    failpoint::hit!("answer.before");
    call.row = answered.row;
    let granted = call.row.approval.as_ref().is_some_and(|asked| asked.state == ApprovalState::Granted);
    let notifications = if granted {
        granted_now(db, session, &call, answer.at)?
    } else {
        calls::end(db, session, &mut call, answer.at, false)?.1
    };
    Ok(PersonAnswered::Taken(Box::new(known(call)), notifications))
}

/// The call may run: in its cycle, if that waits for it, and else without it.
fn granted_now(
    db: &Connection,
    session: &Session,
    call: &AgentCall,
    at: Timestamp,
) -> Outcome<Notifications> {
    let AgentCall { agent_row, agent, standing, open, row, .. } = call;
    approvals::granted(db, row)?;
    let messages = show::update(db, row)?.into_iter().collect();
    let mut notifications = Notifications { messages, ..Notifications::default() };
    if row.awaited && *open == Some(row.cycle) {
        shift::settle(db, session, *agent_row)?;
        let at = at.min(session.now());
        if waits::answer(db, *agent_row, *standing, at)? {
            notifications.wake.push(Wakeup { agent: *agent, at, urgent: false });
        }
    }
    Ok(notifications)
}

fn lapse(db: &Connection, session: &Session, now: Timestamp, limit: u32) -> Outcome<Vec<Lapsed>> {
    let mut lapsed = Vec::new();
    for call in approvals::lapsed(db, now, limit)? {
        let Some(asked) = approvals::asked(db, &call)? else { continue };
        let agent = asked.agent;
        let one = lapse_one(db, session, asked, now).map_err(damaged_agent(agent))?;
        lapsed.extend(one);
    }
    Ok(lapsed)
}

fn lapse_one(
    db: &Connection,
    session: &Session,
    mut asked: AgentCall,
    now: Timestamp,
) -> Outcome<Option<Lapsed>> {
    let (agent, call) = (asked.agent, asked.row.id.clone());
    let Some(wanted) = asked.row.approval.as_mut() else { return Ok(None) };
    if let Lapse::Ends(state, outcome) = approval::lapse(wanted, now) {
        wanted.state = state;
        asked.row.outcome = Some(outcome);
        let (_, notifications) = calls::end(db, session, &mut asked, now, false)?;
        return Ok(Some(Lapsed { agent, call, expired: true, notifications }));
    }
    wanted.reminded = true;
    // The rest of its time, whatever the clock says.
    let rest = wanted.expires_at.duration_since(wanted.remind_at);
    let (space, next_at) = (wanted.space, now.checked_add(rest).unwrap_or(wanted.expires_at));
    approvals::reminded(db, &asked.row, next_at)?;
    let mut messages = Vec::new();
    if let Some(space) = space {
        let mut heads = space_heads(db, [space].into())?;
        let reminder = approvals::reminder(&asked, space, now);
        messages.extend(show::show(db, heads.get_mut(&space), &reminder)?);
    }
    let notifications =
        Notifications { messages: show::with_sender(db, messages)?, ..Notifications::default() };
    Ok(Some(Lapsed { agent, call, expired: false, notifications }))
}

fn rules(
    db: &Connection,
    whose: (Option<i64>, Option<EntityId>),
    now: Timestamp,
    page: &PageRequest,
) -> Outcome<Page<ApprovalRule>> {
    let after = page.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let found = approval_rules::list(db, whose, now, after, bounds(page.limit))?;
    let Page { items, next } = paged(found, |(_, n)| n.to_string());
    Ok(Page { items: items.into_iter().map(|(rule, _)| rule).collect(), next })
}

/// Calls that wait for people, the newest first, found by index if only those that wait are wanted.
fn list(db: &Connection, filter: &ApprovalFilter, page: &PageRequest) -> Outcome<Page<AskedCall>> {
    let ApprovalFilter { agent, space, member, all } = *filter;
    let row = agent.map(|agent| agent_row(db, agent.0)).transpose()?;
    if row == Some(None) {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let bounds = bounds(page.limit);
    let before = page.cursor.as_deref().and_then(|cursor| cursor.parse::<i64>().ok()).unwrap_or(i64::MAX);
    let wanted = if all { "" } else { "AND (c.ask_at IS NOT NULL) = 1" };
    let sql = format!(
        "SELECT {}, {CALL}, c.rowid FROM call c WHERE c.approval IS NOT NULL {wanted} \
         AND c.rowid < ?1 AND (?2 IS NULL OR c.agent = ?2) AND (?3 IS NULL OR c.approval ->> '$.space' = ?3) \
         AND (?5 IS NULL OR c.approval ->> '$.space' IN (SELECT value FROM json_each(?5)) \
         OR c.approval ->> '$.question' = 0 AND EXISTS (SELECT 1 FROM agent a JOIN config_rev f ON f.agent = a.id \
         AND f.rev = a.config_rev, json_each(iif(json_valid(f.config), f.config, '{{}}'), '$.approvers') \
         WHERE a.id = c.agent AND ltrim(trim(value), '@') = ?6 COLLATE NOCASE)) \
         ORDER BY c.rowid DESC LIMIT ?4",
        OF_AGENT
    );
    let space = space.map(|space| space.to_string());
    let spaces = member.map(|member| approvals::spaces_of(db, member)).transpose()?;
    let handle = member.map(|member| approvals::handle_of(db, member)).transpose()?.flatten();
    let given = params![before, row.flatten(), space, bounds.0 + 1, spaces, handle];
    let found = page_of(db, &sql, given, bounds, row_bytes, |row| {
        let asked = agent_call_at(row)?;
        Ok((asked, row.get::<_, i64>("rowid")?))
    })?;
    let Page { items, next } = paged(found, |(_, rowid)| rowid.to_string());
    Ok(Page { items: items.into_iter().map(|(asked, _)| known(asked)).collect(), next })
}
