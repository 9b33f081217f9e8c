//! A world: people, agents and spaces on a store that is handed in, with a keeper that can be stopped,
//! killed and started again. Mostly on a simulated clock, on the real one where a real model plays.
//!
//! This module must not know which store, model or tools it runs on.

use std::sync::Arc;
use std::time::Duration;

use agent::config::AgentConfig;
use agent::entity::Entity;
use agent::event::{Event, EventState};
use agent::id::{AgentId, EntityId, EventId, MessageId, SpaceId};
use agent::port::{Accept, Accepted, Clock, NewAgent, NewHuman, NewSpace, PageRequest, Reader, Registry};
use agent::space::{Message, NewMessage};
use runtime::{Keeper, Ports};
use serde_json::Value;

use crate::clock::{SimClock, since};
use crate::outage::Outage;
use crate::witness::Witness;

/// The keeper's pause between two looks for due work, while nothing else is to be done.
const SWEEP: Duration = Duration::from_millis(agent::limits::SWEEP_MS);
/// Simulated time that is processed moment by moment before it is asked whether anybody is awake.
const STRIDE: Duration = SWEEP;

/// A running world. Its methods stop with the reason when the world does not do what it must:
/// whoever plays a scenario wants to hear that at once.
pub struct World {
    simulated: Option<SimClock>,
    ports: Ports,
    keeper: Option<Keeper>,
    /// The line to the models.
    outage: Outage,
    /// Who listens to the models, where they are real.
    witness: Option<Witness>,
}

/// Why a world stopped.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(String);

/// Stops with a reason.
pub(crate) fn stopped(error: impl std::fmt::Display) -> Stopped {
    Stopped(error.to_string())
}

impl World {
    /// A world on `ports` in the simulated time of their clock, its keeper running: nothing is waited for,
    /// and every run is the same. Must be called on a current-thread executor.
    pub fn new(ports: Ports, clock: SimClock) -> Self {
        Self::on(ports, Some(clock), None)
    }

    /// A world on `ports` in real time, its keeper running.
    pub fn real(mut ports: Ports) -> Self {
        let witness = Witness::of(Arc::clone(&ports.models), Arc::clone(&ports.clock));
        ports.models = Arc::new(witness.clone());
        Self::on(ports, None, Some(witness))
    }

    fn on(mut ports: Ports, simulated: Option<SimClock>, witness: Option<Witness>) -> Self {
        let outage = Outage::of(Arc::clone(&ports.models));
        ports.models = Arc::new(outage.clone());
        let keeper = Some(runtime::start(ports.clone()));
        Self { simulated, ports, keeper, outage, witness }
    }

    /// The clock of this world.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// Whether time is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// From now on every request to a model fails, or none does for that reason any more.
    pub fn cut_line(&self, cut: bool) {
        self.outage.cut(cut);
    }

    /// Whether every request to a model fails.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.outage.is_cut()
    }

    /// Who listens to the models, where they are real.
    pub(crate) fn witness(&self) -> Option<&Witness> {
        self.witness.as_ref()
    }

    /// What the world runs on.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Looking at everything.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.ports.reader
    }

    /// Making and ending things.
    pub fn registry(&self) -> &Arc<dyn Registry> {
        &self.ports.registry
    }

    /// A person.
    pub async fn human(&self, name: &str) -> Result<EntityId, Stopped> {
        let new = NewHuman::new(EntityId(self.ports.ids.uuid()), name, self.ports.clock.now());
        let new = NewHuman { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.create_human(new).await.map_err(stopped)?.id)
    }

    /// A living agent.
    pub async fn agent(&self, name: &str, config: AgentConfig) -> Result<AgentId, Stopped> {
        let new = NewAgent::new(AgentId(self.ports.ids.uuid()), name, config, self.ports.clock.now());
        let new = NewAgent { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.create_agent(new).await.map_err(stopped)?.id.agent())
    }

    /// A space with its first members.
    pub async fn space(&self, name: &str, members: &[EntityId]) -> Result<SpaceId, Stopped> {
        let (id, at) = (SpaceId(self.ports.ids.uuid()), self.ports.clock.now());
        let new = NewSpace::new(id, name.to_lowercase(), members.to_vec(), at);
        let new = NewSpace { display_name: capitalised(name), ..new };
        Ok(self.ports.registry.open_space(new).await.map_err(stopped)?.id)
    }

    /// A person says something; returns once it is durable.
    pub async fn say(&self, who: EntityId, space: SpaceId, text: &str) -> Result<MessageId, Stopped> {
        let id = MessageId(self.ports.ids.uuid());
        self.say_as(id, who, space, text).await?;
        Ok(id)
    }

    /// The same with an id of the client's; `false` where it was accepted before.
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

    /// A service calls; `false` where the event id was accepted before.
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

    async fn accept(&self, what: Accept) -> Result<bool, Stopped> {
        match self.ports.store.accept(what, None).await.map_err(stopped)? {
            Accepted::Fresh { wake, .. } => {
                if let Some(keeper) = &self.keeper {
                    keeper.node().signal(&wake);
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
            Some(clock) => self.live_through(clock, duration).await,
            None => {
                self.ports.clock.sleep(duration).await;
                Ok(())
            }
        }
    }

    /// Lives simulated time in strides. Where a stride ends with nobody awake, the sweeps that would
    /// find nothing are jumped over, up to the last before something is due: days of idle time cost
    /// what a moment costs, and everything comes when it would have come.
    async fn live_through(&self, clock: &SimClock, duration: Duration) -> Result<(), Stopped> {
        let pass = async |by| clock.pass(by).await.map_err(|stuck| stopped(format!("{stuck:?}")));
        let mut left = duration;
        while left > STRIDE {
            pass(STRIDE).await?;
            left -= STRIDE;
            // Only right behind a sweep it is certain that the sleeper is the next one, not an alarm.
            let Some(to_sweep) = lone_sleeper(clock).filter(|until| *until < left) else { continue };
            pass(to_sweep).await?;
            left -= to_sweep;
            if self.keeper.is_none() || lone_sleeper(clock) != Some(SWEEP) {
                continue;
            }
            let now = clock.now();
            let due = self.ports.store.next_due(now).await.map_err(stopped)?;
            let until_due = due.map_or(Duration::MAX, |due| Duration::from_millis(since(now, due)));
            let empty = until_due.min(left).as_millis() / SWEEP.as_millis();
            let over = SWEEP.saturating_mul(u32::try_from(empty).unwrap_or(u32::MAX));
            clock.advance(over);
            left -= over;
        }
        pass(left).await
    }

    /// Lets time pass until nothing waits and nobody lives a cycle (an hour at most).
    pub async fn quiet(&self) -> Result<(), Stopped> {
        for _ in 0..3_600 {
            self.pass(Duration::from_millis(100)).await?;
            let totals = self.ports.reader.totals().await.map_err(stopped)?;
            if totals.waiting == 0 && totals.open_cycles == 0 {
                return Ok(());
            }
            self.pass(Duration::from_millis(900)).await?;
        }
        Err(stopped("the world did not come to rest within an hour"))
    }

    /// Stops the keeper as a deploy does.
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

    /// Ends the keeper as a crash does: everything in memory is gone, half-done commits included.
    pub fn kill(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.kill();
        }
    }

    /// Starts a keeper on what is durable.
    pub fn start(&mut self) {
        self.ports.live = Arc::default();
        self.keeper = Some(runtime::start(self.ports.clone()));
    }

    /// The running keeper's handle.
    pub fn node(&self) -> Option<&runtime::node::Node> {
        self.keeper.as_ref().map(Keeper::node)
    }

    /// Everything said in a space: who and what, oldest first.
    pub async fn heard(&self, space: SpaceId) -> Result<Vec<(String, String)>, Stopped> {
        let messages = self.messages(space).await?;
        let mut heard = Vec::with_capacity(messages.len());
        for message in messages {
            heard.push((self.entity(message.sender).await?.display_name, message.text));
        }
        Ok(heard)
    }

    /// Everything said in a space as stored, oldest first.
    pub async fn messages(&self, space: SpaceId) -> Result<Vec<Message>, Stopped> {
        self.ports.reader.messages(space, Some(0), None, agent::limits::PAGE_MAX).await.map_err(stopped)
    }

    /// An entity by id.
    pub async fn entity(&self, id: EntityId) -> Result<Entity, Stopped> {
        let entity = self.ports.reader.entity(id.to_string()).await.map_err(stopped)?;
        entity.ok_or_else(|| stopped(format!("no entity {id}")))
    }

    /// An agent's runs, oldest first.
    pub async fn runs(&self, agent: AgentId) -> Result<Vec<agent::run::Run>, Stopped> {
        let page = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
        let mut runs = self.ports.reader.runs(agent, page).await.map_err(stopped)?.items;
        runs.reverse();
        Ok(runs)
    }

    /// An agent's log.
    pub async fn mind(&self, agent: AgentId) -> Result<Vec<agent::entry::Entry>, Stopped> {
        self.ports.reader.entries(agent, 0, agent::limits::PAGE_MAX).await.map_err(stopped)
    }

    /// What became of an event of an agent.
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

/// How long until the only one who sleeps on the clock is due; nothing where several do, or none.
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
