//! `recall` and `read_cycle`: the agent's archive, searched by words and read cycle by cycle.

use agent::call::head_and_tail;
use agent::changes::{Inward, MemoryChange};
use agent::entry::Entry;
use agent::limits;
use agent::message::Part;
use agent::port::{
    CycleRef, Done, Excerpt, RecallError, RecallKind, RecallQuery, ToolContext, ToolError, time_limit,
};
use agent::tool::{ToolLabel, names};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::cut;
use crate::message_lines::unreadable;
use crate::space_ref::listed;
use crate::typed::{PrebuiltTool, quoting, take_fitting};

/// Bytes reserved for the parts of a reply other than the list.
const FRAME_BYTES: usize = 512;
/// Bytes that are shown of each part of an entry.
const PART_SHOWN_BYTES: usize = 2 * 1024;

// No doc comment: the model would read it.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Kind {
    Inbox,
    Assistant,
    Outcomes,
    Memory,
    Message,
}

/// Arguments of `recall`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallArgs {
    /// Rare words find best.
    #[schemars(length(min = 1))]
    query: String,
    /// Date or time.
    from: Option<String>,
    to: Option<String>,
    space: Option<String>,
    kind: Option<Kind>,
}

/// `recall`.
pub(crate) struct Recall;

impl PrebuiltTool for Recall {
    type Args = RecallArgs;
    const NAME: &'static str = names::RECALL;
    const DESCRIPTION: &'static str =
        "Search all you ever saw, wrote or remember, and your spaces' messages.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: RecallArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        if args.query.len() > limits::RECALL_QUERY_MAX_BYTES {
            let most = limits::RECALL_QUERY_MAX_BYTES;
            return Err(ToolError::new(format!("`query` is too long: wanted at most {most} bytes")));
        }
        let query = RecallQuery {
            text: args.query,
            from: time("from", args.from.as_deref())?,
            to: time("to", args.to.as_deref())?,
            space: args.space,
            kind: args.kind.map(|kind| match kind {
                Kind::Inbox => RecallKind::Inbox,
                Kind::Assistant => RecallKind::Assistant,
                Kind::Outcomes => RecallKind::Outcomes,
                Kind::Memory => RecallKind::Memory,
                Kind::Message => RecallKind::Message,
            }),
            asking: Some(context.cycle),
            limit: limits::RECALL_DEFAULT,
        };
        let found = context.lookup.recall(context.agent, query).await.map_err(refused)?;
        let room = limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES;
        let mut reply = json!({"found": take_fitting(found.excerpts.iter().map(line), room)});
        if found.building {
            reply["note"] = json!("the archive is still being indexed; older texts may be missing");
        }
        if found.newest_spaces_only {
            let most = limits::RECALL_SPACES;
            let searched =
                format!("of messages, only those in your {most} most recently active spaces were searched");
            reply["searched"] = json!(searched + "; name a `space` to search another");
        }
        // Finding a memory is a use of it.
        let kept = found.excerpts.iter().filter(|excerpt| excerpt.kind == RecallKind::Memory);
        let used = kept.filter_map(|excerpt| Some(MemoryChange::Used { key: excerpt.key.clone()? }));
        let inward = Inward { memories: used.collect(), ..Inward::default() };
        let trust = found.excerpts.iter().map(|excerpt| excerpt.trust.unwrap_or_default()).min();
        Ok(quoting(&reply, trust, inward))
    }
}

fn refused(error: RecallError) -> ToolError {
    match error {
        RecallError::Store(error) => unreadable(error),
        RecallError::NoSuchSpace { named, searchable } => {
            let spaces = match searchable.is_empty() {
                true => "none; leave out `space`".to_owned(),
                false => listed(searchable.iter().map(|name| format!("`{name}`"))),
            };
            let wanted = "wanted a space that you are a member of or have processed something of";
            ToolError::new(format!("{wanted}, got `{}`; you can search: {spaces}", cut(&named)))
        }
    }
}

/// One excerpt, as the model reads it.
fn line(found: &Excerpt) -> Value {
    let mut line = json!({"at": found.at, "kind": found.kind});
    let mut add = |key: &str, value: Option<Value>| value.into_iter().for_each(|value| line[key] = value);
    add("cycle", found.cycle.map(|cycle| json!(cycle)));
    add("key", found.key.as_ref().map(|key| json!(key)));
    add("space", found.space_handle.as_ref().map(|space| json!(space)));
    add("trust", found.trust.map(|trust| json!(trust)));
    add("text", Some(json!(found.text)));
    line
}

fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ToolError> {
    text.map(|text| time_limit(name, text)).transpose().map_err(ToolError::new)
}

/// Arguments of `read_cycle`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadCycleArgs {
    cycle: String,
}

/// `read_cycle`.
pub(crate) struct ReadCycle;

impl PrebuiltTool for ReadCycle {
    type Args = ReadCycleArgs;
    const NAME: &'static str = names::READ_CYCLE;
    const DESCRIPTION: &'static str = "Read one of your past cycles, by number or id.";
    const LABELS: &'static [ToolLabel] = &[ToolLabel::Private];

    async fn run(args: ReadCycleArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let none = || {
            let ids = "`recall` and `get_my_runs` return ids of cycles, and a summary their numbers";
            ToolError::new(format!("you have no such cycle: {ids}"))
        };
        let cycle: CycleRef = args.cycle.parse().map_err(|()| none())?;
        let entries = context.lookup.cycle(context.agent, cycle).await.map_err(unreadable)?;
        let Some(first) = entries.first() else { return Err(none()) };
        let room = limits::OUTCOME_SHOWN_MAX_BYTES - FRAME_BYTES;
        let shown = take_fitting(entries.iter().map(entry_line), room);
        let left_out = entries.len() - shown.len();
        let mut reply = json!({"cycle": first.cycle, "at": first.at, "entries": shown});
        if left_out > 0 {
            reply["left_out"] = json!(left_out);
        }
        let trust = entries.iter().map(|entry| entry.trust).min();
        Ok(quoting(&reply, trust, Inward::default()))
    }
}

fn entry_line(entry: &Entry) -> Value {
    let part = |part: &Part| {
        let text = match part {
            Part::Text { text } => text.clone(),
            Part::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
            Part::ToolResult { name, text, .. } => format!("{name}: {text}"),
            Part::Reasoning { .. } | Part::Image { .. } | Part::File { .. } => return None,
        };
        (!text.is_empty()).then(|| head_and_tail(&text, PART_SHOWN_BYTES))
    };
    let parts: Vec<String> = entry.message.parts.iter().filter_map(part).collect();
    json!({"step": entry.step, "kind": entry.kind, "text": parts.join("\n")})
}
