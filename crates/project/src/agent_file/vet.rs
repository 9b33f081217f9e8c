//! Checks that the models and tools that a config names exist, which only a server knows.

use std::sync::Arc;

use agent::config::AgentConfig;
use agent::port::{AgentTools, ModelError, Models, Toolbox};

use super::Remark;

/// A server's models and tools.
#[derive(Clone)]
pub struct Vetting {
    /// The models that exist.
    pub models: Arc<dyn Models>,
    /// The tools that exist.
    pub toolbox: Arc<dyn Toolbox>,
}

impl Vetting {
    /// The keys that name something that does not exist, and what to do about each. A model without a key is only a
    /// warning: it may get one, and until then the requests to it fail.
    pub fn check(&self, config: &AgentConfig) -> Vec<Remark> {
        let mut problems = Vec::new();
        for (key, model) in config.named_models() {
            let Err(error) = self.models.model(Some(model)) else { continue };
            let warning = matches!(error, ModelError::Auth(_));
            let why = match error {
                ModelError::Auth(why) => {
                    format!("{why}, and start the server again; until then requests to it fail")
                }
                ModelError::NoModel(why) => why,
                other => other.to_string(),
            };
            let says_it = why.contains(&format!("got `{model}`"));
            let what =
                if says_it { format!("`{key}`: {why}") } else { format!("`{key}` names `{model}`: {why}") };
            problems.push(Remark { key, what, warning });
        }
        let known = self.toolbox.names();
        problems.extend(unknown_tools(config, &known));
        let effect = |name: &str| self.toolbox.tool(name).map(|tool| tool.spec().effect);
        problems.extend(config.never_asked(&known, effect).map(|(what, hint)| Remark {
            key: "approve",
            what: format!("{what}; {hint}"),
            warning: false,
        }));
        let unmatched = config.unmatched_servers(&known).into_iter();
        problems.extend(unmatched.map(|(key, what)| Remark { key, what, warning: true }));
        let too_many = AgentTools::of(&*self.toolbox, &*self.models, config).too_many();
        problems.extend(too_many.map(|(what, hint)| Remark {
            key: "tools",
            what: format!("{what}; {hint}"),
            warning: false,
        }));
        problems
    }
}

/// The keys that name unknown tools, and what to do about each.
pub fn unknown_tools(config: &AgentConfig, known: &[String]) -> Vec<Remark> {
    let unknown = config.unknown_tools(known).into_iter();
    unknown.map(|(key, what, hint)| Remark { key, what: format!("{what}; {hint}"), warning: false }).collect()
}
