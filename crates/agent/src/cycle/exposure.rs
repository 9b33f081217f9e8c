//! What a step's request shows to its model, how far that can be trusted, and how what its calls are given leaves.

use std::iter::once;
use std::sync::Arc;

use super::asking::ApprovalNeed;
use super::decide::{hash_of_message, text_field};
use super::{Cycle, Step, names};
use crate::call::CallRow;
use crate::entry::{Entry, EntryKind};
use crate::event::Trust;
use crate::guard::{self, Exposure, InView, WayOut};
use crate::id::SpaceId;
use crate::space::NewMessage;
use crate::tool::{ToolLabel, ToolSpec};

impl Cycle {
    /// What a call of this step could do harm with: all that its requests have shown, and what they would show now.
    pub(super) fn exposure(&self, step: &Step) -> Exposure {
        let now = Exposure::of(self.all_shown(step), &self.pinned.setup.tools);
        Exposure { trust: step.read.map_or(now.trust, |read| read.min(now.trust)), ..now }
    }

    fn all_shown<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = InView<'a>> {
        let entries = self.log.window.iter().chain(&step.entries).map(|entry| InView::Entry(entry));
        let facts = guard::of_facts(&self.outside.facts, &self.outside.recent);
        // A preview shows their beginnings.
        let waits = self.outside.waits.oldest.iter().chain(&self.outside.waits.urgent).map(InView::Waiting);
        once(InView::Summary(&self.log.view)).chain(entries).chain(facts).chain(waits)
    }

    /// The trust of what the agent says now: whoever reads it reads what came from strangers, at second hand.
    pub(super) fn trust_of_message(&self, step: &Step) -> Trust {
        self.exposure(step).trust.min(Trust::Agent)
    }

    /// How what this call is given leaves. `active` is the space to which a message goes that names none.
    pub(super) fn way_out(
        &self,
        step: &Step,
        spec: &ToolSpec,
        arguments: &str,
        active: Option<SpaceId>,
    ) -> WayOut {
        if spec.name == names::SEND_MESSAGE {
            let facts = &self.outside.facts;
            let told = match named_space(arguments) {
                Some(named) => match facts.find_space(&named) {
                    Some(found) => facts.is_told(Some(found.space.id)),
                    None => facts.told || facts.more_told,
                },
                None => facts.is_told(facts.default_space(active)),
            };
            return if told { WayOut::Space } else { WayOut::None };
        }
        let given = || guard::address(spec, arguments).is_some_and(|address| self.is_given(step, &address));
        match spec.labels.has(ToolLabel::Exfiltrates) && !given() {
            true => WayOut::Tool,
            false => WayOut::None,
        }
    }

    /// Whether a person named that address: in the agent's instructions, or in events in which nobody else says anything.
    fn is_given(&self, step: &Step, address: &str) -> bool {
        let by_people = |entry: &&Arc<Entry>| match entry.kind {
            EntryKind::Inbox | EntryKind::Injection => entry.trust >= Trust::Member,
            EntryKind::Assistant | EntryKind::Outcomes | EntryKind::Notice => false,
        };
        let mut entries = self.log.window.iter().chain(&step.entries).filter(by_people);
        guard::names_address(&self.pinned.config.instructions, address)
            || entries.any(|entry| guard::names_address(&entry.message.text(), address))
    }

    /// The space that is active after this call of `enter_space`; `None` if it is not known.
    pub(super) fn entered(&self, arguments: &str) -> Option<SpaceId> {
        let named = named_space(arguments)?;
        self.outside.facts.find_space(&named).map(|found| found.space.id)
    }

    /// The arguments of a message with the space to which it goes, for whoever is asked about it.
    pub(super) fn placed(&self, arguments: &str, active: Option<SpaceId>) -> Option<String> {
        let space = self.outside.facts.default_space(active)?;
        let name = &self.outside.facts.space(space)?.space.name;
        let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
        if named_space(arguments).is_some() {
            return None;
        }
        let rest = given.into_iter().filter(|(key, _)| key != "space");
        let placed = once(("space".to_owned(), name.as_str().into())).chain(rest);
        Some(serde_json::Value::Object(placed.collect()).to_string())
    }

    /// Where the message of this call was posted, and its hash.
    pub(super) fn posted(&self, row: &CallRow) -> Option<(SpaceId, String)> {
        let space = self.outside.facts.find_space(&named_space(&row.arguments)?)?.space.id;
        let text = text_field(&row.arguments, "text")?;
        Some((space, hash_of_message(space, &text)))
    }

    /// Why these messages of a call that nobody has approved are not posted.
    pub(super) fn unapproved(&self, step: &Step, messages: &[NewMessage]) -> Option<String> {
        let told = messages.iter().any(|message| self.outside.facts.is_told(Some(message.space)));
        let guarded = self.pinned.config.guard != guard::GuardMode::Off;
        let refuses = told && guarded && self.exposure(step).is_tainted();
        refuses.then(|| {
            "not posted: you have read text of strangers, and a server outside is told what is posted there; a person must \
             approve it. Call send_message with the space's handle in `space`"
                .to_owned()
        })
    }
}

/// What a message needs, or why it is not posted: whoever is asked about it must read where it goes.
pub(super) fn placed_message(
    need: ApprovalNeed,
    way_out: WayOut,
    arguments: &str,
) -> Result<ApprovalNeed, String> {
    let goes_anywhere = way_out == WayOut::Space && named_space(arguments).is_none();
    match need {
        ApprovalNeed::Ruled(_) | ApprovalNeed::Asked(_) if goes_anywhere => Err(
            "not posted: a person must approve it and read where it goes, and no space is active; call send_message again with \
             the space's handle in `space`"
                .to_owned(),
        ),
        need => Ok(need),
    }
}

fn named_space(arguments: &str) -> Option<String> {
    text_field(arguments, "space").filter(|named| !named.trim().is_empty())
}
