//! `read_messages`: what was said in a space of the agent, page by page, newest first.

use agent::changes::Inward;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::typed::{Hand, done};
use crate::{place, told};

/// Bytes kept free for what stands around the messages of a reply.
const FRAME_BYTES: usize = 512;

/// Arguments of `read_messages`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadMessagesArgs {
    /// Id or handle of one of your spaces; left out, the active space, or your only one.
    space: Option<String>,
    /// Only messages with a smaller seq: give the `next_before` of an earlier reply to read on.
    #[schemars(range(min = 1))]
    before: Option<u64>,
    /// How many messages at most; left out, 50.
    #[schemars(range(min = 1, max = limits::READ_MESSAGES_MAX))]
    limit: Option<u32>,
}

/// `read_messages`.
pub(crate) struct ReadMessages;

impl Hand for ReadMessages {
    type Args = ReadMessagesArgs;
    const NAME: &'static str = "read_messages";
    const DESCRIPTION: &'static str = "Reads the newest messages of one of your spaces, oldest first. Long ones are shortened (`bytes` is \
         their true size) and only as many come back as fit; `total` is how many there are in all, and \
         `next_before` leads to older ones (null: there are none). Changes nothing.";

    async fn act(args: ReadMessagesArgs, hands: ToolContext<'_>) -> Result<Done, ToolError> {
        let facts = place::named_or_here(&hands, args.space.as_deref()).await?;
        let limit = args.limit.unwrap_or(limits::PAGE_DEFAULT).min(limits::READ_MESSAGES_MAX);
        let room = limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES;
        // No seq is larger than what a store can hold.
        let before = args.before.map(|seq| seq.min(i64::MAX.unsigned_abs()));
        let page = told::page(&hands, &facts, before, limit, room).await?;
        let reply = json!({
            "space": {"id": facts.space.id, "name": facts.space.name},
            "messages": page.messages,
            "total": page.total,
            "next_before": page.next_before,
        });
        Ok(done(&reply, Inward::default()))
    }
}
