//! `skip` and `done`, which end a cycle. The cycle machine recognizes them by name and ends the cycle; the
//! tools themselves only return a reply.

use std::borrow::Cow;

use agent::changes::Inward;
use agent::port::{Done as Outcome, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::typed::{self, PrebuiltTool};

/// Arguments of `skip`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkipArgs {
    /// A few words for the operator.
    #[expect(dead_code, reason = "the machine reads it from the call's arguments")]
    reason: Option<String>,
}

/// `skip`.
pub(crate) struct Skip;

impl PrebuiltTool for Skip {
    type Args = SkipArgs;
    const NAME: &'static str = "skip";
    const DESCRIPTION: &'static str =
        "Go back to sleep because nothing in the inbox is meant for you. Must be your only call.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(_args: SkipArgs, _context: ToolContext<'_>) -> Result<Outcome, ToolError> {
        Ok(typed::done(&json!({"success": true}), Inward::default()))
    }
}

/// An event of the inbox, as the model names it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum EventName {
    /// Its number in the inbox.
    Number(u64),
    /// Its number or id, as text.
    Text(String),
}

impl JsonSchema for EventName {
    fn schema_name() -> Cow<'static, str> {
        "EventName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // Written by hand: the derived schema would be an `anyOf` instead of a short list of types.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "minimum": 0})
    }
}

/// Arguments of `done`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoneArgs {
    /// One line for your later self: what you did, what is still open.
    #[expect(dead_code, reason = "the machine reads it from the call's arguments")]
    summary: Option<String>,
    /// Numbers of the inbox events that you handled.
    addressed: Option<Vec<EventName>>,
}

/// `done`.
pub(crate) struct Done;

impl PrebuiltTool for Done {
    type Args = DoneArgs;
    const NAME: &'static str = "done";
    const DESCRIPTION: &'static str =
        "Go back to sleep until something new arrives. Calls in the same response are still carried out.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: DoneArgs, _context: ToolContext<'_>) -> Result<Outcome, ToolError> {
        let mut reply = json!({"success": true});
        if let Some(addressed) = args.addressed.filter(|addressed| !addressed.is_empty()) {
            reply["addressed"] = json!(addressed);
        }
        Ok(typed::done(&reply, Inward::default()))
    }
}
