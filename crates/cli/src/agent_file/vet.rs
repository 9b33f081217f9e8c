//! Whether the models and tools that a config names are there: what only a server knows.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::port::{Models, Toolbox};

/// A server's models and tools.
#[derive(Clone)]
pub(crate) struct Vetting {
    /// Which models there are.
    pub(crate) models: Arc<dyn Models>,
    /// Which tools there are.
    pub(crate) toolbox: Arc<dyn Toolbox>,
}

impl Vetting {
    /// The keys that name what is not there, and what to do about each.
    pub(crate) fn judge(&self, config: &AgentConfig) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        for (key, model) in config.named_models() {
            if let Err(error) = self.models.model(Some(model)) {
                problems.push((key, format!("`{key}` names `{model}`: {error}")));
            }
        }
        problems.extend(unknown_tools(config, &self.toolbox.names()));
        problems
    }
}

/// The keys that name tools which are not among those that are known.
pub(crate) fn unknown_tools(config: &AgentConfig, known: &[String]) -> Vec<(&'static str, String)> {
    let unknown = config.unknown_tools(known).into_iter();
    unknown.map(|(key, what, hint)| (key, format!("{what}; {hint}"))).collect()
}
