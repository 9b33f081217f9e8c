//! Spans of a cycle: which exist, what they carry, and what they never carry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agent::config::AgentConfig;
use models::scripted::Script;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::fixture::{Fixture, done, step};

type Fields = HashMap<&'static str, String>;

/// Name, parent and fields.
type Span = (&'static str, Option<u64>, Fields);

/// Collects every span.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<Span>>>);

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Collected {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == runtime::trace::TARGET
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        span.record(&mut Into(&mut fields));
        let mut all = self.0.lock().unwrap();
        all.push((span.metadata().name(), span.parent().map(Id::into_u64), fields));
        Id::from_u64(all.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let at = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Into(&mut self.0.lock().unwrap()[at].2));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_cycle_its_steps_model_calls_and_tools_are_spans_without_any_content() {
    let collected = Collected::default();
    let _guard = tracing::subscriber::set_default(collected.clone());
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().text("swordfish").call("look", &json!({})).usage(100, 10, 20),
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "the swordfish is the word").await.unwrap();
    world.quiet().await.unwrap();

    let spans = collected.0.lock().unwrap().clone();
    let names: Vec<_> = spans.iter().map(|(name, parent, _)| (*name, *parent)).collect();
    assert_eq!(
        names,
        [
            ("invoke_agent", None),
            ("step", Some(1)),
            ("chat", Some(2)),
            ("execute_tool", Some(2)),
            ("step", Some(1)),
            ("chat", Some(5)),
            ("execute_tool", Some(5)),
        ]
    );
    let field = |at: usize, name: &str| spans[at].2.get(name).cloned().unwrap_or_default();
    assert_eq!(field(0, "otel.name"), format!("agent-{ada}-cycle-1"));
    assert_eq!((field(0, "viv.inbox.size"), field(0, "viv.ending"), field(0, "viv.steps")).0, "1");
    assert_eq!((field(0, "viv.ending"), field(0, "viv.steps")), ("completed".to_owned(), "2".to_owned()));
    assert_eq!(field(2, "gen_ai.operation.name"), "chat");
    assert_eq!(field(2, "gen_ai.usage.output_tokens"), "20");
    assert_eq!((field(3, "gen_ai.tool.name"), field(3, "viv.tool.status")), ("look".into(), "ok".into()));
    assert!(!format!("{spans:?}").contains("swordfish"), "never any content");
}
