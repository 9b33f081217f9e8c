//! Commands of the store that are wrong in themselves: they panic, or break a constraint. No agent is suspended for one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::id::AgentId;
use agent::life::{Lease, Standing};
use agent::port::{Store, StoreError};
use models::scripted::Scripted;
use serde_json::json;

use crate::fixture::{Fixture, done};
use crate::store_wrapper::{Committed, Intercept, WakeRead, Wrapped};

/// Which command has the mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    Wake,
    Open,
    Decide,
}

#[derive(Clone)]
struct Mistaken(Arc<Mutex<(Wrong, Option<AgentId>)>>);

impl Mistaken {
    /// Whether the command is wrong for that agent; `None` stands for all.
    fn hits(&self, wrong: Wrong, agent: AgentId) -> bool {
        let (command, whose) = *self.0.lock().unwrap();
        command == wrong && whose.is_none_or(|it| it == agent)
    }
}

fn bug<T>() -> Result<T, StoreError> {
    Err(StoreError::Bug("a command panicked; nothing was written".into()))
}

impl Intercept for Mistaken {
    fn wake<'a>(&'a self, agent: AgentId, read: WakeRead<'a>) -> WakeRead<'a> {
        if self.hits(Wrong::Wake, agent) { Box::pin(async { bug() }) } else { read }
    }

    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, changes: Changes) -> Committed<'a> {
        let wrong = if changes.kind == CommitKind::Open { Wrong::Open } else { Wrong::Decide };
        if self.hits(wrong, lease.agent) { Box::pin(async { bug() }) } else { store.commit(lease, changes) }
    }
}

fn fixture() -> (Fixture, Mistaken) {
    let mistaken = Mistaken(Arc::new(Mutex::new((Wrong::Nothing, None))));
    let by = mistaken.clone();
    let wrap = move |inner| Arc::new(Wrapped { inner, by: by.clone() }) as Arc<dyn Store>;
    (Fixture::with(Scripted::answering(|_| done()), wrap), mistaken)
}

#[tokio::test]
async fn a_command_that_is_wrong_for_every_agent_suspends_none_and_all_go_on_once_it_is_right() {
    for wrong in [Wrong::Wake, Wrong::Open, Wrong::Decide] {
        let (fixture, mistaken) = fixture();
        let world = &fixture.world;
        let mut agents = Vec::new();
        *mistaken.0.lock().unwrap() = (wrong, None);
        for n in 0..5 {
            let agent = world.agent(&format!("a{n}"), AgentConfig::default()).await.unwrap();
            world.service(agent, &format!("e{n}"), "bell", json!({})).await.unwrap();
            agents.push(agent);
        }
        world.pass(Duration::from_secs(10)).await.unwrap();
        assert!(fixture.model.prompts().len() <= 5 * 5, "{wrong:?}: they back off");
        *mistaken.0.lock().unwrap() = (Wrong::Nothing, None);
        world.pass(Duration::from_secs(60)).await.unwrap();
        for agent in agents {
            let card = world.reader().agent(agent).await.unwrap().unwrap();
            assert_eq!((card.standing, card.waiting, card.cycles), (Standing::Active, 0, 1), "{wrong:?}");
        }
    }
}

#[tokio::test]
async fn a_command_that_is_wrong_for_one_agent_delays_no_other_and_is_not_repeated_for_ever() {
    let (fixture, mistaken) = fixture();
    let world = &fixture.world;
    let bad = world.agent("bad", AgentConfig::default()).await.unwrap();
    let good = world.agent("good", AgentConfig::default()).await.unwrap();
    *mistaken.0.lock().unwrap() = (Wrong::Decide, Some(bad));
    world.service(bad, "bad", "bell", json!({})).await.unwrap();
    for n in 0..120 {
        world.service(good, &format!("good {n}"), "bell", json!({})).await.unwrap();
        world.pass(Duration::from_secs(1)).await.unwrap();
        assert_eq!(world.reader().agent(good).await.unwrap().unwrap().waiting, 0, "second {n}");
    }
    let card = world.reader().agent(bad).await.unwrap().unwrap();
    assert_eq!(card.standing, Standing::Active);
    let asked = fixture.model.prompts().len() - 120;
    assert!((4..=7).contains(&asked), "{asked} requests");
}
