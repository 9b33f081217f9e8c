//! Targets that are up, down for a day, slow or gone: what each of them gets, on a simulated clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::entity::EntityKind;
use agent::id::{EntityId, MessageId, SpaceId};
use agent::limits;
use agent::port::{
    Accept, BoxFuture, Clock, Courier, NewHuman, NewSpace, NewsKind, NewsOf, SendFailure, StoredTarget,
    TargetDelivery, TargetState,
};
use agent::space::NewMessage;
use jiff::Timestamp;
use models::scripted::Script;
use runtime::Ports;
use runtime::sender::Sender;
use scenario::clock::SimClock;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::Fixture;

const HOME: SpaceId = SpaceId(Uuid::from_u128(60));
const YOU: EntityId = EntityId(Uuid::from_u128(61));
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// How a target answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Well,
    With500,
    With410,
    Never,
}

/// An attempt: the target, what it was told, and whether it took it.
type Made = (String, String, bool);

/// How the target with a name answers.
type Answering = Box<dyn Fn(&str) -> Answers + Send>;

/// Makes attempts as the test says, and notes them.
#[derive(Clone)]
struct FakeCourier {
    answers: Arc<Mutex<Answering>>,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Courier for FakeCourier {
    fn check(&self, _: &StoredTarget) -> Result<(), String> {
        Ok(())
    }

    fn unusable_secret<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    fn send<'a>(
        &'a self,
        target: &'a StoredTarget,
        delivery: &'a TargetDelivery,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), SendFailure>> {
        let answer = self.answers.lock().unwrap()(&target.name);
        let body: Value = serde_json::from_str(&delivery.body).unwrap();
        let text = body["data"]["text"].as_str().unwrap().to_owned();
        self.made.lock().unwrap().push((target.name.clone(), text, answer == Answers::Well));
        Box::pin(async move {
            match answer {
                Answers::Well => Ok(()),
                Answers::With500 => Err(SendFailure::Failed("it answered 500".into())),
                Answers::With410 => Err(SendFailure::Gone),
                Answers::Never => std::future::pending().await,
            }
        })
    }
}

/// A store with a person in a space, and nobody at work.
struct Told {
    ports: Ports,
    clock: SimClock,
    courier: FakeCourier,
    posted: u128,
}

impl Told {
    async fn new(targets: &[&str], answers: impl Fn(&str) -> Answers + Send + 'static) -> Self {
        let mut fixture = Fixture::new(|_| Script::new().call("skip", &json!({})));
        fixture.world.kill();
        let (answers, made) = (Arc::new(Mutex::new(Box::new(answers) as Answering)), Arc::default());
        let courier = FakeCourier { answers, made };
        let ports = Ports { courier: Arc::new(courier.clone()), ..fixture.world.ports().clone() };
        let at = ports.clock.now();
        ports.registry.create_human(NewHuman::new(YOU, "you", at)).await.unwrap();
        ports.registry.open_space(NewSpace::new(HOME, "home", vec![YOU], at)).await.unwrap();
        assert_eq!(ports.reader.entity("you".into()).await.unwrap().unwrap().kind, EntityKind::Human);
        for name in targets {
            let target = StoredTarget {
                name: (*name).to_owned(),
                url: "https://example.com".into(),
                secrets: vec!["s".into()],
                allow: Vec::new(),
                on: vec![NewsKind::Message],
                of: NewsOf::Space(HOME),
                only_if: None,
                body: None,
                off: None,
                at,
            };
            ports.target_book.put_target(target).await.unwrap();
        }
        Self { ports, clock: fixture.clock.clone(), courier, posted: 0 }
    }

    async fn post(&mut self) {
        self.posted += 1;
        let (id, text) = (MessageId(Uuid::from_u128(1_000 + self.posted)), self.posted.to_string());
        let new = NewMessage::of_person(id, HOME, YOU, text, self.clock.now());
        self.ports.store.accept(Accept::Message(new), None).await.unwrap();
    }

    /// Lets time pass, of which the sender uses the last seconds.
    async fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds.saturating_sub(3)));
        self.clock.pass(Duration::from_secs(3)).await.unwrap();
    }

    fn now_answers(&self, answers: impl Fn(&str) -> Answers + Send + 'static) {
        *self.courier.answers.lock().unwrap() = Box::new(answers);
    }

    /// What the target took, and the number of attempts at it.
    fn got(&self, target: &str) -> (Vec<String>, usize) {
        let made = self.courier.made.lock().unwrap();
        let of: Vec<&Made> = made.iter().filter(|(name, ..)| name == target).collect();
        (of.iter().filter(|(.., took)| *took).map(|(_, text, _)| text.clone()).collect(), of.len())
    }

    async fn state(&self, target: &str) -> TargetState {
        let all = self.ports.target_book.targets().await.unwrap();
        all.into_iter().find(|state| state.target.name == target).unwrap()
    }
}

fn numbers(from: u128, to: u128) -> Vec<String> {
    (from..=to).map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn a_target_that_is_down_for_a_day_gets_each_delivery_once_in_order_and_holds_back_no_other() {
    let down = |name: &str| if name == "down" { Answers::With500 } else { Answers::Well };
    let mut told = Told::new(&["down", "up"], down).await;
    let sender = Sender::start(told.ports.clone());
    for ten_minutes in 0..DAY / (10 * MINUTE) {
        if ten_minutes % 3 == 0 {
            told.post().await;
        }
        told.pass(10 * MINUTE).await;
        assert_eq!(told.got("up").0, numbers(1, told.posted), "at once");
    }
    let (took, attempts) = told.got("down");
    assert_eq!(took, [] as [String; 0]);
    assert!((24..60).contains(&attempts), "{attempts} attempts in a day");
    let made = told.courier.made.lock().unwrap().clone();
    assert!(made.iter().all(|(name, text, _)| name == "up" || text == "1"), "none overtakes the first");
    told.now_answers(|_| Answers::Well);
    told.pass(limits::TARGET_PAUSE_MAX_MS / 1000).await;
    told.pass(MINUTE).await;
    assert_eq!(told.got("down").0, numbers(1, told.posted));
    assert_eq!(told.state("down").await.waiting, 0);
    sender.stop().await;
}

#[tokio::test]
async fn after_a_restart_an_attempt_is_made_again_and_order_is_kept() {
    let mut told = Told::new(&["a"], |_| Answers::Never).await;
    let sender = Sender::start(told.ports.clone());
    told.post().await;
    told.post().await;
    told.pass(5).await;
    // It dies while the target has the delivery and has not answered.
    sender.stop().await;
    told.now_answers(|_| Answers::Well);
    let sender = Sender::start(told.ports.clone());
    told.pass(5).await;
    assert_eq!(told.got("a").0, ["1", "2"]);
    sender.stop().await;
}

#[tokio::test]
async fn two_hundred_silent_targets_hold_back_no_healthy_one() {
    let names: Vec<String> = (0..200).map(|n| format!("silent{n:03}")).chain(["well".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut told =
        Told::new(&names, |name| if name == "well" { Answers::Well } else { Answers::Never }).await;
    let sender = Sender::start(told.ports.clone());
    for minute in 0..10 {
        told.post().await;
        told.clock.pass(Duration::from_millis(2 * limits::TARGET_TICK_MS)).await.unwrap();
        assert_eq!(told.got("well").0, numbers(1, told.posted), "in minute {minute}");
        told.clock.pass(Duration::from_secs(MINUTE)).await.unwrap();
    }
    let silent = told.state("silent199").await;
    assert!(silent.why.unwrap().contains("did not answer within 15 s"));
    let attempts = told.got("silent199").1;
    assert!((2..8).contains(&attempts), "{attempts} attempts in ten minutes");
    sender.stop().await;
}

#[tokio::test]
async fn a_target_that_is_gone_is_switched_off_and_what_is_given_up_can_be_sent_again() {
    let mut told = Told::new(&["broken", "gone"], |name| match name {
        "gone" => Answers::With410,
        _ => Answers::With500,
    })
    .await;
    let sender = Sender::start(told.ports.clone());
    told.post().await;
    told.pass(5).await;
    let gone = told.state("gone").await;
    assert_eq!((gone.target.off.as_deref(), gone.waiting), (Some("it answered 410 Gone"), 1));
    told.post().await;
    told.pass(limits::TARGET_GIVE_UP_MS / 1000 + 5).await;
    told.pass(MINUTE).await;
    assert_eq!(told.got("gone"), (vec![], 1), "nothing is sent to it any more");
    let broken = told.state("broken").await;
    assert_eq!((broken.waiting, broken.dead, broken.target.off), (0, 2, None));
    told.now_answers(|_| Answers::Well);
    told.post().await;
    let book = &told.ports.target_book;
    assert_eq!(book.retry_deliveries("broken".into(), None, told.clock.now()).await.unwrap(), 2);
    told.pass(5).await;
    assert_eq!(told.got("broken").0, ["1", "2", "3"]);
    sender.stop().await;
}
