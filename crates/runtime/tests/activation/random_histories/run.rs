//! Runs a history, cut at one commit, to its end.

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
use super::history::{Call, History, Moment, Reply};
use crate::fixture::{done, inbox, one, send, step, world_with};
use crate::prefix::cut_at_commit;
use crate::store_wrapper::{Committed, Intercept, Wrapped};

pub(super) const NEVER: i64 = 1_000_000;

/// How long a generation takes.
const THINKS: Duration = Duration::from_millis(200);

/// The commit at which the process dies.
#[derive(Clone, Copy)]
pub(super) struct Death {
    pub(super) at: i64,
    /// Whether that commit is written before its answer is lost.
    pub(super) written: bool,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at, self.written) {
            (NEVER, _) => write!(f, "whole"),
            (at, false) => write!(f, "cut at commit {at}, not written"),
            (at, true) => write!(f, "cut at commit {at}, written"),
        }
    }
}

/// A flaw of the store, to check that it is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Unsafe calls are not marked as started.
    Unmarked,
}

/// A history that is running.
pub(super) struct Running {
    pub(super) world: World,
    pub(super) model: Arc<Scripted>,
    pub(super) counters: Counters,
    pub(super) husam: EntityId,
    pub(super) ada: AgentId,
    pub(super) lobby: SpaceId,
    pub(super) den: SpaceId,
    /// Ids of the accepted events, and whether a person sent them.
    pub(super) accepted: Vec<(String, bool)>,
    gate: ToolGate,
    left: Arc<AtomicI64>,
    /// The number of commits submitted.
    used: i64,
}

/// Runs the history. Returns its number of commits, or what is wrong at its end.
pub(super) async fn run(history: &History, cut: Death, flaw: Flaw) -> Result<i64, String> {
    let mut running = begin(history, cut, flaw).await;
    let mut last = None;
    for (index, moment) in history.moments.iter().enumerate() {
        running.perform(index, moment, &mut last).await?;
        running.restart_if_dead();
    }
    running.end().await?;
    checks::all(history, &running).await?;
    Ok(running.used)
}

async fn begin(history: &History, cut: Death, flaw: Flaw) -> Running {
    let left = Arc::new(AtomicI64::new(cut.at));
    let clock = Arc::new(OnceLock::<Arc<dyn Clock>>::new());
    let (replies, watch) = (history.replies(), Arc::clone(&clock));
    let model = Scripted::answering(move |prompt| author(&replies, watch.get().expect("it is set"), prompt));
    let model = Arc::new(model);
    let counter = Arc::clone(&left);
    let wrap = move |inner| {
        let inner = Arc::new(Wrapped { inner, by: Flawed(flaw) });
        cut_at_commit(inner, Arc::clone(&counter), cut.written)
    };
    let (world, counters, gate) = world_with(one(&model), wrap, history.slow);
    assert!(clock.set(Arc::clone(world.clock())).is_ok());
    let husam = world.human("husam").await.unwrap();
    let mut config = AgentConfig { awareness: history.awareness, ..AgentConfig::default() };
    config.limits.max_steps = 6;
    let ada = world.agent("ada", config).await.unwrap();
    let lobby = world.space("lobby", &[husam, ada.entity()]).await.unwrap();
    let den = world.space("den", &[husam, ada.entity()]).await.unwrap();
    Running { world, model, counters, husam, ada, lobby, den, accepted: Vec::new(), gate, left, used: 0 }
}

/// Identifies a message in the log.
pub(super) fn mark(nth: usize) -> String {
    format!("#{nth}.")
}

/// The last message, which every agent must answer.
pub(super) const LAST: &str = "are you there?";

/// The reply of the model: a pure function of the prompt, so that it is the same after a restart.
fn author(replies: &[Reply], clock: &Arc<dyn Clock>, prompt: &Prompt) -> Script {
    let (shown, at) = (inbox(prompt), step(prompt));
    let slowly = Script::new().text("hm").pause(clock, THINKS);
    if shown.contains(LAST) {
        return if at == 0 { slowly.call("send_message", &send("lobby", "yes")) } else { done() };
    }
    let reply = (0..replies.len()).filter_map(|nth| Some((shown.find(&mark(nth))?, nth))).min();
    let Some(calls) = reply.and_then(|(_, nth)| replies[nth].0.get(at)) else { return done() };
    calls.iter().fold(slowly, |script, call| match call {
        Call::Look => script.call("look", &json!({})),
        Call::Put => script.call("put", &json!({})),
        Call::Fire => script.call("fire", &json!({})),
        Call::Slow => script.call("slow", &json!({})),
        Call::Ask => script.call("ask", &json!({})),
        Call::Order => script.call("order", &json!({})),
        Call::Post => script.call("send_message", &send("lobby", "working")),
        Call::PostInTheDen => script.call("send_message", &send("den", "working")),
        Call::Remember => {
            script.call("set_memories", &json!({"memories": [{"key": "seen", "value": "yes"}]}))
        }
        Call::Peek => script.call("peek_inbox", &json!({})),
        Call::Fail => script.call("fail", &json!({})),
        Call::Nonsense => script.call("nonsense", &json!({})),
        Call::Garble => script.raw_call("put", "{\"note\":", 3),
        Call::Skip => script.call("skip", &json!({})),
        Call::Done => script.call("done", &json!({})),
    })
}

impl Running {
    async fn perform(
        &mut self,
        index: usize,
        moment: &Moment,
        last: &mut Option<(MessageId, String)>,
    ) -> Result<(), String> {
        match moment {
            Moment::Message(_) => {
                let nth = self.accepted.iter().filter(|(_, by_person)| *by_person).count();
                let text = format!("{} please", mark(nth));
                let id = MessageId(self.world.ports().ids.uuid());
                self.post(id, &text, true).await?;
                *last = Some((id, text));
                self.pass(Duration::from_millis(20)).await?;
            }
            Moment::Duplicate => {
                if let Some((id, text)) = last {
                    self.post(*id, text, false).await?;
                }
            }
            Moment::ServiceEvent => {
                let id = format!("call-{index}");
                let fresh = self.world.service(self.ada, &id, "bell", json!({"rings": true})).await;
                assert!(
                    fresh.map_err(|error| error.to_string())?,
                    "a service's event was taken for a duplicate"
                );
                self.accepted.push((id, false));
            }
            Moment::Pass(ms) => self.pass(Duration::from_millis(*ms)).await?,
            Moment::Canceled => {
                // Without an open cycle there is nothing to cancel.
                let _ = self.world.registry().cancel(self.ada, None).await;
                self.recheck();
                self.pass(Duration::from_millis(1)).await?;
            }
            Moment::Suspended(suspended) => self.suspend(*suspended).await?,
            Moment::Stopped => {
                // A process whose commit is never answered does not stop gracefully.
                let _ = self.world.stop().await;
                self.world.kill();
                self.end_cut();
                self.world.start();
            }
            Moment::Killed => {
                self.world.kill();
                self.end_cut();
                self.world.start();
            }
            Moment::Revoked => {
                let _ = self.world.registry().remove_member(self.den, self.ada.entity()).await;
            }
            Moment::GateOpens => self.gate.open(),
        }
        Ok(())
    }

    async fn post(&mut self, id: MessageId, text: &str, new: bool) -> Result<(), String> {
        let posted = self.world.say_as(id, self.husam, self.lobby, text).await;
        let fresh = posted.map_err(|error| error.to_string())?;
        assert_eq!(fresh, new, "`{text}`: new or duplicate");
        if new {
            self.accepted.push((id.to_string(), true));
        }
        Ok(())
    }

    async fn suspend(&mut self, suspended: bool) -> Result<(), String> {
        let standing = if suspended { Standing::Suspended } else { Standing::Active };
        let now = self.world.clock().now();
        self.world
            .registry()
            .set_standing(self.ada, standing, now)
            .await
            .map_err(|error| error.to_string())?;
        self.recheck();
        Ok(())
    }

    fn recheck(&self) {
        if let Some(node) = self.world.node() {
            node.recheck(self.ada);
        }
    }

    async fn pass(&self, time: Duration) -> Result<(), String> {
        self.world.pass(time).await.map_err(|error| error.to_string())
    }

    /// After the cut, no further one.
    fn end_cut(&mut self) {
        let left = self.left.load(Ordering::SeqCst);
        if left < 0 {
            self.left.store(NEVER, Ordering::SeqCst);
        }
    }

    /// Starts the process again if it died at the cut.
    fn restart_if_dead(&mut self) {
        if self.left.load(Ordering::SeqCst) < 0 {
            self.world.kill();
            self.end_cut();
            self.world.start();
        }
    }

    /// Waits until everything is finished, and checks that the agent still answers.
    async fn end(&mut self) -> Result<(), String> {
        self.used = self.left.load(Ordering::SeqCst);
        self.gate.open();
        self.suspend(false).await?;
        self.run_until_idle().await?;
        // Detached calls are resumed some time after their process died.
        self.pass(Duration::from_secs(20 * 60)).await?;
        self.run_until_idle().await?;
        // Without a cut this is the number of commits that can be cut.
        self.used = NEVER - self.left.load(Ordering::SeqCst);
        self.post(MessageId(self.world.ports().ids.uuid()), LAST, true).await?;
        self.run_until_idle().await
    }

    async fn run_until_idle(&mut self) -> Result<(), String> {
        for _ in 0..3_600 {
            self.pass(Duration::from_secs(1)).await?;
            self.restart_if_dead();
            let totals = self.world.reader().totals().await.map_err(|error| error.to_string())?;
            if (totals.waiting, totals.open_cycles) == (0, 0) {
                return Ok(());
            }
        }
        Err("it was not idle within an hour".to_owned())
    }
}

/// Applies a flaw.
struct Flawed(Flaw);

impl Intercept for Flawed {
    fn commit<'a>(&'a self, store: &'a dyn Store, lease: Lease, mut changes: Changes) -> Committed<'a> {
        if self.0 == Flaw::Unmarked && changes.kind == CommitKind::Start {
            changes.call_changes.clear();
        }
        store.commit(lease, changes)
    }
}
