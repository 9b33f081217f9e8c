//! `read_messages`: returns the messages of a space, page by page, the newest page first.

use agent::changes::Inward;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::typed::{PrebuiltTool, quoting};
use crate::{message_lines, space_ref};

/// Bytes reserved for the parts of a reply other than the messages.
const FRAME_BYTES: usize = 512;

/// Arguments of `read_messages`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadMessagesArgs {
    /// Handle or id; default: the active space.
    space: Option<String>,
    /// For older messages: `next_before` of the previous result.
    #[schemars(range(min = 1))]
    before: Option<u64>,
    /// Default 50, at most 200.
    #[schemars(range(min = 1, max = limits::READ_MESSAGES_MAX))]
    limit: Option<u32>,
}

/// `read_messages`.
pub(crate) struct ReadMessages;

impl PrebuiltTool for ReadMessages {
    type Args = ReadMessagesArgs;
    const NAME: &'static str = "read_messages";
    const DESCRIPTION: &'static str = "Read the newest messages of a space, oldest first.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: ReadMessagesArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let facts = space_ref::named_or_current(&context, args.space.as_deref()).await?;
        let limit = args.limit.unwrap_or(limits::PAGE_DEFAULT).min(limits::READ_MESSAGES_MAX);
        let room = limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES;
        // The store holds a seq as an `i64`.
        let before = args.before.map(|seq| seq.min(i64::MAX.unsigned_abs()));
        let page = message_lines::page(&context, &facts, before, limit, room).await?;
        let reply = json!({
            "space": facts.space.name,
            "messages": page.messages,
            "total": page.total,
            "next_before": page.next_before,
        });
        Ok(quoting(&reply, page.trust, Inward::default()))
    }
}
