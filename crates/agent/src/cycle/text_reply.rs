//! What becomes of a reply that is text without a call. Such text is private. But a model that answers a person in
//! plain text would look dead, so with `reply: auto` a notice explains once how to post, and if it writes text again, that text
//! is posted. With `reply: text` the first text is posted.

use jiff::Timestamp;

use super::decide::Decision;
use super::{Cycle, Step, names};
use crate::config::ReplyMode;
use crate::event::{Principal, Trust};
use crate::id::{MessageId, SpaceId};
use crate::life::{OpenCycle, Requester};
use crate::limits;
use crate::port::{Reply, ReplyPart, StopReason};
use crate::space::NewMessage;

/// Openings of calls that models write as text because of their training. Only those that data follows are calls.
const MARKERS: [&str; 8] = [
    "<tool_call>",
    "<|tool_call|>",
    "<function_call>",
    "<tool_calls>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<function=",
    "<invoke name=",
];

/// What becomes of a text without a call.
#[derive(Clone, Debug)]
pub(super) enum TextReply {
    /// The agent reads this notice and gets another step.
    Nudged(String),
    /// The text is posted, and the cycle ends.
    Posted(Box<NewMessage>),
    /// The text stays private, and the cycle ends; with the reason, if the text was meant to be posted.
    Private(Option<String>),
}

impl Cycle {
    /// What becomes of the reply's text; `None` if the reply has calls or was cut. `open` includes the events that the
    /// step shows.
    pub(super) fn text_reply(
        &self,
        step: &Step,
        decision: &Decision,
        open: &OpenCycle,
        now: Timestamp,
    ) -> Option<TextReply> {
        let reply = &decision.model_reply.reply;
        if !decision.calls.is_empty() || reply.stop != StopReason::End {
            return None;
        }
        let text = text_of(reply);
        let markup = is_call_as_text(&text);
        if self.must_call(step) {
            let more = open.nudges < limits::NUDGES_MAX;
            return Some(if more { self.nudged(markup, false) } else { TextReply::Private(None) });
        }
        let Some(space) = self.space_to_answer(open).filter(|_| !text.is_empty()) else {
            return Some(TextReply::Private(None));
        };
        let last_step = open.step + 1 >= self.pinned.config.limits.max_steps;
        let asks_first = self.pinned.config.reply == ReplyMode::Auto;
        if asks_first && open.nudges < limits::REPLY_NUDGES_MAX && !last_step {
            return Some(self.nudged(markup, true));
        }
        let why_not = if markup {
            Some("a tool call written as text was not posted".to_owned())
        } else if text.len() > limits::MESSAGE_MAX_BYTES {
            Some(format!("its text is longer than a message may be ({} bytes)", text.len()))
        } else {
            decision.text_refused.clone().or_else(|| step.gated(names::SEND_MESSAGE))
        };
        let trust = self.trust_of_message(step);
        let message = NewMessage { trust, ..self.message_of(text, space, open, now) };
        Some(match why_not.or_else(|| self.unapproved(step, std::slice::from_ref(&message))) {
            Some(why) => TextReply::Private(Some(why)),
            None => TextReply::Posted(Box::new(message)),
        })
    }

    /// The notice that tells the agent how to post its text, and what happens if it does not.
    fn nudged(&self, markup: bool, would_post: bool) -> TextReply {
        let what = match markup {
            true => "You wrote a tool call as text, so it was not made, and your text has reached nobody.",
            false => "Your text has reached nobody.",
        };
        let silent = if self.has_tool(names::DONE) { ", or done to stay silent" } else { "" };
        let next = match would_post && !markup {
            true => " If you write text without a call again, it is posted as your message.",
            false => "",
        };
        TextReply::Nudged(format!("[NOTICE] {what} Call send_message to post it{silent}.{next}"))
    }

    fn has_tool(&self, name: &str) -> bool {
        self.pinned.setup.tools.iter().any(|tool| tool.name == name)
    }

    /// The space in which the cycle must answer: people have opened it there, and it has sent nothing. With `reply: auto`
    /// one person: an answer to several may be meant for one of them.
    fn space_to_answer(&self, open: &OpenCycle) -> Option<SpaceId> {
        let [first, others @ ..] = open.requesters.as_slice() else { return None };
        let may_post = match self.pinned.config.reply {
            ReplyMode::Auto => others.is_empty() && self.has_tool(names::SEND_MESSAGE),
            ReplyMode::Text => others.iter().all(|other| other.space == first.space),
            ReplyMode::Tool => false,
        };
        let people_only = open.trust >= Trust::Member;
        match first {
            Requester { principal: Principal::Entity(_), space }
                if may_post && people_only && open.sent.is_empty() =>
            {
                *space
            }
            _ => None,
        }
    }

    fn message_of(&self, text: String, space: SpaceId, open: &OpenCycle, at: Timestamp) -> NewMessage {
        let sender = self.pinned.entity.id;
        NewMessage {
            id: MessageId::of_text(open.id, open.step),
            space,
            sender,
            text,
            mentions: Vec::new(),
            urgent: false,
            at,
            cycle: Some(open.id),
            call: None,
            data: None,
            principal: Principal::Entity(sender),
            trust: Trust::Outside,
            root: open.root.clone(),
            hop: open.hop,
        }
    }
}

/// The text of the reply outside its calls.
pub(super) fn text_of(reply: &Reply) -> String {
    let texts = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.trim()),
        ReplyPart::Reasoning(_) | ReplyPart::Call { .. } => None,
    });
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Whether the text contains a tool call as some models write it, or is one as JSON.
fn is_call_as_text(text: &str) -> bool {
    let marked = |marker: &str| {
        text.find(marker).is_some_and(|at| {
            let after = text[at + marker.len()..].trim_start();
            // A name follows directly in `<function=name>`.
            marker.ends_with('=') || after.starts_with(['{', '[', '<'])
        })
    };
    MARKERS.iter().any(|marker| marked(marker)) || is_call_as_json(text)
}

fn is_call_as_json(text: &str) -> bool {
    let body = text.trim().trim_start_matches("```json").trim_matches('`').trim();
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(body) else { return false };
    let has = |names: &[&str], fits: fn(&serde_json::Value) -> bool| {
        names.iter().any(|name| fields.get(*name).is_some_and(fits))
    };
    has(&["name", "tool", "function"], serde_json::Value::is_string)
        && has(&["arguments", "parameters", "args"], |value| value.is_object() || value.is_string())
}

#[cfg(test)]
mod tests {
    use super::is_call_as_text;

    #[test]
    fn calls_written_as_text_are_recognized_and_talk_about_them_is_not() {
        for call in [
            "<tool_call>\n{\"name\": \"send_message\", \"arguments\": {\"text\": \"hi\"}}\n</tool_call>",
            "I will answer.\n<tool_call>{\"name\": \"done\"}",
            "[TOOL_CALLS][{\"name\": \"done\", \"arguments\": {}}]",
            "<function=send_message>{\"text\": \"hi\"}</function>",
            "<tool_calls><invoke name=\"done\">",
            "{\"name\": \"send_message\", \"arguments\": {\"text\": \"hi\"}}",
            "```json\n{\"tool\": \"send_message\", \"parameters\": {\"text\": \"hi\"}}\n```",
        ] {
            assert!(is_call_as_text(call), "{call}");
        }
        for talk in [
            "Hello!",
            "Models open a call with <tool_call> and close it with </tool_call>.",
            "{\"name\": \"Ada\", \"age\": 36}",
            "{\"arguments\": {}}",
            "",
        ] {
            assert!(!is_call_as_text(talk), "{talk}");
        }
    }
}
