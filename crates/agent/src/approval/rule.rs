//! Approvals in advance: rules by which further calls of a tool need none.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Answerer;
use crate::call::CallRow;
use crate::id::{AgentId, EntityId, SpaceId};

/// An approval in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// Until when.
    pub until: Timestamp,
    /// Whether it also counts while the agent has read strangers' text.
    pub tainted: bool,
}

/// A rule: calls of that tool by that agent need no approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRule {
    /// The agent.
    pub agent: AgentId,
    /// The tool, by its exact name.
    pub tool: String,
    /// The version of the tool for which it was given: of another one nobody has approved anything.
    pub version: String,
    /// The space whose calls it is for, if a person gave it: `None` are calls without a space. An operator's is for all.
    pub space: Option<SpaceId>,
    /// Until when.
    pub until: Timestamp,
    /// Whether it also counts while the agent has read strangers' text.
    pub tainted: bool,
    /// Who gave it, in words.
    pub by: String,
    /// The person who gave it; `None`: an operator.
    pub person: Option<EntityId>,
    /// When.
    pub at: Timestamp,
}

impl ApprovalRule {
    /// Whether a person is asked all the same while the agent has read strangers' text, as it now has or has not.
    pub fn is_overruled(&self, tainted: bool) -> bool {
        tainted && !self.tainted
    }

    /// Whether a call of that tool needs no approval.
    pub fn covers(&self, tool: &str, version: &str, call: &ByRule, now: Timestamp) -> bool {
        let same = self.tool == tool && self.version == version;
        let here = self.space == call.space || self.person.is_none() && self.space.is_none();
        same && here && now < self.until && !self.is_overruled(call.tainted)
    }
}

/// What a rule must be for, to spare a call that runs by one its approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByRule {
    /// Whether the agent had read strangers' text: then only a rule counts that was given for that.
    pub tainted: bool,
    /// Where people would have been asked.
    pub space: Option<SpaceId>,
}

/// The rule that an answer to that call has given. A person speaks for the space that was asked, and an operator for all.
pub fn rule_of(agent: AgentId, row: &CallRow, remember: Remember) -> Option<ApprovalRule> {
    let approval = row.approval.as_ref()?;
    let by = approval.by.as_ref()?;
    let person = match by.who {
        Answerer::Person(person) => Some(person),
        Answerer::Operator => None,
        Answerer::Link => return None,
    };
    Some(ApprovalRule {
        agent,
        tool: row.tool.clone(),
        version: row.tool_version.clone(),
        space: approval.space.filter(|_| person.is_some()),
        until: remember.until,
        tainted: remember.tainted,
        by: by.name.clone(),
        person,
        at: by.at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_not_for_strangers_text_is_overruled_by_it() {
        let rule = |tainted| ApprovalRule {
            agent: AgentId(uuid::Uuid::nil()),
            tool: "t".into(),
            version: "1".into(),
            space: None,
            until: Timestamp::MAX,
            tainted,
            by: "kai".into(),
            person: None,
            at: Timestamp::UNIX_EPOCH,
        };
        for (of_rule, now, overruled) in
            [(false, true, true), (false, false, false), (true, true, false), (true, false, false)]
        {
            let rule = rule(of_rule);
            assert_eq!(rule.is_overruled(now), overruled);
            let call = ByRule { tainted: now, space: None };
            assert_eq!(rule.covers("t", "1", &call, Timestamp::UNIX_EPOCH), !overruled);
        }
    }
}
