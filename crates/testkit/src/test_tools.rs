//! In-process tools of each effect. Their counters outlive a runtime, so that they show what really
//! happened in the outside world even if the process that called the tool has died.
//!
//! This module must not know how the runtime calls tools; it only counts the calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use agent::call::{Effect, Outcome};
use agent::changes::Inward;
use agent::id::CallId;
use agent::limits;
use agent::port::{BoxFuture, CallGate, Done, Tool, ToolContext, ToolError, ToolSpec, Toolbox};
use agent::tool::names;
use serde_json::{Value, json};
use tokio::sync::watch;

/// What happened in the outside world under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// Calls that began.
    pub calls: u64,
    /// Effects that happened.
    pub effects: u64,
}

/// The outside world. Clones share it. One that is kept outside the runtime survives a crash.
#[derive(Clone, Debug, Default)]
pub struct Counters(Arc<Mutex<HashMap<(String, CallId), CallCount>>>);

impl Counters {
    /// A world in which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// What one call of a tool did, summed over all its attempts.
    pub fn of(&self, tool: &str, call: &CallId) -> CallCount {
        self.lock().get(&(tool.to_owned(), call.clone())).copied().unwrap_or_default()
    }

    /// Calls of a tool that began, repeats included.
    pub fn calls(&self, tool: &str) -> u64 {
        self.sum(tool, |count| count.calls)
    }

    /// Effects that a tool had.
    pub fn effects(&self, tool: &str) -> u64 {
        self.sum(tool, |count| count.effects)
    }

    /// The different keys under which a tool was called, sorted.
    pub fn keys(&self, tool: &str) -> Vec<CallId> {
        let mut keys: Vec<_> =
            self.lock().keys().filter(|(name, _)| name == tool).map(|(_, call)| call.clone()).collect();
        keys.sort();
        keys
    }

    fn sum(&self, tool: &str, what: impl Fn(&CallCount) -> u64) -> u64 {
        self.lock().iter().filter(|((name, _), _)| name == tool).map(|(_, count)| what(count)).sum()
    }

    fn change(&self, tool: &str, call: &CallId, how: impl FnOnce(&mut CallCount)) {
        how(self.lock().entry((tool.to_owned(), call.clone())).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, CallId), CallCount>> {
        // The counters stay readable after a tool panicked on purpose.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps calls of [`slow`] waiting until the test lets them end. Clones share it.
#[derive(Clone, Debug)]
pub struct ToolGate {
    begun: Arc<watch::Sender<u64>>,
    open: Arc<watch::Sender<bool>>,
}

impl ToolGate {
    /// A closed gate.
    pub fn closed() -> Self {
        Self { begun: Arc::new(watch::Sender::new(0)), open: Arc::new(watch::Sender::new(false)) }
    }

    /// Waits until `calls` calls have reached the gate; calls that passed it count too.
    pub async fn begun(&self, calls: u64) {
        let mut begun = self.begun.subscribe();
        // `self` holds the sender, so only the count can end the wait.
        let _ = begun.wait_for(|so_far| *so_far >= calls).await;
    }

    /// Lets all waiting and all later calls pass.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Makes all calls wait that arrive from now on.
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    async fn pass(&self) {
        self.begun.send_modify(|begun| *begun += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

/// What a tool does when it is called.
enum Behavior {
    Look,
    Put,
    Fire,
    Slow(ToolGate),
    Queued(ToolGate),
    Fail,
    Panic,
}

struct TestTool {
    spec: ToolSpec,
    behavior: Behavior,
    counters: Counters,
}

/// `look`: reads. Its calls are counted; it has no effects.
pub fn look(counters: &Counters) -> Arc<dyn Tool> {
    test_tool("look", "Reads the state of the outside world.", Effect::ReadOnly, Behavior::Look, counters)
}

/// `put`: writes once per key. Every call is counted; a repeat under the same key has no second effect.
pub fn put(counters: &Counters) -> Arc<dyn Tool> {
    let description = "Writes to the outside world; the same key writes once.";
    test_tool("put", description, Effect::Idempotent, Behavior::Put, counters)
}

/// `fire`: must not be repeated. Every call has an effect.
pub fn fire(counters: &Counters) -> Arc<dyn Tool> {
    test_tool("fire", "Does something that cannot be undone.", Effect::Unsafe, Behavior::Fire, counters)
}

/// `slow`: the call is counted when it begins, its effect when `gate` lets it end. A call that is
/// dropped before has no effect.
pub fn slow(counters: &Counters, effect: Effect, gate: &ToolGate) -> Arc<dyn Tool> {
    test_tool("slow", "Takes as long as it takes.", effect, Behavior::Slow(gate.clone()), counters)
}

/// `queued`: cannot be undone, and waits for its place until `gate` gives it one. Its call is counted when it begins.
pub fn queued(counters: &Counters, gate: &ToolGate) -> Arc<dyn Tool> {
    let description = "Does something that cannot be undone, when its turn comes.";
    test_tool("queued", description, Effect::Unsafe, Behavior::Queued(gate.clone()), counters)
}

/// `fail`: always fails, with one text for the model and another for the operator.
pub fn fail(counters: &Counters, effect: Effect) -> Arc<dyn Tool> {
    test_tool("fail", "Never works.", effect, Behavior::Fail, counters)
}

/// `panics`: always panics, as a tool with a bug does.
pub fn panics(counters: &Counters, effect: Effect) -> Arc<dyn Tool> {
    test_tool("panics", "Has a bug.", effect, Behavior::Panic, counters)
}

/// `tool` under another name, with calls that are shown in spaces.
pub fn visible(name: &str, tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
    let spec = ToolSpec { name: name.to_owned(), visible: true, ..tool.spec().clone() };
    with_spec(tool, spec)
}

/// `tool` under another name, as an asynchronous tool. Each call may take `timeout`.
pub fn asynchronous(name: &str, tool: Arc<dyn Tool>, timeout: Duration) -> Arc<dyn Tool> {
    let spec = ToolSpec { name: name.to_owned(), asynchronous: true, timeout, ..tool.spec().clone() };
    with_spec(tool, spec)
}

/// `tool` under that name, run by workers of version 1 in place of the server.
pub fn by_workers(name: &str, tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
    let (name, worker) = (name.to_owned(), Some("1".to_owned()));
    let spec = ToolSpec { name, worker, counted: OnceLock::new(), ..tool.spec().clone() };
    Arc::new(WithSpec { spec, tool })
}

/// `tool` with this specification.
pub fn with_spec(tool: Arc<dyn Tool>, spec: ToolSpec) -> Arc<dyn Tool> {
    Arc::new(WithSpec { spec, tool })
}

struct WithSpec {
    spec: ToolSpec,
    tool: Arc<dyn Tool>,
}

impl Tool for WithSpec {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        self.tool.check(arguments)
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        self.tool.call(arguments, context)
    }
}

fn test_tool(
    name: &str,
    description: &str,
    effect: Effect,
    behavior: Behavior,
    counters: &Counters,
) -> Arc<dyn Tool> {
    let schema = json!({
        "type": "object",
        "properties": {"note": {"type": "string", "description": "Given back in the reply."}},
        "additionalProperties": false,
    });
    let spec = ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: Arc::new(schema),
        effect,
        visible: false,
        timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        asynchronous: false,
        version: "1".to_owned(),
        labels: agent::tool::ToolLabels::default(),
        worker: None,
        foreign: false,
        counted: OnceLock::new(),
    };
    Arc::new(TestTool { spec, behavior, counters: counters.clone() })
}

impl TestTool {
    async fn act(
        &self,
        arguments: Value,
        call: &CallId,
        last_look: &dyn CallGate,
    ) -> Result<Done, ToolError> {
        let name = &self.spec.name;
        if let Behavior::Queued(gate) = &self.behavior {
            gate.pass().await;
        }
        last_look.may_begin().await?;
        self.counters.change(name, call, |count| count.calls += 1);
        match &self.behavior {
            Behavior::Look => {}
            Behavior::Put => self.counters.change(name, call, |count| count.effects = 1),
            Behavior::Fire | Behavior::Queued(_) => {
                self.counters.change(name, call, |count| count.effects += 1)
            }
            Behavior::Slow(gate) => {
                gate.pass().await;
                self.counters.change(name, call, |count| match self.spec.effect {
                    Effect::Inward | Effect::ReadOnly => {}
                    Effect::Idempotent => count.effects = 1,
                    Effect::Unsafe => count.effects += 1,
                });
            }
            Behavior::Fail => {
                let model = "`fail` never works; do something else".to_owned();
                return Err(ToolError { model, operator: Some("it fails on purpose".to_owned()) });
            }
            Behavior::Panic => panic!("`panics` panics on purpose"),
        }
        let mut reply = json!({"success": true, "key": call.0});
        if let Some(note) = arguments.get("note") {
            reply["note"] = note.clone();
        }
        Ok(Done { outcome: Outcome::ok(reply.to_string()), inward: Inward::default() })
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn check(&self, arguments: &str) -> Result<Value, String> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let value: Value = serde_json::from_str(text).map_err(|e| format!("wanted JSON: {e}"))?;
        let Some(given) = value.as_object() else {
            return Err("wanted a JSON object".to_owned());
        };
        match given.iter().find(|(name, value)| *name != "note" || !value.is_string()) {
            Some((name, _)) => Err(format!("wanted nothing but a text `note`, got `{name}`")),
            None => Ok(value),
        }
    }

    fn call<'a>(
        &'a self,
        arguments: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(self.act(arguments, context.call, context.gate))
    }
}

/// Another toolbox with additional test tools.
pub struct TestToolbox {
    inner: Arc<dyn Toolbox>,
    own: Vec<Arc<dyn Tool>>,
}

impl TestToolbox {
    /// `inner` without any test tools yet.
    pub fn new(inner: Arc<dyn Toolbox>) -> Self {
        Self { inner, own: Vec::new() }
    }

    /// `inner` with `look`, `put`, `fire`, `fail` and `panics` (these two unsafe).
    pub fn with_all(inner: Arc<dyn Toolbox>, counters: &Counters) -> Self {
        Self::new(inner)
            .with(look(counters))
            .with(put(counters))
            .with(fire(counters))
            .with(fail(counters, Effect::Unsafe))
            .with(panics(counters, Effect::Unsafe))
    }

    /// Adds a tool. Panics if the name is taken, because that is a mistake of the test.
    #[track_caller]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Self {
        let name = &tool.spec().name;
        assert!(self.tool(name).is_none(), "a tool `{name}` is there already");
        self.own.push(tool);
        self
    }
}

impl Toolbox for TestToolbox {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.inner.tool(name).or_else(|| self.own.iter().find(|tool| tool.spec().name == name).cloned())
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.inner.names();
        names.extend(self.own.iter().map(|tool| tool.spec().name.clone()));
        names
    }

    /// Every tool but that of people counts as prebuilt, because most tests use agents that name no tools.
    fn is_prebuilt(&self, name: &str) -> bool {
        name != names::ASK_PERSON && self.tool(name).is_some()
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        self.inner.fits(schema, value)
    }
}

/// A toolbox without tools, for tests that add their own.
pub struct EmptyToolbox;

impl Toolbox for EmptyToolbox {
    fn tool(&self, _name: &str) -> Option<Arc<dyn Tool>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_prebuilt(&self, _name: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::call::CallRow;
    use agent::entry::Entry;
    use agent::event::NamedMessage;
    use agent::id::{AgentId, CycleId, RootId, SpaceId};
    use agent::life::Facts;
    use agent::life::SpaceFacts;
    use agent::port::{CycleRef, Lookup, NoGate, Recall, RecallError, RecallQuery, Recalled, StoreError};
    use agent::run::Run;
    use futures_util::FutureExt;
    use jiff::Timestamp;
    use std::panic::AssertUnwindSafe;
    use uuid::Uuid;

    struct EmptyLookup;

    impl Recall for EmptyLookup {
        fn recall(&self, _: AgentId, _: RecallQuery) -> BoxFuture<'_, Result<Recalled, RecallError>> {
            Box::pin(async { Ok(Recalled::default()) })
        }

        fn cycle(&self, _: AgentId, _: CycleRef) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    impl Lookup for EmptyLookup {
        fn messages(
            &self,
            _agent: AgentId,
            _space: SpaceId,
            _before: Option<u64>,
            _limit: u32,
        ) -> BoxFuture<'_, Result<Option<(Vec<NamedMessage>, u64)>, StoreError>> {
            Box::pin(async { Ok(None) })
        }

        fn space(
            &self,
            _agent: AgentId,
            _id_or_name: String,
        ) -> BoxFuture<'_, Result<Option<SpaceFacts>, StoreError>> {
            Box::pin(async { Ok(None) })
        }

        fn call(&self, _: AgentId, _: CallId) -> BoxFuture<'_, Result<Option<CallRow>, StoreError>> {
            Box::pin(async { Ok(None) })
        }

        fn runs(&self, _agent: AgentId, _limit: u32) -> BoxFuture<'_, Result<Vec<Run>, StoreError>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    async fn call(tool: &Arc<dyn Tool>, key: &str, arguments: &str) -> Result<Done, ToolError> {
        let arguments = tool.check(arguments).map_err(ToolError::new)?;
        let (call, root) = (CallId(key.to_owned()), RootId("root".to_owned()));
        let (facts, pending) = (Facts::default(), Inward::default());
        let context = ToolContext {
            agent: AgentId(Uuid::from_u128(1)),
            cycle: CycleId(Uuid::from_u128(2)),
            call: &call,
            now: Timestamp::UNIX_EPOCH,
            active_space: None,
            root: &root,
            hop: 1,
            trust: agent::event::Trust::Agent,
            facts: &facts,
            pending: &pending,
            lookup: &EmptyLookup,
            gate: &NoGate,
        };
        tool.call(arguments, context).await
    }

    fn count(calls: u64, effects: u64) -> CallCount {
        CallCount { calls, effects }
    }

    #[tokio::test]
    async fn repeats_under_one_key_have_one_effect_only_if_the_tool_is_idempotent() {
        let world = Counters::new();
        for tool in [look(&world), put(&world), fire(&world)] {
            for key in ["a", "a", "b"] {
                call(&tool, key, "").await.unwrap();
            }
        }
        let of = |tool: &str| (world.calls(tool), world.effects(tool), world.keys(tool).len());
        assert_eq!((of("look"), of("put"), of("fire")), ((3, 0, 2), (3, 2, 2), (3, 3, 2)));
        assert_eq!(world.of("put", &CallId("a".into())), count(2, 1));
    }

    #[tokio::test]
    async fn a_slow_call_ends_when_the_gate_opens_and_a_dropped_one_has_no_effect() {
        let (world, gate) = (Counters::new(), ToolGate::closed());
        let tool = slow(&world, Effect::Unsafe, &gate);
        let waiting = tokio::spawn({
            let tool = Arc::clone(&tool);
            async move { call(&tool, "a", "").await }
        });
        gate.begun(1).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(world.of("slow", &CallId("a".into())), count(1, 0));
        gate.open();
        call(&tool, "b", "").await.unwrap();
        gate.begun(2).await;
        assert_eq!(world.of("slow", &CallId("b".into())), count(1, 1));
    }

    #[tokio::test]
    async fn failures_and_panics_are_counted_and_the_counters_stay_readable() {
        let world = Counters::new();
        let failed = call(&fail(&world, Effect::ReadOnly), "a", "").await.unwrap_err();
        assert_ne!(Some(failed.model), failed.operator);
        let tool = panics(&world, Effect::Unsafe);
        assert!(AssertUnwindSafe(call(&tool, "a", "")).catch_unwind().await.is_err());
        assert_eq!((world.calls("fail"), world.calls("panics")), (1, 1));
    }

    #[tokio::test]
    async fn a_note_is_returned_and_other_arguments_are_refused() {
        let tool = look(&Counters::new());
        assert!(call(&tool, "a", r#"{"note":"x"}"#).await.unwrap().outcome.text.contains(r#""note":"x""#));
        for bad in ["[]", "{", r#"{"note":1}"#, r#"{"other":"x"}"#] {
            assert!(tool.check(bad).is_err(), "`{bad}` should be refused");
        }
    }

    #[test]
    fn a_test_toolbox_keeps_the_order_of_its_tools_and_refuses_a_taken_name() {
        let world = Counters::new();
        let all = TestToolbox::with_all(Arc::new(EmptyToolbox), &world);
        assert_eq!(all.names(), ["look", "put", "fire", "fail", "panics"]);
        let nested = TestToolbox::new(Arc::new(all));
        assert!(nested.tool("put").is_some());
        let again = std::panic::catch_unwind(AssertUnwindSafe(|| nested.with(put(&world))));
        assert!(again.is_err());
    }
}
