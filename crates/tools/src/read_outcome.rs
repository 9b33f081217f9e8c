//! `read_outcome`: returns lines of the outcome of one of the agent's calls. In its history a large outcome has only its
//! beginning and its end.

use agent::call::Outcome;
use agent::changes::Inward;
use agent::id::CallId;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::message_lines::unreadable;
use crate::typed::PrebuiltTool;

/// Number of lines if the model gives none, and the maximum.
const LINES_DEFAULT: u32 = 200;
const LINES_MAX: u32 = 2_000;
/// A longer line is counted and shown as several.
const LINE_MAX_BYTES: usize = 1_000;
/// Bytes reserved for the header.
const FRAME_BYTES: usize = 256;

/// Arguments of `read_outcome`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadOutcomeArgs {
    /// The id of the call.
    call: String,
    /// First line; default 1.
    #[schemars(range(min = 1))]
    from: Option<u32>,
    /// Default 200.
    #[schemars(range(min = 1, max = LINES_MAX))]
    lines: Option<u32>,
}

/// `read_outcome`.
pub(crate) struct ReadOutcome;

impl PrebuiltTool for ReadOutcome {
    type Args = ReadOutcomeArgs;
    const NAME: &'static str = agent::tool::names::READ_OUTCOME;
    const DESCRIPTION: &'static str = "Read lines of a call's outcome of which some bytes were left out.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: ReadOutcomeArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let call = CallId(args.call);
        let row = context.lookup.call(context.agent, call.clone()).await.map_err(unreadable)?;
        let row = row.ok_or_else(|| ToolError::new(format!("you have made no call with the id `{call}`")))?;
        let trust = Some(row.trust_of_outcome());
        let outcome = row.outcome.ok_or_else(|| ToolError::new(format!("`{call}` has no outcome yet")))?;
        let (from, most) = (args.from.unwrap_or(1), args.lines.unwrap_or(LINES_DEFAULT).min(LINES_MAX));
        let lines = lines(&outcome.text);
        let Some(rest) = lines.get(from as usize - 1..).filter(|rest| !rest.is_empty()) else {
            return Err(ToolError::new(format!(
                "the outcome has {} lines; there is no line {from}",
                lines.len()
            )));
        };
        let mut room = limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES;
        let fits = |line: &&&str| {
            let left = room.checked_sub(line.len() + 1);
            room = left.unwrap_or(0);
            left.is_some()
        };
        let shown: Vec<&str> = rest.iter().take(most as usize).take_while(fits).copied().collect();
        let to = from as usize + shown.len() - 1;
        let text = format!("[lines {from} to {to} of {}]\n{}", lines.len(), shown.join("\n"));
        Ok(Done { outcome: Outcome { trust, ..Outcome::ok(text) }, inward: Inward::default() })
    }
}

/// The lines of a text, long ones in parts.
fn lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for mut line in text.lines() {
        while line.len() > LINE_MAX_BYTES {
            let (part, rest) = line.split_at(line.floor_char_boundary(LINE_MAX_BYTES));
            found.push(part);
            line = rest;
        }
        found.push(line);
    }
    found
}
