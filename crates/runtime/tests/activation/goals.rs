//! Goals over several cycles: set as a tree, shown in the next activation, changed and deleted by the ids shown there.

use agent::config::AgentConfig;
use agent::life::GoalStatus;
use agent::prompt::{Item, Prompt};
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, done, everything, inbox, step};

/// The lines of goals in all that is shown of the workspace, in order.
fn shown(prompt: &Prompt) -> Vec<String> {
    let layers = prompt.items.iter().filter_map(|item| match item {
        Item::Layer(text) => Some(text.as_ref()),
        Item::Entry(_) => None,
    });
    let goals = |text: &str| {
        let lines = text.split_once("Your goals:\n").map_or("", |(_, rest)| rest).lines();
        lines.take_while(|line| line.trim_start().starts_with("- ")).map(str::to_owned).collect::<Vec<_>>()
    };
    layers.flat_map(goals).collect()
}

/// The id in the line of that goal.
fn id_of(prompt: &Prompt, description: &str) -> String {
    let line = shown(prompt).into_iter().find(|line| line.contains(description)).unwrap();
    line.split("id: ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

fn author(prompt: &Prompt) -> Script {
    let inbox = inbox(prompt);
    if step(prompt) > 0 {
        return done();
    }
    if inbox.contains("make a plan") {
        Script::new().call(
            "set_goals",
            &json!({"goals": [
                {"ref": "ship", "description": "ship it", "priority": 9},
                {"description": "test it", "parent_id": "ship"},
                {"description": "tell everyone", "parent_id": "ship", "priority": 2},
            ]}),
        )
    } else if inbox.contains("tests pass") {
        let tested = json!({"goals": [{"id": id_of(prompt, "test it"), "status": "completed"}]});
        Script::new().call("set_goals", &tested)
    } else if inbox.contains("forget it") {
        Script::new().call("delete_goals", &json!({"ids": [id_of(prompt, "ship it")]}))
    } else if inbox.contains("steal") {
        // The id of another agent's goal.
        let theirs = inbox.split('`').nth(1).unwrap();
        Script::new().call("set_goals", &json!({"goals": [{"id": theirs, "description": "mine now"}]}))
    } else {
        Script::new().call("skip", &json!({}))
    }
}

#[tokio::test]
async fn goals_are_seen_changed_and_deleted_by_their_ids_in_later_cycles() {
    let fixture = Fixture::new(author);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let goals = async || world.reader().facts(ada).await.unwrap().unwrap().goals;
    let say = async |text: &str| {
        let before = fixture.model.prompts().len();
        world.say(husam, lobby, text).await.unwrap();
        world.quiet().await.unwrap();
        fixture.model.prompts()[before].clone()
    };

    assert!(shown(&say("make a plan").await).is_empty());
    let made = goals().await;
    assert_eq!(
        made.iter().map(|goal| goal.description.as_str()).collect::<Vec<_>>(),
        ["ship it", "test it", "tell everyone"]
    );
    let lines = [
        format!(r#"- "ship it" | id: {} | priority 9"#, made[0].id),
        format!(r#"  - "test it" | id: {} | priority 5"#, made[1].id),
        format!(r#"  - "tell everyone" | id: {} | priority 2"#, made[2].id),
    ];
    assert_eq!(shown(&say("tests pass").await), lines);
    assert_eq!(goals().await[1].status, GoalStatus::Completed);
    let gone = |at: usize| format!("- no longer: id: {}", made[at].id);
    let [ship, test, tell] = lines.clone();
    assert_eq!(shown(&say("forget it").await), [ship, test, tell, gone(1)]);
    assert_eq!(goals().await, []);
    let last = say("anything left?").await;
    let says_none = |item: &Item| matches!(item, Item::Layer(text) if text.contains("Your goals: none"));
    assert!(last.items.iter().any(says_none), "{:?}", last.items);
}

#[tokio::test]
async fn an_agent_cannot_change_the_goals_of_another_one() {
    let fixture = Fixture::new(author);
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let bob = world.agent("bob", AgentConfig::default()).await.unwrap();
    let hers = world.space("hers", &[husam, ada.entity()]).await.unwrap();
    let his = world.space("his", &[husam, bob.entity()]).await.unwrap();
    world.say(husam, hers, "make a plan").await.unwrap();
    world.quiet().await.unwrap();
    let before = world.reader().facts(ada).await.unwrap().unwrap().goals;
    world.say(husam, his, &format!("steal `{}`", before[0].id)).await.unwrap();
    world.quiet().await.unwrap();

    let last = fixture.model.prompts().pop().unwrap();
    assert!(everything(&last).contains("no goal of yours has the id"), "the model reads why");
    assert_eq!(world.reader().facts(ada).await.unwrap().unwrap().goals, before);
    assert_eq!(world.reader().facts(bob).await.unwrap().unwrap().goals, []);
}
