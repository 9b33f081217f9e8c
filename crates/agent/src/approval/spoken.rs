//! A message of a person that answers an open question in its space. It is a message all the same: the agent reads it, too.
//! Calls that wait for an approval are never answered that way: what is approved is exactly what a card shows.

use jiff::Timestamp;
use serde_json::Value;

use super::{Approval, AskKind, PersonVerdict};
use crate::entity::EntityKind;
use crate::event::Principal;
use crate::id::{CallId, EntityId};
use crate::limits;

/// A message that was posted, as far as it can be an answer.
#[derive(Clone, Copy, Debug)]
pub struct Spoken<'a> {
    /// The sender.
    pub sender: EntityId,
    /// Human or agent.
    pub kind: EntityKind,
    /// Whether the sender is the only person in the space.
    pub alone: bool,
    /// The text.
    pub text: &'a str,
    /// Members that it mentions.
    pub mentions: &'a [EntityId],
    /// When it was posted.
    pub at: Timestamp,
}

/// A question that waits in the space of the message.
#[derive(Clone, Copy, Debug)]
pub struct OpenQuestion<'a> {
    /// The agent that asks.
    pub agent: EntityId,
    /// The call.
    pub call: &'a CallId,
    /// What is asked.
    pub approval: &'a Approval,
    /// Whether the sender is one of those who may answer it.
    pub may: bool,
}

/// The question that the message answers, and how; `None` if it answers none, or nobody can say which.
pub fn answer_of<'a>(spoken: &Spoken<'_>, open: &[OpenQuestion<'a>]) -> Option<(&'a CallId, PersonVerdict)> {
    if spoken.kind != EntityKind::Human {
        return None;
    }
    let mut meant = open.iter().filter(|question| is_meant(spoken, question));
    let (only, None) = (meant.next()?, meant.next()) else { return None };
    Some((only.call, verdict(only.approval, spoken.text)?))
}

/// Whether the message is for whoever asks: it mentions the agent, or nobody, and its sender is the one whom the question is for.
fn is_meant(spoken: &Spoken<'_>, question: &OpenQuestion<'_>) -> bool {
    let asked = question.approval;
    let is_open =
        asked.question && asked.is_wanted() && asked.withdrawn.is_none() && spoken.at < asked.expires_at;
    let sender = Principal::Entity(spoken.sender);
    let is_for_sender = || {
        let requested = || asked.requested_by.iter().any(|by| by.principal == sender);
        spoken.alone || asked.people.contains(&spoken.sender) || requested()
    };
    let is_addressed = match spoken.mentions {
        [] => is_for_sender(),
        mentions => mentions.contains(&question.agent),
    };
    is_open && question.may && is_addressed
}

/// What the text says to the question: a text is an answer as it is, otherwise only the words that are asked for are.
fn verdict(asked: &Approval, text: &str) -> Option<PersonVerdict> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| !word.starts_with('@')).collect();
    let plain = words.join(" ").to_lowercase();
    let plain = plain.trim_end_matches(['.', '!', ',']);
    match (asked.kind, plain) {
        (AskKind::Approval, "approve" | "approved" | "yes") => {
            Some(PersonVerdict::Approve { arguments: None, remember: None })
        }
        (AskKind::Approval, "refuse" | "refused" | "no") => Some(PersonVerdict::Refuse),
        (AskKind::Choice, _) => {
            let mut options = asked.options.iter();
            let chosen = options.find(|option| option.trim().to_lowercase() == plain)?;
            Some(PersonVerdict::Answer(Value::String(chosen.clone())))
        }
        (AskKind::Text, _) => {
            let fits = !plain.is_empty() && text.len() <= limits::APPROVAL_TEXT_MAX_BYTES;
            fits.then(|| PersonVerdict::Answer(Value::String(text.to_owned())))
        }
        (AskKind::Approval | AskKind::Form, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::super::{ApprovalState, Patience, RequestedBy, Withdrawn};
    use super::*;

    const ADA: EntityId = EntityId(Uuid::from_u128(1));
    const BOB: EntityId = EntityId(Uuid::from_u128(2));
    const HUSAM: EntityId = EntityId(Uuid::from_u128(3));
    const MIRA: EntityId = EntityId(Uuid::from_u128(4));

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn question(kind: AskKind) -> Approval {
        let patience = Patience { pause_ms: 1_000, expires_ms: 9_000 };
        Approval {
            question: true,
            options: vec!["Red".into(), "blue".into()],
            requested_by: vec![RequestedBy::new(Principal::Entity(HUSAM), "husam")],
            ..Approval::wanted(kind, "Which?".into(), "h".into(), patience, at(0))
        }
    }

    fn spoken(text: &str) -> Spoken<'_> {
        Spoken { sender: HUSAM, kind: EntityKind::Human, alone: false, text, mentions: &[], at: at(1) }
    }

    fn answer(spoken: &Spoken<'_>, asked: &Approval) -> Option<PersonVerdict> {
        let call = CallId("c1".into());
        let open = [OpenQuestion { agent: ADA, call: &call, approval: asked, may: true }];
        answer_of(spoken, &open).map(|(_, verdict)| verdict)
    }

    #[test]
    fn the_words_of_a_message_answer_each_kind_of_question() {
        let yes = PersonVerdict::Approve { arguments: None, remember: None };
        let says = |answer: &str| Some(PersonVerdict::Answer(json!(answer)));
        for (kind, text, expected) in [
            (AskKind::Text, "the blue one, at noon", says("the blue one, at noon")),
            (AskKind::Text, " \n", None),
            (AskKind::Choice, "RED.", says("Red")),
            (AskKind::Choice, "@ada  blue", says("blue")),
            (AskKind::Choice, "the blue one", None),
            (AskKind::Approval, "Yes!", Some(yes.clone())),
            (AskKind::Approval, "approve", Some(yes)),
            (AskKind::Approval, "no", Some(PersonVerdict::Refuse)),
            (AskKind::Approval, "no idea", None),
            (AskKind::Form, r#"{"n": 1}"#, None),
        ] {
            assert_eq!(answer(&spoken(text), &question(kind)), expected, "{kind:?} {text:?}");
        }
        let long = "x".repeat(limits::APPROVAL_TEXT_MAX_BYTES + 1);
        assert_eq!(answer(&spoken(&long), &question(AskKind::Text)), None);
    }

    #[test]
    fn only_whoever_is_asked_answers_by_a_message_and_only_what_is_open() {
        let open = || question(AskKind::Text);
        let of_mira = || Approval { people: vec![MIRA], requested_by: Vec::new(), ..open() };
        let by = |sender| Spoken { sender, ..spoken("so") };
        for (why, spoken, asked, counts) in [
            ("the requester", by(HUSAM), open(), true),
            ("somebody else", by(MIRA), open(), false),
            ("somebody else who mentions the agent", Spoken { mentions: &[ADA], ..by(MIRA) }, open(), true),
            ("for another agent", Spoken { mentions: &[BOB], ..by(HUSAM) }, open(), false),
            ("to another person", Spoken { mentions: &[MIRA], ..by(HUSAM) }, open(), false),
            ("the only person", Spoken { alone: true, ..by(MIRA) }, open(), true),
            ("whom the question names", by(MIRA), of_mira(), true),
            ("whom it does not name", by(HUSAM), of_mira(), false),
            ("an agent", Spoken { kind: EntityKind::Agent, ..by(HUSAM) }, open(), false),
            ("too late", Spoken { at: at(9_000), ..by(HUSAM) }, open(), false),
            ("answered", by(HUSAM), Approval { state: ApprovalState::Answered, ..open() }, false),
            ("withdrawn", by(HUSAM), Approval { withdrawn: Some(Withdrawn::AgentLeft), ..open() }, false),
            ("a call to approve", by(HUSAM), Approval { question: false, ..open() }, false),
        ] {
            assert_eq!(answer(&spoken, &asked).is_some(), counts, "{why}");
        }
    }

    #[test]
    fn of_two_open_questions_a_message_answers_the_one_whose_agent_it_mentions() {
        let (asked, first, second) = (question(AskKind::Text), CallId("c1".into()), CallId("c2".into()));
        let of = |agent, call| OpenQuestion { agent, call, approval: &asked, may: true };
        let both = [of(ADA, &first), of(BOB, &second)];
        assert_eq!(answer_of(&spoken("so"), &both), None);
        let said = Spoken { mentions: &[BOB], ..spoken("so") };
        assert_eq!(answer_of(&said, &both).map(|(call, _)| call), Some(&second));
        assert_eq!(answer_of(&said, &[of(ADA, &first), OpenQuestion { may: false, ..both[1] }]), None);
    }
}
