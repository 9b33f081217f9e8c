//! Messages that woke nobody: the next event in their space brings them along, once.

use agent::config::AgentConfig;
use agent::entry::EntryKind;
use agent::event::Trust;
use agent::prompt::{Item, Prompt};
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, inbox, send, step};

const SAID: [&str; 3] = ["the disk is full", "the backup failed", "the fan is loud"];

/// All that the model reads, as one text.
fn read(prompt: &Prompt) -> String {
    let text = |item: &Item| match item {
        Item::Layer(text) => text.to_string(),
        Item::Entry(entry) => entry.message.text(),
    };
    prompt.items.iter().map(text).collect()
}

fn is_ada(prompt: &Prompt) -> bool {
    prompt.system.starts_with("You are Ada")
}

/// Bob reports each of these when his monitor calls; Ada answers.
fn reports_or_answers(prompt: &Prompt) -> Script {
    let texts: &[&str] = match (step(prompt), is_ada(prompt)) {
        (0, true) => &["I see"],
        (0, false) if inbox(prompt).contains("monitor") => &SAID,
        _ => &[],
    };
    let each = |script: Script, text: &&str| script.call("send_message", &send("desk", text));
    texts.iter().fold(Script::new(), each).call("done", &json!({}))
}

#[tokio::test]
async fn messages_without_a_mention_are_shown_with_the_mention_after_them_and_not_repeated() {
    for placement in ["append", "fresh"] {
        let fixture = Fixture::new(reports_or_answers);
        let world = &fixture.world;
        let husam = world.human("husam").await.unwrap();
        let config = json!({"wake_on": "mention", "workspace": {"placement": placement}});
        let ada = world.agent("ada", AgentConfig::from_json(&config).unwrap()).await.unwrap();
        let bob = world.agent("bob", AgentConfig::default()).await.unwrap();
        let desk = world.space("desk", &[husam, ada.entity(), bob.entity()]).await.unwrap();
        world.service(bob, "m1", "monitor", json!({})).await.unwrap();
        world.quiet().await.unwrap();
        assert!(world.runs(ada).await.unwrap().is_empty(), "bob's messages wake nobody");
        world.say(husam, desk, "@ada what is wrong?").await.unwrap();
        world.quiet().await.unwrap();
        world.say(husam, desk, "@ada thank you").await.unwrap();
        world.quiet().await.unwrap();

        let prompts = fixture.model.prompts();
        let prompts: Vec<String> = prompts.iter().filter(|prompt| is_ada(prompt)).map(read).collect();
        let times = |prompt: &str| SAID.map(|text| prompt.matches(text).count());
        assert!(prompts[0].contains("not shown:\n- [space desk] Bob (@bob, agent), "), "{}", prompts[0]);
        assert_eq!(times(&prompts[0]), [1; 3], "{placement}");
        let last = prompts.last().unwrap();
        assert!(last.contains("thank you"), "{last}");
        // A workspace that stays is sent again where it was; nothing is added to it.
        assert_eq!(times(last), if placement == "append" { [1; 3] } else { [0; 3] }, "{last}");
        assert_eq!(last.matches("that you were not shown").count(), usize::from(placement == "append"));
        let entries = world.consciousness(ada).await.unwrap();
        let shown = entries.iter().filter(|entry| entry.kind == EntryKind::Inbox);
        assert_eq!(shown.map(|entry| entry.trust).collect::<Vec<_>>(), [Trust::Agent, Trust::Member]);
        let run = &world.runs(ada).await.unwrap()[0];
        assert!(run.steps[0].sent.as_ref().unwrap().trust.is_some(), "the run says how far it is trusted");
    }
}
