//! Tools whose definitions change: never within an activation, and no call runs by a description other than the one that
//! the model read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent::call::Effect;
use agent::config::AgentConfig;
use agent::port::{ModelInfo, Tool, ToolSpec, Toolbox};
use models::scripted::{Script, Scripted};
use serde_json::json;
use testkit::test_tools::with_spec;

use crate::fixture::{Fixture, answer, done, send, step};

/// A toolbox in which one tool has another version and says so in its description.
struct Changed {
    inner: Arc<dyn Toolbox>,
    name: &'static str,
    version: Arc<AtomicU32>,
}

impl Toolbox for Changed {
    fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let tool = self.inner.tool(name)?;
        if name != self.name {
            return Some(tool);
        }
        let version = self.version.load(Ordering::SeqCst).to_string();
        let description = format!("version {version}");
        let spec = ToolSpec { version, description, counted: Default::default(), ..tool.spec().clone() };
        Some(with_spec(tool, spec))
    }

    fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    fn is_prebuilt(&self, name: &str) -> bool {
        self.inner.is_prebuilt(name)
    }
}

#[tokio::test]
async fn a_tool_that_changes_in_a_cycle_is_used_as_changed_from_the_next_one_on() {
    let version = Arc::new(AtomicU32::new(1));
    let current = Arc::clone(&version);
    let mut fixture = Fixture::new(move |prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})),
        1 => {
            current.store(2, Ordering::SeqCst);
            Script::new().call("look", &json!({})).call("send_message", &send("lobby", "seen"))
        }
        _ => done(),
    });
    let now = Arc::clone(&version);
    fixture.dies_with(|inner| Arc::new(Changed { inner, name: "look", version: now }));
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for text in ["go", "and again"] {
        fixture.world.say(husam, lobby, text).await.unwrap();
        fixture.world.quiet().await.unwrap();
    }
    let described = |prompt: &agent::prompt::Prompt| {
        prompt.tools.iter().find(|tool| tool.name == "look").unwrap().description.clone()
    };
    let seen: Vec<String> = fixture.model.prompts().iter().map(described).collect();
    assert_eq!(seen, ["version 1", "version 1", "version 1", "version 2", "version 2", "version 2"]);
    assert_eq!(fixture.counters.calls("look"), 4, "no call was refused");
}

#[tokio::test]
async fn a_model_is_offered_no_more_tools_than_it_accepts() {
    let info = ModelInfo {
        name: "small/one".into(),
        provider: "small".into(),
        context_window: 100_000,
        max_output: 1_000,
        max_tools: Some(3),
        ..ModelInfo::default()
    };
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "hello")).with_info(info);
    let fixture = Fixture::with(model, |store| store);
    let husam = fixture.world.human("husam").await.unwrap();
    let tools = json!({"tools": ["*", "send_message", "done"]});
    let ada = fixture.world.agent("ada", AgentConfig::from_json(&tools).unwrap()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "hi").await.unwrap();
    fixture.world.quiet().await.unwrap();
    let prompts = fixture.model.prompts();
    assert!(!prompts.is_empty());
    for prompt in prompts {
        let names: Vec<&str> = prompt.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["send_message", "done", "read_outcome"]);
    }
}

#[tokio::test]
async fn a_call_is_not_run_again_if_its_tool_has_changed_since_the_decision() {
    let mut fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("slow", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "done")),
        _ => done(),
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "go").await.unwrap();
    fixture.world.pass(Duration::from_secs(1)).await.unwrap();
    let version = Arc::new(AtomicU32::new(7));
    fixture.gate.open();
    fixture.dies_with(|inner| {
        assert_ne!(inner.tool("slow").unwrap().spec().effect, Effect::Unsafe);
        Arc::new(Changed { inner, name: "slow", version })
    });
    fixture.world.quiet().await.unwrap();
    let mind = fixture.world.consciousness(ada).await.unwrap();
    let outcomes: String = mind
        .iter()
        .filter(|entry| entry.kind == agent::entry::EntryKind::Outcomes)
        .map(|entry| entry.message.countable())
        .collect();
    assert!(outcomes.contains("the tool `slow` has changed since this call was made"), "{outcomes}");
    assert_eq!(fixture.counters.calls("slow"), 1, "it ran once, before the change");
}
