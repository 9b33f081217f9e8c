//! Whether each request extends the one before, also across the cycles of one view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::alert::AlertKind;
use agent::changes::MemoryChange;
use agent::config::AgentConfig;
use agent::id::AgentId;
use agent::port::{AlertFilter, Delivered, Listener, ModelInfo, PageRequest, ReasoningReplay};
use agent::update::{Topic, Update};
use futures_util::FutureExt;
use models::scripted::{Script, Scripted};
use serde_json::json;

use crate::fixture::{Fixture, answer, inbox, step};
use crate::store_wrapper::{Intercept, WakeRead, Wrapped};

/// From then on the layers that stay come back changed.
struct ChangesLayers(Arc<AtomicBool>);

impl Intercept for ChangesLayers {
    fn wake<'a>(&'a self, _: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        Box::pin(async move {
            let mut read = read.await?;
            if self.0.load(Ordering::SeqCst) {
                let layers = read.iter_mut().flat_map(|activation| &mut activation.layers);
                layers.for_each(|layer| layer.text = format!("{}!", layer.text).into());
            }
            Ok(read)
        })
    }
}

/// The texts of the alerts of that kind since the last call.
fn alerts(updates: &mut Box<dyn Listener>, kind: AlertKind) -> Vec<String> {
    let mut alerts = Vec::new();
    while let Some(Some(delivered)) = updates.next().now_or_never() {
        let Delivered::Update(update) = delivered else { panic!("wanted an update, got {delivered:?}") };
        if let Update::Alert { alert, text, .. } = &**update
            && *alert == kind
        {
            alerts.push(text.clone());
        }
    }
    alerts
}

#[tokio::test]
async fn a_prefix_that_breaks_between_two_cycles_is_reported_with_the_first_part_that_differs() {
    let broken = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&broken);
    let fixture =
        Fixture::with(Scripted::answering(|prompt| answer(prompt, "lobby", "hello")), move |inner| {
            Arc::new(Wrapped { inner, by: ChangesLayers(Arc::clone(&flag)) })
        });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut updates = fixture.world.ports().live.bus().subscribe(Topic::Agent(ada));
    for text in ["one", "two", "three", "four"] {
        broken.store(text == "three", Ordering::SeqCst);
        fixture.world.say(husam, lobby, text).await.unwrap();
        fixture.world.quiet().await.unwrap();
    }
    let alerts = alerts(&mut updates, AlertKind::PrefixBroken);
    let mut runs = fixture.world.runs(ada).await.unwrap();
    runs.sort_by_key(|run| run.ordinal);
    let of = |run: &agent::run::Run| {
        run.steps.iter().filter_map(|step| step.sent.as_ref()?.broken.clone()).collect::<Vec<_>>()
    };
    let differs = "the layer `[WORKSPACE — facts of this moment, not part of you`, item 1".to_owned();
    let found: Vec<_> = runs.iter().map(of).collect();
    assert_eq!(
        found,
        [vec![], vec![], vec![differs.clone()], vec![differs.clone()]],
        "broken, and mended again"
    );
    assert_eq!(alerts.len(), 2, "{alerts:?}");
    assert!(alerts.iter().all(|text| text.contains(&differs)), "{alerts:?}");
}

#[tokio::test]
async fn a_window_without_room_for_the_history_is_reported_once_for_each_config() {
    let info = ModelInfo {
        name: "small/one".into(),
        provider: "small".into(),
        context_window: 4_096,
        max_output: 512,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    };
    let model = Scripted::answering(|prompt| answer(prompt, "lobby", "hello")).with_info(info);
    let fixture = Fixture::with(model, |store| store);
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let lobby = fixture.world.reader().space("lobby".into()).await.unwrap().unwrap().id;
    let mut updates = fixture.world.ports().live.bus().subscribe(Topic::Agent(ada));
    let long = "word ".repeat(4_000);
    for (config, reported) in [
        (json!({"tools": ["send_message", "done"]}), 0),
        (json!({"instructions": long}), 1),
        (json!({}), 0),
        (json!({"instructions": format!("{long} more")}), 1),
        (json!({"instructions": "be brief"}), 0),
    ] {
        if config != json!({}) {
            let registry = fixture.world.registry();
            registry.amend_agent(ada, None, Some(config.clone()), fixture.now()).await.unwrap();
        }
        fixture.world.say(husam, lobby, "hi").await.unwrap();
        fixture.world.quiet().await.unwrap();
        let alerts = alerts(&mut updates, AlertKind::WindowOverfull);
        assert_eq!(alerts.len(), reported, "{alerts:?}");
        let figures = ["`small/one`", "of its 4096 tokens", "512 are kept for the reply", "larger window"];
        assert!(alerts.iter().all(|text| figures.iter().all(|part| text.contains(part))), "{alerts:?}");
    }
}

#[tokio::test]
async fn notes_without_room_in_the_workspace_are_reported_once_for_each_config() {
    let fixture = Fixture::new(|prompt| answer(prompt, "lobby", "hello"));
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut updates = fixture.world.ports().live.bus().subscribe(Topic::Agent(ada));
    for (memories, config, reported) in [
        (10, json!({}), 0),
        (30, json!({}), 1),
        (1, json!({}), 0),
        (1, json!({"instructions": "be brief"}), 1),
        (1, json!({"workspace": {"show": ["clock", "goals"]}}), 0),
    ] {
        for n in 0..memories {
            let change = MemoryChange::set(format!("k{memories}-{n}"), "v".repeat(1_000));
            fixture.world.registry().change_memory(ada, change, fixture.now()).await.unwrap();
        }
        if config != json!({}) {
            fixture
                .world
                .registry()
                .amend_agent(ada, None, Some(config.clone()), fixture.now())
                .await
                .unwrap();
        }
        fixture.world.say(husam, lobby, "hi").await.unwrap();
        fixture.world.quiet().await.unwrap();
        let alerts = alerts(&mut updates, AlertKind::WorkspaceFull);
        assert_eq!(alerts.len(), reported, "{memories} {config}: {alerts:?}");
        assert!(alerts.iter().all(|text| text.contains("the workspace may have 24576")), "{alerts:?}");
    }
    let page = PageRequest { cursor: None, limit: 10 };
    let kept = fixture.world.ports().reader.alerts(AlertFilter::default(), page).await.unwrap().items;
    let kinds: Vec<_> = kept.iter().map(|(_, kept)| (kept.alert, kept.agent, kept.cycle.is_some())).collect();
    assert_eq!(kinds, [(AlertKind::WorkspaceFull, Some(ada), true); 2], "whoever watched, they are kept");
}

#[tokio::test]
async fn a_cycle_that_is_too_long_for_its_window_is_reported_once() {
    let info = ModelInfo {
        name: "small/one".into(),
        provider: "small".into(),
        context_window: 16_384,
        max_output: 512,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    };
    // The newest step is always sent, however long it is.
    let model = Scripted::answering(|prompt| match step(prompt) {
        0 if inbox(prompt).contains("look") => {
            Script::new().call("look", &json!({"at": "long words ".repeat(7_000)}))
        }
        _ => answer(prompt, "lobby", "hello"),
    });
    let model = model.with_info(info);
    let fixture = Fixture::with(model, |store| store);
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let mut updates = fixture.world.ports().live.bus().subscribe(Topic::Agent(ada));
    for (text, reported) in [("hi", 0), ("look", 1), ("look", 0), ("hi", 0)] {
        fixture.world.say(husam, lobby, text).await.unwrap();
        fixture.world.quiet().await.unwrap();
        let alerts = alerts(&mut updates, AlertKind::HistoryLarge);
        assert_eq!(alerts.len(), reported, "{alerts:?}");
        assert!(alerts.iter().all(|text| text.contains("`small/one`")), "{alerts:?}");
    }
}
