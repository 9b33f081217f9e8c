//! The tool kit: names, order, no shadowing.

use std::sync::Arc;

use agent::call::Effect;
use agent::port::{BoxFuture, Done, Tool, ToolContext, ToolError, ToolSpec, Toolbox, Toolset};
use serde_json::Value;
use tools::BadTool;

/// A tool with this name.
struct Named(ToolSpec);

impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn check(&self, _arguments: &str) -> Result<Value, String> {
        Ok(Value::Null)
    }

    fn call<'a>(
        &'a self,
        _arguments: Value,
        _context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<Done, ToolError>> {
        Box::pin(async { Err(ToolError::new("never called")) })
    }
}

fn named(name: &str) -> Arc<dyn Tool> {
    changed(name, |_| {})
}

fn changed(name: &str, change: impl FnOnce(&mut ToolSpec)) -> Arc<dyn Tool> {
    let mut spec = tools::prebuilt().tool("skip").expect("a prebuilt tool").spec().clone();
    spec.name = name.into();
    change(&mut spec);
    Arc::new(Named(spec))
}

#[test]
fn names_are_in_a_stable_order_with_added_tools_after_prebuilt_ones() {
    let kit = tools::prebuilt().with(named("zeta")).unwrap().with(named("alpha")).unwrap();
    let names = [
        "enter_space",
        "send_message",
        "read_messages",
        "peek_inbox",
        "skip",
        "done",
        "set_memories",
        "delete_memories",
        "set_goals",
        "delete_goals",
        "get_my_runs",
        "recall",
        "read_cycle",
        "set_plans",
        "delete_plans",
        "set_reminder",
        "read_outcome",
        "zeta",
        "alpha",
    ];
    assert_eq!(kit.names(), names);
    assert!(names.iter().all(|name| kit.tool(name).unwrap().spec().name == *name));
    assert!(kit.tool("nope").is_none());
}

#[test]
fn an_agent_has_an_added_tool_only_if_it_names_it_and_then_reads_large_outcomes() {
    let outward = |spec: &mut ToolSpec| spec.effect = Effect::ReadOnly;
    let kit = tools::prebuilt().with(named("note")).unwrap().with(changed("fetch", outward)).unwrap();
    let has = |wanted: Option<&[&str]>| {
        let wanted: Option<Vec<String>> =
            wanted.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Toolset::of(&kit, wanted.as_deref()).specs().iter().map(|spec| spec.name.clone()).collect::<Vec<_>>()
    };
    let prebuilt = tools::prebuilt().names();
    assert_eq!(has(None), prebuilt[..prebuilt.len() - 1]);
    assert_eq!(has(Some(&["note", "done"])), ["done", "note"]);
    assert_eq!(has(Some(&["fetch", "done"])), ["done", "fetch", "read_outcome"]);
    assert_eq!(has(Some(&["fetch", "read_outcome"])), ["read_outcome", "fetch"]);
    assert_eq!(has(Some(&[])), [] as [&str; 0]);
}

#[test]
fn a_tool_cannot_shadow_a_prebuilt_one_nor_one_added_before() {
    let kit = tools::prebuilt().with(named("mine")).unwrap();
    for taken in ["send_message", "mine"] {
        assert_eq!(kit.clone().with(named(taken)).unwrap_err(), BadTool::NameTaken(taken.into()));
    }
}

#[test]
fn a_name_that_vendors_refuse_is_refused() {
    for bad in ["", "two words", "punkt.", &"x".repeat(65)] {
        let error = tools::prebuilt().with(named(bad)).unwrap_err();
        assert!(matches!(error, BadTool::BadName(_)), "`{bad}` should be refused, got {error}");
    }
}
