//! Promises about the earlier messages of a space that an activation is given.

use agent::config::{AgentConfig, WakeOn};
use agent::event::{EventState, Trust};
use agent::id::EntityId;
use agent::life::Activation;
use agent::limits;
use agent::port::SpaceChange;
use agent::space::NewMessage;
use serde_json::json;

use super::Backend;
use super::recall::lived;
use super::world::{World, at, message_from, world, world_with};

/// A world in whose team space an agent's message wakes only those that it names.
async fn quiet(b: Backend) -> World {
    let w = world(b).await;
    let change = SpaceChange { wake_on: Some(WakeOn::Mention), ..SpaceChange::default() };
    w.b.registry.amend_space(w.team, change).await.unwrap();
    w
}

async fn bob_says(w: &World, texts: &[&str]) {
    for text in texts {
        let message = message_from(w.bob.entity(), w.team, text);
        w.accept(NewMessage { trust: Trust::Agent, ..message }).await;
    }
}

fn given(activation: &Activation) -> Vec<&str> {
    activation.recent.iter().map(|message| message.text.as_str()).collect()
}

/// Each is given until an event behind it is processed, with its trust, and never again.
pub async fn messages_that_woke_nobody_are_given_with_the_next_event_and_once(b: Backend) {
    let w = quiet(b).await;
    bob_says(&w, &["one", "two", "three"]).await;
    w.post(w.team, "@ada, what do you say?").await;
    bob_says(&w, &["four"]).await;
    let first = w.wake(w.ada).await;
    assert_eq!(given(&first), ["one", "two", "three"], "not those behind the newest event");
    let one = &first.recent[0];
    assert_eq!((one.trust, one.sender, one.space_handle.as_str()), (Trust::Agent, w.bob.entity(), "team"));
    assert_eq!(given(&w.wake(w.ada).await).len(), 3, "reading changes nothing");
    // A cycle that has decided something has shown them.
    let mut driver = w.open(w.ada).await;
    let decision = driver.decision();
    driver.commit(&w, decision).await;
    w.post(w.team, "@ada, and?").await;
    assert_eq!(given(&w.wake(w.ada).await), Vec::<&str>::new());
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    assert_eq!(given(&w.wake(w.ada).await), ["four"]);
}

/// A skip leaves no trace, not even in what a later event shows; what a rule skipped was never shown, and is given.
pub async fn a_message_that_the_agent_skipped_is_not_given_again(b: Backend) {
    let w = world(b).await;
    for shown in [true, false] {
        w.post(w.family, if shown { "Bob, look at this" } else { "by a rule" }).await;
        let mut driver = w.open(w.ada).await;
        let mut skip = driver.changes(agent::changes::CommitKind::Close);
        let cycle = shown.then_some(driver.open.id);
        skip.open = None;
        skip.settle = driver.settlements(&EventState::Skipped { reason: None, cycle });
        driver.commit(&w, skip).await;
    }
    w.post(w.family, "Ada, what do you think?").await;
    assert_eq!(given(&w.wake(w.ada).await), ["by a rule"]);
}

/// Messages that wait, its own, and those of spaces that nothing waits from.
pub async fn messages_that_the_agent_knows_or_will_be_shown_are_not_given(b: Backend) {
    let w = quiet(b).await;
    w.post(w.family, "hello").await;
    let mut driver = w.open(w.ada).await;
    let mut decision = driver.decision();
    decision.calls = vec![driver.call(0)];
    decision.inward.messages = vec![driver.message(0, w.family, "hello, Husam")];
    driver.commit(&w, decision).await;
    let closing = driver.closing();
    driver.commit(&w, closing).await;
    bob_says(&w, &["of the team"]).await;
    for text in ["one", "two"] {
        w.post(w.family, text).await;
    }
    let activation = w.wake(w.ada).await;
    assert_eq!((activation.waiting.len(), given(&activation)), (2, vec![]));
}

/// The newest ones, however long the space is; none of a space that the agent has left.
pub async fn few_earlier_messages_are_given_and_none_of_a_space_that_was_left(b: Backend) {
    let w = quiet(b).await;
    let many: Vec<String> = (0..limits::RECENT_LOOK + 20).map(|n| format!("{n:03}")).collect();
    bob_says(&w, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    w.post(w.team, "@ada").await;
    let activation = w.wake(w.ada).await;
    let newest: Vec<&str> =
        many[many.len() - limits::RECENT_MESSAGES_MAX..].iter().map(String::as_str).collect();
    assert_eq!(given(&activation), newest);
    w.b.registry.remove_member(w.team, w.ada.entity()).await.unwrap();
    assert_eq!(given(&w.wake(w.ada).await), Vec::<&str>::new());
}

/// A new member is given what was said before it came, if its config shows messages at all.
pub async fn a_new_member_is_given_what_was_said_before(b: Backend) {
    let config = AgentConfig::from_json(&json!({"workspace": {"show": ["clock"]}})).unwrap();
    let w = world_with(b, config).await;
    let join = |who: EntityId| w.b.registry.add_member(w.family, who, String::new(), at(20));
    w.post(w.family, "before").await;
    join(w.bob.entity()).await.unwrap();
    w.post(w.family, "after").await;
    assert_eq!(given(&w.wake(w.bob).await), ["before"]);
    lived(&w, w.bob, "after", "noted").await;
    w.post(w.family, "later").await;
    assert_eq!(given(&w.wake(w.bob).await), Vec::<&str>::new());
    assert_eq!(given(&w.wake(w.ada).await), Vec::<&str>::new());
}
