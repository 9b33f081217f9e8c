//! `peek_inbox`: takes waiting events into the running cycle. The tool only requests it; the cycle machine
//! shows the events with the next step, which processes them.

use agent::changes::Inward;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::typed::{PrebuiltTool, done};

/// Number of events if the model gives none.
const COUNT_DEFAULT: u32 = 5;

/// Arguments of `peek_inbox`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PeekInboxArgs {
    /// Default 5, at most 10.
    #[schemars(range(min = 1, max = limits::PEEK_MAX))]
    count: Option<u32>,
}

/// `peek_inbox`.
pub(crate) struct PeekInbox;

impl PrebuiltTool for PeekInbox {
    type Args = PeekInboxArgs;
    const NAME: &'static str = "peek_inbox";
    const DESCRIPTION: &'static str =
        "Take the oldest waiting events now. They are shown next and do not come again.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: PeekInboxArgs, _context: ToolContext<'_>) -> Result<Done, ToolError> {
        let peek = args.count.unwrap_or(COUNT_DEFAULT).min(limits::PEEK_MAX);
        let reply = json!({"success": true, "shown_next": format!("at most {peek} of the events that wait; none where nothing waits")});
        Ok(done(&reply, Inward { peek, ..Inward::default() }))
    }
}
