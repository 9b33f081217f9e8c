//! Which calls of a decision wait for a person, and the pause of a cycle all of whose open calls do.

use jiff::Timestamp;

use super::acting::Acting;
use super::decide::PlannedCall;
use super::{After, At, Cycle, Next, Step};
use crate::approval::{Approval, AskKind, ByRule, Patience, PersonQuestion, RequestedBy, hash_of};
use crate::call::{CallRow, CallState, Effect, Outcome, OutcomeStatus, head_and_tail};
use crate::changes::Refusal;
use crate::delivery;
use crate::entity::EntityKind;
use crate::event::Principal;
use crate::guard::{Exposure, GuardVerdict, WayOut};
use crate::id::{EntityId, SpaceId};
use crate::life::IdleReason;
use crate::limits;
use crate::port::ReplyPart;
use crate::quote;
use crate::tool::{ToolSpec, is_named, names};

/// What a call waits for.
pub(super) struct Asked {
    pub(super) approval: Box<Approval>,
    /// Whether the cycle does not wait with it.
    pub(super) deferred: bool,
}

/// Whether a call waits for a person.
pub(super) enum ApprovalNeed {
    /// It needs no approval.
    None,
    /// A rule has approved it.
    Ruled(ByRule),
    /// It waits.
    Asked(Asked),
}

/// Where a call comes from: the step and the reply in which a model made it.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) step: &'a Step,
    pub(super) reply: &'a [ReplyPart],
}

impl Source<'_> {
    /// What the model wrote beside its calls.
    fn said(self) -> Option<String> {
        let texts = self.reply.iter().filter_map(|part| match part {
            ReplyPart::Text(text) => Some(text.trim()),
            ReplyPart::Reasoning(_) | ReplyPart::Call { .. } => None,
        });
        let said = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        (!said.is_empty()).then(|| head_and_tail(&said, limits::APPROVAL_SAID_MAX_BYTES))
    }
}

impl ApprovalNeed {
    pub(super) fn parts(self) -> (Option<Asked>, Option<ByRule>) {
        match self {
            Self::None => (None, None),
            Self::Ruled(by_rule) => (None, Some(by_rule)),
            Self::Asked(asked) => (Some(asked), None),
        }
    }
}

impl Cycle {
    /// Whether a call waits for a person; the error is for the model.
    pub(super) fn approval_need(
        &self,
        spec: &ToolSpec,
        arguments: &str,
        risk: (Exposure, WayOut),
        source: Source<'_>,
        now: Timestamp,
    ) -> Result<ApprovalNeed, String> {
        let mut need = self.approval_alone(spec, arguments, risk, now)?;
        if let ApprovalNeed::Asked(asked) = &mut need {
            asked.approval.requested_by = self.requested_by(source.step, asked.approval.space);
            asked.approval.said = source.said();
        }
        Ok(need)
    }

    fn approval_alone(
        &self,
        spec: &ToolSpec,
        arguments: &str,
        (exposure, way_out): (Exposure, WayOut),
        now: Timestamp,
    ) -> Result<ApprovalNeed, String> {
        let hash = hash_of(&spec.name, &spec.version, arguments);
        if spec.name == names::ASK_PERSON {
            return self.question(arguments, hash, now).map(ApprovalNeed::Asked);
        }
        let config = &self.pinned.config;
        let by_guard = match exposure.verdict(config.guard, spec, way_out) {
            GuardVerdict::Refused(why) => return Err(why),
            GuardVerdict::Asks(why) => Some(why),
            GuardVerdict::Free => None,
        };
        let reaches_out = spec.effect != Effect::Inward;
        let by_config = reaches_out && config.approve.iter().any(|pattern| is_named(pattern, &spec.name));
        let Some(why) = by_guard.or_else(|| by_config.then(|| "the agent's config wants it".to_owned()))
        else {
            return Ok(ApprovalNeed::None);
        };
        let (tainted, space) = (exposure.is_tainted(), self.space_to_ask_in());
        let by_rule = ByRule { tainted, space };
        if self.pinned.rules.iter().any(|rule| rule.covers(&spec.name, &spec.version, &by_rule, now)) {
            return Ok(ApprovalNeed::Ruled(by_rule));
        }
        let most = limits::APPROVAL_ARGUMENTS_MAX_BYTES;
        if quote::visible_arguments(arguments).len() > most {
            return Err(format!(
                "not run: a person must read the arguments of this call before it runs, and they may have {most} bytes at \
                 most; make several smaller calls"
            ));
        }
        let patience = Patience { pause_ms: config.limits.pause, expires_ms: limits::APPROVAL_MS };
        let approval = Approval {
            tainted,
            space,
            approvers: config.approvers.clone(),
            ..Approval::wanted(AskKind::Approval, why, hash, patience, now)
        };
        Ok(ApprovalNeed::Asked(Asked { approval: Box::new(approval), deferred: spec.asynchronous }))
    }

    /// The store has refused these calls because no rule approves them any more: a person is asked. Returns whether there are
    /// any.
    pub(super) fn ask_after_all(
        &mut self,
        source: Source<'_>,
        calls: &mut [PlannedCall],
        refusals: &[Refusal],
        now: Timestamp,
    ) -> bool {
        let mut any = false;
        let step = source.step;
        let exposure = self.exposure(step);
        for call in calls {
            let row = &mut call.row;
            let Some(spec) = self.pinned.setup.tools.iter().find(|tool| tool.name == row.tool).cloned()
            else {
                continue;
            };
            if row.by_rule.is_some() && refusals.iter().any(|refusal| refusal.call == row.id) {
                any = true;
                self.pinned.rules.retain(|rule| rule.tool != row.tool);
                let way_out = self.way_out(step, &spec, &row.arguments, self.life.active_space);
                match self.approval_need(&spec, &row.arguments, (exposure, way_out), source, now) {
                    Ok(need) => {
                        let (asked, by_rule) = need.parts();
                        (row.approval, row.by_rule) = (asked.map(|asked| asked.approval), by_rule);
                    }
                    Err(why) => {
                        let outcome = Outcome::of_runtime(OutcomeStatus::Error, why);
                        (row.by_rule, row.awaited, row.state) = (None, true, CallState::Done);
                        row.outcome = Some(outcome);
                    }
                }
            }
        }
        any
    }

    fn question(&self, arguments: &str, hash: String, now: Timestamp) -> Result<Asked, String> {
        let question = PersonQuestion::read(arguments)?;
        let facts = &self.outside.facts;
        let space = match &question.space {
            Some(named) => {
                let found = facts.find_space(named).map(|found| found.space.id);
                Some(found.ok_or_else(|| format!("`space`: you are in no space {}", quote::quoted(named)))?)
            }
            None => self.space_to_ask_in(),
        };
        let people = self.people_named(&question.people, space)?;
        let patience =
            Patience { pause_ms: self.pinned.config.limits.pause, expires_ms: question.expires_ms() };
        let deferred = question.is_deferred();
        let approval = Approval {
            question: true,
            options: question.options,
            schema: question.schema,
            space,
            people,
            ..Approval::wanted(question.kind, question.question, hash, patience, now)
        };
        Ok(Asked { approval: Box::new(approval), deferred })
    }

    /// The ids of these people of a space.
    fn people_named(&self, named: &[String], space: Option<SpaceId>) -> Result<Vec<EntityId>, String> {
        let facts = space.and_then(|space| self.outside.facts.space(space));
        let members = facts.map_or(&[][..], |facts| &facts.members);
        let find = |name: &String| {
            let handle = name.trim().trim_start_matches('@');
            let mut people = members.iter().map(|member| &member.entity);
            let found =
                people.find(|one| one.kind == EntityKind::Human && one.name.eq_ignore_ascii_case(handle));
            found.map(|one| one.id).ok_or_else(|| {
                format!(
                    "`people`: the space has no person {}; give handles of its members",
                    quote::quoted(name)
                )
            })
        };
        named.iter().map(find).collect()
    }

    /// Where the cycle is active: the space to which it posts, or from which it was asked.
    fn space_to_ask_in(&self) -> Option<SpaceId> {
        let asked_from = || self.open.requesters.iter().find_map(|requester| requester.space);
        self.outside.facts.default_space(self.life.active_space).or_else(asked_from)
    }

    /// Detaches the calls that the cycle does not wait with any longer: those whose pause is over, and all that are left of the
    /// step as soon as another event wants the agent. What they wait for may take hours, and nobody else is to wait for it.
    pub(super) fn end_pauses(&mut self, acting: &mut Acting, now: Timestamp) {
        let wanted =
            self.outside.is_wanted() && self.outside.park.is_none() && acting.waits_only_for_people();
        let waits = acting.calls.iter().filter(|row| acting.waits(row));
        let ended = waits.filter_map(|row| {
            let asked = row.approval.as_ref()?;
            let over = wanted || !row.awaited || asked.is_pause_over(now);
            over.then(|| (row.id.clone(), row.awaited, self.who_may_answer(asked)))
        });
        for (call, awaited, whom) in ended.collect::<Vec<_>>() {
            // Those that were not awaited from the start are counted already.
            let room = !awaited || self.outside.detached < limits::DETACHED_PER_AGENT;
            let outcome = if room { Outcome::unanswered(&call, &whom) } else { nobody_answered() };
            self.outside.detached += usize::from(room && awaited);
            acting.arrived.push((call, outcome));
        }
    }

    /// Who may answer, in words for the agent, which tells it to whoever waits for it.
    fn who_may_answer(&self, asked: &Approval) -> String {
        let facts = asked.space.and_then(|space| self.outside.facts.space(space));
        let members = || facts.into_iter().flat_map(|facts| &facts.members).map(|member| &member.entity);
        let people = members().filter(|one| asked.people.contains(&one.id)).map(|one| one.name.as_str());
        let named: Vec<&str> = people.chain(asked.approvers.iter().map(String::as_str)).collect();
        match (named.is_empty(), facts) {
            (false, _) => quote::visible_line(&named.join(", ")),
            (true, Some(facts)) => format!("whoever is in the space {}", facts.space.name),
            (true, None) => "an operator".to_owned(),
        }
    }

    /// Who caused the calls of this step: the senders of what its cycle works on. In a space only its members are named.
    fn requested_by(&self, step: &Step, space: Option<SpaceId>) -> Vec<RequestedBy> {
        let shown = step.injected.iter().map(|waiting| delivery::requester(&waiting.event));
        let mut principals: Vec<Principal> = Vec::new();
        for requester in self.open.requesters.iter().cloned().chain(shown) {
            if !principals.contains(&requester.principal) {
                principals.push(requester.principal);
            }
        }
        let alone = principals.len() == 1;
        principals.truncate(limits::APPROVAL_REQUESTERS_MAX);
        let spaces = self
            .outside
            .facts
            .spaces
            .iter()
            .filter(|facts| space.is_none_or(|space| facts.space.id == space));
        let members = || spaces.clone().flat_map(|facts| &facts.members).map(|member| &member.entity);
        let named = |principal: Principal| {
            let name = match &principal {
                Principal::Entity(id) => {
                    members().find(|one| one.id == *id).map_or("somebody elsewhere", |one| one.name.as_str())
                }
                Principal::Webhook(hook) => hook.as_str(),
                Principal::Credential(_) | Principal::Own if alone => self.open.woke_for.as_str(),
                Principal::Credential(_) => "a service",
                Principal::Own => "an event of its own",
            };
            RequestedBy::new(principal.clone(), name)
        };
        principals.into_iter().map(named).collect()
    }

    /// Parks the cycle until a person answers, if nothing else of its step is left to do.
    pub(super) fn paused(&mut self, acting: Acting, now: Timestamp) -> Result<Next, Acting> {
        let open = || acting.calls.iter().filter(|row| row.outcome.is_none());
        let ends = open().map(|row| row.approval.as_ref().filter(|approval| approval.is_wanted()));
        let ends: Option<Vec<Timestamp>> = ends.map(|approval| Some(approval?.detach_at)).collect();
        let first = ends.and_then(|ends| ends.into_iter().min());
        let Some(until) = first.filter(|_| acting.running.is_empty() && acting.arrived.is_empty()) else {
            return Err(acting);
        };
        let idle = Self::idle_until(until, IdleReason::Person);
        let at = At::Acting(acting);
        let (mut changes, end) = self.give_up(&at, idle, "it waits for a person's answer", false, now);
        changes.answered = Some(self.outside.answered());
        Ok(self.commit(changes, After::Finished(end, at)))
    }
}

impl Acting {
    /// Whether nothing of the step is left but calls that wait for people.
    fn waits_only_for_people(&self) -> bool {
        let mut open = self.calls.iter().filter(|row| row.outcome.is_none());
        self.running.is_empty() && self.arrived.is_empty() && open.all(CallRow::waits_for_person)
    }

    /// Whether the call waits for a person.
    pub(super) fn waits(&self, row: &CallRow) -> bool {
        let arrived = self.arrived.iter().any(|(call, _)| *call == row.id);
        row.outcome.is_none() && row.waits_for_person() && !arrived
    }

    /// A person has approved these calls: they run as they are now. Those that the cycle has given up waiting for run without
    /// it.
    pub(super) fn granted(&mut self, rows: Vec<CallRow>) {
        for granted in rows {
            let waits = |row: &&mut CallRow| row.id == granted.id && row.waits_for_person();
            let Some(row) = self.calls.iter_mut().find(waits) else { continue };
            if row.state == CallState::Planned {
                self.arrived.retain(|(arrived, _)| *arrived != granted.id);
                *row = granted;
            }
        }
    }
}

fn nobody_answered() -> Outcome {
    let text = format!(
        "not run: nobody has answered, and {} of your calls are pending already. Nothing of it was done.",
        limits::DETACHED_PER_AGENT
    );
    Outcome::of_runtime(OutcomeStatus::Canceled, text)
}
