//! The list of all routes with their access policies. Each submodule handles the routes of one subject.

use utoipa_axum::routes as doc;

use crate::auth::Access;
use crate::routes::{Routes, changing, listing};

pub(crate) mod agents;
mod alerts;
mod approvals;
mod calls;
mod denied;
mod entities;
mod events;
mod goals;
mod guard;
mod history;
pub(crate) mod hooks;
mod keys;
mod links;
mod mcp;
mod memories;
pub(crate) mod messages;
mod meta;
mod metrics;
mod plans;
mod recent;
mod spaces;
mod streams;
mod targets;
mod tools;
mod workers;

/// Why the routes of these kinds take no idempotency key.
const LINK: &str = "a link counts once";
const CLAIM: &str = "a claim has an id of its own, with which it is asked for again";
const AGAIN: &str = "sent again, it changes nothing more";
const DELIVERY: &str = "a delivery has an id of its own, which for some kinds of hooks is in that header";

/// Adds the routes of calls that wait for people.
fn people(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, AnsweredAlready, BadAnswer, BadJson, CallChanged, CallOver, NoRoute, NotAsked, NotForm,
        NotFound, NotHuman, NotYours, SenderRefused, TooDeep,
    };
    use Access::{Link, Person};
    routes
        .list(Person, listing!(approvals::list_approvals), &[NotFound])
        .read(Person, doc!(approvals::get_approval), &[CallOver])
        .change(
            Person,
            changing!(approvals::answer),
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
        .read(Link, doc!(links::show_link), &[NoRoute])
        .keyless(
            Link,
            doc!(links::answer_by_link),
            LINK,
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
        .list(Person, listing!(approvals::list_rules), &[NotFound])
        .change(Person, changing!(approvals::delete_rule), &[])
}

/// What an agent keeps, as operators read and change it.
fn notes(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, BadGoals, BadPlan, BadValue, InboxFull, MemoriesFull, PinnedMemoriesFull, PlanOfConfig,
        PlanOver, PlansFull,
    };
    use Access::Admin;
    routes
        .list(Admin, listing!(memories::list_memories), &[])
        .change(Admin, changing!(memories::set_memory), &[AgentRetired, MemoriesFull, PinnedMemoriesFull])
        .change(Admin, changing!(memories::delete_memory), &[AgentRetired])
        .list(Admin, listing!(goals::list_goals), &[])
        .change(Admin, changing!(goals::set_goal), &[BadValue, AgentRetired, BadGoals])
        .change(Admin, changing!(goals::change_goal), &[BadValue, AgentRetired, BadGoals])
        .change(Admin, changing!(goals::delete_goal), &[AgentRetired])
        .list(Admin, listing!(plans::list_plans), &[])
        .change(Admin, changing!(plans::set_plan), &[BadPlan, AgentRetired, PlansFull])
        .read(Admin, doc!(plans::get_plan), &[])
        .change(Admin, changing!(plans::fire_plan), &[AgentRetired, InboxFull, PlanOver])
        .change(Admin, changing!(plans::delete_plan), &[AgentRetired, PlanOfConfig])
}

/// Adds all routes of the API.
pub(crate) fn all(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, BadConfig, BadHandle, BadHeader, BadId, BadMention, BadTool, BadValue, CallOver,
        ClaimLost, CycleOpen, EventState, EventTaken, HandleTaken, IdTaken, InboxFull, KeyOver, McpChanged,
        McpFailed, NoOpenCycle, NoSuchModel, NoSuchTool, NotFound, NotHuman, NotMember, OutcomeUnknown,
        SenderRefused, SenderRequired, SpaceClosed, SpaceFull, ToolOfFile, WorkerVersion,
    };
    use Access::{Admin, AnyKey, Member, Person, Probe, Public, Service, Worker};
    notes(targets(hooks(people(routes))))
        .read(Probe, doc!(meta::health), &[])
        .read(Probe, doc!(meta::ready), &[])
        .read(Public, doc!(meta::document), &[])
        .read(Admin, doc!(metrics::metrics), &[])
        .read(AnyKey, doc!(meta::whoami), &[])
        .change(
            Admin,
            changing!(agents::create),
            &[BadHandle, HandleTaken, BadConfig, NoSuchModel, NoSuchTool],
        )
        .list(Admin, listing!(agents::list), &[])
        .read(Admin, doc!(agents::get), &[])
        .change(Admin, changing!(agents::change_agent), &[BadConfig, NoSuchModel, NoSuchTool, AgentRetired])
        .change(Admin, changing!(agents::suspend), &[AgentRetired])
        .change(Admin, changing!(agents::resume), &[AgentRetired])
        .change(Admin, changing!(agents::retire), &[AgentRetired])
        .change(Person, changing!(agents::cancel), &[NoOpenCycle])
        .list(Admin, listing!(calls::open), &[])
        .change(Admin, changing!(calls::cancel), &[CallOver])
        .change(Service, changing!(events::send), &[AgentRetired, InboxFull])
        .read(Admin, doc!(events::get), &[])
        .change(Admin, changing!(events::cancel), &[EventState, EventTaken])
        .change(Admin, changing!(events::retry), &[EventState, EventTaken, AgentRetired, InboxFull])
        .change(Admin, changing!(events::drop_event), &[EventState, EventTaken])
        .list(Admin, listing!(events::inbox), &[])
        .list(Admin, listing!(history::runs), &[])
        .read(Admin, doc!(history::open_cycle), &[NoOpenCycle])
        .read(Admin, doc!(history::run), &[])
        .read(Admin, doc!(history::sent_context), &[])
        .list(Admin, listing!(history::consciousness), &[])
        .read(Admin, doc!(history::facts), &[])
        .read(Admin, doc!(history::context), &[NoSuchModel])
        .read(Admin, doc!(history::recall), &[BadValue])
        .change(Admin, changing!(guard::clear), &[CycleOpen])
        .list(Admin, listing!(tools::list_tools), &[])
        .read(Admin, doc!(tools::get_tool), &[])
        .change(Admin, changing!(tools::put_tool), &[BadTool, ToolOfFile])
        .change(Admin, changing!(tools::delete_tool), &[BadTool, ToolOfFile])
        .change(Admin, changing!(tools::try_tool), &[BadTool, BadValue, OutcomeUnknown])
        .keyless(Worker, doc!(workers::claim), CLAIM, &[BadTool, BadValue, NotFound, WorkerVersion])
        .keyless(Worker, doc!(workers::renew), AGAIN, &[ClaimLost, NotFound])
        .keyless(Worker, doc!(workers::finish), AGAIN, &[BadValue, ClaimLost, NotFound])
        .list(Admin, listing!(mcp::list_servers), &[])
        .change(Admin, changing!(mcp::reload), &[McpFailed])
        .read(Admin, doc!(mcp::get_server), &[])
        .keyless(Admin, doc!(mcp::ask), AGAIN, &[McpFailed])
        .change(Admin, changing!(mcp::approve), &[McpFailed, McpChanged, BadTool])
        .list(Admin, listing!(alerts::list_alerts), &[NotFound])
        .read(Admin, doc!(recent::list), &[NotFound])
        .read(Admin, doc!(streams::server_stream), &[])
        .read(Admin, doc!(streams::agent), &[BadHeader])
        .change(Admin, changing!(entities::create), &[BadHandle, HandleTaken])
        .list(Admin, listing!(entities::list), &[])
        .read(Admin, doc!(entities::get), &[])
        .change(Admin, changing!(keys::create), &[NotFound, NotHuman])
        .list(Admin, listing!(keys::list), &[])
        .change(Admin, changing!(keys::rotate), &[KeyOver])
        .change(Admin, changing!(keys::revoke), &[])
        .change(Admin, changing!(spaces::open), &[BadHandle, HandleTaken, NotFound, SpaceFull])
        .list(Person, listing!(spaces::list), &[])
        .read(Member, doc!(spaces::get), &[])
        .change(Admin, changing!(spaces::change_space), &[])
        .change(Admin, changing!(spaces::close), &[])
        .change(Admin, changing!(spaces::reopen), &[HandleTaken])
        .list(Member, listing!(spaces::members), &[])
        .change(Admin, changing!(spaces::add_member), &[SpaceFull])
        .change(Admin, changing!(spaces::remove_member), &[])
        .change(
            Member,
            changing!(messages::post_message),
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
        .list(Member, listing!(messages::list), &[])
        .read(Person, doc!(messages::get), &[])
        .read(Member, doc!(streams::space), &[BadHeader])
}

/// Adds the routes of hooks.
fn hooks(routes: Routes) -> Routes {
    use crate::problem::Code::{
        AgentRetired, BadDelivery, BadHandle, BadHook, Forbidden, HookTemplate, HookUnready, InboxFull,
        KeyExpired, KeyInvalid, KeyMissing, NotFound, SignatureInvalid, SignatureMissing, SignatureOld,
    };
    use Access::{Admin, Signed};
    routes
        .list(Admin, listing!(hooks::list_hooks), &[])
        .read(Admin, doc!(hooks::get_hook), &[])
        .change(Admin, changing!(hooks::put_hook), &[BadHook, BadHandle, NotFound])
        .change(Admin, changing!(hooks::delete_hook), &[])
        .list(Admin, listing!(hooks::list_deliveries), &[])
        .keyless(
            Signed,
            doc!(hooks::deliver),
            DELIVERY,
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
        .list(Admin, listing!(targets::list_targets), &[])
        .read(Admin, doc!(targets::get_target), &[])
        .change(Admin, changing!(targets::put_target), &[BadTarget, BadHandle, NotFound, AgentRetired])
        .change(Admin, changing!(targets::delete_target), &[])
        .list(Admin, listing!(targets::list_dead), &[])
        .change(Admin, changing!(targets::retry_dead), &[])
}
