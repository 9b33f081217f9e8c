//! Checks that each request of an activation extends the one before, because only then a provider's cache serves it. Must not
//! know how requests are encoded: each wire's tests assert the same of its bytes.

use agent::id::AgentId;
use agent::port::ModelInfo;
use agent::prompt::Prompt;
use agent::run::SentRequest;
use agent::update::AlertKind;

use crate::commit::publish_alert;
use crate::live::Live;

/// The last request that was answered, and its model.
#[derive(Default)]
pub(crate) struct SentRequests {
    last: Option<(String, Prompt)>,
}

impl SentRequests {
    /// What was sent with this request. If it shows the same view as the one before, to the same model, and does not extend
    /// it, operators are warned: the agent answers as well, but its whole history is paid again.
    pub(crate) fn note(
        &mut self,
        live: &Live,
        agent: AgentId,
        model: &ModelInfo,
        prompt: Prompt,
    ) -> SentRequest {
        let same = |(model_before, before): &&(String, Prompt)| {
            *model_before == model.name && before.cycle == prompt.cycle && before.view == prompt.view
        };
        let broken = self.last.as_ref().filter(same).and_then(|(_, before)| prompt.first_difference(before));
        if let Some(first) = &broken {
            let (cycle, model) = (prompt.cycle, &model.name);
            let text = format!(
                "a request to `{model}` does not extend the one before it, so the provider's cache is of no use. First \
                 difference: {first}. The agent is not harmed; please report this"
            );
            tracing::warn!(%agent, %cycle, "{text}");
            publish_alert(live, agent, cycle, AlertKind::PrefixBroken, text);
        }
        let (prefix, view, tokens) = (prompt.fingerprint(), prompt.view, prompt.tokens);
        self.last = Some((model.name.clone(), prompt));
        // The cycle knows the trust of its entries.
        SentRequest { prefix, view, tokens, broken, trust: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::id::CycleId;
    use agent::port::{Delivered, ReasoningReplay};
    use agent::prompt::{Item, ToolChoice};
    use agent::update::{Topic, Update};
    use futures_util::FutureExt;
    use uuid::Uuid;

    use super::*;

    fn prompt(view: u64, layers: &[&str]) -> Prompt {
        let items = layers.iter().map(|text| Item::Layer((*text).into())).collect();
        let (system, tools, cycle) = ("I am".into(), Arc::from(Vec::new()), CycleId(Uuid::nil()));
        let (choice, reasoning_from, tokens) = (ToolChoice::Auto, 0, 7);
        Prompt { system, tools, items, choice, cycle, reasoning_from, tokens, view }
    }

    fn model(name: &str) -> ModelInfo {
        ModelInfo {
            name: name.into(),
            provider: "p".into(),
            context_window: 100_000,
            max_output: 1_000,
            reasoning_replay: ReasoningReplay::None,
            forced_tool_choice: false,
            price: None,
            demo: false,
        }
    }

    #[test]
    fn a_broken_prefix_is_reported_unless_the_view_or_the_model_changed() {
        let mut requests = SentRequests::default();
        let (live, agent) = (Live::default(), AgentId(Uuid::nil()));
        let mut updates = live.bus().subscribe(Topic::Agent(agent));
        let mut note = |name: &str, prompt: Prompt| requests.note(&live, agent, &model(name), prompt);
        let first = note("m", prompt(3, &["a"]));
        assert_eq!((first.view, first.tokens, first.broken), (3, 7, None));
        let second = note("m", prompt(3, &["a", "b"]));
        assert!(second.broken.is_none() && second.prefix != first.prefix);
        assert_eq!(note("m", prompt(3, &["x", "b", "c"])).broken.unwrap(), "the layer `a`, item 0");
        assert_eq!(note("m", prompt(4, &["y"])).broken, None, "the history was compacted");
        assert_eq!(note("n", prompt(4, &["z"])).broken, None, "another model has another cache");
        let mut alert = || updates.next().now_or_never().flatten();
        let first = alert().expect("watchers are alerted");
        let Delivered::Update(first) = first else { panic!("wanted an update, got {first:?}") };
        let Update::Alert { alert: kind, text, .. } = &**first else {
            panic!("wanted an alert, got {first:?}")
        };
        assert_eq!(*kind, AlertKind::PrefixBroken);
        assert!(text.contains("First difference: the layer `a`, item 0"), "{text}");
        assert!(alert().is_none(), "once");
    }
}
