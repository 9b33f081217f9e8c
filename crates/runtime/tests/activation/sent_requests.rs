//! Whether each request extends the one before, also across the cycles of one view.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent::config::AgentConfig;
use agent::id::AgentId;
use agent::port::Delivered;
use agent::update::{AlertKind, Topic, Update};
use futures_util::FutureExt;
use models::scripted::Scripted;

use crate::fixture::{Fixture, answer};
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
    let mut alerts = Vec::new();
    while let Some(Some(delivered)) = updates.next().now_or_never() {
        let Delivered::Update(update) = delivered else { panic!("wanted an update, got {delivered:?}") };
        if let Update::Alert { alert: AlertKind::PrefixBroken, text, .. } = &**update {
            alerts.push(text.clone());
        }
    }
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
