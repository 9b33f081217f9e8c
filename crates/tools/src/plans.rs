//! `set_plans`, `delete_plans` and `set_reminder`: when the agent is woken again, without anybody else. Its workspace
//! shows its plans with their ids and next times. `set_plans` makes all its changes or none; `delete_plans` fails only if no
//! id exists. Plans of an operator or of the agent's config are shown to it, and only they change them.

use agent::changes::{Inward, PlanChange};
use agent::id::PlanId;
use agent::limits;
use agent::plan::{self, Plan, PlanSource, PlanTerms};
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::cut;
use crate::space_ref::listed;
use crate::typed::{PrebuiltTool, done, put_listed};

/// The name of a plan that `set_reminder` sets.
const REMINDER: &str = "reminder";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct PlanArg {
    id: Option<String>,
    name: Option<String>,
    /// What to do then.
    instruction: Option<String>,
    /// RFC 3339.
    at: Option<String>,
    /// As `30m` or `1d`.
    after: Option<String>,
    every: Option<String>,
    /// 5 fields.
    cron: Option<String>,
    /// Default: UTC.
    zone: Option<String>,
}

impl PlanArg {
    fn terms(self) -> PlanTerms {
        let Self { id: _, name, instruction, at, after, every, cron, zone } = self;
        PlanTerms { name, instruction, at, after, every, cron, zone, ..PlanTerms::default() }
    }
}

/// Arguments of `set_plans`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetPlansArgs {
    #[schemars(length(min = 1, max = limits::PLANS_PER_CALL))]
    plans: Vec<PlanArg>,
}

/// `set_plans`.
pub(crate) struct SetPlans;

impl PrebuiltTool for SetPlans {
    type Args = SetPlansArgs;
    const NAME: &'static str = "set_plans";
    const DESCRIPTION: &'static str = "Wake yourself later: once (`at`, `after`) or again and again (`every`, `cron`). \
         With `id`, only the given fields change.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: SetPlansArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let before = current_plans(&context);
        let (mut changes, mut created, mut updated) = (Vec::new(), Vec::new(), Vec::new());
        for (index, arg) in args.plans.into_iter().enumerate() {
            let so_far = plan::amended(&before, &changes);
            let known = match arg.id.as_deref().map(str::trim).filter(|id| !id.is_empty()) {
                Some(text) => Some(own(&so_far, text).map_err(nothing_set)?),
                None => None,
            };
            let id = known.map_or_else(|| PlanId::of_call(context.call, index), |known| known.id);
            let set = arg.terms().plan(id, known, PlanSource::Agent, context.now);
            let set = set.map_err(|why| nothing_set(format!("plan {}: {why}", index + 1)))?;
            let shown = json!({"id": id, "name": cut(&set.name), "next": set.next_at});
            if known.is_some() { &mut updated } else { &mut created }.push(shown);
            changes.push(PlanChange::Set(set));
        }
        reply_of(&before, changes, [("created", created), ("updated", updated)])
    }
}

/// Arguments of `set_reminder`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetReminderArgs {
    reason: String,
    /// As `30m` or `1d`.
    after: String,
}

/// `set_reminder`.
pub(crate) struct SetReminder;

impl PrebuiltTool for SetReminder {
    type Args = SetReminderArgs;
    const NAME: &'static str = "set_reminder";
    const DESCRIPTION: &'static str = "Wake yourself once.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: SetReminderArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        if args.reason.trim().is_empty() {
            return Err(nothing_set("a reminder needs its `reason`".to_owned()));
        }
        let id = PlanId::of_call(context.call, 0);
        let terms = PlanTerms {
            name: Some(REMINDER.to_owned()),
            instruction: Some(args.reason),
            after: Some(args.after),
            ..PlanTerms::default()
        };
        let set = terms.plan(id, None, PlanSource::Agent, context.now);
        let set = set.map_err(|why| nothing_set(why.to_string()))?;
        let created = vec![json!({"id": id, "next": set.next_at})];
        reply_of(&current_plans(&context), vec![PlanChange::Set(set)], [("created", created)])
    }
}

/// The reply to a call that has set plans, unless they would be too many.
fn reply_of<const N: usize>(
    before: &[Plan],
    changes: Vec<PlanChange>,
    shown: [(&str, Vec<Value>); N],
) -> Result<Done, ToolError> {
    let after = plan::amended(before, &changes);
    let counted = plan::counted(&after);
    if counted > limits::PLANS_MAX && counted > plan::counted(before) {
        let max = limits::PLANS_MAX;
        return Err(nothing_set(format!(
            "wanted at most {max} plans in all, these would make {counted}; delete some with delete_plans first"
        )));
    }
    let mut reply = json!({"success": true});
    for (name, list) in shown.into_iter().filter(|(_, list)| !list.is_empty()) {
        reply[name] = Value::Array(list);
    }
    reply["total"] = json!(after.len());
    Ok(done(&reply, Inward { plans: changes, ..Inward::default() }))
}

/// Arguments of `delete_plans`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeletePlansArgs {
    #[schemars(length(min = 1, max = limits::PLANS_MAX))]
    ids: Vec<String>,
}

/// `delete_plans`.
pub(crate) struct DeletePlans;

impl PrebuiltTool for DeletePlans {
    type Args = DeletePlansArgs;
    const NAME: &'static str = "delete_plans";
    const DESCRIPTION: &'static str = "Delete plans.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: DeletePlansArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let before = current_plans(&context);
        let (mut deleted, mut refused): (Vec<PlanId>, Vec<String>) = (Vec::new(), Vec::new());
        for text in &args.ids {
            match own(&before, text) {
                Ok(plan) if deleted.contains(&plan.id) => {}
                Ok(plan) => deleted.push(plan.id),
                Err(why) if refused.contains(&why) => {}
                Err(why) => refused.push(why),
            }
        }
        if deleted.is_empty() {
            return Err(ToolError::new(refused.join("; ")));
        }
        let mut reply = json!({"success": true, "deleted": deleted});
        if !refused.is_empty() {
            put_listed(&mut reply, "not_deleted", &refused);
        }
        reply["total"] = json!(before.len() - deleted.len());
        let plans = deleted.into_iter().map(PlanChange::Delete).collect();
        Ok(done(&reply, Inward { plans, ..Inward::default() }))
    }
}

/// The agent's plans, including the changes of earlier calls in this step.
fn current_plans(context: &ToolContext<'_>) -> Vec<Plan> {
    plan::amended(&context.facts.plans, &context.pending.plans)
}

/// The plan of that id, which the agent itself must have set.
fn own<'a>(known: &'a [Plan], text: &str) -> Result<&'a Plan, String> {
    let id: Option<PlanId> = text.trim().parse().ok();
    match known.iter().find(|plan| Some(plan.id) == id) {
        Some(plan) if plan.source == PlanSource::Agent => Ok(plan),
        Some(plan) => Err(format!(
            "the plan `{}` ({}) was set by an operator, and only an operator changes it",
            plan.id,
            Value::from(cut(&plan.name))
        )),
        None => Err(format!("no plan of yours has the id `{}`; {}", cut(text.trim()), plans_text(known))),
    }
}

fn nothing_set(why: String) -> ToolError {
    ToolError::new(format!("nothing was set: {why}"))
}

/// The agent's plans as text.
fn plans_text(known: &[Plan]) -> String {
    if known.is_empty() {
        return "you have no plans".to_owned();
    }
    let shown = known.iter().map(|plan| format!("`{}` ({})", plan.id, Value::from(cut(&plan.name))));
    format!("your plans: {}", listed(shown))
}
