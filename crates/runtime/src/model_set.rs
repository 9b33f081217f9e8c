//! The models of one activation: the agent's own model, those that its config names besides, and the
//! encoded fragments of the one that spoke last. Who speaks when is decided by the machine.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::limits;
use agent::port::{
    BoxStream, Memo, Model, ModelError, ModelInfo, ModelRequest, Models, Piece, ReasoningReplay,
};

/// The models of one activation.
pub(crate) struct ModelSet {
    own: Arc<dyn Model>,
    others: Vec<(String, Arc<dyn Model>)>,
    /// Fragments as the model of that name encodes them.
    memo: Memo,
    memo_of: String,
}

impl ModelSet {
    /// The models that a config names. One that is not to be had speaks only of why.
    pub(crate) fn of(models: &dyn Models, config: &AgentConfig, kept: Option<(Memo, String)>) -> Self {
        let find = |name: Option<&str>| models.model(name).unwrap_or_else(|error| mute(name, error));
        let own = find(config.model.as_deref());
        let mut others: Vec<(String, Arc<dyn Model>)> = Vec::new();
        for name in config.routing.iter().map(|route| &route.model).chain(&config.fallback) {
            if !others.iter().any(|(known, _)| known == name) {
                others.push((name.clone(), find(Some(name))));
            }
        }
        let (memo, memo_of) = kept.unwrap_or_default();
        Self { own, others, memo, memo_of }
    }

    /// What is known of the agent's own model.
    pub(crate) fn own(&self) -> &ModelInfo {
        self.own.info()
    }

    /// What is known of the others, by the names of the config.
    pub(crate) fn others(&self) -> Vec<(String, ModelInfo)> {
        self.others.iter().map(|(name, model)| (name.clone(), model.info().clone())).collect()
    }

    /// Who is to speak, with what was encoded for that model before.
    pub(crate) fn speak(&mut self, model: Option<&str>) -> (Arc<dyn Model>, &mut Memo) {
        let other = model.and_then(|model| self.others.iter().find(|(name, _)| name == model));
        let model = Arc::clone(other.map_or(&self.own, |(_, model)| model));
        if self.memo_of != model.info().name {
            self.memo = Memo::default();
            self.memo_of.clone_from(&model.info().name);
        }
        (model, &mut self.memo)
    }

    /// The fragments and the name of their model, to be kept warm.
    pub(crate) fn into_memo(self) -> (Memo, String) {
        (self.memo, self.memo_of)
    }
}

/// A model that cannot speak: every request fails as finding the model did.
fn mute(name: Option<&str>, error: ModelError) -> Arc<dyn Model> {
    let info = ModelInfo {
        name: name.unwrap_or("none").to_owned(),
        provider: format!("mute:{}", name.unwrap_or("none")),
        context_window: limits::WINDOW_HOSTED,
        max_output: 0,
        reasoning_replay: ReasoningReplay::None,
        forced_tool_choice: false,
        price: None,
        demo: false,
    };
    Arc::new(Mute { info, error })
}

struct Mute {
    info: ModelInfo,
    error: ModelError,
}

impl Model for Mute {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _: ModelRequest<'_>) -> BoxStream<'static, Result<Piece, ModelError>> {
        let error = self.error.clone();
        Box::pin(futures_util::stream::once(async move { Err(error) }))
    }
}
