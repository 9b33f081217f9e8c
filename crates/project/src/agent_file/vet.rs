//! Checks that the models and tools that a config names exist, which only a server knows.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::port::{Models, Toolbox};

/// A server's models and tools.
#[derive(Clone)]
pub struct Vetting {
    /// The models that exist.
    pub models: Arc<dyn Models>,
    /// The tools that exist.
    pub toolbox: Arc<dyn Toolbox>,
}

impl Vetting {
    /// The keys that name something that does not exist, and what to do about each.
    pub fn check(&self, config: &AgentConfig) -> Vec<(&'static str, String)> {
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

/// The keys that name unknown tools, and what to do about each.
pub fn unknown_tools(config: &AgentConfig, known: &[String]) -> Vec<(&'static str, String)> {
    let unknown = config.unknown_tools(known).into_iter();
    unknown.map(|(key, what, hint)| (key, format!("{what}; {hint}"))).collect()
}
