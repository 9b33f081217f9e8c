//! Runs a scenario in a world: creates its people, agents and spaces, runs the story, checks the expectations.

use std::collections::HashMap;
use std::time::Duration;

use agent::approval::{AnswerRefused, Answerer, PersonVerdict};
use agent::changes::PlanChange;
use agent::config::{AgentConfig, HistoryLimit, WakeOn};
use agent::entity::Member;
use agent::id::{AgentId, EntityId, MessageId, PlanId, SpaceId};
use agent::life::{IdleReason, Standing};
use agent::plan::{PlanSource, PlanTerms};
use agent::port::{
    AgentCard, ApprovalFilter, Delivered, Listener, PageRequest, PersonAnswer, SpaceChange, StoredHook,
};
use agent::run::Run;
use agent::update::{Topic, Update};
use futures_util::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use runtime::approvals::AnswerError;
use serde::Serialize;

use crate::bounds;
use crate::clock::since;
use crate::model::model_of;
use crate::model_monitor::ModelMonitor;
use crate::observed::{Names, Observed};
use crate::scene::{OPERATOR, PersonReply, ProviderState, Scenario, Server, StoryAction, StoryEvent, When};
use crate::transcript::{self, Line};
use crate::verdict::{self, Unmet};
use crate::world::{Stopped, World, stopped};

/// Where the replies of agents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplySource {
    /// Each agent's script.
    Scripts,
    /// The default model of the world, for all agents. Scripts are ignored.
    Model,
}

/// The result of one run.
#[derive(Debug, Serialize)]
pub struct PlayResult {
    /// Expectations that were not met, in the order of the file.
    pub unmet: Vec<Unmet>,
    /// Why the story was aborted, if it was.
    pub broken_off: Option<String>,
    /// Everything that happened, in order.
    pub transcript: Vec<Line>,
    /// How long the run took on the world's clock.
    #[serde(rename = "took_ms", serialize_with = "transcript::millis")]
    pub took: Duration,
    /// Number of cycles of all agents.
    pub cycles: u64,
    /// Number of tokens of all agents; `None` if no model reported any.
    pub tokens: Option<u64>,
    /// The runs of each agent, oldest first.
    #[serde(skip)]
    pub runs: Vec<(String, Vec<Run>)>,
}

impl PlayResult {
    /// Whether all expectations were met.
    pub fn passed(&self) -> bool {
        self.unmet.is_empty() && self.broken_off.is_none()
    }
}

/// Runs a scenario in a new world. `patience` limits how long the world may take to become idle and, in real
/// time, how long the whole story may take.
pub async fn play(scenario: &Scenario, world: World, replies: ReplySource, patience: Duration) -> PlayResult {
    let start = world.clock().now();
    let mut player = Player {
        world,
        start,
        previous: start,
        patience,
        names: Names::default(),
        suspended: Vec::new(),
        listeners: Vec::new(),
        messages: HashMap::new(),
        happened: Vec::new(),
    };
    let broken_off = player.run_story(scenario, replies).await.err().map(|stopped| stopped.to_string());
    let took = Duration::from_millis(since(start, player.world.clock().now()));
    let observed = match Observed::gather(&player.world, &player.names).await {
        Ok(observed) => observed,
        Err(error) => {
            let broken_off = Some(format!("what happened cannot be read: {error}"));
            let (unmet, transcript) = (Vec::new(), Vec::new());
            return PlayResult {
                unmet,
                broken_off,
                transcript,
                took,
                cycles: 0,
                tokens: None,
                runs: Vec::new(),
            };
        }
    };
    let unmet = match broken_off {
        Some(_) => Vec::new(),
        None => verdict::unmet(&scenario.expect, &observed, &player.messages),
    };
    let transcript = transcript::of(&observed, &player.happened, start);
    let cycles = observed.agents.iter().map(|agent| agent.runs.len() as u64).sum();
    let tokens = observed.agents.iter().filter_map(|agent| agent.tokens).reduce(u64::saturating_add);
    let runs = observed.agents.into_iter().map(|agent| (agent.name, agent.runs)).collect();
    PlayResult { unmet, broken_off, transcript, took, cycles, tokens, runs }
}

struct Player {
    world: World,
    /// The start of the story.
    start: Timestamp,
    /// The time of the previous event.
    previous: Timestamp,
    patience: Duration,
    names: Names,
    suspended: Vec<AgentId>,
    /// Listeners for the reasons why agents wait.
    listeners: Vec<(String, Box<dyn Listener>)>,
    /// The ids of named messages and events.
    messages: HashMap<String, String>,
    /// Everything that happened except messages.
    happened: Vec<(Timestamp, String)>,
}

impl Player {
    async fn run_story(&mut self, scenario: &Scenario, replies: ReplySource) -> Result<(), Stopped> {
        self.build(scenario, replies).await?;
        self.listen();
        self.start = self.world.clock().now();
        self.previous = self.start;
        for event in &scenario.story {
            let at_line = |error: Stopped| stopped(format!("line {}: {error}", event.place.line));
            self.until(event).await.map_err(at_line)?;
            self.previous = self.world.clock().now();
            // Nothing here waits, so agents find everything at once.
            for what in std::iter::repeat_n(&event.what, event.times).flatten() {
                self.perform(what).await.map_err(at_line)?;
            }
        }
        self.quiet().await
    }

    async fn build(&mut self, scenario: &Scenario, replies: ReplySource) -> Result<(), Stopped> {
        self.world.own_tools().add(&scenario.tools);
        for name in &scenario.people {
            let id = self.world.human(name).await?;
            self.names.actors.push((name.clone(), id));
        }
        for actor in &scenario.agents {
            let model = match replies {
                ReplySource::Scripts => Some(model_of(&actor.name)),
                ReplySource::Model => None,
            };
            let config = with_only_model(actor.config.clone(), model);
            let id = self.world.agent(&actor.name, config).await?;
            self.names.actors.push((actor.name.clone(), id.entity()));
            self.names.agents.push((actor.name.clone(), id));
        }
        for room in &scenario.spaces {
            let members: Vec<EntityId> =
                room.members.iter().map(|name| self.actor(name)).collect::<Result<_, _>>()?;
            let id = self.world.space(&room.name, &members).await?;
            if room.wake_on != WakeOn::default() {
                let change = SpaceChange { wake_on: Some(room.wake_on), ..SpaceChange::default() };
                self.world.registry().amend_space(id, change).await.map_err(stopped)?;
            }
            self.names.spaces.push((room.name.clone(), id));
        }
        for hook in &scenario.hooks {
            let ports = self.world.ports();
            let checked = ports.hooks.check(&hook.declaration()).map_err(|why| stopped(why.join("; ")))?;
            let agents = hook.to.iter().map(|name| self.agent(name)).collect::<Result<_, _>>()?;
            let (name, at) = (hook.name.clone(), ports.clock.now());
            let stored = StoredHook { name, declaration: checked.declaration, agents, at };
            ports.hook_book.put_hook(stored).await.map_err(stopped)?;
        }
        Ok(())
    }

    /// Waits until it is time for the event.
    async fn until(&mut self, event: &StoryEvent) -> Result<(), Stopped> {
        let (from, time) = match event.when {
            When::Quiet => return self.quiet().await,
            When::At(time) => (self.start, time),
            When::After(time) => (self.previous, time),
        };
        let passed = Duration::from_millis(since(from, self.world.clock().now()));
        let left = time.saturating_sub(passed);
        if self.world.is_simulated() {
            // A pause of zero means: at the same moment as the previous event.
            return if left.is_zero() { Ok(()) } else { self.world.pass(left).await };
        }
        self.wait_at_most(left).await
    }

    /// Real time: waits, but no longer than until all agents are idle.
    async fn wait_at_most(&mut self, left: Duration) -> Result<(), Stopped> {
        let end = self.later(left);
        while self.world.clock().now() < end && !self.is_idle().await? {
            self.check_deadline().await?;
            self.check_models().await?;
            self.world.pass(Duration::from_millis(50)).await?;
        }
        Ok(())
    }

    /// Waits until all agents are idle; returns at once if no server runs.
    async fn quiet(&mut self) -> Result<(), Stopped> {
        if self.world.node().is_none() {
            return Ok(());
        }
        let end = self.later(self.patience.min(bounds::REST_MAX));
        let mut rounds: u32 = 0;
        self.world.pass(Duration::ZERO).await?;
        while !self.is_idle().await? {
            if self.world.clock().now() >= end {
                let patience = self.patience.min(bounds::REST_MAX).as_secs();
                let what = format!("not everyone was quiet within {patience} s");
                return Err(stopped(self.describe_unfinished(&what).await?));
            }
            self.check_deadline().await?;
            self.check_models().await?;
            let long = rounds > 600;
            self.world.pass(Duration::from_millis(if long { 1_000 } else { 100 })).await?;
            rounds += 1;
        }
        Ok(())
    }

    /// Real time: fails if the whole story takes too long.
    async fn check_deadline(&mut self) -> Result<(), Stopped> {
        let passed = Duration::from_millis(since(self.start, self.world.clock().now()));
        if self.world.is_simulated() || passed < self.patience {
            return Ok(());
        }
        let what = format!("the story has not ended after {} s", passed.as_secs());
        Err(stopped(self.describe_unfinished(&what).await?))
    }

    fn later(&self, by: Duration) -> Timestamp {
        let now = self.world.clock().now();
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        now.checked_add(by).unwrap_or(Timestamp::MAX)
    }

    fn listen(&mut self) {
        let Some(node) = self.world.node() else { return };
        for (name, id) in &self.names.agents {
            self.listeners.push((name.clone(), node.live().bus().subscribe(Topic::Agent(*id))));
        }
    }

    /// Real time: fails if a provider does not serve an agent, instead of waiting for the backoff.
    async fn check_models(&mut self) -> Result<(), Stopped> {
        if self.world.is_simulated() || self.world.is_cut_off() {
            return Ok(());
        }
        if let Some(why) = self.world.monitor().and_then(ModelMonitor::give_up_reason) {
            return Err(stopped(why));
        }
        for (_, id) in &self.names.agents {
            let card = self.world.reader().agent(*id).await.map_err(stopped)?;
            let waits = card.filter(|card| card.waiting > 0).and_then(|card| card.idle_reason);
            let harmless = |why| matches!(why, IdleReason::Debounce | IdleReason::Person);
            if waits.is_some_and(|why| !harmless(why)) {
                return Err(stopped(self.describe_unfinished("the model does not serve every agent").await?));
            }
        }
        Ok(())
    }

    /// Whether no agent has anything to do. Suspended agents and those that wait for a person count as idle, even if events wait.
    async fn is_idle(&self) -> Result<bool, Stopped> {
        if self.suspended.is_empty() {
            return self.world.is_idle().await;
        }
        for (_, id) in self.names.agents.iter().filter(|(_, id)| !self.suspended.contains(id)) {
            let card = self.world.reader().agent(*id).await.map_err(stopped)?;
            let busy = |card: &AgentCard| card.waiting > 0 || card.open.is_some();
            if card.is_some_and(|card| busy(&card) && !self.world.is_paused(&card)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Which agents are not idle, and why.
    async fn describe_unfinished(&mut self, what: &str) -> Result<String, Stopped> {
        let mut who = Vec::new();
        for (name, id) in &self.names.agents {
            let Some(card) = self.world.reader().agent(*id).await.map_err(stopped)? else { continue };
            if card.waiting == 0 && card.open.is_none() {
                continue;
            }
            let plural = if card.waiting == 1 { "event waits" } else { "events wait" };
            let mut why = vec![format!("{} {plural}", card.waiting)];
            if let Some(open) = &card.open {
                why.push(format!("a cycle is open at step {}", open.step));
            }
            let own = self.listeners.iter_mut().find(|(known, _)| known == name);
            why.extend(own.and_then(|(_, listener)| last_reason(listener.as_mut())));
            who.push(format!("`{name}`: {}", why.join(", ")));
        }
        let trouble = self.world.monitor().and_then(ModelMonitor::trouble);
        let parts: Vec<String> = std::iter::once(what.to_owned()).chain(trouble).chain(who).collect();
        Ok(parts.join("; "))
    }

    async fn perform(&mut self, what: &StoryAction) -> Result<(), Stopped> {
        match what {
            StoryAction::Says { who, space, text, id } => {
                let who = self.actor(who)?;
                let space = self.space(space)?;
                let message = self.message(id.as_deref())?;
                self.world.say_as(message, who, space, text).await?;
            }
            StoryAction::Calls { service, agent, payload, id } => {
                let to = self.agent(agent)?;
                let event = id.clone().unwrap_or_else(|| self.world.ports().ids.uuid().to_string());
                if let Some(id) = id {
                    self.messages.insert(id.clone(), event.clone());
                }
                self.world.service(to, &event, service, payload.clone()).await?;
                self.note(format!("{service} calls {agent}: {payload}"));
            }
            StoryAction::Delivers { hook, body, id } => {
                let event = self.world.deliver(hook, id.as_deref(), body).await?;
                let ignored = if event.is_none() { " (ignored)" } else { "" };
                if let Some((id, event)) = id.as_ref().zip(event) {
                    self.messages.insert(id.clone(), event.0);
                }
                self.note(format!("hook {hook} delivers: {body}{ignored}"));
            }
            StoryAction::Plans { agent, terms } => self.plan(agent, terms).await?,
            StoryAction::Due { agent, name, instruction } => {
                let to = self.agent(agent)?;
                self.world.due(to, name, instruction).await?;
                self.note(format!("the plan {name} of {agent} is due: {instruction}"));
            }
            StoryAction::Joins { who, space } => {
                let entity = self.actor(who)?;
                let id = self.space(space)?;
                let at = self.world.clock().now();
                let role = Member::ROLE.to_owned();
                self.world.registry().add_member(id, entity, role, at).await.map_err(stopped)?;
                self.note(format!("{who} joins {space}"));
            }
            StoryAction::Leaves { who, space } => {
                let entity = self.actor(who)?;
                let id = self.space(space)?;
                self.world.registry().remove_member(id, entity).await.map_err(stopped)?;
                self.note(format!("{who} leaves {space}"));
            }
            StoryAction::Suspended(agent) => {
                self.set_standing(agent, Standing::Suspended, "suspended").await?
            }
            StoryAction::Resumed(agent) => self.set_standing(agent, Standing::Active, "resumed").await?,
            StoryAction::Canceled(agent) => {
                let id = self.agent(agent)?;
                self.world.registry().cancel(id, None).await.map_err(stopped)?;
                self.recheck(id);
                self.note(format!("{agent} is canceled"));
            }
            StoryAction::Answers { who, agent, tool, reply, may } => {
                self.answer(who, agent, tool.as_deref(), (reply, *may)).await?;
            }
            StoryAction::Server(server) => self.server(*server).await?,
            StoryAction::Provider(provider) => {
                let fails = *provider == ProviderState::Fails;
                self.world.cut_line(fails);
                self.note(if fails { "the provider fails" } else { "the provider works" });
            }
            StoryAction::Quiet => self.quiet().await?,
        }
        Ok(())
    }

    /// A person answers the call of that tool that waits, as the API does, or is not one of those who may.
    async fn answer(
        &mut self,
        who: &str,
        agent: &str,
        tool: Option<&str>,
        (reply, may): (&PersonReply, bool),
    ) -> Result<(), Stopped> {
        let by = match self.actor(who) {
            Err(_) if who == OPERATOR => Answerer::Operator,
            person => Answerer::Person(person?),
        };
        let id = self.agent(agent)?;
        let Some(node) = self.world.node() else {
            return Err(stopped("nobody can answer while the server does not run"));
        };
        let ports = self.world.ports();
        let filter = ApprovalFilter { agent: Some(id), ..ApprovalFilter::default() };
        let page = PageRequest { cursor: None, limit: agent::limits::PAGE_MAX };
        let found = ports.approvals.approvals(filter, page).await.map_err(stopped)?.items;
        let asked = found.into_iter().find(|asked| tool.is_none_or(|tool| asked.row.tool == tool));
        let what = tool.map_or_else(String::new, |tool| format!(" of `{tool}`"));
        let asked = asked.ok_or_else(|| stopped(format!("no call{what} of `{agent}` waits for a person")))?;
        let (verdict, reason) = match reply {
            PersonReply::Approves => (PersonVerdict::Approve { arguments: None, remember: None }, None),
            PersonReply::Refuses(reason) => (PersonVerdict::Refuse, Some(reason.clone())),
            PersonReply::Says(answer) => (PersonVerdict::Answer(answer.clone()), None),
        };
        let at = ports.clock.now();
        let answer = PersonAnswer { id: asked.row.id.clone(), verdict, reason, by, at, seen: None };
        let answered = runtime::approvals::answer(ports, node, &asked, answer).await;
        let tool = asked.row.tool;
        if !may {
            let Err(AnswerError::Refused(AnswerRefused::NotYours(_))) = answered else {
                return Err(stopped(format!("{who} may answer the call of `{tool}` of `{agent}`")));
            };
            self.note(format!("{who} may not answer the call of {tool} of {agent}"));
            return Ok(());
        }
        answered.map_err(stopped)?;
        self.note(match reply {
            PersonReply::Approves => format!("{who} approves {tool} of {agent}"),
            PersonReply::Refuses(reason) => format!("{who} refuses {tool} of {agent}: {reason}"),
            PersonReply::Says(answer) => format!("{who} answers {agent}: {answer}"),
        });
        Ok(())
    }

    /// An operator sets a plan, as the API does.
    async fn plan(&mut self, agent: &str, terms: &PlanTerms) -> Result<(), Stopped> {
        let id = self.agent(agent)?;
        let ports = self.world.ports();
        let plan = terms.plan(PlanId(ports.ids.uuid()), None, PlanSource::Operator, ports.clock.now());
        let plan = plan.map_err(stopped)?;
        let line = format!("an operator sets {agent} the plan {} ({})", plan.name, plan.schedule);
        let next = plan.next_at;
        let set = ports.registry.change_plan(id, PlanChange::Set(plan)).await.map_err(stopped)?;
        if let Some(node) = self.world.node() {
            node.planned(set.map_or(next, |set| set.next_at));
        }
        self.note(line);
        Ok(())
    }

    async fn set_standing(&mut self, agent: &str, standing: Standing, word: &str) -> Result<(), Stopped> {
        let id = self.agent(agent)?;
        let at = self.world.clock().now();
        self.world.registry().set_standing(id, standing, at).await.map_err(stopped)?;
        self.suspended.retain(|known| *known != id);
        if standing == Standing::Suspended {
            self.suspended.push(id);
        }
        match (standing, self.world.node()) {
            (Standing::Active, Some(node)) => node.resume(id),
            (_, Some(node)) => node.suspend(id),
            (_, None) => {}
        }
        self.note(format!("{agent} is {word}"));
        Ok(())
    }

    async fn server(&mut self, server: Server) -> Result<(), Stopped> {
        match server {
            Server::Stops => {
                self.world.stop().await?;
                self.note("the server stops");
            }
            Server::Killed => {
                self.world.kill();
                self.note("the server is killed");
            }
            Server::Starts => {
                self.world.start();
                self.note("the server starts");
            }
            Server::Restarts => {
                self.world.stop().await?;
                self.world.start();
                self.note("the server restarts");
            }
        }
        Ok(())
    }

    fn note(&mut self, what: impl Into<String>) {
        self.happened.push((self.world.clock().now(), what.into()));
    }

    fn recheck(&self, agent: AgentId) {
        if let Some(node) = self.world.node() {
            node.recheck(agent);
        }
    }

    /// The id of a message: a new one, or the one with this name.
    fn message(&mut self, name: Option<&str>) -> Result<MessageId, Stopped> {
        let fresh = MessageId(self.world.ports().ids.uuid());
        let Some(name) = name else { return Ok(fresh) };
        let id = self.messages.entry(name.to_owned()).or_insert_with(|| fresh.to_string());
        id.parse().map_err(|_| stopped(format!("`{name}` names an event of a service, not a message")))
    }

    fn actor(&self, name: &str) -> Result<EntityId, Stopped> {
        found(&self.names.actors, name)
    }

    fn agent(&self, name: &str) -> Result<AgentId, Stopped> {
        found(&self.names.agents, name)
    }

    fn space(&self, name: &str) -> Result<SpaceId, Stopped> {
        found(&self.names.spaces, name)
    }
}

/// The latest unread reason why an agent waits.
fn last_reason(listener: &mut dyn Listener) -> Option<String> {
    let mut last = None;
    for _ in 0..agent::limits::BUS_BUFFER {
        match listener.next().now_or_never() {
            Some(Some(Delivered::Update(update))) => {
                if let Update::State { reason: Some(reason), .. } = &**update {
                    last = Some(reason.clone());
                }
            }
            Some(Some(Delivered::Missed(_))) => {}
            _ => break,
        }
    }
    last
}

/// The config without any other model, which this world does not have.
fn with_only_model(config: AgentConfig, model: Option<String>) -> AgentConfig {
    let history = HistoryLimit { summary_model: None, ..config.history };
    AgentConfig { model, routing: Vec::new(), fallback: Vec::new(), history, ..config }
}

fn found<T: Copy>(names: &[(String, T)], name: &str) -> Result<T, Stopped> {
    let found = names.iter().find(|(known, _)| known == name);
    found.map(|(_, id)| *id).ok_or_else(|| stopped(format!("nothing has the name `{name}`")))
}
