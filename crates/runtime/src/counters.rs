//! Counts what happens on this node since its start, for metrics: what passes the bus, model requests, and deliveries to targets. Must
//! not know who reads the counts, or in which form.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::alert::AlertKind;
use agent::call::OutcomeStatus;
use agent::changes::CommitKind;
use agent::event::EventProgress;
use agent::limits;
use agent::port::{Bus, Listener, ModelInfo};
use agent::run::{Ending, Usage};
use agent::update::{Topic, Update};

/// A number that only grows.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What was asked of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCounts {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that failed, by the class of the failure.
    pub failed: BTreeMap<&'static str, u64>,
    /// Tokens as reported.
    pub usage: Usage,
    /// What they cost, in micro-dollars, where the price and the tokens are known.
    pub cost_micros: u64,
}

/// How deliveries to targets went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It arrived.
    Arrived,
    /// It failed.
    Failed,
    /// It failed and was given up.
    GaveUp,
}

impl Attempt {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Arrived, Self::Failed, Self::GaveUp];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Arrived => "arrived",
            Self::Failed => "failed",
            Self::GaveUp => "gave_up",
        }
    }
}

/// The counts of this node.
#[derive(Debug, Default)]
pub struct NodeCounts {
    messages: Count,
    steps: Count,
    commits: Count,
    cycles: [Count; Ending::ALL.len()],
    calls: [Count; OutcomeStatus::ALL.len()],
    alerts: [Count; AlertKind::ALL.len()],
    attempts: [Count; Attempt::ALL.len()],
    models: Mutex<BTreeMap<String, ModelCounts>>,
}

impl NodeCounts {
    /// Messages that were posted.
    pub fn messages(&self) -> u64 {
        self.messages.read()
    }

    /// Decisions of agents.
    pub fn steps(&self) -> u64 {
        self.steps.read()
    }

    /// Commits of agents.
    pub fn commits(&self) -> u64 {
        self.commits.read()
    }

    /// Cycles, by how they ended.
    pub fn cycles(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Ending::ALL.into_iter().zip(&self.cycles).map(|(ending, count)| (ending.as_str(), count.read()))
    }

    /// Tool calls that ended, by how they did.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OutcomeStatus::ALL.into_iter().zip(&self.calls).map(|(status, count)| (status.as_str(), count.read()))
    }

    /// Alerts, by what they are about.
    pub fn alerts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AlertKind::ALL.into_iter().zip(&self.alerts).map(|(alert, count)| (alert.as_str(), count.read()))
    }

    /// Attempts at targets, by how they went.
    pub fn attempts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Attempt::ALL.into_iter().zip(&self.attempts).map(|(attempt, count)| (attempt.as_str(), count.read()))
    }

    /// What was asked of each model. Of too many, those that came last share one entry.
    pub fn models(&self) -> BTreeMap<String, ModelCounts> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ModelCounts>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_model(&self, model: &ModelInfo, change: impl FnOnce(&mut ModelCounts)) {
        let mut models = self.lock();
        let known = models.contains_key(&model.name) || models.len() < limits::METRIC_MODELS_MAX;
        change(models.entry(if known { model.name.clone() } else { "others".to_owned() }).or_default());
    }

    /// A request to a model was answered.
    pub(crate) fn answered(&self, model: &ModelInfo, usage: &Usage) {
        let price = model.price.and_then(|price| price.cost(usage));
        self.of_model(model, |counts| {
            counts.answered += 1;
            counts.usage.add(usage);
            counts.cost_micros = counts.cost_micros.saturating_add(price.unwrap_or(0));
        });
    }

    /// A request to a model failed.
    pub(crate) fn failed(&self, model: &ModelInfo, class: &'static str) {
        self.of_model(model, |counts| *counts.failed.entry(class).or_default() += 1);
    }

    /// An attempt at a target was made.
    pub(crate) fn attempt(&self, attempt: Attempt) {
        count(&self.attempts, &Attempt::ALL, attempt);
    }

    /// An alert was raised.
    pub(crate) fn alert(&self, alert: AlertKind) {
        count(&self.alerts, &AlertKind::ALL, alert);
    }

    fn update(&self, update: &Update) {
        match update {
            Update::Message { .. } => self.messages.add(1),
            Update::Commit { kind, .. } => {
                self.commits.add(1);
                self.steps.add(u64::from(*kind == CommitKind::Decide));
            }
            Update::CycleEnded { ending, .. } => count(&self.cycles, &Ending::ALL, *ending),
            Update::ToolDone { status, .. } => count(&self.calls, &OutcomeStatus::ALL, *status),
            Update::ToolError { .. } => count(&self.calls, &OutcomeStatus::ALL, OutcomeStatus::Error),
            Update::Alert { alert, .. } => self.alert(*alert),
            Update::EventProgress { progress: EventProgress::Dead, .. } => self.alert(AlertKind::EventDead),
            Update::Member { .. }
            | Update::Draft { .. }
            | Update::DraftReset { .. }
            | Update::State { .. }
            | Update::ToolInput { .. }
            | Update::ToolStarted { .. }
            | Update::Thought { .. }
            | Update::EventProgress { .. }
            | Update::Compaction { .. } => {}
        }
    }
}

fn count<T: PartialEq>(counts: &[Count], all: &[T], one: T) {
    if let Some(at) = all.iter().position(|known| *known == one) {
        counts[at].add(1);
    }
}

/// A bus that counts what passes it.
pub(crate) struct CountedBus {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) counters: Arc<NodeCounts>,
}

impl Bus for CountedBus {
    fn publish(&self, topics: &[Topic], update: Arc<Update>) {
        self.counters.update(&update);
        self.bus.publish(topics, update);
    }

    fn published(&self) -> u64 {
        self.bus.published()
    }

    fn subscribe(&self, topic: Topic) -> Box<dyn Listener> {
        self.bus.subscribe(topic)
    }

    fn listeners(&self, topic: Topic) -> usize {
        self.bus.listeners(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_beyond_the_limit_share_one_entry() {
        let counters = NodeCounts::default();
        let usage = Usage { input: Some(3), output: Some(1), ..Usage::default() };
        for n in 0..limits::METRIC_MODELS_MAX + 5 {
            let model = ModelInfo { name: format!("m{n:03}"), ..ModelInfo::default() };
            counters.answered(&model, &usage);
            counters.failed(&model, "network");
        }
        let models = counters.models();
        assert_eq!(models.len(), limits::METRIC_MODELS_MAX + 1);
        let others = &models["others"];
        assert_eq!((others.answered, others.usage.input, others.failed["network"]), (5, Some(15), 5));
    }
}
