//! Plans over a year with two changes of the clocks, deaths, time without a server, and jumps of the wall clock; and what
//! the events of a plan have from the cycle that set it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::changes::PlanChange;
use agent::config::AgentConfig;
use agent::event::{Event, EventData, EventKind, Trust};
use agent::id::{AgentId, EventId, PlanId};
use agent::life::Standing;
use agent::plan::{Plan, PlanSource, PlanTerms, times};
use agent::port::{Accept, InboxFilter, PageRequest};
use jiff::{SignedDuration, Timestamp};
use models::scripted::Script;
use scenario::world::World;
use serde_json::{Value, json};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use uuid::Uuid;

use crate::fixture::{Fixture, done, everything, inbox, step};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// The events of plans, the oldest first.
async fn fired(world: &World, agent: AgentId) -> Vec<Event> {
    let mut all = Vec::new();
    for kind in [EventKind::Plan, EventKind::Timer] {
        all.extend(fired_as(world, agent, kind).await);
    }
    all.sort_by_key(|event| event.at);
    all
}

/// Those of one kind.
async fn fired_as(world: &World, agent: AgentId, kind: EventKind) -> Vec<Event> {
    let filter = InboxFilter { kind: Some(kind), ..InboxFilter::default() };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageRequest { cursor, limit: 200 };
        let page = world.reader().inbox(agent, filter.clone(), page).await.unwrap();
        found.extend(page.items.into_iter().map(|row| row.event));
        cursor = page.next;
        if cursor.is_none() {
            found.reverse();
            return found;
        }
    }
}

async fn set(world: &World, agent: AgentId, n: u128, terms: Value) -> Plan {
    let mut terms: PlanTerms = serde_json::from_value(terms).unwrap();
    terms.instruction = Some("look".into());
    let plan =
        terms.plan(PlanId(Uuid::from_u128(n)), None, PlanSource::Operator, world.clock().now()).unwrap();
    world.registry().change_plan(agent, PlanChange::Set(plan)).await.unwrap().unwrap()
}

/// Collects what is logged about plans.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Subscriber for Logged {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &Field, value: &dyn std::fmt::Debug| {
            line.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().unwrap().push(line);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_time_that_is_dropped_because_it_is_late_leaves_one_line_in_the_log() {
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(logged.clone());
    let mut fixture = Fixture::new(|_| Script::new().call("skip", &json!({})));
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let plan =
        set(&fixture.world, ada, 1, json!({"name": "mail", "every": "1d", "max_lateness": "1h"})).await;
    let slot = plan.next_at.unwrap();
    fixture.world.kill();
    fixture.clock.advance(Duration::from_secs(DAY + 2 * HOUR));
    fixture.dies();
    fixture.world.pass(Duration::from_secs(2 * HOUR)).await.unwrap();
    let lines = logged.0.lock().unwrap().clone();
    let lines: Vec<&String> = lines.iter().filter(|line| line.contains(&ada.to_string())).collect();
    let [line] = lines[..] else { panic!("{lines:?}") };
    for part in [&plan.id.to_string(), "name=\"mail\"", &slot.to_string(), "passed 2h ago"] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[tokio::test]
async fn the_log_names_the_agent_by_its_handle_and_says_why_it_skipped() {
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(logged.clone());
    let fixture = Fixture::new(|_| Script::new().call("skip", &json!({"reason": "nothing new"})));
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    fixture.world.service(ada, "bell", "bell", json!({})).await.unwrap();
    fixture.world.quiet().await.unwrap();
    let lines = logged.0.lock().unwrap().clone();
    let ended: Vec<&String> = lines.iter().filter(|line| line.contains("a cycle ended")).collect();
    let [line] = ended[..] else { panic!("{lines:?}") };
    for part in ["agent=\"ada\"", "ending=\"skipped\"", "nothing new"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(lines.iter().all(|line| !line.contains(&ada.to_string())), "{lines:?}");
}

/// What happens before a stretch of days begins.
#[derive(Clone, Copy)]
enum Mishap {
    None,
    Dies,
    Down(u64),
    Ahead(u64),
    Back(u64),
    Suspended(u64),
}

#[tokio::test]
async fn over_a_year_with_deaths_and_clock_jumps_every_slot_of_a_plan_fires_as_promised() {
    use Mishap::{Ahead, Back, Dies, Down, None, Suspended};
    let mut fixture = Fixture::new(|_| Script::new().call("skip", &json!({})));
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let start = fixture.now();
    let mut plans = HashMap::new();
    for (n, terms) in [
        json!({"name": "morning", "cron": "30 9 * * *", "zone": "Europe/Berlin"}),
        json!({"name": "night", "cron": "30 2 * * *", "zone": "Europe/Berlin"}),
        json!({"name": "weekly", "cron": "0 18 * * 5", "zone": "America/New_York"}),
        json!({"name": "month's end", "cron": "0 12 31 * *", "zone": "Asia/Kathmandu"}),
        json!({"name": "span", "every": "31h"}),
        json!({"name": "each", "cron": "15 */12 * * *", "zone": "Australia/Lord_Howe", "missed": "all"}),
        json!({"name": "in time", "cron": "45 */8 * * *", "zone": "Europe/Berlin", "missed": "skip"}),
        json!({"name": "soon after", "cron": "5 7 * * *", "zone": "UTC", "max_lateness": "6h"}),
    ]
    .into_iter()
    .enumerate()
    {
        let plan = set(&fixture.world, ada, n as u128 + 1, terms).await;
        plans.insert(plan.id, plan);
    }
    let mishaps = [
        None,
        Dies,
        Down(7),
        Ahead(5),
        Down(60),
        Back(26),
        Suspended(40),
        Dies,
        Ahead(30),
        Back(3),
        Down(11),
    ];
    // 14 days each, and a little more, so that the mishaps come at all times of the day.
    for (n, mishap) in mishaps.iter().cycle().take(27).enumerate() {
        let hours = |hours: u64| Duration::from_secs(hours * HOUR);
        match *mishap {
            None => {}
            Dies => fixture.dies(),
            Down(long) => {
                fixture.world.kill();
                fixture.clock.advance(hours(long));
                fixture.dies();
            }
            Ahead(by) => fixture.clock.jump_wall(SignedDuration::from_hours(by.cast_signed())),
            Back(by) => fixture.clock.jump_wall(SignedDuration::from_hours(-by.cast_signed())),
            Suspended(long) => {
                let at = fixture.now();
                fixture.world.registry().set_standing(ada, Standing::Suspended, at).await.unwrap();
                fixture.world.pass(hours(long)).await.unwrap();
                let at = fixture.now();
                fixture.world.registry().set_standing(ada, Standing::Active, at).await.unwrap();
            }
        }
        fixture.world.pass(Duration::from_secs(13 * DAY + n as u64 * 3_607)).await.unwrap();
    }
    fixture.world.quiet().await.unwrap();

    let mut slots: BTreeMap<PlanId, Vec<Timestamp>> = BTreeMap::new();
    for event in fired(&fixture.world, ada).await {
        let EventData::Plan { plan, slots: fired, name, .. } = event.data else { panic!("{event:?}") };
        let oldest = event.at.duration_since(fired[0]);
        match name.as_str() {
            "each" => assert_eq!(fired.len(), 1),
            "in time" => assert!(oldest.as_secs() <= 60, "{oldest}"),
            "soon after" => assert!(oldest <= SignedDuration::from_hours(6), "{oldest}"),
            _ => {}
        }
        slots.entry(plan).or_default().extend(fired);
    }
    let now = fixture.now();
    assert!(now.duration_since(start) > SignedDuration::from_hours(365 * 24));
    let kept = fixture.world.reader().plans(ada).await.unwrap();
    assert_eq!(kept.len(), plans.len());
    for plan in kept {
        let (name, fired) = (&plan.name, &slots[&plan.id]);
        let next = plan.next_at.unwrap();
        assert!(next > now, "{name}: {next}");
        let due: Vec<Timestamp> = times(&plan.schedule, start, 2_000)
            .unwrap()
            .into_iter()
            .take_while(|slot| *slot < next)
            .collect();
        let drops = ["in time", "soon after"].contains(&name.as_str());
        match drops {
            false => assert_eq!(*fired, due, "{name}: each slot once, in order"),
            true => {
                assert!(fired.is_sorted_by(|a, b| a < b), "{name}: no slot twice");
                assert!(fired.iter().all(|slot| due.contains(slot)), "{name}");
                assert!(
                    fired.len() < due.len() && fired.len() * 10 > due.len() * 8,
                    "{name}: {}",
                    fired.len()
                );
            }
        }
    }
}

#[tokio::test]
async fn an_agent_plans_for_itself_and_is_woken_with_the_root_and_trust_of_the_cycle_that_set_it() {
    let fixture = Fixture::new(|prompt| match (step(prompt), inbox(prompt)) {
        (0, text) if text.contains("deploy") => {
            let plan = json!({"name": "look again", "instruction": "did it work?", "after": "2h"});
            Script::new().call("set_plans", &json!({"plans": [plan]}))
        }
        _ => done(),
    });
    let world = &fixture.world;
    let ada = world.agent("ada", AgentConfig::default()).await.unwrap();
    let mut event =
        Event::of_service(EventId("e-1".into()), "web", "deploy", json!({"ok": true}), fixture.now());
    event.envelope.trust = Trust::Outside;
    world.ports().store.accept(Accept::Event(ada, event), None).await.unwrap();
    world.quiet().await.unwrap();
    let plans = world.reader().plans(ada).await.unwrap();
    assert_eq!((plans.len(), plans[0].trust, plans[0].source), (1, Trust::Outside, PlanSource::Agent));
    world.pass(Duration::from_secs(3 * HOUR)).await.unwrap();
    let events = fired(world, ada).await;
    let envelope = &events[0].envelope;
    assert_eq!((events.len(), envelope.root.0.as_str(), envelope.trust), (1, "e-1", Trust::Outside));
    let last =
        fixture.model.prompts().into_iter().find(|prompt| inbox(prompt).contains("look again")).unwrap();
    assert!(everything(&last).contains("did it work?"));
    assert_eq!(world.reader().plans(ada).await.unwrap(), []);
}

/// The keeper does not wait for its next sweep.
#[tokio::test]
async fn a_reminder_within_seconds_comes_in_time() {
    let fixture = Fixture::new(|prompt| match (inbox(prompt).contains("tea"), step(prompt)) {
        (false, 0) => Script::new().call("set_reminder", &json!({"after": "2s", "reason": "tea"})),
        _ => done(),
    });
    let ada = fixture.world.agent("ada", AgentConfig::default()).await.unwrap();
    let husam = fixture.world.human("husam").await.unwrap();
    let lobby = fixture.world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    for lead_ms in [0, 1_700] {
        fixture.world.pass(Duration::from_millis(lead_ms)).await.unwrap();
        let before = fired(&fixture.world, ada).await.len();
        fixture.world.say(husam, lobby, "hi").await.unwrap();
        fixture.world.pass(Duration::from_millis(1_900)).await.unwrap();
        assert_eq!(fired(&fixture.world, ada).await.len(), before, "too early");
        fixture.world.pass(Duration::from_millis(200)).await.unwrap();
        assert_eq!(fired(&fixture.world, ada).await.len(), before + 1, "in time");
        assert_eq!(fired_as(&fixture.world, ada, EventKind::Timer).await.len(), before + 1, "by a timer");
    }
}

/// Ten agents with a heartbeat and nothing to do cost nothing for a day. One whose space gets a new member is asked once.
#[tokio::test]
async fn heartbeats_of_idle_agents_ask_no_model() {
    let fixture = Fixture::new(|_| done());
    let world = &fixture.world;
    let husam = world.human("husam").await.unwrap();
    let config = AgentConfig::from_json(&json!({"heartbeat": {"every": "5m"}})).unwrap();
    let mut spaces = Vec::new();
    for n in 0..10 {
        let agent = world.agent(&format!("ada{n}"), config.clone()).await.unwrap();
        let space = world.space(&format!("lobby{n}"), &[husam, agent.entity()]).await.unwrap();
        world.say(husam, space, "hi").await.unwrap();
        spaces.push(space);
    }
    world.quiet().await.unwrap();
    let asked = fixture.model.prompts().len();
    world.pass(Duration::from_secs(DAY)).await.unwrap();
    assert_eq!(fixture.model.prompts().len(), asked, "nothing has changed");
    let vera = world.human("vera").await.unwrap();
    world.registry().add_member(spaces[3], vera, "member".into(), fixture.now()).await.unwrap();
    world.pass(Duration::from_secs(DAY)).await.unwrap();
    let prompts = fixture.model.prompts();
    assert_eq!(prompts.len(), asked + 1);
    assert!(inbox(prompts.last().unwrap()).contains("[heartbeat]"));
}
