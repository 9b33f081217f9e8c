//! `send_message`: the only way for an agent to post a message. The message is committed with the step that
//! called the tool, and its id derives from the call, so it is posted exactly once.

use agent::changes::Inward;
use agent::event::Principal;
use agent::id::MessageId;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::space::NewMessage;
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::space_ref;
use crate::typed::{PrebuiltTool, done};

/// Arguments of `send_message`. Where `space` comes first, the text can be streamed into it while it is being written; in the
/// other order it is shown once the space is known.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessageArgs {
    /// Handle or id; default: the active space. Write it before `text`.
    space: Option<String>,
    #[schemars(length(min = 1))]
    text: String,
    /// Handles of members to notify, if not named as @handle in the text.
    #[schemars(length(max = limits::MENTIONS_MAX))]
    mentions: Option<Vec<String>>,
}

/// `send_message`.
pub(crate) struct SendMessage;

impl PrebuiltTool for SendMessage {
    type Args = SendMessageArgs;
    const NAME: &'static str = "send_message";
    const DESCRIPTION: &'static str = "Post a message to one of your spaces. All members can read it.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: SendMessageArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let facts = space_ref::named_or_current(&context, args.space.as_deref()).await?;
        let space = &facts.space;
        if space.closed {
            let name = &space.name;
            return Err(ToolError::new(format!("the space `{name}` is closed: nothing can be posted there")));
        }
        if args.text.trim().is_empty() {
            return Err(ToolError::new("wanted a `text` with something in it, got only white space"));
        }
        if args.text.len() > limits::MESSAGE_MAX_BYTES {
            let (max, got) = (limits::MESSAGE_MAX_BYTES, args.text.len());
            let text =
                format!("wanted a `text` of at most {max} bytes, got {got}: say it in several messages");
            return Err(ToolError::new(text));
        }
        let mentions =
            space_ref::members(&context, &facts, args.mentions.as_deref().unwrap_or_default()).await?;
        let sender = context.agent.entity();
        let message = NewMessage {
            id: MessageId::of_call(context.call),
            space: space.id,
            sender,
            text: args.text,
            mentions,
            urgent: false,
            at: context.now,
            cycle: Some(context.cycle),
            call: Some(context.call.clone()),
            data: None,
            principal: Principal::Entity(sender),
            trust: context.trust,
            root: context.root.clone(),
            hop: context.hop,
        };
        let reply = json!({"status": "delivered", "space": space.name});
        Ok(done(&reply, Inward { messages: vec![message], ..Inward::default() }))
    }
}
