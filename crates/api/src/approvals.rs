//! The JSON of calls that wait for people, and of their answers.

use agent::approval::{ApprovalRule, ApprovalState, AskKind};
use agent::call::{CallRow, OutcomeStatus, head_and_tail};
use agent::id::{AgentId, CallId, EntityId, SpaceId};
use agent::limits;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::names;

/// A call that waits, or has waited, for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Approval)]
pub struct ApprovalJson {
    /// Id of the call.
    pub call: CallId,
    /// Id of the agent.
    pub agent: AgentId,
    /// Handle of the agent.
    pub agent_handle: String,
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool for which the call was made.
    pub version: String,
    /// The exact arguments, as JSON text.
    pub arguments: String,
    /// What is asked for.
    #[schema(value_type = names::AskKind)]
    pub kind: AskKind,
    /// Whether the agent asks this itself. Otherwise the call runs once it is approved.
    pub question: bool,
    /// Why somebody is asked, or the question.
    pub why: String,
    /// Who caused the call: handles of members, names of hooks, or what event it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_by: Vec<String>,
    /// What the model wrote beside the call; only with an operator's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// The options of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The JSON Schema of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
    /// Hash of tool, version and arguments. An answer may name it, and then counts only for this call.
    pub hash: String,
    /// Whether the agent had read strangers' text when it made the call.
    pub tainted: bool,
    /// The space whose people may answer; `null`: only operators may.
    pub space: Option<SpaceId>,
    /// The only people who may answer, apart from operators; empty: all people of the space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<EntityId>,
    /// Handles of the only people who might answer, apart from operators, by the agent's config when it was asked; its config of
    /// now decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approver_handles: Vec<String>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When its cycle goes on without an answer.
    pub detach_at: Timestamp,
    /// When it is too late for an answer.
    pub expires_at: Timestamp,
    /// What became of it.
    #[schema(value_type = names::ApprovalState)]
    pub state: ApprovalState,
    /// Who answered; left out if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
    /// What that person said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's arguments, if that person has changed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_arguments: Option<String>,
    /// How the call ended; left out if there is no outcome yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::OutcomeStatus>)]
    pub status: Option<OutcomeStatus>,
    /// Outcome as the agent reads it. A long text is cut to its beginning and end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// A link with which anybody can answer the call, once; only if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Only in the reply to an answer with `remember_until`: whether a person is asked about further calls all the same, as long
    /// as strangers' text is in what the agent reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_asks: Option<bool>,
}

impl ApprovalJson {
    /// The JSON of a row of that agent; `None` if it never waited for a person.
    pub fn of(agent: AgentId, agent_handle: String, row: CallRow) -> Option<Self> {
        let asked = *row.approval?;
        let bound = |text: &str| head_and_tail(text, limits::TOOL_SHOWN_MAX_BYTES);
        let (by, answered_at) = asked.by.map(|by| (by.name, by.at)).unzip();
        Some(Self {
            call: row.id,
            agent,
            agent_handle,
            tool: row.tool,
            version: row.tool_version,
            arguments: row.arguments,
            kind: asked.kind,
            question: asked.question,
            why: asked.why,
            requested_by: asked.requested_by.into_iter().map(|by| by.name).collect(),
            said: asked.said,
            options: asked.options,
            schema: asked.schema,
            hash: asked.hash,
            tainted: asked.tainted,
            space: asked.space,
            people: asked.people,
            approver_handles: asked.approvers,
            asked_at: asked.asked_at,
            detach_at: asked.detach_at,
            expires_at: asked.expires_at,
            state: asked.state,
            by,
            answered_at,
            reason: asked.reason,
            asked_arguments: asked.asked_arguments,
            status: row.outcome.as_ref().map(|outcome| outcome.status),
            outcome: row.outcome.as_ref().map(|outcome| bound(&outcome.text)),
            link: None,
            guard_asks: None,
        })
    }
}

/// An answer to a call: `verdict`, or `answer` to a question of another kind than `approval`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CallAnswer)]
pub struct CallAnswerJson {
    /// `approve` or `refuse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::AnswerVerdict>)]
    pub verdict: Option<String>,
    /// One of the options of a choice, a value that fits the schema of a form, or a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// What the agent reads about it, at most 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `approve`: other arguments than the agent's. They must fit the tool's schema; the agent reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Box<RawValue>>,
    /// With `approve`: until then, calls of this tool by this agent need no approval, except while the agent has read
    /// strangers' text. At most a year ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember_until: Option<Timestamp>,
    /// With `remember_until`: also while the agent has read strangers' text. Only with an admin key. Default: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember_tainted: Option<bool>,
    /// The `hash` of what was shown. If the call is another one by now, the answer does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// With an admin key: the id or handle of the person who answers. Default: an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

/// Whether a call is returned with a link to it.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ApprovalLinkQuery {
    /// Also return a link with which anybody can answer the call, once. Only with an admin key, and if the server has a
    /// `public_url`. Default: `false`.
    pub link: Option<bool>,
}

/// An answer as the page behind a link sends it: a verdict, or an option of a choice.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkAnswer)]
pub struct LinkAnswerForm {
    /// `approve`, `refuse`, or `answer` with a `text`.
    #[serde(default)]
    pub verdict: Option<String>,
    /// The position of an option of a choice, from 0.
    #[serde(default)]
    pub option: Option<usize>,
    /// The answer to a question: a text, or JSON for a form.
    #[serde(default)]
    pub text: Option<String>,
    /// What the agent reads about it, at most 8 KiB.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A rule: calls of a tool by an agent need no approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ApprovalRule)]
pub struct ApprovalRuleJson {
    /// Id of the agent.
    pub agent: AgentId,
    /// Handle of the agent.
    pub agent_handle: String,
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool for which it was given. Of another one it approves nothing.
    pub version: String,
    /// The space for whose calls a person gave it; `null`: for all by an operator, or by a person for those without a space.
    pub space: Option<SpaceId>,
    /// Handle of that space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_handle: Option<String>,
    /// Until when.
    pub until: Timestamp,
    /// Whether it also counts while the agent has read strangers' text.
    pub tainted: bool,
    /// Whether a person is asked all the same now: strangers' text is in what the agent reads, and the rule is not for that.
    pub guard_asks: bool,
    /// Who gave it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl ApprovalRuleJson {
    /// The JSON of a rule of an agent, in whose view strangers' text now is or is not.
    pub fn of(
        rule: ApprovalRule,
        agent_handle: String,
        space_handle: Option<String>,
        strangers: bool,
    ) -> Self {
        let guard_asks = rule.is_overruled(strangers);
        let ApprovalRule { agent, tool, version, space, until, tainted, by, person: _, at } = rule;
        Self { agent, agent_handle, tool, version, space, space_handle, until, tainted, guard_asks, by, at }
    }
}
