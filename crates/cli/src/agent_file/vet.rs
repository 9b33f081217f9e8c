//! Whether the models and tools that a config names are there: what only a server knows.

use std::sync::Arc;

use agent::config::{AgentConfig, nearest};
use agent::port::{Toolbox, Voices};

/// A server's voices and tools.
#[derive(Clone)]
pub(crate) struct Vetting {
    /// Which models there are.
    pub(crate) voices: Arc<dyn Voices>,
    /// Which tools there are.
    pub(crate) toolbox: Arc<dyn Toolbox>,
}

impl Vetting {
    /// The keys that name what is not there, and what to do about each.
    pub(crate) fn judge(&self, config: &AgentConfig) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if let Some(model) = &config.model
            && let Err(error) = self.voices.voice(Some(model))
        {
            problems.push(("model", format!("`model` names `{model}`: {error}")));
        }
        problems.extend(unknown_tools(config, &self.toolbox.names()));
        problems
    }
}

/// The keys that name tools which are not among those that are known.
pub(crate) fn unknown_tools(config: &AgentConfig, known: &[String]) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    let named = config.tools.iter().flatten().map(|tool| ("tools", tool));
    for (key, tool) in named.chain(config.stop.on_tools.iter().map(|tool| ("stop.on_tools", tool))) {
        if !known.contains(tool) {
            let hint = match nearest(tool, known.iter().map(String::as_str)) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known are `{}`", known.join("`, `")),
            };
            problems.push((key, format!("`{key}`: there is no tool `{tool}`; {hint}")));
        }
    }
    problems
}
