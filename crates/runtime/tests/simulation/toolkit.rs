//! Tools of each effect, fast and slow, working and failing, and the record of what they did outside.
//!
//! Must not know who calls them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::{Inward, PlanChange};
use agent::id::{CallId, PlanId};
use agent::limits;
use agent::plan::{Plan, Schedule};
use agent::port::{BoxFuture, CallGate, Done, Ids as _, Tool, ToolContext, ToolError, ToolSpec, Toolbox};
use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::disk::wait;
use crate::environment::{Environment, Liveness};

#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    /// Takes effect, after that many milliseconds at most.
    Work(u64),
    Fail,
    Panic,
    /// Sets a plan.
    Alarm,
}

struct WorldTool {
    spec: ToolSpec,
    behaviour: Behaviour,
    env: Arc<Environment>,
    liveness: Arc<Liveness>,
}

/// The prebuilt tools and those of this world, for one process.
pub(crate) struct Toolkit {
    prebuilt: Arc<dyn Toolbox>,
    own: Vec<Arc<dyn Tool>>,
}

impl Toolkit {
    pub(crate) fn new(env: &Arc<Environment>, liveness: &Arc<Liveness>) -> Self {
        let (look, put, fire) = (Effect::ReadOnly, Effect::Idempotent, Effect::Unsafe);
        let (quick, slow) = (Behaviour::Work(400), Behaviour::Work(90_000));
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
            ("fail", fire, Behaviour::Fail, None),
            ("boom", fire, Behaviour::Panic, None),
            ("alarm", Effect::Inward, Behaviour::Alarm, None),
        ];
        let own = rows.map(|(name, effect, behaviour, asynchronous)| {
            let spec = ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                schema: Arc::new(json!({"type": "object"})),
                effect,
                visible: matches!(name, "nap_put" | "order"),
                timeout: asynchronous.unwrap_or(Duration::from_millis(limits::TOOL_TIMEOUT_MS)),
                asynchronous: asynchronous.is_some(),
                version: "1".to_owned(),
                labels: agent::tool::ToolLabels::default(),
                worker: None,
                foreign: false,
                counted: OnceLock::new(),
            };
            let (env, liveness) = (Arc::clone(env), Arc::clone(liveness));
            Arc::new(WorldTool { spec, behaviour, env, liveness }) as Arc<dyn Tool>
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

    /// All tools are: no agent of this world configures tools.
    fn is_prebuilt(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }
}

impl WorldTool {
    async fn act(&self, arguments: Value, call: CallId, gate: &dyn CallGate) -> Result<Done, ToolError> {
        let env = &self.env;
        self.liveness.touch().await;
        match self.behaviour {
            Behaviour::Fail => return Err(ToolError::new("it never works")),
            // Without the panic hook, which counts unintended panics.
            Behaviour::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            Behaviour::Alarm => return Ok(self.alarm(&arguments)),
            Behaviour::Work(most) => {
                let most = if env.faults_ended() { 1_000 } else { most };
                let (before, after) = (env.dice.below(most), env.dice.below(most));
                wait(env, before).await;
                gate.may_begin().await?;
                self.liveness.touch().await;
                if self.spec.effect != Effect::ReadOnly {
                    env.note("effect", &format!("{} {}", self.spec.name, call.0));
                    let mut effects = env.effects.lock().unwrap();
                    let effect = effects.entry(call.clone()).or_default();
                    effect.begun += 1;
                    effect.repeatable = self.spec.effect == Effect::Idempotent;
                }
                wait(env, after).await;
                self.liveness.touch().await;
            }
        }
        Ok(Done { outcome: Outcome::ok("{\"success\":true}"), inward: Inward::default() })
    }

    fn alarm(&self, arguments: &Value) -> Done {
        let (env, minutes) = (&self.env, arguments["minutes"].as_i64().unwrap_or(1));
        let now = agent::port::Clock::now(&env.clock);
        let at = now + SignedDuration::from_mins(minutes) + SignedDuration::from_secs(1);
        let schedule = match arguments["again"].as_bool() {
            Some(true) => {
                Schedule::Cron { expression: "*/15 * * * *".to_owned(), zone: "Europe/Berlin".to_owned() }
            }
            _ => Schedule::At { at },
        };
        let next_at = agent::plan::next_after(&schedule, now).ok();
        // In the steady world it is always the same plan.
        let id = PlanId(if env.steady { Uuid::nil() } else { env.ids.uuid() });
        let (name, instruction) = ("alarm".to_owned(), "see to it".to_owned());
        let plan = Plan { next_at, ..Plan::new(id, &name, &instruction, schedule) };
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
        Box::pin(self.act(arguments, context.call.clone(), context.gate))
    }
}
