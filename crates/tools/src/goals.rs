//! `set_goals` and `delete_goals`: the agent's goals, a tree that its workspace shows with ids in every
//! activation. `set_goals` makes all its changes or none; `delete_goals` fails only if no id exists.

use std::collections::HashMap;

use agent::changes::{GoalChange, Inward};
use agent::goals::{self, BadGoals, Branch};
use agent::id::GoalId;
use agent::life::{Goal, GoalStatus};
use agent::limits;
use agent::port::{Done, ToolContext, ToolError};
use agent::tool::ToolLabel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::cut;
use crate::space_ref::listed;
use crate::typed::{PrebuiltTool, done, put_listed};

/// The `parent_id` of a goal without a parent.
const NO_PARENT: &str = "none";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct GoalArg {
    id: Option<String>,
    /// A label, for `parent_id` of other goals in this call.
    r#ref: Option<String>,
    /// Required for a new goal.
    description: Option<String>,
    /// Default: active.
    status: Option<StatusArg>,
    /// 1 to 10 (most important); default 5.
    #[schemars(range(min = 1, max = limits::GOAL_PRIORITY_MAX))]
    priority: Option<i32>,
    /// Id or `ref` of the parent goal, or `none`.
    parent_id: Option<String>,
}

/// A [`GoalStatus`] as the model writes it.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum StatusArg {
    Active,
    Completed,
    Abandoned,
}

impl From<StatusArg> for GoalStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Active => Self::Active,
            StatusArg::Completed => Self::Completed,
            StatusArg::Abandoned => Self::Abandoned,
        }
    }
}

/// Arguments of `set_goals`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetGoalsArgs {
    #[schemars(length(min = 1, max = limits::GOALS_PER_CALL))]
    goals: Vec<GoalArg>,
}

/// `set_goals`.
pub(crate) struct SetGoals;

impl PrebuiltTool for SetGoals {
    type Args = SetGoalsArgs;
    const NAME: &'static str = "set_goals";
    const DESCRIPTION: &'static str =
        "Create or change goals; you see them when you wake up. With `id`, only the given fields change.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: SetGoalsArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let before = current_goals(&context);
        let batch = Batch::read(&args.goals, &context, &before).map_err(nothing_set)?;
        let mut changes = Vec::with_capacity(args.goals.len());
        for (arg, id) in args.goals.iter().zip(&batch.ids) {
            let so_far = goals::amended(&before, &changes);
            let goal = batch.goal(arg, *id, &so_far).map_err(nothing_set)?;
            changes.push(GoalChange::Set(goal));
        }
        let after = goals::amended(&before, &changes);
        goals::check(&after).map_err(|bad| nothing_set(explain(&bad, &after)))?;
        let (mut created, mut updated) = (Vec::new(), Vec::new());
        for (arg, id) in args.goals.iter().zip(&batch.ids) {
            if given(arg.id.as_ref()).is_some() {
                updated.push(json!(id));
            } else {
                created.push(match given(arg.r#ref.as_ref()) {
                    Some(label) => json!({"id": id, "ref": cut(label)}),
                    None => {
                        json!({"id": id, "description": cut(arg.description.as_deref().unwrap_or_default())})
                    }
                });
            }
        }
        let mut reply = json!({"success": true});
        for (name, list) in [("created", created), ("updated", updated)] {
            if !list.is_empty() {
                reply[name] = Value::Array(list);
            }
        }
        reply["total"] = json!(after.len());
        Ok(done(&reply, Inward { goals: changes, ..Inward::default() }))
    }
}

/// The ids and labels of the goals in one call.
struct Batch<'a> {
    /// The ids, in the order of the call.
    ids: Vec<GoalId>,
    /// The ids of goals with a label.
    labels: HashMap<&'a str, GoalId>,
}

impl<'a> Batch<'a> {
    /// Assigns the ids. Those of new goals derive from the call, so that a repeated call creates the same ids.
    fn read(args: &'a [GoalArg], context: &ToolContext<'_>, known: &[Goal]) -> Result<Self, String> {
        let mut batch = Self { ids: Vec::with_capacity(args.len()), labels: HashMap::new() };
        for (index, arg) in args.iter().enumerate() {
            let id = match given(arg.id.as_ref()) {
                Some(text) => find(known, text).ok_or_else(|| {
                    let text = cut(text);
                    let yours = goals_text(known);
                    format!("no goal of yours has the id `{text}` (leave `id` out to make a goal); {yours}")
                })?,
                None => GoalId::of_call(context.call, index),
            };
            if let Some(label) = given(arg.r#ref.as_ref())
                && batch.labels.insert(label, id).is_some()
            {
                return Err(format!("two goals have the `ref` `{}`", cut(label)));
            }
            batch.ids.push(id);
        }
        Ok(batch)
    }

    /// The goal after the call.
    fn goal(&self, arg: &GoalArg, id: GoalId, so_far: &[Goal]) -> Result<Goal, String> {
        let before = so_far.iter().find(|goal| goal.id == id);
        let description = match (&arg.description, before) {
            (Some(text), _) => checked_description(text)?,
            (None, Some(before)) => before.description.clone(),
            (None, None) => return Err("a new goal needs a `description`".to_owned()),
        };
        let parent = match given(arg.parent_id.as_ref()) {
            None => before.and_then(|before| before.parent),
            Some(NO_PARENT) => None,
            Some(text) => Some(self.parent(text, so_far)?),
        };
        let status = arg.status.map(GoalStatus::from).or(before.map(|before| before.status));
        let priority = arg.priority.or(before.map(|before| before.priority));
        Ok(Goal {
            id,
            parent,
            description,
            priority: priority.unwrap_or(limits::GOAL_PRIORITY_DEFAULT),
            status: status.unwrap_or(GoalStatus::Active),
            trust: agent::event::Trust::default(),
        })
    }

    fn parent(&self, text: &str, known: &[Goal]) -> Result<GoalId, String> {
        let found = self.labels.get(text).copied().or_else(|| find(known, text));
        found.ok_or_else(|| {
            let text = cut(text);
            let yours = goals_text(known);
            format!("no goal of yours has the id and none of this call the `ref` `{text}`, wanted as `parent_id`; {yours}")
        })
    }
}

/// Arguments of `delete_goals`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteGoalsArgs {
    #[schemars(length(min = 1, max = limits::GOALS_MAX))]
    ids: Vec<String>,
}

/// `delete_goals`.
pub(crate) struct DeleteGoals;

impl PrebuiltTool for DeleteGoals {
    type Args = DeleteGoalsArgs;
    const NAME: &'static str = "delete_goals";
    const DESCRIPTION: &'static str =
        "Delete goals and their sub-goals. If one was reached or given up, set its `status` instead.";
    const LABELS: &'static [ToolLabel] = &[];

    async fn run(args: DeleteGoalsArgs, context: ToolContext<'_>) -> Result<Done, ToolError> {
        let before = current_goals(&context);
        let (mut deleted, mut not_found): (Vec<GoalId>, Vec<String>) = (Vec::new(), Vec::new());
        for text in &args.ids {
            let Some(id) = find(&before, text) else {
                let text = cut(text.trim());
                if !not_found.contains(&text) {
                    not_found.push(text);
                }
                continue;
            };
            for id in std::iter::once(id).chain(goals::below(&before, id)) {
                if !deleted.contains(&id) {
                    deleted.push(id);
                }
            }
        }
        if deleted.is_empty() {
            let asked = listed(not_found.iter().map(|text| format!("`{text}`")));
            return Err(ToolError::new(format!(
                "no goal of yours has the id {asked}; {}",
                goals_text(&before)
            )));
        }
        let mut reply = json!({"success": true, "deleted": deleted});
        if !not_found.is_empty() {
            put_listed(&mut reply, "not_found", &not_found);
        }
        reply["total"] = json!(before.len() - deleted.len());
        let goals = deleted.into_iter().map(GoalChange::Delete).collect();
        Ok(done(&reply, Inward { goals, ..Inward::default() }))
    }
}

/// The agent's goals, including the changes of earlier calls in this step.
fn current_goals(context: &ToolContext<'_>) -> Vec<Goal> {
    goals::amended(&context.facts.goals, &context.pending.goals)
}

/// The goal of that id.
fn find(known: &[Goal], text: &str) -> Option<GoalId> {
    let id = text.trim().parse().ok()?;
    known.iter().any(|goal| goal.id == id).then_some(id)
}

/// An optional text. Some models send an empty text instead of none.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

fn checked_description(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("wanted a `description` with something in it, got only white space".to_owned());
    }
    if text.len() > limits::GOAL_DESCRIPTION_MAX_BYTES {
        let max = limits::GOAL_DESCRIPTION_MAX_BYTES;
        return Err(format!("wanted a `description` of at most {max} bytes, got {}", text.len()));
    }
    Ok(text.to_owned())
}

fn nothing_set(why: String) -> ToolError {
    ToolError::new(format!("nothing was set: {why}"))
}

/// The error for the model: why the goals are not valid, and what to do.
fn explain(bad: &BadGoals, goals: &[Goal]) -> String {
    let BadGoals::TooMany(_) = bad else { return bad.to_string() };
    let inactive: Vec<&Goal> = goals.iter().filter(|goal| goal.status != GoalStatus::Active).collect();
    if inactive.is_empty() {
        return format!("{bad}; delete some with delete_goals first");
    }
    let over = listed(inactive.into_iter().map(shown));
    format!("{bad}; delete some with delete_goals first, these are over: {over}")
}

/// The agent's goals as text, in the order of the tree.
fn goals_text(known: &[Goal]) -> String {
    if known.is_empty() {
        return "you have no goals".to_owned();
    }
    format!("your goals: {}", listed(goals::tree(known).into_iter().map(|Branch { goal, .. }| shown(goal))))
}

fn shown(goal: &Goal) -> String {
    let over = match goal.status {
        GoalStatus::Active => String::new(),
        over => format!(", {}", over.as_str()),
    };
    format!("`{}` ({}{over})", goal.id, Value::from(cut(&goal.description)))
}
