//! What is live on this node right now: who thinks, in which spaces, the drafts being written, and in words
//! why somebody rests (that it rests, and until when, stands in its rows).
//! Shown to watchers who connect in the middle; carries no truth and is gone with the process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use agent::id::{AgentId, CycleId, MessageId, SpaceId};
use agent::life::IdleUntil;
use agent::limits;
use agent::port::Bus;
use agent::update::{AgentState, Topic, Update};
use jiff::Timestamp;

use crate::bus::LocalBus;
use crate::waits::{Wait, Waiters};

/// What one awake agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Who.
    pub agent: AgentId,
    /// What it does.
    pub state: AgentState,
    /// In which cycle.
    pub cycle: CycleId,
    /// Spaces that this cycle has touched (its events came from there, or it spoke there).
    pub spaces: BTreeSet<SpaceId>,
}

/// A message being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Where.
    pub space: SpaceId,
    /// The id it will have.
    pub message: MessageId,
    /// Who writes.
    pub agent: AgentId,
    /// The tool whose arguments these are, where it is a visible call and not words.
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
}

/// Why an agent rests.
#[derive(Debug)]
struct Idle {
    /// Until then; a rest until another time is another rest.
    until: Timestamp,
    why: String,
}

impl LiveState {
    /// Keeps why, in place of somebody else's where there are too many.
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

/// The live state of this node, and the only publisher of an agent's transient updates: state and
/// update change under one lock, so that a snapshot taken after subscribing misses nothing.
pub struct Live {
    state: Mutex<LiveState>,
    bus: Arc<dyn Bus>,
}

impl Default for Live {
    /// Nothing is live, on a bus of this process.
    fn default() -> Self {
        Self::new(Arc::new(LocalBus::new()))
    }
}

impl Live {
    /// Nothing is live.
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self { state: Mutex::default(), bus }
    }

    /// The bus that updates go to.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// What the agent does on this node; `None` where it sleeps (or lives elsewhere).
    pub fn activity(&self, agent: AgentId) -> Option<Activity> {
        self.lock().activities.get(&agent).cloned()
    }

    /// In words why the agent rests until then, where it began to on this node: those of a vendor, for
    /// operators.
    pub fn why(&self, agent: AgentId, until: Timestamp) -> Option<String> {
        let state = self.lock();
        let rest = state.idle.get(&agent);
        // Rows count milliseconds.
        rest.filter(|rest| rest.until.as_millisecond() == until.as_millisecond()).map(|rest| rest.why.clone())
    }

    /// What the agent waits for that has something to do and is not awake.
    pub fn waits(&self, agent: AgentId) -> Option<Wait> {
        self.lock().waits.of(agent)
    }

    /// The agent has something to do, and waits for that before it is awake.
    pub fn wait(&self, agent: AgentId, wait: Wait) {
        let mut all = self.lock();
        if all.waits.begin(agent, wait)
            && let Some(wait) = all.waits.of(agent)
        {
            self.publish_asleep(agent, &BTreeSet::new(), Some(wait.words()), None);
        }
    }

    /// The agent does not wait any more, whether it was seen at work or not.
    pub fn go_on(&self, agent: AgentId) {
        self.lock().waits.end(agent);
    }

    /// The store refuses whatever is to be written, or does not any more.
    pub(crate) fn store_refuses(&self, why: Option<String>) {
        self.lock().waits.refused(why);
    }

    /// Everyone who is awake on this node.
    pub fn awake(&self) -> Vec<Activity> {
        let mut found: Vec<_> = self.lock().activities.values().cloned().collect();
        found.sort_by_key(|activity| activity.agent);
        found
    }

    /// Agents whose present cycle touched the space.
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

    /// The agent does something else now, in a cycle that touches `spaces` (added to those known).
    pub fn enter(&self, agent: AgentId, cycle: CycleId, state: AgentState, spaces: &[SpaceId]) {
        let mut all = self.lock();
        all.idle.remove(&agent);
        all.waits.end(agent);
        let activity = all.activities.entry(agent).or_insert_with(|| Activity {
            agent,
            state,
            cycle,
            spaces: BTreeSet::new(),
        });
        activity.state = state;
        activity.cycle = cycle;
        activity.spaces.extend(spaces);
        let topics = topics_of(agent, &activity.spaces);
        let update = Update::State { agent, state, cycle: Some(cycle), reason: None, idle: None };
        self.bus.publish(&topics, Arc::new(update));
    }

    /// Tells why an awake agent does not get on, such as that its model is asked again.
    pub fn note(&self, agent: AgentId, reason: String) {
        let all = self.lock();
        let Some(activity) = all.activities.get(&agent) else { return };
        let topics = topics_of(agent, &activity.spaces);
        let (state, cycle) = (activity.state, Some(activity.cycle));
        self.bus.publish(
            &topics,
            Arc::new(Update::State { agent, state, cycle, reason: Some(reason), idle: None }),
        );
    }

    /// The agent sleeps. Its drafts, if any are left, are void.
    pub fn idle(&self, agent: AgentId, reason: Option<String>) {
        let mut all = self.lock();
        let Some(activity) = all.activities.remove(&agent) else { return };
        self.void(&mut all, agent);
        self.publish_asleep(agent, &activity.spaces, reason, None);
    }

    /// The agent cannot think, and sleeps though it has work: the spaces that wait for it are told,
    /// whether it was seen at work or not.
    pub fn keep_back(&self, agent: AgentId, reason: String, idle: IdleUntil, waiting: &[SpaceId]) {
        let mut all = self.lock();
        let mut spaces: BTreeSet<SpaceId> = waiting.iter().copied().collect();
        spaces.extend(all.activities.remove(&agent).into_iter().flat_map(|activity| activity.spaces));
        self.void(&mut all, agent);
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

    /// Appends to the draft of what will be said, beginning it where it is new.
    pub fn draft(&self, agent: AgentId, space: SpaceId, message: MessageId, delta: &str) {
        self.grow(agent, space, message, None, delta);
    }

    /// Appends to the draft of a visible call's arguments, beginning it where it is new.
    pub fn draft_input(&self, agent: AgentId, space: SpaceId, message: MessageId, tool: &str, delta: &str) {
        self.grow(agent, space, message, Some(tool), delta);
    }

    /// Costs what `delta` is long: the text so far is neither copied nor counted again.
    fn grow(&self, agent: AgentId, space: SpaceId, message: MessageId, tool: Option<&str>, delta: &str) {
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

    /// The committed message replaces the draft: nothing more is to be told.
    pub fn drop_draft(&self, message: MessageId) {
        self.lock().drafts.remove(&message);
    }

    /// All drafts of the agent are void; watchers are told.
    pub fn reset_drafts(&self, agent: AgentId) {
        let mut all = self.lock();
        self.void(&mut all, agent);
    }

    fn void(&self, all: &mut LiveState, agent: AgentId) {
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
