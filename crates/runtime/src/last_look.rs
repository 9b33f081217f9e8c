//! The last look at a call that the server runs, right before it leaves: whether the rule by which it needs no approval still
//! holds, and whether its requester has not said something urgent.

use std::sync::OnceLock;

use agent::call::{CallRow, Effect, Outcome};
use agent::port::{Beginning, BoxFuture, CallGate, ToolError};

use crate::Ports;

/// The gate of one call.
pub(crate) struct LastLook<'a> {
    ports: &'a Ports,
    row: &'a CallRow,
    barrier: bool,
    /// The outcome of a call that may not begin.
    kept: OnceLock<Outcome>,
}

impl<'a> LastLook<'a> {
    /// `barrier`: whether urgent events of a requester keep a call that cannot be repeated from beginning.
    pub(crate) fn at(ports: &'a Ports, row: &'a CallRow, barrier: bool) -> Self {
        Self { ports, row, barrier: barrier && row.effect == Effect::Unsafe, kept: OnceLock::new() }
    }

    /// The outcome of a call that was not let through, whatever its tool made of that.
    pub(crate) fn kept(self) -> Option<Outcome> {
        self.kept.into_inner()
    }
}

impl CallGate for LastLook<'_> {
    fn may_begin(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            if self.row.by_rule.is_none() && !self.barrier {
                return Ok(());
            }
            let looked = self.ports.calls.may_begin(self.row.id.clone(), self.barrier).await;
            let unread =
                |error| ToolError::new(format!("not run: whether it may begin cannot be read: {error}"));
            let outcome = match looked.map_err(unread)? {
                Beginning::Free => return Ok(()),
                Beginning::HeldBack => Outcome::held_back(),
                Beginning::RuleOver => Outcome::rule_over(),
            };
            Err(ToolError::new(self.kept.get_or_init(|| outcome).text.clone()))
        })
    }
}
