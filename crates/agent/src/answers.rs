//! Outcomes from outside the cycle: the rules behind [`crate::port::Calls`], the same for every store. The first
//! the first one is written to the call row; later ones change nothing.

use jiff::Timestamp;

use crate::call::{Outcome, head_and_tail};
use crate::event::{Channel, Envelope, Event, EventData, EventKind, Principal, Trust};
use crate::id::{CallId, CycleId, EventId, RootId};
use crate::life::Standing;
use crate::limits;

/// Where an outcome goes that was written to its call row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// To the open cycle, which waits for it.
    ToCycle,
    /// Into the inbox, as an event.
    ToInbox,
    /// Nowhere: its agent is over.
    Nowhere,
}

/// Decides it. `awaited` is what the call row says, `cycle` its cycle, `open` the agent's open one.
pub fn goes(awaited: bool, cycle: CycleId, open: Option<CycleId>, standing: Standing) -> Goes {
    match standing {
        _ if awaited && open == Some(cycle) => Goes::ToCycle,
        Standing::Retired => Goes::Nowhere,
        Standing::Active | Standing::Suspended => Goes::ToInbox,
    }
}

/// The event by which an outcome comes that no cycle waits for any more. It descends from what its cycle did
/// when it decided on the call, else from itself.
pub fn event(
    call: &CallId,
    tool: String,
    outcome: &Outcome,
    (root, hop): (RootId, u32),
    at: Timestamp,
) -> Event {
    let id = format!("result:{call}");
    let root = if root.0.is_empty() { RootId(id.clone()) } else { root };
    Event {
        id: EventId(id),
        kind: EventKind::ToolResult,
        urgent: false,
        at,
        envelope: Envelope {
            principal: Principal::Own,
            channel: Channel::Tool,
            trust: Trust::Outside,
            root,
            hop,
        },
        data: EventData::ToolResult {
            call: call.clone(),
            tool,
            text: head_and_tail(&outcome.text, limits::RESULT_MAX_BYTES),
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

    #[test]
    fn an_outcome_goes_to_the_cycle_that_waits_for_it_else_into_the_inbox_of_whoever_is_not_over() {
        use Standing::{Active, Retired, Suspended};
        let cycle = |n| CycleId(Uuid::from_u128(n));
        for (awaited, open, standing, expected) in [
            (true, Some(1), Active, Goes::ToCycle),
            (true, Some(1), Suspended, Goes::ToCycle),
            (true, Some(1), Retired, Goes::ToCycle),
            (false, Some(1), Active, Goes::ToInbox),
            (true, Some(2), Active, Goes::ToInbox),
            (true, None, Suspended, Goes::ToInbox),
            (true, None, Retired, Goes::Nowhere),
            (false, Some(1), Retired, Goes::Nowhere),
        ] {
            let found = goes(awaited, cycle(1), open.map(cycle), standing);
            assert_eq!(found, expected, "{awaited} {open:?} {standing:?}");
        }
    }

    #[test]
    fn an_event_of_an_outcome_descends_from_its_cycle_else_from_itself() {
        let call = CallId("c1".into());
        let told = |root: &str| {
            let long = Outcome::ok("x".repeat(limits::RESULT_MAX_BYTES * 2));
            event(&call, "t".into(), &long, (RootId(root.into()), 3), Timestamp::UNIX_EPOCH)
        };
        let asked = told("asked");
        assert_eq!((asked.envelope.root.0.as_str(), asked.envelope.hop), ("asked", 3));
        assert_eq!(told("").envelope.root.0, "result:c1");
        let EventData::ToolResult { text, error: false, .. } = asked.data else { panic!("{asked:?}") };
        assert!(text.len() < limits::RESULT_MAX_BYTES + 100);
    }
}
