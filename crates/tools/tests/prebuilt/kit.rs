//! The tool kit: names, order, no shadowing.

use std::sync::Arc;

use agent::call::Effect;
use agent::config::AgentConfig;
use agent::port::{
    AgentTools, BoxFuture, Done, Model, ModelError, ModelInfo, Tool, ToolContext, ToolError, ToolSpec,
    Toolbox, Toolset,
};
use agent::tool::ToolLabel;
use models::scripted::{Script, authored};
use serde_json::{Value, json};
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

/// A new tool needs a row here: whether what it returns is for everyone, and whether what it is given can leave.
#[test]
fn each_tool_of_the_kit_says_whether_what_it_returns_is_private() {
    let kit = tools::prebuilt();
    let private = [
        "enter_space",
        "read_messages",
        "peek_inbox",
        "get_my_runs",
        "recall",
        "read_cycle",
        "read_outcome",
        "ask_person",
    ];
    let public = [
        "send_message",
        "skip",
        "done",
        "set_memories",
        "delete_memories",
        "set_goals",
        "delete_goals",
        "set_plans",
        "delete_plans",
        "set_reminder",
    ];
    for name in kit.names() {
        let labels: Vec<ToolLabel> = kit.tool(&name).unwrap().spec().labels.iter().collect();
        match private.contains(&name.as_str()) {
            true => assert_eq!(labels, [ToolLabel::Private], "{name}"),
            false => {
                assert!(public.contains(&name.as_str()), "`{name}` has no row");
                assert_eq!(labels, [], "{name}");
            }
        }
    }
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
        "ask_person",
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
    assert_eq!(has(None), prebuilt[..prebuilt.len() - 2]);
    assert_eq!(has(Some(&["note", "done"])), ["done", "note"]);
    assert_eq!(has(Some(&["fetch", "done"])), ["done", "fetch", "read_outcome"]);
    assert_eq!(has(Some(&["fetch", "read_outcome"])), ["read_outcome", "fetch"]);
    assert_eq!(has(Some(&[])), [] as [&str; 0]);
}

/// A model that accepts as many tools as its name says.
fn narrow(name: Option<&str>) -> Result<Arc<dyn Model>, ModelError> {
    let name = name.unwrap_or("any");
    let info = ModelInfo { name: name.to_owned(), max_tools: name.parse().ok(), ..ModelInfo::default() };
    Ok(authored(info, |_| Script::new()))
}

#[test]
fn an_agent_with_more_tools_than_its_models_accept_is_refused_and_loses_the_last_that_patterns_name() {
    let outward = |spec: &mut ToolSpec| spec.effect = Effect::ReadOnly;
    let names = ["git__a", "git__b", "git__c", "zeta"];
    let add = |kit: tools::ToolKit, name| kit.with(changed(name, outward)).unwrap();
    let kit = names.into_iter().fold(tools::prebuilt(), add);
    let of = |config: Value| {
        let config = AgentConfig::from_json(&config).unwrap();
        let tools = AgentTools::of(&kit, &narrow, &config);
        let (refused, left_out) = (tools.too_many(), tools.left_out.clone());
        let specs = Toolset::from(tools).specs().iter().map(|spec| spec.name.clone()).collect::<Vec<_>>();
        (specs, left_out, refused.map(|(why, _)| why))
    };
    let wanted = json!(["done", "git:*", "zeta"]);
    let all = ["done", "git__a", "git__b", "git__c", "zeta", "read_outcome"];
    for config in [json!({"tools": wanted}), json!({"tools": wanted, "model": "6", "routing": []})] {
        let (specs, left_out, refused) = of(config);
        assert_eq!((specs, left_out, refused), (all.map(str::to_owned).to_vec(), vec![], None));
    }
    let smallest =
        json!({"tools": wanted, "model": "5", "fallback": ["4"], "history": {"summary_model": "1"}});
    let (specs, left_out, refused) = of(smallest);
    assert_eq!(specs, ["done", "git__a", "zeta", "read_outcome"]);
    assert_eq!(left_out, ["git__b", "git__c"]);
    let why = "`tools`: wanted at most 4 tools for the model `4`, the agent names 6";
    assert_eq!(refused.as_deref(), Some(why));
    let (specs, ..) = of(json!({"tools": ["done", "zeta"], "model": "1"}));
    assert_eq!(specs, ["done"]);
    let (specs, left_out, _) = of(json!({"model": "2"}));
    assert_eq!(
        (&*specs, left_out.len()),
        (&tools::prebuilt().names()[..2], tools::prebuilt().names().len() - 4)
    );
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
