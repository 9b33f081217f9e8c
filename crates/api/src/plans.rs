//! The JSON of plans.

use agent::event::Trust;
use agent::id::PlanId;
use agent::plan::{Missed, Plan, PlanSource, PlanTerms, Schedule};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names;

/// A plan: when an agent is woken, and what it does then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Plan)]
pub struct PlanJson {
    /// Id of the plan.
    pub id: PlanId,
    /// Its name.
    pub name: String,
    /// What the agent does when it fires.
    pub instruction: String,
    /// When it fires: `kind` is `at` (with `at`), `after` (with `at` and `after_ms`), `every` (with `every_ms` and `from`), `cron` (with `expression` and
    /// `zone`), or `hours` of a heartbeat (with `every_ms`, `from`, `to` and `zone`).
    #[schema(value_type = Object)]
    pub schedule: Schedule,
    /// What becomes of times at which it could not fire: `once`, `skip` or `all`.
    #[schema(value_type = names::Missed)]
    pub missed: Missed,
    /// A time at which it could not fire within so many milliseconds is dropped. Left out if there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_late_ms: Option<u64>,
    /// When it fires next; `null` once it never fires again.
    pub next_at: Option<Timestamp>,
    /// Who has set it.
    #[schema(value_type = names::PlanSource)]
    pub source: PlanSource,
    /// The lowest trust of what had been read when it was set.
    #[schema(value_type = names::Trust)]
    pub trust: Trust,
}

copied!(plan: Plan => PlanJson {
    ..plan => { id, name, instruction, schedule, missed, max_late_ms, next_at, source, trust }
});

/// The plan to set. Of `at`, `after`, `every` and `cron` there must be exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPlan)]
pub struct NewPlanJson {
    /// Its name, at most 120 bytes.
    #[schema(example = "daily report")]
    pub name: String,
    /// What the agent does when it fires, at most 4 KiB.
    #[schema(example = "Post a summary of yesterday.")]
    pub instruction: String,
    /// Once, at this time: RFC 3339, or a local time in `zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Once, after this span, such as `30m` or `1d 12h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Again and again, after this span, at least `1m`. A day is 24 hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The time from which `every` counts. Default: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Again and again, by a cron expression of five fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "30 9 * * 1-5")]
    pub cron: Option<String>,
    /// The IANA time zone of `cron`, and of times without an offset. Default for `cron`: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub zone: Option<String>,
    /// What becomes of times at which it cannot fire: `once` (one event lists them), `skip` or `all` (an event for each).
    /// Default: `once`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<names::Missed>)]
    pub missed: Option<Missed>,
    /// How late it may fire, as a span. Default: as late as it may be; with `skip` one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lateness: Option<String>,
}

impl From<NewPlanJson> for PlanTerms {
    fn from(new: NewPlanJson) -> Self {
        let NewPlanJson { name, instruction, at, after, every, from, cron, zone, missed, max_lateness } = new;
        let (name, instruction) = (Some(name), Some(instruction));
        Self { name, instruction, at, after, every, from, cron, zone, missed, max_lateness }
    }
}
