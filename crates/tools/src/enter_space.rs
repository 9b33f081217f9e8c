//! `enter_space`: sets the agent's active space, so that other calls need not name it.

use agent::call::head_and_tail;
use agent::changes::Inward;
use agent::entity::Member;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::typed::{PrebuiltTool, quoting, take_fitting, to_text};
use crate::{message_lines, space_ref};

/// Bytes of a space's description that are shown.
const DESCRIPTION_SHOWN_BYTES: usize = 512;

/// Arguments of `enter_space`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnterSpaceArgs {
    /// Handle or id.
    space: String,
}

/// `enter_space`.
pub(crate) struct EnterSpace;

impl PrebuiltTool for EnterSpace {
    type Args = EnterSpaceArgs;
    const NAME: &'static str = "enter_space";
    const DESCRIPTION: &'static str = "Make a space the active one. Returns its members and latest messages. Not needed to send to a space that you name.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: EnterSpaceArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let facts = space_ref::named(&context, &args.space).await?;
        let space = &facts.space;
        let mut reply = json!({
            "success": true,
            "space": {"name": space.name, "display_name": space.display_name},
        });
        if !space.description.is_empty() {
            let description = head_and_tail(&space.description, DESCRIPTION_SHOWN_BYTES);
            reply["space"]["description"] = json!(description);
        }
        if space.closed {
            reply["space"]["closed"] = json!(true);
        }
        let members = facts.members.iter().map(|each| member(each, &context));
        reply["members"] = Value::Array(take_fitting(members, limits::LISTED_MAX_BYTES));
        reply["members_total"] = json!(facts.members.len() + facts.more_members);
        // The messages get the bytes of the outcome that the rest of the reply does not use.
        let room = limits::OUTCOME_SHOWN_MAX_BYTES.saturating_sub(to_text(&reply).len() + 256);
        let page = message_lines::page(&context, &facts, None, limits::ENTER_HISTORY, room).await?;
        reply["messages"] = Value::Array(page.messages);
        reply["total"] = json!(page.total);
        reply["next_before"] = json!(page.next_before);
        let inward = Inward { active_space: Some(space.id), ..Inward::default() };
        Ok(quoting(&reply, page.trust, inward))
    }
}

/// A member as the model reads it; the agent itself is marked.
fn member(member: &Member, context: &ToolContext<'_>) -> Value {
    let entity = &member.entity;
    let mut line = json!({
        "name": entity.name,
        "display_name": entity.display_name,
        "kind": entity.kind,
    });
    if !member.role.is_empty() && member.role != Member::ROLE {
        line["role"] = json!(head_and_tail(&member.role, limits::DISPLAY_NAME_MAX_BYTES));
    }
    if entity.id == context.agent.entity() {
        line["you"] = json!(true);
    }
    line
}
