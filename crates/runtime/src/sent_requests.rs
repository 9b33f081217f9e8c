//! Checks that each request extends the one before, within a cycle and across the cycles of one view, because only then a
//! provider's cache serves it, that it shows every pinned memory, and that the window has room for the history behind what
//! every request has. Must not know how requests are encoded: each wire's tests assert the same of its bytes.
//!
//! Between two activations it is kept with what else is kept of an agent in memory, so there is nothing to compare with after
//! a restart.

use agent::alert::AlertKind;
use agent::config::Placement;
use agent::cycle::Cycle;
use agent::id::{AgentId, CycleId};
use agent::life::Activation;
use agent::port::ModelInfo;
use agent::prompt::{Prompt, PromptParts};
use agent::run::SentRequest;

use crate::commit::raise;
use crate::live::Live;

/// The last requests of an agent.
#[derive(Default)]
pub(crate) struct SentRequests {
    /// What the system text is made of, in this activation.
    basis: Basis,
    /// The last one that was answered in this activation.
    last: Option<Sent>,
    /// The last one whose reply was committed, and with it all that it showed.
    decided: Option<Sent>,
    /// What operators were warned of that has outgrown its room, by the revision of the config.
    warned: (u64, Vec<AlertKind>),
}

/// What the system text is made of besides the tools: the revision of the config and the agent's name.
#[derive(Clone, Default, PartialEq)]
struct Basis {
    config_rev: u64,
    display_name: String,
    stays: bool,
}

#[derive(Clone)]
struct Sent {
    basis: Basis,
    model: String,
    view: u64,
    cycle: CycleId,
    parts: PromptParts,
}

impl SentRequests {
    /// For a new activation.
    pub(crate) fn begin(self, read: &Activation) -> Self {
        let stays = read.config.workspace.placement == Placement::Append;
        let basis =
            Basis { config_rev: read.config_rev, display_name: read.entity.display_name.clone(), stays };
        Self { basis, ..self.kept() }
    }

    /// What is kept of it between two activations.
    pub(crate) fn kept(self) -> Self {
        Self { last: None, ..self }
    }

    /// If something of the step's request has outgrown its room, operators are warned, once for each config.
    pub(crate) fn check_room(&mut self, live: &Live, agent: AgentId, cycle: &Cycle) {
        if self.warned.0 != self.basis.config_rev {
            self.warned = (self.basis.config_rev, Vec::new());
        }
        for crowded in cycle.crowded() {
            let (kind, cycle, text) = (crowded.alert(), cycle.id(), crowded.to_string());
            if self.warned.1.contains(&kind) {
                continue;
            }
            self.warned.1.push(kind);
            tracing::warn!(agent = live.name(agent), %cycle, "{text}");
            raise(live, agent, cycle, kind, text);
        }
    }

    /// What was sent with this request. If it shows the same view as the one before, to the same model, and does not extend
    /// it, operators are warned: the agent answers as well, but its whole history is paid again.
    pub(crate) fn note(
        &mut self,
        live: &Live,
        agent: AgentId,
        model: &ModelInfo,
        prompt: &Prompt,
    ) -> SentRequest {
        let (basis, model, view, cycle) = (self.basis.clone(), model.name.clone(), prompt.view, prompt.cycle);
        let sent = Sent { basis, model, view, cycle, parts: prompt.parts() };
        // Between two activations the tools may change: those of other servers do.
        let earlier = self.decided.as_ref().filter(|before| sent.parts.same_tools(&before.parts));
        let before = self.last.as_ref().or(earlier);
        let broken = before.and_then(|before| sent.first_difference(before));
        if let Some(first) = &broken {
            let text = format!(
                "a request to `{}` does not extend the one before it, so the provider's cache is of no use. First \
                 difference: {first}. The agent is not harmed; please report this",
                sent.model
            );
            tracing::warn!(agent = live.name(agent), %cycle, "{text}");
            raise(live, agent, cycle, AlertKind::PrefixBroken, text);
        }
        self.last = Some(sent);
        // The cycle knows the trust of its entries.
        SentRequest { prefix: prompt.fingerprint(), view, tokens: prompt.tokens, broken, trust: None }
    }

    /// The reply to the last request is committed, with the view that it showed if that is new.
    pub(crate) fn decided(&mut self, view: Option<u64>) {
        if let Some(last) = &mut self.last {
            last.view = view.unwrap_or(last.view);
            self.decided = Some(last.clone());
        }
    }

    /// The reply to the last request was not accepted, since events that it showed are gone: the next one does not extend it.
    pub(crate) fn refused(&mut self) {
        self.last = None;
    }

    /// About how many bytes are kept between two activations.
    pub(crate) fn bytes(&self) -> usize {
        self.decided.as_ref().map_or(0, |sent| sent.parts.bytes())
    }
}

/// If a request that is about to be sent does not show a pinned memory, operators are warned.
pub(crate) fn check_pins(live: &Live, agent: AgentId, cycle: &Cycle, prompt: &Prompt) {
    let missing = cycle.missing_pins(prompt);
    if missing.is_empty() {
        return;
    }
    let cycle = cycle.id();
    let text =
        format!("a request does not show the pinned memories `{}`; please report this", missing.join("`, `"));
    tracing::warn!(agent = live.name(agent), %cycle, "{text}");
    raise(live, agent, cycle, AlertKind::PinMissing, text);
}

impl Sent {
    /// The first difference to the request before, if it must extend that.
    fn first_difference(&self, before: &Self) -> Option<String> {
        let same = self.model == before.model && self.view == before.view && self.basis == before.basis;
        if !same {
            return None;
        }
        if self.basis.stays || self.cycle == before.cycle {
            return self.parts.first_difference(&before.parts);
        }
        self.parts.first_difference(&before.parts.clone().until_inbox())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agent::entry::{Entry, EntryKind};
    use agent::event::Trust;
    use agent::message::ModelMessage;
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
            ..ModelInfo::default()
        }
    }

    #[test]
    fn a_broken_prefix_is_reported_unless_the_view_or_the_model_changed() {
        let mut requests = SentRequests::default();
        let (live, agent) = (Live::default(), AgentId(Uuid::nil()));
        let mut updates = live.bus().subscribe(Topic::Agent(agent));
        let mut note = |name: &str, prompt: Prompt| requests.note(&live, agent, &model(name), &prompt);
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

    /// The requests of an activation of each cycle: the replies to these were committed.
    fn decided(cycles: &[(u128, &[&str])], placement: Placement) -> Vec<Option<String>> {
        let (live, agent, mut requests) = (Live::default(), AgentId(Uuid::nil()), SentRequests::default());
        let mut broken = Vec::new();
        for (cycle, layers) in cycles {
            let stays = placement == Placement::Append;
            requests = SentRequests { basis: Basis { stays, ..Basis::default() }, last: None, ..requests };
            let mut prompt = prompt(3, layers);
            prompt.cycle = CycleId(Uuid::from_u128(*cycle));
            prompt.items.insert(1, inbox(prompt.cycle));
            broken.push(requests.note(&live, agent, &model("m"), &prompt).broken);
            requests.decided(None);
        }
        broken
    }

    fn inbox(cycle: CycleId) -> Item {
        Item::Entry(Arc::new(Entry {
            seq: 1,
            cycle,
            step: 0,
            kind: EntryKind::Inbox,
            message: ModelMessage::user("[INBOX]"),
            tokens: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            trust: Trust::Member,
        }))
    }

    #[test]
    fn cycles_of_one_view_extend_each_other_up_to_the_inbox_entry_where_workspaces_vanish() {
        let cycles: [(u128, &[&str]); 3] =
            [(1, &["summary", "workspace 1"]), (2, &["summary", "workspace 2"]), (3, &["other"])];
        let workspace = Some("the layer `workspace 1`, item 2".to_owned());
        let summary = Some("the layer `summary`, item 0".to_owned());
        assert_eq!(decided(&cycles, Placement::Append), [None, workspace, summary.clone()]);
        assert_eq!(decided(&cycles, Placement::Fresh), [None, None, summary]);
        let one_cycle: [(u128, &[&str]); 2] = [(1, &["summary", "workspace 1"]), (1, &["summary", "again"])];
        assert!(
            decided(&one_cycle, Placement::Fresh)[1].is_some(),
            "a cycle that goes on shows its workspace"
        );
    }

    #[test]
    fn a_request_whose_reply_was_not_committed_binds_no_later_activation() {
        let (live, agent, mut requests) = (Live::default(), AgentId(Uuid::nil()), SentRequests::default());
        requests.note(&live, agent, &model("m"), &prompt(3, &["a"]));
        requests.decided(Some(4));
        requests.note(&live, agent, &model("m"), &prompt(4, &["a", "dropped"]));
        requests.refused();
        assert_eq!(requests.note(&live, agent, &model("m"), &prompt(4, &["a", "b"])).broken, None);
        requests.last = None;
        let broken = requests.note(&live, agent, &model("m"), &prompt(4, &["x"])).broken;
        assert_eq!(broken.unwrap(), "the layer `a`, item 0", "the view that the decision stored is compared");
        assert!(requests.bytes() > 0);
    }
}
