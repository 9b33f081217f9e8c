//! Outcomes from outside the cycle: the rules behind [`crate::port::Calls`], the same for every store. The first
//! outcome of a call is written to its row; later ones change nothing.

use jiff::Timestamp;

use crate::call::{CallRow, Outcome, OutcomeStatus, head_and_tail};
use crate::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use crate::id::{CycleId, EventId, RootId};
use crate::life::Standing;
use crate::limits;

/// Who gets an outcome after it was written to its call row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the open cycle, which waits for it.
    Cycle,
    /// Into the inbox, as an event.
    Inbox,
    /// Nobody: the agent is retired.
    Nobody,
}

/// Decides who gets an outcome. `awaited` and `cycle` are those of the call row; `open` is the agent's open cycle.
pub fn destination(awaited: bool, cycle: CycleId, open: Option<CycleId>, standing: Standing) -> Destination {
    match standing {
        _ if awaited && open == Some(cycle) => Destination::Cycle,
        Standing::Retired => Destination::Nobody,
        Standing::Active | Standing::Suspended => Destination::Inbox,
    }
}

/// Whether a worker's answer still says something, though its call is over: all that is known is that it was given up or
/// canceled while a worker had it.
pub fn answers_unknown(known: &Outcome) -> bool {
    matches!(known.status, OutcomeStatus::Unknown | OutcomeStatus::Canceled)
}

/// The event that delivers the outcome of a call for which no cycle waits any more. Its root and hop are those of the cycle
/// that decided the call; without them the event is its own root. `late` if the agent was told another outcome before.
pub fn event(
    row: &CallRow,
    outcome: &Outcome,
    (root, hop): (RootId, u32),
    at: Timestamp,
    late: bool,
) -> Event {
    let (call, remark) = (&row.id, row.remark());
    let id = format!("result:{call}{}", if late { ":late" } else { "" });
    let text = remark.map_or_else(|| outcome.text.clone(), |remark| format!("{remark}\n{}", outcome.text));
    let root = if root.0.is_empty() { RootId(id.clone()) } else { root };
    Event {
        id: EventId(id),
        kind: EventKind::ToolResult,
        urgent: false,
        at,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Tool,
            // What a tool says that returns no strangers' text is at least second hand, and may repeat what it was given.
            trust: outcome.trust.map_or(Trust::Outside, |trust| trust.min(Trust::Agent).min(row.trust)),
            root,
            hop,
        },
        data: EventData::ToolResult {
            call: call.clone(),
            tool: row.tool.clone(),
            text: head_and_tail(&text, limits::RESULT_MAX_BYTES),
            error: outcome.failed(),
            status: Some(outcome.status),
        },
        cites: None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::call::{CallState, Effect, Runner};
    use crate::id::CallId;

    #[test]
    fn an_outcome_goes_to_the_waiting_cycle_else_into_the_inbox_unless_the_agent_is_retired() {
        use Standing::{Active, Retired, Suspended};
        let cycle = |n| CycleId(Uuid::from_u128(n));
        for (awaited, open, standing, expected) in [
            (true, Some(1), Active, Destination::Cycle),
            (true, Some(1), Suspended, Destination::Cycle),
            (true, Some(1), Retired, Destination::Cycle),
            (false, Some(1), Active, Destination::Inbox),
            (true, Some(2), Active, Destination::Inbox),
            (true, None, Suspended, Destination::Inbox),
            (true, None, Retired, Destination::Nobody),
            (false, Some(1), Retired, Destination::Nobody),
        ] {
            let found = destination(awaited, cycle(1), open.map(cycle), standing);
            assert_eq!(found, expected, "{awaited} {open:?} {standing:?}");
        }
    }

    #[test]
    fn the_event_of_an_outcome_has_the_root_of_its_cycle_else_it_is_its_own_root() {
        let result_event = |root: &str| {
            let long = Outcome::ok("x".repeat(limits::RESULT_MAX_BYTES * 2));
            event(&row(Trust::Member), &long, (RootId(root.into()), 3), Timestamp::UNIX_EPOCH, false)
        };
        let asked = result_event("asked");
        assert_eq!((asked.envelope.root.0.as_str(), asked.envelope.hop), ("asked", 3));
        assert_eq!(result_event("").envelope.root.0, "result:c1");
        let EventData::ToolResult { text, error: false, .. } = asked.data else { panic!("{asked:?}") };
        assert!(text.len() < limits::RESULT_MAX_BYTES + 100);
    }

    fn row(trust: Trust) -> CallRow {
        CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(Uuid::nil()),
            step: 0,
            index: 0,
            tool: "t".into(),
            arguments: "{}".into(),
            effect: Effect::ReadOnly,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: false,
            state: CallState::Detached,
            outcome: None,
            trust,
        }
    }

    #[test]
    fn a_late_outcome_is_worth_no_more_than_what_was_read_when_it_was_asked_for() {
        let trust = |read, trust| {
            let outcome = Outcome { trust, ..Outcome::ok("as you said") };
            event(&row(read), &outcome, (RootId("r".into()), 1), Timestamp::UNIX_EPOCH, false).envelope.trust
        };
        assert_eq!(trust(Trust::Member, Some(Trust::Operator)), Trust::Agent, "at second hand");
        assert_eq!(
            trust(Trust::Outside, Some(Trust::Operator)),
            Trust::Outside,
            "it may repeat its arguments"
        );
        assert_eq!(trust(Trust::Member, None), Trust::Outside);
    }
}
