//! What targets are told, as JSON: the same bytes at each attempt. Must not know targets, or how anything is sent.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::approval::{Approval, RequestedBy};
use crate::call::{CallRow, head_and_tail};
use crate::id::{AgentId, CallId, EventId};
use crate::limits;
use crate::port::{AfterFailure, NewsKind, SendFailure};
use crate::run::Run;
use crate::space::Message;

/// A body in the form that Standard Webhooks recommends.
fn body(kind: NewsKind, at: Timestamp, data: &Value) -> String {
    json!({"type": kind.as_str(), "timestamp": at, "data": data}).to_string()
}

/// An agent as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAgent {
    /// Its id.
    pub id: AgentId,
    /// Its handle.
    pub handle: String,
}

/// A message was posted in the space with that handle by the member with that one.
pub fn of_message(message: &Message, space: &str, sender: &str, is_agent: bool) -> String {
    let data = json!({
        "id": message.id,
        "space": message.space,
        "space_handle": space,
        "seq": message.seq,
        "sender": message.sender,
        "sender_handle": sender,
        "sender_kind": if is_agent { "agent" } else { "human" },
        "text": head_and_tail(&message.text, limits::TARGET_TEXT_MAX_BYTES),
        "urgent": message.urgent,
        "root": message.root,
        "hop": message.hop,
    });
    body(NewsKind::Message, message.at, &data)
}

/// A cycle of the agent with that handle ended.
pub fn of_run(run: &Run, agent: &str) -> String {
    let data = json!({
        "agent": run.agent,
        "agent_handle": agent,
        "cycle": run.id,
        "ending": run.ending.as_str(),
        "reason": run.reason,
        "opened_at": run.opened_at,
        "events": run.events,
    });
    body(NewsKind::CycleEnded, run.ended_at, &data)
}

/// An event of that agent failed for good.
pub fn of_dead_event(event: &EventId, agent: &NamedAgent, reason: Option<&str>, at: Timestamp) -> String {
    let NamedAgent { id, handle } = agent;
    let data = json!({
        "alert": "event_dead", "agent": id, "agent_handle": handle, "event": event, "reason": reason,
    });
    body(NewsKind::Alert, at, &data)
}

/// A call of that agent waits for a person. Who asks, for what tool and why: never what the agent wrote (the arguments of a call,
/// the text of a question), which nobody has approved to leave. `space` is the handle of where the card with all of it is.
pub fn of_asked_call(call: &CallRow, asked: &Approval, agent: &NamedAgent, space: Option<&str>) -> String {
    let why = if asked.question { "the agent asks a person" } else { asked.why.as_str() };
    let data = json!({
        "call": call.id,
        "agent": agent.id,
        "agent_handle": agent.handle,
        "space": asked.space,
        "space_handle": space,
        "kind": asked.kind.as_str(),
        "tool": call.tool,
        "requested_by": asked.requested_by.iter().map(RequestedBy::told).collect::<Vec<_>>(),
        "why": why,
        "hash": asked.hash,
        "expires_at": asked.expires_at,
    });
    body(NewsKind::ApprovalWanted, asked.asked_at, &data)
}

/// The same body with the link with which the call is answered, if it tells of a call that waits for a person. Without
/// the link it is kept: whoever has that may answer.
pub fn with_link(body: &str, link: impl FnOnce(&CallId, &str, Timestamp) -> String) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        call: CallId,
        hash: String,
        expires_at: Timestamp,
    }
    let mut body: Value = serde_json::from_str(body).ok()?;
    if body["type"] != NewsKind::ApprovalWanted.as_str() {
        return None;
    }
    let asked = Asked::deserialize(&body["data"]).ok()?;
    body["data"]["link"] = link(&asked.call, &asked.hash, asked.expires_at).into();
    Some(body.to_string())
}

/// The latest time at which what failed at `now` is tried again.
pub fn latest_attempt(now: Timestamp) -> Timestamp {
    now.checked_add(SignedDuration::from_millis(limits::TARGET_PAUSE_MAX_MS.cast_signed())).unwrap_or(now)
}

/// What becomes of a delivery of something that happened at `at`, after `attempts` failed attempts before this one.
pub fn after_failure(failure: &SendFailure, at: Timestamp, attempts: u32, now: Timestamp) -> AfterFailure {
    let age = now.duration_since(at);
    if *failure == SendFailure::Gone {
        return AfterFailure::Off;
    }
    if age >= SignedDuration::from_millis(limits::TARGET_GIVE_UP_MS.cast_signed()) {
        return AfterFailure::Dead;
    }
    let pause =
        limits::TARGET_PAUSE_MS.saturating_mul(1 << attempts.min(30)).min(limits::TARGET_PAUSE_MAX_MS);
    // What a target asks for can make its pause longer, and not shorter; for ever is not asked for.
    let asked = match failure {
        SendFailure::Busy { wait, .. } => u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        SendFailure::Gone | SendFailure::Failed(_) => 0,
    };
    let pause = pause.max(asked.min(limits::TARGET_RETRY_AFTER_MAX_MS));
    let pause = SignedDuration::from_millis(pause.cast_signed());
    AfterFailure::Retry(now.checked_add(pause).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::approval::{AskKind, Patience};
    use crate::call::{CallState, Effect, Runner};
    use crate::event::{Principal, Trust};
    use crate::id::CycleId;

    #[test]
    fn news_of_a_call_that_waits_say_nothing_that_the_agent_wrote() {
        let (secret, patience) = ("the code is 4711", Patience { pause_ms: 1, expires_ms: 2 });
        let asked = |question| Approval {
            question,
            options: vec![secret.to_owned()],
            schema: Some(json!({"title": secret})),
            said: Some(secret.to_owned()),
            requested_by: vec![
                RequestedBy::new(Principal::Own, &format!("plan {secret}")),
                RequestedBy::new(Principal::Webhook("ci".into()), "ci"),
            ],
            ..Approval::wanted(
                AskKind::Text,
                if question { secret } else { "the config wants it" }.into(),
                "h".into(),
                patience,
                Timestamp::UNIX_EPOCH,
            )
        };
        let call = CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(uuid::Uuid::nil()),
            step: 0,
            index: 0,
            tool: "pay".into(),
            arguments: json!({"note": secret}).to_string(),
            effect: Effect::Unsafe,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: true,
            state: CallState::Planned,
            outcome: None,
            trust: Trust::Outside,
        };
        for question in [true, false] {
            let ada = NamedAgent { id: AgentId(uuid::Uuid::nil()), handle: "ada".to_owned() };
            let told = of_asked_call(&call, &asked(question), &ada, Some("home"));
            assert!(!told.contains("4711"), "{told}");
            let told: Value = serde_json::from_str(&told).unwrap();
            let why = if question { "the agent asks a person" } else { "the config wants it" };
            assert_eq!(told["data"]["requested_by"], json!(["itself", "ci"]));
            assert_eq!((&told["data"]["tool"], &told["data"]["why"]), (&json!("pay"), &json!(why)));
        }
    }

    #[test]
    fn only_news_of_a_call_that_waits_get_a_link() {
        let link = |call: &CallId, hash: &str, end: Timestamp| format!("{call} {hash} {end}");
        let asked = json!({"call": "c1", "hash": "h", "expires_at": Timestamp::UNIX_EPOCH, "why": "w"});
        let told = |kind| body(kind, Timestamp::UNIX_EPOCH, &asked);
        let linked: Value =
            serde_json::from_str(&with_link(&told(NewsKind::ApprovalWanted), link).unwrap()).unwrap();
        assert_eq!(linked["data"]["link"], "c1 h 1970-01-01T00:00:00Z");
        assert_eq!((&linked["data"]["why"], &linked["type"]), (&json!("w"), &json!("approval.wanted")));
        for other in [NewsKind::Message, NewsKind::CycleEnded, NewsKind::Alert] {
            assert_eq!(with_link(&told(other), link), None);
        }
        assert_eq!(with_link("no JSON", link), None);
    }

    #[test]
    fn pauses_double_up_to_an_hour_and_end_after_three_days() {
        let at = Timestamp::UNIX_EPOCH;
        let failed = SendFailure::Failed("down".into());
        let pause = |attempts| match after_failure(&failed, at, attempts, at) {
            AfterFailure::Retry(next) => next.as_millisecond() as u64,
            other => panic!("{other:?}"),
        };
        assert_eq!([0, 1, 2].map(pause), [1, 2, 4].map(|n| n * limits::TARGET_PAUSE_MS));
        assert_eq!([10, 40, u32::MAX].map(pause), [limits::TARGET_PAUSE_MAX_MS; 3]);
        let busy = |seconds| {
            let failure =
                SendFailure::Busy { why: "it answered 429".into(), wait: Duration::from_secs(seconds) };
            match after_failure(&failure, at, 0, at) {
                AfterFailure::Retry(next) => next.as_millisecond() as u64,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([0, 300].map(busy), [limits::TARGET_PAUSE_MS, 300_000], "longer, and never shorter");
        assert_eq!(busy(u64::MAX), limits::TARGET_RETRY_AFTER_MAX_MS);
        let late = Timestamp::from_millisecond(limits::TARGET_GIVE_UP_MS as i64).unwrap();
        assert_eq!(after_failure(&failed, at, 80, late), AfterFailure::Dead);
        assert_eq!(after_failure(&SendFailure::Gone, at, 0, at), AfterFailure::Off);
    }
}
