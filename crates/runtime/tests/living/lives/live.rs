//! Lives a life, cut at one commit, to its end.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::changes::{Changes, CommitKind};
use agent::config::AgentConfig;
use agent::id::{AgentId, EntityId, MessageId, SpaceId};
use agent::life::{Lease, Standing};
use agent::port::{Clock, Store};
use agent::prompt::Prompt;
use models::scripted::{Script, Scripted};
use scenario::world::World;
use serde_json::json;
use testkit::test_tools::{Counters, ToolGate};

use super::checks;
use super::life::{Deed, Life, Moment, Part};
use crate::between::{Behind, Between, Committed};
use crate::play::{One, done, ground, inbox, send, step};
use crate::prefix::cutting;

pub(super) const NEVER: i64 = 1_000_000;

/// How long a generation takes.
const THINKS: Duration = Duration::from_millis(200);

/// Where the process dies.
#[derive(Clone, Copy)]
pub(super) struct Death {
    pub(super) at: i64,
    /// Whether that commit is written before its answer is lost.
    pub(super) written: bool,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at, self.written) {
            (NEVER, _) => write!(f, "uncut"),
            (at, false) => write!(f, "cut at commit {at}, not written"),
            (at, true) => write!(f, "cut at commit {at}, written"),
        }
    }
}

/// What is wrong with the store, to see whether it is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Unsafe calls are not marked as begun.
    Unmarked,
}

/// A life as it is being processed.
pub(super) struct Lived {
    pub(super) world: World,
    pub(super) model: Arc<Scripted>,
    pub(super) counters: Counters,
    pub(super) husam: EntityId,
    pub(super) ada: AgentId,
    pub(super) lobby: SpaceId,
    pub(super) den: SpaceId,
    /// Ids of what was accepted, and whether it was a person's.
    pub(super) accepted: Vec<(String, bool)>,
    gate: ToolGate,
    left: Arc<AtomicI64>,
    /// Commits that were asked for in all.
    used: i64,
}

/// Lives it; the commits that it took, or what is wrong with how it ended.
pub(super) async fn live(life: &Life, cut: Death, flaw: Flaw) -> Result<i64, String> {
    let mut lived = begin(life, cut, flaw).await;
    let mut last = None;
    for (place, moment) in life.moments.iter().enumerate() {
        lived.befalls(place, moment, &mut last).await?;
        lived.revive();
    }
    lived.end().await?;
    checks::all(life, &lived).await?;
    Ok(lived.used)
}

async fn begin(life: &Life, cut: Death, flaw: Flaw) -> Lived {
    let left = Arc::new(AtomicI64::new(cut.at));
    let clock = Arc::new(OnceLock::<Arc<dyn Clock>>::new());
    let (parts, watch) = (life.parts(), Arc::clone(&clock));
    let model = Scripted::answering(move |prompt| author(&parts, watch.get().expect("it is set"), prompt));
    let model = Arc::new(model);
    let counter = Arc::clone(&left);
    let wrap = move |inner| {
        let inner = Arc::new(Behind { inner, by: Flawed(flaw) });
        cutting(inner, Arc::clone(&counter), cut.written)
    };
    let (world, counters, gate) = ground(Arc::new(One(Arc::clone(&model))), wrap, life.slow);
    assert!(clock.set(Arc::clone(world.clock())).is_ok());
    let husam = world.human("husam").await.unwrap();
    let mut config = AgentConfig { awareness: life.awareness, ..AgentConfig::default() };
    config.limits.max_steps = 6;
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let den = world.space("den", &[husam, ada.entity()]).await.unwrap();
    Lived { world, model, counters, husam, ada, lobby, den, accepted: Vec::new(), gate, left, used: 0 }
}

/// How a message is known in the log again.
pub(super) fn mark(nth: usize) -> String {
    format!("#{nth}.")
}

/// The word that everybody answers.
pub(super) const LAST: &str = "are you there?";

/// What the model answers: a pure function of what it is shown, so that it answers the same after a death.
fn author(parts: &[Part], clock: &Arc<dyn Clock>, prompt: &Prompt) -> Script {
    let (shown, at) = (inbox(prompt), step(prompt));
    let slowly = Script::new().text("hm").pause(clock, THINKS);
    if shown.contains(LAST) {
        return if at == 0 { slowly.call("send_message", &send("lobby", "yes")) } else { done() };
    }
    let part = (0..parts.len()).filter_map(|nth| Some((shown.find(&mark(nth))?, nth))).min();
    let Some(deeds) = part.and_then(|(_, nth)| parts[nth].0.get(at)) else { return done() };
    deeds.iter().fold(slowly, |script, deed| match deed {
        Deed::Look => script.call("look", &json!({})),
        Deed::Put => script.call("put", &json!({})),
        Deed::Fire => script.call("fire", &json!({})),
        Deed::Slow => script.call("slow", &json!({})),
        Deed::Ask => script.call("ask", &json!({})),
        Deed::Order => script.call("order", &json!({})),
        Deed::Say => script.call("send_message", &send("lobby", "working")),
        Deed::SayInTheDen => script.call("send_message", &send("den", "working")),
        Deed::Remember => {
            script.call("set_memories", &json!({"memories": [{"key": "seen", "value": "yes"}]}))
        }
        Deed::Peek => script.call("peek_inbox", &json!({})),
        Deed::Fail => script.call("fail", &json!({})),
        Deed::Nonsense => script.call("nonsense", &json!({})),
        Deed::Garble => script.raw_call("put", "{\"note\":", 3),
        Deed::Skip => script.call("skip", &json!({})),
        Deed::Done => script.call("done", &json!({})),
    })
}

impl Lived {
    async fn befalls(
        &mut self,
        place: usize,
        moment: &Moment,
        last: &mut Option<(MessageId, String)>,
    ) -> Result<(), String> {
        match moment {
            Moment::Said(_) => {
                let nth = self.accepted.iter().filter(|(_, said)| *said).count();
                let text = format!("{} please", mark(nth));
                let id = MessageId(self.world.ports().ids.uuid());
                self.say(id, &text, true).await?;
                *last = Some((id, text));
                self.pass(Duration::from_millis(20)).await?;
            }
            Moment::Again => {
                if let Some((id, text)) = last {
                    self.say(*id, text, false).await?;
                }
            }
            Moment::Called => {
                let id = format!("call-{place}");
                let fresh = self.world.service(self.ada, &id, "bell", json!({"rings": true})).await;
                assert!(fresh.map_err(|error| error.to_string())?, "a service's event was taken for another");
                self.accepted.push((id, false));
            }
            Moment::Passes(ms) => self.pass(Duration::from_millis(*ms)).await?,
            Moment::Canceled => {
                // Where no cycle is open there is none to cancel.
                let _ = self.world.registry().cancel(self.ada, None).await;
                self.look();
                self.pass(Duration::from_millis(1)).await?;
            }
            Moment::Suspended(suspended) => self.stand(*suspended).await?,
            Moment::Stopped => {
                // One whose commit never comes back does not stop in good order.
                let _ = self.world.stop().await;
                self.world.kill();
                self.heal();
                self.world.start();
            }
            Moment::Killed => {
                self.world.kill();
                self.heal();
                self.world.start();
            }
            Moment::Revoked => {
                let _ = self.world.registry().remove_member(self.den, self.ada.entity()).await;
            }
            Moment::GateOpens => self.gate.open(),
        }
        Ok(())
    }

    async fn say(&mut self, id: MessageId, text: &str, new: bool) -> Result<(), String> {
        let said = self.world.say_as(id, self.husam, self.lobby, text).await;
        let fresh = said.map_err(|error| error.to_string())?;
        assert_eq!(fresh, new, "`{text}` was taken for another");
        if new {
            self.accepted.push((id.to_string(), true));
        }
        Ok(())
    }

    async fn stand(&mut self, suspended: bool) -> Result<(), String> {
        let standing = if suspended { Standing::Suspended } else { Standing::Active };
        let now = self.world.clock().now();
        self.world
            .registry()
            .set_standing(self.ada, standing, now)
            .await
            .map_err(|error| error.to_string())?;
        self.look();
        Ok(())
    }

    fn look(&self) {
        if let Some(node) = self.world.node() {
            node.look(self.ada);
        }
    }

    async fn pass(&self, time: Duration) -> Result<(), String> {
        self.world.pass(time).await.map_err(|error| error.to_string())
    }

    /// From now on nothing is cut.
    fn heal(&mut self) {
        let left = self.left.load(Ordering::SeqCst);
        if left < 0 {
            self.left.store(NEVER, Ordering::SeqCst);
        }
    }

    /// Starts the process again that died at the cut.
    fn revive(&mut self) {
        if self.left.load(Ordering::SeqCst) < 0 {
            self.world.kill();
            self.heal();
            self.world.start();
        }
    }

    /// Lets everything come to its end, and sees whether the agent still answers.
    async fn end(&mut self) -> Result<(), String> {
        self.used = self.left.load(Ordering::SeqCst);
        self.gate.open();
        self.stand(false).await?;
        self.rest().await?;
        // What goes on beyond its cycle is taken up again some time after its process died.
        self.pass(Duration::from_secs(20 * 60)).await?;
        self.rest().await?;
        // Uncut it says how many there are to be cut.
        self.used = NEVER - self.left.load(Ordering::SeqCst);
        self.say(MessageId(self.world.ports().ids.uuid()), LAST, true).await?;
        self.rest().await
    }

    async fn rest(&mut self) -> Result<(), String> {
        for _ in 0..3_600 {
            self.pass(Duration::from_secs(1)).await?;
            self.revive();
            let totals = self.world.reader().totals().await.map_err(|error| error.to_string())?;
            if (totals.waiting, totals.open_cycles) == (0, 0) {
                return Ok(());
            }
        }
        Err("it did not come to rest within an hour".to_owned())
    }
}

/// Leaves something out.
struct Flawed(Flaw);

impl Between for Flawed {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, mut changes: Changes) -> Committed<'a> {
        if self.0 == Flaw::Unmarked && changes.kind == CommitKind::Start {
            changes.call_changes.clear();
        }
        store.commit(lease, changes)
    }
}
