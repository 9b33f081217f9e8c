//! The cards that a chat has shown, and the one that an answer is for. Pure; must not know the server.

use agent::approval::{ApprovalState, AskKind};
use agent::id::CallId;
use agent::space::{Message, MessageKind};
use api::ApprovalJson;
use serde::Deserialize;

use super::command::Line;
use crate::errors::{Exit, Failure, Result};

/// A card that waits for an answer, as it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) call: CallId,
    /// Of what was shown: another call is not answered.
    pub(crate) hash: String,
    pub(crate) kind: AskKind,
    /// The tool that is asked about.
    tool: String,
}

/// The cards that were shown and have not ended since, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cards(Vec<Card>);

/// What the message of a card says of its call.
#[derive(Deserialize)]
struct Shown {
    call: CallId,
    tool: String,
    approval: Asked,
}

#[derive(Deserialize)]
struct Asked {
    hash: String,
    kind: AskKind,
    state: ApprovalState,
}

impl Cards {
    /// Takes note of a message that is shown. Only the runtime writes messages of calls.
    pub(crate) fn message(&mut self, message: &Message) {
        let data = message.data.as_ref().filter(|_| message.kind == MessageKind::Tool);
        let Some(Ok(shown)) = data.map(Shown::deserialize) else { return };
        let Shown { call, tool, approval: Asked { hash, kind, state } } = shown;
        self.put(Card { call, hash, kind, tool }, state);
    }

    /// Takes note of a call that is shown; `false` if its card was shown before.
    pub(crate) fn call(&mut self, one: &ApprovalJson) -> bool {
        let known = self.0.iter().any(|card| card.call == one.call);
        let (call, hash, tool) = (one.call.clone(), one.hash.clone(), one.tool.clone());
        self.put(Card { call, hash, kind: one.kind, tool }, one.state);
        !known
    }

    /// Forgets the cards of other calls than these, which still wait.
    pub(crate) fn keep(&mut self, waiting: &[ApprovalJson]) {
        self.0.retain(|card| waiting.iter().any(|one| one.call == card.call));
    }

    fn put(&mut self, card: Card, state: ApprovalState) {
        self.0.retain(|known| known.call != card.call);
        if state == ApprovalState::Wanted {
            self.0.push(card);
        }
    }

    /// The ids of the calls, for completion.
    pub(crate) fn calls(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|card| card.call.to_string())
    }

    /// The card that a line answers, and what it says about it. `self` are the cards that were shown when the line was begun;
    /// a line that names a card may also mean one of those that are shown `now`.
    pub(crate) fn answered_by(&self, line: &Line<'_>, now: &Self) -> Result<(Card, Reply)> {
        let (text, fits): (&str, fn(AskKind) -> bool) = match line {
            Line::Approve(text) => (text, |kind| kind == AskKind::Approval),
            Line::Answer(text) => (text, |kind| kind != AskKind::Approval),
            Line::Refuse(text) => (text, |_| true),
            _ => return Err(Failure::usage("this line answers nothing")),
        };
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let named = self.0.iter().chain(&now.0).find(|card| card.call.0 == first);
        if let Some(card) = named {
            return Ok((card.clone(), Reply::of(line, rest.trim_start())));
        }
        if matches!(line, Line::Approve(_)) && !text.is_empty() {
            let message = format!("no card of a call `{first}` was shown here");
            return Err(Failure::new(Exit::NotFound, "not_found", message)
                .hint("`/approve` alone approves the only call that waits here"));
        }
        let mut fitting = self.0.iter().filter(|card| fits(card.kind));
        match (fitting.next(), fitting.next()) {
            (Some(card), None) => Ok((card.clone(), Reply::of(line, text))),
            (None, _) => {
                let message = "nothing that waits for such an answer was shown when this line was begun";
                Err(Failure::new(Exit::NotFound, "not_found", message)
                    .hint("read what waits now, then write the line again"))
            }
            (Some(_), Some(_)) => {
                let which: Vec<String> =
                    self.0.iter().filter(|card| fits(card.kind)).map(Card::line).collect();
                let example = which.first().and_then(|line| line.split(' ').next()).unwrap_or_default();
                let message =
                    format!("several calls waited here when this line was begun: {}", which.join(", "));
                let word = match line {
                    Line::Refuse(_) => "refuse",
                    Line::Answer(_) => "answer",
                    _ => "approve",
                };
                Err(Failure::usage(message).hint(format!("name one, such as `/{word} {example}`")))
            }
        }
    }
}

impl Card {
    fn line(&self) -> String {
        format!("{} ({})", self.call, self.tool)
    }
}

/// What a person says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Approve,
    Refuse(String),
    Answer(String),
}

impl Reply {
    fn of(line: &Line<'_>, text: &str) -> Self {
        match line {
            Line::Refuse(_) => Self::Refuse(text.to_owned()),
            Line::Answer(_) => Self::Answer(text.to_owned()),
            _ => Self::Approve,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(kind: &str, call: &str, asked: &str, state: &str) -> Message {
        let id = "00000000-0000-0000-0000-000000000001";
        let approval = json!({"hash": format!("hash of {call}"), "kind": asked, "state": state});
        serde_json::from_value(json!({
            "id": id, "space": id, "seq": 1, "rev": 1, "sender": id, "kind": kind, "text": "", "mentions": [],
            "urgent": false, "at": "2026-01-01T00:00:00Z", "cycle": null, "call": call,
            "data": {"call": call, "tool": "poke", "approval": approval}, "root": "r", "hop": 0,
        }))
        .unwrap()
    }

    fn cards(shown: &[(&str, &str, &str)]) -> Cards {
        let mut cards = Cards::default();
        shown.iter().for_each(|(call, asked, state)| cards.message(&message("tool", call, asked, state)));
        cards
    }

    fn chosen(begun: &Cards, line: &str, now: &Cards) -> Result<(String, Reply)> {
        begun.answered_by(&Line::read(line), now).map(|(card, reply)| (card.hash, reply))
    }

    #[test]
    fn an_answer_is_for_the_card_that_was_shown_when_its_line_was_begun() {
        let begun = cards(&[("c1", "approval", "wanted")]);
        let now = cards(&[("c2", "approval", "wanted")]);
        assert_eq!(chosen(&begun, "/approve", &now).unwrap(), ("hash of c1".into(), Reply::Approve));
        let none = chosen(&Cards::default(), "/approve", &now).unwrap_err();
        assert!(none.message.contains("when this line was begun"), "{}", none.message);
        assert_eq!(chosen(&begun, "/approve c2", &now).unwrap().0, "hash of c2", "it is named");
        assert!(chosen(&begun, "/approve c3", &now).unwrap_err().message.contains("`c3`"));
    }

    #[test]
    fn of_several_cards_one_must_be_named() {
        let shown = [("c1", "approval", "wanted"), ("c2", "approval", "wanted"), ("c3", "text", "wanted")];
        let cards = cards(&shown);
        let failure = chosen(&cards, "/approve", &cards).unwrap_err();
        assert!(failure.message.contains("c1 (poke), c2 (poke)"), "{}", failure.message);
        assert_eq!(failure.advice(), "name one, such as `/approve c1`");
        let refused = chosen(&cards, "/refuse c2 too dear", &cards).unwrap();
        assert_eq!(refused, ("hash of c2".into(), Reply::Refuse("too dear".into())));
        let answered = chosen(&cards, "/answer the blue one", &cards).unwrap();
        assert_eq!(answered, ("hash of c3".into(), Reply::Answer("the blue one".into())));
    }

    #[test]
    fn a_card_that_ended_or_that_the_runtime_did_not_write_is_none() {
        let ended = cards(&[("c1", "approval", "wanted"), ("c1", "approval", "granted")]);
        assert!(chosen(&ended, "/approve", &ended).is_err());
        let mut forged = Cards::default();
        forged.message(&message("text", "c1", "approval", "wanted"));
        assert!(chosen(&forged, "/approve", &forged).is_err());
    }
}
