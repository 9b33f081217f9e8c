//! Who caused a call that waits for a person, as people and targets are told it.

use serde::{Deserialize, Serialize};

use crate::event::Principal;
use crate::quote;

/// One of those whose events the cycle of the call works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    /// On whose behalf.
    pub principal: Principal,
    /// In words: a handle, or what kind of event it was.
    pub name: String,
}

impl RequestedBy {
    /// The name is cut, and on one line.
    pub fn new(principal: Principal, name: &str) -> Self {
        Self { principal, name: quote::visible_line(&quote::beginning(name)) }
    }

    /// The name for those who are told nothing that the agent wrote, such as the name of a plan.
    pub fn told(&self) -> &str {
        match self.principal {
            Principal::Entity(_) | Principal::Credential(_) | Principal::Webhook(_) => &self.name,
            Principal::Own => "itself",
        }
    }
}
