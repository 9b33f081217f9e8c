//! What happens on this node right now: which agents are awake, in which spaces, which drafts are being written,
//! and the reason in words why an agent is backing off (its rows hold that it is, and until when).
//! Shown to watchers that connect in the middle. Not durable: it ends with the process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use agent::alert::Raised;
use agent::id::{AgentId, CallId, CycleId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::limits;
use agent::port::Bus;
use agent::update::{AgentState, Topic, Update};
use jiff::Timestamp;

use crate::bus::LocalBus;
use crate::counters::{CountedBus, NodeCounts};
use crate::waits::{Wait, Waiters};

/// What one awake agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The agent.
    pub agent: AgentId,
    /// What it does.
    pub state: AgentState,
    /// Its cycle.
    pub cycle: CycleId,
    /// Spaces that this cycle has touched: its events came from there, or it posted there.
    pub spaces: BTreeSet<SpaceId>,
    /// Why it makes no progress at the moment, if so.
    pub delay: Option<Delay>,
    /// Its calls that run, each with its tool.
    pub calls: Vec<(CallId, String)>,
}

/// Why an awake agent makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayKind {
    /// An attempt to call the model failed, and it is called again.
    Retrying,
    /// As many requests as may be are in flight at the model's provider.
    Requests,
    /// A model writes the summary of its history.
    Summary,
}

impl DelayKind {
    /// In one word, as the API shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retrying => "retrying",
            Self::Requests => "requests",
            Self::Summary => "summary",
        }
    }
}

/// Why an awake agent makes no progress, for operators: it may quote a vendor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// What kind of delay it is.
    pub kind: DelayKind,
    /// A sentence for people.
    pub why: String,
}

/// A message being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Where it will be posted.
    pub space: SpaceId,
    /// The id it will have.
    pub message: MessageId,
    /// The agent that writes it.
    pub agent: AgentId,
    /// For a visible call: the tool whose arguments these are.
    pub tool: Option<String>,
    /// The text so far.
    pub text: String,
    /// Its length in characters.
    pub chars: u64,
}

#[derive(Debug, Default)]
struct LiveState {
    activities: HashMap<AgentId, Activity>,
    drafts: HashMap<MessageId, Draft>,
    idle: HashMap<AgentId, Idle>,
    waits: Waiters,
    /// Handles of agents that were awake lately, for the log.
    names: HashMap<AgentId, Arc<str>>,
    /// Alerts that no commit has taken yet, at most one of each kind.
    raised: HashMap<AgentId, Vec<Raised>>,
}

/// Why an agent is backing off.
#[derive(Debug)]
struct Idle {
    /// Until when; another time means another reason.
    until: Timestamp,
    why: String,
}

impl LiveState {
    /// Keeps the reason; if there are too many, in place of another agent's.
    fn remember(&mut self, agent: AgentId, until: Timestamp, why: &str) {
        if self.idle.len() >= limits::IDLE_REASONS_MAX
            && !self.idle.contains_key(&agent)
            && let Some(other) = self.idle.keys().next().copied()
        {
            self.idle.remove(&other);
        }
        let why = why.chars().take(limits::IDLE_REASON_CHARS).collect();
        self.idle.insert(agent, Idle { until, why });
    }
}

/// The live state of this node, and the only publisher of an agent's transient updates. A change and its update
/// happen under one lock, so a snapshot taken after subscribing misses nothing.
pub struct Live {
    state: Mutex<LiveState>,
    bus: Arc<dyn Bus>,
    counters: Arc<NodeCounts>,
}

impl Default for Live {
    /// Empty, on a new bus of this process.
    fn default() -> Self {
        Self::new(Arc::new(LocalBus::new()))
    }
}

impl Live {
    /// Empty, on that bus.
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        let counters = Arc::<NodeCounts>::default();
        let bus = Arc::new(CountedBus { bus, counters: Arc::clone(&counters) });
        Self { state: Mutex::default(), bus, counters }
    }

    /// What has happened on this node since its start.
    pub fn counters(&self) -> &NodeCounts {
        &self.counters
    }

    /// The bus that updates go to.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// The agent has that handle.
    pub(crate) fn called(&self, agent: AgentId, name: &str) {
        let mut state = self.lock();
        if state.names.len() >= limits::IDLE_REASONS_MAX && !state.names.contains_key(&agent) {
            state.names.clear();
        }
        if state.names.get(&agent).is_none_or(|known| **known != *name) {
            state.names.insert(agent, name.into());
        }
    }

    /// What the log calls an agent: its handle, if it was awake on this node lately.
    pub(crate) fn name(&self, agent: AgentId) -> String {
        self.lock().names.get(&agent).map_or_else(|| agent.to_string(), |name| name.to_string())
    }

    /// The next commit of the agent keeps this alert.
    pub(crate) fn raise(&self, agent: AgentId, raised: Raised) {
        let mut state = self.lock();
        let all = state.raised.entry(agent).or_default();
        all.retain(|other| other.alert != raised.alert);
        all.push(raised);
    }

    /// The alerts that a commit of the agent is to keep.
    pub(crate) fn take_raised(&self, agent: AgentId) -> Vec<Raised> {
        self.lock().raised.remove(&agent).unwrap_or_default()
    }

    /// What the agent does on this node; `None` if it sleeps or runs elsewhere.
    pub fn activity(&self, agent: AgentId) -> Option<Activity> {
        self.lock().activities.get(&agent).cloned()
    }

    /// Why the agent is backing off until then, if that began on this node. For operators: it may quote a vendor.
    pub fn idle_reason(&self, agent: AgentId, until: Timestamp) -> Option<String> {
        let state = self.lock();
        let idle = state.idle.get(&agent);
        // Rows keep milliseconds.
        idle.filter(|idle| idle.until.as_millisecond() == until.as_millisecond()).map(|idle| idle.why.clone())
    }

    /// What an agent waits for that has work and is not awake.
    pub fn waiting_for(&self, agent: AgentId) -> Option<Wait> {
        self.lock().waits.of(agent)
    }

    /// The agent has work, and must wait before it is awake.
    pub fn begin_wait(&self, agent: AgentId, wait: Wait) {
        let mut all = self.lock();
        if all.waits.begin(agent, wait)
            && let Some(wait) = all.waits.of(agent)
        {
            self.publish_asleep(agent, &BTreeSet::new(), Some(wait.describe()), None);
        }
    }

    /// The agent no longer waits.
    pub fn end_wait(&self, agent: AgentId) {
        self.lock().waits.end(agent);
    }

    /// The store refuses commits, for that reason; `None`: it accepts them again.
    pub(crate) fn store_refuses(&self, why: Option<String>) {
        self.lock().waits.refused(why);
    }

    /// All agents that are awake on this node.
    pub fn awake(&self) -> Vec<Activity> {
        let mut found: Vec<_> = self.lock().activities.values().cloned().collect();
        found.sort_by_key(|activity| activity.agent);
        found
    }

    /// Agents whose current cycle touched the space.
    pub fn active_in(&self, space: SpaceId) -> Vec<Activity> {
        let state = self.lock();
        let mut found: Vec<_> =
            state.activities.values().filter(|a| a.spaces.contains(&space)).cloned().collect();
        found.sort_by_key(|activity| activity.agent);
        found
    }

    /// Drafts being written in the space, by the agent, or anywhere.
    pub fn drafts(&self, of: Topic) -> Vec<Draft> {
        let wanted = |draft: &&Draft| match of {
            Topic::Space(space) => draft.space == space,
            Topic::Agent(agent) => draft.agent == agent,
            Topic::Server => true,
        };
        let state = self.lock();
        let mut found: Vec<_> = state.drafts.values().filter(wanted).cloned().collect();
        found.sort_by_key(|draft| draft.message);
        found
    }

    /// The agent's state is `state` now, in a cycle that touches `spaces` (added to those known).
    pub fn enter(&self, agent: AgentId, cycle: CycleId, state: AgentState, spaces: &[SpaceId]) {
        let mut all = self.lock();
        all.idle.remove(&agent);
        all.waits.end(agent);
        let activity = all.activities.entry(agent).or_insert_with(|| Activity {
            agent,
            state,
            cycle,
            spaces: BTreeSet::new(),
            delay: None,
            calls: Vec::new(),
        });
        activity.delay = None;
        activity.state = state;
        activity.cycle = cycle;
        activity.spaces.extend(spaces);
        let topics = topics_of(agent, &activity.spaces);
        let update = Update::State { agent, state, cycle: Some(cycle), reason: None, idle: None };
        self.bus.publish(&topics, Arc::new(update));
    }

    /// A call begins, or ends: the update says which.
    pub(crate) fn tool(&self, agent: AgentId, update: Update) {
        let mut all = self.lock();
        let activity = all.activities.get_mut(&agent);
        match (&update, activity) {
            (Update::ToolStarted { call, tool, .. }, Some(activity)) => {
                activity.calls.push((call.clone(), tool.clone()));
            }
            (Update::ToolDone { call, .. } | Update::ToolError { call, .. }, Some(activity)) => {
                activity.calls.retain(|(running, _)| running != call);
            }
            _ => {}
        }
        self.bus.publish(&[Topic::Agent(agent)], Arc::new(update));
    }

    /// An awake agent makes no progress, for example because its model is called again.
    pub fn delayed(&self, agent: AgentId, kind: DelayKind, reason: String) {
        let mut all = self.lock();
        let Some(activity) = all.activities.get_mut(&agent) else { return };
        let why = reason.chars().take(limits::IDLE_REASON_CHARS).collect();
        activity.delay = Some(Delay { kind, why });
        let topics = topics_of(agent, &activity.spaces);
        let (state, cycle) = (activity.state, Some(activity.cycle));
        self.bus.publish(
            &topics,
            Arc::new(Update::State { agent, state, cycle, reason: Some(reason), idle: None }),
        );
    }

    /// The agent sleeps. Drafts that are left are withdrawn.
    pub fn idle(&self, agent: AgentId, reason: Option<String>) {
        let mut all = self.lock();
        let Some(activity) = all.activities.remove(&agent) else { return };
        self.withdraw_drafts(&mut all, agent);
        self.publish_asleep(agent, &activity.spaces, reason, None);
    }

    /// The agent waits for a person. The spaces that wait for it are notified.
    pub fn pause(&self, agent: AgentId, reason: String, waiting: &[SpaceId]) {
        let mut all = self.lock();
        let mut spaces: BTreeSet<SpaceId> = waiting.iter().copied().collect();
        spaces.extend(all.activities.remove(&agent).into_iter().flat_map(|activity| activity.spaces));
        self.withdraw_drafts(&mut all, agent);
        let (state, reason) = (AgentState::Paused, Some(reason));
        let update = Update::State { agent, state, cycle: None, reason, idle: None };
        self.bus.publish(&topics_of(agent, &spaces), Arc::new(update));
    }

    /// The agent sleeps although it has work, because its model cannot be used. The spaces that wait for it are
    /// notified, also if it was never shown as awake.
    pub fn back_off(&self, agent: AgentId, reason: String, idle: IdleUntil, waiting: &[SpaceId]) {
        let mut all = self.lock();
        let mut spaces: BTreeSet<SpaceId> = waiting.iter().copied().collect();
        spaces.extend(all.activities.remove(&agent).into_iter().flat_map(|activity| activity.spaces));
        self.withdraw_drafts(&mut all, agent);
        all.remember(agent, idle.until, &reason);
        self.publish_asleep(agent, &spaces, Some(reason), Some(idle));
    }

    fn publish_asleep(
        &self,
        agent: AgentId,
        spaces: &BTreeSet<SpaceId>,
        reason: Option<String>,
        idle: Option<IdleUntil>,
    ) {
        let update = Update::State { agent, state: AgentState::Sleeping, cycle: None, reason, idle };
        self.bus.publish(&topics_of(agent, spaces), Arc::new(update));
    }

    /// Appends to the draft of a message; begins it if it is new.
    pub fn draft(&self, agent: AgentId, space: SpaceId, message: MessageId, delta: &str) {
        self.append(agent, space, message, None, delta);
    }

    /// Appends to the draft of a visible call's arguments; begins it if it is new.
    pub fn draft_input(&self, agent: AgentId, space: SpaceId, message: MessageId, tool: &str, delta: &str) {
        self.append(agent, space, message, Some(tool), delta);
    }

    /// The cost depends on the length of `delta` only: the text so far is neither copied nor counted again.
    fn append(&self, agent: AgentId, space: SpaceId, message: MessageId, tool: Option<&str>, delta: &str) {
        let mut all = self.lock();
        let draft = all.drafts.entry(message).or_insert_with(|| Draft {
            space,
            message,
            agent,
            tool: tool.map(str::to_owned),
            text: String::new(),
            chars: 0,
        });
        draft.text.push_str(delta);
        draft.chars += delta.chars().count() as u64;
        let (delta, chars) = (delta.to_owned(), draft.chars);
        let update = match tool.map(str::to_owned) {
            None => Update::Draft { space, message, agent, delta, chars },
            Some(tool) => Update::ToolInput { space, message, agent, tool, delta, chars },
        };
        self.bus.publish(&[Topic::Space(space), Topic::Agent(agent)], Arc::new(update));
    }

    /// The committed message replaces the draft: no update is needed.
    pub fn drop_draft(&self, message: MessageId) {
        self.lock().drafts.remove(&message);
    }

    /// All drafts of the agent are withdrawn; watchers are notified.
    pub fn reset_drafts(&self, agent: AgentId) {
        let mut all = self.lock();
        self.withdraw_drafts(&mut all, agent);
    }

    fn withdraw_drafts(&self, all: &mut LiveState, agent: AgentId) {
        for (_, draft) in all.drafts.extract_if(|_, draft| draft.agent == agent) {
            self.publish_reset(&draft);
        }
    }

    fn publish_reset(&self, draft: &Draft) {
        let Draft { space, message, agent, .. } = *draft;
        let update = Update::DraftReset { space, message, agent };
        self.bus.publish(&[Topic::Space(space), Topic::Agent(agent)], Arc::new(update));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn topics_of(agent: AgentId, spaces: &BTreeSet<SpaceId>) -> Vec<Topic> {
    let mut topics = vec![Topic::Agent(agent)];
    topics.extend(spaces.iter().copied().map(Topic::Space));
    topics
}
