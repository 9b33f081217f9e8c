//! The models of one activation: the agent's own model, the others that its config names, and the encoded
//! fragments of the one used last. The state machine decides which model is used when.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::limits;
use agent::port::{
    BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Models, Piece, ReasoningReplay,
};

use crate::calibration::Calibration;

/// The models of one activation.
pub(crate) struct ModelSet {
    own: Arc<dyn Model>,
    others: Vec<(String, Arc<dyn Model>)>,
    /// Fragments encoded for the model of that name.
    memo: Memo,
    memo_model: String,
}

impl ModelSet {
    /// The models that a config names. One that cannot be had fails every request with the reason.
    pub(crate) fn of(models: &dyn Models, config: &AgentConfig, kept: Option<(Memo, String)>) -> Self {
        let find = |name: Option<&str>| models.model(name).unwrap_or_else(|error| unavailable(name, error));
        let own = find(config.model.as_deref());
        let mut others: Vec<(String, Arc<dyn Model>)> = Vec::new();
        let routed = config.routing.iter().map(|route| &route.model);
        for name in routed.chain(&config.fallback).chain(&config.history.summary_model) {
            if !others.iter().any(|(known, _)| known == name) {
                others.push((name.clone(), find(Some(name))));
            }
        }
        let (memo, memo_model) = kept.unwrap_or_default();
        Self { own, others, memo, memo_model }
    }

    /// The agent's own model.
    pub(crate) fn own(&self) -> &ModelInfo {
        self.own.info()
    }

    /// The names of all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(&self.own).chain(self.others.iter().map(|(_, model)| model));
        all.map(|model| model.info().name.as_str())
    }

    /// The other models, by their names in the config, with their windows in tokens of the estimate.
    pub(crate) fn others(&self, calibration: &Calibration) -> Vec<(String, ModelInfo)> {
        let scaled =
            |(name, model): &(String, Arc<dyn Model>)| (name.clone(), calibration.in_estimate(model.info()));
        self.others.iter().map(scaled).collect()
    }

    /// The named model or else the agent's own, with the fragments encoded for it before.
    pub(crate) fn select(&mut self, model: Option<&str>) -> (Arc<dyn Model>, &mut Memo) {
        let model = self.named(model);
        if self.memo_model != model.info().name {
            self.memo = Memo::default();
            self.memo_model.clone_from(&model.info().name);
        }
        (model, &mut self.memo)
    }

    /// The named model or else the agent's own, without touching the fragments.
    pub(crate) fn named(&self, model: Option<&str>) -> Arc<dyn Model> {
        let other = model.and_then(|model| self.others.iter().find(|(name, _)| name == model));
        Arc::clone(other.map_or(&self.own, |(_, model)| model))
    }

    /// The fragments and the name of their model, to be kept warm.
    pub(crate) fn into_memo(self) -> (Memo, String) {
        (self.memo, self.memo_model)
    }
}

/// A model that cannot be had: every request fails with the error of looking it up.
fn unavailable(name: Option<&str>, error: ModelError) -> Arc<dyn Model> {
    let info = ModelInfo {
        name: name.unwrap_or("none").to_owned(),
        provider: format!("unavailable:{}", name.unwrap_or("none")),
        context_window: limits::WINDOW_HOSTED,
        max_output: 0,
        reasoning_replay: ReasoningReplay::None,
        ..ModelInfo::default()
    };
    Arc::new(Unavailable { info, error })
}

struct Unavailable {
    info: ModelInfo,
    error: ModelError,
}

impl Model for Unavailable {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let error = self.error.clone();
        Box::pin(futures_util::stream::once(async move { Err(error) }))
    }
}
