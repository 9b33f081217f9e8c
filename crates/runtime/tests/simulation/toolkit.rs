//! Tools of each effect, quick and slow, good and bad, and the ledger of what they did outside.
//!
//! This module must not know who calls them.

use std::sync::Arc;
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::{Inward, PlanChange};
use agent::id::{CallId, PlanId};
use agent::life::{Plan, Schedule};
use agent::limits;
use agent::port::{BoxFuture, Done, Ids as _, Tool, ToolContext, ToolError, ToolSpec, Toolbox};
use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::disk::wait;
use crate::nature::{Nature, Pulse};

#[derive(Clone, Copy, PartialEq)]
enum Deed {
    /// Does what it does, after so long at most.
    Work(u64),
    Fail,
    Panic,
    /// Sets a plan.
    Alarm,
}

struct WorldTool {
    spec: ToolSpec,
    deed: Deed,
    nature: Arc<Nature>,
    pulse: Arc<Pulse>,
}

/// The prebuilt tools and those of this world, as one process has them.
pub(crate) struct Toolkit {
    prebuilt: Arc<dyn Toolbox>,
    own: Vec<Arc<dyn Tool>>,
}

impl Toolkit {
    pub(crate) fn new(nature: &Arc<Nature>, pulse: &Arc<Pulse>) -> Self {
        let (look, put, fire) = (Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe);
        let (quick, slow) = (Deed::Work(400), Deed::Work(90_000));
        let hour = Duration::from_secs(3_600);
        let rows = [
            ("look", look, quick, None),
            ("put", put, quick, None),
            ("fire", fire, quick, None),
            ("nap_look", look, slow, None),
            ("nap_put", put, slow, None),
            ("nap_fire", fire, slow, None),
            ("errand", put, slow, Some(hour)),
            ("order", fire, slow, Some(hour)),
            ("fail", fire, Deed::Fail, None),
            ("boom", fire, Deed::Panic, None),
            ("alarm", Effect::Inward, Deed::Alarm, None),
        ];
        let own = rows.map(|(name, effect, deed, asynchronous)| {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                schema: Arc::new(json!({"type": "object"})),
                effect,
                visible: matches!(name, "nap_put" | "order"),
                timeout: asynchronous.unwrap_or(Duration::from_millis(limits::TOOL_TIMEOUT_MS)),
                asynchronous: asynchronous.is_some(),
                version: "1".to_owned(),
            };
            let (nature, pulse) = (Arc::clone(nature), Arc::clone(pulse));
            Arc::new(WorldTool { spec, deed, nature, pulse }) as Arc<dyn Tool>
        });
        Self { prebuilt: Arc::new(tools::prebuilt()), own: own.into() }
    }
}

impl Toolbox for Toolkit {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.prebuilt.tool(name).or_else(|| self.own.iter().find(|tool| tool.spec().name == name).cloned())
    }

    fn names(&self) -> Vec<String> {
        let own = self.own.iter().map(|tool| tool.spec().name.clone());
        self.prebuilt.names().into_iter().chain(own).collect()
    }

    /// All of them: no agent of this world names any.
    fn is_prebuilt(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }
}

impl WorldTool {
    async fn act(&self, arguments: Value, call: CallId) -> Result<Done, ToolError> {
        let nature = &self.nature;
        self.pulse.beat().await;
        match self.deed {
            Deed::Fail => return Err(ToolError::new("it never works")),
            // By no hook, so that a panic which nobody meant is heard.
            Deed::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            Deed::Alarm => return Ok(self.alarm(&arguments)),
            Deed::Work(most) => {
                let most = if nature.is_calm() { 1_000 } else { most };
                let (before, after) = (nature.dice.below(most), nature.dice.below(most));
                wait(nature, before).await;
                self.pulse.beat().await;
                if self.spec.effect != Effect::ReadOnly {
                    nature.note("effect", &format!("{} {}", self.spec.name, call.0));
                    let mut effects = nature.effects.lock().unwrap();
                    let effect = effects.entry(call.clone()).or_default();
                    effect.begun += 1;
                    effect.repeatable = self.spec.effect == Effect::Idempotent;
                }
                wait(nature, after).await;
                self.pulse.beat().await;
            }
        }
        Ok(Done { outcome: Outcome::ok("{\"success\":true}"), inward: Inward::default() })
    }

    fn alarm(&self, arguments: &Value) -> Done {
        let (nature, minutes) = (&self.nature, arguments["minutes"].as_i64().unwrap_or(1));
        let now = agent::port::Clock::now(&nature.clock);
        let at = now + SignedDuration::from_mins(minutes) + SignedDuration::from_secs(1);
        let schedule = match arguments["again"].as_bool() {
            Some(true) => {
                Schedule::Cron { expression: "*/15 * * * *".to_owned(), zone: "Europe/Berlin".to_owned() }
            }
            _ => Schedule::At { at },
        };
        let next_at = agent::plan::next_after(&schedule, now).ok();
        // Where the same happens again and again it is the same plan.
        let id = PlanId(if nature.steady { Uuid::nil() } else { nature.ids.uuid() });
        let (name, instruction) = ("alarm".to_owned(), "see to it".to_owned());
        let plan = Plan { id, name, instruction, schedule, next_at };
        let inward = Inward { plans: vec![PlanChange::Set(plan)], ..Inward::default() };
        Done { outcome: Outcome::ok("{\"success\":true}"), inward }
    }
}

impl Tool for WorldTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
        match value.get("wrong") {
            Some(_) => Err("wanted anything but `wrong`".to_owned()),
            None => Ok(value),
        }
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(self.act(arguments, context.call.clone()))
    }
}
