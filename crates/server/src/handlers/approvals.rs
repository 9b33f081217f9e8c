//! Calls that wait for people: list them, answer one, and the rules that spare further questions.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use agent::approval::{AnswerRefused, Answerer, PersonVerdict, Remember};
use agent::approver::has_approver;
use agent::entity::EntityKind;
use agent::guard;
use agent::id::{AgentId, CallId, EntityId};
use agent::port::{AgentTools, ApprovalFilter, AskedCall, Page, PersonAnswer, RuleFilter, Scope, Toolset};
use axum::Json;
use axum::extract::State;
use runtime::approvals::AnswerError;

use super::agents::find_agent;
use super::denied::wanted;
use super::entities::find_entity;
use super::spaces::find_space;
use crate::app_state::{AppState, SharedState};
use crate::auth::{Caller, membership};
use crate::extract::{Exact, Named, PathParam, Query, Sent, run_to_completion};
use crate::listing::{List, Listed};
use crate::once::{Change, Done};
use crate::problem::{Code, Problem, WriteResponse};
use api::{
    ApprovalJson, ApprovalLinkQuery, ApprovalQuery, ApprovalRuleJson, CallAnswerJson, PageJson, RuleQuery,
};

const WAITING: &str = "`GET /v1/approvals` lists the calls that wait for a person";
const ANSWERED: &str =
    "`GET /v1/approvals/CALL` shows what became of it; `GET /v1/approvals` lists what still waits";
const UNFIT: &str = "`GET /v1/approvals/CALL` shows what is asked and how to answer";

/// Lists calls that wait for people, the newest first. With a person's key: those in the spaces of that person.
#[utoipa::path(get, path = "/v1/approvals", tag = "approvals", params(ApprovalQuery),
    responses((status = 200, description = "A page of calls that wait for people.", body = PageJson<ApprovalJson>)))]
pub(super) async fn list_approvals(
    State(app): SharedState,
    caller: Caller,
    list: List<ApprovalQuery>,
) -> Result<Listed<ApprovalJson>, Problem> {
    let query = &list.filters;
    let Some(agent) = wanted_agent(&app, &caller, query.agent.as_deref()).await? else {
        return Ok(list.empty());
    };
    let space = match &query.space {
        Some(name) => match wanted(&caller, find_space(&app, name).await)? {
            Some(space) => Some(space.id),
            None => return Ok(list.empty()),
        },
        None => None,
    };
    let filter = ApprovalFilter { agent, space, member: caller.entity(), all: query.all.unwrap_or(false) };
    let found = app.ports.approvals.approvals(filter, list.page.clone()).await?;
    let names = names_of(&app, found.items.iter().map(|asked| asked.agent)).await?;
    let Page { items, next } = found;
    let items = items.into_iter().filter_map(|asked| json(&names, &caller, asked)).collect();
    Ok(list.answer(Page { items, next }, |asked| asked))
}

/// The agent that a filter names, if it names one; `None` if there is nothing to see of what it names.
async fn wanted_agent(
    app: &AppState,
    caller: &Caller,
    name: Option<&str>,
) -> Result<Option<Option<AgentId>>, Problem> {
    match name {
        Some(name) => Ok(wanted(caller, find_agent(app, name).await)?.map(|card| Some(card.id))),
        None => Ok(Some(None)),
    }
}

/// Returns a call that waits, or has waited, for a person.
#[utoipa::path(get, path = "/v1/approvals/{call}", tag = "approvals",
    params(("call" = String, Path, description = "Id of the call."), ApprovalLinkQuery),
    responses((status = 200, description = "The call.", body = ApprovalJson)))]
pub(super) async fn get_approval(
    State(app): SharedState,
    caller: Caller,
    PathParam(call): PathParam<Exact>,
    Query(query): Query<ApprovalLinkQuery>,
) -> Result<Json<ApprovalJson>, Problem> {
    let asked = visible(&app, &caller, &call).await?;
    let link = match query.link {
        Some(true) => Some(link(&app, &caller, &asked)?),
        Some(false) | None => None,
    };
    let Json(shown) = shown(&app, &caller, asked, None).await?;
    Ok(Json(ApprovalJson { link, ..shown }))
}

/// A link to the call. Whoever may only read, or only answer for one person, gets none.
fn link(app: &AppState, caller: &Caller, asked: &AskedCall) -> Result<String, Problem> {
    if caller.credential.scope != Scope::Admin {
        return Err(Problem::new(Code::Forbidden, "`link` needs an admin key"));
    }
    let links = app.ports.links.as_ref().ok_or_else(|| {
        Problem::new(Code::BadQuery, "`link`: the server has no address for people outside")
            .hint("set `public_url`, and start the server again")
    })?;
    let now = app.ports.clock.now();
    let wanted = asked.row.approval.as_ref().filter(|wanted| wanted.is_wanted() && now < wanted.expires_at);
    let wanted = wanted.ok_or_else(|| Problem::new(Code::CallOver, "the call waits for nobody any more"))?;
    Ok(links.link(&asked.row.id, &wanted.hash, wanted.expires_at))
}

/// Answers a call that waits for a person. Operators may, and people of the call's space, or only those whom it names; agents
/// never. The first answer counts. An approved call runs with the same id; what it is given is checked first.
#[utoipa::path(post, path = "/v1/approvals/{call}/answer", tag = "approvals", request_body = CallAnswerJson,
    params(("call" = String, Path, description = "Id of the call.")),
    responses((status = 200, description = "The answered call.", body = ApprovalJson)))]
pub(super) async fn answer(
    State(app): SharedState,
    caller: Caller,
    PathParam(Exact(call)): PathParam<Exact>,
    Change { body: Sent(given), once }: Change<Sent<CallAnswerJson>>,
) -> Result<Done<Json<ApprovalJson>>, Problem> {
    let missing = || Problem::not_found("call that waits for a person", &call);
    let asked = app.ports.approvals.asked(CallId(call.clone())).await?.ok_or_else(missing)?;
    let read = match answerer(&app, &caller, &given).await {
        Ok(by) => verdict(&given, by).map(|verdict| (by, verdict)),
        Err(problem) => Err(problem),
    };
    let (by, verdict) = match (read, caller.entity()) {
        (Err(_), Some(person)) if !sees(&app, &asked, person).await? => return Err(missing()),
        (read, _) => read?,
    };
    let CallAnswerJson { reason, hash, .. } = given;
    let remembered = match &verdict {
        PersonVerdict::Approve { remember, .. } => *remember,
        PersonVerdict::Refuse | PersonVerdict::Answer(_) => None,
    };
    let (serving, read, id) = (Arc::clone(&app), asked.clone(), asked.row.id.clone());
    let (answering, person) = (caller.clone(), caller.entity());
    let answered = run_to_completion(async move {
        let (app, caller) = (serving, answering);
        let run = async || {
            let at = app.ports.clock.now();
            let answer = PersonAnswer { id: id.clone(), verdict, reason, by, at, seen: hash };
            let asked = runtime::approvals::answer(&app.ports, &app.node, &read, answer).await?;
            shown(&app, &caller, asked, remembered).await
        };
        let again = async || match app.ports.approvals.asked(id.clone()).await? {
            Some(asked) => shown(&app, &caller, asked, remembered).await,
            None => Err(Problem::not_found("call", &id.0)),
        };
        once.change(run, again).await
    })
    .await;
    match (answered, person) {
        // Whoever may not see the call learns nothing of it. Whose answer counts may see it.
        (Err(_), Some(person)) if !sees(&app, &asked, person).await? => Err(missing()),
        (Err(problem), _) if problem.code() == Code::NotYours => {
            Err(problem.hint(who_may(&app, &asked).await?))
        }
        (answered, _) => answered,
    }
}

/// Who may answer a call, by name.
async fn who_may(app: &AppState, asked: &AskedCall) -> Result<String, Problem> {
    let Some(approval) = asked.row.approval.as_deref() else { return Ok(String::new()) };
    let named = match approval.question {
        true => approval.approvers.clone(),
        false => {
            let card = app.ports.reader.agent(asked.agent).await?;
            card.map(|card| card.config.approvers.clone()).unwrap_or_default()
        }
    };
    let space = match approval.space {
        Some(space) => app.ports.reader.space(space.to_string()).await?.map(|space| space.name),
        None => None,
    };
    Ok(match (named.as_slice(), space) {
        ([], Some(space)) => format!("ask somebody of the space `{space}`, or an operator"),
        ([], None) => "ask an operator".to_owned(),
        (named, _) => format!("ask `{}`, or an operator", named.join("` or `")),
    })
}

/// Lists the rules by which calls need no approval. With a person's key: those which that person gave.
#[utoipa::path(get, path = "/v1/approval-rules", tag = "approvals", params(RuleQuery),
    responses((status = 200, description = "A page of rules, in the order in which they were given.", body = PageJson<ApprovalRuleJson>)))]
pub(super) async fn list_rules(
    State(app): SharedState,
    caller: Caller,
    list: List<RuleQuery>,
) -> Result<Listed<ApprovalRuleJson>, Problem> {
    let Some(agent) = wanted_agent(&app, &caller, list.filters.agent.as_deref()).await? else {
        return Ok(list.empty());
    };
    let filter = RuleFilter { agent, person: caller.entity() };
    let found = app.ports.approvals.rules(filter, app.ports.clock.now(), list.page.clone()).await?;
    let names = names_of(&app, found.items.iter().map(|rule| rule.agent)).await?;
    let mut spaces = HashMap::new();
    for space in found.items.iter().filter_map(|rule| rule.space) {
        if let Entry::Vacant(unknown) = spaces.entry(space) {
            unknown.insert(app.ports.reader.space(space.to_string()).await?.map(|space| space.name));
        }
    }
    let tainted = tainted_of(&app, found.items.iter().map(|rule| rule.agent)).await?;
    Ok(list.answer(found, |rule| {
        let tainted = tainted.contains(&rule.agent);
        let agent = names.get(&rule.agent).cloned().unwrap_or_default();
        let space = rule.space.and_then(|space| spaces.get(&space).cloned().flatten());
        ApprovalRuleJson::of(rule, agent, space, tainted)
    }))
}

/// Deletes the rules for a tool: further calls of it by the agent need an approval again, also those that have not begun. With
/// a person's key: those which that person gave.
#[utoipa::path(delete, path = "/v1/approval-rules/{agent}/{tool}", tag = "approvals",
    params(("agent" = String, Path, description = "Id or handle."), ("tool" = String, Path, description = "Name of the tool.")),
    responses((status = 204, description = "The rules are deleted.")))]
pub(super) async fn delete_rule(
    State(app): SharedState,
    caller: Caller,
    PathParam((name, tool)): PathParam<(Named, Exact)>,
    Change { once, .. }: Change<()>,
) -> Result<Done<WriteResponse<ApprovalRuleJson>>, Problem> {
    let Exact(tool) = tool;
    let missing = || Problem::not_found("approval rule", &tool);
    let agent = wanted(&caller, find_agent(&app, &name).await)?.ok_or_else(missing)?.id;
    run_to_completion(async move {
        let run = async || {
            let gone = app.ports.approvals.forget_rules(agent, tool.clone(), caller.entity()).await?;
            match gone.is_empty() {
                false => Ok(WriteResponse::Removed),
                true => Err(Problem::not_found("approval rule", &tool)),
            }
        };
        once.change(run, async || Ok(WriteResponse::Removed)).await
    })
    .await
}

/// The call, if the caller may see it.
async fn visible(app: &AppState, caller: &Caller, call: &str) -> Result<AskedCall, Problem> {
    let missing = || Problem::not_found("call that waits for a person", call);
    let asked = app.ports.approvals.asked(CallId(call.to_owned())).await?.ok_or_else(missing)?;
    match caller.entity() {
        Some(person) if !sees(app, &asked, person).await? => Err(missing()),
        _ => Ok(asked),
    }
}

/// Whether the call is asked in a space of that person, or its agent's config names them as one who may approve.
async fn sees(app: &AppState, asked: &AskedCall, person: EntityId) -> Result<bool, Problem> {
    let Some(approval) = asked.row.approval.as_deref() else { return Ok(false) };
    if !approval.question {
        let card = app.ports.reader.agent(asked.agent).await?;
        let approvers = card.map(|card| card.config.approvers.clone()).unwrap_or_default();
        let found = app.ports.reader.entity(person.to_string()).await?;
        // Whoever has a role in the call's space sees it as its member.
        if found.is_some_and(|entity| has_approver(&approvers, &entity.name, None)) {
            return Ok(true);
        }
    }
    let Some(space) = approval.space else { return Ok(false) };
    match app.ports.reader.space(space.to_string()).await? {
        Some(found) => Ok(membership(app, &found, person).await?.is_some()),
        None => Ok(false),
    }
}

/// Those of the agents whose model reads strangers' text with its next request.
async fn tainted_of(
    app: &AppState,
    agents: impl Iterator<Item = AgentId>,
) -> Result<HashSet<AgentId>, Problem> {
    let (mut tainted, now) = (HashSet::new(), app.ports.clock.now());
    for agent in agents.collect::<HashSet<_>>() {
        let Some(activation) = app.ports.store.wake(agent, now, None).await? else { continue };
        let tools = AgentTools::of(&*app.ports.toolbox, &*app.ports.models, &activation.config);
        if guard::exposure(&activation, Toolset::from(tools).specs()).is_tainted() {
            tainted.insert(agent);
        }
    }
    Ok(tainted)
}

pub(super) async fn names_of(
    app: &AppState,
    agents: impl Iterator<Item = AgentId>,
) -> Result<HashMap<AgentId, String>, Problem> {
    let mut names = HashMap::new();
    for agent in agents {
        if let Entry::Vacant(unknown) = names.entry(agent) {
            let found = app.ports.reader.entity(agent.to_string()).await?;
            unknown.insert(found.map(|entity| entity.name).unwrap_or_default());
        }
    }
    Ok(names)
}

/// What a model writes for itself is shown to operators alone.
fn json(names: &HashMap<AgentId, String>, caller: &Caller, asked: AskedCall) -> Option<ApprovalJson> {
    let name = names.get(&asked.agent).cloned().unwrap_or_default();
    let shown = ApprovalJson::of(asked.agent, name, asked.row)?;
    Some(ApprovalJson { said: shown.said.filter(|_| caller.is_operator()), ..shown })
}

async fn shown(
    app: &AppState,
    caller: &Caller,
    asked: AskedCall,
    remembered: Option<Remember>,
) -> Result<Json<ApprovalJson>, Problem> {
    let names = names_of(app, std::iter::once(asked.agent)).await?;
    let call = asked.row.id.clone();
    let shown = json(&names, caller, asked)
        .ok_or_else(|| Problem::not_found("call that waits for a person", &call.0))?;
    let guard_asks = remembered.map(|remember| shown.tainted && !remember.tainted);
    Ok(Json(ApprovalJson { guard_asks, ..shown }))
}

/// Who answers: the person of the key, or whom an operator names.
async fn answerer(app: &AppState, caller: &Caller, given: &CallAnswerJson) -> Result<Answerer, Problem> {
    match (caller.entity(), &given.sender) {
        (Some(_), Some(_)) => {
            Err(Problem::new(Code::SenderRefused, "this key can answer only as its own entity")
                .hint("leave out `sender`"))
        }
        (Some(person), None) => Ok(Answerer::Person(person)),
        (None, None) => Ok(Answerer::Operator),
        (None, Some(name)) => {
            let entity = find_entity(app, name).await?;
            if entity.kind == EntityKind::Human {
                return Ok(Answerer::Person(entity.id));
            }
            let detail = format!("`{}` is an agent; only people answer", entity.name);
            Err(Problem::new(Code::NotHuman, detail).hint("name a person as `sender`, or leave it out"))
        }
    }
}

fn verdict(given: &CallAnswerJson, by: Answerer) -> Result<PersonVerdict, Problem> {
    let bad = |detail: &str| Err(Problem::new(Code::BadAnswer, detail).hint(UNFIT));
    let remembers = given.remember_until.is_some() || given.remember_tainted.is_some();
    let only_approves = given.arguments.is_some() || remembers;
    match (given.verdict.as_deref(), &given.answer) {
        (Some("approve"), None) => {}
        (Some("refuse"), None) if !only_approves => return Ok(PersonVerdict::Refuse),
        (None, Some(answer)) if !only_approves => return Ok(PersonVerdict::Answer(answer.clone())),
        (Some("refuse"), None) | (None, Some(_)) => {
            return bad(
                "`arguments`, `remember_until` and `remember_tainted` belong to the verdict `approve`",
            );
        }
        _ => return bad("wanted either `verdict` (`approve` or `refuse`) or `answer`"),
    }
    if given.remember_tainted.is_some() && given.remember_until.is_none() {
        return bad("`remember_tainted` belongs to `remember_until`");
    }
    let tainted = given.remember_tainted.unwrap_or(false);
    if tainted && by != Answerer::Operator {
        return Err(Problem::new(Code::Forbidden, "only an operator may set `remember_tainted`"));
    }
    let arguments = match &given.arguments {
        Some(arguments) if !arguments.get().starts_with('{') => return bad("`arguments`: wanted an object"),
        // As they were written: a key that is given twice is refused with the rest that does not fit.
        arguments => arguments.as_ref().map(|arguments| arguments.get().to_owned()),
    };
    let remember = given.remember_until.map(|until| Remember { until, tainted });
    Ok(PersonVerdict::Approve { arguments, remember })
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        let detail = error.to_string();
        match error {
            AnswerError::Unknown(call) => Self::not_found("call", &call.0),
            AnswerError::Unfit(_) => Self::new(Code::BadAnswer, detail).hint(UNFIT),
            AnswerError::Store(error) => error.into(),
            AnswerError::Refused(why) => match why {
                AnswerRefused::NotAsked => Self::new(Code::NotAsked, detail).hint(WAITING),
                AnswerRefused::Already { .. } => Self::new(Code::AnsweredAlready, detail).hint(ANSWERED),
                AnswerRefused::Over(_) => Self::new(Code::CallOver, detail).hint(ANSWERED),
                AnswerRefused::Changed => Self::new(Code::CallChanged, detail)
                    .hint("read it again; if its tool has changed, refuse it, and the agent decides anew"),
                AnswerRefused::ToolGone(_) => Self::new(Code::CallChanged, detail)
                    .hint("refuse it, or name the tool in the agent's `tools` again"),
                AnswerRefused::NotYours(_) => {
                    Self::new(Code::NotYours, detail).hint("ask one of them to answer it, or an operator")
                }
                AnswerRefused::Unfit(_) => Self::new(Code::BadAnswer, detail).hint(UNFIT),
                AnswerRefused::Retired => Self::new(Code::AgentRetired, detail),
            },
        }
    }
}
