//! The JSON of workers: programs outside that run calls of tools.

use agent::call::Effect;
use agent::id::{AgentId, CallId, ClaimId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::names;

/// Asks for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerClaim {
    /// The tools that the worker runs, at most 32.
    pub tools: Vec<WorkerToolJson>,
    /// How long to wait for a call, in milliseconds: at most 25000, and that if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// A random UUID of the worker's own for the claim. If the answer is lost, asking again with it gives the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub claim: Option<ClaimId>,
}

/// A tool that a worker runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WorkerTool)]
pub struct WorkerToolJson {
    /// Name of the tool.
    pub name: String,
    /// The version in the tool's declaration; `1` if left out.
    #[serde(default = "first_version")]
    #[schema(default = "1")]
    pub version: String,
}

fn first_version() -> String {
    "1".to_owned()
}

/// A call for a worker to run. It must renew the claim within `lease_ms`, again and again, and finish the call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimedCall)]
pub struct ClaimedCallJson {
    /// Id of the call. It is also the idempotency key of the call's effect: the same each time the call is claimed.
    pub call: CallId,
    /// The right to answer the call.
    #[schema(value_type = String, format = Uuid)]
    pub claim: ClaimId,
    /// Agent that made the call.
    pub agent: AgentId,
    /// Name of the tool.
    pub tool: String,
    /// Arguments; they fit the tool's schema.
    #[schema(value_type = Object)]
    pub arguments: Value,
    /// Whether the call may be repeated. A call that may not is never given to another worker.
    #[schema(value_type = names::Effect)]
    pub effect: Effect,
    /// How often the call was claimed, this time included.
    pub times: u32,
    /// How long the claim holds from now unless it is renewed.
    pub lease_ms: u64,
}

/// Keeps a claimed call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRenewal {
    /// Id of the call.
    pub call: CallId,
    /// The claim.
    #[schema(value_type = String, format = Uuid)]
    pub claim: ClaimId,
}

/// How long a claim holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimLease {
    /// How long the claim holds from now unless it is renewed.
    pub lease_ms: u64,
}

/// Answers a claimed call: with `output`, or with `error` if it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"call": "c-7", "claim": "0199a1b2-0000-7000-8000-000000000001", "output": {"width": 80}}))]
pub struct ClaimAnswer {
    /// Id of the call.
    pub call: CallId,
    /// The claim.
    #[schema(value_type = String, format = Uuid)]
    pub claim: ClaimId,
    /// What the agent reads: a text, or any other JSON; `null` if there is nothing to say.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output: Option<Value>,
    /// Why it failed, as the agent reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `null` is an output, too.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimAnswered {
    /// Whether it is the outcome of the call now. `false` if the call was over before: the answer came twice, or the call
    /// was canceled.
    pub taken: bool,
}

/// The calls of a worker tool, and the programs that wait for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ToolWorkers)]
pub struct ToolWorkersJson {
    /// Requests of workers that wait for a call.
    pub waiting_workers: usize,
    /// Calls that no worker has claimed.
    pub unclaimed_calls: usize,
    /// Calls that workers have.
    pub claimed_calls: usize,
}
