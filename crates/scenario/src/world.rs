//! A world: people, agents and spaces on a given store, with a keeper that can be stopped, killed and
//! restarted. It runs on a simulated clock, or on the real one with a real model.
//!
//! This module must not know which store, model or tools it uses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::entity::Entity;
use agent::event::{Event, EventState, Trust};
use agent::id::{AgentId, EntityId, EventId, MessageId, PlanId, SpaceId};
use agent::life::IdleReason;
use agent::plan::{Plan, PlanSource, Schedule, fired_now};
use agent::port::{
    Accept, Accepted, AgentCard, ApprovalFilter, Clock, DeliveryHead, HookAccepted, HookReading,
    MessageFilter, NewAgent, NewHookDelivery, NewHuman, NewSpace, PageRequest, RawDelivery, Reader, Registry,
    RunFilter,
};
use agent::space::{Message, NewMessage};
use runtime::{Keeper, Ports};
use serde_json::Value;

use crate::clock::{SimClock, since};
use crate::model_monitor::ModelMonitor;
use crate::outage::Outage;
use crate::own_tools::WorldTools;

/// The keeper's interval between two sweeps for due work while it is idle.
const SWEEP: Duration = Duration::from_millis(agent::limits::SWEEP_MS);
/// Simulated time that passes step by step before the world checks whether any task is active.
const STRIDE: Duration = SWEEP;

/// A running world. Its methods return the reason if the world does not do what it must, so that a scenario
/// reports it at once.
pub struct World {
    simulated: Option<SimClock>,
    ports: Ports,
    keeper: Option<Keeper>,
    /// Its tools.
    own_tools: WorldTools,
    /// Makes the models fail on demand.
    outage: Outage,
    /// Monitors the models in real time.
    monitor: Option<ModelMonitor>,
}

/// Why a world stopped.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(String);

/// Turns any error into the reason why a world stopped.
pub fn stopped(error: impl std::fmt::Display) -> Stopped {
    Stopped(error.to_string())
}

impl World {
    /// A world on `ports` in simulated time, with a running keeper. It never waits for real time, and every run
    /// is the same. Must be called on a current-thread executor.
    pub fn new(ports: Ports, clock: SimClock) -> Self {
        Self::on(ports, Some(clock), None)
    }

    /// A world on `ports` in real time, with a running keeper.
    pub fn real(mut ports: Ports) -> Self {
        let monitor = ModelMonitor::of(Arc::clone(&ports.models), Arc::clone(&ports.clock));
        ports.models = Arc::new(monitor.clone());
        Self::on(ports, None, Some(monitor))
    }

    fn on(mut ports: Ports, simulated: Option<SimClock>, monitor: Option<ModelMonitor>) -> Self {
        let outage = Outage::of(Arc::clone(&ports.models));
        ports.models = Arc::new(outage.clone());
        let own_tools = WorldTools::around(Arc::clone(&ports.toolbox));
        ports.toolbox = Arc::new(own_tools.clone());
        let keeper = Some(runtime::start(ports.clone()));
        Self { simulated, ports, keeper, own_tools, outage, monitor }
    }

    /// The clock of this world.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Its tools.
    pub(crate) fn own_tools(&self) -> &WorldTools {
        &self.own_tools
    }

    /// Makes every request to a model fail from now on, or ends that.
    pub fn cut_line(&self, cut: bool) {
        self.outage.cut(cut);
    }

    /// Whether every request to a model fails.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.outage.is_cut()
    }

    /// The monitor of the models, in real time.
    pub(crate) fn monitor(&self) -> Option<&ModelMonitor> {
        self.monitor.as_ref()
    }

    /// The ports of the world.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Reads everything.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.ports.reader
    }

    /// Creates and changes entities and spaces.
    pub fn registry(&self) -> &Arc<dyn Registry> {
        &self.ports.registry
    }

    /// Creates a person.
    pub async fn human(&self, name: &str) -> Result<EntityId, Stopped> {
        let new = NewHuman::new(EntityId(self.ports.ids.uuid()), name, self.ports.clock.now());
        let new = NewHuman { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.create_human(new).await.map_err(stopped)?.id)
    }

    /// Creates an agent.
    pub async fn agent(&self, name: &str, config: AgentConfig) -> Result<AgentId, Stopped> {
        let new = NewAgent::new(AgentId(self.ports.ids.uuid()), name, config, self.ports.clock.now());
        let new = NewAgent { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.create_agent(new).await.map_err(stopped)?.id.agent())
    }

    /// Creates a space with its first members.
    pub async fn space(&self, name: &str, members: &[EntityId]) -> Result<SpaceId, Stopped> {
        let (id, at) = (SpaceId(self.ports.ids.uuid()), self.ports.clock.now());
        let new = NewSpace::new(id, name.to_lowercase(), members.to_vec(), at);
        let new = NewSpace { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.open_space(new).await.map_err(stopped)?.id)
    }

    /// Posts a message of a person; returns once it is durable.
    pub async fn say(&self, who: EntityId, space: SpaceId, text: &str) -> Result<MessageId, Stopped> {
        let id = MessageId(self.ports.ids.uuid());
        self.say_as(id, who, space, text).await?;
        Ok(id)
    }

    /// The same with an id of the client; `false` if it was accepted before.
    pub async fn say_as(
        &self,
        id: MessageId,
        who: EntityId,
        space: SpaceId,
        text: &str,
    ) -> Result<bool, Stopped> {
        self.accept(Accept::Message(NewMessage::of_person(id, space, who, text, self.ports.clock.now())))
            .await
    }

    /// Sends an event of a service; `false` if its id was accepted before.
    pub async fn service(
        &self,
        agent: AgentId,
        id: &str,
        name: &str,
        payload: Value,
    ) -> Result<bool, Stopped> {
        let event = Event::of_service(EventId(id.into()), "world", name, payload, self.ports.clock.now());
        self.accept(Accept::Event(agent, event)).await
    }

    /// Gives an agent what a plan of that name says, as if it were due now. Nobody has to have set it.
    pub async fn due(&self, agent: AgentId, name: &str, instruction: &str) -> Result<bool, Stopped> {
        let Ports { clock, ids, .. } = &self.ports;
        let now = clock.now();
        let once = Schedule::After { at: now, after_ms: 0 };
        let (source, trust) = (PlanSource::Operator, Trust::Operator);
        let plan = Plan { source, trust, ..Plan::new(PlanId(ids.uuid()), name, instruction, once) };
        let event = EventId(format!("due:{}", plan.id));
        self.accept(Accept::Event(agent, fired_now(&plan, event, now))).await
    }

    /// Delivers to a hook, as a service with a key of the server does. Returns the id of the event; `None` if the hook ignores it.
    pub async fn deliver(
        &self,
        hook: &str,
        id: Option<&str>,
        body: &Value,
    ) -> Result<Option<EventId>, Stopped> {
        let Ports { hook_book, hooks, clock, ids, .. } = &self.ports;
        let found = hook_book.hook(hook.to_owned()).await.map_err(stopped)?;
        let found = found.ok_or_else(|| stopped(format!("there is no hook `{hook}`")))?;
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![named("content-type", "application/json")];
        headers.extend(id.map(|id| named("idempotency-key", id)));
        let (body, now) = (body.to_string(), clock.now());
        let head = DeliveryHead { headers: &headers, now, by_key: true };
        let delivery = RawDelivery { head, body: body.as_bytes() };
        let refused = |why: &dyn std::fmt::Display| stopped(format!("the delivery is refused: {why}"));
        let event = match hooks.read(&found.declaration, delivery).await.map_err(|why| refused(&why))? {
            HookReading::Event(event) => event,
            HookReading::Question(_) => return Err(refused(&"it only asks whether the hook is there")),
            HookReading::Nothing { .. } => return Ok(None),
            HookReading::Refused { why, .. } => return Err(refused(&why)),
        };
        let new = NewHookDelivery::of(found, event, EventId(ids.uuid().to_string()), None, now);
        let event = new.event.id.clone();
        match hook_book.deliver(new).await.map_err(stopped)? {
            HookAccepted::Fresh { wake, .. } => {
                if let Some(keeper) = &self.keeper {
                    keeper.node().signal(&wake);
                }
            }
            HookAccepted::Duplicate => {}
            other => return Err(refused(&format!("{other:?}"))),
        }
        Ok(Some(event))
    }

    async fn accept(&self, what: Accept) -> Result<bool, Stopped> {
        match self.ports.store.accept(what, None).await.map_err(stopped)? {
            Accepted::Fresh { wake, answered, .. } => {
                if let Some(keeper) = &self.keeper {
                    keeper.node().signal(&wake);
                    keeper.node().notify(answered);
                }
                Ok(true)
            }
            Accepted::Duplicate { .. } => Ok(false),
            other => Err(stopped(format!("not accepted: {other:?}"))),
        }
    }

    /// Lets time pass.
    pub async fn pass(&self, duration: Duration) -> Result<(), Stopped> {
        match &self.simulated {
            Some(clock) => self.run_through(clock, duration).await,
            None => {
                self.ports.clock.sleep(duration).await;
                Ok(())
            }
        }
    }

    /// Lets simulated time pass in strides. If no task is active at the end of a stride, the sweeps that would
    /// find nothing are skipped, up to the last one before something is due. So days of idle time cost as
    /// little as a moment, and everything still happens at its time.
    async fn run_through(&self, clock: &SimClock, duration: Duration) -> Result<(), Stopped> {
        let pass = async |by| clock.pass(by).await.map_err(|stuck| stopped(format!("{stuck:?}")));
        let mut left = duration;
        while left > STRIDE {
            pass(STRIDE).await?;
            left -= STRIDE;
            // Only directly after a sweep the sleeper is certainly the next sweep and not another timer.
            let Some(to_sweep) = lone_sleeper(clock).filter(|until| *until < left) else { continue };
            pass(to_sweep).await?;
            left -= to_sweep;
            if self.keeper.is_none() || lone_sleeper(clock) != Some(SWEEP) {
                continue;
            }
            let now = clock.now();
            let due = self.ports.store.next_due(now).await.map_err(stopped)?.first();
            let lapse = self.ports.approvals.next_lapse().await.map_err(stopped)?;
            let due = [due, lapse].into_iter().flatten().min();
            let until_due = due.map_or(Duration::MAX, |due| Duration::from_millis(since(now, due)));
            let empty = until_due.min(left).as_millis() / SWEEP.as_millis();
            let skipped = SWEEP.saturating_mul(u32::try_from(empty).unwrap_or(u32::MAX));
            clock.advance(skipped);
            left -= skipped;
        }
        pass(left).await
    }

    /// Whether no event waits and no cycle is open, but for agents that wait for a person.
    pub async fn is_idle(&self) -> Result<bool, Stopped> {
        let totals = self.ports.reader.totals().await.map_err(stopped)?;
        let (mut waiting, mut open) = (totals.waiting, totals.open_cycles);
        if open == 0 {
            return Ok(waiting == 0);
        }
        let page = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
        let asked = self.ports.approvals.approvals(ApprovalFilter::default(), page).await.map_err(stopped)?;
        let agents: BTreeSet<AgentId> = asked.items.into_iter().map(|asked| asked.agent).collect();
        for agent in agents {
            let card = self.ports.reader.agent(agent).await.map_err(stopped)?;
            if let Some(card) = card.filter(|card| self.is_paused(card)) {
                waiting = waiting.saturating_sub(card.waiting.into());
                open = open.saturating_sub(1);
            }
        }
        Ok(waiting == 0 && open == 0)
    }

    /// Whether the agent waits for a person.
    pub fn is_paused(&self, card: &AgentCard) -> bool {
        let holds = card.not_before.is_some_and(|until| until > self.ports.clock.now());
        card.idle_reason == Some(IdleReason::Person) && card.open.is_some() && card.waiting == 0 && holds
    }

    /// Lets time pass until no event waits and no cycle is open, but for agents that wait for a person (an hour at most).
    pub async fn quiet(&self) -> Result<(), Stopped> {
        for _ in 0..3_600 {
            self.pass(Duration::from_millis(100)).await?;
            if self.is_idle().await? {
                return Ok(());
            }
            self.pass(Duration::from_millis(900)).await?;
        }
        Err(stopped("the world did not become idle within an hour"))
    }

    /// Stops the keeper gracefully, as a deploy does.
    pub async fn stop(&mut self) -> Result<(), Stopped> {
        let Some(keeper) = self.keeper.take() else { return Ok(()) };
        match &self.simulated {
            Some(clock) => {
                clock.run_until(keeper.stop()).await.map_err(|stuck| stopped(format!("{stuck:?}")))
            }
            None => {
                keeper.stop().await;
                Ok(())
            }
        }
    }

    /// Ends the keeper as a crash does: everything in memory is lost, including unfinished commits.
    pub fn kill(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.kill();
        }
    }

    /// Starts a keeper on the durable state.
    pub fn start(&mut self) {
        self.ports.live = Arc::default();
        self.keeper = Some(runtime::start(self.ports.clone()));
    }

    /// The running keeper's handle.
    pub fn node(&self) -> Option<&runtime::node::Node> {
        self.keeper.as_ref().map(Keeper::node)
    }

    /// All messages of a space, each with the sender's name, oldest first.
    pub async fn posted_texts(&self, space: SpaceId) -> Result<Vec<(String, String)>, Stopped> {
        let messages = self.messages(space).await?;
        let mut heard = Vec::with_capacity(messages.len());
        for message in messages {
            heard.push((self.entity(message.sender).await?.display_name, message.text));
        }
        Ok(heard)
    }

    /// All messages of a space as stored, oldest first.
    pub async fn messages(&self, space: SpaceId) -> Result<Vec<Message>, Stopped> {
        let page = self.ports.reader.messages(space, MessageFilter::after(0), agent::limits::PAGE_MAX);
        Ok(page.await.map_err(stopped)?.items)
    }

    /// An entity by id.
    pub async fn entity(&self, id: EntityId) -> Result<Entity, Stopped> {
        let entity = self.ports.reader.entity(id.to_string()).await.map_err(stopped)?;
        entity.ok_or_else(|| stopped(format!("no entity {id}")))
    }

    /// An agent's runs, oldest first.
    pub async fn runs(&self, agent: AgentId) -> Result<Vec<agent::run::Run>, Stopped> {
        let page = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
        let mut runs =
            self.ports.reader.runs(agent, RunFilter::default(), page).await.map_err(stopped)?.items;
        runs.reverse();
        Ok(runs)
    }

    /// An agent's log.
    pub async fn consciousness(&self, agent: AgentId) -> Result<Vec<agent::entry::Entry>, Stopped> {
        let page = self.ports.reader.entries(agent, 0, agent::limits::PAGE_MAX);
        Ok(page.await.map_err(stopped)?.items)
    }

    /// The state of an event of an agent.
    pub async fn state(&self, agent: AgentId, event: &str) -> Result<EventState, Stopped> {
        let row = self.ports.reader.event(agent, EventId(event.into())).await.map_err(stopped)?;
        row.map(|row| row.state).ok_or_else(|| stopped(format!("no event {event}")))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The time until the only sleeper on the clock is due; `None` if there are several sleepers or none.
fn lone_sleeper(clock: &SimClock) -> Option<Duration> {
    match clock.pending().as_slice() {
        [only] => Some(Duration::from_millis(since(clock.now(), *only))),
        _ => None,
    }
}

fn capitalised(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
