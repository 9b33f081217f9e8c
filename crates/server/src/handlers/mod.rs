//! The list of all routes with their access policies. Each submodule handles the routes of one subject.

use agent::port::{Denial, RegistryError};
use utoipa_axum::routes as doc;

use crate::app_state::AppState;
use crate::auth::Access;
use crate::problem::Problem;
use crate::routes::Routes;

pub(crate) mod agents;
mod approvals;
mod calls;
mod entities;
mod events;
mod guard;
mod history;
pub(crate) mod hooks;
mod keys;
mod links;
mod mcp;
mod memories;
pub(crate) mod messages;
mod meta;
mod plans;
mod recent;
mod spaces;
mod streams;
mod targets;
mod tools;
mod workers;

/// Adds the routes of calls that wait for people.
fn people(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, AnsweredAlready, BadAnswer, BadJson, CallChanged, CallOver, NoRoute, NotAsked, NotForm,
        NotFound, NotHuman, NotYours, SenderRefused, TooDeep,
    };
    use Access::{Link, Person};
    routes
        .add(Person, doc!(approvals::list_approvals), &[NotFound])
        .add(Person, doc!(approvals::get_approval), &[CallOver])
        .add(
            Person,
            doc!(approvals::answer),
            &[
                BadAnswer,
                AnsweredAlready,
                NotAsked,
                CallChanged,
                CallOver,
                NotYours,
                NotHuman,
                SenderRefused,
                AgentRetired,
            ],
        )
        .add(Link, doc!(links::show_link), &[NoRoute])
        .add(
            Link,
            doc!(links::answer_by_link),
            &[
                NoRoute,
                NotForm,
                BadAnswer,
                BadJson,
                TooDeep,
                AnsweredAlready,
                NotAsked,
                CallChanged,
                CallOver,
                AgentRetired,
            ],
        )
        .add(Person, doc!(approvals::list_rules), &[NotFound])
        .add(Person, doc!(approvals::delete_rule), &[])
}

/// Adds all routes of the API.
pub(crate) fn all(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, BadConfig, BadHandle, BadHeader, BadId, BadMention, BadPlan, BadTool, BadValue,
        CallOver, ClaimLost, CycleOpen, EventState, EventTaken, IdTaken, InboxFull, KeyOver, McpChanged,
        McpFailed, MemoriesFull, NameTaken, NoOpenCycle, NoSuchModel, NoSuchTool, NotFound, NotHuman,
        NotMember, PinnedMemoriesFull, PlanOfConfig, PlansFull, SenderRefused, SenderRequired, SpaceClosed,
        SpaceFull, ToolOfFile, WorkerVersion,
    };
    use Access::{Admin, AnyKey, Member, Person, Public, Service, Worker};
    targets(hooks(people(routes)))
        .add(Public, doc!(meta::health), &[])
        .add(Public, doc!(meta::ready), &[])
        .add(Public, doc!(meta::document), &[])
        .add(AnyKey, doc!(meta::whoami), &[])
        .add(Admin, doc!(agents::create), &[BadHandle, NameTaken, BadConfig, NoSuchModel, NoSuchTool])
        .add(Admin, doc!(agents::list), &[])
        .add(Admin, doc!(agents::get), &[])
        .add(Admin, doc!(agents::change_agent), &[BadConfig, NoSuchModel, NoSuchTool, AgentRetired])
        .add(Admin, doc!(agents::suspend), &[AgentRetired])
        .add(Admin, doc!(agents::resume), &[AgentRetired])
        .add(Admin, doc!(agents::retire), &[AgentRetired])
        .add(Person, doc!(agents::cancel), &[NoOpenCycle])
        .add(Admin, doc!(calls::open), &[])
        .add(Admin, doc!(calls::cancel), &[CallOver])
        .add(Service, doc!(events::send), &[AgentRetired, InboxFull])
        .add(Admin, doc!(events::get), &[])
        .add(Admin, doc!(events::cancel), &[EventState, EventTaken])
        .add(Admin, doc!(events::retry), &[EventState, EventTaken, AgentRetired, InboxFull])
        .add(Admin, doc!(events::drop_event), &[EventState, EventTaken])
        .add(Admin, doc!(events::inbox), &[])
        .add(Admin, doc!(history::runs), &[])
        .add(Admin, doc!(history::run), &[])
        .add(Admin, doc!(history::sent_context), &[])
        .add(Admin, doc!(history::consciousness), &[])
        .add(Admin, doc!(history::facts), &[])
        .add(Admin, doc!(history::context), &[NoSuchModel])
        .add(Admin, doc!(history::recall), &[BadValue])
        .add(Admin, doc!(memories::list_memories), &[])
        .add(Admin, doc!(memories::set_memory), &[AgentRetired, MemoriesFull, PinnedMemoriesFull])
        .add(Admin, doc!(memories::delete_memory), &[AgentRetired])
        .add(Admin, doc!(plans::list_plans), &[])
        .add(Admin, doc!(plans::set_plan), &[BadPlan, AgentRetired, PlansFull])
        .add(Admin, doc!(plans::get_plan), &[])
        .add(Admin, doc!(plans::delete_plan), &[AgentRetired, PlanOfConfig])
        .add(Admin, doc!(guard::clear), &[CycleOpen])
        .add(Admin, doc!(tools::list_tools), &[])
        .add(Admin, doc!(tools::get_tool), &[])
        .add(Admin, doc!(tools::put_tool), &[BadTool, ToolOfFile])
        .add(Admin, doc!(tools::delete_tool), &[BadTool, ToolOfFile])
        .add(Admin, doc!(tools::try_tool), &[BadTool, BadValue])
        .add(Worker, doc!(workers::claim), &[BadTool, BadValue, NotFound, WorkerVersion])
        .add(Worker, doc!(workers::renew), &[ClaimLost, NotFound])
        .add(Worker, doc!(workers::finish), &[BadValue, ClaimLost, NotFound])
        .add(Admin, doc!(mcp::list_servers), &[])
        .add(Admin, doc!(mcp::reload), &[McpFailed])
        .add(Admin, doc!(mcp::offered), &[McpFailed])
        .add(Admin, doc!(mcp::approve), &[McpFailed, McpChanged, BadTool])
        .add(Admin, doc!(recent::list), &[NotFound])
        .add(Admin, doc!(streams::server_stream), &[])
        .add(Admin, doc!(streams::agent), &[BadHeader])
        .add(Admin, doc!(entities::create), &[BadHandle, NameTaken])
        .add(Admin, doc!(entities::list), &[])
        .add(Admin, doc!(entities::get), &[])
        .add(Admin, doc!(keys::create), &[NotFound, NotHuman])
        .add(Admin, doc!(keys::list), &[])
        .add(Admin, doc!(keys::rotate), &[KeyOver])
        .add(Admin, doc!(keys::revoke), &[])
        .add(Admin, doc!(spaces::open), &[BadHandle, NameTaken, NotFound, SpaceFull])
        .add(Person, doc!(spaces::list), &[])
        .add(Member, doc!(spaces::get), &[])
        .add(Admin, doc!(spaces::change_space), &[])
        .add(Admin, doc!(spaces::close), &[])
        .add(Admin, doc!(spaces::reopen), &[NameTaken])
        .add(Member, doc!(spaces::members), &[])
        .add(Admin, doc!(spaces::add_member), &[SpaceFull])
        .add(Admin, doc!(spaces::remove_member), &[])
        .add(
            Member,
            doc!(messages::post_message),
            &[
                BadId,
                IdTaken,
                SenderRequired,
                SenderRefused,
                NotHuman,
                NotMember,
                BadMention,
                AgentRetired,
                SpaceClosed,
                InboxFull,
            ],
        )
        .add(Member, doc!(messages::list), &[])
        .add(Person, doc!(messages::get), &[])
        .add(Member, doc!(streams::space), &[BadHeader])
}

/// Adds the routes of hooks.
fn hooks(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, BadDelivery, BadHandle, BadHook, Forbidden, HookTemplate, HookUnready, InboxFull,
        KeyExpired, KeyInvalid, KeyMissing, NotFound, SignatureInvalid, SignatureMissing, SignatureOld,
    };
    use Access::{Admin, Signed};
    routes
        .add(Admin, doc!(hooks::list_hooks), &[])
        .add(Admin, doc!(hooks::get_hook), &[])
        .add(Admin, doc!(hooks::put_hook), &[BadHook, BadHandle, NotFound])
        .add(Admin, doc!(hooks::delete_hook), &[])
        .add(Admin, doc!(hooks::list_deliveries), &[])
        .add(
            Signed,
            doc!(hooks::deliver),
            &[
                SignatureMissing,
                SignatureInvalid,
                SignatureOld,
                KeyMissing,
                KeyInvalid,
                KeyExpired,
                Forbidden,
                BadDelivery,
                HookTemplate,
                HookUnready,
                AgentRetired,
                InboxFull,
            ],
        )
}

/// Adds the routes of targets.
fn targets(routes: Routes) -> Routes {
    use crate::problem::Code::{AgentRetired, BadHandle, BadTarget, NotFound};
    use Access::Admin;
    routes
        .add(Admin, doc!(targets::list_targets), &[])
        .add(Admin, doc!(targets::get_target), &[])
        .add(Admin, doc!(targets::put_target), &[BadTarget, BadHandle, NotFound, AgentRetired])
        .add(Admin, doc!(targets::delete_target), &[])
        .add(Admin, doc!(targets::list_dead), &[])
        .add(Admin, doc!(targets::retry_dead), &[])
}

/// The problem of a denied request, with handles in place of ids: people know agents and spaces by those.
async fn denied(app: &AppState, denial: Denial) -> Problem {
    let (entity, space) = match &denial {
        Denial::NotMember { entity, space } => (Some(*entity), Some(*space)),
        Denial::SpaceClosed(space) | Denial::SpaceFull(space) => (None, Some(*space)),
        Denial::Retired(agent)
        | Denial::InboxFull(agent)
        | Denial::MemoriesFull(agent)
        | Denial::PlansFull(agent)
        | Denial::PinnedFull { agent, .. }
        | Denial::NoOpenCycle(agent)
        | Denial::OtherCycle(agent) => (Some(agent.entity()), None),
        _ => (None, None),
    };
    let mut problem = Problem::from(denial);
    // Without an answer the id stays, which is correct, too.
    if let Some(id) = entity
        && let Ok(Some(found)) = app.ports.reader.entity(id.to_string()).await
    {
        problem = problem.with_name(&id, &found.name);
    }
    if let Some(id) = space
        && let Ok(Some(found)) = app.ports.reader.space(id.to_string()).await
    {
        problem = problem.with_name(&id, &found.name);
    }
    problem
}

/// As [`denied`], for anything that the registry refuses.
async fn refused(app: &AppState, error: RegistryError) -> Problem {
    match error {
        RegistryError::Denied(denial) => denied(app, denial).await,
        other => other.into(),
    }
}
