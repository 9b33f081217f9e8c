//! `get_my_runs`: returns the agent's runs: when and why each began, how it ended, and its tokens.

use agent::call::head_and_tail;
use agent::changes::Inward;
use agent::event::Trust;
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::run::Run;
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::message_lines::unreadable;
use crate::typed::{PrebuiltTool, quoting, take_fitting};

/// Number of runs if the model gives none.
const RUNS_DEFAULT: u32 = 10;
/// Bytes that are shown of each text of a run.
const TEXT_SHOWN_BYTES: usize = 512;
/// Bytes reserved for the parts of a reply other than the runs.
const FRAME_BYTES: usize = 256;

/// Arguments of `get_my_runs`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetMyRunsArgs {
    /// Default 10, at most 50.
    #[schemars(range(min = 1, max = limits::RUNS_SHOWN_MAX))]
    limit: Option<u32>,
}

/// `get_my_runs`.
pub(crate) struct GetMyRuns;

impl PrebuiltTool for GetMyRuns {
    type Args = GetMyRunsArgs;
    const NAME: &'static str = "get_my_runs";
    const DESCRIPTION: &'static str = "List your latest runs: why you woke up, how it ended, your summaries.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: GetMyRunsArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let limit = args.limit.unwrap_or(RUNS_DEFAULT).min(limits::RUNS_SHOWN_MAX);
        let runs = context.lookup.runs(context.agent, limit).await.map_err(unreadable)?;
        let shown = take_fitting(runs.iter().map(summary), limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES);
        let left_out = runs.len() - shown.len();
        let mut reply = json!({"runs": shown});
        if left_out > 0 {
            reply["left_out"] = json!(left_out);
        }
        Ok(quoting(&reply, runs.iter().filter_map(lowest_trust).min(), Inward::default()))
    }
}

/// The lowest trust of what its model had read when it wrote the summary. A summary of which that is not known may be anybody's.
fn lowest_trust(run: &Run) -> Option<Trust> {
    let known = run.steps.iter().filter_map(|step| step.sent.as_ref()?.trust).min();
    known.or_else(|| run.summary.as_ref().map(|_| Trust::Outside))
}

fn summary(run: &Run) -> Value {
    let text = |text: &str| head_and_tail(text, TEXT_SHOWN_BYTES);
    json!({
        "id": run.id,
        "run": run.ordinal,
        "woke_at": run.opened_at,
        "ended_at": run.ended_at,
        "woke_for": text(&run.woke_for),
        "events": run.events,
        "ending": run.ending,
        "reason": run.reason.as_deref().map(text),
        "steps": run.steps.len(),
        "tokens": {"input": run.usage.input, "output": run.usage.output},
        "summary": run.summary.as_deref().map(text),
    })
}
