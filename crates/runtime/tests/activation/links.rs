//! Links to calls that wait for people: only the target is told, and nothing that an agent or a space reads has one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::approval::{Answerer, ApprovalState, PersonVerdict};
use agent::config::AgentConfig;
use agent::port::{
    ApprovalFilter, BoxFuture, Courier, NewsKind, NewsOf, PageRequest, PersonAnswer, SendFailure,
    StoredTarget, TargetDelivery,
};
use agent::prompt::Prompt;
use jiff::Timestamp;
use runtime::Ports;
use runtime::answer_links::AnswerLinks;
use runtime::sender::Sender;
use serde_json::{Value, json};

use crate::calls::posted;
use crate::fixture::Fixture;
use crate::people::caller;

/// A target that fails at first and keeps what it was told at each attempt.
#[derive(Clone, Default)]
struct Relay(Arc<Mutex<Vec<String>>>);

impl Courier for Relay {
    fn check(&self, _: &StoredTarget) -> Result<(), String> {
        Ok(())
    }

    fn unusable_secret<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn send<'a>(
        &'a self,
        _: &'a StoredTarget,
        delivery: &'a TargetDelivery,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), SendFailure>> {
        let mut told = self.0.lock().unwrap();
        told.push(delivery.body.clone());
        let first = told.len() == 1;
        let answer = if first { Err(SendFailure::Failed("it answered 500".into())) } else { Ok(()) };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test]
async fn a_target_is_told_the_link_and_neither_the_store_nor_a_space_nor_a_model_reads_it() {
    let prompts: Arc<Mutex<String>> = Arc::default();
    let (seen, script) = (Arc::clone(&prompts), caller("fire", json!({"note": "one"})));
    let fixture = Fixture::unsafely(move |prompt: &Prompt| {
        seen.lock().unwrap().push_str(&format!("{prompt:?}"));
        script(prompt)
    });
    let husam = fixture.world.human("husam").await.unwrap();
    let config = AgentConfig::from_json(&json!({"approve": ["fire"]})).unwrap();
    let ada = fixture.world.agent("ada", config).await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let links = Arc::new(AnswerLinks::new("https://viv.example".into(), &[1; 32]));
    let told = Relay::default();
    let (courier, links_of_ports) = (Arc::new(told.clone()), Some(Arc::clone(&links)));
    let ports = Ports { courier, links: links_of_ports, ..fixture.world.ports().clone() };
    let target = StoredTarget {
        name: "relay".into(),
        url: "https://example.com".into(),
        secrets: vec!["s".into()],
        allow: Vec::new(),
        on: vec![NewsKind::ApprovalWanted],
        of: NewsOf::Agent(ada),
        only_if: None,
        body: None,
        off: None,
        at: ports.clock.now(),
    };
    ports.target_book.put_target(target).await.unwrap();
    fixture.world.say(husam, lobby, "please").await.unwrap();
    fixture.world.pass(Duration::from_secs(3)).await.unwrap();
    let kept = ports.target_book.deliveries_due(ports.clock.now(), 1).await.unwrap().remove(0).1.body;
    let page = PageRequest { cursor: None, limit: 10 };
    let asked = ports.approvals.approvals(ApprovalFilter::default(), page).await.unwrap().items.remove(0);
    let wanted = asked.row.approval.clone().unwrap();

    let sender = Sender::start(ports.clone());
    fixture.world.pass(Duration::from_secs(30)).await.unwrap();
    sender.stop().await;
    let bodies = told.0.lock().unwrap().clone();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1], "the same bytes at each attempt");
    let body: Value = serde_json::from_str(&bodies[0]).unwrap();
    let link = body["data"]["link"].as_str().unwrap();
    let token = link.rsplit('/').next().unwrap();
    assert!(links.is_token(token, &asked.row, &wanted), "{link}");

    let at = ports.clock.now();
    let verdict = PersonVerdict::Approve { arguments: None, remember: None };
    let answer =
        PersonAnswer { id: asked.row.id.clone(), verdict, reason: None, by: Answerer::Link, at, seen: None };
    let node = fixture.world.node().unwrap();
    let answered = runtime::approvals::answer(&ports, node, &asked, answer).await.unwrap();
    fixture.world.pass(Duration::from_secs(3)).await.unwrap();
    assert_eq!(answered.row.approval.unwrap().state, ApprovalState::Granted);
    assert_eq!(fixture.counters.calls("fire"), 1);
    let texts = posted(&fixture, lobby).await.join("\n");
    assert!(texts.contains("[approval granted by somebody with the link] fire (version "), "{texts}");
    let prompts = prompts.lock().unwrap();
    for (what, text) in [("the store", kept.as_str()), ("the space", &texts), ("the model", &prompts)] {
        assert!(!text.contains(token) && !text.contains("viv.example"), "{what}: {text}");
    }
}
