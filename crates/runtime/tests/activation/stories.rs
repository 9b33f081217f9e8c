//! Everyday situations: a question, messages that arrive while the agent is busy, agents that talk to each other, a
//! restart, three cycles that build on each other, two spaces at once.

use std::time::Duration;

use agent::config::AgentConfig;
use agent::run::Ending;
use models::scripted::Script;
use serde_json::json;

use crate::fixture::{Fixture, answer, done, entries, everything, inbox, send, step, unaware};

fn texts(messages: &[(String, String)], who: &str) -> Vec<String> {
    messages.iter().filter(|(name, _)| name == who).map(|(_, text)| text.clone()).collect()
}

#[tokio::test]
async fn scenario_1_a_simple_question_is_answered_in_one_cycle() {
    let fixture = Fixture::new(|prompt| answer(prompt, "lobby", "4"));
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let message = world.say(husam, lobby, "What's 2+2?").await.unwrap();
    world.quiet().await.unwrap();

    let messages = world.posted_texts(lobby).await.unwrap();
    assert_eq!(messages, [("Husam".into(), "What's 2+2?".into()), ("Ada".into(), "4".into())]);
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].ending, runs[0].steps.len(), runs[0].ordinal), (Ending::Completed, 2, 1));
    assert_eq!(world.state(ada, &message.to_string()).await.unwrap().as_str(), "processed");
    assert!(inbox(&fixture.model.prompts()[0]).contains(r#"Husam (@husam, human), just now: "What's 2+2?""#));
    assert_eq!(fixture.world.node().unwrap().live().activity(ada), None, "it sleeps again");
}

#[tokio::test]
async fn scenario_2_messages_that_arrive_while_it_works_are_one_further_cycle() {
    let fixture = Fixture::new(|prompt| {
        let inbox = inbox(prompt);
        match (inbox.contains("Check the API"), step(prompt)) {
            (true, 0) => Script::new().call("slow", &json!({})),
            (true, 1) => Script::new().call("send_message", &send("project", "API is healthy")),
            (false, 0) => Script::new()
                .call("send_message", &send("project", "Also: the migration is done"))
                .call("send_message", &send("design", "The mockup looks good")),
            _ => done(),
        }
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ahmad = world.human("ahmad").await.unwrap();
    let ada = world.agent("ada", unaware()).await.unwrap();
    let project = world.space("project", &[husam, ada.entity()]).await.unwrap();
    let design = world.space("design", &[ahmad, ada.entity()]).await.unwrap();

    world.say(husam, project, "Check the API").await.unwrap();
    world.pass(Duration::from_millis(300)).await.unwrap();
    fixture.gate.begun(1).await;
    world.say(ahmad, design, "What about the UI?").await.unwrap();
    world.say(husam, project, "Migration done").await.unwrap();
    world.say(ahmad, design, "And the colors?").await.unwrap();
    fixture.gate.open();
    world.pass(Duration::from_secs(30)).await.unwrap();

    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.len(), 2, "three messages while it was busy are one further cycle");
    assert_eq!((runs[0].events, runs[1].events), (1, 3));
    assert_eq!(
        texts(&world.posted_texts(project).await.unwrap(), "Ada"),
        ["API is healthy", "Also: the migration is done"]
    );
    assert_eq!(texts(&world.posted_texts(design).await.unwrap(), "Ada"), ["The mockup looks good"]);
}

#[tokio::test]
async fn scenario_4_two_agents_and_a_person_talk_naturally() {
    let fixture = Fixture::new(|prompt| {
        let inbox = inbox(prompt);
        let a = prompt.system.contains("@agent-a");
        match (a, step(prompt)) {
            (_, 1..) => done(),
            (true, _) if inbox.contains("I need a feature spec") => Script::new().call(
                "send_message",
                &send("planning", "I'll draft the spec. @agent-b, what's the technical complexity?"),
            ),
            (true, _) if inbox.contains("Medium complexity") => {
                assert!(everything(prompt).contains("I need a feature spec"), "its own history is complete");
                Script::new().call("send_message", &send("planning", "Here's the spec: 3.5 days"))
            }
            (false, _) if inbox.contains("technical complexity") => {
                Script::new().call("send_message", &send("planning", "Medium complexity, ~2 days."))
            }
            _ => Script::new().call("skip", &json!({"reason": "not for me"})),
        }
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let a = world.agent("agent-a", AgentConfig::default()).await.unwrap();
    let b = world.agent("agent-b", AgentConfig::default()).await.unwrap();
    let planning = world.space("planning", &[husam, a.entity(), b.entity()]).await.unwrap();
    world.say(husam, planning, "@agent-a I need a feature spec for dark mode").await.unwrap();
    world.quiet().await.unwrap();

    let messages: Vec<_> =
        world.posted_texts(planning).await.unwrap().into_iter().map(|(who, _)| who).collect();
    assert_eq!(messages, ["Husam", "Agent-a", "Agent-b", "Agent-a"]);
    let roots: Vec<_> =
        world.messages(planning).await.unwrap().into_iter().map(|m| (m.root, m.hop)).collect();
    assert!(roots.iter().all(|(root, _)| *root == roots[0].0), "one root");
    assert_eq!(roots.iter().map(|(_, hop)| *hop).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(world.runs(a).await.unwrap().len(), 2);
    assert_eq!(world.runs(b).await.unwrap().len(), 1, "a skipped activation leaves no run");
}

#[tokio::test]
async fn scenario_7_after_a_restart_all_agents_continue_where_they_were() {
    let mut fixture = Fixture::new(|prompt| match step(prompt) {
        0 => Script::new().call("look", &json!({})),
        1 => Script::new().call("send_message", &send("lobby", "looked")),
        _ => done(),
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let idle = fixture.world.agent("idle", AgentConfig::default()).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    fixture.world.say(husam, lobby, "first").await.unwrap();
    fixture.world.quiet().await.unwrap();
    fixture.world.kill();
    fixture.world.say(husam, lobby, "posted while it was down").await.unwrap();
    fixture.world.start();
    fixture.world.quiet().await.unwrap();

    assert_eq!(texts(&fixture.world.posted_texts(lobby).await.unwrap(), "Ada"), ["looked", "looked"]);
    let last = fixture.model.prompts().pop().unwrap();
    let mind = everything(&last);
    assert!(mind.contains("first") && mind.contains("posted while it was down"));
    assert!(fixture.world.runs(idle).await.unwrap().is_empty(), "an agent without work is not activated");
}

#[tokio::test]
async fn three_cycles_build_on_each_other_without_reading_the_space_again() {
    let fixture = Fixture::new(|prompt| {
        let (inbox, all) = (inbox(prompt), everything(prompt));
        match step(prompt) {
            0 if inbox.contains("Check the API status") => {
                Script::new().call("read_messages", &json!({"space": "project"}))
            }
            1 if inbox.contains("Check the API status") => {
                Script::new().call("send_message", &send("project", "API is healthy"))
            }
            0 if inbox.contains("Migration done") => Script::new()
                .call("send_message", &send("project", "Migration confirmed, deploying now"))
                .call("send_message", &send("design", "Mockup looks good, one suggestion")),
            0 if inbox.contains("Great, deploy it") => {
                assert!(all.contains("API is healthy") && all.contains("Migration confirmed"));
                Script::new().call("send_message", &send("project", "Deployed"))
            }
            _ => done(),
        }
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ahmad = world.human("ahmad").await.unwrap();
    let config = AgentConfig { debounce: 500, ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let project = world.space("project", &[husam, ahmad, ada.entity()]).await.unwrap();
    let design = world.space("design", &[ahmad, ada.entity()]).await.unwrap();

    world.say(husam, project, "Check the API status").await.unwrap();
    world.quiet().await.unwrap();
    world.say(ahmad, design, "What about the UI?").await.unwrap();
    world.say(ahmad, project, "Migration done").await.unwrap();
    world.quiet().await.unwrap();
    world.say(husam, project, "Great, deploy it").await.unwrap();
    world.quiet().await.unwrap();

    let posted = texts(&world.posted_texts(project).await.unwrap(), "Ada");
    assert_eq!(posted, ["API is healthy", "Migration confirmed, deploying now", "Deployed"]);
    let runs = world.runs(ada).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.steps.len()).collect::<Vec<_>>(), [3, 2, 2]);
    let prompts = fixture.model.prompts();
    let last = prompts.last().unwrap();
    assert_eq!(
        entries(last).len(),
        world.consciousness(ada).await.unwrap().len() - 2,
        "it sees the whole log"
    );
}

#[tokio::test]
async fn messages_of_two_spaces_in_one_cycle_get_one_reply_each() {
    let fixture = Fixture::new(|prompt| match step(prompt) {
        0 => {
            let inbox = inbox(prompt);
            assert!(inbox.starts_with("[INBOX — 3 new events"), "{inbox}");
            Script::new()
                .call("send_message", &send("muhammad", "The meeting is at 3pm. Please bring the documents."))
                .call("send_message", &send("support", "The Q4 report is on its way."))
        }
        _ => done(),
    });
    let world = &fixture.world;
    let (husam, ahmad) = (world.human("husam").await.unwrap(), world.human("ahmad").await.unwrap());
    let muhammad = world.human("muhammad-k").await.unwrap();
    let config = AgentConfig { debounce: 10_000, ..AgentConfig::default() };
    let ada = world.agent("ada", config).await.unwrap();
    let family = world.space("family", &[husam, ada.entity()]).await.unwrap();
    let support = world.space("support", &[ahmad, ada.entity()]).await.unwrap();
    let private = world.space("muhammad", &[muhammad, ada.entity()]).await.unwrap();

    world.say(husam, family, "Tell Muhammad the meeting is at 3pm").await.unwrap();
    world.pass(Duration::from_secs(5)).await.unwrap();
    world.say(husam, family, "Also tell him to bring the documents").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.say(ahmad, support, "What's the status of the Q4 report?").await.unwrap();
    world.pass(Duration::from_secs(20)).await.unwrap();
    world.quiet().await.unwrap();

    assert_eq!(world.posted_texts(private).await.unwrap().len(), 1);
    assert_eq!(texts(&world.posted_texts(support).await.unwrap(), "Ada"), ["The Q4 report is on its way."]);
    assert!(texts(&world.posted_texts(family).await.unwrap(), "Ada").is_empty());
    assert_eq!(world.runs(ada).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_agent_removed_from_a_space_during_a_step_reads_that_nothing_was_posted_there() {
    let fixture = Fixture::timed(|prompt, clock| match step(prompt) {
        0 => {
            let thinking = Script::new().pause(clock, Duration::from_secs(10));
            thinking
                .call("send_message", &send("lab", "too late"))
                .call("send_message", &send("lobby", "here"))
        }
        _ => done(),
    });
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let lab = world.space("lab", &[husam, ada.entity()]).await.unwrap();
    world.say(husam, lobby, "tell both").await.unwrap();
    world.pass(Duration::from_secs(1)).await.unwrap();
    world.registry().remove_member(lab, ada.entity()).await.unwrap();
    world.quiet().await.unwrap();
    assert_eq!(world.posted_texts(lab).await.unwrap(), []);
    assert_eq!(world.posted_texts(lobby).await.unwrap().len(), 2);
    let outcomes = world
        .consciousness(ada)
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.message.countable())
        .collect::<String>();
    assert!(outcomes.contains("not a member"), "{outcomes}");
}
