//! What targets are told, as JSON: the same bytes at each attempt. Must not know targets, or how anything is sent.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::approval::{Approval, AskKind, RequestedBy};
use crate::call::{CallRow, head_and_tail};
use crate::id::{AgentId, CallId, CycleId, EventId, SpaceId};
use crate::limits;
use crate::port::{AfterFailure, NewsKind, SendFailure};
use crate::run::{Ending, Run};
use crate::space::Message;

/// What a target may be told although no person has approved it: what the runtime itself knows. None can be made of a text or a
/// number that a model or its provider chose.
struct TargetFact(Value);

impl TargetFact {
    /// A handle, or the name of a space or of a tool, as people gave it.
    fn name(name: &str) -> Self {
        Self(name.into())
    }

    /// A word of the runtime.
    fn code(code: &'static str) -> Self {
        Self(code.into())
    }
}

macro_rules! facts {
    ($($known:ty: $known_as:ident => $json:expr),* $(,)?) => {
        $(impl From<$known> for TargetFact {
            fn from($known_as: $known) -> Self {
                Self($json)
            }
        })*
    };
}

facts! {
    Timestamp: at => json!(at),
    &CallId: id => json!(id),
    AgentId: id => json!(id),
    CycleId: id => json!(id),
    SpaceId: id => json!(id),
    &[RequestedBy]: all => all.iter().map(RequestedBy::told).collect(),
    &EventId: id => json!(id),
    AskKind: kind => kind.as_str().into(),
    Ending: ending => ending.as_str().into(),
}

impl<T: Into<TargetFact>> From<Option<T>> for TargetFact {
    fn from(known: Option<T>) -> Self {
        Self(known.map_or(Value::Null, |known| known.into().0))
    }
}

/// A body in the form that Standard Webhooks recommends.
fn body(kind: NewsKind, at: Timestamp, data: &Value) -> String {
    json!({"type": kind.as_str(), "timestamp": at, "data": data}).to_string()
}

fn body_of_facts<const N: usize>(
    kind: NewsKind,
    at: Timestamp,
    facts: [(&'static str, TargetFact); N],
) -> String {
    let data: Map<_, _> = facts.into_iter().map(|(key, fact)| (key.to_owned(), fact.0)).collect();
    body(kind, at, &data.into())
}

/// An agent as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAgent {
    /// Its id.
    pub id: AgentId,
    /// Its handle.
    pub handle: String,
}

/// A message was posted in the space with that handle by the member with that one. Here a target is told what an agent wrote: the
/// guard counts it as a way out.
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

/// A cycle of the agent with that handle ended. Why is in its run.
pub fn of_run(run: &Run, agent: &str) -> String {
    let facts = [
        ("agent", run.agent.into()),
        ("agent_handle", TargetFact::name(agent)),
        ("cycle", run.id.into()),
        ("ending", run.ending.into()),
        ("opened_at", run.opened_at.into()),
    ];
    body_of_facts(NewsKind::CycleEnded, run.ended_at, facts)
}

/// An event of that agent failed for good. Why is in the event.
pub fn of_dead_event(event: &EventId, agent: &NamedAgent, at: Timestamp) -> String {
    let facts = [
        ("alert", TargetFact::code("event_dead")),
        ("agent", agent.id.into()),
        ("agent_handle", TargetFact::name(&agent.handle)),
        ("event", event.into()),
    ];
    body_of_facts(NewsKind::Alert, at, facts)
}

/// A call of that agent waits for a person. Who asks, for what tool and why. `space` is the handle of where the card with all of it
/// is.
pub fn of_asked_call(call: &CallRow, asked: &Approval, agent: &NamedAgent, space: Option<&str>) -> String {
    let why = match (asked.question, asked.tainted) {
        (true, _) => "question",
        (false, true) => "strangers_text",
        (false, false) => "config",
    };
    let facts = [
        ("call", (&call.id).into()),
        ("agent", agent.id.into()),
        ("agent_handle", TargetFact::name(&agent.handle)),
        ("space", asked.space.into()),
        ("space_handle", space.map(TargetFact::name).into()),
        // What kind of question, the agent chooses, and how long it asks.
        ("kind", (!asked.question).then_some(asked.kind).into()),
        ("tool", TargetFact::name(&call.tool)),
        ("requested_by", asked.requested_by.as_slice().into()),
        ("why", TargetFact::code(why)),
        ("expires_at", (!asked.question).then_some(asked.expires_at).into()),
    ];
    body_of_facts(NewsKind::ApprovalWanted, asked.asked_at, facts)
}

/// The call of which a body tells that it waits for a person.
pub fn asked_call(body: &str) -> Option<CallId> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    let tells = body["type"] == NewsKind::ApprovalWanted.as_str();
    tells.then(|| CallId::deserialize(body["data"]["call"].take()).ok()).flatten()
}

/// The same body with the link with which the call is answered. Without the link it is kept: whoever has that may answer.
pub fn with_link(body: &str, link: String) -> Option<String> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    body["data"]["link"] = link.into();
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
    use crate::approval::Patience;
    use crate::call::{CallState, Effect, Runner};
    use crate::event::{Principal, Trust};
    use crate::run::Usage;

    /// What targets are told of every kind when the model and its provider choose this text and this number everywhere they can.
    fn told(kind: NewsKind, text: &str, number: u64) -> Vec<String> {
        let at = Timestamp::UNIX_EPOCH;
        let chosen = || Some(text.to_owned());
        let asked = |question| Approval {
            question,
            options: vec![text.to_owned()],
            schema: Some(json!({"title": text})),
            said: Some(text.to_owned()),
            requested_by: vec![
                RequestedBy::new(Principal::Own, &format!("plan {text}")),
                RequestedBy::new(Principal::Webhook("ci".into()), "ci"),
            ],
            ..Approval::wanted(
                if question && text.is_empty() { AskKind::Choice } else { AskKind::Text },
                if question { text } else { "the config wants it" }.into(),
                crate::approval::hash_of("pay", "1", text),
                Patience { pause_ms: 1, expires_ms: if question { number } else { 2 } },
                at,
            )
        };
        let call = CallRow {
            id: CallId("c1".into()),
            cycle: CycleId(uuid::Uuid::nil()),
            step: 0,
            index: 0,
            tool: "pay".into(),
            arguments: json!({"note": text, "n": number}).to_string(),
            effect: Effect::Unsafe,
            tool_version: "1".into(),
            runner: Runner::Node,
            claim: None,
            approval: None,
            by_rule: None,
            awaited: true,
            state: CallState::Planned,
            outcome: chosen().map(crate::call::Outcome::ok),
            trust: Trust::Outside,
        };
        let tokens = Some(number);
        let ada = NamedAgent { id: AgentId(uuid::Uuid::nil()), handle: "ada".to_owned() };
        let run = Run {
            id: CycleId(uuid::Uuid::nil()),
            agent: ada.id,
            ordinal: 1,
            woke_for: text.to_owned(),
            events: u32::try_from(number).unwrap(),
            opened_at: at,
            ended_at: at,
            steps: Vec::new(),
            usage: Usage { input: tokens, output: tokens, reasoning: tokens, cached: tokens },
            cost_micros: tokens,
            model: text.to_owned(),
            config_rev: 1,
            ending: Ending::Failed,
            reason: chosen(),
            summary: chosen(),
        };
        match kind {
            // The guard asks a person before an agent posts where a target is told.
            NewsKind::Message => Vec::new(),
            NewsKind::CycleEnded => vec![of_run(&run, "ada")],
            NewsKind::Alert => vec![of_dead_event(&EventId("e1".into()), &ada, at)],
            NewsKind::ApprovalWanted => [true, false]
                .map(|question| of_asked_call(&call, &asked(question), &ada, Some("home")))
                .into(),
        }
    }

    #[test]
    fn no_kind_of_news_says_what_a_model_or_its_provider_chose() {
        for kind in NewsKind::ALL {
            let (one, other) = (told(kind, "the code is 4711", 4_711_000), told(kind, "", 815_000));
            assert_eq!(one, other, "the same bytes, whatever they choose");
        }
        let told: Vec<Value> = told(NewsKind::ApprovalWanted, "4711", 1)
            .iter()
            .map(|told| serde_json::from_str(told).unwrap())
            .collect();
        let parts = |told: &Value| ["tool", "why", "expires_at"].map(|key| told["data"][key].clone());
        assert_eq!(told[0]["data"]["requested_by"], json!(["itself", "ci"]));
        assert_eq!(parts(&told[0]), [json!("pay"), json!("question"), Value::Null]);
        assert_eq!(parts(&told[1]), [json!("pay"), json!("config"), json!("1970-01-01T00:00:00.002Z")]);
    }

    #[test]
    fn only_news_of_a_call_that_waits_get_a_link() {
        let asked = &told(NewsKind::ApprovalWanted, "", 1)[0];
        assert_eq!(asked_call(asked), Some(CallId("c1".into())));
        let linked: Value = serde_json::from_str(&with_link(asked, "https://x".into()).unwrap()).unwrap();
        assert_eq!((&linked["data"]["link"], &linked["data"]["tool"]), (&json!("https://x"), &json!("pay")));
        for other in [NewsKind::Message, NewsKind::CycleEnded, NewsKind::Alert] {
            assert_eq!(asked_call(&body(other, Timestamp::UNIX_EPOCH, &json!({"call": "c1"}))), None);
        }
        assert_eq!(asked_call("no JSON"), None);
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
